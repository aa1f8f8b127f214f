//! What the engine asks of the journal: the file where a client keeps what it is about to send.
//!
//! The engine never sees the file. It says what is to be on disk ([`JournalOrder`]) and sends a
//! prompt only after [`super::Input::Journaled`] said that it is. What a dead client left comes in as
//! [`LeftRow`]s.

use serde_json::value::RawValue;

use super::delivery::IdOrigin;
use crate::error::ErrorCode;
use crate::id::{AdmissionId, StoreId, UserId};

/// Whether there is a journal, and what becomes of the rows of dead clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Journaling {
    /// There is none: what is sent is as safe as this process.
    #[default]
    Off,
    /// This client keeps its own rows only. For commands that end with their one prompt.
    Own,
    /// This client also goes on with what dead clients of the same user left.
    Adopting,
}

/// A send, as the journal keeps it.
#[derive(Clone, Debug)]
pub struct JournalRow {
    /// Names the admission, and the row.
    pub admission_id: AdmissionId,
    /// Who made the ID.
    pub id_origin: IdOrigin,
    /// The database that the prompt is for.
    pub store_id: StoreId,
    /// Who sends it.
    pub user_id: UserId,
    /// Whether the server of its first attempt answers replays from receipts.
    pub receipts: Receipts,
    /// The request's payload: the bytes of every attempt.
    pub payload: Box<RawValue>,
    /// How far it is.
    pub stage: JournalStage,
}

/// Whether a server answers replays from durable receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipts {
    /// It said so.
    Announced,
    /// It did not.
    Missing,
}

/// How far a send was when its row was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalStage {
    /// No frame has left.
    Unsent,
    /// A frame may have left.
    Sent,
    /// The server proved that it does not have it; its text is not back with the user yet.
    Refused(ErrorCode),
}

/// One thing to be done in the journal, in order.
#[derive(Clone, Debug)]
pub enum JournalOrder {
    /// Add a row. Answered by [`super::Input::Journaled`] when it is on disk, or cannot be.
    Keep(Box<JournalRow>),
    /// Set the stage of a row. Answered like `Keep` if the stage is [`JournalStage::Sent`], else
    /// by nothing.
    Mark(AdmissionId, JournalStage, Receipts),
    /// Delete a row: its answer is in, or its user gave it up.
    Drop(AdmissionId),
    /// Take over rows that dead clients left. Answered by [`super::Input::Adopted`].
    Adopt {
        /// Of this database.
        store_id: StoreId,
        /// Of this user.
        user_id: UserId,
        /// At most so many, the oldest first.
        rows_max: usize,
    },
}

/// Whether a row is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journaled {
    /// It will be there after a crash.
    OnDisk,
    /// It cannot be written.
    Failed,
}

/// A row that a dead client left.
#[derive(Clone, Debug)]
pub struct LeftRow {
    /// The row.
    pub row: JournalRow,
    /// How long ago it was added, milliseconds of the wall clock; [`u64::MAX`] if that clock makes
    /// no sense.
    pub age_ms: u64,
}
