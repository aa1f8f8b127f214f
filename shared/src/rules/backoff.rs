//! How long to wait before the next attempt to connect.

use std::time::Duration;

use crate::limits::{BACKOFF_FIRST_MS, BACKOFF_LONGEST_MS};

/// Returns the wait before reconnect number `attempt` (1-based).
///
/// Doubles from [`BACKOFF_FIRST_MS`] up to [`BACKOFF_LONGEST_MS`], keeps half and adds a share of
/// the other half chosen by `spread` (`0..=u32::MAX`). Pure and total; the caller brings the
/// randomness.
///
/// Source: "equal jitter" in the AWS Architecture Blog, "Exponential Backoff And Jitter".
pub fn wait_before(attempt: u32, spread: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(16);
    let whole = (BACKOFF_FIRST_MS << doublings).min(BACKOFF_LONGEST_MS);
    let half = whole / 2;
    Duration::from_millis(half + (half * u64::from(spread)) / u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest_wait_and_keeps_half() {
        let range = |attempt| {
            (wait_before(attempt, 0).as_millis(), wait_before(attempt, u32::MAX).as_millis())
        };
        assert_eq!(range(0), (125, 250));
        assert_eq!(range(1), (125, 250));
        assert_eq!(range(2), (250, 500));
        assert_eq!(range(7), (8_000, 16_000));
        assert_eq!(range(8), (15_000, 30_000));
        assert_eq!(range(u32::MAX), (15_000, 30_000));
    }
}
