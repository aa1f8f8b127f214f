//! Commits, and what became of one that gave no answer.

use std::thread;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use super::connection::{Connection, Failure};
use super::errors::{is_definite, store_error};
use super::pool::Pool;
use super::transact::{FIRST_WAIT, LONGEST_WAIT, plain};
use crate::store::conn::{Param, query_one};
use crate::store::error::StoreError;
use crate::store::sql;

/// How long it is looked for what became of a commit.
const FIND_MAX: Duration = Duration::from_secs(20);

/// What became of a commit.
pub(super) enum Commit {
    /// It is there.
    Durable,
    /// It is not there, for this reason.
    NotStored(Failure),
    /// Nobody knows, for this reason.
    Unknown(&'static str),
}

/// What the database knows of a transaction.
enum Status {
    Committed,
    Aborted,
    InProgress,
    Forgotten,
}

/// Commits a transaction that wrote something.
pub(super) fn commit(writers: &Pool, connection: &mut Connection, transaction_id: &str) -> Commit {
    let error = match connection.commit() {
        Ok(()) => return Commit::Durable,
        Err(error) => error,
    };
    if is_definite(&error) {
        return Commit::NotStored(plain(store_error(&error)));
    }
    warn!(error = %store_error(&error), "no answer to a commit; looking for it");
    writers.forget_idle();
    let found = find(writers, transaction_id);
    match &found {
        Commit::Durable => info!("the commit without an answer is there"),
        Commit::NotStored(_) => info!("the commit without an answer is not there"),
        Commit::Unknown(why) => error!(why, "the commit without an answer is not found"),
    }
    found
}

/// Finds out on another connection what became of a transaction.
fn find(writers: &Pool, transaction_id: &str) -> Commit {
    let deadline = Instant::now() + FIND_MAX;
    let mut wait = FIRST_WAIT;
    loop {
        match status(writers, transaction_id) {
            Ok(Status::Committed) => return Commit::Durable,
            Ok(Status::Aborted) => {
                return Commit::NotStored(plain(StoreError::Away("commit lost".to_owned())));
            }
            Ok(Status::Forgotten) => return Commit::Unknown("the database forgot it"),
            Ok(Status::InProgress) | Err(_) if Instant::now() < deadline => {}
            Ok(Status::InProgress) => return Commit::Unknown("it does not end"),
            Err(_) => return Commit::Unknown("the database is away"),
        }
        thread::sleep(wait);
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

fn status(writers: &Pool, transaction_id: &str) -> Result<Status, StoreError> {
    let mut connection = writers.take()?;
    connection.begin();
    let params = [Param::Text(transaction_id)];
    let found = query_one(&mut connection, sql::TRANSACTION_STATUS, &params, |row| {
        Ok(match row.opt_text(0)? {
            Some("committed") => Status::Committed,
            Some("aborted") => Status::Aborted,
            Some(_) => Status::InProgress,
            None => Status::Forgotten,
        })
    });
    if found.is_err() {
        writers.forget_idle();
    }
    connection.roll_back();
    writers.give_back(connection);
    found?.ok_or(StoreError::Damaged("no answer"))
}
