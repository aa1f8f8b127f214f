//! What an error of PostgreSQL means for a transaction. Never its text: it can quote rows.

use std::error::Error as _;
use std::io;

use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use crate::store::StoreError;

/// Sorts an error by what can be done about it.
pub(super) fn store_error(error: &Error) -> StoreError {
    let Some(code) = error.code() else {
        return match error.source() {
            Some(source) => StoreError::Away(match source.downcast_ref::<io::Error>() {
                Some(io) => io.kind().to_string(),
                None => "no connection".to_owned(),
            }),
            None if error.is_closed() => StoreError::Away("connection lost".to_owned()),
            None => StoreError::Away("no connection".to_owned()),
        };
    };
    let said = format!("SQLSTATE {}", code.code());
    match code.code() {
        "53100" => StoreError::Full,
        "25006" => StoreError::ReadOnly,
        // Serialization failure, deadlock, lock not available, unique violation: another server.
        "40001" | "40P01" | "55P03" | "23505" => StoreError::Conflict,
        // The server stops, starts, has no connection left, or ended ours.
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25P03" => StoreError::Away(said),
        class if class.starts_with("08") => StoreError::Away(said),
        class if class.starts_with("53") || class.starts_with("58") => StoreError::Io(said),
        _ => StoreError::Database(said),
    }
}

/// Tells whether another server's row was in the way, which a fresh look may explain.
pub(super) fn is_unique_violation(error: &Error) -> bool {
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
}

/// Tells whether the server itself answered that the transaction failed. If it only hung up, or
/// said so while it ended the connection, the transaction may have been committed.
pub(super) fn is_definite(error: &Error) -> bool {
    error.as_db_error().is_some_and(|answer| answer.parsed_severity() == Some(Severity::Error))
}

/// Says for an operator why a first connection failed.
pub(super) fn connect_error(error: &Error) -> StoreError {
    match error.code() {
        Some(code) if code.code().starts_with("28") => {
            StoreError::Database("the server refuses this user or password".to_owned())
        }
        Some(code) if code == &SqlState::INVALID_CATALOG_NAME => {
            StoreError::Database("the server has no database of that name".to_owned())
        }
        Some(_) => store_error(error),
        // What it says is about certificates, and about no row.
        None if error.to_string().starts_with("error performing TLS handshake") => {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            StoreError::Database(format!("no TLS with the database: {why}"))
        }
        None if error.to_string().contains("password missing") => {
            StoreError::Database("the server asks for a password".to_owned())
        }
        None => store_error(error),
    }
}
