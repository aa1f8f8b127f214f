//! What the rest of the server is told after a commit.

use usher_shared::id::{IncarnationId, SessionId, TaskId, TurnId, UserId};
use usher_shared::vocabulary::{TurnOutcome, TurnReason};

use super::enclosed::Enclosed;
use super::lease::LostLease;
use super::message::{Message, RunOptions};

/// What happened to a session. Published after the commit that made it true, in commit order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The queue is another one; readers fetch it.
    QueueChanged,
    /// The session's own fields are others; readers fetch them.
    SessionChanged,
    /// The session's plan or a comment on it is another one; readers fetch them.
    PlanChanged,
    /// The session's task is another one: how much waits in it, or its own fields.
    TaskChanged(TaskId),
    /// The session's task, of this user, is unknown to everybody from now on.
    TaskGone(TaskId, UserId),
    /// The session, of this task and user, is unknown to everybody from now on.
    SessionGone(TaskId, UserId),
    /// The head may be able to start: the dispatcher looks.
    MayStart,
    /// A head was reserved: the dispatcher runs it.
    TurnReserved(TurnStart),
    /// A connection no longer holds its lease: it is told.
    EditLost(LostLease),
    /// A turn shall stop: its runner stops it.
    StopAsked(TurnId),
    /// A turn began.
    TurnStarted(TurnId),
    /// A turn is over.
    TurnEnded {
        /// Which.
        turn_id: TurnId,
        /// How.
        outcome: TurnOutcome,
        /// What the outcome alone does not say.
        reason: Option<TurnReason>,
        /// What the agent said about it.
        text: Option<String>,
    },
    /// Nobody may see the session any more; its turn is still to end.
    Hidden,
    /// The session is deleted: nobody watches it, nothing runs for it.
    Deleted,
    /// A message is new, or final.
    MessageWritten(Box<Message>),
}

/// Stands for the session of an event that is about a task only.
pub fn no_session() -> SessionId {
    SessionId::default()
}

/// A reserved turn, ready to be run.
#[derive(Clone, PartialEq, Eq)]
pub struct TurnStart {
    /// Its session.
    pub session_id: SessionId,
    /// The session's life: an agent remembers nothing of an earlier one.
    pub incarnation_id: IncarnationId,
    /// Its name.
    pub turn_id: TurnId,
    /// The agent that runs it.
    pub agent: String,
    /// Where the agent works.
    pub workspace_dir: Option<String>,
    /// The prompt.
    pub text: std::sync::Arc<str>,
    /// What it carries beside its text.
    pub enclosed: Enclosed,
    /// How to run it.
    pub run: RunOptions,
}

impl std::fmt::Debug for TurnStart {
    /// Leaves the prompt out: prompts never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnStart").field("turn_id", &self.turn_id).finish_non_exhaustive()
    }
}
