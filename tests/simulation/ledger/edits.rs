//! Who edits what: one at a time, under a lease that lives, and each save once.

use std::collections::BTreeMap;

use usher_server::domain::lease::{Lease, LeaseInstant, LinkId};
use usher_shared::client::{Edit, EditEnd, EditState};
use usher_shared::counter::TargetRevision;
use usher_shared::error::ErrorCode;
use usher_shared::id::{EntryId, LeaseId, OperationId};

use crate::server::{Fact, Server};
use crate::store::Row;

#[derive(Clone, Copy)]
struct Held {
    id: LeaseId,
    link: Option<LinkId>,
    expires_at: LeaseInstant,
    is_over: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Edits {
    leases: BTreeMap<EntryId, Held>,
    saves: BTreeMap<(LeaseId, OperationId), TargetRevision>,
    revisions: BTreeMap<OperationId, TargetRevision>,
}

type Checked = Result<(), String>;

fn must(holds: bool, or: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(or()) }
}

impl Edits {
    fn live(&self, entry: EntryId, now: LeaseInstant) -> Option<Held> {
        let held = self.leases.get(&entry).copied();
        held.filter(|held| !held.is_over && now < held.expires_at)
    }

    fn hold(&mut self, lease: Lease) {
        let Lease { id, link, expires_at, .. } = lease;
        self.leases.insert(lease.entry_id, Held { id, link, expires_at, is_over: false });
    }

    /// Looks for what was saved: each save has a text of its own.
    pub(super) fn look_at(&mut self, row: &Row) {
        for entry in row.entries.iter().map(|kept| &kept.entry) {
            let name = entry.content.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            if let Some(operation) = name.and_then(|name| OperationId::parse(name).ok()) {
                self.revisions.entry(operation).or_insert(entry.revision);
            }
        }
    }

    pub(super) fn take(&mut self, fact: Fact, server: &Server) -> Checked {
        let now = server.lease_now();
        match fact {
            Fact::Granted(lease) => {
                let held = self.live(lease.entry_id, now);
                self.hold(lease);
                must(held.is_none(), || format!("two edit {} at once", lease.entry_id))
            }
            Fact::Renewed(lease) => {
                let held = self.live(lease.entry_id, now);
                let is_it = held.is_some_and(|held| (held.id, held.link) == (lease.id, lease.link));
                let goes_back = held.is_some_and(|held| lease.expires_at < held.expires_at);
                self.hold(lease);
                must(is_it && !goes_back, || format!("a renewal of {} is none", lease.entry_id))
            }
            Fact::Ended(entry) => {
                if let Some(held) = self.leases.get_mut(&entry) {
                    held.is_over = true;
                }
                Ok(())
            }
            Fact::Taken(entry) => must(self.live(entry, now).is_some(), || {
                format!("nobody edits {entry}, and nobody may")
            }),
            Fact::Saved { entry_id, lease_id, link, operation, revision } => {
                let held = self.live(entry_id, now);
                let may = held.is_some_and(|held| (held.id, held.link) == (lease_id, Some(link)));
                must(may, || format!("{operation} was saved without the lease of {entry_id}"))?;
                let key = (lease_id, operation.clone());
                let known = *self.saves.entry(key).or_insert(revision);
                must(known == revision, || {
                    format!("{operation} was applied as {known} and as {revision}")
                })
            }
            Fact::Lost(lost) => {
                let held = self.leases.get_mut(&lost.entry_id);
                if let Some(held) = held.filter(|held| held.id == lost.lease_id) {
                    held.is_over = true;
                }
                Ok(())
            }
            Fact::LinkGone(link) => {
                let held = self.leases.values_mut().filter(|held| held.link == Some(link));
                held.for_each(|held| held.is_over = true);
                Ok(())
            }
            Fact::Started => {
                self.leases.values_mut().for_each(|held| held.is_over = true);
                Ok(())
            }
            Fact::Greeted(..) | Fact::Works(..) | Fact::Added { .. } => Ok(()),
        }
    }

    /// A client that is awake says that it edits: then its lease has not expired. That it is lost in
    /// another way may be news that is under way.
    pub(crate) fn believes(&self, edit: Edit, link: LinkId, now: LeaseInstant) -> Checked {
        if edit.state != EditState::Editing {
            return Ok(());
        }
        let held = self.leases.get(&edit.target.entry_id);
        let held = held.filter(|held| held.link == Some(link));
        must(held.is_none_or(|held| now < held.expires_at), || {
            format!("a client edits {} under a lease that is over", edit.target.entry_id)
        })
    }

    /// A client says how an edit ended.
    pub(crate) fn ended(&self, operation: Option<&OperationId>, end: &EditEnd) -> Checked {
        let known = operation.and_then(|operation| self.revisions.get(operation));
        match end {
            EditEnd::Saved(revision) => must(known == Some(revision), || {
                format!("{operation:?} is called saved as {revision}, and it is {known:?}")
            }),
            EditEnd::Left | EditEnd::Refused(_) | EditEnd::Lost(_) => Ok(()),
        }
    }

    /// A client says that a save was refused while it still edits.
    pub(crate) fn refused(&self, operation: Option<&OperationId>, code: ErrorCode) -> Checked {
        let known = operation.and_then(|operation| self.revisions.get(operation));
        must(known.is_none(), || {
            format!("{operation:?} is called refused ({code}), and it is {known:?}")
        })
    }
}
