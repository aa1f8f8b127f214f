//! Links and their lanes: who is greeted, what waits, and how a link ends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::Notify;
use usher_server::domain::lease::LinkId;
use usher_server::net::wire;
use usher_shared::counter::EventSeq;
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::{ClientInstance, SessionId};
use usher_shared::limits::Limits;
use usher_shared::protocol::frame::{FrameKind, RequestFrame, write_frame};
use usher_shared::protocol::hello::{HelloParams, HelloReply, ServerInfo, capability};
use usher_shared::protocol::turn::{ServerDraining, notification};
use usher_shared::protocol::{PROTOCOL_VERSION, Request as _};

use super::{Due, Fact, LEASE_TTL_MS, Out, Server, store_id};
use crate::broken::Broken;
use crate::luck::About;
use crate::network::LinkNo;
use crate::schedule::Then;

/// The interval of the server's pings; two and a half of them without a word end a link.
const HEARTBEAT_MS: u64 = 15_000;
/// The close code of a link that another one of its client has replaced.
const REPLACED: u16 = 4_001;
/// The close code of a server that stops.
const AWAY: u16 = 1_001;

/// A request that waits for its turn.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) action: String,
    pub(crate) payload: String,
    pub(crate) mark: Option<Then>,
}

/// An answer, and what it changes about what the link watches.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) frame: String,
    pub(crate) watch: Option<(SessionId, Option<EventSeq>)>,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Request>,
    /// The request whose answer has not left.
    runs: Option<Request>,
}

pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) wake: Arc<Notify>,
    instance: Option<ClientInstance>,
    /// Numbers the hellos: the latest one of a client counts, on whichever link it came.
    hello: u64,
    pub(super) watched: BTreeMap<SessionId, EventSeq>,
    lanes: BTreeMap<SessionId, Lane>,
    heard_at: u64,
    /// It takes nothing more, and is gone when its lanes are empty.
    pub(super) is_ending: bool,
    /// The id of the hello that waits for the client's older link to be gone.
    greeting: Option<String>,
    pub(super) tell_is_due: bool,
}

/// The links of one start of the server.
#[derive(Default)]
pub(super) struct Links {
    pub(super) all: BTreeMap<LinkNo, Link>,
}

impl Links {
    pub(super) fn by_id(&self, id: LinkId) -> Option<LinkNo> {
        self.all.iter().find(|(_, link)| link.id == id).map(|(number, _)| *number)
    }

    /// Returns the link of a client's last hello before this one.
    fn before(&self, instance: ClientInstance, hello: u64) -> Option<LinkNo> {
        let of_client = self.all.iter().filter(|(_, link)| link.instance == Some(instance));
        let before = of_client.filter(|(_, link)| link.hello < hello);
        before.max_by_key(|(_, link)| link.hello).map(|(number, _)| *number)
    }

    /// Returns the link of a client's next hello after this one, and whether it is ending.
    fn after(&self, instance: ClientInstance, hello: u64) -> Option<(LinkNo, bool)> {
        let of_client = self.all.iter().filter(|(_, link)| link.instance == Some(instance));
        let after = of_client.filter(|(_, link)| link.hello > hello);
        after.min_by_key(|(_, link)| link.hello).map(|(number, link)| (*number, link.is_ending))
    }
}

impl Server {
    pub(super) fn link_mut(&mut self, link: LinkNo) -> Option<&mut Link> {
        self.up.as_mut()?.links.all.get_mut(&link)
    }

    /// A connection is open.
    pub(crate) fn opened(&mut self, link: LinkNo) {
        let (id, heard_at) = (Self::link_id(self.starts, link), self.now);
        let Some(up) = &mut self.up else { return };
        let fresh = Link {
            id,
            wake: Arc::new(Notify::new()),
            instance: None,
            hello: 0,
            watched: BTreeMap::new(),
            lanes: BTreeMap::new(),
            heard_at,
            is_ending: false,
            greeting: None,
            tell_is_due: false,
        };
        up.links.all.insert(link, fresh);
        self.later(HEARTBEAT_MS, Due::Beat(link));
    }

    pub(super) fn beat(&mut self, link: LinkNo) {
        let now = self.now;
        let Some(known) = self.link_mut(link).filter(|known| !known.is_ending) else { return };
        if now - known.heard_at >= HEARTBEAT_MS * 5 / 2 {
            return self.end_link(link, None);
        }
        self.out.push(Out::Ping(link));
        self.later(HEARTBEAT_MS, Due::Beat(link));
    }

    /// Something of the transport came.
    pub(crate) fn heard(&mut self, link: LinkNo) {
        let now = self.now;
        if let Some(known) = self.link_mut(link) {
            known.heard_at = now;
        }
    }

    /// A text frame came.
    pub(crate) fn frame(&mut self, link: LinkNo, text: &str, mark: Option<Then>) {
        self.heard(link);
        let draining = self.up.as_ref().is_some_and(|up| up.draining);
        let Some(known) = self.link_mut(link).filter(|known| !known.is_ending) else { return };
        let frame = RequestFrame::parse(text).expect("clients send requests");
        let request = Request {
            id: frame.id.to_string(),
            action: frame.action.to_string(),
            payload: frame.payload.to_owned(),
            mark,
        };
        if request.action == HelloParams::ACTION {
            return self.hello(link, &request);
        }
        assert!(known.instance.is_some() && known.greeting.is_none(), "hello comes first");
        if draining {
            let error = WireError::new(ErrorCode::ShuttingDown, "the server stops");
            return self.send(link, error_frame(&request, &error.with("retry_after_ms", 1_000)));
        }
        let lane = lane_of(&request);
        known.lanes.entry(lane).or_default().waiting.push_back(request);
        self.begin(link, lane);
    }

    fn hello(&mut self, link: LinkNo, request: &Request) {
        let hello: HelloParams = wire::parse(&request.payload).expect("clients say hello right");
        self.works += 1;
        let number = self.works;
        let Some(known) = self.link_mut(link) else { return };
        (known.instance, known.hello) = (Some(hello.client_instance), number);
        known.greeting = Some(request.id.clone());
        let older = self.up.as_ref().and_then(|up| up.links.before(hello.client_instance, number));
        match older.filter(|_| !self.rules.are(Broken::OldLinkGoesOn)) {
            // It is answered when what the older link had received is finished.
            Some(older) => self.end_link(older, Some(REPLACED)),
            None => self.greet(link),
        }
    }

    fn greet(&mut self, link: LinkNo) {
        let (starts, caller) = (self.starts, self.rules.caller.clone());
        let Some(known) = self.link_mut(link) else { return };
        let (Some(id), Some(instance)) = (known.greeting.take(), known.instance) else { return };
        self.facts.push(Fact::Greeted(instance, link));
        let server = ServerInfo {
            name: "usherd".to_owned(),
            version: "1".to_owned(),
            epoch: Self::epoch(starts),
            store_id: store_id(),
        };
        let mut capabilities =
            vec![capability::EDIT_LEASES.to_owned(), capability::AUTO_RUN.to_owned()];
        if self.says_receipts {
            capabilities.push(capability::ADMISSION_RECEIPTS.to_owned());
        }
        let reply = HelloReply {
            protocol: PROTOCOL_VERSION,
            server,
            user: wire::user(&caller),
            capabilities,
            limits: Limits { lease_ttl_ms: LEASE_TTL_MS.unsigned_abs(), ..Limits::default() },
            heartbeat_ms: HEARTBEAT_MS,
        };
        let frame = write_frame(FrameKind::Response, Some(&id), Some(HelloParams::ACTION), reply);
        self.send(link, frame.expect("a greeting is plain JSON"));
    }

    /// Lets the first request of a lane run, if none does.
    fn begin(&mut self, link: LinkNo, lane: SessionId) {
        self.works += 1;
        let millis = self.luck.of(About::Work, self.works, 12);
        let Some(known) = self.link_mut(link).and_then(|known| known.lanes.get_mut(&lane)) else {
            return;
        };
        if known.runs.is_some() {
            return;
        }
        let Some(mut request) = known.waiting.pop_front() else { return };
        let stalls = match request.mark {
            Some(Then::StallBefore(lasts)) => {
                request.mark = None;
                u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX)
            }
            _ => 0,
        };
        known.runs = Some(request);
        self.later(millis + stalls, Due::Work(link, lane));
    }

    /// Does what the request that runs in a lane asks for.
    pub(super) fn work(&mut self, link: LinkNo, lane: SessionId) {
        let known = self.link_mut(link).and_then(|known| known.lanes.get_mut(&lane));
        let Some(mut request) = known.and_then(|lane| lane.runs.clone()) else { return };
        // What was to go wrong may have waited here until nothing goes wrong any more.
        request.mark = request.mark.filter(|_| !self.is_healed);
        if let Some(instance) = self.link_mut(link).and_then(|known| known.instance) {
            self.facts.push(Fact::Works(instance, link));
        }
        if let Some(up) = &mut self.up {
            up.trap = request.mark;
        }
        let Some(answer) = self.answer(link, &request) else {
            return self.out.push(Out::Crash);
        };
        let trap = self.up.as_mut().and_then(|up| up.trap.take());
        if matches!(trap, Some(Then::CrashBefore | Then::CrashAfter)) {
            // Answered too early, or it had nothing to write.
            if self.rules.are(Broken::ReplyBeforeCommit) {
                self.send(link, answer.frame);
            }
            return self.out.push(Out::Crash);
        }
        let stalls = match request.mark {
            Some(Then::StallAfter(lasts)) => u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
            _ => 0,
        };
        self.later(stalls, Due::Leaves(link, lane, Box::new(answer)));
    }

    /// The answer leaves, and the next request of the lane may run.
    pub(super) fn leaves(&mut self, link: LinkNo, lane: SessionId, answer: Answer) {
        let Some(known) = self.link_mut(link) else { return };
        if let Some(lane) = known.lanes.get_mut(&lane) {
            lane.runs = None;
        }
        let is_ending = known.is_ending;
        match answer.watch {
            Some((session, Some(place))) => {
                known.watched.insert(session, place);
            }
            Some((session, None)) => {
                known.watched.remove(&session);
            }
            None => {}
        }
        if !is_ending {
            self.send(link, answer.frame);
            self.wake(link);
        }
        self.begin(link, lane);
        self.finish_if_over(link);
    }

    /// The other side ended the connection.
    pub(crate) fn peer_gone(&mut self, link: LinkNo) {
        self.end_link(link, None);
    }

    /// Ends a link: what it had received whole takes effect, then it is gone.
    pub(super) fn end_link(&mut self, link: LinkNo, code: Option<u16>) {
        let Some(known) = self.link_mut(link).filter(|known| !known.is_ending) else { return };
        known.is_ending = true;
        self.out.push(Out::Close(link, code));
        self.finish_if_over(link);
    }

    fn finish_if_over(&mut self, link: LinkNo) {
        let idle = |lane: &Lane| lane.runs.is_none() && lane.waiting.is_empty();
        let over = |known: &Link| known.is_ending && known.lanes.values().all(idle);
        let waits = !self.rules.are(Broken::OldLinkGoesOn);
        let Some(up) = self.up.as_mut() else { return };
        let Some(known) = up.links.all.get(&link).filter(|known| over(known)) else { return };
        let older = known.instance.and_then(|instance| up.links.before(instance, known.hello));
        if waits && older.is_some() {
            return;
        }
        let Some(gone) = up.links.all.remove(&link) else { return };
        for session in gone.watched.keys() {
            up.hub.unwatch(*session, &gone.wake);
        }
        // A newer link of the same client may wait for this.
        let newer = gone.instance.and_then(|instance| up.links.after(instance, gone.hello));
        let newer = newer.filter(|_| waits);
        self.release_leases(gone.id);
        match newer {
            Some((newer, true)) => self.finish_if_over(newer),
            Some((newer, false)) => self.greet(newer),
            None => {}
        }
    }

    fn release_leases(&mut self, link: LinkId) {
        self.facts.push(Fact::LinkGone(link));
        if self.rules.are(Broken::LeaseOutlivesLink) {
            return;
        }
        for row in self.store.rows().to_vec() {
            let held = self.deciding().hold_edits(&row, |holder| holder == link);
            self.commit_own(held);
        }
    }

    pub(super) fn say_draining(&mut self) {
        let links: Vec<LinkNo> =
            self.up.iter().flat_map(|up| up.links.all.keys().copied()).collect();
        for link in links {
            let notice = ServerDraining { reconnect_after_ms: 1_000 };
            let action = Some(notification::SERVER_DRAINING);
            let frame = write_frame(FrameKind::Notification, None, action, notice);
            self.send(link, frame.expect("a notification is plain JSON"));
        }
    }

    /// Closes every link of a server that has stopped.
    pub(crate) fn say_goodbye(&mut self) {
        let links: Vec<LinkNo> =
            self.up.iter().flat_map(|up| up.links.all.keys().copied()).collect();
        for link in links {
            self.out.push(Out::Close(link, Some(AWAY)));
        }
    }

    pub(super) fn send(&mut self, link: LinkNo, frame: String) {
        self.out.push(Out::Send(link, frame));
    }
}

/// Requests of one session are handled in order; all others are in a lane of their own.
fn lane_of(request: &Request) -> SessionId {
    let named = request.payload.split_once("\"session_id\":\"");
    let id = named.and_then(|(_, rest)| rest.split_once('"')).map_or("", |(id, _)| id);
    SessionId::parse_or_nil(id)
}

pub(super) fn error_frame(request: &Request, error: &WireError) -> String {
    let (id, action) = (Some(request.id.as_str()), Some(request.action.as_str()));
    write_frame(FrameKind::Error, id, action, error).expect("an error is plain JSON")
}
