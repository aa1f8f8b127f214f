//! The envelope of every frame.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::WireError;
use crate::limits::REQUEST_ID_BYTES_MAX;

/// A request as a server reads it; the payload stays raw until its action is known.
#[derive(Debug)]
pub struct RequestFrame<'a> {
    /// Chosen by the client, per connection, 1 to 64 bytes.
    pub id: Cow<'a, str>,
    /// The dotted name.
    pub action: Cow<'a, str>,
    /// The payload's JSON; `{}` if it was omitted.
    pub payload: &'a str,
}

/// Why a text frame is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not JSON, not an object, or a field of the envelope is missing or wrong.
    #[error("not a request: {0}")]
    Malformed(String),
    /// The id is empty or longer than [`REQUEST_ID_BYTES_MAX`].
    #[error("the request id must have 1 to {REQUEST_ID_BYTES_MAX} bytes")]
    Id,
}

impl<'a> RequestFrame<'a> {
    /// Reads the envelope of `text`.
    pub fn parse(text: &'a str) -> Result<Self, FrameError> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow)]
            id: Cow<'a, str>,
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            action: Cow<'a, str>,
            #[serde(borrow, default)]
            payload: Option<&'a RawValue>,
        }
        let envelope: Envelope<'a> =
            serde_json::from_str(text).map_err(|error| FrameError::Malformed(error.to_string()))?;
        if envelope.kind != "request" {
            return Err(FrameError::Malformed("type is not \"request\"".to_owned()));
        }
        if envelope.id.is_empty() || envelope.id.len() > REQUEST_ID_BYTES_MAX {
            return Err(FrameError::Id);
        }
        Ok(Self {
            id: envelope.id,
            action: envelope.action,
            payload: envelope.payload.map_or("{}", RawValue::get),
        })
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
    fn refuses_what_is_no_request() {
        for text in [
            "",
            "7",
            "[]",
            "{}",
            r#"{"id":7,"type":"request","action":"ping"}"#,
            r#"{"id":"7","type":"response","action":"ping"}"#,
            r#"{"id":"7","type":"request"}"#,
            r#"{"id":"","type":"request","action":"ping"}"#,
            r#"{"id":"7","id":"8","type":"request","action":"ping"}"#,
        ] {
            assert!(RequestFrame::parse(text).is_err(), "{text}");
        }
        let long = format!(r#"{{"id":"{}","type":"request","action":"p"}}"#, "x".repeat(65));
        assert_eq!(RequestFrame::parse(&long).unwrap_err(), FrameError::Id);
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
