//! Wall-clock time as data. This crate never reads a clock: callers pass the time in.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Milliseconds since the Unix epoch, UTC. On the wire: RFC 3339 with milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct UnixMillis(i64);

impl UnixMillis {
    /// Wraps a count of milliseconds since 1970-01-01T00:00:00Z.
    pub const fn new(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the count of milliseconds.
    pub const fn get(self) -> i64 {
        self.0
    }
}

/// Milliseconds on a clock that only grows and also runs in suspend (`CLOCK_BOOTTIME`). Two
/// readings of one process can be compared; nothing else can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MonoMillis(u64);

impl MonoMillis {
    /// Wraps a reading.
    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the count of milliseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the instant `millis` later.
    #[must_use]
    pub const fn plus(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Returns the milliseconds since `earlier`; 0 if that is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Beyond the years that RFC 3339 can say, the nearest one it can: never a panic.
        let timestamp = jiff::Timestamp::from_millisecond(self.0).unwrap_or(if self.0 < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        });
        write!(f, "{timestamp:.3}")
    }
}

impl fmt::Debug for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnixMillis({})", self.0)
    }
}

impl Serialize for UnixMillis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UnixMillis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let timestamp: jiff::Timestamp = text.parse().map_err(de::Error::custom)?;
        Ok(Self(timestamp.as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_wrote_with_milliseconds() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_793_398_260_023, "2026-10-30T22:11:00.023Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(UnixMillis::new(millis).to_string(), text);
            let read: UnixMillis = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            assert_eq!(read, UnixMillis::new(millis));
        }
    }

    #[test]
    fn c109_extreme_times_do_not_panic() {
        assert_eq!(&UnixMillis::new(i64::MAX).to_string()[..4], "9999");
        assert_eq!(&UnixMillis::new(i64::MIN).to_string()[..3], "-00");
        assert!(serde_json::from_str::<UnixMillis>("\"25:61\"").is_err());
        let leap: UnixMillis = serde_json::from_str("\"2016-12-31T23:59:60Z\"").unwrap();
        assert_eq!(leap.to_string(), "2016-12-31T23:59:59.000Z");
    }
}
