//! Stop points: places where a crash test may end the process. Nothing in an ordinary build.

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
