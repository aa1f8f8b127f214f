//! Calls: requests of the program that the engine passes on, once.

use serde_json::value::RawValue;

use crate::error::WireError;
use crate::protocol::Request;

/// Names one call of a running client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(u64);

impl CallId {
    /// Wraps a number that the caller uses once.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }
}

/// One request to pass on.
#[derive(Debug)]
pub struct Call {
    /// Comes back with the outcome.
    pub id: CallId,
    /// The dotted name.
    pub(super) action: &'static str,
    /// The payload, written.
    pub(super) payload: Box<RawValue>,
}

impl Call {
    /// Writes a request.
    pub fn new<R: Request>(id: CallId, request: &R) -> Self {
        Self { id, action: R::ACTION, payload: written(request) }
    }
}

/// How a call went.
#[derive(Clone, Debug)]
pub enum CallOutcome {
    /// The reply; [`reply`] reads it.
    Reply(Box<RawValue>),
    /// The server (or, for a call too many, the engine) refused it.
    Rejected(WireError),
    /// It was sent and no reply came: it may have happened.
    Lost,
    /// There was no link: it did not happen.
    NotSent,
}

/// Reads the reply to a request of type `R`.
///
/// # Errors
/// If the payload is not what this version of the protocol answers.
pub fn reply<R: Request>(payload: &RawValue) -> Result<R::Reply, serde_json::Error> {
    serde_json::from_str(payload.get())
}

/// Writes a request's payload.
pub(super) fn written<R: Request>(request: &R) -> Box<RawValue> {
    serde_json::value::to_raw_value(request).expect("every request type can be written as JSON")
}
