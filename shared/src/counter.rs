//! Counters that only grow. On the wire: JSON integers from 0 to 2^53-1, so that every JSON
//! reader keeps them exact; a float, a negative or a larger number is refused, never rounded.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

/// The largest integer that every JSON reader keeps exact (RFC 8259, section 6).
pub const COUNTER_MAX: u64 = (1 << 53) - 1;

macro_rules! counter {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The start of the count.
            pub const ZERO: Self = Self(0);

            /// Wraps `value`; one beyond [`COUNTER_MAX`] is held at it.
            pub const fn new(value: u64) -> Self {
                Self(if value > COUNTER_MAX { COUNTER_MAX } else { value })
            }

            /// Returns the number.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Returns the next number.
            pub const fn next(self) -> Self {
                Self::new(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = u64::deserialize(deserializer)?;
                if value > COUNTER_MAX {
                    return Err(de::Error::custom("an integer of at most 2^53-1"));
                }
                Ok(Self(value))
            }
        }
    )*};
}

counter! {
    /// Grows by every durable change of a session's queue, over restarts and resets.
    QueueRevision;
    /// Grows by update, fold and merge of one entry; never by a move.
    TargetRevision;
    /// Grows by every begin and renewal of an edit lease of one entry, over leases and restarts.
    LeaseGeneration;
    /// The order key of a queue entry, 1 or more, gaps allowed.
    Position;
    /// Grows by every update of one plan comment, from 1.
    CommentVersion;
    /// Numbers the messages of a transcript from 1.
    MessageSeq;
    /// Numbers the events of one session within one epoch.
    EventSeq;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c016_numbers_past_the_exact_range_are_refused_not_rounded() {
        let read = |json: &str| serde_json::from_str::<QueueRevision>(json).ok().map(|r| r.get());
        assert_eq!(read("9007199254740991"), Some(COUNTER_MAX));
        for json in
            ["9007199254740992", "9223372036854775807", "18446744073709551616", "1e3", "1.0", "-1"]
        {
            assert_eq!(read(json), None, "{json}");
        }
    }
}
