//! Turns: runs of the agent. Also every notification, since most of them tell of turns.

use serde::{Deserialize, Serialize};

use super::actions;
use super::hello::User;
use super::queue::QueueStatus;
use super::session::{Identity, Permission, Session};
use super::task::Task;
use super::transcript::{Message, Resolution};
use crate::counter::{EventSeq, MessageSeq};
use crate::id::{Epoch, MessageId, PermissionId, SessionId, TaskId, TurnId};
pub use crate::vocabulary::{PermissionClosed, TurnOutcome, TurnReason};

/// `turn.cancel`: stops the running turn and parks what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnCancelParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Refuse (`turn_changed`) if another turn runs by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_turn_id: Option<TurnId>,
}

/// The answer to `turn.cancel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnCancelReply {
    /// False: nothing ran.
    pub cancelled: bool,
}

/// `turn.resolve`: what becomes of a turn that ended uncertain, interrupted or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnResolveParams {
    /// Which session.
    #[serde(flatten)]
    pub identity: Identity,
    /// Which turn.
    pub turn_id: TurnId,
    /// Run it again, or give it up.
    pub resolution: Resolution,
}

/// The answer to `turn.resolve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnResolveReply {
    /// The turn that was resolved.
    pub turn_id: TurnId,
}

actions! {
    TurnCancelParams => "turn.cancel" => TurnCancelReply;
    TurnResolveParams => "turn.resolve" => TurnResolveReply;
}

/// Where an event stands in its session's sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventStamp {
    /// Which session.
    pub session_id: SessionId,
    /// Its number; grows by one within an epoch.
    pub event_seq: EventSeq,
    /// The epoch it is numbered in.
    pub epoch: Epoch,
    /// Of a frame that stands for several events: the number of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_event_seq: Option<EventSeq>,
}

/// `turn.started`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// Which turn.
    pub turn_id: TurnId,
}

/// `turn.ended`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnded {
    /// Which turn.
    pub turn_id: TurnId,
    /// How.
    pub outcome: TurnOutcome,
    /// What the outcome alone does not say.
    pub reason: Option<TurnReason>,
    /// What the agent said about it.
    pub text: Option<String>,
}

/// `transcript.delta`: text that follows what a streaming message has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptDelta {
    /// Which message.
    pub message_id: MessageId,
    /// Its number.
    pub seq: MessageSeq,
    /// Where the text belongs, bytes of UTF-8; a client that has more ignores the overlap.
    pub offset: u64,
    /// The text.
    pub text: String,
}

/// A stamped event of a session, as its notification carries it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamped<T> {
    /// Where it stands.
    #[serde(flatten)]
    pub stamp: EventStamp,
    /// What happened.
    #[serde(flatten)]
    pub event: T,
}

/// `permission.requested`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionRequested {
    /// The question.
    #[serde(flatten)]
    pub permission: Permission,
}

/// `permission.resolved`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionResolved {
    /// Which question.
    pub request_id: PermissionId,
    /// The answer, if there was one.
    pub option_id: Option<String>,
    /// Who answered.
    pub by: Option<User>,
    /// Why it is closed.
    pub reason: PermissionClosed,
}

/// `message.queue.status_changed`. The status has `session_id` and `event_seq` itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusChanged {
    /// The queue now.
    #[serde(flatten)]
    pub status: QueueStatus,
    /// The epoch of its `event_seq`.
    pub epoch: Epoch,
    /// Of a frame that stands for several events: the number of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_event_seq: Option<EventSeq>,
}

/// `transcript.message`: a message, new or final. It has `session_id` itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptMessage {
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// Its number in the session's events.
    pub event_seq: EventSeq,
    /// The epoch of `event_seq`.
    pub epoch: Epoch,
    /// Of a frame that stands for several events: the number of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_event_seq: Option<EventSeq>,
}

/// `session.changed`: the session, beside its stamp. (`id` names the session.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionChanged {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
}

/// `task.changed`, to every connection of the owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskChanged {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
}

/// `task.deleted`, to every connection of the owner: the task and its sessions are unknown from now
/// on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDeleted {
    /// Which.
    pub task_id: TaskId,
}

/// `session.deleted`, to every connection of the owner: the session is unknown from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDeleted {
    /// Its task.
    pub task_id: TaskId,
    /// Which.
    pub session_id: SessionId,
}

/// `server.draining`: the server stops; it closes with 1001 soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerDraining {
    /// When a reconnect makes sense.
    pub reconnect_after_ms: u64,
}

/// Names of the notifications.
pub mod notification {
    /// [`super::StatusChanged`].
    pub const QUEUE_STATUS_CHANGED: &str = "message.queue.status_changed";
    /// [`super::Stamped`] of [`super::SessionChanged`].
    pub const SESSION_CHANGED: &str = "session.changed";
    /// [`super::Stamped`] of [`super::TurnStarted`].
    pub const TURN_STARTED: &str = "turn.started";
    /// [`super::Stamped`] of [`super::TurnEnded`].
    pub const TURN_ENDED: &str = "turn.ended";
    /// [`super::TranscriptMessage`].
    pub const TRANSCRIPT_MESSAGE: &str = "transcript.message";
    /// [`super::Stamped`] of [`super::TranscriptDelta`].
    pub const TRANSCRIPT_DELTA: &str = "transcript.delta";
    /// [`super::Stamped`] of [`super::PermissionRequested`].
    pub const PERMISSION_REQUESTED: &str = "permission.requested";
    /// [`super::Stamped`] of [`super::PermissionResolved`].
    pub const PERMISSION_RESOLVED: &str = "permission.resolved";
    /// [`super::Stamped`] of [`crate::protocol::plan::PlanReply`].
    pub const PLAN_CHANGED: &str = "plan.changed";
    /// [`super::TaskChanged`].
    pub const TASK_CHANGED: &str = "task.changed";
    /// [`crate::protocol::edit::EditLostNotice`].
    pub const EDIT_LOST: &str = "message.queue.edit.lost";
    /// [`super::TaskDeleted`].
    pub const TASK_DELETED: &str = "task.deleted";
    /// [`super::SessionDeleted`].
    pub const SESSION_DELETED: &str = "session.deleted";
    /// [`super::ServerDraining`].
    pub const SERVER_DRAINING: &str = "server.draining";
}
