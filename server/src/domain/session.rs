//! A session as decisions see it, and who may touch it.

use usher_shared::counter::{MessageSeq, Position, QueueRevision};
use usher_shared::id::{IncarnationId, MessageId, SessionId, TaskId, TurnId, UserId};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::{AutoRunReason, SessionState, TaskKind};

use super::event::Event;
use super::settings::SavedSettings;

/// The store's handle of a session row. Decisions only hand it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey(pub i64);

/// The store's handle of one life of a session. Decisions only hand it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IncarnationKey(pub i64);

/// The store's handle of a task row. Decisions only hand it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskKey(pub i64);

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub id: UserId,
    /// For people.
    pub name: String,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The store's handle.
    pub key: TaskKey,
    /// Its name on the wire.
    pub id: TaskId,
    /// Whose it is.
    pub owner: Caller,
    /// For people.
    pub title: String,
    /// What it is for.
    pub kind: TaskKind,
    /// Where its agents work.
    pub workspace_dir: Option<String>,
    /// The agent of its new sessions.
    pub agent: String,
    /// Archived tasks never dispatch.
    pub archived: bool,
    /// Stored entries of all its sessions.
    pub queued_count: u64,
    /// When it was made.
    pub created_at: UnixMillis,
}

/// May the server start the next entry by itself?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoRun {
    /// Yes.
    On,
    /// No, and why.
    Off(AutoRunReason),
}

/// The counters and the switch of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueHead {
    /// Grows by every durable change.
    pub revision: QueueRevision,
    /// Stored entries, reserved ones included.
    pub stored: u64,
    /// The position of the next entry.
    pub next_position: Position,
    /// The switch.
    pub auto_run: AutoRun,
}

impl QueueHead {
    /// Returns the queue one durable change later.
    #[must_use]
    pub fn changed(self) -> Self {
        Self { revision: self.revision.next(), ..self }
    }
}

/// How far an open turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStage {
    /// The head is taken; nothing went to the agent.
    Reserved,
    /// From here on the agent may have the prompt.
    HandedOver,
    /// The agent has accepted the prompt.
    Running,
}

/// Whether somebody asked the open turn to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nobody.
    NotAsked,
    /// Somebody did: what waits is parked.
    Asked,
    /// Other entries were sent now. They are reserved for this turn, which begins when the open one
    /// has ended.
    Replaced(TurnId),
}

/// Where an open turn's prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnPrompt {
    /// In the queue: the entries that are reserved for the turn.
    Entries,
    /// In the transcript: accepted, or run again.
    Message(MessageId),
}

/// The open turn of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTurn {
    /// Its name.
    pub id: TurnId,
    /// How far it has come.
    pub stage: TurnStage,
    /// Whether it shall stop.
    pub stop: Stop,
    /// Where its prompt is.
    pub prompt: TurnPrompt,
    /// When the head was reserved for it.
    pub started_at: UnixMillis,
}

/// Who still sees a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its owner works with it.
    Open,
    /// Its task is archived: it can be read, nothing is admitted, nothing starts.
    Archived,
    /// It is being deleted, or its owner was removed: for everybody it is an unknown one. Only its
    /// open turn still comes to its end.
    Gone,
}

/// A session with everything that point decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The store's handle.
    pub key: SessionKey,
    /// Its name on the wire.
    pub id: SessionId,
    /// The task it belongs to.
    pub task_id: TaskId,
    /// Its current life.
    pub incarnation_id: IncarnationId,
    /// The store's handle of that life.
    pub incarnation_key: IncarnationKey,
    /// Whose it is.
    pub owner: UserId,
    /// Who still sees it.
    pub standing: Standing,
    /// Where its agent works.
    pub workspace_dir: Option<String>,
    /// The agent it talks to.
    pub agent: String,
    /// The model its turns use.
    pub model: Option<String>,
    /// The mode its turns use.
    pub mode: Option<String>,
    /// For people.
    pub title: String,
    /// When it was made.
    pub created_at: UnixMillis,
    /// The number of its newest message.
    pub last_seq: MessageSeq,
    /// Its queue.
    pub queue: QueueHead,
    /// Its open turn.
    pub turn: Option<OpenTurn>,
    /// What its owner saved about queues.
    pub saved: SavedSettings,
}

/// What names a session in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The session's task.
    pub task_id: TaskId,
    /// The session.
    pub session_id: SessionId,
    /// Its life; None only for admissions without an ID.
    pub incarnation_id: Option<IncarnationId>,
}

/// Unknown, foreign, archived, deleted, wrong pair or stale incarnation: one answer for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such session for this caller")]
pub struct Unavailable;

/// Returns the loaded session if `caller` may act on exactly `target`.
pub fn authorize(
    loaded: Option<Session>,
    target: &Target,
    caller: &Caller,
) -> Result<Session, Unavailable> {
    loaded
        .filter(|session| {
            session.owner == caller.id
                && session.task_id == target.task_id
                && session.standing == Standing::Open
                && target.incarnation_id.is_none_or(|id| id == session.incarnation_id)
        })
        .ok_or(Unavailable)
}

impl Session {
    /// What is told when the queue has more or fewer entries.
    pub fn queue_resized(&self) -> [(SessionId, Event); 2] {
        [(self.id, Event::QueueChanged), (self.id, Event::TaskChanged(self.task_id))]
    }

    /// Tells whether a turn can start now.
    pub fn is_promptable(&self) -> bool {
        self.turn.is_none() && self.standing == Standing::Open
    }

    /// Returns what clients are shown; an open question is known to the runner only.
    pub fn state(&self) -> SessionState {
        match self.turn {
            None => SessionState::Idle,
            Some(OpenTurn { stop: Stop::Asked | Stop::Replaced(_), .. }) => {
                SessionState::Cancelling
            }
            Some(OpenTurn { stage: TurnStage::Running, .. }) => SessionState::Running,
            Some(OpenTurn { stage: TurnStage::Reserved | TurnStage::HandedOver, .. }) => {
                SessionState::Starting
            }
        }
    }
}
