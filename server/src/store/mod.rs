//! The store: loads what decisions need, writes what they decided, in one transaction each.
//!
//! Owns every SQL statement. It promises that a reply or an event leaves only after the commit
//! that made it true, and that a decision commits all or nothing. It never decides. Called by
//! `service` through `handle`; `conn` is the small interface that both drivers implement: `sqlite` with
//! its `writer`, and `postgres`.

mod apply;
mod apply_lifecycle;
mod attachments;
mod backup;
mod check;
mod conn;
#[cfg(test)]
mod contract;
mod enclosed;
mod error;
mod handle;
mod in_place;
mod leases;
mod log_watch;
mod migrate;
mod node;
mod plans;
mod postgres;
mod reads;
mod reads_lifecycle;
mod reads_receipts;
mod reads_search;
mod recover;
mod row;
mod sql;
mod sqlite;
#[cfg(test)]
#[path = "../../../tests/src/postgres.rs"]
#[expect(dead_code, unreachable_pub, reason = "made for the end-to-end tests, too")]
mod throwaway;
mod users;
mod writer;

pub use attachments::{AttachmentBytes, Held, Suspects, TurnFolder, Whole};
pub use backup::{BackupError, backup};
pub use check::{CheckReport, Violation, check, check_database};
pub use error::{StoreError, TransactError};
pub use handle::{EventSink, Store, StoreFiles};
pub use postgres::DatabaseUrl;
pub use reads::{Page, PageBounds, Reads, TextFound, TextRange};
pub use reads_search::{Hit, SearchPiece, SearchPlace};
pub use sqlite::Sync;
pub use users::{UserPlace, administer, list_users};
