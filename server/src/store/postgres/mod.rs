//! PostgreSQL: any number of servers over one database.
//!
//! Owns the connections, what is tried again, and what is found again after a commit without an
//! answer. A decision owns the rows it reads by row locks, taken in one order everywhere; within
//! one process the same locks also keep the order of events. Called by `handle`.

mod connection;
mod errors;
mod owned;
mod pool;
mod transact;
mod url;

pub(super) use transact::PostgresStore;
pub use url::DatabaseUrl;
