//! The first request of a connection, and the heartbeat.

use std::fmt;

use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::actions;
use crate::counter::COUNTER_MAX;
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

/// The one part of `hello` that every version of it has: read first, and alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// See [`HelloParams::protocol`].
    #[serde(deserialize_with = "known_versions")]
    pub protocol: Vec<u32>,
}

/// `hello`: must be the first request; a second one is `bad_request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloParams {
    /// The versions the client speaks: any integers. Read without those that no server will ever
    /// speak.
    #[serde(deserialize_with = "known_versions")]
    pub protocol: Vec<u32>,
    /// For logs.
    pub client: ClientInfo,
    /// The same over all reconnects of one running client.
    pub client_instance: ClientInstance,
    /// Needed on TCP unless it came as `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

fn known_versions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    /// An integer of any size; None if it is no version of ours.
    struct Version(Option<u32>);

    impl<'de> Deserialize<'de> for Version {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(OfInteger)
        }
    }

    struct OfInteger;
    impl Visitor<'_> for OfInteger {
        type Value = Version;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an integer")
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Version, E> {
            Ok(Version(number.try_into().ok()))
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Version, E> {
            Ok(Version(number.try_into().ok()))
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<Version, E> {
            // What is too large for the two above comes like this.
            if number.abs() < COUNTER_MAX as f64 {
                return Err(E::invalid_type(Unexpected::Float(number), &self));
            }
            Ok(Version(None))
        }
    }
    let versions = Vec::<Version>::deserialize(deserializer)?;
    Ok(versions.into_iter().filter_map(|version| version.0).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_integers_of_any_size() {
        let read = |list: &str| {
            let versions = serde_json::from_str::<Versions>(&format!("{{\"protocol\":{list}}}"));
            versions.map(|versions| versions.protocol).ok()
        };
        for (list, known) in [
            ("[]", vec![]),
            ("[1]", vec![1]),
            ("[2,1]", vec![2, 1]),
            ("[1,8589934592,-1,18446744073709551616,-99999999999999999999999]", vec![1]),
        ] {
            assert_eq!(read(list), Some(known), "{list}");
        }
        for list in ["1", "[\"1\"]", "[1.0]", "[1.5]", "[null]", "[true]", "{\"1\":1}", "null"] {
            assert_eq!(read(list), None, "{list}");
        }
    }
}
