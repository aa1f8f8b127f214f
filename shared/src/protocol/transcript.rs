//! The transcript: the durable record of turns.

use serde::{Deserialize, Serialize};

use super::actions;
use super::entry::{Attachment, ContextFile, EntityReference, PlanCommentRef};
use crate::counter::MessageSeq;
use crate::id::{AdmissionId, IncarnationId, MessageId, SessionId, TurnId};
use crate::time::UnixMillis;
pub use crate::vocabulary::{MessageStatus, Notice, Resolution, Role};

/// What a message carries beside its text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageMetadata {
    /// User messages: the admissions that this prompt was made from.
    pub queue_admission_ids: Vec<AdmissionId>,
    /// The same from before a reset or transfer: they prove nothing.
    pub queue_admission_ids_past: Vec<AdmissionId>,
    /// User messages: what was attached.
    pub attachments: Vec<Attachment>,
    /// User messages: what the prompt points at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entity_references: Vec<EntityReference>,
    /// User messages: what gave it context.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context_files: Vec<ContextFile>,
    /// User messages: the plan comments it consumed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plan_comment_refs: Vec<PlanCommentRef>,
    /// System messages: what they report.
    pub notice: Option<Notice>,
    /// User messages of turns that did not end well: what became of them.
    pub resolution: Option<Resolution>,
    /// Tool messages: the tool's name.
    pub tool: Option<String>,
    /// User messages: who sent the prompt.
    pub sender: Option<String>,
}

/// One message of a transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// Its session.
    pub session_id: SessionId,
    /// The life of the session it was written in.
    pub session_incarnation_id: IncarnationId,
    /// Its number, 1 or more, without gaps: the only order of a transcript.
    pub seq: MessageSeq,
    /// The turn it belongs to.
    pub turn_id: Option<TurnId>,
    /// Who speaks.
    pub role: Role,
    /// The text.
    pub content: String,
    /// Whether `content` was cut.
    pub content_truncated: bool,
    /// How far it has come.
    pub status: MessageStatus,
    /// What else it carries.
    pub metadata: MessageMetadata,
    /// When it was written.
    pub created_at: UnixMillis,
}

/// `transcript.page`: at most one of the two bounds; none gives the newest messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptPageParams {
    /// Which session.
    pub session_id: SessionId,
    /// Messages before this one, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_seq: Option<MessageSeq>,
    /// Messages after this one, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<MessageSeq>,
    /// 1 to 200; omitted: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The answer to `transcript.page`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptPageReply {
    /// Ascending.
    pub messages: Vec<Message>,
    /// Whether more exist in the direction that was asked for.
    pub has_more: bool,
}

/// `transcript.read`: bytes of one message's content, at characters' bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptReadParams {
    /// Which session.
    pub session_id: SessionId,
    /// Which message.
    pub message_id: MessageId,
    /// From this byte on.
    pub offset: u64,
    /// At most this many bytes.
    pub length: u64,
}

/// The answer to `transcript.read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptReadReply {
    /// The text from `offset` on.
    pub text: String,
    /// Whether this is all there is by now.
    pub eof: bool,
}

/// `transcript.search`: without regard to case, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptSearchParams {
    /// What to look for; not blank.
    pub query: String,
    /// Omitted: in all sessions of tasks that are not archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// 1 to 100; omitted: 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A message that holds what was looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchHit {
    /// Its session.
    pub session_id: SessionId,
    /// Its number.
    pub seq: MessageSeq,
    /// The text around the first match.
    pub snippet: String,
}

/// The answer to `transcript.search`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptSearchReply {
    /// Newest first.
    pub hits: Vec<SearchHit>,
}

actions! {
    TranscriptSearchParams => "transcript.search" => TranscriptSearchReply;
    TranscriptPageParams => "transcript.page" => TranscriptPageReply;
    TranscriptReadParams => "transcript.read" => TranscriptReadReply;
}
