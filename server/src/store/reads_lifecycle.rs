//! What decisions about whole sessions and tasks, and about users, ask for.

use usher_shared::id::{EntryId, SessionId, TaskId, UserId};

use super::conn::{Lock, Param, query_all, query_one};
use super::error::StoreError;
use super::reads::Reads;
use super::{row, sql};
use crate::domain::entry::Provenance;
use crate::domain::session::{SessionKey, Task};
use crate::domain::settings::SavedSettings;

impl Reads<'_> {
    /// Returns a task, also one that is being deleted. A decision owns it from here on.
    pub fn any_task(&mut self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.conn.lock(Lock::Task(id))?;
        query_one(self.conn, sql::TASK_HIDDEN_BY_ID, &[Param::Id(id.uuid())], row::task)
    }

    /// Returns the tasks that are to be purged.
    pub fn hidden_tasks(&mut self) -> Result<Vec<TaskId>, StoreError> {
        query_all(self.conn, sql::TASKS_HIDDEN, &[], |row| Ok(TaskId::from_uuid(row.uuid(0)?)))
    }

    /// Returns the sessions that are to be purged on their own.
    pub fn hidden_sessions(&mut self) -> Result<Vec<SessionId>, StoreError> {
        query_all(self.conn, sql::SESSIONS_HIDDEN, &[], |row| {
            Ok(SessionId::from_uuid(row.uuid(0)?))
        })
    }

    /// Returns the sessions of removed users whose turn nobody has stopped yet.
    pub fn unseen_running(&mut self) -> Result<Vec<SessionId>, StoreError> {
        query_all(self.conn, sql::SESSIONS_UNSEEN_RUNNING, &[], |row| {
            Ok(SessionId::from_uuid(row.uuid(0)?))
        })
    }

    /// Returns what a user saved; None: there is no such user (any more).
    pub fn saved_settings(&mut self, id: UserId) -> Result<Option<SavedSettings>, StoreError> {
        query_one(self.conn, sql::SETTINGS_SAVED, &[Param::Id(id.uuid())], |row| {
            row::saved_settings(row, 0)
        })
    }

    /// Returns the names of all sessions of a user.
    pub fn session_ids_of_user(&mut self, id: UserId) -> Result<Vec<SessionId>, StoreError> {
        query_all(self.conn, sql::SESSION_IDS_OF_USER, &[Param::Id(id.uuid())], |row| {
            Ok(SessionId::from_uuid(row.uuid(0)?))
        })
    }

    /// Returns the visible entries in order, each with what it was made from.
    pub fn visible_provenances(
        &mut self,
        session: SessionKey,
    ) -> Result<Vec<(EntryId, Provenance)>, StoreError> {
        let params = [Param::Int(session.0)];
        query_all(self.conn, sql::ENTRY_PROVENANCES_VISIBLE, &params, |row| {
            Ok((EntryId::from_uuid(row.uuid(0)?), row::provenance(row.opt_text(1)?)?))
        })
    }

    /// Returns how many entries of a session are reserved for turns.
    pub fn reserved_count(&mut self, session: SessionKey) -> Result<u64, StoreError> {
        let count = query_one(self.conn, sql::ENTRIES_RESERVED, &[Param::Int(session.0)], |row| {
            Ok(row.int(0)?.unsigned_abs())
        })?;
        Ok(count.unwrap_or(0))
    }
}
