//! Admission, the waiting entries, and the auto-run switch.

use tracing::debug;
use usher_shared::counter::QueueRevision;
use usher_shared::id::{EntryId, SessionId, TurnId, UndoId};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::{AdmissionOutcome, EditLost};

use super::{AddError, QueueError, Service, attachment};
use crate::clock::{fresh_uuid, now};
use crate::domain::admission::{self, Admitted, Fresh, Submission, Tail};
use crate::domain::edit::Pointing;
use crate::domain::entry::Entry;
use crate::domain::lease::{self, Leases};
use crate::domain::queue::{self, Cleared, Reordered};
use crate::domain::send_now::{self, Scope, SendNow};
use crate::domain::session::{AutoRun, Caller, QueueHead, Session, Target, authorize};
use crate::domain::settings::{GivenSettings, QueuePolicy, Switch};
use crate::domain::{Change, Decision, Event, turn};
use crate::stop;
use crate::store::{Reads, StoreError, TransactError};

/// Removed entries can be restored for ten minutes.
pub const UNDO_MS: i64 = 600_000;

/// A queue as its readers see it.
#[derive(Clone, Debug)]
pub struct QueueView {
    /// Its session.
    pub session: Session,
    /// The visible entries in order.
    pub entries: Vec<Entry>,
    /// What it obeys.
    pub policy: QueuePolicy,
    /// Who edits what.
    pub leases: Leases,
}

impl QueueView {
    /// Reads the queue of a session that the caller may see.
    pub(super) fn of(
        reads: &mut Reads<'_>,
        session: Session,
        given: GivenSettings,
    ) -> Result<Self, StoreError> {
        let entries = reads.visible_entries(session.key)?;
        let policy = given.over(&session.saved).policy();
        let leases = reads.leases(session.key)?;
        Ok(Self { session, entries, policy, leases })
    }
}

impl Service {
    /// Admits a prompt, exactly once per admission ID.
    ///
    /// # Errors
    /// See [`AddError`]; nothing was stored, unless the commit's result is unknown.
    pub async fn add(
        &self,
        caller: Caller,
        target: Target,
        submission: Submission,
    ) -> Result<Admitted, TransactError<AddError>> {
        let given = self.given;
        let fresh = Fresh { entry_id: EntryId::from_uuid(fresh_uuid()), now: now() };
        let carried = &submission.enclosed;
        let there = self.pointing(&caller, target, &carried.references, &carried.files);
        let there = there.await.map_err(TransactError::NotStored)?;
        let held = self.hold(&submission.offered).await.map_err(TransactError::NotStored)?;
        let admitted = self
            .store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                if let Some(sent) = &submission.identified
                    && let Some(receipt) = reads.receipt(session.incarnation_key, &sent.id)?
                {
                    return Ok(Decision::unchanged(admission::replay(receipt, sent)?));
                }
                if there == Pointing::Nowhere {
                    return Err(AddError::ReferenceInvalid);
                }
                let uploads = attachment::named(reads, &submission.offered)?;
                let policy = given.over(&session.saved).policy();
                let tail = match policy.auto_merge {
                    Switch::On => foldable(reads, &session)?,
                    Switch::Off => None,
                };
                let mut comments = Vec::with_capacity(submission.enclosed.comments.len());
                for seen in &submission.enclosed.comments {
                    comments.push(reads.plan_comment(&session, seen.id)?);
                }
                let (submission, max) = (submission.clone(), policy.max_per_session);
                let (uploads, tail) = (&uploads, tail.as_ref());
                Ok(admission::admit(&session, submission, uploads, comments, tail, max, fresh)?)
            })
            .await;
        match &admitted {
            Ok(Admitted { outcome: AdmissionOutcome::Replayed, .. }) | Err(_) => self.let_go(held),
            Ok(_) => drop(held),
        }
        if let Ok(admitted) = &admitted {
            let (outcome, entry) = (admitted.outcome, admitted.entry.id);
            debug!(session = %target.session_id, %entry, %outcome, "admission");
        }
        admitted
    }

    /// Returns the queue.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn queue(&self, caller: Caller, target: Target) -> Result<QueueView, QueueError> {
        let given = self.given;
        self.store
            .read(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                Ok(QueueView::of(reads, session, given)?)
            })
            .await
    }

    /// Removes one visible entry.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn remove(
        &self,
        caller: Caller,
        target: Target,
        entry_id: EntryId,
    ) -> Result<UndoId, TransactError<QueueError>> {
        let (undo_id, now) = (UndoId::from_uuid(fresh_uuid()), now());
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                visible(reads, &session, entry_id)?.ok_or(QueueError::EntryNotFound)?;
                let leases = reads.leases(session.key)?;
                let ended = lease::ended(&session, &leases, &[entry_id], EditLost::Removed);
                Ok(queue::remove(&session, entry_id, undo_id, now).after(ended))
            })
            .await
    }

    /// Removes every visible entry.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn clear(
        &self,
        caller: Caller,
        target: Target,
        expected: Option<QueueRevision>,
    ) -> Result<Cleared, TransactError<QueueError>> {
        let (undo_id, now) = (UndoId::from_uuid(fresh_uuid()), now());
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                queue::expect_revision(&session, expected)?;
                let visible: Vec<EntryId> =
                    reads.visible_places(session.key)?.into_iter().map(|(id, _)| id).collect();
                let leases = reads.leases(session.key)?;
                let ended = lease::ended(&session, &leases, &visible, EditLost::Removed);
                Ok(queue::clear(&session, &visible, undo_id, now).after(ended))
            })
            .await
    }

    /// Puts back what a remove or clear took, once. Returns how many entries.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn restore(
        &self,
        caller: Caller,
        target: Target,
        undo_id: UndoId,
    ) -> Result<u64, TransactError<QueueError>> {
        let since = UnixMillis::new(now().get().saturating_sub(UNDO_MS));
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                let removed = reads.removed_ids(session.key, undo_id, since)?;
                Ok(queue::restore(&session, &removed)?)
            })
            .await
    }

    /// Returns one visible entry, and who edits what.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn entry(
        &self,
        caller: Caller,
        target: Target,
        entry_id: EntryId,
    ) -> Result<(Entry, Leases), QueueError> {
        self.store
            .read(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                let entry = visible(reads, &session, entry_id)?;
                let leases = reads.leases(session.key)?;
                Ok((entry.ok_or(QueueError::EntryNotFound)?, leases))
            })
            .await
    }

    /// Merges an entry into the one directly above; returns the one that both are now.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn merge(
        &self,
        caller: Caller,
        target: Target,
        entry_id: EntryId,
    ) -> Result<EntryId, TransactError<QueueError>> {
        let given = self.given;
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                if given.over(&session.saved).policy().merge == Switch::Off {
                    return Err(QueueError::MergeDisabled);
                }
                let source = visible(reads, &session, entry_id)?;
                let source = source.ok_or(QueueError::EntryNotFound)?;
                let above = reads.above(session.key, source.position)?;
                let merged = queue::merge(&session, &source, above.as_ref())?;
                let leases = reads.leases(session.key)?;
                let both = [source.id, merged.reply];
                let ended = lease::ended(&session, &leases, &both, EditLost::Merged);
                Ok(merged.after(ended))
            })
            .await
    }

    /// Puts the visible entries into another order.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn reorder(
        &self,
        caller: Caller,
        target: Target,
        ordered: Vec<EntryId>,
        expected: Option<QueueRevision>,
    ) -> Result<Reordered, TransactError<QueueError>> {
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                queue::expect_revision(&session, expected)?;
                let places = reads.visible_places(session.key)?;
                Ok(queue::reorder(&session, &places, &ordered)?)
            })
            .await
    }

    /// Runs entries next, in the place of the turn that runs. Returns how many once the claim is
    /// committed.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn send_now(
        &self,
        caller: Caller,
        target: Target,
        ask: SendNow,
    ) -> Result<u64, TransactError<QueueError>> {
        stop::pause("claim", target.session_id).await;
        let (turn_id, now) = (TurnId::from_uuid(fresh_uuid()), now());
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                let chosen = match ask.scope {
                    Scope::All => reads.visible_entries(session.key)?,
                    Scope::Entry(id) => reads
                        .entry(session.key, id)?
                        .filter(|entry| entry.reserved_for.is_none())
                        .into_iter()
                        .collect(),
                };
                let claimed = send_now::claim(&session, &ask, &chosen, turn_id, now)?;
                let leases = reads.leases(session.key)?;
                let sent: Vec<EntryId> = chosen.iter().map(|entry| entry.id).collect();
                Ok(claimed.after(lease::ended(&session, &leases, &sent, EditLost::Sent)))
            })
            .await
    }

    /// Starts the head now and switches auto-run ON; false if nothing waits.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn drain(
        &self,
        caller: Caller,
        target: Target,
    ) -> Result<bool, TransactError<QueueError>> {
        let asking = self.questions.is_open(target.session_id);
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                match (session.is_promptable(), asking) {
                    (true, _) => drained(reads, &session),
                    (false, true) => Err(QueueError::NotPromptable),
                    (false, false) => Err(QueueError::Busy),
                }
            })
            .await
    }

    /// Switches auto-run; ON starts the head at once if it can. Returns whether it did.
    ///
    /// # Errors
    /// See [`QueueError`].
    pub async fn set_auto_run(
        &self,
        caller: Caller,
        target: Target,
        enabled: bool,
    ) -> Result<bool, TransactError<QueueError>> {
        self.store
            .transact(move |reads| {
                let session = authorize(reads.session(target.session_id)?, &target, &caller)?;
                let switch = queue::set_auto_run(&session, enabled);
                let head = match enabled && session.is_promptable() {
                    true => free_head(reads, &session)?,
                    false => None,
                };
                Ok(match head {
                    Some(head) => {
                        reserved(reads, &session, switch.unwrap_or(session.queue), &head)?
                    }
                    None => switched(&session, switch),
                })
            })
            .await
    }

    /// Starts the head if auto-run and the session allow it: the dispatcher's only question.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn start_head(
        &self,
        session_id: SessionId,
    ) -> Result<bool, TransactError<StoreError>> {
        self.store
            .transact(move |reads| {
                let startable = reads
                    .session(session_id)?
                    .filter(|s| s.is_promptable() && s.queue.auto_run == AutoRun::On);
                let Some(session) = startable else {
                    return Ok(Decision::unchanged(false));
                };
                let Some(head) = free_head(reads, &session)? else {
                    return Ok(Decision::unchanged(false));
                };
                reserved(reads, &session, session.queue, &head)
            })
            .await
    }
}

pub(super) fn visible(
    reads: &mut Reads<'_>,
    session: &Session,
    entry_id: EntryId,
) -> Result<Option<Entry>, StoreError> {
    let entry = reads.entry(session.key, entry_id)?;
    Ok(entry.filter(|entry| entry.reserved_for.is_none()))
}

/// Returns the tail, unless somebody edits it: an automatic fold never takes that.
fn foldable(reads: &mut Reads<'_>, session: &Session) -> Result<Option<Tail>, StoreError> {
    let Some(entry) = reads.tail(session.key)? else { return Ok(None) };
    if reads.leases(session.key)?.blocks(entry.id).is_some() {
        return Ok(None);
    }
    let newest = match entry.provenance.admission_ids.last() {
        Some(id) => reads.receipt_end(session.incarnation_key, id)?,
        None => None,
    };
    Ok(Some(Tail { entry, newest }))
}

/// Returns the head, unless somebody edits it: nothing automatic takes that, nor what is behind it.
fn free_head(reads: &mut Reads<'_>, session: &Session) -> Result<Option<Entry>, StoreError> {
    let Some(head) = reads.head(session.key)? else { return Ok(None) };
    Ok(reads.leases(session.key)?.blocks(head.id).is_none().then_some(head))
}

/// Switches auto-run ON and starts the head of a promptable session, whoever edits it.
fn drained(reads: &mut Reads<'_>, session: &Session) -> Result<Decision<bool>, QueueError> {
    let switch = queue::set_auto_run(session, true);
    let Some(head) = reads.head(session.key)? else {
        return Ok(switched(session, switch));
    };
    Ok(reserved(reads, session, switch.unwrap_or(session.queue), &head)?)
}

fn switched(session: &Session, switch: Option<QueueHead>) -> Decision<bool> {
    let Some(queue) = switch else {
        return Decision::unchanged(false);
    };
    Decision {
        changes: vec![Change::SetQueue(session.key, queue)],
        events: vec![(session.id, Event::QueueChanged)],
        reply: false,
    }
}

/// Starts the head. What is left of an edit of it is over, and its editor is told, also when the
/// edit expired and nobody had looked since.
fn reserved(
    reads: &mut Reads<'_>,
    session: &Session,
    queue: QueueHead,
    head: &Entry,
) -> Result<Decision<bool>, StoreError> {
    let leases = reads.leases(session.key)?;
    let ended = lease::ended(session, &leases, &[head.id], EditLost::Sent);
    let turn_id = TurnId::from_uuid(fresh_uuid());
    Ok(turn::reserve(session, queue, head, turn_id, now()).after(ended).replying(true))
}
