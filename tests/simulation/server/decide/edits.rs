//! What the service of edits does inside its transactions.

use usher_server::domain::Decision;
use usher_server::domain::edit::{self, Edit, Found, Pointing};
use usher_server::domain::entry::Entry;
use usher_server::domain::lease::{self, Ask, Asked, Granted, Lease, LinkId};
use usher_server::domain::session::Target;
use usher_server::service::EditError;
use usher_shared::counter::TargetRevision;
use usher_shared::id::{EntryId, LeaseId};

use super::Deciding;
use crate::broken::Broken;
use crate::store::Row;

impl<'a> Deciding<'a> {
    pub(crate) fn begin_edit(
        &mut self,
        target: &Target,
        entry_id: EntryId,
        link: LinkId,
    ) -> Result<Decision<(Granted, Entry)>, EditError> {
        let id = LeaseId::from_uuid(self.ids.next());
        let row = self.authorized(target)?;
        let entry = row.entry(entry_id);
        let mut leases = row.leases(self.lease_now);
        if self.rules.are(Broken::TwoLeases) {
            leases.stored.clear();
        }
        let fresh = lease::Fresh { id, link, last_generation: row.generation(entry_id) };
        let (caller, times) = (&self.rules.caller, self.rules.times);
        let begun = lease::begin(&row.session, entry.as_ref(), &leases, caller, fresh, times)?;
        let entry = entry.ok_or(EditError::EntryNotFound)?;
        let granted = begun.reply;
        Ok(begun.replying((granted, entry)))
    }

    fn edited(&self, target: &Target, entry_id: EntryId) -> Result<(&'a Row, Entry), EditError> {
        let row = self.authorized(target)?;
        let entry = row.visible_entry(entry_id).ok_or(EditError::EntryNotFound)?;
        Ok((row, entry))
    }

    pub(crate) fn renew_edit(
        &self,
        target: &Target,
        entry_id: EntryId,
        lease_id: LeaseId,
        link: LinkId,
    ) -> Result<Decision<Granted>, EditError> {
        let (row, entry) = self.edited(target, entry_id)?;
        let leases = row.leases(self.lease_now);
        Ok(lease::renew(&row.session, &entry, &leases, lease_id, link, self.rules.times)?)
    }

    pub(crate) fn save_edit(
        &self,
        target: &Target,
        entry_id: EntryId,
        mut edit: Edit,
    ) -> Result<Decision<TargetRevision>, EditError> {
        let (row, entry) = self.edited(target, entry_id)?;
        let mut leases = row.leases(self.lease_now);
        let mut operations = row.operations(entry_id, &edit.operation);
        if self.rules.are(Broken::OperationIgnored) {
            operations.same = None;
            edit.expected = entry.revision;
        }
        if self.rules.are(Broken::SaveWithoutLease) {
            leases.stored = vec![Lease {
                entry_id,
                id: edit.lease_id,
                link: Some(edit.link),
                generation: row.generation(entry_id),
                target_revision: entry.revision,
                expires_at: self.lease_now.after(1_000),
                until: self.lease_now.after(1_000),
                saved: lease::Saved::No,
            }];
        }
        let found = Found { uploads: &[], references: Pointing::There };
        Ok(edit::save(&row.session, &entry, &leases, &edit, operations, found, self.now)?)
    }

    pub(crate) fn end_edit(
        &self,
        target: &Target,
        entry_id: EntryId,
        lease_id: LeaseId,
        link: LinkId,
        ask: Ask,
    ) -> Result<Decision<Asked>, EditError> {
        let (row, entry) = self.edited(target, entry_id)?;
        let leases = row.leases(self.lease_now);
        Ok(lease::end(&row.session, &leases, entry.id, lease_id, link, ask)?)
    }

    /// Ends the leases of links that are gone.
    pub(crate) fn hold_edits(&self, row: &Row, gone: impl Fn(LinkId) -> bool) -> Decision<()> {
        let leases = row.leases(self.lease_now);
        let is_gone = |lease: &Lease| lease.link.is_some_and(&gone);
        lease::hold(&row.session, &leases, is_gone, self.rules.times)
    }

    /// Ends the leases that nobody renewed.
    pub(crate) fn sweep_edits(&self, row: &Row) -> Decision<()> {
        lease::sweep(&row.session, &row.leases(self.lease_now))
    }
}
