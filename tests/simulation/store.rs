//! What survives a crash of the simulated server: plain rows, and the one place that changes them.
//!
//! Takes the changes that the real decisions return, all of one commit or none, and answers the reads
//! that the real services make before they decide.

mod reads;

use std::collections::BTreeMap;

use usher_server::domain::Change;
use usher_server::domain::admission::Receipt;
use usher_server::domain::entry::Entry;
use usher_server::domain::lease::Lease;
use usher_server::domain::message::Message;
use usher_server::domain::session::{IncarnationKey, Session, SessionKey};
use usher_shared::counter::{LeaseGeneration, TargetRevision};
use usher_shared::id::{
    AdmissionId, EntryId, IncarnationId, MessageId, OperationId, SessionId, TurnId, UndoId,
};
use usher_shared::rules::fingerprint::Fingerprint;
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::MessageStatus;

/// An entry, and what took it out of sight.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) entry: Entry,
    /// Removed, and when: it can be restored.
    pub(crate) removed: Option<(UndoId, UnixMillis)>,
}

/// The lease of an entry, or what is left of the last one.
#[derive(Clone)]
struct LeaseRow {
    lease: Option<Lease>,
    generation: LeaseGeneration,
    operations: Vec<(OperationId, Fingerprint, TargetRevision)>,
}

/// One session with everything that belongs to it.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) session: Session,
    /// All that are stored, in no order.
    pub(crate) entries: Vec<Kept>,
    pub(crate) messages: Vec<Message>,
    /// In the order of their commits.
    pub(crate) receipts: Vec<(IncarnationKey, Receipt)>,
    /// Admissions of entries that were dropped for good, with what was removed too long ago.
    pub(crate) dropped: Vec<AdmissionId>,
    /// All lives of the session.
    lives: Vec<(IncarnationKey, IncarnationId)>,
    leases: BTreeMap<EntryId, LeaseRow>,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Store {
    rows: Vec<Row>,
}

impl Store {
    pub(crate) fn new(sessions: Vec<Session>) -> Self {
        let row = |session: Session| Row {
            lives: vec![(session.incarnation_key, session.incarnation_id)],
            session,
            entries: Vec::new(),
            messages: Vec::new(),
            receipts: Vec::new(),
            dropped: Vec::new(),
            leases: BTreeMap::new(),
        };
        Self { rows: sessions.into_iter().map(row).collect() }
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn row(&self, id: SessionId) -> Option<&Row> {
        self.rows.iter().find(|row| row.session.id == id)
    }

    fn of(&mut self, key: SessionKey) -> &mut Row {
        let mut rows = self.rows.iter_mut();
        rows.find(|row| row.session.key == key).expect("a decision names rows that it was shown")
    }

    fn with_entry(&mut self, id: EntryId) -> &mut Row {
        let has = |row: &&mut Row| row.entries.iter().any(|kept| kept.entry.id == id);
        self.rows.iter_mut().find(has).expect("a decision names entries that it was shown")
    }

    fn with_turn(&mut self, id: TurnId) -> &mut Row {
        let has = |row: &&mut Row| row.session.turn.is_some_and(|turn| turn.id == id);
        self.rows.iter_mut().find(has).expect("a decision names turns that are open")
    }

    fn message(&mut self, id: MessageId) -> &mut Message {
        let mut messages = self.rows.iter_mut().flat_map(|row| &mut row.messages);
        messages.find(|message| message.id == id).expect("a decision names messages that exist")
    }

    /// Writes what one decision wants: one transaction.
    pub(crate) fn apply(&mut self, changes: &[Change]) {
        changes.iter().for_each(|change| self.apply_one(change));
    }

    fn apply_one(&mut self, change: &Change) {
        match change {
            Change::SetQueue(session, queue) => self.of(*session).session.queue = *queue,
            Change::InsertEntry(session, entry) => {
                let kept = Kept { entry: (**entry).clone(), removed: None };
                self.of(*session).entries.push(kept);
            }
            Change::ReserveEntry(id, turn) => {
                self.with_entry(*id).entry_mut(*id).entry.reserved_for = Some(*turn);
            }
            Change::ReleaseEntries(turn) => {
                let kept = self.rows.iter_mut().flat_map(|row| &mut row.entries);
                let of_turn = kept.filter(|kept| kept.entry.reserved_for == Some(*turn));
                of_turn.for_each(|kept| kept.entry.reserved_for = None);
            }
            Change::DeleteEntries(turn) => {
                for row in &mut self.rows {
                    row.forget(|kept| kept.entry.reserved_for == Some(*turn));
                }
            }
            Change::RewriteEntry(entry) => {
                self.with_entry(entry.id).entry_mut(entry.id).entry = (**entry).clone();
            }
            Change::DeleteEntry(id) => self.with_entry(*id).forget(|kept| kept.entry.id == *id),
            Change::MoveEntries(session, moves) => {
                let row = self.of(*session);
                for (id, place) in moves {
                    row.entry_mut(*id).entry.position = *place;
                }
            }
            Change::SetProvenance(id, provenance) => {
                self.with_entry(*id).entry_mut(*id).entry.provenance = (**provenance).clone();
            }
            Change::RemoveEntry(id, undo, at) => {
                self.with_entry(*id).entry_mut(*id).removed = Some((*undo, *at));
            }
            Change::RestoreEntry(id) => self.with_entry(*id).entry_mut(*id).removed = None,
            Change::PurgeRemoved { before } => {
                for row in &mut self.rows {
                    row.drop_for_good(|kept| kept.removed.is_some_and(|(_, at)| at < *before));
                }
            }
            Change::ForgetRemoved(session) => {
                self.of(*session).drop_for_good(|kept| kept.removed.is_some());
            }
            Change::ForgetWaiting(session) => {
                self.of(*session).drop_for_good(|kept| kept.removed.is_none());
            }
            Change::PutLease(lease) => self.with_entry(lease.entry_id).put_lease(lease),
            Change::EndLease(id) => self.with_entry(*id).end_lease(*id),
            Change::RecordEdit { entry, operation, fingerprint, revision } => {
                let row = self.with_entry(*entry).leases.get_mut(entry);
                let operations = &mut row.expect("a save has a lease").operations;
                operations.push((operation.clone(), *fingerprint, *revision));
            }
            Change::InsertReceipt(incarnation, receipt, _) => {
                let mut rows = self.rows.iter_mut();
                let row = rows.find(|row| row.session.incarnation_key == *incarnation);
                let row = row.expect("a receipt is of a session's current life");
                row.receipts.push((*incarnation, (**receipt).clone()));
            }
            Change::InsertTurn(session, turn) => self.of(*session).session.turn = Some(*turn),
            Change::SetTurn(turn) => self.with_turn(turn.id).session.turn = Some(*turn),
            Change::EndTurn { turn_id, .. } => self.with_turn(*turn_id).session.turn = None,
            Change::InsertMessage(session, _, message) => {
                let row = self.of(*session);
                row.session.last_seq = message.seq;
                row.messages.push((**message).clone());
            }
            Change::AppendMessage { id, at, text } => {
                let message = self.message(*id);
                assert_eq!(message.content_bytes, *at, "text follows what is there");
                let longer = [&*message.content, text.as_str()].concat();
                message.content_bytes = longer.len() as u64;
                message.content = longer.into();
            }
            Change::SetMessageStatus(id, status) => self.message(*id).status = *status,
            Change::SettleMessages(turn, status) => {
                let messages = self.rows.iter_mut().flat_map(|row| &mut row.messages);
                messages
                    .filter(|one| one.turn_id == Some(*turn))
                    .filter(|one| one.status == MessageStatus::Streaming)
                    .for_each(|one| one.status = *status);
            }
            Change::BeginIncarnation(session, incarnation) => {
                self.of(*session).begin_incarnation(*incarnation);
            }
            // Nothing has attachments here.
            Change::JoinAttachments { .. } => {}
            Change::InsertTask(_)
            | Change::InsertSession(_)
            | Change::TransferEntry { .. }
            | Change::InsertUpload(..)
            | Change::AppendUpload { .. }
            | Change::FinishUpload(_)
            | Change::DeleteUpload(_)
            | Change::ClaimUpload(..)
            | Change::InsertAttachment(..)
            | Change::ReleaseAttachment(_)
            | Change::PassAttachments(..)
            | Change::PurgeAttachments { .. }
            | Change::ReplaceMessage(..)
            | Change::SetMessageTurn(..)
            | Change::SetMessageDetails(..)
            | Change::PutPlan(..)
            | Change::InsertComment(..)
            | Change::RewriteComment(_)
            | Change::DeleteComment(_)
            | Change::ConsumeComment(..)
            | Change::TransferComments { .. }
            | Change::ForgetPlan(_)
            | Change::AddUser(..)
            | Change::AddToken(..)
            | Change::RevokeToken(_)
            | Change::RevokeTokens(_)
            | Change::RemoveUser(..)
            | Change::SaveSettings(..)
            | Change::ArchiveTask(_)
            | Change::UnarchiveTask(_)
            | Change::HideTask(..)
            | Change::PurgeTask(_)
            | Change::SetSession { .. }
            | Change::HideSession(..)
            | Change::PurgeSession(_) => panic!("nobody in the simulation asks for {change:?}"),
        }
    }
}

impl Row {
    fn entry_mut(&mut self, id: EntryId) -> &mut Kept {
        let mut entries = self.entries.iter_mut();
        entries.find(|kept| kept.entry.id == id).expect("the row was found by this entry")
    }

    fn forget(&mut self, which: impl Fn(&Kept) -> bool) {
        self.entries.retain(|kept| !which(kept));
    }

    fn drop_for_good(&mut self, which: impl Fn(&Kept) -> bool) {
        let dropped = self.entries.iter().filter(|kept| which(kept));
        let ids = dropped.flat_map(|kept| {
            let provenance = &kept.entry.provenance;
            provenance.admission_ids.iter().chain(&provenance.past).cloned()
        });
        let ids: Vec<AdmissionId> = ids.collect();
        self.dropped.extend(ids);
        self.forget(which);
    }

    fn put_lease(&mut self, lease: &Lease) {
        let fresh =
            || LeaseRow { lease: None, generation: LeaseGeneration::ZERO, operations: Vec::new() };
        let row = self.leases.entry(lease.entry_id).or_insert_with(fresh);
        if row.lease.is_none_or(|known| known.id != lease.id) {
            row.operations.clear();
        }
        (row.lease, row.generation) = (Some(*lease), lease.generation);
    }

    fn end_lease(&mut self, id: EntryId) {
        if let Some(row) = self.leases.get_mut(&id) {
            row.lease = None;
            row.operations.clear();
        }
    }

    fn begin_incarnation(&mut self, incarnation: IncarnationId) {
        self.session.incarnation_id = incarnation;
        // Lives of two sessions never have the same key.
        let IncarnationKey(key) = self.session.incarnation_key;
        self.session.incarnation_key = IncarnationKey(key + 1_000);
        self.lives.push((self.session.incarnation_key, incarnation));
    }
}
