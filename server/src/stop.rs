//! Stop points: places where a test may end the process, or hold one session for a while. Nothing
//! in an ordinary build.

use usher_shared::id::SessionId;

/// Ends the process here if `USHER_STOP_AT` says so: `NAME:N` stops at the N-th passing of the
/// point NAME, as abruptly as a power cut would.
#[cfg(feature = "stop-points")]
pub(crate) fn point(name: &'static str) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let Ok(wanted) = std::env::var("USHER_STOP_AT") else {
        return;
    };
    let Some((wanted_name, nth)) = wanted.split_once(':') else {
        return;
    };
    if wanted_name == name
        && nth.parse::<u64>().is_ok_and(|nth| PASSED.fetch_add(1, Ordering::SeqCst) + 1 == nth)
    {
        std::process::abort();
    }
}

/// Does nothing: this build has no stop points.
#[cfg(not(feature = "stop-points"))]
pub(crate) const fn point(_name: &'static str) {}

/// Waits here until the test that listens on the Unix socket `USHER_PAUSE_AT` lets this session go
/// on: it is told `NAME SESSION` on a connection of its own, and closes it. A test that is gone
/// holds nobody.
#[cfg(feature = "stop-points")]
pub(crate) async fn pause(name: &'static str, session: SessionId) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let Some(listener) = std::env::var_os("USHER_PAUSE_AT") else {
        return;
    };
    let Ok(mut test) = tokio::net::UnixStream::connect(listener).await else {
        return;
    };
    if test.write_all(format!("{name} {session}\n").as_bytes()).await.is_ok() {
        // It says nothing; an error ends the wait just as well.
        drop(test.read(&mut [0]).await);
    }
}

/// Does nothing: this build has no stop points.
#[cfg(not(feature = "stop-points"))]
pub(crate) async fn pause(_name: &'static str, _session: SessionId) {}
