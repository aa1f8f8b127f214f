//! `usher serve`, `usher stop` and `usher status`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process, setsid};
use serde::Serialize;
use usher_shared::id::StoreId;
use usher_shared::protocol::session::SessionListParams;
use usher_shared::protocol::task::TaskListParams;

use super::args::ServeCommand;
use super::client::{Client, Problem};
use super::exit::Exit;
use super::output::{Format, Output, OutputError};
use crate::driver::{Running, Server, ServerAddress, answers, running};
use crate::i18n::Value;
use crate::paths::Paths;
use crate::view::clean::Clean;

/// How long a server may take to end: it finishes what is in flight within 10 s.
const STOP_PATIENCE: Duration = Duration::from_secs(15);
/// How often it is looked whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Runs a server in this process: the user's own, unless the flags say otherwise.
pub(super) fn serve(mut command: ServeCommand, paths: Option<&Paths>, output: &Output) -> ExitCode {
    if command.detached {
        // Fails only for the leader of a process group, which nobody starts with this flag.
        let _ = setsid();
    }
    if command.serve.listen.is_empty()
        && let Some(paths) = paths
    {
        if let Err(error) = paths.prepare() {
            return ExitCode::from(Problem::Own(error.into()).report(output));
        }
        let own = ServerAddress::Unix(paths.socket.clone());
        command.serve.listen.push(own.to_string());
    }
    if command.serve.config.is_none()
        && let Some(paths) = paths
        && paths.config_file.exists()
    {
        command.serve.config = Some(paths.config_file.clone());
    }
    usher_server::serve(command.serve)
}

/// Ends the user's own server and waits until it is gone.
pub(super) fn stop(paths: &Paths, output: &Output) -> Exit {
    let pid = match running(&paths.data_dir) {
        Running::As(pid) => pid,
        Running::No => return say("cli-stop-none", output),
        Running::Unnamed => {
            output.problem(&output.text("cli-stop-unnamed", &[]));
            return Exit::NoServer;
        }
    };
    if let Err(error) = kill_process(pid, Signal::TERM) {
        let reason = Clean::line(&error.to_string());
        let reason = [("reason", Value::from(reason.as_str()))];
        output.problem(&output.text("cli-stop-refused", &reason));
        return Exit::NoServer;
    }
    let give_up_at = Instant::now() + STOP_PATIENCE;
    // A server that was started in the meantime is another one and none of our business.
    while running(&paths.data_dir) == Running::As(pid) {
        if Instant::now() >= give_up_at {
            output.problem(&output.text("cli-stop-slow", &[]));
            return Exit::NoServer;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    say("cli-stopped", output)
}

fn say(id: &str, output: &Output) -> Exit {
    match output.line(&output.text(id, &[])) {
        Ok(()) => Exit::Done,
        Err(error) => output.failed(&error),
    }
}

/// What `usher status --json` prints. Without a server every other key is null.
#[derive(Debug, Default, Serialize)]
struct Status {
    running: bool,
    address: String,
    name: Option<String>,
    version: Option<String>,
    store_id: Option<StoreId>,
    user: Option<String>,
    round_trip_ms: Option<u64>,
    tasks: Option<u64>,
    sessions: Option<u64>,
    queued: Option<u64>,
}

/// Says whether the server answers, and what it holds. Never starts one.
pub(super) async fn status(server: Server, token: Option<String>, output: &Output) -> Exit {
    let mut status = Status {
        address: match &server {
            Server::Own(paths) => ServerAddress::Unix(paths.socket.clone()).to_string(),
            Server::Named { address, .. } => address.to_string(),
        },
        ..Status::default()
    };
    let exit = match ask(server, token, &mut status).await {
        Ok(()) => Exit::Done,
        Err(Problem::NoServer | Problem::Lost) => Exit::NoServer,
        // It says more than that nobody answers.
        Err(problem @ Problem::Unreachable(_)) if output.format == Format::Text => {
            return problem.report(output);
        }
        Err(problem @ Problem::Unreachable(_)) => problem.report(output),
        Err(problem) => return problem.report(output),
    };
    match show(&status, output) {
        Ok(()) => exit,
        Err(error) => output.failed(&error),
    }
}

async fn ask(server: Server, token: Option<String>, status: &mut Status) -> Result<(), Problem> {
    if let Server::Own(paths) = &server {
        paths.check_socket_dir().map_err(|error| Problem::Own(error.into()))?;
        if !answers(paths).await {
            return Err(Problem::NoServer);
        }
    }
    let mut client = Client::connect_running(server, token).await?;
    status.running = true;
    let engine = client.driver.engine();
    status.round_trip_ms = match engine.link() {
        usher_shared::client::LinkState::Online { round_trip_ms } => *round_trip_ms,
        _ => None,
    };
    if let Some(hello) = engine.hello() {
        status.name = Some(hello.server.name.clone());
        status.version = Some(hello.server.version.clone());
        status.store_id = Some(hello.server.store_id);
        status.user = Some(hello.user.name.clone());
    }
    let tasks = client.ask(&TaskListParams::default()).await?.tasks;
    let sessions = client.ask(&SessionListParams { task_id: None }).await?;
    let count = |count: usize| u64::try_from(count).ok();
    status.tasks = count(tasks.len());
    status.queued = Some(tasks.iter().map(|task| task.queued_prompt_count).sum());
    status.sessions = count(sessions.sessions.len());
    Ok(())
}

fn show(status: &Status, output: &Output) -> Result<(), OutputError> {
    if output.format == Format::Json {
        return output.json(status);
    }
    let clean = |text: &str| Value::from(Clean::line(text).as_str().to_owned());
    let address = clean(&status.address);
    if !status.running {
        return output.line(&output.text("cli-status-none", &[("address", address)]));
    }
    let arguments = [
        ("address", address),
        ("version", clean(status.version.as_deref().unwrap_or("?"))),
        ("user", clean(status.user.as_deref().unwrap_or("?"))),
        ("tasks", Value::from(status.tasks.unwrap_or(0))),
        ("sessions", Value::from(status.sessions.unwrap_or(0))),
        ("queued", Value::from(status.queued.unwrap_or(0))),
    ];
    output.line(&output.text("cli-status", &arguments))
}
