//! The steps of a schedule, carried out.

use std::time::Duration;

use usher_shared::client::{DeliveryState, Engine, Input, Submission};

use super::{Happening, World};
use crate::schedule::{Act, Fault, Step, What};
use crate::server::sessions;

/// What is in flight when the server is told to stop has this long.
const STOPS_WITHIN_MS: u64 = 300;

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("no step lasts that long")
}

impl World {
    pub(super) fn step(&mut self, index: usize) {
        let Step { client, what, .. } = self.schedule.steps[index];
        match what {
            What::Act(act) if self.is_there(client) => self.act(client, act),
            What::Act(_) => {}
            What::Fault(fault) => self.fault(client, fault),
        }
    }

    fn act(&mut self, client: usize, act: Act) {
        match act {
            Act::Type(session, count) => {
                for _ in 0..count {
                    let submission = self.clients[client].types(session);
                    self.submit(client, submission);
                }
            }
            Act::TypeGiven { session, name, text } => {
                let submission = self.clients[client].types_given(session, name, text);
                // A program that is given IDs adopts nothing, so that it never meets one that a dead
                // client was given.
                if !self.clients[client].journal.knows(&submission.admission_id) {
                    self.submit(client, submission);
                }
            }
            Act::Open(session) => {
                let session = sessions()[session].1;
                self.clients[client].looks_at = Some(session);
                self.feed(client, Input::Open(session));
            }
            Act::Check => self.check(client),
            Act::Dismiss => self.dismiss(client),
            Act::Reconnect => self.feed(client, Input::Reconnect),
            Act::Ask(ask) => {
                if let Some(input) = self.clients[client].asks(ask) {
                    self.feed(client, input);
                }
            }
        }
    }

    fn fault(&mut self, client: usize, fault: Fault) {
        let now = self.now;
        match fault {
            Fault::Cut(heard) => {
                if let Some(link) = self.clients[client].link {
                    self.cut(link, heard);
                }
            }
            Fault::Hold(way, lasts) => self.network.hold(client, way, now + millis(lasts)),
            Fault::Slow { by, lasts } => {
                self.network.slow(client, millis(by), now + millis(lasts));
            }
            Fault::Unreachable(lasts) => self.network.be_unreachable(now + millis(lasts)),
            Fault::Trap(trap) => self.clients[client].traps.push(trap),
            Fault::CrashServer(down) => self.crash_server(millis(down)),
            Fault::StopServer(down) => self.stop_server(millis(down)),
            Fault::StoreFull(lasts) => self.server.fill_store_until(now + millis(lasts)),
            Fault::StoreAway(lasts) => self.server.lose_store_until(now + millis(lasts)),
            Fault::KillClient(journal, down) => self.kill_client(client, journal, millis(down)),
            Fault::Suspend(lasts) => {
                let until = now + millis(lasts);
                let known = &mut self.clients[client];
                known.asleep_until = known.asleep_until.max(until);
                self.at(until, Happening::Awake { client });
            }
            Fault::SetClock(by) => self.server.set_clock(by),
        }
    }

    fn stop_server(&mut self, down: u64) {
        if self.server.is_up() {
            let start = self.server.starts();
            self.server.drain();
            self.after_server();
            self.at(self.now + STOPS_WITHIN_MS, Happening::ServerGone { start });
            self.at(self.now + STOPS_WITHIN_MS + down, Happening::ServerStarts);
        }
    }

    /// Somebody can press a key: the program runs, and its machine is awake.
    fn is_there(&self, client: usize) -> bool {
        let client = &self.clients[client];
        client.engine.is_some() && self.now >= client.asleep_until
    }

    fn submit(&mut self, client: usize, submission: Submission) {
        let engine = self.clients[client].engine.as_ref();
        let is_known = engine.is_some_and(|engine| {
            engine.deliveries().any(|one| one.admission_id == submission.admission_id)
        });
        // The same ID twice is the same prompt to the engine, whatever its text.
        if !is_known {
            self.ledger.sends.submitted(client, &submission);
        }
        self.feed(client, Input::Submit(submission));
    }

    /// Presses "check and resend" on everything that is uncertain.
    pub(super) fn check(&mut self, client: usize) {
        let is_uncertain = |state: &DeliveryState| matches!(state, DeliveryState::Uncertain { .. });
        for id in self.deliveries(client, is_uncertain) {
            self.ledger.sends.checked(client, &id);
            self.feed(client, Input::CheckAndResend(id));
        }
    }

    /// Gives up everything that can be given up.
    pub(super) fn dismiss(&mut self, client: usize) {
        for id in self.deliveries(client, |_| true) {
            if !self.is_there(client) {
                return;
            }
            self.ledger.sends.dropped(client, &id);
            self.feed(client, Input::Dismiss(id.clone()));
            let engine = self.clients[client].engine.as_ref();
            let is_gone =
                engine.is_some_and(|engine| engine.deliveries().all(|one| one.admission_id != id));
            match is_gone {
                true => self.ledger.sends.let_go(client, &id),
                false => self.ledger.sends.not_dropped(client, &id),
            }
        }
    }

    pub(super) fn deliveries(
        &self,
        client: usize,
        wanted: impl Fn(&DeliveryState) -> bool,
    ) -> Vec<usher_shared::id::AdmissionId> {
        let engine = self.clients[client].engine.as_ref();
        let all = engine.map(Engine::deliveries).into_iter().flatten();
        all.filter(|one| wanted(&one.state)).map(|one| one.admission_id.clone()).collect()
    }
}
