//! Tasks, sessions, users, questions.

use usher_shared::error::WireError;
use usher_shared::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX};
use usher_shared::protocol::hello::User;
use usher_shared::protocol::session::{self as wire_session, Permission};
use usher_shared::protocol::task::{self as wire_task, TaskCreateParams};
use usher_shared::vocabulary::SessionState;

use super::bounded;
use crate::dispatch::Question;
use crate::domain::session::{Caller, Session, Task};
use crate::service::TaskRequest;

fn no_directory() -> WireError {
    let why = "not an absolute path of a directory on the server";
    WireError::validation("workspace_dir", why)
}

/// Asks the file system for the directory of a task.
pub(in crate::net) async fn existing_directory(path: Option<&str>) -> Result<(), WireError> {
    let Some(path) = path else {
        return Ok(());
    };
    match tokio::fs::metadata(path).await {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) | Err(_) => Err(no_directory()),
    }
}

/// Checks what a task is asked for, except whether its directory exists.
pub(in crate::net) fn task_request(params: TaskCreateParams) -> Result<TaskRequest, WireError> {
    bounded("title", Some(&params.title), NAME_BYTES_MAX)?;
    bounded("agent", params.agent.as_deref(), NAME_BYTES_MAX)?;
    bounded("client_request_id", params.client_request_id.as_deref(), NAME_BYTES_MAX)?;
    bounded("workspace_dir", params.workspace_dir.as_deref(), PATH_BYTES_MAX)?;
    if params.workspace_dir.as_ref().is_some_and(|dir| !std::path::Path::new(dir).is_absolute()) {
        return Err(no_directory());
    }
    Ok(TaskRequest {
        title: params.title,
        kind: params.kind.unwrap_or(usher_shared::vocabulary::TaskKind::Task),
        workspace_dir: params.workspace_dir,
        agent: params.agent,
        client_request_id: params.client_request_id,
    })
}

/// A user as clients are told.
pub fn user(caller: &Caller) -> User {
    User { id: caller.id, name: caller.name.clone() }
}

pub(in crate::net) fn task(task: Task) -> wire_task::Task {
    wire_task::Task {
        id: task.id,
        title: task.title,
        kind: task.kind,
        workspace_dir: task.workspace_dir,
        agent: task.agent,
        owner: user(&task.owner),
        archived: task.archived,
        queued_prompt_count: task.queued_count,
        created_at: task.created_at,
    }
}

/// `question` is the session's open one.
pub fn session(session: &Session, question: Option<Question>) -> wire_session::Session {
    let state = match (session.state(), &question) {
        (SessionState::Running, Some(_)) => SessionState::AwaitingPermission,
        (state, _) => state,
    };
    wire_session::Session {
        id: session.id,
        task_id: session.task_id,
        incarnation_id: session.incarnation_id,
        agent: session.agent.clone(),
        model: session.model.clone(),
        mode: session.mode.clone(),
        state,
        turn: session
            .turn
            .map(|turn| wire_session::OpenTurn { id: turn.id, started_at: turn.started_at }),
        permission: question.map(permission),
        title: session.title.clone(),
        created_at: session.created_at,
        last_seq: session.last_seq,
    }
}

pub(in crate::net) fn permission(question: Question) -> Permission {
    Permission {
        request_id: question.id,
        turn_id: question.turn_id,
        title: question.title,
        tool: question.tool,
        options: question
            .options
            .into_iter()
            .map(|option| wire_session::PermissionOption {
                option_id: option.id,
                name: option.name,
                kind: option.kind,
            })
            .collect(),
    }
}
