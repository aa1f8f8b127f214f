//! The one clock of the client.

use rustix::time::{ClockId, clock_gettime};
use usher_shared::time::MonoMillis;

/// Reads the clock that only grows and also runs while the machine sleeps.
pub fn mono_now() -> MonoMillis {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let millis = u64::try_from(now.tv_nsec / 1_000_000).unwrap_or(0);
    MonoMillis::new(seconds.saturating_mul(1_000).saturating_add(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_backwards() {
        let first = mono_now();
        assert!(first.get() > 0);
        assert!(mono_now() >= first);
    }
}
