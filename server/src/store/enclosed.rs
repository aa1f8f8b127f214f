//! What a prompt carries beside its text, as text: one column of an entry and of a receipt, and part
//! of a message's details.

use serde::{Deserialize, Serialize};
use usher_shared::counter::CommentVersion;
use usher_shared::id::{AttachmentId, PlanCommentId};
use usher_shared::vocabulary::{AttachmentKind, DeliveryMode, ReferenceKind};

use super::error::StoreError;
use crate::domain::enclosed::{Attachment, ContextFile, Enclosed, Reference};
use crate::domain::plan::CommentRef;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredEnclosed {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<StoredAttachment>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    references: Vec<StoredReference>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<StoredFile>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    comments: Vec<StoredComment>,
}

#[derive(Serialize, Deserialize)]
struct StoredAttachment {
    id: AttachmentId,
    kind: AttachmentKind,
    name: String,
    mime_type: String,
    size_bytes: u64,
    delivery: DeliveryMode,
}

#[derive(Serialize, Deserialize)]
struct StoredReference {
    kind: ReferenceKind,
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredFile {
    path: String,
    name: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_directory: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredComment {
    id: PlanCommentId,
    version: CommentVersion,
}

impl From<&Enclosed> for StoredEnclosed {
    fn from(enclosed: &Enclosed) -> Self {
        let attachments = enclosed.attachments.iter().map(|one| StoredAttachment {
            id: one.id,
            kind: one.kind,
            name: one.name.clone(),
            mime_type: one.mime_type.clone(),
            size_bytes: one.size_bytes,
            delivery: one.delivery,
        });
        let references = enclosed.references.iter().map(|one| StoredReference {
            kind: one.kind,
            id: one.id.clone(),
            title: one.title.clone(),
        });
        let files = enclosed.files.iter().map(|one| StoredFile {
            path: one.path.clone(),
            name: one.name.clone(),
            is_directory: one.is_directory,
        });
        let comments = enclosed.comments.iter();
        Self {
            attachments: attachments.collect(),
            references: references.collect(),
            files: files.collect(),
            comments: comments
                .map(|one| StoredComment { id: one.id, version: one.version })
                .collect(),
        }
    }
}

impl From<StoredEnclosed> for Enclosed {
    fn from(stored: StoredEnclosed) -> Self {
        let attachments = stored.attachments.into_iter().map(|one| Attachment {
            id: one.id,
            kind: one.kind,
            name: one.name,
            mime_type: one.mime_type,
            size_bytes: one.size_bytes,
            delivery: one.delivery,
        });
        let references = stored.references.into_iter().map(|one| Reference {
            kind: one.kind,
            id: one.id,
            title: one.title,
        });
        let files = stored.files.into_iter().map(|one| ContextFile {
            path: one.path,
            name: one.name,
            is_directory: one.is_directory,
        });
        let comments = stored.comments.into_iter();
        Self {
            attachments: attachments.collect(),
            references: references.collect(),
            files: files.collect(),
            comments: comments.map(|one| CommentRef { id: one.id, version: one.version }).collect(),
        }
    }
}

/// Reads what is stored; NULL is nothing.
pub(super) fn enclosed(text: Option<&str>) -> Result<Enclosed, StoreError> {
    let Some(text) = text else {
        return Ok(Enclosed::default());
    };
    let stored: StoredEnclosed =
        serde_json::from_str(text).map_err(|_| StoreError::Damaged("what an entry carries"))?;
    Ok(stored.into())
}

/// Nothing is stored as NULL.
pub(super) fn enclosed_text(enclosed: &Enclosed) -> Option<String> {
    (*enclosed != Enclosed::default()).then(|| super::row::json(&StoredEnclosed::from(enclosed)))
}
