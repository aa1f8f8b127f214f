//! Sessions: conversations with an agent, each with one queue and one transcript.

use serde::{Deserialize, Serialize};

use super::actions;
use super::queue::QueueStatus;
use super::transcript::Message;
use crate::counter::{EventSeq, MessageSeq};
use crate::id::{Epoch, IncarnationId, PermissionId, SessionId, TaskId, TurnId};
use crate::time::UnixMillis;
pub use crate::vocabulary::{PermissionKind, SessionState};

/// What names a session in requests that change it: an older incarnation is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The session's task.
    pub task_id: TaskId,
    /// The session.
    pub session_id: SessionId,
    /// Its current life.
    pub session_incarnation_id: IncarnationId,
}

/// The open turn of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTurn {
    /// Its name.
    pub id: TurnId,
    /// When the head was reserved for it.
    pub started_at: UnixMillis,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// The task it belongs to.
    pub task_id: TaskId,
    /// Its current life: the identity's `session_incarnation_id`.
    pub incarnation_id: IncarnationId,
    /// The agent it talks to.
    pub agent: String,
    /// The model its turns use; null: the agent's own choice.
    pub model: Option<String>,
    /// The mode its turns use; null: the agent's own choice.
    pub mode: Option<String>,
    /// What its agent does.
    pub state: SessionState,
    /// The open turn.
    pub turn: Option<OpenTurn>,
    /// The open question.
    pub permission: Option<Permission>,
    /// For people.
    pub title: String,
    /// When it was made.
    pub created_at: UnixMillis,
    /// The number of its newest message; 0 before the first.
    pub last_seq: MessageSeq,
}

impl Session {
    /// Returns what names this session in requests.
    pub fn identity(&self) -> Identity {
        Identity {
            task_id: self.task_id,
            session_id: self.id,
            session_incarnation_id: self.incarnation_id,
        }
    }
}

/// A question of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permission {
    /// Its name.
    pub request_id: PermissionId,
    /// The turn that asks.
    pub turn_id: TurnId,
    /// What the agent wants to do.
    pub title: String,
    /// The tool it wants to use.
    pub tool: String,
    /// The answers it takes.
    pub options: Vec<PermissionOption>,
}

/// One answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionOption {
    /// Its name.
    pub option_id: String,
    /// The agent's words for it.
    pub name: String,
    /// What it means.
    pub kind: PermissionKind,
}

/// `session.create`: one more conversation in a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCreateParams {
    /// Whose.
    pub task_id: TaskId,
    /// Omitted: the task's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Omitted: the agent's own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The same id again gives the same session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<String>,
}

/// The answer to every action that gives one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionReply {
    /// The session.
    pub session: Session,
}

/// `session.list`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionListParams {
    /// Omitted: of all tasks that are not archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
}

/// The answer to `session.list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionListReply {
    /// Of one task: newest first; of all: most recently used first.
    pub sessions: Vec<Session>,
}

/// `session.get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionGetParams {
    /// Which.
    pub session_id: SessionId,
}

/// `session.set`: changes what it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSetParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Omitted: as it is. Empty: the agent's own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Omitted: as it is. Empty: the agent's own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Omitted: as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// `session.reset`: a new life of the session. Its agent remembers nothing of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionResetParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Omitted: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_queue: Option<bool>,
}

/// `session.transfer`: moves what waits behind what waits in another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTransferParams {
    /// From which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// The other session's task.
    pub to_task_id: TaskId,
    /// The other session.
    pub to_session_id: SessionId,
    /// Its current life.
    pub to_session_incarnation_id: IncarnationId,
}

/// The answer to `session.transfer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTransferReply {
    /// How many entries.
    pub moved: u64,
}

/// `session.delete`: stops its turn and deletes everything that it ever held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDeleteParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
}

/// The answer to `session.delete`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDeleteReply {
    /// Which session.
    pub session_id: SessionId,
}

/// `session.subscribe`: the state now, and everything that happens from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscribeParams {
    /// Which.
    pub session_id: SessionId,
    /// The newest event the client has; resumes after it if the server still can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_event_seq: Option<EventSeq>,
    /// The epoch that `after_event_seq` belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
}

/// The answer to `session.subscribe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubscribeReply {
    /// The session.
    pub session: Session,
    /// Its queue; null when resumed.
    pub queue: Option<QueueStatus>,
    /// The newest 100 messages, ascending; null when resumed.
    pub messages: Option<Vec<Message>>,
    /// Whether older messages exist.
    pub has_more: bool,
    /// Events after this one follow.
    pub event_seq: EventSeq,
    /// The epoch of `event_seq`.
    pub epoch: Epoch,
    /// True: nothing was missed, or what was missed follows as events.
    pub resumed: bool,
}

/// `session.unsubscribe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsubscribeParams {
    /// Which.
    pub session_id: SessionId,
}

/// The answer to `session.unsubscribe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsubscribeReply {
    /// Which.
    pub session_id: SessionId,
}

/// `permission.respond`: answers the agent's open question; the first answer wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionRespondParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Which question.
    pub request_id: PermissionId,
    /// Which of its options.
    pub option_id: String,
}

/// The answer to `permission.respond`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionRespondReply {
    /// Which question.
    pub request_id: PermissionId,
}

actions! {
    PermissionRespondParams => "permission.respond" => PermissionRespondReply;
    SessionCreateParams => "session.create" => SessionReply;
    SessionListParams => "session.list" => SessionListReply;
    SessionGetParams => "session.get" => SessionReply;
    SessionSetParams => "session.set" => SessionReply;
    SessionResetParams => "session.reset" => SessionReply;
    SessionTransferParams => "session.transfer" => SessionTransferReply;
    SessionDeleteParams => "session.delete" => SessionDeleteReply;
    SubscribeParams => "session.subscribe" => SubscribeReply;
    UnsubscribeParams => "session.unsubscribe" => UnsubscribeReply;
}
