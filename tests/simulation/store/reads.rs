//! What decisions and readers are shown of a session.

use usher_server::domain::admission::{Receipt, ReceiptEnd, ReceiptKey, Tail};
use usher_server::domain::edit::Operations;
use usher_server::domain::entry::Entry;
use usher_server::domain::lease::{LeaseInstant, Leases};
use usher_server::domain::message::Message;
use usher_server::domain::session::{IncarnationKey, OpenTurn, Stop, TurnPrompt};
use usher_server::domain::turn_end::TurnRecords;
use usher_server::store::{Page, PageBounds};
use usher_shared::counter::{LeaseGeneration, Position};
use usher_shared::id::{
    AdmissionId, EntryId, IncarnationId, MessageId, OperationId, TurnId, UndoId,
};
use usher_shared::vocabulary::MessageStatus;

use super::{Kept, Row};

impl Row {
    /// Returns the life that a receipt is of.
    pub(crate) fn life_of(&self, key: IncarnationKey) -> Option<IncarnationId> {
        self.lives.iter().find(|(known, _)| *known == key).map(|(_, life)| *life)
    }

    /// Returns the visible entries in order.
    pub(crate) fn visible(&self) -> Vec<Entry> {
        let mut visible = self.stored();
        visible.retain(|entry| entry.reserved_for.is_none());
        visible
    }

    /// Returns the stored entries in order, reserved ones included, removed ones not.
    fn stored(&self) -> Vec<Entry> {
        let stored = self.entries.iter().filter(|kept| kept.removed.is_none());
        let mut stored: Vec<Entry> = stored.map(|kept| kept.entry.clone()).collect();
        stored.sort_by_key(|entry| entry.position);
        stored
    }

    /// Returns a visible entry.
    pub(crate) fn visible_entry(&self, id: EntryId) -> Option<Entry> {
        self.visible().into_iter().find(|entry| entry.id == id)
    }

    /// Returns a stored entry, reserved or not.
    pub(crate) fn entry(&self, id: EntryId) -> Option<Entry> {
        self.stored().into_iter().find(|entry| entry.id == id)
    }

    /// Returns the stored entry directly before a place.
    pub(crate) fn above(&self, place: Position) -> Option<Entry> {
        self.stored().into_iter().rfind(|entry| entry.position < place)
    }

    /// Returns the last stored entry with the receipt that it goes on from.
    pub(crate) fn tail(&self) -> Option<Tail> {
        let entry = self.stored().pop()?;
        let newest = entry.provenance.admission_ids.last().and_then(|id| {
            let (key, receipt) = self.receipt_of(id)?;
            Some(ReceiptEnd {
                key,
                entry_id: receipt.entry.id,
                revision: receipt.entry.revision,
                content_bytes: receipt.entry.content.len(),
            })
        });
        Some(Tail { entry, newest })
    }

    fn receipt_of(&self, id: &AdmissionId) -> Option<(ReceiptKey, &Receipt)> {
        let life = self.session.incarnation_key;
        let mut receipts = (0..).zip(&self.receipts);
        let found = receipts.find(|(_, (of, one))| *of == life && one.identified.id == *id);
        found.map(|(key, (_, receipt))| (ReceiptKey(key), receipt))
    }

    /// Returns the receipt of an admission of this life.
    pub(crate) fn receipt(&self, id: &AdmissionId) -> Option<Receipt> {
        self.receipt_of(id).map(|(_, receipt)| receipt.clone())
    }

    /// Returns the leases as of an instant.
    pub(crate) fn leases(&self, now: LeaseInstant) -> Leases {
        let stored = self.leases.values().filter_map(|row| row.lease).collect();
        Leases { now, stored }
    }

    pub(crate) fn generation(&self, id: EntryId) -> LeaseGeneration {
        self.leases.get(&id).map_or(LeaseGeneration::ZERO, |row| row.generation)
    }

    pub(crate) fn operations(&self, id: EntryId, operation: &OperationId) -> Operations {
        let known = self.leases.get(&id).map_or(&[][..], |row| &row.operations);
        let same = known.iter().find(|(name, ..)| name == operation);
        Operations {
            same: same.map(|(_, fingerprint, revision)| (*fingerprint, *revision)),
            count: known.len() as u64,
        }
    }

    /// Returns what a remove or clear took.
    pub(crate) fn removed_by(&self, undo: UndoId) -> Vec<EntryId> {
        let taken = |kept: &&Kept| kept.removed.is_some_and(|(by, _)| by == undo);
        self.entries.iter().filter(taken).map(|kept| kept.entry.id).collect()
    }

    /// Returns what is stored of the open turn.
    pub(crate) fn turn_records(&self, turn: &OpenTurn) -> TurnRecords {
        let of = |id: TurnId| {
            let mut entries = self.stored();
            entries.retain(|entry| entry.reserved_for == Some(id));
            entries
        };
        let (entries, prompt) = match turn.prompt {
            TurnPrompt::Entries => (of(turn.id), None),
            TurnPrompt::Message(id) => (Vec::new(), self.message_by_id(id)),
        };
        let next = match turn.stop {
            Stop::Replaced(by) => of(by),
            Stop::Asked | Stop::NotAsked => Vec::new(),
        };
        let streaming = self.messages.iter().filter(|message| {
            message.turn_id == Some(turn.id) && message.status == MessageStatus::Streaming
        });
        TurnRecords { entries, prompt, streaming: streaming.cloned().collect(), next }
    }

    pub(crate) fn message_by_id(&self, id: MessageId) -> Option<Message> {
        self.messages.iter().find(|message| message.id == id).cloned()
    }

    /// Returns a part of the transcript.
    pub(crate) fn page(&self, bounds: PageBounds, limit: usize) -> Page {
        let inside = |message: &&Message| match bounds {
            PageBounds::Newest => true,
            PageBounds::Before(seq) => message.seq < seq,
            PageBounds::After(seq) => message.seq > seq,
        };
        let mut messages: Vec<Message> = self.messages.iter().filter(inside).cloned().collect();
        let has_more = messages.len() > limit;
        match bounds {
            PageBounds::After(_) => messages.truncate(limit),
            PageBounds::Newest | PageBounds::Before(_) => {
                messages.drain(..messages.len().saturating_sub(limit));
            }
        }
        Page { messages, has_more }
    }
}
