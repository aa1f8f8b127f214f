//! Edit leases: begin, renew, save, end, and what ends them when nobody says so.

use tracing::{debug, warn};
use usher_shared::counter::TargetRevision;
use usher_shared::id::{EntryId, LeaseId, SessionId};
use usher_shared::vocabulary::EditEvent;

use super::queue::visible;
use super::{EditError, Service, attachment};
use crate::clock::{now, secret_uuid};
use crate::domain::Decision;
use crate::domain::edit::{self, Edit, Found};
use crate::domain::entry::Entry;
use crate::domain::lease::{self, Ask, Asked, Fresh, Granted, Leases, LinkId};
use crate::domain::session::{Caller, Session, Target, authorize};
use crate::stop;
use crate::store::{Reads, StoreError, TransactError};

type Transacted<T> = Result<T, TransactError<EditError>>;

impl Service {
    /// Begins an edit of a visible entry of the caller's own.
    ///
    /// # Errors
    /// See [`EditError`].
    pub async fn begin_edit(
        &self,
        caller: Caller,
        target: Target,
        entry_id: EntryId,
        link: LinkId,
    ) -> Transacted<(Granted, Entry)> {
        let times = self.lease_times;
        let id = LeaseId::from_uuid(secret_uuid());
        let begun = self
            .store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                let entry = reads.entry(session.key, entry_id)?;
                let leases = reads.leases(session.key)?;
                let last_generation = reads.lease_generation(entry_id)?;
                let fresh = Fresh { id, link, last_generation };
                let begun = lease::begin(&session, entry.as_ref(), &leases, &caller, fresh, times)?;
                let entry = entry.ok_or(EditError::EntryNotFound)?;
                let granted = begun.reply;
                Ok(begun.replying((granted, entry)))
            })
            .await;
        noted(target.session_id, entry_id, begun)
    }

    /// Makes a lease last longer.
    ///
    /// # Errors
    /// See [`EditError`].
    pub async fn renew_edit(
        &self,
        caller: Caller,
        target: Target,
        entry_id: EntryId,
        lease_id: LeaseId,
        link: LinkId,
    ) -> Transacted<Granted> {
        stop::pause("renew", target.session_id).await;
        let times = self.lease_times;
        let renewed = self
            .store
            .transact(move |reads| {
                let (session, entry, leases) = edited(reads, &target, &caller, entry_id)?;
                Ok(lease::renew(&session, &entry, &leases, lease_id, link, times)?)
            })
            .await;
        noted(target.session_id, entry_id, renewed)
    }

    /// Saves an edit under its lease, once per operation. Returns the revision that it made.
    ///
    /// # Errors
    /// See [`EditError`].
    pub async fn save_edit(
        &self,
        caller: Caller,
        target: Target,
        entry_id: EntryId,
        edit: Edit,
    ) -> Transacted<TargetRevision> {
        let (offered, references) = (edit.attachments.as_deref(), edit.references.as_deref());
        let references = self.pointing(&caller, target, references.unwrap_or_default(), &[]);
        let references = references.await.map_err(TransactError::NotStored)?;
        let held =
            self.hold(offered.unwrap_or_default()).await.map_err(TransactError::NotStored)?;
        let now = now();
        let saved = self
            .store
            .transact(move |reads| {
                let (session, entry, leases) = edited(reads, &target, &caller, entry_id)?;
                let operations = reads.edits(entry_id, &edit.operation)?;
                let uploads =
                    attachment::named(reads, edit.attachments.as_deref().unwrap_or_default())?;
                let found = Found { uploads: &uploads, references };
                Ok(edit::save(&session, &entry, &leases, &edit, operations, found, now)?)
            })
            .await;
        match &saved {
            // It may have been saved before, and carried nowhere any more.
            Ok(_) => self.let_go(held),
            Err(_) => {
                if let Err(error) = self.take_back(held).await {
                    let (session, edit_event) = (target.session_id, EditEvent::RollbackFailed);
                    warn!(%session, entry = %entry_id, %edit_event, %error, "edit");
                }
            }
        }
        noted(target.session_id, entry_id, saved)
    }

    /// Ends a lease at its holder's wish.
    ///
    /// # Errors
    /// See [`EditError`].
    pub async fn end_edit(
        &self,
        caller: Caller,
        target: Target,
        entry_id: EntryId,
        lease_id: LeaseId,
        link: LinkId,
        ask: Ask,
    ) -> Transacted<()> {
        let ended = self
            .store
            .transact(move |reads| {
                let (session, entry, leases) = edited(reads, &target, &caller, entry_id)?;
                Ok(lease::end(&session, &leases, entry.id, lease_id, link, ask)?)
            })
            .await;
        if let Ok(Asked::Deferred) = ended {
            let (session, edit_event) = (target.session_id, EditEvent::DrainDeferred);
            debug!(%session, entry = %entry_id, %edit_event, "edit");
        }
        noted(target.session_id, entry_id, ended).map(drop)
    }

    /// Ends the leases of a connection that is gone; for as long as they would have lived, nothing
    /// automatic takes their entries.
    ///
    /// # Errors
    /// If the store fails; then they end when they expire.
    pub async fn hold_edits_of(&self, link: LinkId) -> Result<(), TransactError<StoreError>> {
        let times = self.lease_times;
        let sessions = self.store.read(move |reads| reads.sessions_of_link(link)).await;
        for id in sessions.map_err(TransactError::<StoreError>::NotStored)? {
            self.leases_step(id, move |session, leases, _| {
                Ok(lease::hold(session, leases, |lease| lease.link == Some(link), times))
            })
            .await?;
        }
        Ok(())
    }

    /// Ends the leases that nobody renewed, and those of servers that are gone.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sweep_edits(&self) -> Result<(), TransactError<StoreError>> {
        let times = self.lease_times;
        let found = self.store.read(|reads| {
            let (over, left) =
                (reads.sessions_with_leases_over()?, reads.sessions_with_leases_left()?);
            Ok::<_, StoreError>((over, left))
        });
        let (over, left) = found.await.map_err(TransactError::<StoreError>::NotStored)?;
        for id in left {
            self.leases_step(id, move |session, leases, reads| {
                let gone = reads.leases_left(session.key)?;
                Ok(lease::hold(session, leases, |lease| gone.contains(&lease.id), times))
            })
            .await?;
        }
        for id in over {
            let edit_event = EditEvent::Expired;
            debug!(session = %id, %edit_event, "edit");
            self.leases_step(id, |session, leases, _| Ok(lease::sweep(session, leases))).await?;
        }
        Ok(())
    }

    async fn leases_step(
        &self,
        id: SessionId,
        decide: impl Fn(&Session, &Leases, &mut Reads<'_>) -> Result<Decision<()>, StoreError>
        + Send
        + 'static,
    ) -> Result<(), TransactError<StoreError>> {
        self.store
            .transact(move |reads| {
                let Some(session) = reads.session(id)? else {
                    return Ok(Decision::unchanged(()));
                };
                let leases = reads.leases(session.key)?;
                decide(&session, &leases, reads)
            })
            .await
    }
}

fn edited(
    reads: &mut Reads<'_>,
    target: &Target,
    caller: &Caller,
    entry_id: EntryId,
) -> Result<(Session, Entry, Leases), EditError> {
    let session = authorize(reads.session(target.session_id)?, target, caller)?;
    let entry = visible(reads, &session, entry_id)?.ok_or(EditError::EntryNotFound)?;
    let leases = reads.leases(session.key)?;
    Ok((session, entry, leases))
}

/// Logs what was refused, by its kind alone.
fn noted<T>(session: SessionId, entry: EntryId, result: Transacted<T>) -> Transacted<T> {
    if let Err(TransactError::Refused(error)) = &result
        && let Some(edit_event) = error.event()
    {
        debug!(%session, %entry, %edit_event, "edit");
    }
    result
}
