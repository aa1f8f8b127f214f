//! A send and its row in the journal: on disk before its first frame, gone after its answer, and
//! taken over from a dead client.

use super::{Phase, ServerFacts, Track};
use crate::client::api::{Event, Output};
use crate::client::bounds::{JOURNAL_WAIT_MS, UNSENT_AGE_MAX_MS};
use crate::client::delivery::DeliveryState;
use crate::client::journal::{JournalOrder, JournalRow, JournalStage, Journaled, LeftRow};
use crate::client::outbox::Outbox;
use crate::error::{ErrorCode, WireError};
use crate::protocol::queue::QueueAddParams;
use crate::time::MonoMillis;

/// What is on disk of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    /// Nothing was asked for.
    Unasked,
    /// Its row is being written, with this stage.
    Writing(JournalStage),
    /// Its row, with this stage.
    OnDisk(JournalStage),
    /// Nothing that can be relied on.
    Failed,
}

impl Track {
    /// Goes on with what a dead client left: what it never sent is sent if it is young, what it sent
    /// is looked for and not sent. None: the row cannot be read.
    pub(in super::super) fn adopted(
        left: LeftRow,
        now: MonoMillis,
        out: &mut Outbox,
    ) -> Option<Self> {
        let LeftRow { row, age_ms } = left;
        let JournalRow { admission_id, id_origin, store_id, user_id, receipts, payload, stage } =
            row;
        let params: QueueAddParams = serde_json::from_str(payload.get()).ok()?;
        params.session_incarnation_id?;
        let mut track = Self::new(admission_id, id_origin, params, payload, now);
        track.saved = Saved::OnDisk(stage);
        match stage {
            JournalStage::Unsent if age_ms <= UNSENT_AGE_MAX_MS => {}
            JournalStage::Unsent => {
                track.phase = Phase::Returned;
                track.show(DeliveryState::Returned, now, out);
            }
            JournalStage::Sent => {
                (track.attempts, track.unanswered) = (1, 1);
                track.first_server = Some(ServerFacts { store_id, user_id, receipts });
                track.retry_failed(None, now, out);
            }
            JournalStage::Refused(code) => {
                track.phase = Phase::Rejected;
                let error = WireError::new(code, "refused before the client died");
                track.show(DeliveryState::Rejected(error), now, out);
            }
        }
        Some(track)
    }

    /// Sees to it that the journal knows of the first frame before it leaves. Tells whether it may
    /// leave now.
    pub(super) fn save_as_sent(
        &mut self,
        server: ServerFacts,
        now: MonoMillis,
        out: &mut Outbox,
    ) -> bool {
        match self.saved {
            // A row that comes too late must not say that nothing has left.
            Saved::Failed => {
                self.mark_as_sent(server, out);
                return true;
            }
            Saved::OnDisk(JournalStage::Sent | JournalStage::Refused(_)) => return true,
            Saved::Unasked if !out.journals() => return true,
            Saved::Unasked => self.keep(JournalStage::Sent, server, out),
            Saved::OnDisk(JournalStage::Unsent) => {
                self.mark_as_sent(server, out);
                self.saved = Saved::Writing(JournalStage::Sent);
            }
            Saved::Writing(_) => {}
        }
        self.phase = Phase::Saving { until: now.plus(JOURNAL_WAIT_MS) };
        self.show(DeliveryState::Saving, now, out);
        false
    }

    fn mark_as_sent(&self, server: ServerFacts, out: &mut Outbox) {
        let id = self.delivery.admission_id.clone();
        let order = JournalOrder::Mark(id, JournalStage::Sent, server.receipts);
        out.push(Output::Journal(order));
    }

    /// Its text goes back to its user, who may have no room for it now.
    pub(super) fn mark_as_refused(&mut self, code: ErrorCode, out: &mut Outbox) {
        let (false, Some(server)) = (self.saved == Saved::Unasked, self.first_server) else {
            return;
        };
        let stage = JournalStage::Refused(code);
        let id = self.delivery.admission_id.clone();
        out.push(Output::Journal(JournalOrder::Mark(id, stage, server.receipts)));
        // A row that was never written is not there now.
        if self.saved != Saved::Failed {
            self.saved = Saved::OnDisk(stage);
        }
    }

    /// Writes down what cannot leave yet.
    pub(in super::super) fn save_as_unsent(&mut self, server: ServerFacts, out: &mut Outbox) {
        if self.phase == Phase::Waiting && self.saved == Saved::Unasked && out.journals() {
            self.keep(JournalStage::Unsent, server, out);
        }
    }

    fn keep(&mut self, stage: JournalStage, server: ServerFacts, out: &mut Outbox) {
        let row = JournalRow {
            admission_id: self.delivery.admission_id.clone(),
            id_origin: self.origin,
            store_id: server.store_id,
            user_id: server.user_id,
            receipts: server.receipts,
            payload: self.payload.clone(),
            stage,
        };
        out.push(Output::Journal(JournalOrder::Keep(Box::new(row))));
        self.saved = Saved::Writing(stage);
    }

    /// Its row is on disk, or cannot be written.
    pub(in super::super) fn journaled(&mut self, outcome: Journaled, out: &mut Outbox) {
        let Saved::Writing(stage) = self.saved else {
            return;
        };
        match outcome {
            Journaled::OnDisk => self.saved = Saved::OnDisk(stage),
            Journaled::Failed => self.go_unprotected(out),
        }
        if let Phase::Saving { .. } = self.phase {
            self.phase = Phase::Waiting;
        }
    }

    pub(super) fn go_unprotected(&mut self, out: &mut Outbox) {
        self.saved = Saved::Failed;
        out.event(Event::Unprotected(self.delivery.admission_id.clone()));
    }

    /// It is over: nothing of it needs to be on disk any more.
    pub(in super::super) fn drop_row(&self, out: &mut Outbox) {
        if self.saved != Saved::Unasked {
            let order = JournalOrder::Drop(self.delivery.admission_id.clone());
            out.push(Output::Journal(order));
        }
    }

    /// Tells whether it would be gone if this client ended now.
    pub(in super::super) fn is_unprotected(&self) -> bool {
        match self.saved {
            Saved::Unasked | Saved::Failed => true,
            Saved::Writing(_) | Saved::OnDisk(_) => false,
        }
    }
}
