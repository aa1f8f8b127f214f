//! Time, fresh ids and tokens: the impure values that decisions are given.

use std::time::{SystemTime, UNIX_EPOCH};

use usher_shared::time::UnixMillis;
use uuid::Uuid;

/// Reads the wall clock.
pub(crate) fn now() -> UnixMillis {
    let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    };
    UnixMillis::new(millis)
}

/// Makes a token: 256 random bits in hex.
pub(crate) fn fresh_token() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Mints an id (UUID version 7): new ids sort behind old ones, which keeps indexes local.
pub(crate) fn fresh_uuid() -> Uuid {
    Uuid::now_v7()
}

/// Reads the clock that nobody can set, milliseconds: it goes on while the machine sleeps, and
/// begins anew when it starts.
pub(crate) fn boot_clock() -> i64 {
    let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    since.tv_sec.saturating_mul(1_000).saturating_add(since.tv_nsec / 1_000_000)
}

/// Mints an id that nobody can guess.
pub(crate) fn secret_uuid() -> Uuid {
    Uuid::new_v4()
}
