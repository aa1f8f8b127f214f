//! What proves that the server has a prompt, and what proves that it has not.

use super::delivery::Acceptance;
use crate::error::ErrorCode;
use crate::id::{AdmissionId, IncarnationId};
use crate::protocol::entry::StatusEntry;
use crate::protocol::queue::QueueStatus;
use crate::protocol::transcript::Message;

/// Looks for a queue entry that was made from this admission.
pub(super) fn in_queue(
    status: &QueueStatus,
    id: &AdmissionId,
    incarnation_id: IncarnationId,
) -> Option<Acceptance> {
    if status.session_incarnation_id != incarnation_id {
        return None;
    }
    let found = status.entries.iter().find(|entry| match entry {
        StatusEntry::Whole(entry) => entry.metadata.queue_admission_ids.contains(id),
        StatusEntry::Stub { .. } => false,
    });
    found.map(|entry| Acceptance::FoundInQueue(entry.id()))
}

/// Looks for a message of this incarnation that was made from this admission.
pub(super) fn in_messages(
    messages: &[Message],
    id: &AdmissionId,
    incarnation_id: IncarnationId,
) -> Option<Acceptance> {
    let mut newest_first = messages.iter().rev();
    newest_first
        .find(|message| {
            message.session_incarnation_id == incarnation_id
                && message.metadata.queue_admission_ids.contains(id)
        })
        .map(|message| Acceptance::FoundInTranscript(message.id))
}

/// Tells whether this answer to a retry proves that no earlier attempt was accepted: the server
/// decides it only after it looked for the receipt.
pub(super) const fn of_absence(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::QueueFull
            | ErrorCode::QueueIdConflict
            | ErrorCode::ReferenceInvalid
            | ErrorCode::AttachmentUnavailable
            | ErrorCode::PlanCommentConflict
    )
}
