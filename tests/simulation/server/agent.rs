//! Agents: each turn runs as its number decides.

use std::sync::Arc;

use usher_server::domain::message::{Message, MessageDetails};
use usher_server::domain::turn_end::TurnEnd;
use usher_server::domain::{Change, Decision, Event, turn};
use usher_shared::counter::MessageSeq;
use usher_shared::id::{MessageId, SessionId, TurnId};
use usher_shared::vocabulary::{MessageStatus, Role, TurnOutcome, TurnReason};

use super::{Due, Server};
use crate::luck::{About, Luck};

/// How an agent behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Quick,
    Talks,
    Long,
    Fails,
    CannotStart,
    Dies,
    Deaf,
}

/// A turn that runs.
pub(super) struct Run {
    manner: Manner,
    number: u64,
    luck: Luck,
    /// What it says.
    message: Option<(MessageId, MessageSeq)>,
    shown_bytes: u64,
    /// Shown, but not written.
    pending: String,
    stopping: bool,
}

/// What an agent does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentStep {
    HandOver,
    Accept,
    Say(u32),
    Write,
    End,
    Stop,
}

impl Run {
    pub(super) fn drawn(luck: Luck, number: u64, is_quick: bool) -> Self {
        let manner = match luck.of(About::Agent, number * 16, 20) {
            _ if is_quick => Manner::Quick,
            0..9 => Manner::Quick,
            9..14 => Manner::Talks,
            14 | 15 => Manner::Long,
            16 => Manner::Fails,
            17 => Manner::CannotStart,
            18 => Manner::Dies,
            _ => Manner::Deaf,
        };
        Self {
            manner,
            number,
            luck,
            message: None,
            shown_bytes: 0,
            pending: String::new(),
            stopping: false,
        }
    }

    fn millis(&self, which: u64, bound: u64) -> u64 {
        self.luck.of(About::Agent, self.number * 16 + which, bound)
    }

    pub(super) fn begins_after(&self) -> u64 {
        5 + self.millis(1, 60)
    }

    fn pieces(&self) -> u32 {
        match self.manner {
            Manner::Talks => 4,
            Manner::Quick | Manner::Long | Manner::Fails => 1,
            Manner::CannotStart | Manner::Dies | Manner::Deaf => 0,
        }
    }

    fn ends_after(&self) -> u64 {
        match self.manner {
            Manner::Quick | Manner::Fails => 10 + self.millis(2, 100),
            Manner::Talks => 300 + self.millis(2, 4_000),
            Manner::Long => 15_000 + self.millis(2, 20_000),
            Manner::CannotStart | Manner::Dies => 5,
            Manner::Deaf => 20_000,
        }
    }

    fn end(&self) -> TurnEnd {
        let end = |outcome, reason| TurnEnd { outcome, reason, text: None };
        match self.manner {
            Manner::Quick | Manner::Talks | Manner::Long => end(TurnOutcome::Completed, None),
            Manner::Fails => end(TurnOutcome::Failed, Some(TurnReason::Error)),
            Manner::CannotStart => end(TurnOutcome::Failed, Some(TurnReason::StartFailed)),
            Manner::Dies | Manner::Deaf => end(TurnOutcome::Failed, Some(TurnReason::AgentExit)),
        }
    }
}

impl Server {
    pub(super) fn agent(&mut self, session: SessionId, turn_id: TurnId, step: AgentStep) {
        let row = self.store.row(session);
        let is_open = row.is_some_and(|row| turn::open(&row.session, turn_id).is_ok());
        let known = self.up.as_ref().is_some_and(|up| up.runs.contains_key(&turn_id));
        if !is_open || !known {
            return;
        }
        if self.must_wait() {
            return self.agent_waits(session, turn_id, step);
        }
        match step {
            AgentStep::HandOver => self.hand_over(session, turn_id),
            AgentStep::Accept => {
                if let Some(accepted) = self.deciding().accept(session, turn_id) {
                    self.commit_own(accepted);
                }
            }
            AgentStep::Say(piece) => self.say(session, turn_id, piece),
            AgentStep::Write => self.write_text(turn_id),
            AgentStep::End => self.end(session, turn_id, None),
            AgentStep::Stop => self.stop(session, turn_id),
        }
    }

    fn run_mut(&mut self, turn: TurnId) -> Option<&mut Run> {
        self.up.as_mut()?.runs.get_mut(&turn)
    }

    fn hand_over(&mut self, session: SessionId, turn_id: TurnId) {
        let Some(row) = self.store.row(session) else { return };
        let handed = turn::hand_over(&row.session, turn_id);
        let Some(run) = self.run_mut(turn_id) else { return };
        let (manner, pieces, ends_after) = (run.manner, run.pieces(), run.ends_after());
        let accepts_after = 5 + run.millis(3, 80);
        if manner == Manner::CannotStart {
            return self.later(5, Due::Agent(session, turn_id, AgentStep::End));
        }
        // Stopped before anything was sent.
        let Ok(handed) = handed else { return };
        self.commit_own(handed);
        if !matches!(manner, Manner::Dies | Manner::Deaf) {
            self.later(accepts_after, Due::Agent(session, turn_id, AgentStep::Accept));
            for piece in 0..pieces {
                let millis = accepts_after + 1 + u64::from(piece) * 70;
                self.later(millis, Due::Agent(session, turn_id, AgentStep::Say(piece)));
            }
        }
        let millis = accepts_after + u64::from(pieces) * 70 + ends_after;
        self.later(millis, Due::Agent(session, turn_id, AgentStep::End));
    }

    fn say(&mut self, session: SessionId, turn_id: TurnId, piece: u32) {
        let id = MessageId::from_uuid(self.ids.next());
        let now = self.wall();
        let Some(row) = self.store.row(session) else { return };
        let (life, last_seq) = (row.session.clone(), row.session.last_seq);
        let Some(run) = self.run_mut(turn_id).filter(|run| !run.stopping) else { return };
        let text = format!("word {piece} of turn {}. ", run.number);
        let Some((message, seq)) = run.message else {
            run.message = Some((id, last_seq.next()));
            run.shown_bytes = text.len() as u64;
            let message = Message {
                id,
                session_id: session,
                incarnation_id: life.incarnation_id,
                seq: last_seq.next(),
                turn_id: Some(turn_id),
                role: Role::Agent,
                content_bytes: text.len() as u64,
                content: Arc::from(text),
                status: MessageStatus::Streaming,
                details: MessageDetails::default(),
                created_at: now,
            };
            let boxed = Box::new(message.clone());
            self.commit_own(Decision {
                changes: vec![Change::InsertMessage(life.key, life.incarnation_key, boxed)],
                events: vec![(session, Event::MessageWritten(Box::new(message)))],
                reply: (),
            });
            return;
        };
        // Shown at once, written in a moment.
        let at = run.shown_bytes;
        run.shown_bytes += text.len() as u64;
        run.pending.push_str(&text);
        self.note_shown(message, at, &text);
        if let Some(up) = &self.up {
            up.hub.delta(session, message, seq, at, &text);
        }
        self.wake_watchers(session);
        self.later(100, Due::Agent(session, turn_id, AgentStep::Write));
    }

    fn write_text(&mut self, turn_id: TurnId) {
        let Some(run) = self.run_mut(turn_id) else { return };
        let text = std::mem::take(&mut run.pending);
        let Some((id, _)) = run.message.filter(|_| !text.is_empty()) else { return };
        let at = run.shown_bytes - text.len() as u64;
        let changes = vec![Change::AppendMessage { id, at, text }];
        self.commit_own(Decision { changes, events: Vec::new(), reply: () });
    }

    fn end(&mut self, session: SessionId, turn_id: TurnId, end: Option<TurnEnd>) {
        self.write_text(turn_id);
        let Some(run) = self.run_mut(turn_id) else { return };
        let end = end.unwrap_or_else(|| run.end());
        if let Some(ended) = self.deciding().end_turn(session, turn_id, end) {
            self.commit_own(ended);
        }
        if let Some(up) = &mut self.up {
            up.runs.remove(&turn_id);
        }
    }

    fn stop(&mut self, session: SessionId, turn_id: TurnId) {
        let Some(run) = self.run_mut(turn_id) else { return };
        if run.stopping {
            let end = TurnEnd { outcome: TurnOutcome::Cancelled, reason: None, text: None };
            return self.end(session, turn_id, Some(end));
        }
        run.stopping = true;
        let millis = 20 + run.millis(4, 300);
        self.later(millis, Due::Agent(session, turn_id, AgentStep::Stop));
    }
}
