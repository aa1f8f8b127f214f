//! What prompts carry beside their text.

use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use usher_shared::counter::CommentVersion;
use usher_shared::error::WireError;
use usher_shared::id::{AttachmentId, PlanCommentId};
use usher_shared::limits::{
    ATTACHMENTS_MAX, CONTEXT_FILES_MAX, INLINE_BYTES_MAX, MIME_TYPE_BYTES_MAX, NAME_BYTES_MAX,
    PATH_BYTES_MAX, PLAN_COMMENTS_MAX, REFERENCE_ID_BYTES_MAX, REFERENCES_MAX,
};
use usher_shared::protocol::entry::{self, AttachmentParams, EntityReference, PlanCommentRef};
use usher_shared::protocol::queue::QueueAddParams;
use usher_shared::rules::file_name::clean_file_name;
use usher_shared::vocabulary::AttachmentKind;

use super::bounded;
use crate::clock::secret_uuid;
use crate::domain::attachment::{ContentDigest, Described, Inline, Offered};
use crate::domain::enclosed::{ContextFile, Enclosed, Reference};
use crate::domain::plan::CommentRef;

/// Checks shape and hard bounds of a request's attachments.
pub(super) fn offered(params: Vec<AttachmentParams>) -> Result<Vec<Offered>, WireError> {
    if params.len() > ATTACHMENTS_MAX {
        let refused = wrong(ATTACHMENTS_MAX, "too many").with("limit", ATTACHMENTS_MAX);
        return Err(refused);
    }
    let mut offered = Vec::with_capacity(params.len());
    let mut inline_bytes = 0;
    for (index, one) in params.into_iter().enumerate() {
        offered.push(match (one.attachment_id, one.data) {
            (Some(id), None) => {
                if one.kind.is_some() || one.name.is_some() || one.mime_type.is_some() {
                    return Err(wrong(index, "an upload was described when it was begun"));
                }
                Offered::Named { id, delivery: one.delivery_mode.unwrap_or_default() }
            }
            (None, Some(data)) => {
                let data = STANDARD.decode(data).map_err(|_| wrong(index, "no padded base64"))?;
                inline_bytes += data.len();
                if inline_bytes > INLINE_BYTES_MAX {
                    return Err(wrong(index, "too large").with("limit", INLINE_BYTES_MAX));
                }
                let sha256 = ContentDigest(Sha256::digest(&data).into());
                let missing = |what: &str| wrong(index, format!("no {what}"));
                let about = Announced {
                    kind: one.kind.ok_or_else(|| missing("type"))?,
                    name: one.name.ok_or_else(|| missing("name"))?,
                    mime_type: one.mime_type.ok_or_else(|| missing("mime_type"))?,
                    size_bytes: data.len() as u64,
                    sha256,
                };
                let about = described(about, |_| "attachments".to_owned());
                Offered::Inline(Box::new(Inline {
                    id: AttachmentId::from_uuid(secret_uuid()),
                    about: about.map_err(|error| error.with("attachment_index", index))?,
                    data: Arc::from(data),
                    delivery: one.delivery_mode.unwrap_or_default(),
                }))
            }
            (Some(_), Some(_)) | (None, None) => {
                return Err(wrong(index, "either data or an attachment_id"));
            }
        });
    }
    Ok(offered)
}

/// Refuses one attachment of a request.
fn wrong(index: usize, why: impl Into<String>) -> WireError {
    WireError::validation("attachments", why).with("attachment_index", index)
}

/// What a request says of an attachment.
pub(in crate::net) struct Announced {
    pub(in crate::net) kind: AttachmentKind,
    pub(in crate::net) name: String,
    pub(in crate::net) mime_type: String,
    pub(in crate::net) size_bytes: u64,
    pub(in crate::net) sha256: ContentDigest,
}

/// Checks it. `field` says what a part of it is called in the request.
pub(in crate::net) fn described(
    announced: Announced,
    field: impl Fn(&str) -> String,
) -> Result<Described, WireError> {
    let Announced { kind, name, mime_type, size_bytes, sha256 } = announced;
    bounded(&field("name"), Some(&name), NAME_BYTES_MAX)?;
    bounded(&field("mime_type"), Some(&mime_type), MIME_TYPE_BYTES_MAX)?;
    if !is_mime_type(&mime_type) {
        return Err(WireError::validation(&field("mime_type"), "no MIME type"));
    }
    let family = match kind {
        AttachmentKind::Image => "image/",
        AttachmentKind::Audio => "audio/",
        AttachmentKind::Resource => "",
    };
    if !mime_type.to_ascii_lowercase().starts_with(family) {
        return Err(WireError::validation(&field("mime_type"), "is of another type"));
    }
    Ok(Described { kind, name: clean_file_name(&name), mime_type, size_bytes, sha256 })
}

/// A type and a subtype of RFC 6838, section 4.2, and maybe parameters.
fn is_mime_type(text: &str) -> bool {
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let is_name = |name: &str| {
        (1..=127).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let parts = essence.split_once('/');
    parts.is_some_and(|(one, other)| is_name(one) && is_name(other))
        && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
}

/// Checks shape and hard bounds of what a request points at.
pub(super) fn pointed_at(params: Vec<EntityReference>) -> Result<Vec<Reference>, WireError> {
    let field = "entity_references";
    if params.len() > REFERENCES_MAX {
        return Err(WireError::validation(field, "too many").with("limit", REFERENCES_MAX));
    }
    let mut references = Vec::with_capacity(params.len());
    for (index, one) in params.into_iter().enumerate() {
        let part = |name: &str| format!("{field}[{index}].{name}");
        filled(&part("id"), &one.id, REFERENCE_ID_BYTES_MAX)?;
        bounded(&part("title"), one.title.as_deref(), NAME_BYTES_MAX)?;
        references.push(Reference { kind: one.kind, id: one.id, title: one.title });
    }
    Ok(references)
}

/// Checks shape and hard bounds of what gives a request context.
pub(super) fn context_files(
    params: Vec<entry::ContextFile>,
) -> Result<Vec<ContextFile>, WireError> {
    let field = "context_files";
    if params.len() > CONTEXT_FILES_MAX {
        return Err(WireError::validation(field, "too many").with("limit", CONTEXT_FILES_MAX));
    }
    let mut files = Vec::with_capacity(params.len());
    for (index, one) in params.into_iter().enumerate() {
        let part = |name: &str| format!("{field}[{index}].{name}");
        filled(&part("path"), &one.path, PATH_BYTES_MAX)?;
        bounded(&part("name"), Some(&one.name), NAME_BYTES_MAX)?;
        files.push(ContextFile { path: one.path, name: one.name, is_directory: one.is_directory });
    }
    Ok(files)
}

fn filled(field: &str, text: &str, max: usize) -> Result<(), WireError> {
    match text {
        "" => Err(WireError::validation(field, "is empty")),
        text => bounded(field, Some(text), max),
    }
}

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
