//! Agents of kind `command`: any program. The prompt goes to its standard input, its standard
//! output is the answer, and every turn gets a fresh process.
//!
//! It is told what a turn asks for by the variables [`MODEL`] and [`PLAN_MODE`], and has neither a model
//! nor a plan mode unless its configuration says so.
//!
//! Everything that the process printed before it ended is reported before the end is. Whatever it
//! started ends with it, with the turn, or with the handle; if the server itself is killed, then
//! when the next one starts (see `orphans`).

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use usher_shared::vocabulary::TurnReason;

use super::output::{Tail, TextDecoder};
use super::process::{self, ProcessGroup};
use super::{
    Abilities, AgentCommand, AgentEnd, AgentEvent, AgentHandle, AgentPrompt, AgentStart,
    COMMANDS_MAX, EVENTS_MAX, Owner, StartError,
};

/// Error output that a failed turn shows, bytes.
const STDERR_TAIL_BYTES_MAX: usize = 65_536;
/// What is read from a pipe at once, bytes.
const READ_BYTES: usize = 16_384;
/// A program that lives this long after it got the whole prompt has accepted it.
const ALIVE_ACCEPTS: Duration = Duration::from_secs(2);
/// After the program ended, its pipes end too, unless something left its process group and keeps
/// them open: this much silence then counts as the end.
const SILENCE_ENDS: Duration = Duration::from_millis(500);
/// However much is printed by what the program left behind: this long after its end the turn is
/// over.
const LEFTOVERS_END: Duration = Duration::from_secs(2);
/// What one pipe can hold when the program ends, bytes (the default of Linux's `pipe-max-size`).
/// More than that was printed by something the program left behind.
const PIPE_BYTES_MAX: usize = 1_048_576;

/// The variable that names the model of a turn; unset if the prompt names none.
pub const MODEL: &str = "USHER_MODEL";
/// The variable that is `1` in a turn in plan mode; unset in any other.
pub const PLAN_MODE: &str = "USHER_PLAN_MODE";

/// Which program to run, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program: a path, or a name found on `PATH`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Names of variables it gets from the server's environment, beside the few that all get.
    pub env_from: Vec<String>,
    /// How long a program that was told to end may take before it is killed.
    pub cancel_grace: Duration,
    /// What it can be asked for.
    pub abilities: Abilities,
}

/// Starts an agent that runs the program once per prompt, on the current runtime.
pub fn start(spec: CommandSpec, start: AgentStart) -> Result<AgentHandle, StartError> {
    let directory = start.workspace_dir.unwrap_or_else(std::env::temp_dir);
    if !directory.is_dir() {
        let directory = directory.display();
        return Err(StartError(format!("{directory} is not a directory")));
    }
    let (commands_in, commands) = mpsc::channel(COMMANDS_MAX);
    let (events, events_out) = mpsc::channel(EVENTS_MAX);
    tokio::spawn(serve(spec, directory, start.owner, commands, events));
    Ok(AgentHandle { commands: commands_in, events: events_out })
}

async fn serve(
    spec: CommandSpec,
    directory: PathBuf,
    owner: Option<Owner>,
    mut commands: mpsc::Receiver<AgentCommand>,
    events: mpsc::Sender<AgentEvent>,
) {
    while let Some(command) = commands.recv().await {
        // Without a turn there is nothing to cancel.
        let AgentCommand::Prompt(prompt) = command else {
            continue;
        };
        let end = match Run::spawn(&spec, &directory, owner.as_ref(), &prompt) {
            Ok((run, stdin)) => {
                let feed = feed(stdin, prompt.as_text());
                match run.run_out(feed, &mut commands, &events).await {
                    Ok(end) => end,
                    Err(Gone) => return,
                }
            }
            Err(error) => AgentEnd::Failed {
                reason: TurnReason::StartFailed,
                text: format!("{}: {error}", spec.program),
            },
        };
        if events.send(AgentEvent::Ended(end)).await.is_err() {
            return;
        }
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Writes the prompt and closes the pipe. A program that does not read it all has all it wants.
async fn feed(mut stdin: ChildStdin, prompt: String) {
    let _ = stdin.write_all(prompt.as_bytes()).await;
    let _ = stdin.shutdown().await;
}

/// Nobody is left to talk to, or the runner broke the contract.
struct Gone;

/// One process, from its start to its end.
struct Run {
    child: Child,
    /// Present while the leader lives.
    group: Option<ProcessGroup>,
    stdout: Pipe,
    stderr: Pipe,
    decoder: TextDecoder,
    tail: Tail,
    /// What was read and not yet taken; nothing more is read until it is (back-pressure).
    outbox: VecDeque<AgentEvent>,
    acceptance: Acceptance,
    cancel: Cancel,
    cancel_grace: Duration,
    /// How the leader ended; an error if somebody else took the answer.
    status: Option<io::Result<ExitStatus>>,
    /// Read after the leader ended, bytes.
    leftover_bytes: usize,
    /// When the pipes are closed whatever comes out of them; known once the leader has ended.
    pipes_end_at: Option<Instant>,
}

/// Whether the prompt has provably arrived.
enum Acceptance {
    Feeding,
    /// The whole prompt is written; living until then proves it.
    AliveAt(Instant),
    Accepted,
}

/// How far a cancel has come.
enum Cancel {
    NotAsked,
    KillAt(Instant),
    Killed,
}

impl Run {
    fn spawn(
        spec: &CommandSpec,
        directory: &Path,
        owner: Option<&Owner>,
        prompt: &AgentPrompt,
    ) -> io::Result<(Self, ChildStdin)> {
        let plan_mode = prompt.plan_mode.then_some((PLAN_MODE, "1"));
        let model = prompt.model.as_deref().map(|model| (MODEL, model));
        let mut child =
            process::command(&spec.program, &spec.args, &spec.env_from, directory, owner)
                .envs(model.into_iter().chain(plan_mode))
                .spawn()?;
        let group = ProcessGroup::of(&child)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("process has no pipes"));
        };
        let run = Self {
            child,
            group: Some(group),
            stdout: Pipe::new(stdout),
            stderr: Pipe::new(stderr),
            decoder: TextDecoder::default(),
            tail: Tail::new(STDERR_TAIL_BYTES_MAX),
            outbox: VecDeque::new(),
            acceptance: Acceptance::Feeding,
            cancel: Cancel::NotAsked,
            cancel_grace: spec.cancel_grace,
            status: None,
            leftover_bytes: 0,
            pipes_end_at: None,
        };
        Ok((run, stdin))
    }

    async fn run_out(
        mut self,
        feed: impl Future<Output = ()>,
        commands: &mut mpsc::Receiver<AgentCommand>,
        events: &mpsc::Sender<AgentEvent>,
    ) -> Result<AgentEnd, Gone> {
        let feed = feed.fuse();
        tokio::pin!(feed);
        while !self.is_over() {
            let idle = self.outbox.is_empty();
            tokio::select! {
                command = commands.recv() => self.obey(command)?,
                permit = events.reserve(), if !idle => {
                    let permit = permit.map_err(|_| Gone)?;
                    if let Some(event) = self.outbox.pop_front() {
                        permit.send(event);
                    }
                }
                // A way out that nobody listens to any more is noticed also in silence.
                () = events.closed() => return Err(Gone),
                () = &mut feed => self.fed(),
                () = self.acceptance.elapsed() => self.accept(),
                () = self.cancel.elapsed() => self.force(),
                bytes = self.stdout.read(), if idle => self.print(&bytes),
                bytes = self.stderr.read() => self.complain(&bytes),
                status = self.child.wait(), if self.status.is_none() => self.exited(status),
                () = sleep(SILENCE_ENDS), if idle && self.status.is_some() => self.close_pipes(),
                () = until(self.pipes_end_at) => self.close_pipes(),
            }
        }
        self.deliver_rest(events).await?;
        Ok(self.end())
    }

    fn is_over(&self) -> bool {
        self.status.is_some() && self.stdout.is_closed() && self.stderr.is_closed()
    }

    fn obey(&mut self, command: Option<AgentCommand>) -> Result<(), Gone> {
        match command {
            Some(AgentCommand::Cancel) => {
                if let (Cancel::NotAsked, Some(group)) = (&self.cancel, &self.group) {
                    group.terminate();
                    self.cancel = Cancel::KillAt(Instant::now() + self.cancel_grace);
                }
                Ok(())
            }
            // A program on a pipe asks nothing.
            Some(AgentCommand::Answer { .. }) => Ok(()),
            // A second prompt breaks the contract: dying shows it, dropping it would hide it.
            Some(AgentCommand::Prompt(_)) | None => Err(Gone),
        }
    }

    fn fed(&mut self) {
        if matches!(self.acceptance, Acceptance::Feeding) {
            self.acceptance = Acceptance::AliveAt(Instant::now() + ALIVE_ACCEPTS);
        }
    }

    fn accept(&mut self) {
        if !matches!(self.acceptance, Acceptance::Accepted) {
            self.acceptance = Acceptance::Accepted;
            self.outbox.push_back(AgentEvent::Accepted);
        }
    }

    fn force(&mut self) {
        self.cancel = Cancel::Killed;
        if let Some(group) = &self.group {
            group.kill();
        }
    }

    fn print(&mut self, bytes: &[u8]) {
        self.count_leftovers(bytes);
        let text = if bytes.is_empty() {
            self.decoder.finish()
        } else {
            self.accept();
            self.decoder.push(bytes)
        };
        if !text.is_empty() {
            self.outbox.push_back(AgentEvent::Text(text));
        }
    }

    fn complain(&mut self, bytes: &[u8]) {
        self.count_leftovers(bytes);
        if !bytes.is_empty() {
            self.accept();
            self.tail.push(bytes);
        }
    }

    fn count_leftovers(&mut self, bytes: &[u8]) {
        if self.status.is_some() {
            self.leftover_bytes += bytes.len();
            if self.leftover_bytes > 2 * PIPE_BYTES_MAX {
                self.close_pipes();
            }
        }
    }

    fn close_pipes(&mut self) {
        self.stdout.close();
        self.stderr.close();
    }

    fn exited(&mut self, status: io::Result<ExitStatus>) {
        // What the program left behind ends here.
        self.group = None;
        self.accept();
        self.status = Some(status);
        self.pipes_end_at = Some(Instant::now() + LEFTOVERS_END);
    }

    async fn deliver_rest(&mut self, events: &mpsc::Sender<AgentEvent>) -> Result<(), Gone> {
        let rest = self.decoder.finish();
        if !rest.is_empty() {
            self.outbox.push_back(AgentEvent::Text(rest));
        }
        for event in self.outbox.drain(..) {
            events.send(event).await.map_err(|_| Gone)?;
        }
        Ok(())
    }

    fn end(self) -> AgentEnd {
        let text = match (self.cancel, self.status) {
            (Cancel::KillAt(_), _) => return AgentEnd::Cancelled,
            (Cancel::Killed, _) => return AgentEnd::Killed,
            (Cancel::NotAsked, Some(Ok(status))) if status.success() => {
                return AgentEnd::Completed;
            }
            (Cancel::NotAsked, Some(Ok(status))) => status.to_string(),
            (Cancel::NotAsked, Some(Err(error))) => error.to_string(),
            (Cancel::NotAsked, None) => String::new(),
        };
        let tail = self.tail.into_text();
        AgentEnd::Failed {
            reason: TurnReason::AgentExit,
            text: if tail.is_empty() { text } else { tail },
        }
    }
}

impl Acceptance {
    async fn elapsed(&self) {
        match self {
            Self::AliveAt(at) => sleep_until(*at).await,
            Self::Feeding | Self::Accepted => std::future::pending().await,
        }
    }
}

impl Cancel {
    async fn elapsed(&self) {
        match self {
            Self::KillAt(at) => sleep_until(*at).await,
            Self::NotAsked | Self::Killed => std::future::pending().await,
        }
    }
}

/// The reading end of a pipe.
struct Pipe {
    /// None once it is closed.
    reader: Option<Box<dyn AsyncRead + Send + Unpin>>,
}

impl Pipe {
    fn new(reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self { reader: Some(Box::new(reader)) }
    }

    /// Returns the next bytes; none when the pipe has just ended, and never again after that.
    async fn read(&mut self) -> Vec<u8> {
        let Some(reader) = &mut self.reader else {
            return std::future::pending().await;
        };
        let mut bytes = Vec::with_capacity(READ_BYTES);
        let end = !matches!(reader.read_buf(&mut bytes).await, Ok(1..));
        if end {
            self.close();
        }
        bytes
    }

    fn close(&mut self) {
        self.reader = None;
    }

    fn is_closed(&self) -> bool {
        self.reader.is_none()
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
