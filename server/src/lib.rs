//! The server of usher: a durable prompt queue in front of coding agents.
//!
//! ```text
//! socket bytes -> net/link: frame -> net/actions + net/wire: command -> service
//!   -> store.transact { load; authorize; domain: decide; write; commit } -> events, then reply
//! committed events -> net/hub -> links, and -> dispatch -> agents
//! ```

pub mod agent;
mod backup;
mod check;
mod clock;
pub mod config;
pub mod dispatch;
pub mod domain;
pub mod net;
mod serve;
pub mod service;
mod stop;
pub mod store;
mod users;

pub use backup::{BackupArgs, backup};
pub use check::{CheckArgs, check};
pub use config::ServeArgs;
pub use serve::serve;
pub use users::{UserArgs, user};
