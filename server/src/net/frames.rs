//! Notification frames: what a link that watches is sent, with what later events replace left out.

use serde::Serialize;
use usher_shared::counter::EventSeq;
use usher_shared::id::{Epoch, SessionId};
use usher_shared::protocol::frame::{FrameKind, write_frame};
use usher_shared::protocol::queue::QueueStatus;
use usher_shared::protocol::session::Session;
use usher_shared::protocol::turn::{
    EventStamp, PermissionRequested, PermissionResolved, SessionChanged, Stamped, StatusChanged,
    TranscriptDelta, TranscriptMessage, TurnEnded, TurnStarted, notification,
};

use super::actions::Context;
use super::ring::Broadcast;
use super::wire;
use crate::domain::Event;
use crate::service::FindError;

/// Text of one delta frame that was joined from several.
const JOINED_BYTES_MAX: usize = 64 * 1024;

/// Where a frame stands, and which events before it it stands for.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    session_id: SessionId,
    epoch: Epoch,
    /// The first event that no earlier frame covered.
    first: u64,
    seq: u64,
}

impl Place {
    /// Returns the number of the frame's newest event.
    pub fn event_seq(self) -> EventSeq {
        EventSeq::new(self.seq)
    }

    fn first_event_seq(self) -> Option<EventSeq> {
        (self.first != self.seq).then(|| EventSeq::new(self.first))
    }

    fn stamped<T>(self, event: T) -> Stamped<T> {
        let stamp = EventStamp {
            session_id: self.session_id,
            event_seq: self.event_seq(),
            epoch: self.epoch,
            first_event_seq: self.first_event_seq(),
        };
        Stamped { stamp, event }
    }

    /// Writes the frame of a queue.
    pub fn queue(self, status: QueueStatus) -> String {
        let changed =
            StatusChanged { status, epoch: self.epoch, first_event_seq: self.first_event_seq() };
        notify(notification::QUEUE_STATUS_CHANGED, changed)
    }

    /// Writes the frame of a session.
    pub fn session(self, session: Session) -> String {
        notify(notification::SESSION_CHANGED, self.stamped(SessionChanged { session }))
    }
}

/// One thing to tell.
#[derive(Debug)]
pub enum Told {
    /// This.
    Frame(String),
    /// The queue, as it is when this is sent.
    Queue(Place),
    /// The session, as it is when this is sent.
    Session(Place),
    /// The plan, as it is when this is sent.
    Plan(Place),
}

/// Writes a notification.
pub(super) fn notify(action: &str, payload: impl Serialize) -> String {
    write_frame(FrameKind::Notification, None, Some(action), payload)
        .expect("a notification is plain JSON")
}

/// Turns events into frames.
///
/// # Errors
/// If the session is gone for this caller, or cannot be read now.
pub(super) async fn frames(
    context: &Context,
    session: SessionId,
    first: EventSeq,
    events: &[Broadcast],
) -> Result<Vec<String>, FindError> {
    let mut frames = Vec::new();
    for told in told(session, context.hub.epoch(), first, events) {
        frames.push(match told {
            Told::Frame(frame) => frame,
            Told::Queue(place) => queue_frame(context, place).await?,
            Told::Session(place) => session_frame(context, place).await?,
            Told::Plan(place) => plan_frame(context, place).await?,
        });
    }
    Ok(frames)
}

/// Sorts events into what is told of them. The last one always has a frame, so that every number is
/// covered.
pub fn told(session: SessionId, epoch: Epoch, first: EventSeq, events: &[Broadcast]) -> Vec<Told> {
    let newest = |wanted: fn(&Event) -> bool| {
        events.iter().rposition(|one| matches!(one, Broadcast::Event(event) if wanted(event)))
    };
    let newest_queue = newest(|event| matches!(event, Event::QueueChanged));
    let newest_session = newest(|event| matches!(event, Event::SessionChanged));
    let newest_plan = newest(|event| matches!(event, Event::PlanChanged));
    let mut all = Vec::new();
    let mut place = Place { session_id: session, epoch, first: first.get(), seq: 0 };
    let mut joined: Option<TranscriptDelta> = None;
    for (index, broadcast) in events.iter().enumerate() {
        place.seq = first.get() + index as u64;
        let told = match broadcast {
            Broadcast::Delta { message_id, seq, offset, text } => {
                let delta = joined.get_or_insert_with(|| TranscriptDelta {
                    message_id: *message_id,
                    seq: *seq,
                    offset: *offset,
                    text: String::new(),
                });
                delta.text.push_str(text);
                if delta.text.len() < JOINED_BYTES_MAX
                    && events.get(index + 1).is_some_and(|next| continues(delta, next))
                {
                    continue;
                }
                let delta = joined.take().expect("a delta was just put there");
                Told::Frame(notify(notification::TRANSCRIPT_DELTA, place.stamped(delta)))
            }
            Broadcast::Event(event) => match &**event {
                Event::QueueChanged if Some(index) == newest_queue => Told::Queue(place),
                Event::SessionChanged if Some(index) == newest_session => Told::Session(place),
                Event::PlanChanged if Some(index) == newest_plan => Told::Plan(place),
                Event::TurnStarted(turn_id) => {
                    let started = TurnStarted { turn_id: *turn_id };
                    Told::Frame(notify(notification::TURN_STARTED, place.stamped(started)))
                }
                Event::TurnEnded { turn_id, outcome, reason, text } => {
                    let ended = TurnEnded {
                        turn_id: *turn_id,
                        outcome: *outcome,
                        reason: reason.map(wire::turn_reason),
                        text: text.clone(),
                    };
                    Told::Frame(notify(notification::TURN_ENDED, place.stamped(ended)))
                }
                Event::MessageWritten(message) => {
                    let written = TranscriptMessage {
                        message: wire::message(message),
                        event_seq: place.event_seq(),
                        epoch: place.epoch,
                        first_event_seq: place.first_event_seq(),
                    };
                    Told::Frame(notify(notification::TRANSCRIPT_MESSAGE, written))
                }
                // Replaced by a later one, or never told.
                Event::QueueChanged
                | Event::SessionChanged
                | Event::PlanChanged
                | Event::TaskChanged(_)
                | Event::EditLost(_)
                | Event::TaskGone(..)
                | Event::SessionGone(..)
                | Event::MayStart
                | Event::TurnReserved(_)
                | Event::StopAsked(_)
                | Event::Hidden
                | Event::Deleted => continue,
            },
            Broadcast::PermissionRequested(question) => {
                let asked = PermissionRequested { permission: wire::permission(question.clone()) };
                Told::Frame(notify(notification::PERMISSION_REQUESTED, place.stamped(asked)))
            }
            Broadcast::PermissionResolved { id, answer, reason } => {
                let resolved = PermissionResolved {
                    request_id: *id,
                    option_id: answer.as_ref().map(|answer| answer.option_id.clone()),
                    by: answer.as_ref().map(|answer| wire::user(&answer.by)),
                    reason: *reason,
                };
                Told::Frame(notify(notification::PERMISSION_RESOLVED, place.stamped(resolved)))
            }
        };
        all.push(told);
        place.first = place.seq + 1;
    }
    all
}

fn continues(delta: &TranscriptDelta, next: &Broadcast) -> bool {
    let Broadcast::Delta { message_id, offset, .. } = next else {
        return false;
    };
    *message_id == delta.message_id && *offset == delta.offset + delta.text.len() as u64
}

async fn queue_frame(context: &Context, place: Place) -> Result<String, FindError> {
    let view = context.service.watched_queue(context.caller.clone(), place.session_id).await?;
    Ok(place.queue(wire::status(view, place.event_seq(), &context.viewer())))
}

async fn session_frame(context: &Context, place: Place) -> Result<String, FindError> {
    let session = context.service.session(context.caller.clone(), place.session_id).await?;
    let question = context.service.questions().get(session.id);
    Ok(place.session(wire::session(&session, question)))
}

async fn plan_frame(context: &Context, place: Place) -> Result<String, FindError> {
    let view = context.service.watched_plan(context.caller.clone(), place.session_id).await?;
    Ok(notify(notification::PLAN_CHANGED, place.stamped(wire::plan(view))))
}
