//! The first request of a connection, and the heartbeat.

use serde::{Deserialize, Serialize};

use super::actions;
use crate::id::{ClientInstance, Epoch, StoreId, UserId};
use crate::limits::Limits;
use crate::time::UnixMillis;

/// What a server can do beyond the bare protocol, as named in `hello`.
pub mod capability {
    /// Replays of identified admissions are answered from durable receipts.
    pub const ADMISSION_RECEIPTS: &str = "queue.admission_receipts";
    /// Entries are edited under a lease.
    pub const EDIT_LEASES: &str = "queue.edit_leases";
    /// The server runs the queue by itself while auto-run is on.
    pub const AUTO_RUN: &str = "queue.auto_run";
    /// Large attachments are uploaded in chunks first.
    pub const ATTACHMENTS_STAGED: &str = "attachments.staged";
    /// Plans can be commented on.
    pub const PLAN_COMMENTS: &str = "plan.comments";
    /// Transcripts can be searched.
    pub const TRANSCRIPT_SEARCH: &str = "transcript.search";
}

/// `hello`: must be the first request; a second one is `bad_request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloParams {
    /// The versions the client speaks.
    pub protocol: Vec<u32>,
    /// For logs.
    pub client: ClientInfo,
    /// The same over all reconnects of one running client.
    pub client_instance: ClientInstance,
    /// Needed on TCP unless it came as `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Which client this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// The program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The answer to `hello`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloReply {
    /// The version both will speak.
    pub protocol: u32,
    /// Which server this is.
    pub server: ServerInfo,
    /// Who the connection acts for.
    pub user: User,
    /// See [`capability`].
    pub capabilities: Vec<String>,
    /// The bounds in force.
    pub limits: Limits,
    /// The interval of the server's pings.
    pub heartbeat_ms: u64,
}

/// Which server answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// The program.
    pub name: String,
    /// Its version.
    pub version: String,
    /// New at every start.
    pub epoch: Epoch,
    /// The same as long as the database lives.
    pub store_id: StoreId,
}

/// A user of the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct User {
    /// Stable.
    pub id: UserId,
    /// For people.
    pub name: String,
}

/// `ping`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingParams {}

/// The answer to `ping`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingReply {
    /// The server's wall clock.
    pub server_time: UnixMillis,
}

actions! {
    HelloParams => "hello" => HelloReply;
    PingParams => "ping" => PingReply;
}
