//! Names of things. Every kind of id has its own type, so that two of them cannot be swapped.
//!
//! Server-made ids are UUIDs (version 7) in their lower-case hyphenated form. A string from a
//! client that has any other form names nothing: it is read as the nil UUID, which no stored row
//! ever has, so that a malformed id and an unknown one get the same answer.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use crate::limits::CLIENT_QUEUE_ID_BYTES_MAX;

macro_rules! uuid_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps a UUID that the caller minted or loaded.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Returns the UUID behind the id.
            pub const fn uuid(self) -> Uuid {
                self.0
            }

            /// Reads the wire form; any other string gives the nil id, which names nothing.
            pub fn parse_or_nil(text: &str) -> Self {
                Self(parse_canonical(text).unwrap_or(Uuid::nil()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0.as_hyphenated())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct IdVisitor;
                impl de::Visitor<'_> for IdVisitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an id string")
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        Ok($name::parse_or_nil(text))
                    }
                }
                deserializer.deserialize_str(IdVisitor)
            }
        }
    )*};
}

uuid_id! {
    /// A piece of work with a directory and an agent.
    TaskId;
    /// One conversation with one agent.
    SessionId;
    /// One life of a session; `session.reset` mints the next.
    IncarnationId;
    /// A prompt waiting in a queue. Minted by the server, so that it tells nothing about others.
    EntryId;
    /// A message of the transcript.
    MessageId;
    /// One run of the agent.
    TurnId;
    /// What a remove or clear took, for `message.queue.restore`.
    UndoId;
    /// A user of the server.
    UserId;
    /// One question of an agent.
    PermissionId;
    /// A plan that an agent published; the same while one turn changes it.
    PlanId;
    /// A comment on a plan.
    PlanCommentId;
    /// A staged or claimed upload.
    AttachmentId;
    /// The right of one connection to edit one entry for a while. Cannot be guessed.
    LeaseId;
    /// One start of a server: event sequences of two epochs cannot be compared.
    Epoch;
    /// One database, for ever.
    StoreId;
}

fn parse_canonical(text: &str) -> Option<Uuid> {
    let uuid = Uuid::try_parse(text).ok()?;
    let mut canonical = [0; uuid::fmt::Hyphenated::LENGTH];
    (uuid.as_hyphenated().encode_lower(&mut canonical) == text).then_some(uuid)
}

/// Names one running client over its reconnects. Strict on the wire: two clients that sent
/// garbage must never count as the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientInstance(Uuid);

impl ClientInstance {
    /// Wraps a UUID that the caller minted.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

/// Why a string is no id that a client may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientIdError {
    /// The string is empty.
    #[error("id is empty")]
    Empty,
    /// The string is longer than [`CLIENT_QUEUE_ID_BYTES_MAX`].
    #[error("id is longer than {CLIENT_QUEUE_ID_BYTES_MAX} bytes")]
    TooLong,
    /// The string holds a control character (C0, DEL or C1).
    #[error("id holds a control character")]
    Control,
    /// The string holds nothing but white space.
    #[error("id is only white space")]
    Blank,
}

fn check_client_id(text: &str) -> Result<(), ClientIdError> {
    if text.is_empty() {
        Err(ClientIdError::Empty)
    } else if text.len() > CLIENT_QUEUE_ID_BYTES_MAX {
        Err(ClientIdError::TooLong)
    } else if text.chars().any(char::is_control) {
        Err(ClientIdError::Control)
    } else if text.chars().all(char::is_whitespace) {
        Err(ClientIdError::Blank)
    } else {
        Ok(())
    }
}

macro_rules! client_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and wraps `text`.
            ///
            /// # Errors
            /// See [`ClientIdError`].
            pub fn parse(text: &str) -> Result<Self, ClientIdError> {
                check_client_id(text).map(|()| Self(Arc::from(text)))
            }

            /// Returns the id as the client wrote it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &*self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(de::Error::custom)
            }
        }
    )*};
}

client_id! {
    /// Names one admission (`client_queue_id` on the wire). Minted by the client before the first
    /// send and kept for every retry; 1 to 128 bytes, never trimmed, never changed.
    AdmissionId;
    /// Names one save of an edited entry, within the lease it was made under. Minted by the client
    /// and kept for every retry, in the form of an admission ID.
    OperationId;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_names_something() {
        let text = "018f4f3a-0000-7000-8000-00000000abcd";
        assert_eq!(EntryId::parse_or_nil(text).to_string(), text);
        for other in [
            "018F4F3A-0000-7000-8000-00000000ABCD",
            "018f4f3a00007000800000000000abcd",
            "{018f4f3a-0000-7000-8000-00000000abcd}",
            " 018f4f3a-0000-7000-8000-00000000abcd",
            "",
            "nope",
        ] {
            assert_eq!(EntryId::parse_or_nil(other), EntryId::from_uuid(Uuid::nil()), "{other:?}");
        }
    }

    #[test]
    fn ids_are_strings_never_numbers() {
        assert!(serde_json::from_str::<EntryId>("9007199254740993").is_err());
        assert!(serde_json::from_str::<AdmissionId>("9007199254740993").is_err());
    }

    #[test]
    fn c015_admission_ids_are_bounded_in_bytes_and_never_cut() {
        let e = "\u{e9}";
        let ok = |text: &str| AdmissionId::parse(text).map(|id| id.as_str().to_owned());
        assert_eq!(ok(""), Err(ClientIdError::Empty));
        assert_eq!(ok("k"), Ok("k".to_owned()));
        for bytes in [127, 128] {
            assert_eq!(ok(&"k".repeat(bytes)), Ok("k".repeat(bytes)));
        }
        for bytes in [129, 256] {
            assert_eq!(ok(&"k".repeat(bytes)), Err(ClientIdError::TooLong));
        }
        assert_eq!(ok(&e.repeat(64)), Ok(e.repeat(64)));
        assert_eq!(ok(&e.repeat(128)), Err(ClientIdError::TooLong));
        let family = "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{200d}\u{1f466}";
        assert_eq!(ok(&family.repeat(32)), Err(ClientIdError::TooLong));
        assert_eq!(ok(family), Ok(family.to_owned()));
        let sql = "'; DROP TABLE queue;--";
        assert_eq!(ok(sql), Ok(sql.to_owned()));
        for control in ["a\0b", "a\nb", "\u{7f}", "a\u{85}"] {
            assert_eq!(ok(control), Err(ClientIdError::Control), "{control:?}");
        }
        assert_eq!(ok("   \u{3000}"), Err(ClientIdError::Blank));
        assert_eq!(ok(" k "), Ok(" k ".to_owned()));
    }
}
