//! A connected client for one command.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use usher_shared::client::{Call, CallId, CallOutcome, Event, Input, LinkState, reply};
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::SessionId;
use usher_shared::limits::NAME_BYTES_MAX;
use usher_shared::prompt::cut_at_char;
use usher_shared::protocol::Request;
use usher_shared::protocol::session::{Session, SessionGetParams, SessionListParams};
use usher_shared::protocol::task::{TaskCreateParams, TaskListParams};
use usher_shared::protocol::turn::TurnEnded;
use uuid::Uuid;

use super::exit::Exit;
use super::output::Output;
use crate::driver::{Driver, OwnServerError, Server, Trouble, ensure_server};
use crate::i18n::Value;
use crate::start::{Files, current_directory, meant_session};
use crate::view::clean::Clean;

/// How long a command tries to reach its server before it says that there is none.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long a command stays without a link before it gives up.
pub(super) const OFFLINE_PATIENCE: Duration = Duration::from_secs(20);

/// How often something that may be asked for twice is asked for.
const ASK_ATTEMPTS_MAX: u32 = 5;

/// Why a command cannot go on.
#[derive(Debug)]
pub(super) enum Problem {
    /// The own server cannot be started.
    Own(OwnServerError),
    /// Nobody answers at the address.
    NoServer,
    /// Somebody does, but no connection comes of it.
    Unreachable(Trouble),
    /// The server will not have this client.
    Unwelcome(WireError),
    /// The server refused a request.
    Rejected(WireError),
    /// There is no session of this name.
    UnknownSession(String),
    /// The link was lost before the answer to a request.
    Lost,
}

impl Problem {
    /// Tells people what is wrong and returns how the command ends.
    pub(super) fn report(&self, output: &Output) -> Exit {
        let (text, exit) = self.text(output);
        output.problem(&text);
        exit
    }

    /// Returns what people read about it, and how the command ends.
    pub(super) fn text(&self, output: &Output) -> (String, Exit) {
        match self {
            Self::Own(error) => (own_server_text(error, output), Exit::NoServer),
            Self::NoServer => (output.text("cli-no-server", &[]), Exit::NoServer),
            Self::Unreachable(trouble) => (trouble.text(&output.localizer), Exit::NoServer),
            Self::Unwelcome(error) => (output.localizer.error(error), Exit::NoServer),
            Self::Rejected(error) => (output.localizer.error(error), Exit::Rejected),
            Self::UnknownSession(name) => {
                let name = Clean::line(name);
                let name = [("session", Value::from(name.as_str()))];
                (output.text("cli-unknown-session", &name), Exit::Rejected)
            }
            Self::Lost => (output.text("cli-link-lost", &[]), Exit::NoServer),
        }
    }
}

fn own_server_text(error: &OwnServerError, output: &Output) -> String {
    let detail = Clean::line(&error.to_string());
    match error {
        OwnServerError::Paths(_) => {
            output.text("cli-own-server-paths", &[("reason", Value::from(detail.as_str()))])
        }
        OwnServerError::Spawn(error) => {
            let reason = Clean::line(&error.to_string());
            let reason = [("reason", Value::from(reason.as_str()))];
            output.text("cli-own-server-spawn", &reason)
        }
        OwnServerError::Silent { log } => {
            let log = Clean::line(&log.display().to_string());
            output.text("cli-own-server-silent", &[("log", Value::from(log.as_str()))])
        }
    }
}

/// A connection to one server, greeted.
pub(super) struct Client {
    pub(super) driver: Driver,
    /// How turns of the open session ended while this client looked on.
    pub(super) turns_ended: Vec<TurnEnded>,
    /// Why the session that was open cannot be followed any more.
    pub(super) session_refused: Option<WireError>,
    /// Counts the events that may change what a look at the mirror shows: one that comes while a
    /// call is awaited must not be slept through.
    pub(super) news: u64,
    files: Files,
    calls: u64,
}

impl Client {
    /// Connects and waits for the answer to `hello`.
    pub(super) async fn connect(server: Server, token: Option<String>) -> Result<Self, Problem> {
        Self::connect_writing(server, token, None).await
    }

    /// The same for a client that sends prompts, and writes them into the journal in this folder.
    pub(super) async fn connect_writing(
        server: Server,
        token: Option<String>,
        journal_dir: Option<PathBuf>,
    ) -> Result<Self, Problem> {
        if let Server::Own(paths) = &server {
            ensure_server(paths).await.map_err(Problem::Own)?;
        }
        Self::start(server, token, journal_dir).await
    }

    /// The same without starting the own server first.
    pub(super) async fn connect_running(
        server: Server,
        token: Option<String>,
    ) -> Result<Self, Problem> {
        Self::start(server, token, None).await
    }

    async fn start(
        server: Server,
        token: Option<String>,
        journal_dir: Option<PathBuf>,
    ) -> Result<Self, Problem> {
        let files = server.files();
        let mut client = Self {
            driver: Driver::start(server, token, journal_dir),
            turns_ended: Vec::new(),
            session_refused: None,
            news: 0,
            files,
            calls: 0,
        };
        client.wait_online(Instant::now() + CONNECT_PATIENCE).await?;
        Ok(client)
    }

    async fn wait_online(&mut self, give_up_at: Instant) -> Result<(), Problem> {
        loop {
            match self.driver.engine().link() {
                LinkState::Online { .. } => return Ok(()),
                LinkState::Refused(error) => return Err(Problem::Unwelcome(error.clone())),
                LinkState::Connecting | LinkState::Greeting | LinkState::Waiting { .. } => {}
            }
            // What only somebody can change is not waited for.
            if self.driver.trouble().is_some_and(|trouble| trouble.is_lasting())
                || timeout_at(give_up_at, self.next_event()).await.is_err()
            {
                return Err(self.no_server());
            }
        }
    }

    /// Says why there is no link.
    pub(super) fn no_server(&self) -> Problem {
        self.driver.trouble().map_or(Problem::NoServer, Problem::Unreachable)
    }

    /// Waits for the next event.
    pub(super) async fn next_event(&mut self) -> Event {
        let event = self.driver.next_event().await;
        if !matches!(event, Event::Called { .. }) {
            self.news += 1;
        }
        match &event {
            Event::TurnEnded(turn) => self.turns_ended.push(turn.clone()),
            Event::SessionRefused(error) => self.session_refused = Some(error.clone()),
            _ => {}
        }
        event
    }

    /// Opens a session, to follow what happens in it.
    pub(super) async fn open(&mut self, session_id: SessionId) -> Result<(), Problem> {
        self.driver.handle(Input::Open(session_id));
        let give_up_at = Instant::now() + OFFLINE_PATIENCE;
        loop {
            match timeout_at(give_up_at, self.next_event()).await {
                Ok(Event::SessionOpened) => return Ok(()),
                Ok(Event::SessionRefused(error)) => return Err(Problem::Rejected(error)),
                Ok(_) => {}
                Err(_) => return Err(Problem::Lost),
            }
        }
    }

    /// Asks for something that may be asked for twice: a read, or what carries a request id.
    /// A lost link is waited for.
    pub(super) async fn ask<R: Request>(&mut self, request: &R) -> Result<R::Reply, Problem> {
        let give_up_at = Instant::now() + OFFLINE_PATIENCE;
        for _ in 1..ASK_ATTEMPTS_MAX {
            match self.call(request).await {
                Err(Problem::Lost) => self.wait_online(give_up_at).await?,
                answered => return answered,
            }
        }
        self.call(request).await
    }

    /// Asks the server for something, once.
    pub(super) async fn call<R: Request>(&mut self, request: &R) -> Result<R::Reply, Problem> {
        self.calls += 1;
        let wanted = CallId::new(self.calls);
        self.driver.handle(Input::Call(Call::new(wanted, request)));
        loop {
            match self.next_event().await {
                Event::Called { id, outcome } if id == wanted => {
                    return match outcome {
                        CallOutcome::Reply(payload) => {
                            reply::<R>(&payload).map_err(|_| Problem::Lost)
                        }
                        CallOutcome::Rejected(error) => Err(Problem::Rejected(error)),
                        CallOutcome::Lost | CallOutcome::NotSent => Err(Problem::Lost),
                    };
                }
                _ => {}
            }
        }
    }

    /// Finds the session that is meant: the named one, else that of the current
    /// directory.
    pub(super) async fn find_session(
        &mut self,
        wanted: Option<&str>,
    ) -> Result<Option<Session>, Problem> {
        match wanted {
            Some(id) => {
                let session_id = SessionId::parse_or_nil(id);
                match self.ask(&SessionGetParams { session_id }).await {
                    Ok(found) => Ok(Some(found.session)),
                    Err(Problem::Rejected(error)) if error.code == ErrorCode::NotFound => {
                        Err(Problem::UnknownSession(id.to_owned()))
                    }
                    Err(problem) => Err(problem),
                }
            }
            None => {
                let tasks = self.ask(&TaskListParams::default()).await?.tasks;
                let sessions = self.ask(&SessionListParams { task_id: None }).await?.sessions;
                let directory = self.files.seen(current_directory());
                Ok(meant_session(&sessions, &tasks, directory.as_deref()).cloned())
            }
        }
    }

    /// The same, and makes a task with a session for this directory if there is none.
    pub(super) async fn find_or_make_session(
        &mut self,
        wanted: Option<&str>,
    ) -> Result<Session, Problem> {
        if let Some(session) = self.find_session(wanted).await? {
            return Ok(session);
        }
        let directory = current_directory();
        let name = directory.as_deref().and_then(|path| path.rsplit('/').next());
        let title = name.filter(|name| !name.is_empty()).unwrap_or("usher");
        let request = TaskCreateParams {
            title: cut_at_char(title, NAME_BYTES_MAX).to_owned(),
            workspace_dir: self.files.seen(directory.clone()),
            client_request_id: Some(Uuid::new_v4().to_string()),
            ..TaskCreateParams::default()
        };
        Ok(self.ask(&request).await?.session)
    }
}
