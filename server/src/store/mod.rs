//! The store: loads what decisions need, writes what they decided, in one transaction each.
//!
//! Owns every SQL statement. It promises that a reply or an event leaves only after the commit
//! that made it true, and that a decision commits all or nothing. It never decides. Called by
//! `service`; `sqlite` is the driver, `conn` the small interface that a second one implements.

mod apply;
mod backup;
mod check;
mod conn;
#[cfg(test)]
mod contract;
mod error;
mod log_watch;
mod migrate;
mod reads;
mod row;
mod sql;
mod sqlite;
mod writer;

pub use backup::{BackupError, backup};
pub use check::{CheckReport, Violation, check};
pub use error::{StoreError, TransactError};
pub use reads::{Page, PageBounds, Reads, TextRange};
pub use sqlite::Sync;
pub use writer::{EventSink, Store, StoreFiles};
