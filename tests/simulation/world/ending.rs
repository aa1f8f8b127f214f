//! The end of a history: nothing goes wrong any more, and everything comes to rest.

use usher_shared::client::{DeliveryState, Freshness, Input, LinkState};

use super::{Happening, World};
use crate::client::Client;
use crate::server::Due;

/// Everything is at rest this long after the last fault: queues have run, too.
const SETTLED_WITHIN_MS: u64 = 600_000;
/// Every client knows what became of its prompts, and shows the present, this long after it.
const CLIENTS_SETTLED_WITHIN_MS: u64 = 90_000;
/// Edits go on for so long, which is longer than anybody may hold a lease without renewing it.
const EDITS_GO_ON_MS: u64 = 45_000;
/// Looked at this often.
const LOOK_MS: u64 = 1_000;

impl World {
    /// Ends all faults, waits until everything is at rest, presses what can be pressed, and compares
    /// what clients know with what is.
    pub(super) fn settle(&mut self) {
        self.heal();
        self.run_until(self.now + EDITS_GO_ON_MS);
        for client in 0..self.clients.len() {
            self.feed(client, Input::LeaveEdit);
        }
        self.rest();
        for client in 0..self.clients.len() {
            self.check(client);
        }
        self.rest();
        if self.ledger.wrong().is_some() {
            return;
        }
        for client in 0..self.clients.len() {
            let left = self.deliveries(client, |state| {
                matches!(state, DeliveryState::Uncertain { can_check: true })
            });
            // Of another life of its session nothing can be known any more.
            let (sends, store) = (&self.ledger.sends, &self.server.store);
            let left = left.into_iter().filter(|id| sends.is_of_now(client, id, store));
            let left: Vec<_> = left.collect();
            self.ledger.must(left.is_empty(), || {
                format!(
                    "client {client} checked {left:?} on a network that works, and knows nothing"
                )
            });
            if let Some(engine) = &self.clients[client].engine {
                self.ledger.settled(client, engine, &self.server);
                let keeps = self.ledger.sends.keeps_all(client, engine);
                self.must(keeps);
            }
            self.compare_journal(client);
        }
    }

    fn heal(&mut self) {
        let now = self.now;
        self.trace.note(now, || "nothing goes wrong any more".to_owned());
        self.network.heal(now);
        self.server.heal();
        self.at(now, Happening::ServerStarts);
        for client in 0..self.clients.len() {
            self.clients[client].traps.clear();
            self.clients[client].asleep_until = now;
            self.at(now, Happening::Awake { client });
            self.at(now, Happening::ClientStarts { client });
        }
    }

    /// Lets time pass until nothing is under way.
    fn rest(&mut self) {
        let since = self.now;
        loop {
            self.run_until(self.now + LOOK_MS);
            if self.ledger.wrong().is_some() || self.is_at_rest() {
                return;
            }
            let is_over = match self.clients.iter().all(is_idle) {
                true => self.now >= since + SETTLED_WITHIN_MS,
                false => self.now >= since + CLIENTS_SETTLED_WITHIN_MS,
            };
            if is_over {
                let under_way = self.under_way();
                let wrong = || format!("it does not come to rest: {under_way}");
                return self.ledger.must(false, wrong);
            }
        }
    }

    fn is_at_rest(&self) -> bool {
        let regular = |happening: &Happening| match happening {
            Happening::Due { start, due } => {
                *start != self.server.starts() || matches!(due, Due::Beat(_) | Due::Pass)
            }
            Happening::Deadline { .. } => true,
            Happening::Step(_)
            | Happening::Input { .. }
            | Happening::Journals { .. }
            | Happening::Sends { .. }
            | Happening::Awake { .. }
            | Happening::ClientStarts { .. }
            | Happening::Opened(_)
            | Happening::NotOpened { .. }
            | Happening::Arrives(..)
            | Happening::ServerStarts
            | Happening::ServerGone { .. } => false,
        };
        self.next.values().all(regular) && self.clients.iter().all(is_idle)
    }

    fn under_way(&self) -> String {
        let mut all = String::new();
        for (number, client) in self.clients.iter().enumerate() {
            let Some(engine) = &client.engine else { continue };
            let states: Vec<_> = engine.deliveries().map(|one| &one.state).collect();
            let freshness = engine.mirror().map(|mirror| mirror.freshness());
            let edit = engine.edit();
            all += &format!(
                "client {number}: {:?} {states:?} {freshness:?} {edit:?}; ",
                engine.link()
            );
        }
        all
    }

    /// What is over needs no row any more, and what is not has one or was said to have none.
    fn compare_journal(&mut self, client: usize) {
        let known = self.deliveries(client, |_| true);
        let left = self.clients[client].journal.ids(self.clients[client].life);
        let stray: Vec<_> = left.into_iter().filter(|id| !known.contains(id)).collect();
        self.ledger.must(stray.is_empty(), || {
            format!("the journal of client {client} keeps {stray:?}, which are over")
        });
    }
}

fn is_idle(client: &Client) -> bool {
    let Some(engine) = &client.engine else { return false };
    matches!(engine.link(), LinkState::Online { .. })
        && engine.mirror().is_some_and(|mirror| mirror.freshness() == Freshness::Live)
        && engine.deliveries().all(|one| one.state.is_undecided())
        && engine.edit().is_none()
}
