//! The life of the link: connect, `hello`, heartbeat, backoff.
//!
//! Two things are kept apart: the socket that the driver holds, and what the program sees. A new
//! connection is only asked for after the old one is reported closed, so that no frame of an old
//! link can be taken for one of the new.

use super::api::{EngineConfig, Event, Output};
use super::bounds::{CONNECT_TIMEOUT_MS, HEARTBEAT_RANGE_MS, HURRIED_ATTEMPT};
use super::outbox::{Outbox, Purpose};
use crate::error::{ErrorCode, WireError};
use crate::limits::{BACKOFF_LONGEST_MS, HEALTHY_MS, REPLY_TIMEOUT_MS};
use crate::protocol::PROTOCOL_VERSION;
use crate::protocol::hello::{HelloParams, HelloReply, PingParams};
use crate::rules::backoff::wait_before;
use crate::time::MonoMillis;

/// The link as the program sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkState {
    /// A connection is being opened.
    Connecting,
    /// It is open; `hello` is not answered yet.
    Greeting,
    /// The server answers.
    Online {
        /// The last measured round trip.
        round_trip_ms: Option<u64>,
    },
    /// There is no link. Before [`super::Input::Start`]: attempt 0, and nothing happens by itself.
    Waiting {
        /// When the next attempt starts.
        until: MonoMillis,
        /// Which attempt that will be since the link was last healthy, from 1.
        attempt: u32,
    },
    /// The server will not have this client (`unauthorized`, `protocol_unsupported`,
    /// `forbidden`): final until [`super::Input::Reconnect`].
    Refused(WireError),
}

/// What the driver holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Socket {
    /// Nothing, and nothing was asked for yet.
    Unused,
    /// Nothing.
    Gone,
    /// An attempt.
    Opening { give_up_at: MonoMillis },
    /// A connection.
    Open,
    /// A connection that was told to end.
    Closing,
}

/// See the module.
pub(super) struct Link {
    config: EngineConfig,
    spread: SplitMix64,
    socket: Socket,
    state: LinkState,
    attempt: u32,
    online_since: Option<MonoMillis>,
    heard_at: MonoMillis,
    ping_at: MonoMillis,
    /// When the next attempt starts if somebody is in a hurry.
    hurried_at: MonoMillis,
    /// The server asked not to be bothered before this.
    not_before: MonoMillis,
    hello: Option<HelloReply>,
}

impl Link {
    pub(super) fn new(config: EngineConfig) -> Self {
        Self {
            spread: SplitMix64(config.spread_seed),
            config,
            socket: Socket::Unused,
            state: LinkState::Waiting { until: MonoMillis::default(), attempt: 0 },
            attempt: 0,
            online_since: None,
            heard_at: MonoMillis::default(),
            ping_at: MonoMillis::default(),
            hurried_at: MonoMillis::default(),
            not_before: MonoMillis::default(),
            hello: None,
        }
    }

    pub(super) const fn state(&self) -> &LinkState {
        &self.state
    }

    /// The last server's answer to `hello`, also while there is no link.
    pub(super) const fn hello(&self) -> Option<&HelloReply> {
        self.hello.as_ref()
    }

    /// The server's answer to `hello`, while the link is up.
    pub(super) fn online(&self) -> Option<&HelloReply> {
        match self.state {
            LinkState::Online { .. } => self.hello.as_ref(),
            LinkState::Connecting
            | LinkState::Greeting
            | LinkState::Waiting { .. }
            | LinkState::Refused(_) => None,
        }
    }

    /// Tells whether frames can come: the connection is open and was not given up.
    pub(super) fn is_open(&self) -> bool {
        self.socket == Socket::Open
    }

    pub(super) fn start(&mut self, now: MonoMillis, out: &mut Outbox) {
        if self.socket == Socket::Unused {
            self.connect(now, out);
        }
    }

    /// The user wants a link now.
    pub(super) fn reconnect(&mut self, now: MonoMillis, out: &mut Outbox) {
        match (&self.state, self.socket) {
            (LinkState::Waiting { .. } | LinkState::Refused(_), Socket::Gone) => {
                self.connect(now, out);
            }
            (LinkState::Waiting { .. } | LinkState::Refused(_), Socket::Closing) => {
                let attempt = self.attempt.max(1);
                self.change(LinkState::Waiting { until: now, attempt }, out);
            }
            _ => {}
        }
    }

    /// A send has only seconds to find a link again: the next attempt comes as soon as the second
    /// one would.
    pub(super) fn hurry(&mut self, now: MonoMillis, out: &mut Outbox) {
        if let LinkState::Waiting { until, attempt } = self.state
            && attempt > 0
        {
            let until = until.min(self.hurried_at.max(self.not_before));
            self.change(LinkState::Waiting { until, attempt }, out);
            self.tick(now, out);
        }
    }

    pub(super) fn opened(&mut self, now: MonoMillis, out: &mut Outbox) {
        let Socket::Opening { .. } = self.socket else {
            return;
        };
        self.socket = Socket::Open;
        self.heard_at = now;
        self.change(LinkState::Greeting, out);
        let hello = HelloParams {
            protocol: vec![PROTOCOL_VERSION],
            client: self.config.client.clone(),
            client_instance: self.config.client_instance,
            token: self.config.token.clone(),
        };
        out.request(Purpose::Hello, &hello, now.plus(REPLY_TIMEOUT_MS), now);
    }

    /// The driver holds no connection any more.
    pub(super) fn closed(&mut self, now: MonoMillis, out: &mut Outbox) {
        match self.socket {
            Socket::Unused | Socket::Gone => {}
            Socket::Closing => self.socket = Socket::Gone,
            Socket::Opening { .. } | Socket::Open => {
                self.socket = Socket::Gone;
                self.wait(now, out);
            }
        }
    }

    /// Gives the connection up: it is silent, or useless.
    pub(super) fn give_up(&mut self, now: MonoMillis, out: &mut Outbox) {
        match self.socket {
            Socket::Unused | Socket::Gone | Socket::Closing => {}
            Socket::Opening { .. } | Socket::Open => {
                out.push(Output::Disconnect);
                self.socket = Socket::Closing;
                self.wait(now, out);
            }
        }
    }

    pub(super) const fn heard(&mut self, now: MonoMillis) {
        self.heard_at = now;
    }

    pub(super) fn greeted(
        &mut self,
        hello: HelloReply,
        round_trip_ms: u64,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        if hello.protocol != PROTOCOL_VERSION {
            let error = WireError::new(ErrorCode::ProtocolUnsupported, "unknown version chosen");
            return self.refused(error, now, out);
        }
        out.adopt_limits(&hello);
        self.online_since = Some(now);
        self.hello = Some(hello);
        self.ping_at = now.plus(self.heartbeat_ms());
        self.change(LinkState::Online { round_trip_ms: Some(round_trip_ms) }, out);
    }

    /// `hello` was answered with an error.
    pub(super) fn refused(&mut self, error: WireError, now: MonoMillis, out: &mut Outbox) {
        match error.code {
            ErrorCode::Unauthorized | ErrorCode::ProtocolUnsupported | ErrorCode::Forbidden => {
                out.push(Output::Disconnect);
                self.socket = Socket::Closing;
                self.change(LinkState::Refused(error), out);
            }
            // Whatever else a server says to `hello`, it may think otherwise later.
            _ => {
                let wait_ms = error.details.get("retry_after_ms");
                self.hold_off(wait_ms.and_then(serde_json::Value::as_u64).unwrap_or(0), now);
                self.give_up(now, out);
            }
        }
    }

    /// The next attempt waits at least this long.
    pub(super) fn hold_off(&mut self, wait_ms: u64, now: MonoMillis) {
        self.not_before = now.plus(wait_ms.min(BACKOFF_LONGEST_MS));
    }

    pub(super) fn measured(&mut self, round_trip_ms: u64, out: &mut Outbox) {
        if let LinkState::Online { .. } = self.state {
            let round_trip_ms = Some(round_trip_ms);
            self.change(LinkState::Online { round_trip_ms }, out);
        }
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: MonoMillis, out: &mut Outbox) {
        if self.due_at().is_none_or(|due| now < due) {
            return;
        }
        match self.state {
            LinkState::Connecting => self.give_up(now, out),
            LinkState::Online { .. } if now >= self.silent_at() => self.give_up(now, out),
            LinkState::Online { .. } => {
                self.ping_at = now.plus(self.heartbeat_ms());
                if !out.awaits(&Purpose::Ping) {
                    // Silence is judged by the heartbeat, not by what a reply may take.
                    let deadline = now.plus(self.silence_ms());
                    out.request(Purpose::Ping, &PingParams {}, deadline, now);
                }
            }
            LinkState::Waiting { .. } => self.connect(now, out),
            LinkState::Greeting | LinkState::Refused(_) => {}
        }
    }

    /// When [`Link::tick`] has something to do.
    pub(super) fn due_at(&self) -> Option<MonoMillis> {
        match (&self.state, self.socket) {
            (LinkState::Connecting, Socket::Opening { give_up_at }) => Some(give_up_at),
            (LinkState::Online { .. }, Socket::Open) => Some(self.ping_at.min(self.silent_at())),
            (LinkState::Waiting { until, .. }, Socket::Gone) => Some(*until),
            _ => None,
        }
    }

    fn connect(&mut self, now: MonoMillis, out: &mut Outbox) {
        self.socket = Socket::Opening { give_up_at: now.plus(CONNECT_TIMEOUT_MS) };
        out.push(Output::Connect);
        self.change(LinkState::Connecting, out);
    }

    fn wait(&mut self, now: MonoMillis, out: &mut Outbox) {
        let healthy = self.online_since.take().is_some_and(|since| now.since(since) >= HEALTHY_MS);
        self.attempt = if healthy { 1 } else { self.attempt.saturating_add(1) };
        let spread = self.spread.next_u32();
        let after = |attempt| {
            let wait = wait_before(attempt, spread);
            now.plus(u64::try_from(wait.as_millis()).unwrap_or(BACKOFF_LONGEST_MS))
        };
        self.hurried_at = after(self.attempt.min(HURRIED_ATTEMPT));
        let until = after(self.attempt).max(self.not_before);
        let attempt = self.attempt;
        self.change(LinkState::Waiting { until, attempt }, out);
    }

    fn heartbeat_ms(&self) -> u64 {
        let (shortest, longest) = HEARTBEAT_RANGE_MS;
        let wanted = self.hello.as_ref().map_or(longest, |h| h.heartbeat_ms);
        wanted.clamp(shortest, longest)
    }

    /// Silence up to here means that the link is dead: 2.5 heartbeats.
    fn silent_at(&self) -> MonoMillis {
        self.heard_at.plus(self.silence_ms())
    }

    fn silence_ms(&self) -> u64 {
        self.heartbeat_ms() * 5 / 2
    }

    fn change(&mut self, state: LinkState, out: &mut Outbox) {
        if self.state != state {
            self.state = state;
            out.event(Event::LinkChanged);
        }
    }
}

/// A small generator for spreading reconnects; nothing secret depends on it.
///
/// Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (2014).
struct SplitMix64(u64);

impl SplitMix64 {
    fn next_u32(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let [a, b, c, d, ..] = (mixed ^ (mixed >> 31)).to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }
}
