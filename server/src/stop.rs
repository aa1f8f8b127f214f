//! Stop points: places where a test may end the process, or hold one session for a while, and the
//! clock that it keeps for edit leases. Nothing in an ordinary build.

use usher_shared::id::SessionId;

/// Ends the process here if `USHER_STOP_AT` says so, as abruptly as a power cut would, or only the
/// task that comes by, by a panic, if `USHER_PANIC_AT` does: `NAME:N` means the N-th passing of the
/// point NAME.
#[cfg(feature = "stop-points")]
pub(crate) fn point(name: &'static str) {
    use std::sync::atomic::AtomicU64;
    static STOPS: AtomicU64 = AtomicU64::new(0);
    static PANICS: AtomicU64 = AtomicU64::new(0);
    if is_meant("USHER_STOP_AT", name, &STOPS) {
        std::process::abort();
    }
    assert!(!is_meant("USHER_PANIC_AT", name, &PANICS), "a test wants this: {name}");
}

#[cfg(feature = "stop-points")]
fn is_meant(variable: &str, name: &str, passed: &std::sync::atomic::AtomicU64) -> bool {
    let Ok(wanted) = std::env::var(variable) else {
        return false;
    };
    let Some((wanted_name, nth)) = wanted.split_once(':') else {
        return false;
    };
    let pass = || passed.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
    wanted_name == name && nth.parse::<u64>().is_ok_and(|nth| pass() == nth)
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

/// Returns the instant of the clock that a test keeps in the file `USHER_LEASE_CLOCK`, if there is
/// one: `MILLIS` stands still there, `+MILLIS` goes on that much ahead of the real clock.
#[cfg(feature = "stop-points")]
pub(crate) fn lease_clock(real: i64) -> i64 {
    let Some(file) = std::env::var_os("USHER_LEASE_CLOCK") else {
        return real;
    };
    let said = std::fs::read_to_string(file).expect("a test keeps its clock readable");
    let millis: i64 = said.trim().parse().expect("a test keeps milliseconds");
    if said.starts_with('+') { real.saturating_add(millis) } else { millis }
}

/// Returns the real one: in this build no test keeps a clock.
#[cfg(not(feature = "stop-points"))]
pub(crate) const fn lease_clock(real: i64) -> i64 {
    real
}
