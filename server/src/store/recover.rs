//! A commit of SQLite that gave no answer: found again, or made sure to be gone.
//!
//! Each group leaves its random id in every row of a session that it changes, at the price of
//! 16 bytes in a row that is written anyway. After an error at the commit the rows tell whether
//! the group is there.

use rusqlite::OptionalExtension as _;
use tracing::{info, warn};
use uuid::Uuid;

use super::conn::Param;
use super::error::StoreError;
use super::sql;
use super::sqlite::{Sqlite, store_error};
use super::writer::Commit;
use crate::domain::session::SessionKey;

/// Which rows carry the id of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Trail {
    id: Uuid,
    /// Of decisions that are part of the group for good.
    kept: Vec<SessionKey>,
    /// Of the decision that is being written.
    job: Vec<SessionKey>,
}

impl Trail {
    /// Begins a group.
    pub(super) fn begin(&mut self) {
        self.id = Uuid::new_v4();
        self.kept.clear();
        self.job.clear();
    }

    /// Returns what a changed session's row is to carry.
    pub(super) fn mark(&mut self, session: SessionKey) -> Param<'static> {
        self.job.push(session);
        Param::Id(self.id)
    }

    /// The decision is part of the group.
    pub(super) fn keep_job(&mut self) {
        self.kept.append(&mut self.job);
    }

    /// The decision was undone alone.
    pub(super) fn forget_job(&mut self) {
        self.job.clear();
    }
}

/// Finds out on a fresh connection whether a group is there, and makes either answer last: a sync
/// failed, so what can be read now may be in memory only, and what cannot be read now may still be
/// in the log behind its end, where a crash would find it.
pub(super) fn settle(writer: &Sqlite, trail: &Trail, why: String) -> Commit {
    let settled = is_there(writer, trail).and_then(|there| match there {
        Some(true) => write_through(writer).map(|()| Some(true)),
        Some(false) => overwrite(writer, trail).map(|()| Some(false)),
        None => Ok(None),
    });
    match settled {
        Ok(Some(true)) => {
            info!("the group is there");
            Commit::Durable
        }
        Ok(Some(false)) => {
            info!("the group is not there");
            Commit::NotStored(|| StoreError::Io("the group could not be written".to_owned()))
        }
        Ok(None) => Commit::Unknown(why),
        Err(error) => {
            warn!(%error, "it cannot be told whether the group is there");
            Commit::Unknown(why)
        }
    }
}

/// Looks at the rows that carry the group's id, if it is there. None: no such row is left to tell, or
/// they disagree, which no commit can bring about.
fn is_there(writer: &Sqlite, trail: &Trail) -> Result<Option<bool>, StoreError> {
    let mut there = None;
    for session in &trail.kept {
        let found: Option<Option<Vec<u8>>> = writer
            .conn
            .query_row(sql::SESSION_OPERATION, [session.0], |row| row.get(0))
            .optional()
            .map_err(store_error)?;
        let Some(operation) = found else { continue };
        let carries = operation.as_deref() == Some(trail.id.as_bytes());
        if there.is_some_and(|there| there != carries) {
            return Ok(None);
        }
        there = Some(carries);
    }
    Ok(there)
}

/// Copies the whole log into the database file and syncs that.
fn write_through(writer: &Sqlite) -> Result<(), StoreError> {
    let (busy, in_log, copied): (i64, i64, i64) = writer
        .conn
        .query_row("PRAGMA wal_checkpoint(FULL)", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .map_err(store_error)?;
    match busy == 0 && in_log == copied {
        true => Ok(()),
        false => Err(StoreError::Io("the log is in use".to_owned())),
    }
}

/// Commits something else where the group's pages may be in the log: each page there vouches for
/// those before it, so that none of the group's is ever read.
fn overwrite(writer: &Sqlite, trail: &Trail) -> Result<(), StoreError> {
    writer.conn.execute(sql::TOUCH, [trail.id.to_string()]).map(drop).map_err(store_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::{Sync, open_writer};

    /// A database with one session, whose row carries the id of the group that made it.
    fn with_session() -> (tempfile::TempDir, Sqlite, Trail) {
        let dir = tempfile::tempdir().unwrap();
        let writer = open_writer(&dir.path().join("usher.db"), Sync::Full).unwrap();
        let mut trail = Trail::default();
        trail.begin();
        trail.mark(SessionKey(1));
        trail.keep_job();
        writer
            .conn
            .execute_batch(
                "INSERT INTO users (id, name) VALUES (x'01', 'anna'); \
                 INSERT INTO tasks (id, owner_key, title, kind, agent, created_at) \
                 VALUES (x'01', 1, 't', 'task', 'demo', 1);",
            )
            .unwrap();
        writer
            .conn
            .execute(
                "INSERT INTO sessions (id, task_key, incarnation_key, agent, title, created_at, \
                 operation) VALUES (x'01', 1, 1, 'demo', 't', 1, ?1)",
                [trail.id.as_bytes()],
            )
            .unwrap();
        (dir, writer, trail)
    }

    fn lost() -> String {
        "lost".to_owned()
    }

    #[test]
    fn a_group_whose_rows_carry_its_id_is_durable_once_the_log_is_copied() {
        let (dir, writer, trail) = with_session();
        assert!(matches!(settle(&writer, &trail, lost()), Commit::Durable));
        // Without the log it is still there.
        let copy = dir.path().join("copy.db");
        std::fs::copy(dir.path().join("usher.db"), &copy).unwrap();
        let copy = open_writer(&copy, Sync::Full).unwrap();
        assert_eq!(is_there(&copy, &trail).unwrap(), Some(true));
    }

    #[test]
    fn a_group_whose_rows_carry_another_id_was_not_stored() {
        let (_dir, writer, mut trail) = with_session();
        trail.id = Uuid::new_v4();
        let before = writer.wal_pages();
        assert!(matches!(settle(&writer, &trail, lost()), Commit::NotStored(_)));
        assert!(writer.wal_pages() > before, "what may be in the log is overwritten");
    }

    #[test]
    fn a_group_that_left_no_row_or_cannot_be_made_to_last_stays_unknown() {
        let (dir, writer, trail) = with_session();
        let nothing = Trail { kept: Vec::new(), ..trail.clone() };
        assert!(matches!(settle(&writer, &nothing, lost()), Commit::Unknown(_)));
        let gone = Trail { kept: vec![SessionKey(99)], ..trail.clone() };
        assert!(matches!(settle(&writer, &gone, lost()), Commit::Unknown(_)));
        // A reader keeps the log from being copied whole.
        let reader = crate::store::sqlite::open_reader(&dir.path().join("usher.db")).unwrap();
        writer.conn.busy_timeout(std::time::Duration::ZERO).unwrap();
        reader.run("BEGIN").unwrap();
        assert_eq!(is_there(&reader, &trail).unwrap(), Some(true));
        overwrite(&writer, &trail).unwrap();
        assert!(matches!(settle(&writer, &trail, lost()), Commit::Unknown(_)));
    }

    #[test]
    fn what_a_decision_marked_that_was_undone_alone_tells_nothing() {
        let mut trail = Trail::default();
        trail.begin();
        trail.mark(SessionKey(1));
        trail.keep_job();
        trail.mark(SessionKey(2));
        trail.forget_job();
        assert_eq!(trail.kept, [SessionKey(1)]);
    }
}
