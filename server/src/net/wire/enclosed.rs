//! What prompts carry beside their text.

use std::collections::HashSet;

use usher_shared::counter::CommentVersion;
use usher_shared::error::WireError;
use usher_shared::id::PlanCommentId;
use usher_shared::limits::PLAN_COMMENTS_MAX;
use usher_shared::protocol::entry::{self, EntityReference, PlanCommentRef};
use usher_shared::protocol::queue::QueueAddParams;

use crate::domain::enclosed::Enclosed;
use crate::domain::plan::CommentRef;

pub(super) fn attachments(enclosed: &Enclosed) -> Vec<entry::Attachment> {
    let shown = enclosed.attachments.iter().map(|one| entry::Attachment {
        attachment_id: one.id,
        kind: one.kind,
        name: one.name.clone(),
        mime_type: one.mime_type.clone(),
        size_bytes: one.size_bytes,
        delivery_mode: one.delivery,
    });
    shown.collect()
}

pub(super) fn references(enclosed: &Enclosed) -> Vec<EntityReference> {
    let shown = enclosed.references.iter().map(|one| EntityReference {
        kind: one.kind,
        id: one.id.clone(),
        title: one.title.clone(),
    });
    shown.collect()
}

pub(super) fn files(enclosed: &Enclosed) -> Vec<entry::ContextFile> {
    let shown = enclosed.files.iter().map(|one| entry::ContextFile {
        path: one.path.clone(),
        name: one.name.clone(),
        is_directory: one.is_directory,
    });
    shown.collect()
}

pub(super) fn comments(enclosed: &Enclosed) -> Vec<PlanCommentRef> {
    let shown = enclosed.comments.iter();
    shown.map(|one| PlanCommentRef { id: one.id.to_string(), version: one.version.get() }).collect()
}

/// Checks the plan comments that an admission refers to.
pub(super) fn comment_refs(params: &QueueAddParams) -> Result<Vec<CommentRef>, WireError> {
    const FIELD: &str = "plan_comment_refs";
    let refs = params.plan_comment_refs.as_deref().unwrap_or_default();
    if refs.is_empty() {
        return Ok(Vec::new());
    }
    if params.client_queue_id.is_none() {
        let why = "what consumes plan comments has to be identified";
        return Err(WireError::validation("client_queue_id", why));
    }
    if refs.len() > PLAN_COMMENTS_MAX {
        return Err(WireError::validation(FIELD, "too many").with("limit", PLAN_COMMENTS_MAX));
    }
    let mut named = HashSet::new();
    let read = refs.iter().map(|one| {
        let id = PlanCommentId::parse_or_nil(&one.id);
        match named.insert(id) {
            true => Ok(CommentRef { id, version: CommentVersion::new(one.version) }),
            false => Err(WireError::validation(FIELD, "a comment is named twice")),
        }
    });
    read.collect()
}
