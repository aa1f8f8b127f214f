//! The harness of the end-to-end tests: the real programs, over real sockets, files and terminals.
//!
//! Nothing here sleeps to wait: every wait blocks on the thing that is to happen and gives up
//! after [`PATIENCE`], which is a bound for a broken build and never a measurement.

pub mod actions;
pub mod binaries;
pub mod chat;
pub mod cli;
pub mod client;
pub mod disk;
pub mod fill;
pub mod home;
pub mod leaks;
pub mod pauses;
pub mod postgres;
pub mod pty;
pub mod random;
pub mod scene;
pub mod server;
pub mod soundness;
pub mod sql;
pub mod trace;

use std::time::Duration;

/// How long any single thing may take before it counts as never happening.
pub const PATIENCE: Duration = Duration::from_secs(60);
