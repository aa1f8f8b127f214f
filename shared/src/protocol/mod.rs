//! The wire protocol, version 1: WebSocket text frames, one JSON object each.
//!
//! Wire types only. The server turns them into domain types in `net/wire`, the client uses
//! them as they are. In answers every listed field is present; in requests `null` means omitted,
//! unknown fields are ignored. One file per part of the protocol.

pub mod attachment;
pub mod edit;
pub mod entry;
pub mod frame;
pub mod hello;
pub mod plan;
pub mod queue;
pub mod session;
pub mod settings;
pub mod task;
pub mod transcript;
pub mod turn;

use serde::{Serialize, de::DeserializeOwned};

/// The version that this crate speaks.
pub const PROTOCOL_VERSION: u32 = 1;

/// One action of the protocol: its request type, its name, and what answers it.
pub trait Request: Serialize + DeserializeOwned {
    /// The dotted name on the wire.
    const ACTION: &'static str;
    /// The payload of the response.
    type Reply: Serialize + DeserializeOwned;
}

/// Implements [`Request`] for a list of `Params => "action" => Reply`.
macro_rules! actions {
    ($($params:ty => $action:literal => $reply:ty;)*) => {$(
        impl crate::protocol::Request for $params {
            const ACTION: &'static str = $action;
            type Reply = $reply;
        }
    )*};
}
pub(crate) use actions;
