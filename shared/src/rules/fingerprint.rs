//! The payload fingerprint: what makes two sends of one admission ID the same prompt.
//!
//! SHA-256 over a canonical encoding of the request as it was sent. Every part is written as a
//! tag byte, a big-endian 64-bit length and its bytes, so that no two different requests have one
//! encoding. Omitted and empty lists are the same; omitted text stays omitted; nothing is trimmed
//! or normalized. Not part of it: the admission ID, request ids, times, the order of JSON keys.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::protocol::edit::QueueUpdateParams;
use crate::protocol::entry::{AttachmentKind, AttachmentParams, EntityReference, QueuedBy};
use crate::protocol::queue::QueueAddParams;

/// SHA-256 of an admission's canonical encoding.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Wraps stored bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to store.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Why a request has no fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("attachment {attachment_index} is not padded base64")]
pub struct FingerprintError {
    /// Which attachment, from 0.
    pub attachment_index: usize,
}

/// Names the encoding, so that a later one can never be taken for this one.
const DOMAIN: &[u8] = b"usher admission fingerprint 1";

/// Returns the fingerprint of `request` as sent by `queued_by`.
///
/// # Errors
/// If the bytes of an inline attachment are not base64.
pub fn fingerprint(
    request: &QueueAddParams,
    queued_by: &QueuedBy,
) -> Result<Fingerprint, FingerprintError> {
    let mut out = Encoder(Sha256::new());
    out.part(b'!', DOMAIN);
    out.part(b'c', request.content.as_bytes());
    out.optional(b'm', request.model.as_deref());
    out.part(b'p', &[u8::from(request.plan_mode.unwrap_or(false))]);
    for (attachment_index, attachment) in request.attachments.iter().flatten().enumerate() {
        out.attachment(attachment).map_err(|_| FingerprintError { attachment_index })?;
    }
    for file in request.context_files.iter().flatten() {
        out.part(b'f', &[u8::from(file.is_directory)]);
        out.part(b'P', file.path.as_bytes());
        out.part(b'N', file.name.as_bytes());
    }
    for reference in request.entity_references.iter().flatten() {
        out.reference(reference);
    }
    for comment in request.plan_comment_refs.iter().flatten() {
        out.part(b'o', comment.id.as_bytes());
        out.part(b'V', &comment.version.to_be_bytes());
    }
    out.part(b'q', queued_by.kind.as_str().as_bytes());
    out.part(b'Q', queued_by.id.as_bytes());
    Ok(Fingerprint(out.0.finalize().into()))
}

/// Names the encoding of edits.
const EDIT_DOMAIN: &[u8] = b"usher edit fingerprint 1";

/// Returns the fingerprint of what an edit sets. An omitted list (keep) and an empty one (remove all)
/// are two different edits; the revision that the editor expects is no part of it.
///
/// # Errors
/// If the bytes of an inline attachment are not base64.
pub fn edit_fingerprint(request: &QueueUpdateParams) -> Result<Fingerprint, FingerprintError> {
    let mut out = Encoder(Sha256::new());
    out.part(b'!', EDIT_DOMAIN);
    out.part(b'c', request.content.as_bytes());
    if let Some(attachments) = &request.attachments {
        out.part(b'A', &(attachments.len() as u64).to_be_bytes());
        for (attachment_index, attachment) in attachments.iter().enumerate() {
            out.attachment(attachment).map_err(|_| FingerprintError { attachment_index })?;
        }
    }
    if let Some(references) = &request.entity_references {
        out.part(b'R', &(references.len() as u64).to_be_bytes());
        references.iter().for_each(|reference| out.reference(reference));
    }
    Ok(Fingerprint(out.0.finalize().into()))
}

struct Encoder(Sha256);

impl Encoder {
    fn part(&mut self, tag: u8, bytes: &[u8]) {
        self.0.update([tag]);
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    /// An omitted text writes nothing, which no present one does.
    fn optional(&mut self, tag: u8, text: Option<&str>) {
        if let Some(text) = text {
            self.part(tag, text.as_bytes());
        }
    }

    fn reference(&mut self, reference: &EntityReference) {
        self.part(b'r', reference.kind.as_str().as_bytes());
        self.part(b'I', reference.id.as_bytes());
        self.optional(b'T', reference.title.as_deref());
    }

    fn attachment(&mut self, attachment: &AttachmentParams) -> Result<(), base64::DecodeError> {
        self.part(b'a', attachment.kind.map_or("", AttachmentKind::as_str).as_bytes());
        self.optional(b'n', attachment.name.as_deref());
        self.optional(b't', attachment.mime_type.as_deref());
        self.part(b'd', attachment.delivery_mode.unwrap_or_default().as_str().as_bytes());
        if let Some(data) = &attachment.data {
            self.part(b'h', &Sha256::digest(STANDARD.decode(data)?));
        }
        if let Some(id) = attachment.attachment_id {
            self.part(b'i', id.uuid().as_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::SenderKind;

    fn sender() -> QueuedBy {
        QueuedBy { kind: SenderKind::User, id: "u1".to_owned(), name: "anna".to_owned() }
    }

    fn of(json: &str) -> String {
        let request: QueueAddParams = serde_json::from_str(json).unwrap();
        fingerprint(&request, &sender()).unwrap().to_string()
    }

    /// Frozen: a change here makes every stored receipt a conflict.
    #[test]
    fn golden_vectors() {
        assert_eq!(
            of(r#"{"task_id":"t","session_id":"s","client_queue_id":"k","content":"A"}"#),
            "f19433eccda099dec4f8e4ef7069caf4369a364c0699d129c2258dccae234bc2"
        );
        assert_eq!(
            of(
                r#"{"task_id":"t","session_id":"s","client_queue_id":"k","content":"look","model":"m1",
                "plan_mode":true,
                "attachments":[
                    {"type":"image","name":"a.png","mime_type":"image/png","data":"AAEC"},
                    {"attachment_id":"018f4f3a-0000-7000-8000-00000000abcd","delivery_mode":"path"}],
                "context_files":[{"path":"src","name":"src","is_directory":true}],
                "entity_references":[{"kind":"file","id":"a.rs","title":"a"}],
                "plan_comment_refs":[{"id":"c","version":3}]}"#
            ),
            "f12a743fca18d031cf15ff3fa885e59908eb3f409127486845833b9fe390730b"
        );
    }

    #[test]
    fn c007_the_same_prompt_has_one_fingerprint_and_another_prompt_another() {
        let base =
            r#"{"task_id":"t","session_id":"s","client_queue_id":"k","content":"A","model":"m1"}"#;
        let same = [
            r#"{"model":"m1", "content":"A", "client_queue_id":"other","session_id":"s","task_id":"t","sent_at":"now"}"#,
            r#"{"task_id":"t","session_id":"s","content":"A","model":"m1","plan_mode":false}"#,
            r#"{"task_id":"t","session_id":"s","content":"A","model":"m1","plan_mode":null,"attachments":[],"context_files":[]}"#,
        ];
        for json in same {
            assert_eq!(of(json), of(base), "{json}");
        }
        let other = [
            r#"{"task_id":"t","session_id":"s","content":"A","model":"m1","plan_mode":true}"#,
            r#"{"task_id":"t","session_id":"s","content":"A","model":"m2"}"#,
            r#"{"task_id":"t","session_id":"s","content":"A"}"#,
            r#"{"task_id":"t","session_id":"s","content":"A ","model":"m1"}"#,
            r#"{"task_id":"t","session_id":"s","content":"A","model":"m1","context_files":[{"path":"a","name":"a"}]}"#,
            r#"{"task_id":"t","session_id":"s","content":"A","model":"m1","entity_references":[{"kind":"file","id":"a"}]}"#,
        ];
        for json in other {
            assert_ne!(of(json), of(base), "{json}");
        }
    }

    #[test]
    fn c007_text_is_not_normalized() {
        let composed = r#"{"task_id":"t","session_id":"s","content":"\u00c1"}"#;
        let decomposed = r#"{"task_id":"t","session_id":"s","content":"A\u0301"}"#;
        assert_ne!(of(composed), of(decomposed));
    }

    #[test]
    fn another_sender_has_another_fingerprint() {
        let request = QueueAddParams { content: "A".to_owned(), ..QueueAddParams::default() };
        let other = QueuedBy { id: "u2".to_owned(), ..sender() };
        assert_ne!(fingerprint(&request, &sender()), fingerprint(&request, &other));
    }

    #[test]
    fn inline_bytes_that_are_no_base64_are_refused_with_their_index() {
        let bad = AttachmentParams { data: Some("AA".to_owned()), ..AttachmentParams::default() };
        let request = QueueAddParams {
            attachments: Some(vec![AttachmentParams::default(), bad]),
            ..QueueAddParams::default()
        };
        assert_eq!(fingerprint(&request, &sender()), Err(FingerprintError { attachment_index: 1 }));
    }
}
