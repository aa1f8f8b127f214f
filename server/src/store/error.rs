//! What can go wrong in the store.

/// A failed read or write. Carries no content of any row.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// No room on the disk, or the database may not grow; nothing was stored.
    #[error("the disk is full")]
    Full,
    /// The database cannot be written; nothing was stored.
    #[error("the database is read-only")]
    ReadOnly,
    /// The operating system failed to read or write.
    #[error("input/output error: {0}")]
    Io(String),
    /// A stored value is not what the schema promises.
    #[error("damaged row: {0}")]
    Damaged(&'static str),
    /// The database server cannot be reached or hung up before the commit; nothing was stored.
    #[error("the database is away: {0}")]
    Away(String),
    /// Another server decided about the same rows, again and again; nothing was stored.
    #[error("too many conflicts with other servers")]
    Conflict,
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// Any other error of the database.
    #[error("database error: {0}")]
    Database(String),
    /// Another process serves this data directory.
    #[error("another server uses {0}")]
    Locked(String),
    /// The database was written by a newer version.
    #[error("the database has schema {found}, this program knows up to {known}")]
    Newer {
        /// The schema found.
        found: i64,
        /// The newest this program knows.
        known: i64,
    },
}

/// Why a transaction gave no reply.
#[derive(Debug, thiserror::Error)]
pub enum TransactError<E> {
    /// The decision refused; nothing was stored.
    #[error(transparent)]
    Refused(E),
    /// The store failed before the commit; nothing was stored.
    #[error("not stored: {0}")]
    NotStored(StoreError),
    /// Nobody knows whether the commit is durable: answer nothing, close the link.
    #[error("commit result unknown: {0}")]
    Unknown(String),
}
