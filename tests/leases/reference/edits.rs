//! What the holder of a lease asks for, and what becomes of it when its link is gone.

use super::rules::{Fault, HOLD_MAX, Rules, TTL};
use super::{CONFLICT, Entry, Lease, NOT_FOUND, Start, State};
use crate::call::{Answer, Call};

impl State {
    pub(super) fn begin(&mut self, call: &Call, entry: u32, rules: Rules) -> Answer {
        let Some(index) = self.visible(entry) else { return NOT_FOUND };
        if let Some(lease) = self.live(entry, rules) {
            return Answer::Taken { holder_is_you: lease.link == Some(call.link) };
        }
        self.lose(entry, "expired", rules);
        if rules.fault == Some(Fault::GenerationBeginsAnew) {
            self.generations.remove(&entry);
        }
        let lease = Lease {
            name: call.number,
            link: Some(call.link),
            expires_at: self.now + TTL,
            until: self.now + HOLD_MAX,
            is_saved: false,
            operations: Vec::new(),
        };
        self.leases.insert(entry, lease);
        if rules.fault == Some(Fault::DisconnectEndsLaterLeases) {
            self.leased[call.link].push(entry);
        }
        let Entry { revision, content, .. } = self.entries[index].clone();
        Answer::Begun { generation: self.next_generation(entry), revision, content }
    }

    fn next_generation(&mut self, entry: u32) -> u64 {
        let generation = self.generations.entry(entry).or_default();
        *generation += 1;
        *generation
    }

    /// Returns the lease that its holder speaks of, if it is live and the holder's.
    fn held(&self, link: usize, entry: u32, lease: u32, rules: Rules) -> Option<&Lease> {
        self.live(entry, rules).filter(|live| live.name == lease && live.link == Some(link))
    }

    pub(super) fn renew(&mut self, link: usize, entry: u32, lease: u32, rules: Rules) -> Answer {
        let Some(index) = self.visible(entry) else { return NOT_FOUND };
        let stored = self.leases.get(&entry);
        let held = match rules.fault {
            Some(Fault::RenewAfterExpiry) => {
                stored.filter(|held| held.name == lease && held.link == Some(link))
            }
            _ => self.held(link, entry, lease, rules),
        };
        let Some(held) = held else { return CONFLICT };
        let from = match rules.fault {
            Some(Fault::RenewCountsFromExpiry) => held.expires_at,
            _ => self.now,
        };
        let expires_at = held.expires_at.max(held.until.min(from + TTL));
        let renewed = Lease { expires_at, ..held.clone() };
        self.leases.insert(entry, renewed);
        let generation = self.next_generation(entry);
        Answer::Renewed { generation, revision: self.entries[index].revision }
    }

    pub(super) fn save(
        &mut self,
        link: usize,
        entry: u32,
        lease: u32,
        (operation, expected, content): (u32, u64, &String),
        rules: Rules,
    ) -> Answer {
        let Some(index) = self.visible(entry) else { return NOT_FOUND };
        let held = match rules.fault {
            Some(Fault::SaveByAnyLink) => self.live(entry, rules).filter(|it| it.name == lease),
            Some(Fault::SaveUnderAnEndedLease) => self.leases.get(&entry),
            _ => self.held(link, entry, lease, rules),
        };
        let Some(held) = held else { return CONFLICT };
        let revision = self.entries[index].revision;
        let first = rules.fault == Some(Fault::SaveChecksRevisionFirst);
        if first && expected != revision {
            return Answer::Stale { revision };
        }
        let known = held.operations.iter().find(|(known, ..)| *known == operation);
        if let Some((_, saved, revision)) = known {
            return match saved == content {
                true => Answer::Saved { revision: *revision },
                false => Answer::Refused("operation_conflict"),
            };
        }
        if expected != revision {
            return Answer::Stale { revision };
        }
        let saved = &mut self.entries[index];
        saved.content.clone_from(content);
        saved.revision += 1;
        let revision = saved.revision;
        let held = self.leases.get_mut(&entry).expect("it is held");
        held.is_saved = true;
        if rules.fault != Some(Fault::SaveForgetsOperations) {
            held.operations.push((operation, content.clone(), revision));
        }
        Answer::Saved { revision }
    }

    pub(super) fn end(
        &mut self,
        link: usize,
        entry: u32,
        lease: u32,
        dispatch: bool,
        rules: Rules,
    ) -> Answer {
        if self.visible(entry).is_none() {
            return NOT_FOUND;
        }
        let held = match rules.fault {
            Some(Fault::EndOfAnyLink) => self.live(entry, rules).filter(|it| it.name == lease),
            _ => self.held(link, entry, lease, rules),
        };
        let Some(held) = held else { return CONFLICT };
        let counts = held.is_saved || rules.fault == Some(Fault::EndWithoutSaveStarts);
        if dispatch && counts {
            self.start = Start::Must;
        }
        self.leases.remove(&entry);
        Answer::Done
    }

    pub(super) fn reconnect(&mut self, link: usize, rules: Rules) -> Answer {
        if rules.fault == Some(Fault::DisconnectEndsLaterLeases) {
            for entry in std::mem::take(&mut self.leased[link]) {
                self.leases.remove(&entry);
            }
        }
        if rules.fault == Some(Fault::DisconnectWithoutHold) {
            self.leases.retain(|_, lease| lease.link != Some(link));
        }
        for lease in self.leases.values_mut().filter(|lease| lease.link == Some(link)) {
            lease.link = None;
            lease.operations.clear();
        }
        self.told.retain(|loss| loss.link != link);
        Answer::Done
    }
}
