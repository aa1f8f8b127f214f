//! The rules of the queue and of turns, as pure decisions.
//!
//! A decision takes what was loaded, the request, the time and fresh ids, and returns the
//! [`Change`]s to write, the [`Event`]s to tell after the commit, and a reply; or it refuses.
//! Nothing here names SQL, sockets, JSON or the wire, reads a clock, rolls a die or waits.
//! Called by `service` inside `store.transact`.

pub mod admission;
pub mod attachment;
pub mod change;
pub mod edit;
pub mod enclosed;
pub mod entry;
pub mod event;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod lease;
pub mod lifecycle;
pub mod merge;
pub mod message;
pub mod plan;
pub mod queue;
pub mod search;
pub mod send_now;
pub mod session;
pub mod settings;
pub mod transfer;
pub mod turn;
pub mod turn_end;
pub mod users;

pub use change::{Change, Decision};
pub use event::Event;
