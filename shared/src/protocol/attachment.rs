//! Attachments: uploads that wait for their prompt, and the bytes of what prompts carry.
//!
//! An upload is begun, appended to and finished; then an admission or a saved edit claims it by its
//! id, once. What nobody claims is deleted after a while.

use serde::{Deserialize, Serialize};

use super::actions;
use super::entry::AttachmentKind;
use crate::id::{AttachmentId, SessionId, TaskId};
use crate::time::UnixMillis;

/// `attachment.begin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentBeginParams {
    /// The session's task.
    pub task_id: TaskId,
    /// The session that may claim it.
    pub session_id: SessionId,
    /// For people, and for the file that an agent sees.
    pub name: String,
    /// Its MIME type.
    pub mime_type: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: AttachmentKind,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// SHA-256 of its bytes: 64 lower-case hex digits.
    pub sha256: String,
}

/// The answer to `attachment.begin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentBeginReply {
    /// Names the upload.
    pub attachment_id: AttachmentId,
    /// When it is deleted unless something claims it.
    pub expires_at: UnixMillis,
    /// Always 0.
    pub received_bytes: u64,
}

/// `attachment.append`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentAppendParams {
    /// Which upload.
    pub attachment_id: AttachmentId,
    /// Where `data` begins, bytes. What is there already is ignored; a gap is refused.
    pub offset: u64,
    /// Bytes in padded base64 (RFC 4648, section 4).
    pub data: String,
}

/// The answer to `attachment.append`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentAppendReply {
    /// What is there now, bytes.
    pub received_bytes: u64,
}

/// `attachment.finish`: all bytes are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentFinishParams {
    /// Which upload.
    pub attachment_id: AttachmentId,
}

/// The answer to `attachment.finish`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentFinishReply {
    /// Which upload.
    pub attachment_id: AttachmentId,
    /// Its size, bytes.
    pub size_bytes: u64,
}

/// `attachment.abort`: deletes an upload that nothing claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentAbortParams {
    /// Which upload.
    pub attachment_id: AttachmentId,
}

/// The answer to `attachment.abort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentAbortReply {
    /// Which upload.
    pub attachment_id: AttachmentId,
}

/// `attachment.read`: bytes of a finished upload, or of what a prompt carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentReadParams {
    /// Which attachment.
    pub attachment_id: AttachmentId,
    /// From this byte on.
    pub offset: u64,
    /// At most this many bytes.
    pub length: u64,
}

/// The answer to `attachment.read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentReadReply {
    /// The bytes from `offset` on, padded base64.
    pub data: String,
    /// Whether nothing comes after them.
    pub eof: bool,
}

actions! {
    AttachmentBeginParams => "attachment.begin" => AttachmentBeginReply;
    AttachmentAppendParams => "attachment.append" => AttachmentAppendReply;
    AttachmentFinishParams => "attachment.finish" => AttachmentFinishReply;
    AttachmentAbortParams => "attachment.abort" => AttachmentAbortReply;
    AttachmentReadParams => "attachment.read" => AttachmentReadReply;
}
