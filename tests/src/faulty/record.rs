//! What a faulty link saw and did.

use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

use super::rule::{Do, Fate, Matching};

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A connection was made through to the server.
    Opened {
        /// Its number, from 1.
        link: usize,
    },
    /// A connection was turned away.
    Refused,
    /// A text frame came by.
    Frame {
        /// On which connection.
        link: usize,
        /// From whom.
        way: Way,
        /// What became of it.
        fate: Fate,
        /// Its text, as it came; of a forged one as it was sent.
        text: String,
    },
    /// One of the two hung up by itself.
    Ended {
        /// Which connection.
        link: usize,
        /// Which way nothing more comes.
        way: Way,
    },
    /// The proxy did something.
    Did(Do),
    /// [`super::FaultyLink::mark`].
    Marked(&'static str),
}

/// What happened, in order.
#[derive(Clone, Debug, Default)]
pub struct Record(pub Vec<Seen>);

impl Record {
    /// Returns the frames of a kind, whatever became of them.
    pub fn frames(&self, matching: &Matching) -> Vec<&Seen> {
        self.0.iter().filter(|seen| matching.takes(seen)).collect()
    }

    /// Returns the frames of a kind that reached the other side.
    pub fn passed(&self, matching: &Matching) -> Vec<&Seen> {
        let mut frames = self.frames(matching);
        frames.retain(|seen| seen.has_passed());
        frames
    }

    /// Counts the connections that were made through to the server.
    pub fn opened(&self) -> usize {
        self.0.iter().filter(|seen| matches!(seen, Seen::Opened { .. })).count()
    }

    /// Tells whether the client hung up on a connection.
    pub fn client_left(&self, link: usize) -> bool {
        let left = |seen: &Seen| matches!(seen, Seen::Ended { link: of, way: Way::ToServer } if *of == link);
        self.0.iter().any(left)
    }

    /// Returns what happened after a mark.
    pub fn after(&self, mark: &str) -> Self {
        let is_it = |seen: &Seen| matches!(seen, Seen::Marked(name) if *name == mark);
        let from = self.0.iter().position(is_it).map_or(self.0.len(), |at| at + 1);
        Self(self.0[from..].to_vec())
    }
}

impl Seen {
    /// Tells whether a frame reached the other side.
    pub fn has_passed(&self) -> bool {
        match self {
            Self::Frame { fate, .. } => match fate {
                Fate::Pass | Fate::Rewrite(_) | Fate::Released | Fate::Forged => true,
                Fate::Swallow | Fate::Part(_) | Fate::Hold | Fate::Refuse { .. } => false,
            },
            Self::Opened { .. }
            | Self::Refused
            | Self::Ended { .. }
            | Self::Did(_)
            | Self::Marked(_) => false,
        }
    }

    /// Returns the connection of a frame.
    pub fn link(&self) -> usize {
        match self {
            Self::Frame { link, .. } | Self::Opened { link } | Self::Ended { link, .. } => *link,
            Self::Refused | Self::Did(_) | Self::Marked(_) => 0,
        }
    }

    /// Returns a frame as JSON; null if it is none.
    pub fn json(&self) -> Value {
        match self {
            Self::Frame { text, .. } => serde_json::from_str(text).unwrap_or_default(),
            Self::Opened { .. }
            | Self::Refused
            | Self::Ended { .. }
            | Self::Did(_)
            | Self::Marked(_) => Value::Null,
        }
    }

    /// Returns the payload of a frame, byte for byte.
    pub fn payload(&self) -> String {
        let Self::Frame { text, .. } = self else {
            return String::new();
        };
        let fields: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(text).expect("frames are objects");
        fields.get("payload").map_or_else(String::new, |payload| payload.get().to_owned())
    }
}
