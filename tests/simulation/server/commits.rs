//! Commits: one step each, with everything that tells of it behind it.

use usher_server::domain::event::TurnStart;
use usher_server::domain::lease::LostLease;
use usher_server::domain::{Change, Decision, Event};
use usher_server::net::wire;
use usher_server::service::AddError;
use usher_server::store::StoreError;
use usher_shared::id::{MessageId, SessionId};

use super::agent::Run;
use super::{AgentStep, Due, Fact, Server, Stop, watching};
use crate::broken::Broken;
use crate::luck::About;
use crate::schedule::Then;

impl Server {
    /// Writes what was decided for a request, and tells of it; unless the server dies before that.
    pub(super) fn commit<T>(&mut self, decision: Decision<T>) -> Result<T, Stop> {
        let Decision { changes, events, reply } = decision;
        let trap = self.up.as_mut().and_then(|up| up.trap.take());
        if changes.is_empty() && events.is_empty() {
            return match trap {
                Some(Then::CrashBefore | Then::CrashAfter) => Err(Stop::Crash),
                _ => Ok(reply),
            };
        }
        if self.now < self.full_until {
            return Err(store_failed());
        }
        let is_broken = |broken| self.rules.are(broken);
        match trap {
            Some(Then::CrashBefore) if is_broken(Broken::ReplyBeforeCommit) => {
                if let Some(up) = &mut self.up {
                    up.trap = trap;
                }
                return Ok(reply);
            }
            Some(Then::CrashBefore) => {
                if is_broken(Broken::EventsBeforeCommit) {
                    let before = self.store.clone();
                    self.store.apply(&changes);
                    self.publish(events);
                    self.tell_everybody();
                    self.store = before;
                }
                return Err(Stop::Crash);
            }
            _ => {}
        }
        self.remember_before();
        let dies = matches!(trap, Some(Then::CrashAfter));
        if dies && self.rules.are(Broken::ReceiptApart) {
            let first = changes.into_iter().filter(|one| !matches!(one, Change::InsertReceipt(..)));
            self.write(&first.collect::<Vec<_>>());
            return Err(Stop::Crash);
        }
        self.write(&changes);
        if dies {
            return Err(Stop::Crash);
        }
        self.publish(events);
        Ok(reply)
    }

    /// The same for what the server does by itself, which nothing refuses.
    pub(super) fn commit_own<T>(&mut self, decision: Decision<T>) -> T {
        let Decision { changes, events, reply } = decision;
        if !changes.is_empty() {
            self.remember_before();
            self.write(&changes);
        }
        self.publish(events);
        reply
    }

    pub(super) fn write(&mut self, changes: &[Change]) {
        self.store.apply(changes);
        self.commits += 1;
        for change in changes {
            if let Change::InsertMessage(_, _, message) = change {
                self.note_shown(message.id, 0, &message.content);
            }
        }
    }

    pub(super) fn remember_before(&mut self) {
        if self.rules.are(Broken::CrashForgets) {
            self.before = Some(Box::new(self.store.clone()));
        }
    }

    /// Tells of what was committed.
    pub(super) fn publish(&mut self, events: Vec<(SessionId, Event)>) {
        for (session, event) in events {
            match event {
                Event::MayStart => {
                    let millis = self.luck.of(About::Tell, self.commits, 10);
                    self.later(millis, Due::StartHead(session));
                }
                Event::TurnReserved(start) => self.run(session, &start),
                Event::StopAsked(turn) => {
                    self.later(30, Due::Agent(session, turn, AgentStep::Stop))
                }
                Event::EditLost(lost) => self.tell_lost(session, lost),
                Event::QueueChanged
                | Event::SessionChanged
                | Event::TurnStarted(_)
                | Event::MessageWritten(_)
                | Event::TurnEnded { .. } => self.broadcast(session, event),
                Event::TaskChanged(_) => {}
                Event::PlanChanged
                | Event::TaskGone(..)
                | Event::SessionGone(..)
                | Event::Hidden
                | Event::Deleted => panic!("nobody in the simulation makes {event:?}"),
            }
        }
    }

    pub(super) fn broadcast(&mut self, session: SessionId, event: Event) {
        if let Some(up) = &self.up {
            up.hub.event(session, event);
        }
        self.wake_watchers(session);
    }

    pub(super) fn note_shown(&mut self, id: MessageId, at: u64, text: &str) {
        let shown = self.shown.entry(id).or_default();
        let at = usize::try_from(at).expect("messages here are short");
        if at + text.len() > shown.len() {
            shown.truncate(at);
            shown.push_str(text);
        }
    }

    pub(super) fn run(&mut self, session: SessionId, start: &TurnStart) {
        self.turns += 1;
        let run = Run::drawn(self.luck, self.turns, self.is_healed);
        let millis = run.begins_after();
        if let Some(up) = &mut self.up {
            up.runs.insert(start.turn_id, run);
        }
        self.later(millis, Due::Agent(session, start.turn_id, AgentStep::HandOver));
    }

    pub(super) fn tell_lost(&mut self, session: SessionId, lost: LostLease) {
        self.facts.push(Fact::Lost(lost));
        let found = self.up.as_ref().and_then(|up| up.links.by_id(lost.link));
        if let Some(link) = found {
            let frame = watching::edit_lost(session, lost);
            self.send(link, frame);
        }
    }
}

/// What is answered when the database does not do what it should.
pub(super) fn store_failed() -> Stop {
    Stop::Refused(wire::add_error(AddError::Store(StoreError::Full)))
}
