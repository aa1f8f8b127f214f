//! What the services do inside their transactions, over the plain store: load, authorize, and hand
//! what was loaded to the real decisions. The order of the steps is theirs.

mod edits;

use usher_server::domain::admission::{self, Admitted, Fresh, Named, Submission};
use usher_server::domain::entry::Entry;
use usher_server::domain::lease::{self, LeaseInstant, LeaseTimes, Leases};
use usher_server::domain::lifecycle::{self, OnReset};
use usher_server::domain::queue::{self, Cleared, Reordered};
use usher_server::domain::session::{
    AutoRun, Caller, QueueHead, Session, Target, Unavailable, authorize,
};
use usher_server::domain::settings::GivenSettings;
use usher_server::domain::turn::{self, CancelRefusal, Cancelled};
use usher_server::domain::turn_end::{self, TurnEnd};
use usher_server::domain::{Change, Decision};
use usher_server::service::{AddError, QueueError, QueueView, SessionError, TurnError};
use usher_shared::id::{EntryId, IncarnationId, MessageId, SessionId, TurnId, UndoId};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::EditLost;

use crate::broken::Broken;
use crate::ids::Ids;
use crate::store::{Row, Store};

/// What the server was started with.
pub(crate) struct Rules {
    pub(crate) given: GivenSettings,
    pub(crate) times: LeaseTimes,
    pub(crate) caller: Caller,
    pub(crate) broken: Option<Broken>,
}

impl Rules {
    pub(crate) fn are(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }
}

/// One decision about to be made.
pub(crate) struct Deciding<'a> {
    pub(crate) store: &'a Store,
    pub(crate) rules: &'a Rules,
    pub(crate) ids: &'a mut Ids,
    pub(crate) now: UnixMillis,
    pub(crate) lease_now: LeaseInstant,
}

impl<'a> Deciding<'a> {
    fn authorized(&self, target: &Target) -> Result<&'a Row, Unavailable> {
        let row = self.store.row(target.session_id);
        let loaded = row.map(|row| row.session.clone());
        authorize(loaded, target, &self.rules.caller)?;
        row.ok_or(Unavailable)
    }

    /// A queue as those see it who may.
    pub(crate) fn view(&self, row: &Row) -> QueueView {
        QueueView {
            session: row.session.clone(),
            entries: row.visible(),
            policy: self.rules.given.over(&row.session.saved).policy(),
            leases: row.leases(self.lease_now),
        }
    }

    pub(crate) fn queue(&self, target: &Target) -> Result<QueueView, QueueError> {
        Ok(self.view(self.authorized(target)?))
    }

    pub(crate) fn one(&self, target: &Target, id: EntryId) -> Result<(Entry, Leases), QueueError> {
        let row = self.authorized(target)?;
        let entry = row.visible_entry(id).ok_or(QueueError::EntryNotFound)?;
        Ok((entry, row.leases(self.lease_now)))
    }

    pub(crate) fn add(
        &mut self,
        target: &Target,
        submission: Submission,
    ) -> Result<Decision<Admitted>, AddError> {
        let fresh = Fresh { entry_id: EntryId::from_uuid(self.ids.next()), now: self.now };
        if let Some(stale) = self.looked_up_too_early(target, &submission) {
            return Ok(Decision::unchanged(stale));
        }
        let row = self.authorized(target)?;
        if let Some(mut sent) = submission.identified.clone()
            && let Some(receipt) = row.receipt(&sent.id)
        {
            if self.rules.are(Broken::NoFingerprint) {
                sent.fingerprint = receipt.identified.fingerprint;
            }
            let replayed = admission::replay(receipt, &sent)?;
            if !self.rules.are(Broken::ReplayInserts) {
                return Ok(Decision::unchanged(replayed));
            }
            let mut again = self.admit(row, submission, fresh)?;
            again.changes.retain(|change| !matches!(change, Change::InsertReceipt(..)));
            return Ok(again.replying(replayed));
        }
        self.admit(row, submission, fresh)
    }

    fn looked_up_too_early(&self, target: &Target, submission: &Submission) -> Option<Admitted> {
        if !self.rules.are(Broken::LookupBeforeAuthorization) {
            return None;
        }
        let sent = submission.identified.as_ref()?;
        let row = self.store.row(target.session_id)?;
        let mut receipts = row.receipts.iter().map(|(_, receipt)| receipt);
        let receipt = receipts.find(|receipt| receipt.identified.id == sent.id)?;
        admission::replay(receipt.clone(), sent).ok()
    }

    fn admit(
        &self,
        row: &Row,
        submission: Submission,
        fresh: Fresh,
    ) -> Result<Decision<Admitted>, AddError> {
        let policy = self.rules.given.over(&row.session.saved).policy();
        let leases = row.leases(self.lease_now);
        let tail = row.tail().filter(|_| policy.auto_merge.is_on());
        let tail = tail.filter(|tail| leases.blocks(tail.entry.id).is_none());
        let max = policy.max_per_session;
        let named = Named::default();
        Ok(admission::admit(&row.session, submission, named, tail.as_ref(), max, fresh)?)
    }

    pub(crate) fn remove(
        &mut self,
        target: &Target,
        entry_id: EntryId,
    ) -> Result<Decision<UndoId>, QueueError> {
        let undo_id = UndoId::from_uuid(self.ids.next());
        let row = self.authorized(target)?;
        row.visible_entry(entry_id).ok_or(QueueError::EntryNotFound)?;
        let ended = self.leases_ended(row, &[entry_id], EditLost::Removed);
        Ok(queue::remove(&row.session, entry_id, undo_id, self.now).after(ended))
    }

    pub(crate) fn clear(&mut self, target: &Target) -> Result<Decision<Cleared>, QueueError> {
        let undo_id = UndoId::from_uuid(self.ids.next());
        let row = self.authorized(target)?;
        let visible: Vec<EntryId> = row.visible().iter().map(|entry| entry.id).collect();
        let ended = self.leases_ended(row, &visible, EditLost::Removed);
        Ok(queue::clear(&row.session, &visible, undo_id, self.now).after(ended))
    }

    pub(crate) fn restore(
        &self,
        target: &Target,
        undo_id: UndoId,
    ) -> Result<Decision<u64>, QueueError> {
        let row = self.authorized(target)?;
        Ok(queue::restore(&row.session, &row.removed_by(undo_id))?)
    }

    pub(crate) fn merge(
        &self,
        target: &Target,
        entry_id: EntryId,
    ) -> Result<Decision<EntryId>, QueueError> {
        let row = self.authorized(target)?;
        let source = row.visible_entry(entry_id).ok_or(QueueError::EntryNotFound)?;
        let above = row.above(source.position);
        let merged = queue::merge(&row.session, &source, above.as_ref())?;
        let ended = self.leases_ended(row, &[source.id, merged.reply], EditLost::Merged);
        Ok(merged.after(ended))
    }

    pub(crate) fn reorder(
        &self,
        target: &Target,
        ordered: &[EntryId],
    ) -> Result<Decision<Reordered>, QueueError> {
        let row = self.authorized(target)?;
        let places: Vec<_> = row.visible().iter().map(|one| (one.id, one.position)).collect();
        Ok(queue::reorder(&row.session, &places, ordered)?)
    }

    pub(crate) fn set_auto_run(
        &mut self,
        target: &Target,
        enabled: bool,
    ) -> Result<Decision<bool>, QueueError> {
        let row = self.authorized(target)?;
        let switch = queue::set_auto_run(&row.session, enabled);
        let free = self.free_head(row).filter(|_| enabled && row.session.is_promptable());
        Ok(match free {
            Some(head) => self.reserved(row, switch.unwrap_or(row.session.queue), &head),
            None => switched(&row.session, switch),
        })
    }

    pub(crate) fn drain(&mut self, target: &Target) -> Result<Decision<bool>, QueueError> {
        let row = self.authorized(target)?;
        if !row.session.is_promptable() {
            return Err(QueueError::Busy);
        }
        let switch = queue::set_auto_run(&row.session, true);
        Ok(match row.visible().first() {
            Some(head) => self.reserved(row, switch.unwrap_or(row.session.queue), head),
            None => switched(&row.session, switch),
        })
    }

    /// Starts the head if auto-run and the session allow it.
    pub(crate) fn start_head(&mut self, id: SessionId) -> Decision<bool> {
        let row = self
            .store
            .row(id)
            .filter(|row| row.session.is_promptable() && row.session.queue.auto_run == AutoRun::On);
        match row.and_then(|row| Some((row, self.free_head(row)?))) {
            Some((row, head)) => self.reserved(row, row.session.queue, &head),
            None => Decision::unchanged(false),
        }
    }

    fn free_head(&self, row: &Row) -> Option<Entry> {
        let head = row.visible().into_iter().next()?;
        row.leases(self.lease_now).blocks(head.id).is_none().then_some(head)
    }

    fn reserved(&mut self, row: &Row, queue: QueueHead, head: &Entry) -> Decision<bool> {
        let ended = self.leases_ended(row, &[head.id], EditLost::Sent);
        let turn_id = TurnId::from_uuid(self.ids.next());
        turn::reserve(&row.session, queue, head, turn_id, self.now).after(ended).replying(true)
    }

    fn leases_ended(&self, row: &Row, entries: &[EntryId], reason: EditLost) -> Decision<()> {
        lease::ended(&row.session, &row.leases(self.lease_now), entries, reason)
    }

    pub(crate) fn cancel(
        &self,
        target: &Target,
        expected: Option<TurnId>,
    ) -> Result<Decision<Cancelled>, TurnError> {
        let row = self.authorized(target)?;
        let waiting = row.session.turn.map_or(0, |_| row.visible().len() as u64);
        let cancelled = turn::cancel(&row.session, expected, waiting, self.now);
        cancelled.map_err(|refusal: CancelRefusal| refusal.into())
    }

    pub(crate) fn reset(
        &mut self,
        target: &Target,
        queue: OnReset,
    ) -> Result<Decision<()>, SessionError> {
        let fresh = lifecycle::Fresh {
            incarnation_id: IncarnationId::from_uuid(self.ids.next()),
            notice_id: MessageId::from_uuid(self.ids.next()),
            now: self.now,
        };
        let row = self.authorized(target)?;
        let visible = row.visible().into_iter().map(|entry| (entry.id, entry.provenance));
        let reset = lifecycle::reset(&row.session, visible.collect(), queue, fresh)?;
        let leases = row.leases(self.lease_now);
        Ok(reset.after(lease::all_ended(&row.session, &leases, EditLost::Reset)))
    }

    fn fresh_end(&mut self) -> turn_end::Fresh {
        turn_end::Fresh {
            prompt_id: MessageId::from_uuid(self.ids.next()),
            notice_id: MessageId::from_uuid(self.ids.next()),
            now: self.now,
        }
    }

    /// The agent has the prompt; nothing if the turn is over.
    pub(crate) fn accept(&mut self, id: SessionId, turn_id: TurnId) -> Option<Decision<()>> {
        let message_id = MessageId::from_uuid(self.ids.next());
        let row = self.store.row(id)?;
        let turn = turn::open(&row.session, turn_id).ok()?;
        let records = row.turn_records(&turn);
        Some(turn::accept(&row.session, turn, records, message_id, self.now))
    }

    /// The turn ends; nothing if it has.
    pub(crate) fn end_turn(
        &mut self,
        id: SessionId,
        turn_id: TurnId,
        end: TurnEnd,
    ) -> Option<Decision<()>> {
        let fresh = self.fresh_end();
        let row = self.store.row(id)?;
        let turn = turn::open(&row.session, turn_id).ok()?;
        Some(turn_end::end(&row.session, turn, end, row.turn_records(&turn), fresh))
    }

    /// Settles the turn that the last start of the server left open.
    pub(crate) fn recover(&mut self, row: &Row) -> Option<Decision<()>> {
        let fresh = self.fresh_end();
        let turn = row.session.turn?;
        let records = row.turn_records(&turn);
        let mut recovered = turn_end::recover(&row.session, turn, records, fresh);
        if self.rules.are(Broken::RecoveryLosesPrompt) {
            for change in &mut recovered.changes {
                if let Change::ReleaseEntries(id) = change {
                    *change = Change::DeleteEntries(*id);
                }
            }
        }
        Some(recovered)
    }
}

fn switched(session: &Session, switch: Option<QueueHead>) -> Decision<bool> {
    let Some(queue) = switch else { return Decision::unchanged(false) };
    Decision {
        changes: vec![Change::SetQueue(session.key, queue)],
        events: vec![(session.id, usher_server::domain::Event::QueueChanged)],
        reply: false,
    }
}
