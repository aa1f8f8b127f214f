//! Tasks.

use std::sync::Arc;

use usher_shared::id::{IncarnationId, SessionId, TaskId};
use usher_shared::vocabulary::TaskKind;

use super::{FindError, MakeError, Service};
use crate::clock::{fresh_uuid, now};
use crate::domain::change::{NewSession, NewTask};
use crate::domain::session::{Caller, Session, Standing, Task};
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
        let (task, mut sessions) = match self.task_of(owner, made).await {
            Ok(found) => found,
            Err(FindError::NotFound) => return Err(TransactError::Refused(MakeError::NotFound)),
            // It is stored; what it is cannot be told.
            Err(FindError::Store(error)) => return Err(TransactError::Unknown(error.to_string())),
        };
        if sessions.is_empty() {
            return Err(TransactError::Refused(MakeError::NotFound));
        }
        Ok(TaskMade { task, session: sessions.swap_remove(0) })
    }

    /// Returns the caller's tasks, newest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn tasks(
        &self,
        caller: Caller,
        include_archived: bool,
    ) -> Result<Vec<Task>, StoreError> {
        self.store.read(move |reads| reads.tasks(caller.id, include_archived)).await
    }

    /// Returns a task of the caller with its sessions, oldest first.
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn task(
        &self,
        caller: Caller,
        task_id: TaskId,
    ) -> Result<(Task, Vec<Session>), FindError> {
        self.task_of(caller.id, task_id).await
    }

    /// Returns a task, whoever's it is: for those who tell its owner.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn any_task(&self, task_id: TaskId) -> Result<Option<Task>, StoreError> {
        self.store.read(move |reads| reads.task(task_id)).await
    }

    async fn task_of(
        &self,
        owner: usher_shared::id::UserId,
        task_id: TaskId,
    ) -> Result<(Task, Vec<Session>), FindError> {
        self.store
            .read(move |reads: &mut Reads<'_>| {
                let task = reads.task(task_id)?.filter(|task| task.owner.id == owner);
                let task = task.ok_or(FindError::NotFound)?;
                let mut sessions = reads.sessions_of_task(task_id)?;
                sessions.retain(|session| session.standing != Standing::Gone);
                Ok((task, sessions))
            })
            .await
    }
}
