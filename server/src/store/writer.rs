//! The writer: one thread that owns the write connection and commits in groups.
//!
//! It takes every waiting job, opens one transaction, gives each job a savepoint of its own,
//! commits once, and only then publishes the events and answers the jobs, in order. So one
//! connection waits for exactly one sync per admission, and many share it.

use std::fs::File;
use std::mem;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tracing::{error, info, warn};
use usher_shared::id::SessionId;

use super::error::{StoreError, TransactError};
use super::handle::{EventSink, add_first_user};
use super::in_place::OpenFiles;
use super::log_watch::{LogCare, LogWatch};
use super::node::Node;
use super::reads::Reads;
use super::sqlite::{self, Sqlite, Sync};
use super::{apply, recover};
use crate::domain::{Decision, Event};
use crate::stop;

/// Jobs waiting for the writer; more wait in their senders.
const JOBS_MAX: usize = 1_024;
/// Jobs of one commit.
const BATCH_MAX: usize = 256;
/// Read-only connections.
const READERS: usize = 2;

/// The SQLite database of a data directory. Cheap to clone.
#[derive(Clone)]
pub(super) struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    database: PathBuf,
    jobs: mpsc::Sender<Box<dyn Job>>,
    readers: Mutex<Vec<Sqlite>>,
    reader_free: Arc<Semaphore>,
}

impl SqliteStore {
    /// Opens (or makes) a database and starts its writer, which lets go of `lock` when it ends.
    pub(super) fn open(
        database: &Path,
        lock: File,
        user_name: &str,
        sync: Sync,
        sink: Arc<dyn EventSink>,
    ) -> Result<Self, StoreError> {
        make_private(database)?;
        let node = Arc::<Node>::default();
        let mut writer = sqlite::open_writer(database, sync)?.of(&node);
        add_first_user(&mut writer, user_name)?;
        let readers: Result<Vec<_>, StoreError> =
            (0..READERS).map(|_| Ok(sqlite::open_reader(database)?.of(&node))).collect();
        let (jobs, waiting) = mpsc::channel(JOBS_MAX);
        let checkpointer = Checkpointer::start(database, sync)?;
        let path = database.to_owned();
        let reopen = {
            let path = path.clone();
            move || Ok(sqlite::open_writer(&path, sync)?.of(&node))
        };
        thread::Builder::new()
            .name("usher-writer".to_owned())
            .spawn(move || {
                let _end = EndsTheProcess;
                write_loop(&path, writer, waiting, &*sink, &checkpointer, &reopen);
                // Until here no other server may open the directory.
                drop(lock);
            })
            .map_err(|error| StoreError::Io(error.to_string()))?;
        let shared = Shared {
            database: database.to_owned(),
            jobs,
            readers: Mutex::new(readers?),
            reader_free: Arc::new(Semaphore::new(READERS)),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// See `Store::transact`.
    pub(super) async fn transact<T, E>(
        &self,
        operation: impl Fn(&mut Reads<'_>) -> Result<Decision<T>, E> + Send + 'static,
    ) -> Result<T, TransactError<E>>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (done, reply) = oneshot::channel();
        let job = TypedJob { operation, done: Some(done), result: None };
        match self.shared.jobs.try_send(Box::new(job)) {
            Ok(()) => {}
            // A task of its own: a free place goes to whoever waits longest, polled or not.
            Err(TrySendError::Full(job)) => {
                let jobs = self.shared.jobs.clone();
                tokio::spawn(async move { drop(jobs.send(job).await) });
            }
            Err(TrySendError::Closed(_)) => {
                return Err(TransactError::NotStored(StoreError::Closed));
            }
        }
        reply.await.unwrap_or_else(|_| Err(TransactError::Unknown("writer stopped".to_owned())))
    }

    /// Copies the whole write-ahead log into the database, so that a stopped server leaves one file
    /// that holds everything. What cannot be copied now is copied after the next start.
    pub(super) async fn settle(&self) {
        let path = self.shared.database.clone();
        let settled = tokio::task::spawn_blocking(move || {
            let conn = sqlite::open_read_write(&path, Sync::Full)?;
            checkpoint(&conn, "PRAGMA wal_checkpoint(TRUNCATE)")
        });
        match settled.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "the log was not copied into the database"),
            Err(error) => warn!(%error, "the log was not copied into the database"),
        }
    }

    /// See `Store::read`.
    pub(super) async fn read<T, E>(
        &self,
        query: impl FnOnce(&mut Reads<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let permit = Arc::clone(&self.shared.reader_free).acquire_owned().await;
        let shared = Arc::clone(&self.shared);
        let read = tokio::task::spawn_blocking(move || {
            let _permit = permit.map_err(|_| StoreError::Closed)?;
            let conn = readers(&shared).pop();
            let mut reader = Lent { conn: Some(conn.ok_or(StoreError::Closed)?), shared: &shared };
            read_in_transaction(reader.conn.as_mut().ok_or(StoreError::Closed)?, query)
        });
        read.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }
}

/// Without its writer a server would refuse every write and let go of the directory's lock: if the
/// writer panics, the process ends, and the next start recovers.
struct EndsTheProcess;

impl Drop for EndsTheProcess {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

/// A reader that comes back whatever becomes of the query, without a transaction.
struct Lent<'a> {
    conn: Option<Sqlite>,
    shared: &'a Shared,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            roll_back(&conn);
            readers(self.shared).push(conn);
        }
    }
}

fn readers(shared: &Shared) -> std::sync::MutexGuard<'_, Vec<Sqlite>> {
    shared.readers.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn read_in_transaction<T, E: From<StoreError>>(
    reader: &mut Sqlite,
    query: impl FnOnce(&mut Reads<'_>) -> Result<T, E>,
) -> Result<T, E> {
    reader.run("BEGIN")?;
    let result = query(&mut Reads::new(reader));
    reader.run("COMMIT")?;
    result
}

/// Makes the database file readable to its user alone; SQLite makes the files beside it alike.
fn make_private(database: &Path) -> Result<(), StoreError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    match options.open(database) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(StoreError::Io(format!("{}: {error}", database.display()))),
    }
}

/// What the writer does for one caller.
trait Job: Send {
    /// Reads, decides and writes; keeps the reply until [`Job::answer`]. A decision that does not
    /// fit the rows is undone alone; an error means that the whole transaction cannot go on.
    fn run(
        &mut self,
        writer: &mut Sqlite,
        events: &mut Vec<(SessionId, Event)>,
    ) -> Result<(), StoreError>;
    /// Gives the caller what [`Job::run`] came to, or why the commit failed.
    fn answer(self: Box<Self>, commit: &Commit);
}

/// What became of a group's commit.
pub(super) enum Commit {
    Durable,
    NotStored(fn() -> StoreError),
    Unknown(String),
}

struct TypedJob<T, E, F> {
    operation: F,
    done: Option<oneshot::Sender<Result<T, TransactError<E>>>>,
    result: Option<Result<T, E>>,
}

impl<T, E, F> Job for TypedJob<T, E, F>
where
    T: Send,
    E: From<StoreError> + Send,
    F: Fn(&mut Reads<'_>) -> Result<Decision<T>, E> + Send,
{
    fn run(
        &mut self,
        writer: &mut Sqlite,
        events: &mut Vec<(SessionId, Event)>,
    ) -> Result<(), StoreError> {
        let decided = (self.operation)(&mut Reads::new(writer));
        still_in_group(writer)?;
        match decided {
            Err(refusal) => self.result = Some(Err(refusal)),
            Ok(decision) => match write(writer, &decision) {
                Ok(()) => {
                    events.extend(decision.events);
                    self.result = Some(Ok(decision.reply));
                }
                Err(error @ (StoreError::Damaged(_) | StoreError::Database(_))) => {
                    still_in_group(writer)?;
                    error!(%error, "a decision does not fit its rows");
                    writer.run("ROLLBACK TO job")?;
                    writer.run("RELEASE job")?;
                    writer.trail.forget_job();
                    self.result = Some(Err(error.into()));
                }
                Err(error) => return Err(error),
            },
        }
        Ok(())
    }

    fn answer(self: Box<Self>, commit: &Commit) {
        let Some(done) = self.done else { return };
        let answer = match (commit, self.result) {
            (Commit::Durable, Some(Ok(reply))) => Ok(reply),
            (Commit::Durable, Some(Err(refusal))) => Err(TransactError::Refused(refusal)),
            (Commit::Durable, None) => Err(TransactError::NotStored(StoreError::Closed)),
            // A refusal, too, may rest on rows of the group that are not there after all.
            (Commit::NotStored(error), _) => Err(TransactError::NotStored(error())),
            (Commit::Unknown(why), _) => Err(TransactError::Unknown(why.clone())),
        };
        // The caller may have gone; its effect stands.
        drop(done.send(answer));
    }
}

/// SQLite undoes a whole transaction by itself after some errors, also when it only reads: whatever
/// the group did before is gone, and nothing may be written or committed as if it were there.
fn still_in_group(writer: &Sqlite) -> Result<(), StoreError> {
    match writer.conn.is_autocommit() {
        false => Ok(()),
        true => Err(StoreError::Io("the transaction was undone".to_owned())),
    }
}

/// Writes a decision as one unit within the group's transaction.
fn write<T>(writer: &mut Sqlite, decision: &Decision<T>) -> Result<(), StoreError> {
    if decision.changes.is_empty() {
        return Ok(());
    }
    writer.run("SAVEPOINT job")?;
    apply::apply_all(writer, &decision.changes)?;
    writer.run("RELEASE job")?;
    writer.trail.keep_job();
    Ok(())
}

fn displaced() -> StoreError {
    StoreError::Io("the database was deleted or replaced".to_owned())
}

fn write_loop(
    database: &Path,
    mut writer: Sqlite,
    mut waiting: mpsc::Receiver<Box<dyn Job>>,
    sink: &dyn EventSink,
    checkpointer: &Checkpointer,
    reopen: &dyn Fn() -> Result<Sqlite, StoreError>,
) {
    let mut batch: Vec<Box<dyn Job>> = Vec::with_capacity(BATCH_MAX);
    let mut log = LogWatch::new();
    let mut files = OpenFiles::of(database);
    while waiting.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
        let mut events = Vec::new();
        let mut commit = match files.are_in_place() {
            true => commit_group(&mut writer, &mut batch, &mut events),
            false => Commit::NotStored(displaced),
        };
        if let Commit::Unknown(why) = &commit {
            error!(%why, "commit failed; reopening the database");
            match reopen() {
                Ok(fresh) => {
                    files = OpenFiles::of(database);
                    let failed = mem::replace(&mut writer, fresh);
                    let trail = failed.trail.clone();
                    // Its locks end with it.
                    drop(failed);
                    commit = recover::settle(&writer, &trail, why.clone());
                }
                Err(error) => error!(%error, "the database cannot be reopened yet"),
            }
        }
        if matches!(commit, Commit::Durable) && !files.are_in_place() {
            commit = Commit::Unknown("the database was deleted or replaced".to_owned());
        }
        if matches!(commit, Commit::Durable) {
            stop::point("after_commit");
            for (session, event) in events {
                sink.publish(session, event);
            }
        }
        for job in batch.drain(..) {
            job.answer(&commit);
        }
        match log.after_commit(writer.wal_pages()) {
            LogCare::Nothing => {}
            LogCare::Copy => checkpointer.ask(),
            LogCare::Restart => restart_log(&writer),
        }
    }
    info!("writer stopped");
}

/// Runs the jobs of a group and commits them.
fn commit_group(
    writer: &mut Sqlite,
    batch: &mut [Box<dyn Job>],
    events: &mut Vec<(SessionId, Event)>,
) -> Commit {
    let run = (|| {
        writer.run("BEGIN IMMEDIATE")?;
        writer.trail.begin();
        batch.iter_mut().try_for_each(|job| job.run(writer, events))
    })();
    if let Err(error) = run {
        warn!(%error, "group not stored");
        roll_back(writer);
        return Commit::NotStored(same_kind(&error));
    }
    stop::point("before_commit");
    match writer.run("COMMIT") {
        Ok(()) => Commit::Durable,
        // No room for the log: the commit record cannot be there.
        Err(error @ (StoreError::Full | StoreError::ReadOnly)) => {
            warn!(%error, "group not stored");
            roll_back(writer);
            Commit::NotStored(same_kind(&error))
        }
        Err(error) => {
            roll_back(writer);
            Commit::Unknown(error.to_string())
        }
    }
}

/// Every job of a failed group gets an error of its own.
fn same_kind(error: &StoreError) -> fn() -> StoreError {
    match error {
        StoreError::Full => || StoreError::Full,
        StoreError::ReadOnly => || StoreError::ReadOnly,
        StoreError::Damaged(_) => || StoreError::Damaged("a row"),
        StoreError::Io(_)
        | StoreError::Away(_)
        | StoreError::Conflict
        | StoreError::Closed
        | StoreError::Database(_)
        | StoreError::Locked(_)
        | StoreError::Newer { .. } => {
            || StoreError::Io("the group could not be written".to_owned())
        }
    }
}

fn roll_back(writer: &Sqlite) {
    // Some errors roll back by themselves.
    if !writer.conn.is_autocommit()
        && let Err(error) = writer.run("ROLLBACK")
    {
        error!(%error, "rollback failed");
    }
}

/// Waits for no reader: the commits behind it would wait, too.
fn restart_log(writer: &Sqlite) {
    let restarted = writer.without_waiting(|| checkpoint(writer, "PRAGMA wal_checkpoint(RESTART)"));
    if let Err(error) = restarted {
        warn!(%error, "the log could not be restarted");
    }
}

fn checkpoint(conn: &Sqlite, pragma: &'static str) -> Result<(), StoreError> {
    conn.conn.query_row(pragma, [], |_| Ok(())).map_err(sqlite::store_error)
}

/// Copies the write-ahead log into the database on a thread and connection of its own, so that no
/// commit waits for it.
struct Checkpointer {
    ask: std::sync::mpsc::SyncSender<()>,
}

impl Checkpointer {
    fn start(database: &Path, sync: Sync) -> Result<Self, StoreError> {
        let conn = sqlite::open_read_write(database, sync)?;
        let (ask, asked) = std::sync::mpsc::sync_channel(1);
        thread::Builder::new()
            .name("usher-checkpoint".to_owned())
            .spawn(move || {
                while asked.recv().is_ok() {
                    if let Err(error) = checkpoint(&conn, "PRAGMA wal_checkpoint(PASSIVE)") {
                        warn!(%error, "checkpoint failed");
                    }
                }
            })
            .map_err(|error| StoreError::Io(error.to_string()))?;
        Ok(Self { ask })
    }

    fn ask(&self) {
        if self.ask.try_send(()).is_err() {
            // One is asked for already.
        }
    }
}
