//! Keeps the mirror of the open session subscribed: over reconnects, gaps and refusals.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::api::Event;
use super::bounds::SUBSCRIBE_AGAIN_MS;
use super::mirror::{Change, Mirror, Need, Place, Snapshot};
use super::outbox::{Answer, Outbox, Purpose};
use crate::counter::EventSeq;
use crate::error::{Advice, WireError};
use crate::id::{MessageId, SessionId};
use crate::limits::{BACKOFF_LONGEST_MS, REPLY_TIMEOUT_MS};
use crate::protocol::queue::QueueStatus;
use crate::protocol::session::{SubscribeParams, SubscribeReply, UnsubscribeParams};
use crate::protocol::transcript::{TranscriptPageParams, TranscriptPageReply};
use crate::protocol::turn::{
    EventStamp, PermissionRequested, SessionChanged, Stamped, StatusChanged, TranscriptMessage,
    notification,
};
use crate::time::MonoMillis;

/// What a subscription asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// What was missed, if the server still has it.
    AfterWhatIsKnown,
    /// A whole picture.
    Anew,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subscription {
    /// To be asked for as soon as there is a link and it is `at`.
    Wanted { start: Start, at: MonoMillis },
    /// Asked for.
    Asked { start: Start },
    /// Events come.
    Live,
}

impl Subscription {
    /// What the next subscription asks for if this one is lost: whoever needs a whole picture needs
    /// it over any link.
    const fn start(self) -> Start {
        match self {
            Self::Wanted { start, .. } | Self::Asked { start } => start,
            Self::Live => Start::AfterWhatIsKnown,
        }
    }
}

struct Opened {
    session_id: SessionId,
    /// Numbers the openings, so that a late answer to an earlier one is known as such.
    opening: u64,
    subscription: Subscription,
    mirror: Option<Mirror>,
    /// The unknown message a whole picture was last asked for; it is not asked for twice.
    unknown: Option<MessageId>,
    /// Where the subscription was last resumed. Events missing there again cannot be had.
    resumed_at: Option<EventSeq>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Watch {
    opened: Option<Opened>,
    openings: u64,
}

impl Watch {
    pub(super) fn mirror(&self) -> Option<&Mirror> {
        self.opened.as_ref()?.mirror.as_ref()
    }

    pub(super) fn open(
        &mut self,
        session_id: SessionId,
        online: bool,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        if let Some(opened) = self.opened.as_ref().filter(|o| o.session_id == session_id) {
            if opened.mirror.is_some() {
                out.event(Event::SessionOpened);
            }
            return;
        }
        self.close(online, now, out);
        self.openings += 1;
        self.opened = Some(Opened {
            session_id,
            opening: self.openings,
            subscription: Subscription::Wanted { start: Start::Anew, at: now },
            mirror: None,
            unknown: None,
            resumed_at: None,
        });
    }

    pub(super) fn close(&mut self, online: bool, now: MonoMillis, out: &mut Outbox) {
        let Some(opened) = self.opened.take() else {
            return;
        };
        let wanted = matches!(opened.subscription, Subscription::Wanted { .. });
        if online && !wanted && out.has_room() {
            let request = UnsubscribeParams { session_id: opened.session_id };
            let deadline = now.plus(REPLY_TIMEOUT_MS);
            out.request(Purpose::Unheeded, &request, deadline, now);
        }
    }

    /// The link is gone: the subscription with it.
    pub(super) fn link_lost(&mut self, now: MonoMillis) {
        if let Some(opened) = &mut self.opened {
            opened.want(opened.subscription.start(), now);
        }
    }

    /// Asks for what is wanted. Called while the link is up.
    pub(super) fn pump(&mut self, now: MonoMillis, out: &mut Outbox) {
        let Some(opened) = &mut self.opened else {
            return;
        };
        let Subscription::Wanted { start, at } = opened.subscription else {
            return;
        };
        if now < at || !out.has_room() {
            return;
        }
        let position = match start {
            Start::AfterWhatIsKnown => opened.mirror.as_ref().map(Mirror::position),
            Start::Anew => None,
        };
        let request = SubscribeParams {
            session_id: opened.session_id,
            after_event_seq: position.map(|(_, event_seq)| event_seq),
            epoch: position.map(|(epoch, _)| epoch),
        };
        let purpose = Purpose::Subscribe { opening: opened.opening };
        out.request(purpose, &request, now.plus(REPLY_TIMEOUT_MS), now);
        opened.subscription = Subscription::Asked { start };
    }

    pub(super) fn next_deadline(&self) -> Option<MonoMillis> {
        match self.opened.as_ref()?.subscription {
            Subscription::Wanted { at, .. } => Some(at),
            Subscription::Asked { .. } | Subscription::Live => None,
        }
    }

    pub(super) fn subscribed(
        &mut self,
        opening: u64,
        answer: Answer,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        let Some(opened) = self.opened.as_mut().filter(|o| o.opening == opening) else {
            return;
        };
        match answer {
            Answer::Reply(payload) => match serde_json::from_str(payload.get()) {
                Ok(reply) => opened.take_reply(reply, now, out),
                Err(_) => opened.want(Start::Anew, now.plus(SUBSCRIBE_AGAIN_MS)),
            },
            Answer::Lost => opened.want(Start::Anew, now.plus(SUBSCRIBE_AGAIN_MS)),
            Answer::Refused(error) if error.code.advice() == Advice::RetrySame => {
                let wait_ms = error.details.get("retry_after_ms");
                let wait_ms = wait_ms.and_then(serde_json::Value::as_u64).unwrap_or(0);
                let wait_ms = wait_ms.clamp(SUBSCRIBE_AGAIN_MS, BACKOFF_LONGEST_MS);
                opened.want(opened.subscription.start(), now.plus(wait_ms));
            }
            Answer::Refused(error) => self.refuse(error, out),
        }
    }

    fn refuse(&mut self, error: WireError, out: &mut Outbox) {
        self.opened = None;
        out.event(Event::SessionRefused(error));
    }

    /// Asks for the messages before the oldest one that is here.
    pub(super) fn load_older(&mut self, now: MonoMillis, out: &mut Outbox) {
        let Some(opened) = &self.opened else { return };
        let Some(mirror) = opened.mirror.as_ref().filter(|mirror| mirror.has_more()) else {
            return;
        };
        let purpose = Purpose::Older { opening: opened.opening };
        let Some(before_seq) = mirror.first_seq() else {
            return;
        };
        if out.awaits(&purpose) {
            return;
        }
        let request = TranscriptPageParams {
            session_id: opened.session_id,
            before_seq: Some(before_seq),
            after_seq: None,
            limit: None,
        };
        out.request(purpose, &request, now.plus(REPLY_TIMEOUT_MS), now);
    }

    pub(super) fn older(&mut self, opening: u64, answer: Answer, out: &mut Outbox) {
        let Some(opened) = self.opened.as_mut().filter(|o| o.opening == opening) else {
            return;
        };
        let (Some(mirror), Answer::Reply(payload)) = (&mut opened.mirror, answer) else {
            return;
        };
        if let Ok(page) = serde_json::from_str::<TranscriptPageReply>(payload.get()) {
            mirror.prepend(page.messages, page.has_more, out);
        }
    }

    /// Takes a status that was read for another reason.
    pub(super) fn saw_status(&mut self, status: &QueueStatus, out: &mut Outbox) {
        let opened = self.opened.as_mut();
        if let Some(mirror) = opened.and_then(|opened| opened.mirror.as_mut())
            && mirror.session().id == status.session_id
        {
            mirror.take_status(status.clone(), out);
        }
    }

    /// Takes a notification if it is one of the open session.
    pub(super) fn notified(
        &mut self,
        action: &str,
        payload: &RawValue,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        let Some(opened) = &mut self.opened else {
            return;
        };
        let Some((session_id, place, change)) = read_change(action, payload) else {
            return;
        };
        let live = opened.subscription == Subscription::Live;
        if session_id != opened.session_id || !live {
            return;
        }
        let Some(mirror) = &mut opened.mirror else {
            return;
        };
        match mirror.apply(place, change, out) {
            Need::Nothing => {}
            Need::Missed if opened.resumed_at == Some(mirror.position().1) => {
                opened.want(Start::Anew, now);
            }
            Need::Missed => opened.want(Start::AfterWhatIsKnown, now),
            Need::Snapshot => opened.want(Start::Anew, now),
            Need::SnapshotFor(message_id) if opened.unknown == Some(message_id) => {}
            Need::SnapshotFor(message_id) => {
                opened.unknown = Some(message_id);
                opened.want(Start::Anew, now);
            }
        }
    }
}

impl Opened {
    fn want(&mut self, start: Start, at: MonoMillis) {
        self.subscription = Subscription::Wanted { start, at };
        if let Some(mirror) = &mut self.mirror {
            mirror.grow_stale();
        }
    }

    fn take_reply(&mut self, reply: SubscribeReply, now: MonoMillis, out: &mut Outbox) {
        let snapshot = match (reply.queue, reply.messages) {
            (Some(queue), Some(messages)) => Some(Snapshot {
                session: reply.session,
                queue,
                messages,
                has_more: reply.has_more,
                event_seq: reply.event_seq,
                epoch: reply.epoch,
            }),
            _ => None,
        };
        match (&mut self.mirror, snapshot) {
            (Some(mirror), Some(snapshot)) => mirror.replace(snapshot, out),
            (None, Some(snapshot)) => {
                self.mirror = Some(Mirror::new(snapshot));
                out.event(Event::SessionOpened);
            }
            (Some(mirror), None) if reply.resumed && mirror.position().0 == reply.epoch => {
                mirror.resume(out);
                self.resumed_at = Some(mirror.position().1);
            }
            // Neither a picture nor something to continue: not what was asked for.
            (_, None) => return self.want(Start::Anew, now.plus(SUBSCRIBE_AGAIN_MS)),
        }
        self.subscription = Subscription::Live;
    }
}

/// An event of which only the place matters.
#[derive(Deserialize)]
struct NotShown {}

/// Reads an event of a session: whose, where it stands, what it is. None: not one of these, or
/// not readable; a missing one is noticed by its number.
fn read_change(action: &str, payload: &RawValue) -> Option<(SessionId, Place, Change)> {
    fn stamped<T: DeserializeOwned>(
        payload: &RawValue,
        change: impl FnOnce(T) -> Change,
    ) -> Option<(SessionId, Place, Change)> {
        let read: Stamped<T> = serde_json::from_str(payload.get()).ok()?;
        let EventStamp { session_id, event_seq, epoch, first_event_seq } = read.stamp;
        let place = Place { epoch, first: first_event_seq.unwrap_or(event_seq), last: event_seq };
        Some((session_id, place, change(read.event)))
    }
    match action {
        notification::QUEUE_STATUS_CHANGED => {
            let read: StatusChanged = serde_json::from_str(payload.get()).ok()?;
            let last = read.status.event_seq;
            let place =
                Place { epoch: read.epoch, first: read.first_event_seq.unwrap_or(last), last };
            let session_id = read.status.session_id;
            Some((session_id, place, Change::Queue(Box::new(read.status))))
        }
        notification::TRANSCRIPT_MESSAGE => {
            let read: TranscriptMessage = serde_json::from_str(payload.get()).ok()?;
            let place = Place {
                epoch: read.epoch,
                first: read.first_event_seq.unwrap_or(read.event_seq),
                last: read.event_seq,
            };
            let session_id = read.message.session_id;
            Some((session_id, place, Change::Message(Box::new(read.message))))
        }
        notification::SESSION_CHANGED => {
            stamped(payload, |event: SessionChanged| Change::Session(Box::new(event.session)))
        }
        notification::TURN_STARTED => stamped(payload, Change::TurnStarted),
        notification::TURN_ENDED => stamped(payload, Change::TurnEnded),
        notification::TRANSCRIPT_DELTA => stamped(payload, Change::Delta),
        notification::PERMISSION_REQUESTED => stamped(payload, |event: PermissionRequested| {
            Change::PermissionRequested(event.permission)
        }),
        notification::PERMISSION_RESOLVED => stamped(payload, Change::PermissionResolved),
        // What the mirror does not show, such as plans: its number counts all the same.
        _ => stamped(payload, |NotShown {}| Change::NotShown),
    }
}
