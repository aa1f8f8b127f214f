//! Time and fresh ids: the impure values that decisions are given.

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

/// Mints an id (UUID version 7): new ids sort behind old ones, which keeps indexes local.
pub(crate) fn fresh_uuid() -> Uuid {
    Uuid::now_v7()
}
