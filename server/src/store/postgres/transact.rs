//! Transactions: what is tried again, and how a commit without an answer is found again.

use std::fs::File;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use uuid::Uuid;

use super::connection::{Connection, Failure, Process, Purpose};
use super::errors::store_error;
use super::find::{self, Commit};
use super::news;
use super::pool::Pool;
use super::url::{DatabaseUrl, Endpoint};
use crate::domain::Decision;
use crate::stop;
use crate::store::conn::{Conn, Param, query_one};
use crate::store::error::{StoreError, TransactError};
use crate::store::handle::{EventSink, add_first_user};
use crate::store::migrate::{self, Dialect};
use crate::store::node::Node;
use crate::store::reads::Reads;
use crate::store::{apply, sql};

/// Decisions at once.
const WRITERS: usize = 8;
/// Reads at once.
const READERS: usize = 4;
/// How often a decision is tried.
const ATTEMPTS_MAX: u32 = 8;
/// How often a decision is tried that wrote a row which was there already: more often than once,
/// since another server may have been faster; not for ever, since it may be our own mistake.
const UNIQUE_ATTEMPTS_MAX: u32 = 3;
/// How often a decision is tried while the database is away.
const AWAY_ATTEMPTS_MAX: u32 = 4;
/// After this no further attempt begins.
const ATTEMPTS_TIME_MAX: Duration = Duration::from_secs(15);
/// The wait before the second attempt; doubles from one to the next.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(5);
/// The longest wait between two attempts or looks.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// The oldest server with 64-bit transaction ids.
const OLDEST_VERSION: i64 = 130_000;

/// A PostgreSQL database. Cheap to clone.
#[derive(Clone)]
pub(in crate::store) struct PostgresStore {
    shared: Arc<Shared>,
}

struct Shared {
    writers: Pool,
    readers: Pool,
    /// The lease must not wait behind decisions.
    upkeep: Pool,
    endpoint: Endpoint,
    process: Process,
    /// Names this process in what it tells others.
    origin: Uuid,
    sink: Arc<dyn EventSink>,
    lock: File,
}

impl PostgresStore {
    /// Connects and brings the schema up to date; keeps `lock` until the store is gone.
    pub(in crate::store) fn open(
        url: &DatabaseUrl,
        lock: File,
        user_name: &str,
        sink: Arc<dyn EventSink>,
    ) -> Result<Self, StoreError> {
        let (endpoint, process) = (url.endpoint()?, Process::default());
        let shared = Shared {
            writers: Pool::new(endpoint.clone(), Purpose::Write, &process, WRITERS),
            readers: Pool::new(endpoint.clone(), Purpose::Read, &process, READERS),
            upkeep: Pool::new(endpoint.clone(), Purpose::Write, &process, 1),
            endpoint,
            process,
            origin: Uuid::new_v4(),
            sink,
            lock,
        };
        let mut connection = shared.writers.connect()?;
        check_server(&mut connection)?;
        connection.begin();
        // One server after the other; a lock on a table would need the table.
        connection.query(sql::MIGRATION_LOCK, &[], &mut |_| Ok(()))?;
        migrate::migrate(&mut connection, Dialect::Postgres)?;
        add_first_user(&mut connection, user_name)?;
        connection.commit().map_err(|error| store_error(&error))?;
        shared.writers.give_back(connection);
        Ok(Self { shared: Arc::new(shared) })
    }

    /// See `Store::transact`.
    pub(in crate::store) async fn transact<T, E>(
        &self,
        operation: impl Fn(&mut Reads<'_>) -> Result<Decision<T>, E> + Send + 'static,
    ) -> Result<T, TransactError<E>>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        // A task of its own: the decision stands also when nobody waits for it any more.
        let transaction = tokio::spawn(async move {
            let place = shared.writers.place().await.map_err(TransactError::NotStored)?;
            let work = tokio::task::spawn_blocking(move || {
                let _place = place;
                shared.transact(&operation)
            });
            work.await.unwrap_or_else(|_| Err(TransactError::Unknown("a decision broke".into())))
        });
        transaction.await.unwrap_or_else(|_| Err(TransactError::Unknown("the server ends".into())))
    }

    /// See `Store::read`.
    pub(in crate::store) async fn read<T, E>(
        &self,
        query: impl FnOnce(&mut Reads<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        // A task of its own: a place that is given to a caller which nobody polls would be lost.
        let read = tokio::spawn(async move {
            let place = shared.readers.place().await?;
            let work = tokio::task::spawn_blocking(move || {
                let _place = place;
                shared.read(query)
            });
            work.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
        });
        read.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }
}

impl PostgresStore {
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    pub(super) fn sink(&self) -> Arc<dyn EventSink> {
        Arc::clone(&self.shared.sink)
    }

    pub(super) fn node(&self) -> &Node {
        &self.shared.process.node
    }

    /// Returns the lock file of the data directory.
    pub(super) fn lock(&self) -> &File {
        &self.shared.lock
    }

    pub(super) fn origin(&self) -> Uuid {
        self.shared.origin
    }

    /// Runs one small transaction about this server's own lease, on a connection of its own.
    pub(super) async fn upkeep<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Conn, Param<'static>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(&self.shared);
        let done = tokio::task::spawn_blocking(move || {
            let mut connection = shared.upkeep.take()?;
            connection.begin();
            let node = Param::Id(shared.process.node.id());
            let done = work(&mut connection, node).and_then(|done| match connection.commit() {
                Ok(()) => Ok(done),
                Err(error) => Err(store_error(&error)),
            });
            if done.is_err() {
                connection.roll_back();
            }
            shared.upkeep.give_back(connection);
            done
        });
        done.await.unwrap_or(Err(StoreError::Closed))
    }
}

/// What one attempt came to.
enum Attempt<T, E> {
    Done(Result<T, TransactError<E>>),
    /// Nothing was stored, and the next attempt may fare better.
    Again(Failure),
}

impl Shared {
    fn transact<T, E: From<StoreError>>(
        &self,
        operation: &impl Fn(&mut Reads<'_>) -> Result<Decision<T>, E>,
    ) -> Result<T, TransactError<E>> {
        let give_up_at = Instant::now() + ATTEMPTS_TIME_MAX;
        let mut wait = FIRST_WAIT;
        let mut attempt = 1;
        loop {
            let failure = match self.attempt(operation) {
                Attempt::Done(result) => return result,
                Attempt::Again(failure) => failure,
            };
            if attempt >= attempts_max(&failure) || Instant::now() >= give_up_at {
                warn!(error = %failure.error, attempt, "a decision was not stored");
                return Err(match failure.unique_violation {
                    true => TransactError::Refused(
                        StoreError::Database("a row is there already".to_owned()).into(),
                    ),
                    false => TransactError::NotStored(failure.error),
                });
            }
            info!(error = %failure.error, attempt, "a decision is tried again");
            thread::sleep(wait);
            wait = (wait * 2).min(LONGEST_WAIT);
            attempt += 1;
        }
    }

    fn read<T, E: From<StoreError>>(
        &self,
        query: impl FnOnce(&mut Reads<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut connection = self.begin_read()?;
        let result = query(&mut Reads::new(&mut connection));
        match connection.take_failure() {
            Some(failure) => result.and(Err(failure.error.into())),
            None => {
                connection.roll_back();
                self.readers.give_back(connection);
                result
            }
        }
    }

    fn attempt<T, E: From<StoreError>>(
        &self,
        operation: &impl Fn(&mut Reads<'_>) -> Result<Decision<T>, E>,
    ) -> Attempt<T, E> {
        let mut connection = match self.writers.take() {
            Ok(connection) => connection,
            Err(error) => return Attempt::Again(plain(error)),
        };
        connection.begin();
        let decided = operation(&mut Reads::new(&mut connection));
        // What a decision made of a failed read does not matter.
        if let Some(failure) = connection.take_failure() {
            return self.undo(connection, failure);
        }
        let decision = match decided {
            Ok(decision) => decision,
            Err(refusal) => {
                self.end(connection);
                return Attempt::Done(Err(TransactError::Refused(refusal)));
            }
        };
        let written = match decision.changes.is_empty() && decision.events.is_empty() {
            true => Ok(None),
            false => self.write(&mut connection, &decision).map(Some),
        };
        let transaction_id = match written {
            Ok(id) => id,
            Err(error) => {
                let failure = connection.take_failure().unwrap_or_else(|| plain(error));
                return self.undo(connection, failure);
            }
        };
        stop::point("before_commit");
        let committed = match &transaction_id {
            Some(id) => find::commit(&self.writers, &mut connection, id),
            // Nothing to lose: what it was decided from is committed.
            None => {
                connection.roll_back();
                Commit::Durable
            }
        };
        match committed {
            Commit::Durable => {
                stop::point("after_commit");
                let ownership = connection.take_ownership();
                for (session, event) in decision.events {
                    self.sink.publish(session, event);
                }
                drop(ownership);
                self.writers.give_back(connection);
                Attempt::Done(Ok(decision.reply))
            }
            Commit::NotStored(failure) => self.undo(connection, failure),
            Commit::Unknown(why) => Attempt::Done(Err(TransactError::Unknown(why.to_owned()))),
        }
    }

    fn write<T>(
        &self,
        connection: &mut Connection,
        decision: &Decision<T>,
    ) -> Result<String, StoreError> {
        apply::apply_all(connection, &decision.changes)?;
        for payload in news::payloads(self.origin, decision) {
            connection.tell_others(&payload);
        }
        connection.write_all()
    }

    /// Undoes what an attempt wrote and sorts why.
    fn undo<T, E: From<StoreError>>(
        &self,
        connection: Connection,
        failure: Failure,
    ) -> Attempt<T, E> {
        if matches!(failure.error, StoreError::Away(_)) {
            drop(connection);
            self.writers.forget_idle();
        } else {
            self.end(connection);
        }
        match failure.error {
            StoreError::Away(_) | StoreError::Conflict => Attempt::Again(failure),
            StoreError::Damaged(_) | StoreError::Database(_) => {
                error!(error = %failure.error, "a decision does not fit its rows");
                Attempt::Done(Err(TransactError::Refused(failure.error.into())))
            }
            StoreError::Full
            | StoreError::ReadOnly
            | StoreError::Io(_)
            | StoreError::Closed
            | StoreError::Locked(_)
            | StoreError::Newer { .. } => {
                warn!(error = %failure.error, "a decision was not stored");
                Attempt::Done(Err(TransactError::NotStored(failure.error)))
            }
        }
    }

    fn end(&self, mut connection: Connection) {
        connection.roll_back();
        drop(connection.take_ownership());
        self.writers.give_back(connection);
    }

    /// Returns a connection in a transaction. The first one may have been lost long ago.
    fn begin_read(&self) -> Result<Connection, StoreError> {
        let mut connection = self.readers.take()?;
        if connection.begin_now().is_ok() {
            return Ok(connection);
        }
        self.readers.forget_idle();
        let mut connection = self.readers.connect()?;
        connection.begin_now()?;
        Ok(connection)
    }
}

fn attempts_max(failure: &Failure) -> u32 {
    match (failure.unique_violation, &failure.error) {
        (true, _) => UNIQUE_ATTEMPTS_MAX,
        (false, StoreError::Away(_)) => AWAY_ATTEMPTS_MAX,
        (false, _) => ATTEMPTS_MAX,
    }
}

pub(super) const fn plain(error: StoreError) -> Failure {
    Failure { error, unique_violation: false }
}

fn check_server(connection: &mut Connection) -> Result<(), StoreError> {
    let found = query_one(connection, sql::SERVER_FACTS, &[], |row| {
        Ok((row.int(0)?, row.text(1)?.to_owned()))
    })?;
    let (version, encoding) = found.ok_or(StoreError::Damaged("no answer"))?;
    if version < OLDEST_VERSION {
        return Err(StoreError::Database("PostgreSQL 13 is the oldest that works".to_owned()));
    }
    if encoding != "UTF8" {
        return Err(StoreError::Database(format!("the encoding is {encoding}, not UTF8")));
    }
    Ok(())
}
