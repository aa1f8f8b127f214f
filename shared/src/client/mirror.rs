//! The client's picture of the open session.
//!
//! Everything in it came from the server. It takes an event only where it belongs: statuses of
//! older revisions and of other incarnations are dropped, text is placed by message and byte
//! offset, a missing event is noticed by its number. What may come twice or late (a coalesced
//! frame can overtake another) is taken so that it cannot do harm.

use super::api::Event;
use super::bounds::MIRROR_CONTENT_BYTES_MAX;
use super::outbox::Outbox;
use crate::counter::{EventSeq, MessageSeq};
use crate::id::{Epoch, MessageId};
use crate::limits::{MESSAGE_CONTENT_BYTES_MAX, MIRROR_MESSAGES_MAX};
use crate::prompt::cut_at_char;
use crate::protocol::queue::QueueStatus;
use crate::protocol::session::{Permission, Session};
use crate::protocol::transcript::{Message, MessageStatus};
use crate::protocol::turn::{PermissionResolved, TranscriptDelta, TurnEnded, TurnStarted};

/// Whether the mirror shows the present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Events apply as they happen.
    Live,
    /// The link is gone or events were missed: this is how it was.
    Stale,
}

/// A session as the client knows it.
#[derive(Clone, Debug)]
pub struct Mirror {
    session: Session,
    queue: QueueStatus,
    messages: Vec<Message>,
    has_more: bool,
    freshness: Freshness,
    epoch: Epoch,
    event_seq: EventSeq,
    content_bytes: usize,
}

impl Mirror {
    /// The session.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// The queue.
    pub const fn queue(&self) -> &QueueStatus {
        &self.queue
    }

    /// The messages, ascending by `seq`, without gaps.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether older messages exist; [`super::Input::LoadOlder`] pages them in.
    pub const fn has_more(&self) -> bool {
        self.has_more
    }

    /// Whether this is the present.
    pub const fn freshness(&self) -> Freshness {
        self.freshness
    }

    /// What a resumed subscription starts after.
    pub(super) const fn position(&self) -> (Epoch, EventSeq) {
        (self.epoch, self.event_seq)
    }
}

/// A whole picture, as a subscription answers it.
pub(super) struct Snapshot {
    pub(super) session: Session,
    pub(super) queue: QueueStatus,
    pub(super) messages: Vec<Message>,
    pub(super) has_more: bool,
    pub(super) event_seq: EventSeq,
    pub(super) epoch: Epoch,
}

/// One event of the open session, apart from its stamp.
#[derive(Debug)]
pub(super) enum Change {
    Queue(Box<QueueStatus>),
    Session(Box<Session>),
    Message(Box<Message>),
    Delta(TranscriptDelta),
    TurnStarted(TurnStarted),
    TurnEnded(TurnEnded),
    PermissionRequested(Permission),
    PermissionResolved(PermissionResolved),
    /// Something that the mirror has no place for.
    NotShown,
}

/// Where an event stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) epoch: Epoch,
    pub(super) first: EventSeq,
    pub(super) last: EventSeq,
}

/// What the mirror needs after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing.
    Nothing,
    /// The events it missed.
    Missed,
    /// A whole picture: what it has cannot be continued.
    Snapshot,
    /// The same, because this message is not known.
    SnapshotFor(MessageId),
}

impl Mirror {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        let mut mirror = Self {
            session: snapshot.session,
            queue: snapshot.queue,
            messages: Vec::new(),
            has_more: snapshot.has_more,
            freshness: Freshness::Live,
            epoch: snapshot.epoch,
            event_seq: snapshot.event_seq,
            content_bytes: 0,
        };
        mirror.merge(snapshot.messages);
        mirror
    }

    /// Takes a whole picture over an older one of the same session. Older messages that were
    /// paged in stay if the new ones continue them.
    pub(super) fn replace(&mut self, snapshot: Snapshot, out: &mut Outbox) {
        let first_new = snapshot.messages.first().map(|message| message.seq);
        let last_old = self.messages.last().map(|message| message.seq);
        let continues =
            first_new.is_some_and(|first| last_old.is_some_and(|last| first <= last.next()));
        if !continues {
            self.messages.clear();
            self.content_bytes = 0;
            self.has_more = snapshot.has_more;
        }
        self.session = snapshot.session;
        let other_life = snapshot.queue.session_incarnation_id != self.queue.session_incarnation_id;
        if snapshot.epoch != self.epoch || other_life || is_newer(&snapshot.queue, &self.queue) {
            self.queue = snapshot.queue;
        }
        self.epoch = snapshot.epoch;
        self.event_seq = snapshot.event_seq;
        self.freshness = Freshness::Live;
        self.merge(snapshot.messages);
        for event in [Event::SessionChanged, Event::QueueChanged, Event::TranscriptChanged] {
            out.event(event);
        }
    }

    /// The missed events follow, if there are any.
    pub(super) fn resume(&mut self, out: &mut Outbox) {
        self.freshness = Freshness::Live;
        // It may be that nothing else tells that this is the present again.
        out.event(Event::SessionChanged);
    }

    pub(super) const fn grow_stale(&mut self) {
        self.freshness = Freshness::Stale;
    }

    /// Takes older messages in front.
    pub(super) fn prepend(&mut self, messages: Vec<Message>, has_more: bool, out: &mut Outbox) {
        let last = messages.last().map(|message| message.seq);
        let first = self.messages.first().map(|message| message.seq);
        let adjoins = last.is_some_and(|last| first.is_some_and(|first| last.next() >= first));
        if adjoins || messages.is_empty() {
            self.has_more = has_more;
            self.merge(messages);
            out.event(Event::TranscriptChanged);
        }
    }

    /// Applies one event if it belongs here.
    pub(super) fn apply(&mut self, place: Place, change: Change, out: &mut Outbox) -> Need {
        if self.freshness == Freshness::Stale {
            // Whatever was asked for after the gap will include it.
            return Need::Nothing;
        }
        if place.epoch != self.epoch {
            return Need::Snapshot;
        }
        if place.first > self.event_seq.next() {
            return Need::Missed;
        }
        let is_new = place.last > self.event_seq;
        self.event_seq = self.event_seq.max(place.last);
        match change {
            Change::Queue(status) => self.take_status(*status, out),
            Change::Message(message) => self.take_message(*message, out),
            Change::Delta(delta) => return self.take_delta(&delta, out),
            // The rest has no order of its own: an old one would undo a newer one.
            _ if !is_new => {}
            Change::Session(session) => return self.take_session(*session, out),
            Change::PermissionRequested(permission) => {
                self.session.permission = Some(permission);
                out.event(Event::SessionChanged);
            }
            Change::PermissionResolved(resolved) => {
                let open = self.session.permission.as_ref();
                if open.is_some_and(|open| open.request_id == resolved.request_id) {
                    self.session.permission = None;
                    out.event(Event::SessionChanged);
                }
            }
            Change::NotShown => {}
            Change::TurnStarted(turn) => out.event(Event::TurnStarted(turn.turn_id)),
            Change::TurnEnded(turn) => out.event(Event::TurnEnded(turn)),
        }
        Need::Nothing
    }

    /// Takes a status if it is a newer one of the same life; from events and from reads alike.
    pub(super) fn take_status(&mut self, status: QueueStatus, out: &mut Outbox) {
        if status.session_incarnation_id != self.session.incarnation_id {
            return;
        }
        let other_life = status.session_incarnation_id != self.queue.session_incarnation_id;
        if other_life || is_newer(&status, &self.queue) {
            self.queue = status;
            out.event(Event::QueueChanged);
        }
    }

    fn take_session(&mut self, session: Session, out: &mut Outbox) -> Need {
        let other_life = session.incarnation_id != self.session.incarnation_id;
        self.session = session;
        out.event(Event::SessionChanged);
        if other_life && self.queue.session_incarnation_id != self.session.incarnation_id {
            // A status of the new life may have been dropped just before.
            return Need::Snapshot;
        }
        Need::Nothing
    }

    fn take_message(&mut self, message: Message, out: &mut Outbox) {
        let known = self.messages.binary_search_by_key(&message.seq, |m| m.seq);
        if let Ok(index) = known {
            let known = &self.messages[index];
            let goes_back = message.status == MessageStatus::Streaming
                && (known.status != MessageStatus::Streaming
                    || known.content.len() > message.content.len());
            if goes_back || *known == message {
                return;
            }
        }
        self.merge(vec![message]);
        out.event(Event::TranscriptChanged);
    }

    fn take_delta(&mut self, delta: &TranscriptDelta, out: &mut Outbox) -> Need {
        let Ok(index) = self.messages.binary_search_by_key(&delta.seq, |m| m.seq) else {
            return Need::SnapshotFor(delta.message_id);
        };
        let message = &mut self.messages[index];
        if message.id != delta.message_id {
            return Need::SnapshotFor(delta.message_id);
        }
        if message.content_truncated || message.status != MessageStatus::Streaming {
            return Need::Nothing;
        }
        let have = message.content.len();
        let Some(overlap) =
            usize::try_from(delta.offset).ok().and_then(|offset| have.checked_sub(offset))
        else {
            return Need::SnapshotFor(delta.message_id);
        };
        // An overlap that is longer than the text, or ends inside a character, adds nothing.
        let Some(new) = delta.text.get(overlap..).filter(|new| !new.is_empty()) else {
            return Need::Nothing;
        };
        let room = MESSAGE_CONTENT_BYTES_MAX.saturating_sub(have);
        let fits = cut_at_char(new, room);
        message.content_truncated = fits.len() < new.len();
        message.content.push_str(fits);
        self.content_bytes += fits.len();
        self.hold_bounds();
        out.event(Event::TranscriptChanged);
        Need::Nothing
    }

    /// Puts messages in their places; one that is there already is replaced.
    fn merge(&mut self, messages: Vec<Message>) {
        for message in messages {
            self.content_bytes += message.content.len();
            match self.messages.binary_search_by_key(&message.seq, |m| m.seq) {
                Ok(index) => {
                    self.content_bytes -= self.messages[index].content.len();
                    self.messages[index] = message;
                }
                Err(index) => self.messages.insert(index, message),
            }
        }
        self.hold_bounds();
    }

    /// Lets the oldest messages go when there are too many: they can be paged in again.
    fn hold_bounds(&mut self) {
        let over = |count: usize, bytes: usize| {
            count > MIRROR_MESSAGES_MAX || bytes > MIRROR_CONTENT_BYTES_MAX
        };
        if !over(self.messages.len(), self.content_bytes) {
            return;
        }
        // An eighth more than needed, so that the next message does not move them all again.
        let mut count = self.messages.len() / 8;
        let mut bytes = self.content_bytes;
        for message in &self.messages[..count] {
            bytes -= message.content.len();
        }
        while count + 1 < self.messages.len() && over(self.messages.len() - count, bytes) {
            bytes -= self.messages[count].content.len();
            count += 1;
        }
        self.messages.drain(..count);
        self.content_bytes = bytes;
        self.has_more = true;
    }

    /// The oldest message that is here.
    pub(super) fn first_seq(&self) -> Option<MessageSeq> {
        self.messages.first().map(|message| message.seq)
    }
}

/// Among equal revisions the later event decides.
fn is_newer(status: &QueueStatus, than: &QueueStatus) -> bool {
    (status.queue_revision, status.event_seq) > (than.queue_revision, than.event_seq)
}
