//! Entries of the prompt queue.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hello::User;
use crate::counter::{Position, TargetRevision};
use crate::id::{AdmissionId, AttachmentId, EntryId, SessionId, TaskId};
use crate::time::UnixMillis;
use crate::vocabulary::SenderKind;
pub use crate::vocabulary::{AttachmentKind, DeliveryMode, ReferenceKind};

/// Who put an entry into the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QueuedBy {
    /// What the sender is.
    pub kind: SenderKind,
    /// Its id among its kind.
    pub id: String,
    /// For people.
    pub name: String,
}

/// Something a prompt points at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityReference {
    /// What it is.
    pub kind: ReferenceKind,
    /// Which one; a path for files.
    pub id: String,
    /// For people.
    #[serde(default)]
    pub title: Option<String>,
}

/// A file or directory that gives context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextFile {
    /// Relative to the task's directory.
    pub path: String,
    /// For people.
    pub name: String,
    /// Omitted: false.
    #[serde(default)]
    pub is_directory: bool,
}

/// A plan comment at one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanCommentRef {
    /// Which comment.
    pub id: String,
    /// Its version when it was read.
    pub version: u64,
}

/// An attachment in a request: inline (`data` and its description) or staged (`attachment_id`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentParams {
    /// Inline: what it is.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<AttachmentKind>,
    /// Inline: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Inline: its MIME type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Inline: its bytes, padded base64 (RFC 4648, section 4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Staged: which upload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment_id: Option<AttachmentId>,
    /// Omitted: [`DeliveryMode::Prompt`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_mode: Option<DeliveryMode>,
}

/// An attachment in an answer: never its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its name on the wire.
    pub attachment_id: AttachmentId,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: AttachmentKind,
    /// For people.
    pub name: String,
    /// Its MIME type.
    pub mime_type: String,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// How it reaches the agent.
    pub delivery_mode: DeliveryMode,
}

/// What an entry carries beside its text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EntryMetadata {
    /// The admissions that this entry was made from.
    pub queue_admission_ids: Vec<AdmissionId>,
    /// The same from before a reset or transfer: they prove nothing.
    pub queue_admission_ids_past: Vec<AdmissionId>,
    /// What the prompt points at.
    pub entity_references: Vec<EntityReference>,
    /// What gives it context.
    pub context_files: Vec<ContextFile>,
    /// The plan comments it consumed.
    pub plan_comment_refs: Vec<PlanCommentRef>,
    /// The task of the agent that sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_task_id: Option<TaskId>,
    /// Keys of other versions, kept as they are.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Who edits an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Editing {
    /// Whose lease it is.
    pub by: User,
    /// Whether this connection holds it.
    pub is_you: bool,
    /// When it ends unless renewed.
    pub expires_at: UnixMillis,
}

/// A queue entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuedMessage {
    /// Its name.
    pub id: EntryId,
    /// Its task.
    pub task_id: TaskId,
    /// Its session.
    pub session_id: SessionId,
    /// Its order key, 1 or more; gaps are allowed.
    pub position: Position,
    /// The prompt.
    pub content: String,
    /// The model it asks for; null: the session's.
    pub model: Option<String>,
    /// Whether it runs in the agent's plan mode.
    pub plan_mode: bool,
    /// Its attachments.
    pub attachments: Vec<Attachment>,
    /// What else it carries.
    pub metadata: EntryMetadata,
    /// When it was accepted.
    pub queued_at: UnixMillis,
    /// Who sent it.
    pub queued_by: QueuedBy,
    /// Grows by update, fold and merge.
    pub target_revision: TargetRevision,
    /// Who edits it.
    pub editing: Option<Editing>,
    /// Whether `content` was cut.
    pub content_truncated: bool,
}

/// An entry of a status: whole, or a stub where the frame would grow too large.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StatusEntry {
    /// All of it.
    Whole(Box<QueuedMessage>),
    /// Only that it is there; `message.queue.entry.get` gives the rest.
    Stub {
        /// Its name.
        id: EntryId,
        /// Its order key.
        position: Position,
        /// Always true.
        truncated: bool,
    },
}

impl StatusEntry {
    /// Returns the entry's name.
    pub fn id(&self) -> EntryId {
        match self {
            Self::Whole(entry) => entry.id,
            Self::Stub { id, .. } => *id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_keeps_keys_of_other_versions() {
        let json = r#"{"queue_admission_ids":["k"],"queue_admission_ids_past":[],"entity_references":[],"context_files":[],"plan_comment_refs":[],"later":{"a":1}}"#;
        let metadata: EntryMetadata = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&metadata).unwrap(), json);
    }
}
