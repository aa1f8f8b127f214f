//! The envelope of every frame.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::error::WireError;
use crate::limits::REQUEST_ID_BYTES_MAX;

/// A request as a server reads it; the payload stays raw until its action is known.
#[derive(Debug)]
pub struct RequestFrame<'a> {
    /// Chosen by the client, per connection, 1 to 64 bytes without control characters.
    pub id: Cow<'a, str>,
    /// The dotted name.
    pub action: Cow<'a, str>,
    /// The payload's JSON; `{}` if it was omitted.
    pub payload: &'a str,
}

/// A text frame that is no request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadFrame {
    /// The request's id, if there is one that a reply can name.
    pub id: Option<String>,
    /// What is wrong with it.
    pub error: FrameError,
}

/// Why a text frame is no request. Says nothing of what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not JSON, or no object.
    #[error("not a JSON object")]
    NoObject,
    /// There is no id, or more than one, or it names nothing.
    #[error(
        "the id must be a string of 1 to {REQUEST_ID_BYTES_MAX} bytes without control characters"
    )]
    Id,
    /// The type is another one.
    #[error("the type must be \"request\"")]
    Kind,
    /// There is no action, or more than one, or it is no string.
    #[error("the action must be a string")]
    Action,
    /// There is more than one payload.
    #[error("there must be one payload at most")]
    Payload,
}

impl<'a> RequestFrame<'a> {
    /// Reads the envelope of `text`.
    pub fn parse(text: &'a str) -> Result<Self, BadFrame> {
        let bad = |id: Option<&str>, error| BadFrame { id: id.map(str::to_owned), error };
        let envelope: Envelope<'a> =
            serde_json::from_str(text).map_err(|_| bad(None, FrameError::NoObject))?;
        let id = envelope.id.text().filter(|id| names_a_request(id));
        let Some(id) = id else {
            return Err(bad(None, FrameError::Id));
        };
        let wrong = |error| bad(Some(&id), error);
        if envelope.kind.text().as_deref() != Some("request") {
            return Err(wrong(FrameError::Kind));
        }
        let Some(action) = envelope.action.text() else {
            return Err(wrong(FrameError::Action));
        };
        let payload = match envelope.payload {
            Field::Omitted => "{}",
            Field::Once(payload) if payload.get() == "null" => "{}",
            Field::Once(payload) => payload.get(),
            Field::Repeated => return Err(wrong(FrameError::Payload)),
        };
        Ok(Self { id, action, payload })
    }
}

fn names_a_request(id: &str) -> bool {
    (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && !id.contains(char::is_control)
}

/// A frame's fields as they came: a wrong one must not hide the others.
#[derive(Default)]
struct Envelope<'a> {
    id: Field<'a>,
    kind: Field<'a>,
    action: Field<'a>,
    payload: Field<'a>,
}

#[derive(Default)]
enum Field<'a> {
    #[default]
    Omitted,
    Once(&'a RawValue),
    Repeated,
}

impl<'a> Field<'a> {
    fn put(&mut self, value: &'a RawValue) {
        *self = match self {
            Self::Omitted => Self::Once(value),
            Self::Once(_) | Self::Repeated => Self::Repeated,
        };
    }

    /// Returns the string that this is, if it is one.
    fn text(&self) -> Option<Cow<'a, str>> {
        /// Borrowed where nothing is escaped.
        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
        match self {
            Self::Once(value) => {
                serde_json::from_str::<Text<'a>>(value.get()).ok().map(|text| text.0)
            }
            Self::Omitted | Self::Repeated => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "lowercase")]
        enum Key {
            Id,
            Type,
            Action,
            Payload,
            #[serde(other)]
            Other,
        }

        struct OfObject;
        impl<'de> Visitor<'de> for OfObject {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
                let mut envelope = Envelope::default();
                while let Some(key) = map.next_key()? {
                    let field = match key {
                        Key::Id => &mut envelope.id,
                        Key::Type => &mut envelope.kind,
                        Key::Action => &mut envelope.action,
                        Key::Payload => &mut envelope.payload,
                        Key::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    field.put(map.next_value()?);
                }
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(OfObject)
    }
}

/// What a frame is, on the wire's `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameKind {
    /// Asks for something; client to server.
    Request,
    /// Answers a request.
    Response,
    /// Refuses a request, or (without id) a frame that was none.
    Error,
    /// Tells what happened; server to client.
    Notification,
}

#[derive(Serialize)]
struct Outgoing<'a, P: Serialize> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type")]
    kind: FrameKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'a str>,
    payload: P,
}

/// Writes one frame. `id` and `action` are left out where there is none.
///
/// # Errors
/// Only if `payload` cannot be written as JSON, which no type of this crate does.
pub fn write_frame(
    kind: FrameKind,
    id: Option<&str>,
    action: Option<&str>,
    payload: impl Serialize,
) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Outgoing { id, kind, action, payload })
}

/// A frame as a client reads it.
#[derive(Debug)]
pub enum ServerFrame {
    /// Answers the request `id`.
    Response {
        /// The request's id.
        id: String,
        /// The reply's JSON.
        payload: Box<RawValue>,
    },
    /// Refuses the request `id`, or a frame that was no request.
    Error {
        /// The request's id, if the server could read one.
        id: Option<String>,
        /// Why.
        error: WireError,
    },
    /// Tells what happened.
    Notification {
        /// The dotted name.
        action: String,
        /// The event's JSON.
        payload: Box<RawValue>,
    },
}

impl ServerFrame {
    /// Reads a frame of a server.
    ///
    /// # Errors
    /// If the text is no frame that a server of this version sends.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Envelope {
            #[serde(default)]
            id: Option<String>,
            #[serde(rename = "type")]
            kind: FrameKind,
            #[serde(default)]
            action: Option<String>,
            payload: Box<RawValue>,
        }
        let envelope: Envelope = serde_json::from_str(text)?;
        let missing = |field: &str| <serde_json::Error as serde::de::Error>::custom(field);
        match envelope.kind {
            FrameKind::Response => Ok(Self::Response {
                id: envelope.id.ok_or_else(|| missing("response without id"))?,
                payload: envelope.payload,
            }),
            FrameKind::Error => Ok(Self::Error {
                id: envelope.id,
                error: serde_json::from_str(envelope.payload.get())?,
            }),
            FrameKind::Notification => Ok(Self::Notification {
                action: envelope.action.ok_or_else(|| missing("notification without action"))?,
                payload: envelope.payload,
            }),
            FrameKind::Request => Err(missing("a request from a server")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_request_whatever_the_order_of_its_fields() {
        let frame = RequestFrame::parse(
            r#" {"payload":{"a":1},"type":"request","extra":0,"action":"ping","id":"7"} "#,
        )
        .unwrap();
        assert_eq!((&*frame.id, &*frame.action, frame.payload), ("7", "ping", r#"{"a":1}"#));
        let bare = RequestFrame::parse(r#"{"id":"7","type":"request","action":"ping"}"#).unwrap();
        assert_eq!(bare.payload, "{}");
        let null =
            RequestFrame::parse(r#"{"id":"7","type":"request","action":"ping","payload":null}"#);
        assert_eq!(null.unwrap().payload, "{}");
    }

    #[test]
    fn what_is_no_request_is_refused_with_its_id_if_it_has_one() {
        let long = format!(r#"{{"id":"{}","type":"request","action":"p"}}"#, "x".repeat(65));
        for (text, id, error) in [
            ("", None, FrameError::NoObject),
            ("7", None, FrameError::NoObject),
            ("[]", None, FrameError::NoObject),
            (r#"["7","request","ping"]"#, None, FrameError::NoObject),
            (r#"{"id":"7","type":"request","action":"ping"} {}"#, None, FrameError::NoObject),
            (r#"{"id":"7","type":"request","action":"ping","a":}"#, None, FrameError::NoObject),
            ("{}", None, FrameError::Id),
            (r#"{"id":7,"type":"request","action":"ping"}"#, None, FrameError::Id),
            (r#"{"id":"","type":"request","action":"ping"}"#, None, FrameError::Id),
            (r#"{"id":"a\u0000","type":"request","action":"ping"}"#, None, FrameError::Id),
            (r#"{"id":"a\u0085","type":"request","action":"ping"}"#, None, FrameError::Id),
            (r#"{"id":"\ud800","type":"request","action":"ping"}"#, None, FrameError::Id),
            (r#"{"id":"7","id":"8","type":"request","action":"ping"}"#, None, FrameError::Id),
            (&long, None, FrameError::Id),
            (r#"{"id":"7","type":"response","action":"ping"}"#, Some("7"), FrameError::Kind),
            (r#"{"id":"7","type":["request"],"action":"ping"}"#, Some("7"), FrameError::Kind),
            (r#"{"type":"request","id":"7","type":"request"}"#, Some("7"), FrameError::Kind),
            (r#"{"id":"7","type":"request"}"#, Some("7"), FrameError::Action),
            (
                r#"{"action":{"ping":null},"type":"request","id":"7"}"#,
                Some("7"),
                FrameError::Action,
            ),
            (
                r#"{"id":"7","type":"request","action":"p","payload":{},"payload":{}}"#,
                Some("7"),
                FrameError::Payload,
            ),
        ] {
            let expected = BadFrame { id: id.map(str::to_owned), error };
            assert_eq!(RequestFrame::parse(text).unwrap_err(), expected, "{text}");
        }
        let longest = format!(r#"{{"id":"{}","type":"request","action":"p"}}"#, "x".repeat(64));
        assert!(RequestFrame::parse(&longest).is_ok());
    }

    #[test]
    fn deep_nesting_is_refused_not_followed() {
        let deep = format!(
            r#"{{"id":"7","type":"request","action":"ping","payload":{}{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        let frame = RequestFrame::parse(&deep).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(frame.payload).is_err());
    }

    #[test]
    fn writes_the_frames_of_the_protocol_page() {
        let text = write_frame(FrameKind::Response, Some("7"), Some("ping"), serde_json::json!({}))
            .unwrap();
        assert_eq!(text, r#"{"id":"7","type":"response","action":"ping","payload":{}}"#);
    }
}
