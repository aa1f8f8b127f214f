//! What all links of a server share.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;
use tracing::warn;
use usher_shared::id::StoreId;
use usher_shared::limits::Limits;
use usher_shared::protocol::PROTOCOL_VERSION;
use usher_shared::protocol::hello::{HelloReply, ServerInfo, capability};

use super::access::Access;
use super::hub::Hub;
use super::links::{LinkBounds, Links};
use super::news::News;
use super::wire;
use crate::domain::session::Caller;
use crate::service::Service;

/// A link whose token is taken away ends within about this time.
const LOOK_AT_USERS: Duration = Duration::from_secs(1);

/// What a server gives to its links.
pub struct ServerParts {
    /// The actions.
    pub service: Service,
    /// What happens.
    pub hub: Arc<Hub>,
    /// Who may connect over TCP.
    pub access: Access,
    /// The tasks that changed.
    pub news: Arc<News>,
    /// The name of the database.
    pub store_id: StoreId,
    /// The user that local connections act for.
    pub owner: Caller,
    /// How long edit leases live, milliseconds.
    pub lease_ttl_ms: u64,
    /// How many links there may be.
    pub link_bounds: LinkBounds,
    /// The interval of pings.
    pub heartbeat: Duration,
    /// Web pages that may connect.
    pub allowed_origins: Vec<String>,
    /// True once the server stops.
    pub draining: watch::Receiver<bool>,
}

/// What all links share.
pub struct Server {
    pub(super) parts: ServerParts,
    pub(super) links: Links,
    /// Places of connections over TCP that are no links yet: they shake hands, or send their headers.
    door: Arc<Semaphore>,
}

impl Server {
    /// Makes a server without links.
    pub fn new(parts: ServerParts) -> Self {
        let links = Links::new(parts.link_bounds);
        let door = Arc::new(Semaphore::new(places(parts.link_bounds.all)));
        Self { parts, links, door }
    }

    /// Takes a place for a connection that is no link yet; None if there is none left. Each is left
    /// within seconds.
    pub(super) fn place_at_the_door(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.door).try_acquire_owned().ok()
    }

    /// Tells whether a web page of this origin may connect.
    pub(super) fn allows_origin(&self, origin: &str) -> bool {
        self.parts.allowed_origins.iter().any(|allowed| allowed == origin)
    }

    /// Answers a health check: whether the store answers and the server goes on.
    pub(super) async fn health(&self) -> StatusCode {
        if *self.parts.draining.borrow() || !self.parts.service.is_well().await {
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        StatusCode::OK
    }

    /// Tells links about tasks, for as long as the server runs.
    pub async fn tell_news(&self) {
        self.parts.news.tell(&self.parts.service, &self.links).await;
    }

    /// Forgets events that nobody reads any more, for as long as the server runs.
    pub async fn forget_events(&self) {
        self.parts.hub.forget_idle().await;
    }

    /// Ends the links of users whose tokens were taken away, also by another process, for as long as
    /// the server runs.
    pub async fn watch_users(&self) {
        let mut known = None;
        loop {
            sleep(LOOK_AT_USERS).await;
            let tokens = self.links.tokens();
            if tokens.is_empty() {
                continue;
            }
            match self.parts.service.revoked(known.clone(), tokens).await {
                Ok((mark, revoked)) => {
                    known = Some(mark);
                    revoked.iter().for_each(|token| self.links.revoke(token));
                }
                Err(error) => warn!(%error, "revoked tokens could not be looked for"),
            }
        }
    }

    /// Waits until no link is left.
    pub async fn all_links_ended(&self) {
        self.links.all_ended().await;
    }

    /// A link that was silent for this long is dead.
    pub(super) fn silence_max(&self) -> Duration {
        self.parts.heartbeat * 5 / 2
    }

    pub(super) fn greeting(&self, caller: &Caller) -> HelloReply {
        HelloReply {
            protocol: PROTOCOL_VERSION,
            server: ServerInfo {
                name: "usherd".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                epoch: self.parts.hub.epoch(),
                store_id: self.parts.store_id,
            },
            user: wire::user(caller),
            capabilities: vec![
                capability::ADMISSION_RECEIPTS.to_owned(),
                capability::EDIT_LEASES.to_owned(),
                capability::AUTO_RUN.to_owned(),
                capability::ATTACHMENTS_STAGED.to_owned(),
                capability::PLAN_COMMENTS.to_owned(),
                capability::TRANSCRIPT_SEARCH.to_owned(),
            ],
            limits: Limits { lease_ttl_ms: self.parts.lease_ttl_ms, ..Limits::default() },
            heartbeat_ms: u64::try_from(self.parts.heartbeat.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Returns how many connections may be on their way to become links: as many as there may be links,
/// and never so many that they take the file descriptors that links and the database need.
fn places(links_max: usize) -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let half = usize::try_from(descriptors / 2).unwrap_or(usize::MAX);
    links_max.min(half).min(Semaphore::MAX_PERMITS)
}
