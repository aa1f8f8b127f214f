//! PostgreSQL: any number of servers over one database.
//!
//! Owns the connections, what is tried again, and what is found again after a commit without an
//! answer. A decision owns the rows it reads by row locks, taken in one order everywhere; within
//! one process the same locks also keep the order of events. Called by `handle`.

mod connection;
mod errors;
mod find;
mod membership;
mod news;
mod owned;
mod pool;
mod tls;
mod transact;
mod url;
mod values;

use connection::{Process, Purpose};
pub(super) use transact::PostgresStore;
pub use url::DatabaseUrl;

use super::conn::Conn;
use super::error::StoreError;

/// Returns a connection that looks at one consistent committed state. Waits for the network.
pub(super) fn open_reader(url: &DatabaseUrl) -> Result<impl Conn + use<>, StoreError> {
    let process = Process::default();
    let mut reader = connection::Connection::open(&url.endpoint()?, Purpose::Read, &process)?;
    reader.begin();
    Ok(reader)
}

/// Runs one transaction on a connection of its own. Waits for the network.
pub(super) fn transact_once<T, E: From<StoreError>>(
    url: &DatabaseUrl,
    run: impl FnOnce(&mut dyn Conn) -> Result<T, E>,
) -> Result<T, E> {
    let process = Process::default();
    let mut writer = connection::Connection::open(&url.endpoint()?, Purpose::Write, &process)?;
    writer.begin();
    // Left open by an error, the transaction ends with the connection.
    let reply = run(&mut writer)?;
    writer.write_all()?;
    writer.commit().map_err(|error| errors::store_error(&error))?;
    Ok(reply)
}
