//! Starts and ends of the server, and the pass that looks for what nobody did.

use std::collections::BTreeMap;

use usher_server::net::Hub;
use usher_shared::id::{SessionId, TurnId};

use super::links::Links;
use super::{AgentStep, Due, Fact, Out, PASS_MS, Server, Up};
use crate::broken::Broken;

impl Server {
    /// Starts, and settles what the last start left.
    pub(crate) fn start(&mut self) {
        self.starts += 1;
        self.facts.push(Fact::Started);
        self.up = Some(Up {
            hub: Hub::of(Self::epoch(self.starts)),
            links: Links::default(),
            runs: BTreeMap::new(),
            draining: false,
            trap: None,
        });
        for row in self.store.rows().to_vec() {
            if let Some(recovered) = self.deciding().recover(&row) {
                self.commit_own(recovered);
            }
        }
        for row in self.store.rows().to_vec() {
            let held = self.deciding().hold_edits(&row, |_| true);
            self.commit_own(held);
        }
        self.later(0, Due::Pass);
    }

    /// Everything that was in memory is gone.
    pub(crate) fn crash(&mut self) {
        self.up = None;
        self.out.clear();
        if self.rules.are(Broken::CrashForgets)
            && let Some(before) = self.before.take()
        {
            self.store = *before;
        }
    }

    /// Begins to stop: what is in flight is finished, what comes now is refused.
    pub(crate) fn drain(&mut self) {
        if let Some(up) = &mut self.up {
            up.draining = true;
        }
        self.say_draining();
    }

    /// The database does not take writes right now; what an agent did is written later.
    pub(super) fn must_wait(&self) -> bool {
        self.now < self.full_until
    }

    pub(super) fn pass(&mut self) {
        if !self.must_wait() {
            for row in self.store.rows().to_vec() {
                let swept = self.deciding().sweep_edits(&row);
                self.commit_own(swept);
                self.start_head(row.session.id);
            }
        }
        self.later(PASS_MS, Due::Pass);
    }

    pub(super) fn start_head(&mut self, id: SessionId) {
        let draining = self.up.as_ref().is_none_or(|up| up.draining);
        if self.must_wait() || draining {
            return;
        }
        let started = self.deciding().start_head(id);
        self.commit_own(started);
    }

    /// Does what it said it would do.
    pub(crate) fn due(&mut self, due: Due) {
        match due {
            Due::Work(link, lane) => self.work(link, lane),
            Due::Leaves(link, lane, answer) => self.leaves(link, lane, *answer),
            Due::Tell(link) => self.tell(link),
            Due::Beat(link) => self.beat(link),
            Due::StartHead(session) => self.start_head(session),
            Due::Agent(session, turn, step) => self.agent(session, turn, step),
            Due::Pass => self.pass(),
        }
    }

    /// Asks for the same step of an agent once more when the database works again.
    pub(super) fn agent_waits(&mut self, session: SessionId, turn: TurnId, step: AgentStep) {
        self.out.push(Out::Later(400, Due::Agent(session, turn, step)));
    }
}
