//! One enum per kind of action: the caller can tell what to do next from the variant alone.

use usher_shared::counter::QueueRevision;
use usher_shared::id::TurnId;
use usher_shared::vocabulary::EditEvent;

use crate::domain::admission::AdmitRefusal;
use crate::domain::attachment::{AppendRefusal, TooManyStaged, UploadGone};
use crate::domain::edit::EditRefusal;
use crate::domain::lease::{BeginRefusal, NotHeld};
use crate::domain::lifecycle::Busy;
use crate::domain::plan::CommentRefusal;
use crate::domain::queue::{MergeRefusal, QueueChanged, RestoreRefusal};
use crate::domain::send_now::SendNowRefusal;
use crate::domain::session::Unavailable;
use crate::domain::settings::Locked;
use crate::domain::transfer::TransferRefusal;
use crate::domain::turn::{CancelRefusal, NotOpen, ResolveRefusal};
use crate::store::StoreError;

/// Why an admission was refused.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The queue or the receipt says no.
    #[error(transparent)]
    Refused(#[from] AdmitRefusal),
    /// What it points at is not there for this caller.
    #[error("a reference names nothing that is there for this caller")]
    ReferenceInvalid,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an upload does not go on.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// No such session for this caller.
    #[error("not found")]
    NotFound,
    /// See [`UploadGone`].
    #[error(transparent)]
    Gone(#[from] UploadGone),
    /// See [`TooManyStaged`].
    #[error(transparent)]
    TooMany(#[from] TooManyStaged),
    /// Bytes were not appended.
    #[error(transparent)]
    Append(#[from] AppendRefusal),
    /// It is not whole.
    #[error("{received} bytes are there")]
    Short {
        /// What is there.
        received: u64,
    },
    /// Its bytes are not what was announced.
    #[error("other bytes than announced")]
    OtherBytes,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an operation on a queue was refused.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The entry is not visible (any more).
    #[error("no such entry")]
    EntryNotFound,
    /// The queue is another one than the caller saw.
    #[error("queue is at revision {revision}")]
    Changed {
        /// The revision now.
        revision: QueueRevision,
    },
    /// Merging is switched off.
    #[error("merging is switched off")]
    MergeDisabled,
    /// The entry was not merged.
    #[error(transparent)]
    NotMerged(#[from] MergeRefusal),
    /// Nothing was put back.
    #[error(transparent)]
    NotRestored(#[from] RestoreRefusal),
    /// A turn is open.
    #[error("a turn is open")]
    Busy,
    /// A question is open.
    #[error("a question is open")]
    NotPromptable,
    /// Nothing was sent now.
    #[error(transparent)]
    NotSent(#[from] SendNowRefusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<QueueChanged> for QueueError {
    fn from(changed: QueueChanged) -> Self {
        Self::Changed { revision: changed.revision }
    }
}

/// Why an edit was refused.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The entry is not visible (any more), or not one that the caller may edit.
    #[error("no such entry")]
    EntryNotFound,
    /// Somebody edits the entry.
    #[error("somebody edits this entry")]
    Taken {
        /// Whether it is the same connection.
        holder_is_you: bool,
        /// For how long, milliseconds, unless it is renewed.
        lasts: i64,
    },
    /// Nothing was saved, renewed or ended.
    #[error(transparent)]
    Refused(#[from] EditRefusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<BeginRefusal> for EditError {
    fn from(refusal: BeginRefusal) -> Self {
        match refusal {
            BeginRefusal::EntryNotFound => Self::EntryNotFound,
            BeginRefusal::Conflict { holder_is_you, lasts } => Self::Taken { holder_is_you, lasts },
        }
    }
}

impl From<NotHeld> for EditError {
    fn from(error: NotHeld) -> Self {
        Self::Refused(EditRefusal::NotHeld(error))
    }
}

impl EditError {
    /// Returns what the log says of it.
    pub(super) const fn event(&self) -> Option<EditEvent> {
        match self {
            Self::Taken { .. } | Self::Refused(EditRefusal::NotHeld(_)) => {
                Some(EditEvent::Conflict)
            }
            Self::Refused(EditRefusal::RevisionConflict { .. }) => {
                Some(EditEvent::RevisionRejected)
            }
            Self::Refused(_) | Self::Unavailable(_) | Self::EntryNotFound | Self::Store(_) => None,
        }
    }
}

/// Why the plan of a session was not shown, or a comment on it not made, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Nothing was changed.
    #[error(transparent)]
    Refused(#[from] CommentRefusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an operation on a whole session was refused.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A turn is open.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// Nothing was moved.
    #[error(transparent)]
    Transfer(#[from] TransferRefusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SessionError {
    /// The session is gone, or was never there.
    pub(super) const fn unavailable() -> Self {
        Self::Unavailable(Unavailable)
    }
}

/// Why settings were not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// See [`Locked`].
    #[error(transparent)]
    Locked(#[from] Locked),
    /// The caller was removed.
    #[error("no such user any more")]
    NoUser,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why something was not found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// Unknown and foreign alike.
    #[error("not found")]
    NotFound,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a part of a text was not read.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// See [`FindError`].
    #[error(transparent)]
    Find(#[from] FindError),
    /// It would begin inside a character.
    #[error("inside a character")]
    InsideCharacter,
    /// Not even its first character would fit.
    #[error("not enough for one character")]
    NoRoom,
}

impl From<StoreError> for TextError {
    fn from(error: StoreError) -> Self {
        Self::Find(error.into())
    }
}

/// Why a task or session was not made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// The task is unknown or foreign.
    #[error("not found")]
    NotFound,
    /// The caller was removed.
    #[error("no such user any more")]
    NoUser,
    /// No agent of that name is configured.
    #[error("unknown agent")]
    UnknownAgent,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an operation on a turn was refused.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Another turn is open, or none, than the one named.
    #[error("another turn is open")]
    Changed {
        /// The open one.
        open: Option<TurnId>,
    },
    /// A turn is open.
    #[error("a turn is open")]
    Busy,
    /// A question is open.
    #[error("a question is open")]
    NotPromptable,
    /// A cancel is under way.
    #[error("a cancel is under way")]
    Conflict,
    /// The question is closed.
    #[error("the question is closed")]
    PermissionClosed,
    /// The question has no such answer.
    #[error("the question has no such answer")]
    UnknownOption,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<NotOpen> for TurnError {
    fn from(NotOpen: NotOpen) -> Self {
        Self::Changed { open: None }
    }
}

impl From<CancelRefusal> for TurnError {
    fn from(refusal: CancelRefusal) -> Self {
        match refusal {
            CancelRefusal::TurnChanged { open } => Self::Changed { open },
            CancelRefusal::Conflict => Self::Conflict,
        }
    }
}

impl From<ResolveRefusal> for TurnError {
    fn from(refusal: ResolveRefusal) -> Self {
        match refusal {
            ResolveRefusal::TurnChanged { open } => Self::Changed { open },
            ResolveRefusal::Busy => Self::Busy,
        }
    }
}
