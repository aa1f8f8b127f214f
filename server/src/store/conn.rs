//! One small synchronous interface to a database connection, so that every statement and every
//! conversion exists once.

use usher_shared::id::{SessionId, TaskId};
use uuid::Uuid;

use super::error::StoreError;
use crate::domain::session::SessionKey;

/// A value bound to a placeholder (`?1`, `?2`, …).
#[derive(Clone, Copy, Debug)]
pub(super) enum Param<'a> {
    /// SQL NULL.
    Null,
    /// An integer.
    Int(i64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// The 16 bytes of an id.
    Id(Uuid),
}

impl<'a> Param<'a> {
    pub(super) fn opt_text(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

/// One row of an answer, read by column index.
pub(super) trait Row {
    /// Reads an integer.
    fn int(&self, column: usize) -> Result<i64, StoreError>;
    /// Reads text or NULL; the borrow ends with the row.
    fn opt_text(&self, column: usize) -> Result<Option<&str>, StoreError>;
    /// Reads bytes or NULL; the borrow ends with the row.
    fn opt_bytes(&self, column: usize) -> Result<Option<&[u8]>, StoreError>;

    /// Reads text.
    fn text(&self, column: usize) -> Result<&str, StoreError> {
        self.opt_text(column)?.ok_or(StoreError::Damaged("NULL where text belongs"))
    }

    /// Reads a UUID or NULL.
    fn opt_uuid(&self, column: usize) -> Result<Option<Uuid>, StoreError> {
        self.opt_bytes(column)?
            .map(|bytes| Uuid::from_slice(bytes).map_err(|_| StoreError::Damaged("an id")))
            .transpose()
    }

    /// Reads a UUID.
    fn uuid(&self, column: usize) -> Result<Uuid, StoreError> {
        self.opt_uuid(column)?.ok_or(StoreError::Damaged("NULL where an id belongs"))
    }
}

/// What is done with each row of an answer.
pub(super) type OnRow<'a> = &'a mut dyn FnMut(&dyn Row) -> Result<(), StoreError>;

/// Rows that a decision owns until its commit. Taken in one order everywhere: a task before its
/// sessions, sessions by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// One task.
    Task(TaskId),
    /// One session.
    Session(SessionId),
    /// Every session of a task.
    SessionsOf(TaskId),
}

/// A connection to a database.
pub(super) trait Conn {
    /// Waits until no other transaction decides about these rows, and keeps others out until the
    /// commit. A connection that only looks, and one that is the only writer, need nothing.
    fn lock(&mut self, rows: Lock) -> Result<(), StoreError>;
    /// Runs a statement; returns how many rows it changed.
    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError>;
    /// Returns the name of this server.
    fn node(&self) -> Uuid;
    /// Tells whether the database keeps the bytes of attachments.
    fn keeps_attachments(&self) -> bool;
    /// Returns the instant that the leases of servers are compared with.
    fn lease_clock(&mut self) -> Result<i64, StoreError>;
    /// Returns what this transaction leaves in the row of a session that it changes, by which it can
    /// be found again if its commit gives no answer; NULL where the database knows by itself.
    fn operation(&mut self, _session: SessionKey) -> Param<'static> {
        Param::Null
    }
    /// Runs a statement that must change exactly one row: the one that the decision was shown. A
    /// connection may send several of these at once and notice a misfit later, but before the
    /// commit.
    fn change_one(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<(), StoreError> {
        changed_one(self.execute(sql, params)?)
    }
    /// Runs statements without parameters that are no part of the program's usual work.
    fn batch(&mut self, sql: &str) -> Result<(), StoreError>;
    /// Runs a query and hands every row to `on_row`.
    fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        on_row: OnRow<'_>,
    ) -> Result<(), StoreError>;
}

/// Refuses a count of changed rows other than one.
pub(super) fn changed_one(rows: u64) -> Result<(), StoreError> {
    match rows {
        1 => Ok(()),
        _ => Err(StoreError::Damaged("a row that was just read is gone")),
    }
}

/// Runs a query for at most one row.
pub(super) fn query_one<T>(
    conn: &mut dyn Conn,
    sql: &'static str,
    params: &[Param<'_>],
    mut read: impl FnMut(&dyn Row) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut found = None;
    conn.query(sql, params, &mut |row| {
        found = Some(read(row)?);
        Ok(())
    })?;
    Ok(found)
}

/// Runs a query and collects its rows.
pub(super) fn query_all<T>(
    conn: &mut dyn Conn,
    sql: &'static str,
    params: &[Param<'_>],
    mut read: impl FnMut(&dyn Row) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut rows = Vec::new();
    conn.query(sql, params, &mut |row| {
        rows.push(read(row)?);
        Ok(())
    })?;
    Ok(rows)
}
