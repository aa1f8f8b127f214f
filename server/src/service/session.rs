//! Sessions and their transcripts.

use std::sync::Arc;

use usher_shared::id::{IncarnationId, MessageId, SessionId, TaskId};
use usher_shared::limits::LISTED_MAX;

use super::{FindError, MakeError, QueueView, Service, TextError};
use crate::clock::{fresh_uuid, now};
use crate::domain::change::NewSession;
use crate::domain::session::{Caller, Session, Standing};
use crate::domain::{Change, Decision, Event};
use crate::store::{Page, PageBounds, Reads, StoreError, TextFound, TextRange, TransactError};

/// Everything a terminal needs to show a session.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// Its queue, and the session itself.
    pub queue: QueueView,
    /// The newest messages.
    pub page: Page,
}

impl Service {
    /// Makes one more session in a task of the caller, or returns the one that the same request
    /// made.
    ///
    /// # Errors
    /// See [`MakeError`].
    pub async fn create_session(
        &self,
        caller: Caller,
        task_id: TaskId,
        agent: Option<String>,
        model: Option<String>,
        client_request_id: Option<String>,
    ) -> Result<Session, TransactError<MakeError>> {
        let agents = Arc::clone(&self.agents);
        let viewer = caller.clone();
        let made = self
            .store
            .transact(move |reads| {
                let task = reads.task(task_id)?.filter(|task| task.owner.id == caller.id);
                let task = task.filter(|task| !task.archived).ok_or(MakeError::NotFound)?;
                if let Some(id) = &client_request_id
                    && let Some(session) = reads.session_by_request(task.key, id)?
                {
                    return Ok(Decision::unchanged(session.id));
                }
                let agent = agent.clone().unwrap_or(task.agent);
                if !agents.knows(&agent) {
                    return Err(MakeError::UnknownAgent);
                }
                let id = SessionId::from_uuid(fresh_uuid());
                let session = NewSession {
                    id,
                    task_id,
                    incarnation_id: IncarnationId::from_uuid(fresh_uuid()),
                    agent,
                    model: model.clone(),
                    title: task.title,
                    client_request_id: client_request_id.clone(),
                    created_at: now(),
                };
                let changes = vec![Change::InsertSession(Box::new(session))];
                let events = vec![(id, Event::TaskChanged(task_id))];
                Ok(Decision { changes, events, reply: id })
            })
            .await?;
        self.session(viewer, made).await.map_err(|error| match error {
            FindError::NotFound => TransactError::Refused(MakeError::NotFound),
            FindError::Store(error) => TransactError::Unknown(error.to_string()),
        })
    }

    /// Returns a session of the caller.
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn session(
        &self,
        caller: Caller,
        session_id: SessionId,
    ) -> Result<Session, FindError> {
        self.store.read(move |reads| owned(reads, &caller, session_id)).await
    }

    /// Returns the sessions of one task of the caller, newest first, or of all its tasks that are
    /// not archived, most recently used first; at most [`LISTED_MAX`].
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn sessions(
        &self,
        caller: Caller,
        task_id: Option<TaskId>,
    ) -> Result<Vec<Session>, FindError> {
        match task_id {
            Some(task_id) => {
                let (_, sessions) = self.task(caller, task_id).await?;
                Ok(sessions)
            }
            None => {
                let all =
                    self.store.read(move |reads| reads.sessions_of_user(caller.id, LISTED_MAX));
                all.await.map_err(|error: StoreError| FindError::Store(error))
            }
        }
    }

    /// Returns a part of a session's transcript.
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn page(
        &self,
        caller: Caller,
        session_id: SessionId,
        bounds: PageBounds,
        limit: u32,
    ) -> Result<Page, FindError> {
        self.store
            .read(move |reads| {
                let session = owned(reads, &caller, session_id)?;
                Ok(reads.page(&session, bounds, limit)?)
            })
            .await
    }

    /// Returns a part of one message's text.
    ///
    /// # Errors
    /// See [`TextError`].
    pub async fn read_text(
        &self,
        caller: Caller,
        session_id: SessionId,
        message_id: MessageId,
        offset: u64,
        length: u64,
    ) -> Result<TextRange, TextError> {
        self.store
            .read(move |reads| {
                let session = owned(reads, &caller, session_id)?;
                match reads.text(&session, message_id, offset, length)? {
                    Some(TextFound::Range(range)) => Ok(range),
                    Some(TextFound::InsideCharacter) => Err(TextError::InsideCharacter),
                    Some(TextFound::NoRoom) => Err(TextError::NoRoom),
                    None => Err(FindError::NotFound.into()),
                }
            })
            .await
    }

    /// Returns the queue of a session as those are told of it who watch: that of an archived one,
    /// too, whose open turn they see end.
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn watched_queue(
        &self,
        caller: Caller,
        session_id: SessionId,
    ) -> Result<QueueView, FindError> {
        let given = self.given;
        self.store
            .read(move |reads| {
                let session = owned(reads, &caller, session_id)?;
                Ok(QueueView::of(reads, session, given)?)
            })
            .await
    }

    /// Returns a session with its queue and its newest `limit` messages, all of one moment.
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn view(
        &self,
        caller: Caller,
        session_id: SessionId,
        limit: u32,
    ) -> Result<SessionView, FindError> {
        let given = self.given;
        self.store
            .read(move |reads| {
                let session = owned(reads, &caller, session_id)?;
                let page = reads.page(&session, PageBounds::Newest, limit)?;
                Ok(SessionView { queue: QueueView::of(reads, session, given)?, page })
            })
            .await
    }
}

pub(super) fn owned(
    reads: &mut Reads<'_>,
    caller: &Caller,
    session_id: SessionId,
) -> Result<Session, FindError> {
    reads
        .session(session_id)?
        .filter(|session| session.owner == caller.id && session.standing != Standing::Gone)
        .ok_or(FindError::NotFound)
}
