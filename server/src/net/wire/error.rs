//! Refusals, by code.

use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::TurnId;
use usher_shared::limits::{ATTACHMENT_BYTES_MAX, METADATA_BYTES_MAX, PLAN_COMMENTS_MAX};
use usher_shared::time::UnixMillis;

use super::edit::later;
use super::{CommitUnknown, Refused};
use crate::domain::admission::AdmitRefusal;
use crate::domain::attachment::{AppendRefusal, TakeRefusal};
use crate::domain::edit::EditRefusal;
use crate::domain::merge::Overflow;
use crate::domain::plan::{CommentConflict, CommentRefusal};
use crate::domain::queue::{MergeRefusal, RestoreRefusal};
use crate::domain::send_now::SendNowRefusal;
use crate::domain::transfer::TransferRefusal;
use crate::service::{
    AddError, EditError, FindError, MakeError, PlanError, QueueError, SessionError, SettingsError,
    TextError, TurnError, UploadError,
};
use crate::store::{StoreError, TransactError};

/// How long a client waits before it tries a failed store again.
const STORE_RETRY_MS: u64 = 1_000;
/// How long a client waits before it asks again for what it has too many of: some have to end.
const TOO_MANY_RETRY_MS: u64 = 5_000;

/// Refuses what a connection or user has enough of.
pub(in crate::net) fn too_many(what: &str) -> WireError {
    WireError::new(ErrorCode::RateLimited, what).with("retry_after_ms", TOO_MANY_RETRY_MS)
}

fn store_failed(error: &StoreError) -> WireError {
    WireError::new(ErrorCode::QueueAdmissionUnavailable, error.to_string())
        .with("retry_after_ms", STORE_RETRY_MS)
}

fn store_broken(error: &StoreError) -> WireError {
    match error {
        StoreError::Full
        | StoreError::ReadOnly
        | StoreError::Io(_)
        | StoreError::Away(_)
        | StoreError::Conflict
        | StoreError::Closed => store_failed(error),
        StoreError::Damaged(_)
        | StoreError::Database(_)
        | StoreError::Locked(_)
        | StoreError::Newer { .. } => WireError::new(ErrorCode::Internal, error.to_string()),
    }
}

fn unavailable() -> WireError {
    WireError::new(ErrorCode::QueueSessionUnavailable, "no such session for this caller")
}

/// Sorts a failed transaction: refusals by `refused`, the rest alike for all actions.
pub(in crate::net) fn transact_error<E>(
    error: TransactError<E>,
    refused: impl FnOnce(E) -> WireError,
) -> Refused {
    match error {
        TransactError::Refused(error) => Ok(refused(error)),
        TransactError::NotStored(error) => Ok(store_failed(&error)),
        TransactError::Unknown(_) => Err(CommitUnknown),
    }
}

/// Answers an admission that was refused.
pub fn add_error(error: AddError) -> WireError {
    match error {
        AddError::Unavailable(_) => unavailable(),
        AddError::Store(error) => store_failed(&error),
        AddError::Refused(refusal) => {
            let text = refusal.to_string();
            match refusal {
                AdmitRefusal::Conflict => WireError::new(ErrorCode::QueueIdConflict, text),
                AdmitRefusal::QueueFull { queue_size, max } => queue_full(queue_size, max),
                AdmitRefusal::Blank => WireError::validation("content", text),
                AdmitRefusal::NotTaken(refusal) => not_taken(refusal),
                AdmitRefusal::Overflow(overflow) => too_much(overflow),
                AdmitRefusal::Comment(conflict) => plan_comment_conflict(conflict),
            }
        }
        AddError::ReferenceInvalid => {
            WireError::new(ErrorCode::ReferenceInvalid, error.to_string())
        }
    }
}

/// Refuses the attachments of a request.
fn not_taken(refusal: TakeRefusal) -> WireError {
    let text = refusal.to_string();
    match refusal {
        TakeRefusal::Unavailable { index } => {
            WireError::new(ErrorCode::AttachmentUnavailable, text).with("attachment_index", index)
        }
        TakeRefusal::TooLarge { index } => WireError::validation("attachments", text)
            .with("limit", ATTACHMENT_BYTES_MAX)
            .with("attachment_index", index),
    }
}

/// Refuses more than an entry may have beside its text.
fn too_much(overflow: Overflow) -> WireError {
    WireError::validation("payload", overflow.to_string()).with("limit", METADATA_BYTES_MAX)
}

pub(in crate::net) fn upload_error(error: UploadError) -> WireError {
    let text = error.to_string();
    match error {
        UploadError::NotFound => WireError::new(ErrorCode::NotFound, text),
        UploadError::Gone(_) => WireError::new(ErrorCode::AttachmentUnavailable, text),
        UploadError::TooMany(_) => too_many(&text),
        UploadError::Append(AppendRefusal::Gap { received }) => {
            WireError::validation("offset", text).with("received_bytes", received)
        }
        UploadError::Append(AppendRefusal::TooLong { size }) => {
            WireError::validation("data", text).with("limit", size)
        }
        UploadError::Short { received } => {
            WireError::validation("attachment_id", text).with("received_bytes", received)
        }
        UploadError::OtherBytes => WireError::validation("sha256", text),
        UploadError::Store(error) => store_broken(&error),
    }
}

fn queue_full(queue_size: u64, max: u64) -> WireError {
    WireError::new(ErrorCode::QueueFull, "the queue is full")
        .with("queue_size", queue_size)
        .with("max", max)
}

/// Answers an operation on a queue that was refused.
pub fn queue_error(error: QueueError) -> WireError {
    let text = error.to_string();
    match error {
        QueueError::Unavailable(_) => unavailable(),
        QueueError::EntryNotFound => WireError::new(ErrorCode::EntryNotFound, text),
        QueueError::Changed { revision } => {
            WireError::new(ErrorCode::QueueChanged, text).with("queue_revision", revision.get())
        }
        QueueError::MergeDisabled => WireError::new(ErrorCode::MergeDisabled, text),
        QueueError::NotMerged(refusal) => match refusal {
            MergeRefusal::NoTarget => WireError::new(ErrorCode::NoMergeTarget, text),
            MergeRefusal::Overflow(Overflow(bound)) => {
                WireError::new(ErrorCode::MergeOverflow, text).with("limit", bound.name())
            }
        },
        QueueError::NotSent(refusal) => match refusal {
            SendNowRefusal::TurnChanged { open } => turn_changed(open),
            SendNowRefusal::QueueChanged(changed) => queue_error(changed.into()),
            SendNowRefusal::EntryNotFound => WireError::new(ErrorCode::EntryNotFound, text),
            SendNowRefusal::QueueEmpty => WireError::new(ErrorCode::QueueEmpty, text),
            SendNowRefusal::Overflow(Overflow(bound)) => {
                WireError::new(ErrorCode::SendNowOverflow, text).with("limit", bound.name())
            }
            SendNowRefusal::Conflict => WireError::new(ErrorCode::SendNowConflict, text),
        },
        QueueError::NotRestored(refusal) => match refusal {
            RestoreRefusal::Expired => WireError::new(ErrorCode::UndoExpired, text),
            RestoreRefusal::QueueFull { queue_size, max } => queue_full(queue_size, max),
        },
        QueueError::Busy => WireError::new(ErrorCode::SessionBusy, text),
        QueueError::NotPromptable => WireError::new(ErrorCode::SessionNotPromptable, text),
        QueueError::Store(error) => store_broken(&error),
    }
}

/// Answers an edit that was refused, as of `now`.
pub fn edit_error(error: EditError, now: UnixMillis) -> WireError {
    let text = error.to_string();
    match error {
        EditError::Unavailable(_) => unavailable(),
        EditError::EntryNotFound => WireError::new(ErrorCode::EntryNotFound, text),
        EditError::Taken { holder_is_you, lasts } => WireError::new(ErrorCode::EditConflict, text)
            .with("holder_is_you", holder_is_you)
            .with("expires_at", later(now, lasts).to_string()),
        EditError::Refused(refusal) => match refusal {
            EditRefusal::NotHeld(_) | EditRefusal::TooMany => {
                WireError::new(ErrorCode::EditConflict, text)
            }
            EditRefusal::OperationConflict => WireError::new(ErrorCode::OperationConflict, text),
            EditRefusal::RevisionConflict { revision } => {
                WireError::new(ErrorCode::RevisionConflict, text)
                    .with("target_revision", revision.get())
            }
            EditRefusal::Blank => WireError::validation("content", text),
            EditRefusal::NotTaken(refusal) => not_taken(refusal),
            EditRefusal::Overflow(overflow) => too_much(overflow),
            EditRefusal::ReferenceInvalid => WireError::new(ErrorCode::ReferenceInvalid, text),
        },
        EditError::Store(error) => store_broken(&error),
    }
}

pub(in crate::net) fn plan_error(error: PlanError) -> WireError {
    let text = error.to_string();
    match error {
        PlanError::Unavailable(_) => unavailable(),
        PlanError::Refused(refusal) => match refusal {
            CommentRefusal::NoPlan | CommentRefusal::NotFound => {
                WireError::new(ErrorCode::NotFound, text)
            }
            CommentRefusal::NoSuchEntry => WireError::validation("entry_index", text),
            CommentRefusal::TooMany => {
                WireError::validation("comments", text).with("limit", PLAN_COMMENTS_MAX)
            }
            CommentRefusal::Conflict(conflict) => plan_comment_conflict(conflict),
        },
        PlanError::Store(error) => store_broken(&error),
    }
}

fn plan_comment_conflict(conflict: CommentConflict) -> WireError {
    let CommentConflict(id) = conflict;
    WireError::new(ErrorCode::PlanCommentConflict, conflict.to_string()).with("id", id.to_string())
}

fn turn_changed(open: Option<TurnId>) -> WireError {
    WireError::new(ErrorCode::TurnChanged, "another turn is open")
        .with("turn_id", open.map(|turn| turn.to_string()))
}

/// Answers an operation on a turn that was refused.
pub fn turn_error(error: TurnError) -> WireError {
    let text = error.to_string();
    match error {
        TurnError::Unavailable(_) => unavailable(),
        TurnError::Changed { open } => turn_changed(open),
        TurnError::NotPromptable => WireError::new(ErrorCode::SessionNotPromptable, text),
        TurnError::Busy => WireError::new(ErrorCode::SessionBusy, text),
        TurnError::Conflict => WireError::new(ErrorCode::SendNowConflict, text),
        TurnError::PermissionClosed => WireError::new(ErrorCode::PermissionClosed, text),
        TurnError::UnknownOption => WireError::validation("option_id", text),
        TurnError::Store(error) => store_broken(&error),
    }
}

/// Answers an operation on a session that was refused.
pub fn session_error(error: SessionError) -> WireError {
    let text = error.to_string();
    match error {
        SessionError::Unavailable(_) => unavailable(),
        SessionError::Busy(_) | SessionError::Transfer(TransferRefusal::Busy) => {
            WireError::new(ErrorCode::SessionBusy, text)
        }
        SessionError::Transfer(TransferRefusal::Full { queue_size, max }) => {
            WireError::new(ErrorCode::QueueFull, text)
                .with("queue_size", queue_size)
                .with("max", max)
        }
        SessionError::Store(error) => store_broken(&error),
    }
}

pub(in crate::net) fn settings_error(error: SettingsError) -> WireError {
    let text = error.to_string();
    match error {
        SettingsError::Locked(_) => WireError::new(ErrorCode::Forbidden, text),
        SettingsError::NoUser => WireError::new(ErrorCode::Unauthorized, text),
        SettingsError::Store(error) => store_broken(&error),
    }
}

/// Answers what was not found.
pub fn find_error(error: FindError) -> WireError {
    match error {
        FindError::NotFound => WireError::new(ErrorCode::NotFound, "not found"),
        FindError::Store(error) => store_broken(&error),
    }
}

pub(in crate::net) fn text_error(error: TextError) -> WireError {
    let text = error.to_string();
    match error {
        TextError::Find(error) => find_error(error),
        TextError::InsideCharacter => WireError::validation("offset", text),
        TextError::NoRoom => WireError::validation("length", text),
    }
}

pub(in crate::net) fn make_error(error: MakeError) -> WireError {
    match error {
        MakeError::NotFound => WireError::new(ErrorCode::NotFound, "not found"),
        MakeError::NoUser => WireError::new(ErrorCode::Unauthorized, "no such user any more"),
        MakeError::UnknownAgent => WireError::validation("agent", "no such agent"),
        MakeError::Store(error) => store_broken(&error),
    }
}
