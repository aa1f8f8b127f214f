//! Tasks: pieces of work with a directory and an agent.

use serde::{Deserialize, Serialize};

use super::actions;
use super::hello::User;
use super::session::Session;
use crate::id::TaskId;
use crate::time::UnixMillis;
pub use crate::vocabulary::TaskKind;

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its name on the wire.
    pub id: TaskId,
    /// For people.
    pub title: String,
    /// What it is for.
    pub kind: TaskKind,
    /// Where its agents work, if anywhere.
    pub workspace_dir: Option<String>,
    /// The agent of its new sessions.
    pub agent: String,
    /// Whose it is.
    pub owner: User,
    /// Archived tasks never dispatch.
    pub archived: bool,
    /// Stored entries of all its sessions.
    pub queued_prompt_count: u64,
    /// When it was made.
    pub created_at: UnixMillis,
}

/// `task.create`: makes a task and its first session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCreateParams {
    /// For people; at most [`crate::limits::NAME_BYTES_MAX`] bytes.
    pub title: String,
    /// Absolute; must exist on the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_dir: Option<String>,
    /// A configured agent; omitted: the server's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Omitted: [`TaskKind::Task`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TaskKind>,
    /// The same id again gives the same task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<String>,
}

/// The answer to `task.create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCreateReply {
    /// The new task.
    pub task: Task,
    /// Its first session.
    pub session: Session,
}

/// `task.list`, newest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskListParams {
    /// Omitted: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_archived: Option<bool>,
}

/// The answer to `task.list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskListReply {
    /// The caller's tasks, newest first.
    pub tasks: Vec<Task>,
}

/// `task.get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskGetParams {
    /// Which.
    pub task_id: TaskId,
}

/// The answer to `task.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskGetReply {
    /// The task.
    pub task: Task,
    /// Its sessions, oldest first.
    pub sessions: Vec<Session>,
}

/// `task.archive`: stops its turns; it can be read, nothing is admitted, nothing starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskArchiveParams {
    /// Which.
    pub task_id: TaskId,
}

/// `task.unarchive`: its queues go on as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskUnarchiveParams {
    /// Which.
    pub task_id: TaskId,
}

/// `task.delete`: stops its turns and deletes everything that it ever held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDeleteParams {
    /// Which.
    pub task_id: TaskId,
}

/// The answer to an action on a whole task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReply {
    /// Which.
    pub task_id: TaskId,
}

actions! {
    TaskArchiveParams => "task.archive" => TaskReply;
    TaskUnarchiveParams => "task.unarchive" => TaskReply;
    TaskDeleteParams => "task.delete" => TaskReply;
    TaskCreateParams => "task.create" => TaskCreateReply;
    TaskListParams => "task.list" => TaskListReply;
    TaskGetParams => "task.get" => TaskGetReply;
}
