//! Two entries become one: by a fold on admission, by hand, or for one turn that takes several.
//!
//! The earlier entry survives with its id, position, sender, model and plan mode. Nothing is ever
//! cut to make it fit: what would break a bound stays as it is.

use std::sync::Arc;

use usher_shared::id::AdmissionId;
use usher_shared::limits::{ADMISSION_IDS_MAX, CONTENT_BYTES_MAX, METADATA_BYTES_MAX};
use usher_shared::vocabulary::SenderKind;

use super::entry::{Entry, Provenance, Sender};

/// Between the texts of two prompts that become one.
const BLANK_LINE: &str = "\n\n";

/// A bound that the joined entry would break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the joined entry breaks the limit {}", .0.name())]
pub struct Overflow(pub Bound);

/// The bounds of one entry, as `hello` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Bytes of text.
    Content,
    /// Admissions that an entry was made from.
    AdmissionIds,
    /// Attachments.
    Attachments,
    /// Their size together.
    AttachmentBytes,
    /// References.
    References,
    /// Context files.
    ContextFiles,
    /// Prompts that answer plan comments: one, alone.
    PlanComments,
    /// Everything that an entry has beside its text and the bytes of its attachments.
    Metadata,
}

impl Bound {
    /// Returns the bound's name among the limits of `hello`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Content => "content_bytes_max",
            Self::AdmissionIds => "admission_ids_max",
            Self::Attachments => "attachments_max",
            Self::AttachmentBytes => "attachment_bytes_max",
            Self::References => "references_max",
            Self::ContextFiles => "context_files_max",
            Self::PlanComments => "plan_comments",
            Self::Metadata => "metadata_bytes_max",
        }
    }
}

/// Tells whether a new entry may join the tail by itself: nothing about how it runs or who sent it
/// would get lost.
pub fn may_fold(tail: &Entry, new: &Entry) -> bool {
    tail.reserved_for.is_none()
        && tail.model == new.model
        && tail.plan_mode == new.plan_mode
        && may_join(tail, new)
}

/// Tells whether two prompts can become one at all: they are of one sender, and neither answers
/// plan comments.
pub fn may_join(one: &Entry, other: &Entry) -> bool {
    same_sender(&one.queued_by, &other.queued_by)
        && one.enclosed.comments.is_empty()
        && other.enclosed.comments.is_empty()
}

/// Tells whether two senders are one: the same user, or agents of the same task.
fn same_sender(one: &Sender, other: &Sender) -> bool {
    match (one.kind, other.kind) {
        (SenderKind::User, SenderKind::User) => one.id == other.id,
        (SenderKind::Agent, SenderKind::Agent) => one.task.is_some() && one.task == other.task,
        _ => false,
    }
}

/// Joins `source` into `target`.
///
/// # Errors
/// The bound that the result would break.
pub fn join(target: &Entry, source: &Entry) -> Result<Entry, Overflow> {
    let joined = Entry {
        content: join_texts(&target.content, &source.content)?,
        enclosed: target.enclosed.join(&source.enclosed)?,
        provenance: Provenance {
            admission_ids: union(
                &target.provenance.admission_ids,
                &source.provenance.admission_ids,
            )?,
            past: union(&target.provenance.past, &source.provenance.past)?,
        },
        queued_at: target.queued_at.max(source.queued_at),
        revision: target.revision.next(),
        ..target.clone()
    };
    match joined.metadata_bytes() > METADATA_BYTES_MAX {
        true => Err(Overflow(Bound::Metadata)),
        false => Ok(joined),
    }
}

/// Joins entries in their order into the one that a turn runs; None if there are none.
///
/// # Errors
/// The bound that the result would break.
pub fn join_all(entries: &[Entry]) -> Result<Option<Entry>, Overflow> {
    let Some((first, rest)) = entries.split_first() else {
        return Ok(None);
    };
    rest.iter().try_fold(first.clone(), |joined, entry| join(&joined, entry)).map(Some)
}

/// One blank line between two texts; an empty side leaves the other byte for byte.
fn join_texts(above: &Arc<str>, below: &Arc<str>) -> Result<Arc<str>, Overflow> {
    let joined = match (above.is_empty(), below.is_empty()) {
        (true, _) => Arc::clone(below),
        (_, true) => Arc::clone(above),
        (false, false) => Arc::from([above, BLANK_LINE, below].concat()),
    };
    if joined.len() > CONTENT_BYTES_MAX { Err(Overflow(Bound::Content)) } else { Ok(joined) }
}

/// The IDs of both in order, each once.
fn union(above: &[AdmissionId], below: &[AdmissionId]) -> Result<Vec<AdmissionId>, Overflow> {
    let mut all = above.to_vec();
    all.extend(below.iter().filter(|id| !above.contains(id)).cloned());
    if all.len() > ADMISSION_IDS_MAX { Err(Overflow(Bound::AdmissionIds)) } else { Ok(all) }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
