//! Where committed events go.

use std::sync::Arc;

use usher_shared::counter::MessageSeq;
use usher_shared::id::{MessageId, SessionId};

use super::hub::Hub;
use super::news::{Gone, News};
use crate::dispatch::{Dispatcher, TurnEnds};
use crate::domain::Event;
use crate::store::EventSink;

/// Gives committed events to the hub and to the dispatcher.
pub struct Sink {
    /// For those who watch.
    pub hub: Arc<Hub>,
    /// For those who run.
    pub dispatcher: Arc<Dispatcher>,
    /// For links, whatever they watch.
    pub news: Arc<News>,
    /// For those who wait until a turn has ended.
    pub ends: Arc<TurnEnds>,
}

impl EventSink for Sink {
    fn is_watched(&self, session: SessionId) -> bool {
        self.hub.is_watched(session)
    }

    fn grew(&self, session: SessionId, message: MessageId, seq: MessageSeq, at: u64, text: &str) {
        self.hub.delta(session, message, seq, at, text);
    }

    fn missed_some(&self) {
        self.hub.start_over();
    }

    fn lost_lease(&self) {
        self.dispatcher.abandon();
    }

    fn publish(&self, session: SessionId, event: Event) {
        self.dispatcher.take(session, &event);
        if matches!(event, Event::TurnEnded { .. }) {
            self.ends.note();
        }
        match event {
            Event::TurnReserved(_) | Event::StopAsked(_) | Event::MayStart => {}
            Event::TaskChanged(task) => self.news.note(task),
            Event::EditLost(lost) => self.news.note_lost(session, lost),
            Event::TaskGone(task, owner) => self.news.note_gone(owner, Gone::Task(task)),
            Event::SessionGone(task, owner) => {
                self.news.note_gone(owner, Gone::Session(task, session));
            }
            Event::Hidden | Event::Deleted => self.hub.end(session),
            Event::QueueChanged
            | Event::SessionChanged
            | Event::PlanChanged
            | Event::TurnStarted(_)
            | Event::TurnEnded { .. }
            | Event::MessageWritten(_) => self.hub.event(session, event),
        }
    }
}
