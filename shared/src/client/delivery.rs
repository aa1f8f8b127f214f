//! What a program submits, and what it is shown of each send.

use std::sync::Arc;

use crate::error::WireError;
use crate::id::{AdmissionId, EntryId, MessageId};
use crate::protocol::queue::{Admission, QueueAddParams};
use crate::time::MonoMillis;

/// Where an admission ID comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdOrigin {
    /// Minted for this prompt: whatever carries it is this prompt.
    Minted,
    /// Given by the caller, who may have used it for another prompt: only an answered admission,
    /// with the server's fingerprint check, is proof. Reconciliation passes are skipped.
    Given,
}

/// A prompt to send.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Names the admission over all attempts.
    pub admission_id: AdmissionId,
    /// Who made the ID.
    pub id_origin: IdOrigin,
    /// The prompt and where it goes; the engine sets `client_queue_id` from `admission_id`.
    pub params: QueueAddParams,
}

impl Submission {
    /// A prompt with an ID that was minted for it.
    pub const fn minted(admission_id: AdmissionId, params: QueueAddParams) -> Self {
        Self { admission_id, id_origin: IdOrigin::Minted, params }
    }
}

/// A send, as the program sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// Names the admission.
    pub admission_id: AdmissionId,
    /// What was submitted, for showing it and for giving it back as a draft.
    pub params: Arc<QueueAddParams>,
    /// How far it is.
    pub state: DeliveryState,
    /// When it came to this state.
    pub since: MonoMillis,
}

/// How far a send is.
#[derive(Clone, Debug, PartialEq)]
pub enum DeliveryState {
    /// It never left; it will be sent once when there is a link. Can be taken back.
    WaitingForLink,
    /// It waits behind an open send of its session.
    Queued,
    /// It is being written to the journal; then it leaves. Can be taken back.
    Saving,
    /// It never left a client that is dead, and that is too long ago for it to be sent by itself.
    /// Stays until it is dismissed.
    Returned,
    /// It was sent.
    AwaitingReply {
        /// Which attempt, from 1.
        attempt: u32,
        /// Silence past this counts as a lost reply.
        reply_by: MonoMillis,
    },
    /// The reply to an attempt got lost: the engine looks for proof, or for a link to look over.
    Reconciling {
        /// Attempts made so far.
        attempt: u32,
    },
    /// Done: the server has it.
    Accepted(Acceptance),
    /// Done: the server does not have it. Stays until it is dismissed.
    Rejected(WireError),
    /// The server may have it. Stays until it is dismissed, resent, or proof comes.
    Uncertain {
        /// Whether [`super::Input::CheckAndResend`] is safe now.
        can_check: bool,
    },
}

impl DeliveryState {
    /// Tells whether nothing more happens to it by itself: its user decides.
    pub const fn is_undecided(&self) -> bool {
        match self {
            Self::Rejected(_) | Self::Returned | Self::Uncertain { .. } => true,
            Self::WaitingForLink
            | Self::Queued
            | Self::Saving
            | Self::AwaitingReply { .. }
            | Self::Reconciling { .. }
            | Self::Accepted(_) => false,
        }
    }
}

/// The proof that the server has a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// The server's answer.
    Replied(Admission),
    /// A queue entry carries the admission ID.
    FoundInQueue(EntryId),
    /// A message of the session's current incarnation carries the admission ID.
    FoundInTranscript(MessageId),
}
