//! The store as the rest of the server sees it: one type, two databases behind it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use usher_shared::counter::MessageSeq;
use usher_shared::id::{MessageId, SessionId};

use super::attachments::AttachmentBytes;
use super::conn::{Conn, Param};
use super::error::{StoreError, TransactError};
use super::postgres::{DatabaseUrl, PostgresStore};
use super::reads::Reads;
use super::sql;
use super::sqlite::{self, Sqlite, Sync};
use super::writer::{SqliteStore, read_in_transaction};
use crate::domain::{Decision, Event};

/// Is told what happened, in commit order of each session, by the thread that committed. Must not
/// wait.
pub trait EventSink: Send + std::marker::Sync + 'static {
    /// Takes one event.
    fn publish(&self, session: SessionId, event: Event);
    /// Tells whether somebody wants to know what another server writes in a session.
    fn is_watched(&self, _session: SessionId) -> bool {
        false
    }
    /// Takes text that another server added to a message at this byte.
    fn grew(
        &self,
        _session: SessionId,
        _message: MessageId,
        _seq: MessageSeq,
        _at: u64,
        _text: &str,
    ) {
    }
    /// Something that other servers did was missed: anything may be another.
    fn missed_some(&self) {}
    /// This server may be taken for dead: no agent of its may go on.
    fn lost_lease(&self) {}
}

/// Where the files of a data directory are.
#[derive(Clone, Debug)]
pub struct StoreFiles {
    /// The database, unless it is a PostgreSQL one.
    pub database: PathBuf,
    /// Locked while a server uses the directory.
    pub lock: PathBuf,
    /// The folder of the bytes of attachments, and of what agents are given of them.
    pub attachments: PathBuf,
}

impl StoreFiles {
    /// Names the files of a data directory.
    pub fn of(data_dir: &Path) -> Self {
        Self {
            database: data_dir.join("usher.db"),
            lock: data_dir.join("usherd.lock"),
            attachments: data_dir.join("attachments"),
        }
    }
}

/// What one server process reads and writes. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    backend: Backend,
    attachments: AttachmentBytes,
    /// The turn of long reads.
    aside: Arc<Semaphore>,
}

#[derive(Clone)]
enum Backend {
    /// With the connection of long reads, opened by the first.
    Sqlite(SqliteStore, Arc<Aside>),
    Postgres(PostgresStore),
}

impl Store {
    /// Opens (or makes) the SQLite database of a data directory and starts its writer. `user_name`
    /// names the first user of a new database.
    ///
    /// # Errors
    /// If another process uses the directory, or the database cannot be used; nothing is deleted
    /// or rewritten then.
    pub fn open(
        files: &StoreFiles,
        user_name: &str,
        sync: Sync,
        sink: Arc<dyn EventSink>,
    ) -> Result<Self, StoreError> {
        let lock = lock(&files.lock)?;
        let store = SqliteStore::open(&files.database, lock, user_name, sync, sink)?;
        let aside = Aside { database: files.database.clone(), reader: Mutex::default() };
        let attachments = AttachmentBytes::in_files(&files.attachments)?;
        Ok(Self::over(Backend::Sqlite(store, Arc::new(aside)), attachments))
    }

    /// Connects to a PostgreSQL database, which other servers may use, too. The data directory's
    /// lock still keeps a second server out of the directory. Waits for the network: not to be
    /// called by an asynchronous task.
    ///
    /// # Errors
    /// If another process uses the directory, or the database cannot be used.
    pub fn connect(
        url: &DatabaseUrl,
        files: &StoreFiles,
        user_name: &str,
        sink: Arc<dyn EventSink>,
    ) -> Result<Self, StoreError> {
        let lock = lock(&files.lock)?;
        let store = PostgresStore::open(url, lock, user_name, sink)?;
        let attachments = AttachmentBytes::in_rows(&files.attachments)?;
        Ok(Self::over(Backend::Postgres(store), attachments))
    }

    fn over(backend: Backend, attachments: AttachmentBytes) -> Self {
        Self { backend, attachments, aside: Arc::new(Semaphore::new(1)) }
    }

    /// Returns where the bytes of attachments are.
    pub fn attachments(&self) -> &AttachmentBytes {
        &self.attachments
    }

    /// Runs `operation` (read, authorize, decide) in a transaction, writes what it decided, and
    /// returns its reply after the commit. It may be called again after a conflict. Dropping the
    /// future does not undo anything.
    pub async fn transact<T, E>(
        &self,
        operation: impl Fn(&mut Reads<'_>) -> Result<Decision<T>, E> + Send + 'static,
    ) -> Result<T, TransactError<E>>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &self.backend {
            Backend::Sqlite(store, _) => store.transact(operation).await,
            Backend::Postgres(store) => store.transact(operation).await,
        }
    }

    /// Runs `query` over one consistent committed state. It goes on whether or not the caller polls:
    /// one that waits for something else meanwhile holds up no other reader.
    pub async fn read<T, E>(
        &self,
        query: impl FnOnce(&mut Reads<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let backend = self.backend.clone();
        // A task of its own: a free connection goes to whoever waits longest, polled or not.
        let read = tokio::spawn(async move {
            match backend {
                Backend::Sqlite(store, _) => store.read(query).await,
                Backend::Postgres(store) => store.read(query).await,
            }
        });
        read.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    /// Runs a query that takes long, beside all others: one at a time, on a connection that no
    /// [`Store::read`] waits for (PostgreSQL: one of several at most).
    pub async fn read_aside<T, E>(
        &self,
        query: impl FnOnce(&mut Reads<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (backend, turns) = (self.backend.clone(), Arc::clone(&self.aside));
        let read = tokio::spawn(async move {
            let _turn = turns.acquire_owned().await.map_err(|_| StoreError::Closed)?;
            match backend {
                Backend::Sqlite(_, aside) => {
                    let read = tokio::task::spawn_blocking(move || aside.read(query));
                    read.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
                }
                Backend::Postgres(store) => store.read(query).await,
            }
        });
        read.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    /// Becomes one of the servers over a shared database: to be called before anything is decided.
    /// `lease`: how long others wait for a silent server before they settle its turns.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn join(&self, lease: Duration) -> Result<(), StoreError> {
        match &self.backend {
            // The lock of the directory says it all.
            Backend::Sqlite(..) => Ok(()),
            Backend::Postgres(store) => store.join(lease).await,
        }
    }

    /// Leaves the database as a stopped server should: an SQLite one as one file that holds
    /// everything, a shared one without a lease of this server.
    pub async fn settle(&self) {
        match &self.backend {
            Backend::Sqlite(store, _) => store.settle().await,
            Backend::Postgres(store) => store.leave().await,
        }
    }
}

/// The connection of long reads to an SQLite database.
struct Aside {
    database: PathBuf,
    reader: Mutex<Option<Sqlite>>,
}

impl Aside {
    fn read<T, E: From<StoreError>>(
        &self,
        query: impl FnOnce(&mut Reads<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let idle = || self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = idle().take();
        let mut reader = reader.map_or_else(|| sqlite::open_reader(&self.database), Ok)?;
        let result = read_in_transaction(&mut reader, query);
        *idle() = Some(reader);
        result
    }
}

/// Names the first user of a new database.
pub(super) fn add_first_user(conn: &mut dyn Conn, name: &str) -> Result<(), StoreError> {
    match Reads::new(conn).first_user() {
        Ok(_) => Ok(()),
        Err(StoreError::Damaged(_)) => {
            let id = uuid::Uuid::now_v7();
            conn.execute(sql::USER_INSERT, &[Param::Id(id), Param::Text(name)]).map(drop)
        }
        Err(error) => Err(error),
    }
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let io = |error: std::io::Error| StoreError::Io(format!("{}: {error}", path.display()));
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked(path.display().to_string())),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}
