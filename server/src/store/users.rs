//! Users: how they are read, changed, and administered beside a running server.

use usher_shared::id::UserId;
use usher_shared::time::UnixMillis;
use uuid::Uuid;

use super::apply::{self, one};
use super::conn::{Conn, Param, Row, query_all, query_one};
use super::error::StoreError;
use super::reads::Reads;
use super::sqlite::{self, Sync};
use super::{DatabaseUrl, StoreFiles, check, postgres, sql};
use crate::domain::Decision;
use crate::domain::session::Caller;
use crate::domain::users::{TokenDigest, UserRecord, UserState};

/// Where the users are.
#[derive(Clone, Debug)]
pub enum UserPlace {
    /// In the SQLite database of a data directory.
    Files(StoreFiles),
    /// In a PostgreSQL database.
    Url(DatabaseUrl),
}

/// Runs one decision about users over a database that a server may be using. Waits for the disk or
/// the network.
///
/// # Errors
/// What `decide` refuses, or that the database cannot be used or is not of this version's schema.
pub fn administer<T, E: From<StoreError>>(
    place: &UserPlace,
    decide: impl FnOnce(&mut Reads<'_>) -> Result<Decision<T>, E>,
) -> Result<T, E> {
    let run = |conn: &mut dyn Conn| -> Result<T, E> {
        check::of_this_version(conn)?;
        let decision = decide(&mut Reads::new(conn))?;
        apply::apply_all(conn, &decision.changes)?;
        Ok(decision.reply)
    };
    match place {
        UserPlace::Files(files) => {
            sqlite::is_there(&files.database)?;
            let mut sqlite = sqlite::open_read_write(&files.database, Sync::Full)?;
            sqlite.run("BEGIN IMMEDIATE")?;
            // Left open by an error, the transaction ends with the connection.
            let reply = run(&mut sqlite)?;
            sqlite.run("COMMIT")?;
            Ok(reply)
        }
        UserPlace::Url(url) => postgres::transact_once(url, run),
    }
}

/// Returns the users who are there, the owner first, and changes nothing. Waits for the disk or the
/// network.
///
/// # Errors
/// If the database cannot be read or is not of this version's schema.
pub fn list_users(place: &UserPlace) -> Result<Vec<UserRecord>, StoreError> {
    let read = |conn: &mut dyn Conn| {
        check::of_this_version(conn)?;
        Reads::new(conn).users()
    };
    match place {
        UserPlace::Files(files) => read(&mut sqlite::open_from_outside(&files.database)?),
        UserPlace::Url(url) => read(&mut postgres::open_reader(url)?),
    }
}

fn record(row: &dyn Row) -> Result<UserRecord, StoreError> {
    let tokens = row.int(2)?.unsigned_abs();
    let state = match (row.int(3)?, tokens) {
        (1, _) => UserState::Owner,
        (_, 0) => UserState::Revoked,
        _ => UserState::Active,
    };
    let id = UserId::from_uuid(row.uuid(0)?);
    Ok(UserRecord { id, name: row.text(1)?.to_owned(), tokens, state })
}

fn caller(row: &dyn Row) -> Result<Caller, StoreError> {
    Ok(Caller { id: UserId::from_uuid(row.uuid(0)?), name: row.text(1)?.to_owned() })
}

impl Reads<'_> {
    /// Returns the users who are there, the owner first.
    pub fn users(&mut self) -> Result<Vec<UserRecord>, StoreError> {
        query_all(self.conn, sql::USERS, &[], record)
    }

    /// Returns the user of this name who is there.
    pub fn user_by_name(&mut self, name: &str) -> Result<Option<UserRecord>, StoreError> {
        Ok(self.users()?.into_iter().find(|user| user.name == name))
    }

    /// Returns the user whose token this is.
    pub fn user_by_token(&mut self, digest: &TokenDigest) -> Result<Option<Caller>, StoreError> {
        query_one(self.conn, sql::USER_BY_TOKEN, &[Param::Bytes(digest.as_bytes())], caller)
    }

    /// Returns a word that is another one after every change to users and tokens.
    pub fn users_mark(&mut self) -> Result<Option<String>, StoreError> {
        query_one(self.conn, sql::META_GET, &[Param::Text(MARK)], |row| Ok(row.text(0)?.to_owned()))
    }
}

/// The name of [`Reads::users_mark`].
const MARK: &str = "users";

fn mark(conn: &mut dyn Conn) -> Result<(), StoreError> {
    let word = Uuid::new_v4().to_string();
    one(conn, sql::META_PUT, &[Param::Text(MARK), Param::Text(&word)])
}

pub(super) fn add_user(conn: &mut dyn Conn, id: UserId, name: &str) -> Result<(), StoreError> {
    one(conn, sql::USER_INSERT, &[Param::Id(id.uuid()), Param::Text(name)])
}

pub(super) fn add_token(
    conn: &mut dyn Conn,
    user: UserId,
    digest: &TokenDigest,
    at: UnixMillis,
) -> Result<(), StoreError> {
    let params = [Param::Id(user.uuid()), Param::Bytes(digest.as_bytes()), Param::Int(at.get())];
    one(conn, sql::TOKEN_INSERT, &params)
}

pub(super) fn revoke_token(conn: &mut dyn Conn, digest: &TokenDigest) -> Result<(), StoreError> {
    conn.execute(sql::TOKEN_DELETE, &[Param::Bytes(digest.as_bytes())])?;
    mark(conn)
}

pub(super) fn revoke_tokens(conn: &mut dyn Conn, user: UserId) -> Result<(), StoreError> {
    conn.execute(sql::TOKENS_DELETE, &[Param::Id(user.uuid())])?;
    mark(conn)
}

/// A removed user's row stays, because rows of its tasks name it, but its name is free again.
pub(super) fn remove_user(
    conn: &mut dyn Conn,
    user: UserId,
    at: UnixMillis,
) -> Result<(), StoreError> {
    let nameless = user.to_string();
    let params = [Param::Id(user.uuid()), Param::Text(&nameless), Param::Int(at.get())];
    one(conn, sql::USER_REMOVE, &params)
}
