//! `usher queue list`, `usher queue clear` and `usher queue auto-run`.

use serde::Serialize;
use usher_shared::id::{SessionId, TaskId, UndoId};
use usher_shared::protocol::entry::StatusEntry;
use usher_shared::protocol::queue::{
    AutoRunSetParams, QueueClearParams, QueueGetParams, QueueStatus,
};
use usher_shared::protocol::session::Session;

use super::args::{AutoRunArgs, AutoRunState, QueueArgs};
use super::client::{Client, Problem};
use super::exit::Exit;
use super::output::{Format, Output, OutputError};
use crate::driver::Server;
use crate::i18n::Value;
use crate::view::clean::Clean;

/// How much of a prompt a list shows, columns.
const LIST_COLUMNS: usize = 72;

/// Shows what waits, in order. JSON: the queue's status as the protocol defines it.
pub(super) async fn list(
    args: &QueueArgs,
    server: Server,
    token: Option<String>,
    output: &Output,
) -> Exit {
    let mut client = match Client::connect(server, token).await {
        Ok(client) => client,
        Err(problem) => return problem.report(output),
    };
    let status = match session_of(&mut client, args).await {
        Ok(Some(session)) => {
            client.ask(&QueueGetParams { identity: session.identity() }).await.map(Some)
        }
        Ok(None) => Ok(None),
        Err(problem) => Err(problem),
    };
    match status {
        Ok(status) => written(show(status.as_ref(), output), output),
        Err(problem) => problem.report(output),
    }
}

fn show(status: Option<&QueueStatus>, output: &Output) -> Result<(), OutputError> {
    let Some(status) = status else {
        return match output.format {
            Format::Json => output.json(&serde_json::Value::Null),
            Format::Text => output.line(&output.text("cli-no-session", &[])),
        };
    };
    if output.format == Format::Json {
        return output.json(status);
    }
    let auto_run = if status.auto_run { "on" } else { "off" };
    let head = [
        ("count", Value::from(status.count)),
        ("max", Value::from(status.max)),
        ("auto_run", Value::from(auto_run)),
    ];
    output.line(&output.text("cli-queue-head", &head))?;
    for (index, entry) in status.entries.iter().enumerate() {
        let content = match entry {
            StatusEntry::Whole(entry) => Clean::line(&entry.content).cut(LIST_COLUMNS, "…"),
            StatusEntry::Stub { .. } => Clean::line("…"),
        };
        output.line(&format!("{:>4}  {}", index + 1, content.as_str()))?;
    }
    Ok(())
}

/// What `usher queue clear --json` prints.
#[derive(Debug, Serialize)]
struct Cleared {
    session_id: SessionId,
    task_id: TaskId,
    removed: u64,
    undo_id: UndoId,
}

/// Removes every waiting entry. JSON: `{session_id, task_id, removed, undo_id}`.
pub(super) async fn clear(
    args: &QueueArgs,
    server: Server,
    token: Option<String>,
    output: &Output,
) -> Exit {
    let mut client = match Client::connect(server, token).await {
        Ok(client) => client,
        Err(problem) => return problem.report(output),
    };
    match clear_session(&mut client, args).await {
        Ok(cleared) => written(tell(cleared.as_ref(), output), output),
        Err(problem) => problem.report(output),
    }
}

async fn clear_session(client: &mut Client, args: &QueueArgs) -> Result<Option<Cleared>, Problem> {
    let Some(session) = session_of(client, args).await? else {
        return Ok(None);
    };
    let request = QueueClearParams { identity: session.identity(), expected_queue_revision: None };
    let reply = client.call(&request).await?;
    Ok(Some(Cleared {
        session_id: session.id,
        task_id: session.task_id,
        removed: reply.removed,
        undo_id: reply.undo_id,
    }))
}

fn tell(cleared: Option<&Cleared>, output: &Output) -> Result<(), OutputError> {
    match (output.format, cleared) {
        (Format::Json, cleared) => output.json(&cleared),
        (Format::Text, None) => output.line(&output.text("cli-no-session", &[])),
        (Format::Text, Some(cleared)) => {
            let removed = [("removed", Value::from(cleared.removed))];
            output.line(&output.text("cli-queue-cleared", &removed))
        }
    }
}

/// What `usher queue auto-run --json` prints.
#[derive(Debug, Serialize)]
struct Switched {
    session_id: SessionId,
    task_id: TaskId,
    auto_run: bool,
    dispatched: bool,
}

/// Switches auto-run and says what is in force then. JSON: `{session_id, task_id, auto_run,
/// dispatched}`; `dispatched`: the first entry was started at once.
pub(super) async fn auto_run(
    args: &AutoRunArgs,
    server: Server,
    token: Option<String>,
    output: &Output,
) -> Exit {
    let mut client = match Client::connect(server, token).await {
        Ok(client) => client,
        Err(problem) => return problem.report(output),
    };
    match switch(&mut client, args).await {
        Ok(switched) => written(tell_switched(switched.as_ref(), output), output),
        Err(problem) => problem.report(output),
    }
}

async fn switch(client: &mut Client, args: &AutoRunArgs) -> Result<Option<Switched>, Problem> {
    let Some(session) = session_of(client, &args.queue).await? else {
        return Ok(None);
    };
    let enabled = match args.state {
        AutoRunState::On => true,
        AutoRunState::Off => false,
    };
    // Twice is as good as once.
    let reply = client.ask(&AutoRunSetParams { identity: session.identity(), enabled }).await?;
    Ok(Some(Switched {
        session_id: session.id,
        task_id: session.task_id,
        auto_run: reply.auto_run,
        dispatched: reply.dispatched,
    }))
}

fn tell_switched(switched: Option<&Switched>, output: &Output) -> Result<(), OutputError> {
    match (output.format, switched) {
        (Format::Json, switched) => output.json(&switched),
        (Format::Text, None) => output.line(&output.text("cli-no-session", &[])),
        (Format::Text, Some(switched)) => {
            let id = match (switched.auto_run, switched.dispatched) {
                (true, true) => "cli-auto-run-on-dispatched",
                (true, false) => "cli-auto-run-on",
                (false, _) => "cli-auto-run-off",
            };
            output.line(&output.text(id, &[]))
        }
    }
}

async fn session_of(client: &mut Client, args: &QueueArgs) -> Result<Option<Session>, Problem> {
    client.find_session(args.session.as_deref()).await
}

fn written(result: Result<(), OutputError>, output: &Output) -> Exit {
    result.map_or_else(|error| output.failed(&error), |()| Exit::Done)
}
