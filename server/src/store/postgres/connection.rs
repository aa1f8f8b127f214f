//! A connection to PostgreSQL, driven by a runtime of its own inside each call.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use futures_util::future::{join, join_all};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Statement};
use uuid::Uuid;

use super::errors::{connect_error, is_unique_violation, store_error};
use super::owned::{Owned, Ownership};
use super::url::Endpoint;
use super::values::{Bound, OwnedParam, bind, lend, placeholders, type_of};
use crate::store::conn::{Conn, Lock, OnRow, Param, Row as _, changed_one, query_one};
use crate::store::error::StoreError;
use crate::store::node::Node;
use crate::store::sql;

/// Writes sent at once; the server answers them in order.
const WRITES_AT_ONCE: usize = 16;
/// A commit is durable when it is answered, whatever the database's default; a stronger setting
/// (a replica that must have it, too) stays. A row that another server does not let go of is a
/// conflict, and a server that was stopped in the middle of a decision lets go in the end.
const SETTINGS: &str = "SELECT set_config('synchronous_commit', 'on', false) \
    WHERE current_setting('synchronous_commit') IN ('off', 'local'); \
    SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '30s'";

/// What all connections of a process share.
#[derive(Clone, Default)]
pub(super) struct Process {
    /// Which rows its decisions own.
    pub(super) owned: Arc<Owned>,
    /// Its name among servers.
    pub(super) node: Arc<Node>,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// One consistent committed state.
    Read,
    /// Decisions, which own what they read.
    Write,
}

impl Purpose {
    const fn begin(self) -> &'static str {
        match self {
            Self::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            Self::Write => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        }
    }
}

/// Whether the transaction was opened. It opens together with its first statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transaction {
    None,
    Wanted,
    Open,
}

/// Why a transaction cannot go on.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// What it means.
    pub(super) error: StoreError,
    /// Whether a row that another decision wrote first was in the way.
    pub(super) unique_violation: bool,
}

/// A connection.
pub(super) struct Connection {
    /// There until the connection is dropped.
    runtime: Option<Runtime>,
    client: Client,
    statements: HashMap<&'static str, Statement>,
    purpose: Purpose,
    transaction: Transaction,
    ownership: Ownership,
    process: Process,
    writes: Vec<Write>,
    failure: Option<Failure>,
}

/// A statement that waits to be sent.
struct Write {
    sql: &'static str,
    params: Vec<OwnedParam>,
    changes: Changes,
}

/// How many rows a statement must change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    One,
    Any,
}

impl Connection {
    /// Connects.
    pub(super) fn open(
        endpoint: &Endpoint,
        purpose: Purpose,
        process: &Process,
    ) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::Io(error.kind().to_string()))?;
        let connected = runtime.block_on(async {
            let (client, connection) = endpoint.connect().await?;
            // Its end is seen by the next statement.
            tokio::spawn(async move { drop(connection.await) });
            client.batch_execute(SETTINGS).await?;
            Ok(client)
        });
        let client = match connected {
            Ok(client) => client,
            Err(error) => {
                runtime.shutdown_background();
                return Err(connect_error(&error));
            }
        };
        Ok(Self {
            runtime: Some(runtime),
            client,
            statements: HashMap::new(),
            purpose,
            transaction: Transaction::None,
            ownership: Ownership::new(&process.owned),
            process: process.clone(),
            writes: Vec::new(),
            failure: None,
        })
    }

    /// Opens a transaction together with the first statement of it.
    pub(super) fn begin(&mut self) {
        self.failure = None;
        self.writes.clear();
        self.transaction = Transaction::Wanted;
    }

    /// Opens a transaction now.
    pub(super) fn begin_now(&mut self) -> Result<(), StoreError> {
        self.begin();
        self.run(async |_| Ok(()))
    }

    /// Ends a transaction that wrote nothing, or undoes what it wrote.
    pub(super) fn roll_back(&mut self) {
        self.writes.clear();
        if self.transaction == Transaction::Open
            && let Err(error) = self.wait(self.client.batch_execute("ROLLBACK"))
        {
            self.failure = Some(failure(&error));
        }
        self.transaction = Transaction::None;
    }

    /// Lets the transaction tell other servers something when it commits.
    pub(super) fn tell_others(&mut self, payload: &str) {
        let params = [Param::Text(payload), Param::Id(self.process.node.id())];
        self.writes.push(Write::new(sql::TELL_OTHERS, &params, Changes::Any));
    }

    /// Sends what waits and returns the name of the transaction, by which it can be found again.
    pub(super) fn write_all(&mut self) -> Result<String, StoreError> {
        let name = self.prepare(sql::TRANSACTION_ID, &[])?;
        let writes = mem::take(&mut self.writes);
        let split = writes.len().saturating_sub(WRITES_AT_ONCE);
        self.send(&writes[..split])?;
        let ready = self.ready(&writes[split..])?;
        let (counts, row) = self.run(async |client| {
            let (counts, row) = join(send_all(client, &ready), client.query_one(&name, &[])).await;
            Ok((counts?, row?))
        })?;
        check_counts(&writes[split..], &counts)?;
        row.text(0).map(str::to_owned)
    }

    /// Commits. An error is the driver's own: what it means depends on how the commit failed.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        if mem::replace(&mut self.transaction, Transaction::None) != Transaction::Open {
            return Ok(());
        }
        let committed = self.wait(self.client.batch_execute("COMMIT"));
        self.failure = committed.as_ref().err().map(failure);
        committed
    }

    /// Returns why the transaction cannot go on, whatever became of the error since.
    pub(super) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// Hands over what the transaction owns in this process.
    pub(super) fn take_ownership(&mut self) -> Ownership {
        mem::replace(&mut self.ownership, Ownership::new(&self.process.owned))
    }

    /// Tells whether another transaction can use this connection.
    pub(super) fn is_usable(&self) -> bool {
        self.transaction == Transaction::None && self.failure.is_none() && !self.client.is_closed()
    }

    /// Drives the connection until something is done.
    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("only a drop takes the runtime").block_on(work)
    }

    /// Runs something, in the transaction that was asked for.
    fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let opens = self.transaction == Transaction::Wanted;
        let client = &self.client;
        let begin = async {
            match opens {
                true => client.batch_execute(self.purpose.begin()).await,
                false => Ok(()),
            }
        };
        let (begun, done) = self.wait(join(begin, work(client)));
        if opens && begun.is_ok() {
            self.transaction = Transaction::Open;
        }
        begun.and(done).map_err(|error| {
            let failure = failure(&error);
            // The first one is the reason; those behind it only say that the transaction is over.
            self.failure.get_or_insert(failure).error.clone()
        })
    }

    fn prepare(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Statement, StoreError> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let types: Vec<Type> = params.iter().map(type_of).collect();
        let text = placeholders(sql);
        let statement = self.run(async |client| client.prepare_typed(&text, &types).await)?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Sends the writes that wait, many at once, and looks at every answer.
    fn flush(&mut self) -> Result<(), StoreError> {
        let writes = mem::take(&mut self.writes);
        self.send(&writes)
    }

    fn send(&mut self, writes: &[Write]) -> Result<(), StoreError> {
        for some in writes.chunks(WRITES_AT_ONCE) {
            let ready = self.ready(some)?;
            let counts = self.run(async |client| send_all(client, &ready).await)?;
            check_counts(some, &counts)?;
        }
        Ok(())
    }

    fn ready<'a>(
        &mut self,
        writes: &'a [Write],
    ) -> Result<Vec<(Statement, Vec<Bound<'a>>)>, StoreError> {
        let mut ready = Vec::with_capacity(writes.len());
        for write in writes {
            let params: Vec<Param<'a>> = write.params.iter().map(OwnedParam::lend).collect();
            let statement = self.prepare(write.sql, &params)?;
            let bound = bind(&params, &statement);
            ready.push((statement, bound));
        }
        Ok(ready)
    }

    fn own(&mut self, rows: Lock) -> Result<(), StoreError> {
        match rows {
            Lock::Task(id) => self.own_one(sql::TASK_LOCK, id.uuid()),
            Lock::Session(id) => self.own_one(sql::SESSION_LOCK, id.uuid()),
            Lock::SessionsOf(task) => {
                let mut ids = Vec::new();
                let params = [Param::Id(task.uuid())];
                self.query(sql::SESSION_IDS_OF_TASK, &params, &mut |row| {
                    ids.push(row.uuid(0)?);
                    Ok(())
                })?;
                ids.into_iter().try_for_each(|id| self.ownership.take(id))?;
                self.query(sql::SESSIONS_OF_TASK_LOCK, &params, &mut |_| Ok(()))
            }
        }
    }

    fn own_one(&mut self, lock: &'static str, row: Uuid) -> Result<(), StoreError> {
        if self.ownership.has(row) {
            return Ok(());
        }
        self.ownership.take(row)?;
        self.query(lock, &[Param::Id(row)], &mut |_| Ok(()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A runtime may not wait for its tasks where the last handle of a store happens to go.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Conn for Connection {
    fn lock(&mut self, rows: Lock) -> Result<(), StoreError> {
        if self.purpose == Purpose::Read {
            return Ok(());
        }
        let owned = self.own(rows);
        if let Err(error) = &owned {
            let error = error.clone();
            self.failure.get_or_insert(Failure { error, unique_violation: false });
        }
        owned
    }

    fn keeps_attachments(&self) -> bool {
        true
    }

    fn node(&self) -> Uuid {
        self.process.node.id()
    }

    fn lease_clock(&mut self) -> Result<i64, StoreError> {
        query_one(self, sql::LEASE_CLOCK, &[], |row| row.int(0))?
            .ok_or(StoreError::Damaged("no clock"))
    }

    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        self.flush()?;
        let statement = self.prepare(sql, params)?;
        let bound = bind(params, &statement);
        self.run(async |client| client.execute(&statement, &lend(&bound)).await)
    }

    fn change_one(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<(), StoreError> {
        self.writes.push(Write::new(sql, params, Changes::One));
        Ok(())
    }

    fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.flush()?;
        self.run(async |client| client.batch_execute(sql).await)
    }

    fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        on_row: OnRow<'_>,
    ) -> Result<(), StoreError> {
        self.flush()?;
        let statement = self.prepare(sql, params)?;
        let bound = bind(params, &statement);
        let rows = self.run(async |client| client.query(&statement, &lend(&bound)).await)?;
        rows.iter().try_for_each(|row| on_row(row))
    }
}

/// Sends statements without waiting for answers in between; the server runs them in order.
async fn send_all(
    client: &Client,
    ready: &[(Statement, Vec<Bound<'_>>)],
) -> Result<Vec<u64>, Error> {
    let sent =
        ready.iter().map(async |(statement, bound)| client.execute(statement, &lend(bound)).await);
    join_all(sent).await.into_iter().collect()
}

fn check_counts(writes: &[Write], counts: &[u64]) -> Result<(), StoreError> {
    writes.iter().zip(counts).try_for_each(|(write, count)| match write.changes {
        Changes::One => changed_one(*count),
        Changes::Any => Ok(()),
    })
}

fn failure(error: &Error) -> Failure {
    Failure { error: store_error(error), unique_violation: is_unique_violation(error) }
}

impl Write {
    fn new(sql: &'static str, params: &[Param<'_>], changes: Changes) -> Self {
        Self { sql, params: params.iter().map(OwnedParam::of).collect(), changes }
    }
}
