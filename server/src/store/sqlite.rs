//! SQLite: opening a database safely, and its connection.
//!
//! Every connection is set up alike: WAL, `synchronous=FULL`, no automatic checkpoints. An opened
//! file that is no database of ours is left exactly as it is.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OpenFlags, ffi};
use uuid::Uuid;

use super::conn::{Conn, Lock, OnRow, Param, Row};
use super::error::StoreError;
use super::migrate::{self, Dialect};
use super::node::Node;
use super::recover::Trail;
use crate::clock::boot_clock;
use crate::domain::session::SessionKey;

/// Older versions can lose a commit when a checkpoint races with a write (the "WAL reset" bug).
const OLDEST_SAFE_VERSION: i32 = 3_051_003;
/// Statements kept prepared; more than the program has.
const STATEMENTS_MAX: usize = 128;
/// How long a statement waits for another process that holds a lock.
const BUSY_WAIT: Duration = Duration::from_secs(5);

const READ_ONLY: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
const READER_CACHE_KIB: i64 = 4 * 1024;

/// How writes reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Every commit is synced before it is answered.
    Full,
    /// Nothing is synced: only to show that the durability tests would notice.
    #[cfg(feature = "stop-points")]
    Off,
}

/// Opens the database for writing and brings its schema up to date.
pub(super) fn open_writer(path: &Path, sync: Sync) -> Result<Sqlite, StoreError> {
    let mut sqlite = open_read_write(path, sync)?;
    let wal_pages = Arc::clone(&sqlite.wal_pages);
    let note = move |_: &mut Wal, pages: std::ffi::c_int| {
        wal_pages.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    };
    sqlite.conn.wal_hook(Some(note)).map_err(store_error)?;
    sqlite.run("BEGIN IMMEDIATE")?;
    // Left open by an error, the transaction ends with the connection.
    migrate::migrate(&mut sqlite, Dialect::Sqlite)?;
    sqlite.run("COMMIT")?;
    Ok(sqlite)
}

/// Opens the database for writing and checks what must hold on every such connection.
pub(super) fn open_read_write(path: &Path, sync: Sync) -> Result<Sqlite, StoreError> {
    if rusqlite::version_number() < OLDEST_SAFE_VERSION {
        return Err(StoreError::Database(format!("SQLite {} is too old", rusqlite::version())));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sqlite = Sqlite::open(path, flags, 64 * 1024)?;
    let mode: String = sqlite
        .conn
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(store_error)?;
    if mode != "wal" {
        return Err(StoreError::Database(format!("journal mode is {mode}, not wal")));
    }
    let level = match sync {
        Sync::Full => "FULL",
        #[cfg(feature = "stop-points")]
        Sync::Off => "OFF",
    };
    sqlite.conn.pragma_update(None, "synchronous", level).map_err(store_error)?;
    Ok(sqlite)
}

/// Opens the database for reading only.
pub(super) fn open_reader(path: &Path) -> Result<Sqlite, StoreError> {
    Sqlite::open(path, READ_ONLY, READER_CACHE_KIB)
}

/// Tells whether there is a database to look at.
pub(super) fn is_there(path: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(path) {
        Ok(found) if found.len() == 0 => {
            let why = "it is empty; a start of usherd fills it";
            Err(StoreError::Database(why.to_owned()))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let why = "there is none yet; a start of usherd makes it, and --database names a \
                       PostgreSQL one";
            Err(StoreError::Database(why.to_owned()))
        }
        Err(error) => Err(StoreError::Io(error.to_string())),
    }
}

/// Opens a database of ours for reading and fixes the state that is read, for a program that is no
/// server, also where nothing can be written beside it.
pub(super) fn open_from_outside(path: &Path) -> Result<Sqlite, StoreError> {
    is_there(path)?;
    let opened = match open_ours(path, READ_ONLY) {
        Err(rusqlite::Error::SqliteFailure(failure, _))
            if matches!(
                failure.code,
                rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly
            ) =>
        {
            open_ours(&frozen(path)?, READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
        }
        opened => opened,
    };
    let sqlite = opened.map_err(not_ours)?;
    sqlite.run("BEGIN")?;
    Ok(sqlite)
}

/// Opens a database with our tables; "no rows": it has none of them.
fn open_ours(path: &Path, flags: OpenFlags) -> rusqlite::Result<Sqlite> {
    const OURS: &str = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'meta'";
    let sqlite = Sqlite::try_open(path, flags, READER_CACHE_KIB)?;
    sqlite.conn.query_row(OURS, [], |_| Ok(()))?;
    Ok(sqlite)
}

fn not_ours(error: rusqlite::Error) -> StoreError {
    let is_another = match &error {
        rusqlite::Error::QueryReturnedNoRows => true,
        rusqlite::Error::SqliteFailure(failure, _) => {
            failure.code == rusqlite::ErrorCode::NotADatabase
        }
        _ => false,
    };
    if is_another {
        return StoreError::Database("this is no database of usher".to_owned());
    }
    store_error(error)
}

/// Returns another name for a database whose log SQLite cannot use, because nothing can be written
/// beside it: by that name it is opened without. Without a log the file alone holds everything, and
/// no server is using it.
fn frozen(path: &Path) -> Result<PathBuf, StoreError> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        let why = "its log can only be read where its directory can be written; \
                   copy usher.db and usher.db-wal to such a place together";
        return Err(StoreError::Database(why.to_owned()));
    }
    let path = std::path::absolute(path).map_err(|error| StoreError::Io(error.to_string()))?;
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(*byte));
            }
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    Ok(uri.into())
}

/// A connection to an SQLite database.
pub(super) struct Sqlite {
    pub(super) conn: Connection,
    wal_pages: Arc<AtomicU32>,
    node: Arc<Node>,
    /// Of the writer's transaction.
    pub(super) trail: Trail,
}

impl Sqlite {
    fn open(path: &Path, flags: OpenFlags, cache_kib: i64) -> Result<Self, StoreError> {
        Self::try_open(path, flags, cache_kib).map_err(store_error)
    }

    fn try_open(path: &Path, flags: OpenFlags, cache_kib: i64) -> rusqlite::Result<Self> {
        let conn = Connection::open_with_flags(path, flags)?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        conn.busy_timeout(BUSY_WAIT)?;
        // Without this a bound value may make SQLite plan a prepared statement anew, on every run:
        // two thirds of the processor time of an admission.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // A database that turns out to be damaged is left as it was found.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        for (name, value) in [("cache_size", -cache_kib), ("wal_autocheckpoint", 0)] {
            conn.pragma_update(None, name, value)?;
        }
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        conn.pragma_update(None, "foreign_keys", "ON")?;
        Ok(Self { conn, wal_pages: Arc::default(), node: Arc::default(), trail: Trail::default() })
    }

    /// Makes it a connection of this server.
    pub(super) fn of(mut self, node: &Arc<Node>) -> Self {
        self.node = Arc::clone(node);
        self
    }

    /// Returns how many pages the write-ahead log had after the newest commit.
    pub(super) fn wal_pages(&self) -> u32 {
        self.wal_pages.load(Ordering::Relaxed)
    }

    /// Does something that rather fails than waits for another connection's lock.
    pub(super) fn without_waiting<T>(
        &self,
        action: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.conn.busy_timeout(Duration::ZERO).map_err(store_error)?;
        let done = action();
        self.conn.busy_timeout(BUSY_WAIT).map_err(store_error)?;
        done
    }

    /// Runs a statement without parameters or answer.
    pub(super) fn run(&self, sql: &'static str) -> Result<(), StoreError> {
        self.conn
            .prepare_cached(sql)
            .and_then(|mut statement| statement.raw_execute().map(drop))
            .map_err(store_error)
    }
}

/// Sorts an error of SQLite by what it means for the transaction.
pub(super) fn store_error(error: rusqlite::Error) -> StoreError {
    let rusqlite::Error::SqliteFailure(failure, _) = &error else {
        return StoreError::Database(error.to_string());
    };
    let code = failure.extended_code;
    match failure.code {
        rusqlite::ErrorCode::DiskFull => StoreError::Full,
        rusqlite::ErrorCode::ReadOnly => StoreError::ReadOnly,
        rusqlite::ErrorCode::SystemIoFailure => {
            StoreError::Io(format!("{} ({code})", ffi::code_to_str(code)))
        }
        _ => StoreError::Database(format!("{} ({code})", ffi::code_to_str(code))),
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(Value::Null),
            Self::Int(value) => ToSqlOutput::Owned(Value::Integer(*value)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Self::Id(id) => ToSqlOutput::Borrowed(ValueRef::Blob(id.as_bytes())),
        })
    }
}

impl Conn for Sqlite {
    fn lock(&mut self, _: Lock) -> Result<(), StoreError> {
        Ok(())
    }

    fn keeps_attachments(&self) -> bool {
        false
    }

    fn node(&self) -> Uuid {
        self.node.id()
    }

    /// The directory's lock is held: every other server is gone, whatever this says.
    fn lease_clock(&mut self) -> Result<i64, StoreError> {
        Ok(boot_clock())
    }

    fn operation(&mut self, session: SessionKey) -> Param<'static> {
        self.trail.mark(session)
    }

    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        let mut statement = self.conn.prepare_cached(sql).map_err(store_error)?;
        let changed = statement.execute(rusqlite::params_from_iter(params)).map_err(store_error)?;
        Ok(changed as u64)
    }

    fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.conn.execute_batch(sql).map_err(store_error)
    }

    fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        on_row: OnRow<'_>,
    ) -> Result<(), StoreError> {
        let mut statement = self.conn.prepare_cached(sql).map_err(store_error)?;
        let mut rows = statement.query(rusqlite::params_from_iter(params)).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            on_row(row)?;
        }
        Ok(())
    }
}

impl Row for rusqlite::Row<'_> {
    fn int(&self, column: usize) -> Result<i64, StoreError> {
        self.get(column).map_err(|_| StoreError::Damaged("not an integer"))
    }

    fn opt_text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        match self.get_ref(column).map_err(store_error)? {
            ValueRef::Null => Ok(None),
            value => value.as_str().map(Some).map_err(|_| StoreError::Damaged("not text")),
        }
    }

    fn opt_bytes(&self, column: usize) -> Result<Option<&[u8]>, StoreError> {
        match self.get_ref(column).map_err(store_error)? {
            ValueRef::Null => Ok(None),
            value => value.as_blob().map(Some).map_err(|_| StoreError::Damaged("not bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c130_every_connection_writes_ahead_and_syncs_in_full() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("usher.db");
        let conns = [
            ("writer", open_writer(&path, Sync::Full).unwrap()),
            ("checkpointer", open_read_write(&path, Sync::Full).unwrap()),
            ("reader", open_reader(&path).unwrap()),
        ];
        for (who, sqlite) in conns {
            let read = |pragma: &str| {
                let pragma = format!("PRAGMA {pragma}");
                let value = |row: &rusqlite::Row<'_>| row.get::<_, Value>(0);
                sqlite.conn.query_row(&pragma, [], value).unwrap()
            };
            assert_eq!(read("journal_mode"), Value::Text("wal".to_owned()), "{who}");
            // FULL.
            assert_eq!(read("synchronous"), Value::Integer(2), "{who}");
            assert_eq!(read("foreign_keys"), Value::Integer(1), "{who}");
            assert_eq!(read("wal_autocheckpoint"), Value::Integer(0), "{who}");
        }
    }
}
