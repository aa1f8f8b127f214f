//! The harness of the end-to-end tests: the real programs, over real sockets, files and terminals.
//!
//! Nothing here sleeps to wait: every wait blocks on the thing that is to happen and gives up
//! after [`PATIENCE`], which is a bound for a broken build and never a measurement.

pub mod actions;
pub mod binaries;
pub mod certificates;
pub mod chat;
pub mod cli;
pub mod client;
pub mod disk;
pub mod faulty;
pub mod fill;
pub mod home;
pub mod journal;
pub mod leaks;
pub mod lease_clock;
pub mod leases;
pub mod pauses;
pub mod postgres;
pub mod pty;
pub mod random;
pub mod scene;
pub mod server;
pub mod soundness;
pub mod sql;
pub mod stage;
pub mod trace;
pub mod uploads;

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::time::timeout;

/// How long any single thing may take before it counts as never happening.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs what blocks on a thread that a failed test can leave behind.
pub async fn in_time<T: Send + 'static>(
    run: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> T {
    let (send, done) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || drop(send.send(run())));
    let done = timeout(PATIENCE, done).await;
    done.expect("it happens in time").expect("the thread answers").expect("it works")
}

/// Makes a named pipe; returns both of its ends, so that neither side waits for the other to open
/// it.
pub fn pipe(path: &Path) -> File {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("the place is free");
    File::options().read(true).write(true).open(path).expect("it was just made")
}
