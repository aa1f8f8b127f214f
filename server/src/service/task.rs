//! Tasks.

use std::sync::Arc;

use usher_shared::id::{IncarnationId, SessionId, TaskId, UserId};
use usher_shared::limits::LISTED_MAX;
use usher_shared::vocabulary::TaskKind;

use super::{FindError, MakeError, Service};
use crate::clock::{fresh_uuid, now};
use crate::domain::change::{NewSession, NewTask};
use crate::domain::session::{Caller, Session, Task};
use crate::domain::{Change, Decision, Event};
use crate::store::{Reads, StoreError, TransactError};

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct TaskRequest {
    /// For people.
    pub title: String,
    /// What it is for.
    pub kind: TaskKind,
    /// Where its agents work.
    pub workspace_dir: Option<String>,
    /// The agent of its sessions; None: the server's default.
    pub agent: Option<String>,
    /// The same id again gives the same task.
    pub client_request_id: Option<String>,
}

/// A task and its first session.
#[derive(Clone, Debug)]
pub struct TaskMade {
    /// The task.
    pub task: Task,
    /// Its first session.
    pub session: Session,
}

impl Service {
    /// Makes a task with its first session, or returns the one that the same request made.
    ///
    /// # Errors
    /// See [`MakeError`].
    pub async fn create_task(
        &self,
        caller: Caller,
        request: TaskRequest,
    ) -> Result<TaskMade, TransactError<MakeError>> {
        let agents = Arc::clone(&self.agents);
        let agent = request.agent.clone().unwrap_or_else(|| agents.default_name().to_owned());
        let (task_id, owner) = (TaskId::from_uuid(fresh_uuid()), caller.id);
        let session_id = SessionId::from_uuid(fresh_uuid());
        let made = self
            .store
            .transact(move |reads| {
                if let Some(id) = &request.client_request_id
                    && let Some(task) = reads.task_by_request(caller.id, id)?
                {
                    return Ok(Decision::unchanged(task.id));
                }
                if reads.saved_settings(caller.id)?.is_none() {
                    return Err(MakeError::NoUser);
                }
                if !agents.knows(&agent) {
                    return Err(MakeError::UnknownAgent);
                }
                let created_at = now();
                let session = NewSession {
                    id: session_id,
                    task_id,
                    incarnation_id: IncarnationId::from_uuid(fresh_uuid()),
                    agent: agent.clone(),
                    model: None,
                    title: request.title.clone(),
                    client_request_id: None,
                    created_at,
                };
                let task = NewTask {
                    id: task_id,
                    owner: caller.id,
                    title: request.title.clone(),
                    kind: request.kind,
                    workspace_dir: request.workspace_dir.clone(),
                    agent: agent.clone(),
                    client_request_id: request.client_request_id.clone(),
                    created_at,
                };
                Ok(Decision {
                    changes: vec![
                        Change::InsertTask(Box::new(task)),
                        Change::InsertSession(Box::new(session)),
                    ],
                    events: vec![(session_id, Event::TaskChanged(task_id))],
                    reply: task_id,
                })
            })
            .await?;
        let found = self.store.read(move |reads| {
            let task = owned(reads, owner, made)?;
            let session = reads.first_of_task(made)?.ok_or(FindError::NotFound)?;
            Ok(TaskMade { task, session })
        });
        found.await.map_err(|error| match error {
            FindError::NotFound => TransactError::Refused(MakeError::NotFound),
            // It is stored; what it is cannot be told.
            FindError::Store(error) => TransactError::Unknown(error.to_string()),
        })
    }

    /// Returns the caller's newest tasks, at most [`LISTED_MAX`], the newest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn tasks(
        &self,
        caller: Caller,
        include_archived: bool,
    ) -> Result<Vec<Task>, StoreError> {
        self.store.read(move |reads| reads.tasks(caller.id, include_archived, LISTED_MAX)).await
    }

    /// Returns a task of the caller with its newest sessions, at most [`LISTED_MAX`], the newest
    /// first.
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn task(
        &self,
        caller: Caller,
        task_id: TaskId,
    ) -> Result<(Task, Vec<Session>), FindError> {
        self.store
            .read(move |reads| {
                let task = owned(reads, caller.id, task_id)?;
                Ok((task, reads.newest_of_task(task_id, LISTED_MAX)?))
            })
            .await
    }

    /// Returns a task, whoever's it is: for those who tell its owner.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn any_task(&self, task_id: TaskId) -> Result<Option<Task>, StoreError> {
        self.store.read(move |reads| reads.task(task_id)).await
    }
}

fn owned(reads: &mut Reads<'_>, owner: UserId, id: TaskId) -> Result<Task, FindError> {
    reads.task(id)?.filter(|task| task.owner.id == owner).ok_or(FindError::NotFound)
}
