//! Agents: what runs a prompt. One file per backend; the rest of the server sees channels only.
//!
//! A backend is started per session and serves its turns one after the other. It never touches
//! the queue, the store or a client.

mod abilities;
pub mod command;
mod comments;
pub mod demo;
mod demo_script;
mod orphans;
mod output;
mod process;
mod prompt;
mod registry;

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use usher_shared::vocabulary::{PermissionKind, TurnReason};

use crate::domain::plan::PlanEntry;

pub use abilities::{Abilities, Lack};
pub use command::CommandSpec;
pub use orphans::{Owner, end_orphans};
pub use prompt::AgentPrompt;
pub use registry::{Agents, DEMO};

/// Commands waiting for an agent; more wait in the sender.
pub const COMMANDS_MAX: usize = 8;
/// Events of an agent that nobody stored yet; a faster agent waits (back-pressure).
pub const EVENTS_MAX: usize = 64;

/// How long a demo agent that is deaf to a cancel goes on.
const DEMO_CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Which backend a configured agent uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentSpec {
    /// The built-in one, as if it had only this.
    Demo(Abilities),
    /// Any program.
    Command(CommandSpec),
}

impl AgentSpec {
    /// Returns how long a runner waits for a cancelled agent before it drops the handle: a little
    /// longer than the agent's own way of ending takes.
    pub fn cancel_patience(&self) -> Duration {
        match self {
            Self::Demo(_) => DEMO_CANCEL_GRACE,
            Self::Command(spec) => spec.cancel_grace + Duration::from_secs(1),
        }
    }

    /// Returns what it can be asked for.
    pub const fn abilities(&self) -> &Abilities {
        match self {
            Self::Demo(abilities) => abilities,
            Self::Command(spec) => &spec.abilities,
        }
    }

    /// Starts an agent for one session, on the current runtime.
    pub fn start(&self, start: AgentStart) -> Result<AgentHandle, StartError> {
        match self {
            Self::Demo(_) => Ok(demo::start(start)),
            Self::Command(spec) => command::start(spec.clone(), start),
        }
    }
}

/// What an agent is told when it starts.
#[derive(Clone, Debug)]
pub struct AgentStart {
    /// Where it works; None: the server's own data-less temporary place.
    pub workspace_dir: Option<PathBuf>,
    /// Whose its processes are; None: nobody will look for them.
    pub owner: Option<Owner>,
}

/// What the runner tells an agent. Never two prompts at once.
pub enum AgentCommand {
    /// Run this prompt. Sent only after the hand-over is durable.
    Prompt(AgentPrompt),
    /// Stop the running prompt; answered by [`AgentEvent::Ended`] if the agent listens.
    Cancel,
    /// The answer to a question.
    Answer {
        /// The agent's name for the question.
        request: String,
        /// The chosen option; None: the question is cancelled.
        option_id: Option<String>,
    },
}

/// What an agent reports. Dropping the sender means that the agent is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// The prompt has arrived: from here on the turn is the agent's.
    Accepted,
    /// More of the answer.
    Text(String),
    /// More of the reasoning.
    Thought(String),
    /// A tool call starts or changes; the same `call` again replaces what it had.
    Tool {
        /// The agent's name for the call.
        call: String,
        /// The tool's name.
        name: String,
        /// All output so far.
        output: String,
        /// Whether it is over.
        done: bool,
    },
    /// The plan now, in whole.
    Plan(Vec<PlanEntry>),
    /// A question; the turn waits.
    Permission {
        /// The agent's name for the question.
        request: String,
        /// What it wants to do.
        title: String,
        /// The tool it wants to use.
        tool: String,
        /// The answers it takes: id, name, meaning.
        options: Vec<(String, String, PermissionKind)>,
    },
    /// The prompt is over.
    Ended(AgentEnd),
}

/// How a prompt ended, as the agent sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEnd {
    /// Done.
    Completed,
    /// Done, but stopped at a limit of the agent's.
    CutShort,
    /// The agent would not do it.
    Refused,
    /// Stopped as asked.
    Cancelled,
    /// Asked to stop, it did not, and was killed.
    Killed,
    /// It went wrong.
    Failed {
        /// What kind of failure.
        reason: TurnReason,
        /// What the agent said about it (the tail of its error output), at most 64 KiB.
        text: String,
    },
}

/// A started agent: a way in and a way out. Dropping the handle ends the agent and everything it
/// started.
pub struct AgentHandle {
    /// The way in.
    pub commands: mpsc::Sender<AgentCommand>,
    /// The way out.
    pub events: mpsc::Receiver<AgentEvent>,
}

/// Why an agent could not be started; shown to the user as the agent's own words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(pub String);
