//! The open questions of agents. In memory: a question dies with its agent.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use usher_shared::id::{PermissionId, SessionId, TurnId};
use usher_shared::vocabulary::PermissionKind;

use crate::domain::session::Caller;
use crate::service::TurnError;

/// One answer that a question takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionOption {
    /// Its name.
    pub id: String,
    /// The agent's words for it.
    pub name: String,
    /// What it means.
    pub kind: PermissionKind,
}

/// A question of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its name on the wire; made by the server, so that a late answer can never hit another.
    pub id: PermissionId,
    /// The turn that asks.
    pub turn_id: TurnId,
    /// What the agent wants to do.
    pub title: String,
    /// The tool it wants to use.
    pub tool: String,
    /// The answers it takes.
    pub options: Vec<QuestionOption>,
}

/// What somebody chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which option.
    pub option_id: String,
    /// Who.
    pub by: Caller,
}

struct Open {
    question: Question,
    answer: oneshot::Sender<Answer>,
}

/// All open questions, at most one a session.
#[derive(Default)]
pub struct Questions {
    open: Mutex<HashMap<SessionId, Open>>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a question, in the place of an earlier one.
    pub fn ask(&self, session: SessionId, question: Question) -> oneshot::Receiver<Answer> {
        let (answer, answered) = oneshot::channel();
        self.lock().insert(session, Open { question, answer });
        answered
    }

    /// Closes a session's question, if one is open.
    pub fn close(&self, session: SessionId) -> Option<Question> {
        self.lock().remove(&session).map(|open| open.question)
    }

    /// Tells whether a session has an open question.
    pub fn is_open(&self, session: SessionId) -> bool {
        self.lock().contains_key(&session)
    }

    /// Returns a session's open question.
    pub fn get(&self, session: SessionId) -> Option<Question> {
        self.lock().get(&session).map(|open| open.question.clone())
    }

    /// Gives the first answer to a question; any later one finds it closed.
    ///
    /// # Errors
    /// If the question is not open, or has no such option (then it stays open).
    pub fn answer(
        &self,
        session: SessionId,
        id: PermissionId,
        option_id: String,
        by: Caller,
    ) -> Result<(), TurnError> {
        let mut open = self.lock();
        let asked = open.get(&session).filter(|open| open.question.id == id);
        let asked = asked.ok_or(TurnError::PermissionClosed)?;
        if !asked.question.options.iter().any(|option| option.id == option_id) {
            return Err(TurnError::UnknownOption);
        }
        let closed = open.remove(&session).ok_or(TurnError::PermissionClosed)?;
        closed.answer.send(Answer { option_id, by }).map_err(|_| TurnError::PermissionClosed)
    }
}
