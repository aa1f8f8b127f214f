//! Hands what happened to everybody who watches.
//!
//! Each watched session keeps its newest events in a ring, and each link keeps only a place in
//! it: a slow reader costs nothing and skips what a later event replaces; one that falls out of
//! the ring is cut off and resumes from a snapshot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use usher_shared::counter::{EventSeq, MessageSeq};
use usher_shared::id::{Epoch, MessageId, SessionId};
use usher_shared::limits::SUBSCRIPTIONS_MAX;

use super::live::{LiveText, LiveTexts};
use super::ring::{Broadcast, Ring};
use crate::clock::fresh_uuid;
use crate::domain::Event;

/// Sessions that nobody watches keep their ring while there are no more of them than this.
const IDLE_RINGS_MAX: usize = 1_024;
/// A ring that nobody watched for this long is forgotten: who comes back later starts over.
const IDLE_MAX: Duration = Duration::from_secs(180);
/// How often such rings are looked for.
const LOOK_FOR_IDLE: Duration = Duration::from_secs(30);
/// What the events of all rings together take, bytes: then the largest ring gives way.
const RINGS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a link missed since its place in the ring.
pub enum Missed {
    /// These, the first of which has number `first`.
    Events {
        /// The number of the first event.
        first: EventSeq,
        /// In order.
        events: Vec<Broadcast>,
    },
    /// The ring does not reach back that far.
    TooFarBehind,
    /// The session is gone.
    Ended,
}

/// Whether a link watched a session before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// It did not.
    Anew,
    /// It did.
    Already,
}

/// See the module.
pub struct Hub {
    epoch: Epoch,
    rings: Mutex<Rings>,
}

struct Rings {
    by_session: HashMap<SessionId, Ring>,
    /// Kept whether anybody watches or not: who comes in the middle needs what is not written yet.
    live: LiveTexts,
    /// What the events of all rings take.
    bytes: usize,
    /// No ring ever had a higher number: a ring that is made again starts above all it had.
    highest: u64,
}

impl Default for Hub {
    fn default() -> Self {
        Self::new()
    }
}

impl Hub {
    /// Makes the hub of one server start.
    pub fn new() -> Self {
        Self::of(Epoch::from_uuid(fresh_uuid()))
    }

    /// Makes the hub of the server start that has this name.
    pub fn of(epoch: Epoch) -> Self {
        Self {
            epoch,
            rings: Mutex::new(Rings {
                by_session: HashMap::new(),
                live: LiveTexts::default(),
                bytes: 0,
                highest: 0,
            }),
        }
    }

    /// Returns the epoch that all event numbers belong to.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether a link may watch a session beside those that it watches.
    pub fn may_watch(&self, session: SessionId, wake: &Arc<Notify>) -> bool {
        let rings = self.lock();
        let watches = |ring: &Ring| ring.watchers.iter().any(|watcher| Arc::ptr_eq(watcher, wake));
        rings.by_session.get(&session).is_some_and(watches)
            || rings.by_session.values().filter(|ring| watches(ring)).count() < SUBSCRIPTIONS_MAX
    }

    /// Starts watching a session: `wake` is notified of every event after the returned place. The
    /// text that streams right now comes with it, and whether it was watched before.
    pub fn watch(
        &self,
        session: SessionId,
        wake: &Arc<Notify>,
    ) -> (EventSeq, Option<LiveText>, Watched) {
        let mut rings = self.lock();
        rings.forget_idle();
        // A new ring leaves a number out: a place in an earlier ring of the session, which may
        // have missed something since, is below all that this one can resume from.
        let start = rings.highest + 1;
        if !rings.by_session.contains_key(&session) {
            rings.highest = start;
        }
        let ring = rings.by_session.entry(session).or_insert_with(|| Ring::after(start));
        let before = match ring.watchers.iter().any(|watcher| Arc::ptr_eq(watcher, wake)) {
            true => Watched::Already,
            false => {
                ring.watchers.push(Arc::clone(wake));
                Watched::Anew
            }
        };
        ring.idle_since = None;
        let newest = ring.newest;
        (EventSeq::new(newest), rings.live.get(session).cloned(), before)
    }

    /// Returns the number of a session's newest event; 0 if nobody watched it lately.
    pub fn newest(&self, session: SessionId) -> EventSeq {
        let newest = self.lock().by_session.get(&session).map_or(0, |ring| ring.newest);
        EventSeq::new(newest)
    }

    /// Stops watching a session; tells whether it was watched.
    pub fn unwatch(&self, session: SessionId, wake: &Arc<Notify>) -> bool {
        let mut rings = self.lock();
        let Some(ring) = rings.by_session.get_mut(&session) else {
            return false;
        };
        let watchers = ring.watchers.len();
        ring.watchers.retain(|watcher| !Arc::ptr_eq(watcher, wake));
        let watched = ring.watchers.len() < watchers;
        if ring.watchers.is_empty() {
            ring.idle_since = Some(Instant::now());
            if ring.ended {
                rings.by_session.remove(&session);
            }
        }
        watched
    }

    /// Forgets the rings that nobody watches for long, for as long as the server runs.
    pub(super) async fn forget_idle(&self) {
        loop {
            tokio::time::sleep(LOOK_FOR_IDLE).await;
            self.forget_idle_at(Instant::now());
        }
    }

    fn forget_idle_at(&self, now: Instant) {
        self.lock().forget(|ring| {
            ring.idle_since.is_some_and(|since| now.duration_since(since) >= IDLE_MAX)
        });
    }

    /// Ends everything that is told of a session: it is gone.
    pub fn end(&self, session: SessionId) {
        let mut rings = self.lock();
        let rings = &mut *rings;
        rings.live.forget(session);
        let Some(ring) = rings.by_session.get_mut(&session) else {
            return;
        };
        rings.bytes -= ring.bytes();
        ring.clear();
        if ring.watchers.is_empty() {
            rings.by_session.remove(&session);
            return;
        }
        ring.ended = true;
        ring.wake();
    }

    /// Returns what a watched session's link missed after `place`, at most `max` events.
    pub fn missed(&self, session: SessionId, place: EventSeq, max: usize) -> Missed {
        let rings = self.lock();
        let Some(ring) = rings.by_session.get(&session) else {
            return Missed::TooFarBehind;
        };
        if ring.ended {
            return Missed::Ended;
        }
        let first = place.get() + 1;
        if first < ring.oldest() || place.get() > ring.newest {
            return Missed::TooFarBehind;
        }
        let skip = usize::try_from(first - ring.oldest()).unwrap_or(usize::MAX);
        let events = ring.events.iter().skip(skip).take(max).cloned().collect();
        Missed::Events { first: EventSeq::new(first), events }
    }

    /// Tells whether a session has a ring.
    pub(super) fn is_watched(&self, session: SessionId) -> bool {
        self.lock().by_session.contains_key(&session)
    }

    /// Lets every watcher fall out of its ring: what happened is not known.
    pub(super) fn start_over(&self) {
        let mut rings = self.lock();
        let mut highest = rings.highest;
        for ring in rings.by_session.values_mut() {
            ring.newest += 1;
            ring.clear();
            highest = highest.max(ring.newest);
            ring.wake();
        }
        rings.highest = highest;
        rings.bytes = 0;
    }

    /// Tells the watchers of a committed event.
    pub fn event(&self, session: SessionId, event: Event) {
        self.tell(session, Broadcast::Event(Arc::new(event)));
    }

    /// Tells the watchers of more text, which is written in a moment.
    pub fn delta(
        &self,
        session: SessionId,
        message_id: MessageId,
        seq: MessageSeq,
        offset: u64,
        text: &str,
    ) {
        self.tell(session, Broadcast::Delta { message_id, seq, offset, text: Arc::from(text) });
    }

    /// Tells the watchers. Sessions that nobody watched lately have none.
    pub fn tell(&self, session: SessionId, broadcast: Broadcast) {
        let mut rings = self.lock();
        let rings = &mut *rings;
        rings.live.note(session, &broadcast);
        let ring = rings.by_session.get_mut(&session).filter(|ring| !ring.ended);
        let Some(ring) = ring else {
            return;
        };
        rings.bytes -= ring.bytes();
        ring.push(broadcast);
        rings.bytes += ring.bytes();
        rings.highest = rings.highest.max(ring.newest);
        rings.give_way();
    }
}

impl Rings {
    /// Forgets rings that nobody watches when there are too many of them.
    fn forget_idle(&mut self) {
        if self.by_session.len() > IDLE_RINGS_MAX {
            self.forget(|ring| ring.watchers.is_empty());
        }
    }

    fn forget(&mut self, is_forgotten: impl Fn(&Ring) -> bool) {
        let Self { by_session, bytes, .. } = self;
        by_session.retain(|_, ring| {
            let forgotten = is_forgotten(ring);
            if forgotten {
                *bytes -= ring.bytes();
            }
            !forgotten
        });
    }

    /// Makes room if all rings together have too much: the largest forgets its older half.
    fn give_way(&mut self) {
        while self.bytes > RINGS_BYTES_MAX {
            let Some(largest) = self.by_session.values_mut().max_by_key(|ring| ring.bytes()) else {
                return;
            };
            self.bytes -= largest.bytes();
            largest.halve();
            self.bytes += largest.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use usher_shared::vocabulary::{MessageStatus, Role};
    use uuid::Uuid;

    use super::*;
    use crate::net::ring::RING_EVENTS_MAX;

    fn session(n: u128) -> SessionId {
        SessionId::from_uuid(Uuid::from_u128(n))
    }

    fn missed(hub: &Hub, place: EventSeq) -> Option<(u64, usize)> {
        match hub.missed(session(0), place, usize::MAX) {
            Missed::Events { first, events } => Some((first.get(), events.len())),
            Missed::TooFarBehind | Missed::Ended => None,
        }
    }

    #[test]
    fn a_session_that_is_gone_tells_its_watchers_once_and_is_forgotten_with_the_last() {
        let hub = Hub::new();
        let wake = Arc::new(Notify::new());
        let (place, ..) = hub.watch(session(0), &wake);
        hub.event(session(0), Event::QueueChanged);
        hub.end(session(0));
        hub.event(session(0), Event::QueueChanged);
        assert!(matches!(hub.missed(session(0), place, usize::MAX), Missed::Ended));
        hub.unwatch(session(0), &wake);
        assert!(hub.lock().by_session.is_empty());
    }

    #[test]
    fn a_link_finds_what_it_missed_in_order() {
        let hub = Hub::new();
        let wake = Arc::new(Notify::new());
        let (place, ..) = hub.watch(session(0), &wake);
        assert_eq!(missed(&hub, place), Some((place.get() + 1, 0)));
        hub.event(session(0), Event::QueueChanged);
        hub.event(session(1), Event::QueueChanged);
        hub.event(session(0), Event::SessionChanged);
        assert_eq!(missed(&hub, place), Some((place.get() + 1, 2)));
        assert_eq!(missed(&hub, place.next()), Some((place.get() + 2, 1)));
        assert_eq!(missed(&hub, EventSeq::new(place.get() + 3)), None, "from the future");
    }

    #[test]
    fn a_slow_link_falls_out_of_the_ring() {
        let hub = Hub::new();
        let (place, ..) = hub.watch(session(0), &Arc::new(Notify::new()));
        for _ in 0..RING_EVENTS_MAX {
            hub.event(session(0), Event::QueueChanged);
        }
        assert_eq!(missed(&hub, place), Some((place.get() + 1, RING_EVENTS_MAX)));
        hub.event(session(0), Event::QueueChanged);
        assert_eq!(missed(&hub, place), None);
    }

    #[test]
    fn all_rings_together_have_a_bound_and_who_keeps_up_loses_nothing() {
        let hub = Hub::new();
        let wake = Arc::new(Notify::new());
        let sessions = 60;
        let mut places: Vec<_> = (0..sessions).map(|n| hub.watch(session(n), &wake).0).collect();
        let slow = places.clone();
        let text = "x".repeat(16 * 1024);
        for round in 0..250 {
            for (n, place) in (0..).zip(&mut places) {
                let message = MessageId::from_uuid(Uuid::nil());
                hub.delta(session(n), message, MessageSeq::new(1), round, &text);
                match hub.missed(session(n), *place, usize::MAX) {
                    Missed::Events { events, .. } => assert_eq!(events.len(), 1),
                    Missed::TooFarBehind | Missed::Ended => panic!("{n} fell out"),
                }
                *place = place.next();
            }
        }
        let rings = hub.lock();
        let kept: usize = rings.by_session.values().map(Ring::bytes).sum();
        assert_eq!(kept, rings.bytes);
        assert!(kept <= RINGS_BYTES_MAX && kept > RINGS_BYTES_MAX / 2, "{kept}");
        drop(rings);
        for (n, place) in (0..).zip(slow) {
            assert!(matches!(hub.missed(session(n), place, 1), Missed::TooFarBehind));
            hub.end(session(n));
        }
        assert_eq!(hub.lock().bytes, 0);
    }

    #[test]
    fn a_ring_that_nobody_watches_is_forgotten_after_some_minutes() {
        let hub = Hub::new();
        let wake = Arc::new(Notify::new());
        for n in 0..3 {
            hub.watch(session(n), &wake);
            hub.event(session(n), Event::QueueChanged);
        }
        let (start, forgotten) = (Instant::now(), |hub: &Hub| hub.lock().by_session.is_empty());
        hub.unwatch(session(0), &wake);
        hub.unwatch(session(1), &wake);
        hub.watch(session(1), &wake);
        hub.forget_idle_at(start);
        assert!(hub.is_watched(session(0)));
        hub.forget_idle_at(Instant::now() + IDLE_MAX);
        assert!(!hub.is_watched(session(0)) && hub.is_watched(session(1)));
        hub.unwatch(session(1), &wake);
        hub.unwatch(session(2), &wake);
        hub.forget_idle_at(Instant::now() + IDLE_MAX);
        assert!(forgotten(&hub));
        assert_eq!(hub.lock().bytes, 0);
    }

    #[test]
    fn what_happened_while_a_ring_was_forgotten_cannot_be_resumed_over() {
        let hub = Hub::new();
        let wake = Arc::new(Notify::new());
        let (place, ..) = hub.watch(session(0), &wake);
        hub.unwatch(session(0), &wake);
        for other in 1..=IDLE_RINGS_MAX as u128 + 1 {
            hub.watch(session(other), &wake);
        }
        hub.event(session(0), Event::QueueChanged);
        hub.watch(session(0), &wake);
        assert_eq!(missed(&hub, place), None);
    }

    #[test]
    fn who_comes_in_the_middle_gets_the_text_that_is_not_written_yet() {
        use usher_shared::id::IncarnationId;
        use usher_shared::time::UnixMillis;

        use crate::domain::message::{Message, MessageDetails};
        let hub = Hub::new();
        let message = Message {
            id: MessageId::from_uuid(Uuid::from_u128(9)),
            session_id: session(0),
            incarnation_id: IncarnationId::from_uuid(Uuid::nil()),
            seq: MessageSeq::new(1),
            turn_id: None,
            role: Role::Agent,
            content: Arc::from("one "),
            content_bytes: 4,
            status: MessageStatus::Streaming,
            details: MessageDetails::default(),
            created_at: UnixMillis::new(0),
        };
        let live = || hub.watch(session(0), &Arc::new(Notify::new())).1;
        hub.event(session(0), Event::MessageWritten(Box::new(message.clone())));
        hub.delta(session(0), message.id, message.seq, 4, "two");
        let expected = LiveText { message_id: message.id, text: "one two".to_owned(), bytes: 7 };
        assert_eq!(live(), Some(expected));
        let done = Message { status: MessageStatus::Complete, ..message };
        hub.event(session(0), Event::MessageWritten(Box::new(done)));
        assert_eq!(live(), None);
    }
}
