//! What prompts carry beside their text.

use usher_shared::protocol::entry::{self, EntityReference, PlanCommentRef};

use crate::domain::enclosed::Enclosed;

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
    shown.map(|one| PlanCommentRef { id: one.id.clone(), version: one.version }).collect()
}
