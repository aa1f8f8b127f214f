//! A transcript message as decisions see it.

use std::sync::Arc;

use usher_shared::counter::MessageSeq;
use usher_shared::id::{IncarnationId, MessageId, SessionId, TurnId};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::{MessageStatus, Notice, Resolution, Role};

use super::enclosed::Enclosed;
use super::entry::Provenance;

/// What a message carries beside its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageDetails {
    /// User messages: the admissions that this prompt was made from.
    pub provenance: Provenance,
    /// User messages: what the prompt carries beside its text.
    pub enclosed: Enclosed,
    /// User messages: who sent the prompt.
    pub sender: Option<String>,
    /// User messages: the model and mode it ran with, for a second run.
    pub run: RunOptions,
    /// User messages: what became of a turn that did not end well.
    pub resolution: Option<Resolution>,
    /// System messages: what they report.
    pub notice: Option<Notice>,
    /// Tool messages: the tool's name.
    pub tool: Option<String>,
}

/// How a prompt is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// The model; None: the agent's own choice.
    pub model: Option<String>,
    /// Whether in the agent's plan mode.
    pub plan_mode: bool,
}

/// One message of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// Its session.
    pub session_id: SessionId,
    /// The life of the session it was written in.
    pub incarnation_id: IncarnationId,
    /// Its number.
    pub seq: MessageSeq,
    /// The turn it belongs to.
    pub turn_id: Option<TurnId>,
    /// Who speaks.
    pub role: Role,
    /// The text, or as much of it as was asked for.
    pub content: Arc<str>,
    /// The size of the whole text, bytes.
    pub content_bytes: u64,
    /// How far it has come.
    pub status: MessageStatus,
    /// What else it carries.
    pub details: MessageDetails,
    /// When it was written.
    pub created_at: UnixMillis,
}
