//! The newest events of one watched session.

use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;
use usher_shared::counter::MessageSeq;
use usher_shared::id::{MessageId, PermissionId};
use usher_shared::vocabulary::PermissionClosed;

use crate::dispatch::{Answer, Question};
use crate::domain::Event;
use crate::domain::message::Message;

/// Events that a session keeps for slow readers and for links that come back.
pub(super) const RING_EVENTS_MAX: usize = 4_096;
/// Bytes of text in those events.
const RING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One thing that watchers are told.
#[derive(Clone, Debug)]
pub enum Broadcast {
    /// Something that was committed.
    Event(Arc<Event>),
    /// Text that follows what a streaming message has; written in a moment.
    Delta {
        /// Which message.
        message_id: MessageId,
        /// Its number.
        seq: MessageSeq,
        /// Where the text belongs, bytes.
        offset: u64,
        /// The text.
        text: Arc<str>,
    },
    /// An agent asks.
    PermissionRequested(Question),
    /// A question is closed.
    PermissionResolved {
        /// Which.
        id: PermissionId,
        /// The answer, if there was one.
        answer: Option<Answer>,
        /// Why it is closed.
        reason: PermissionClosed,
    },
}

impl Broadcast {
    /// What it takes, about.
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Event(event) => match &**event {
                    Event::MessageWritten(message) => {
                        size_of::<Event>()
                            + size_of::<Message>()
                            + message.content.len()
                            + message.details.provenance.bytes()
                    }
                    _ => size_of::<Event>(),
                },
                Self::Delta { text, .. } => 16 + text.len(),
                Self::PermissionRequested(_) | Self::PermissionResolved { .. } => 1_024,
            }
    }
}

pub(super) struct Ring {
    /// Whether the session is gone: nobody is told any more.
    pub(super) ended: bool,
    /// The number of the newest event.
    pub(super) newest: u64,
    pub(super) events: VecDeque<Broadcast>,
    bytes: usize,
    pub(super) watchers: Vec<Arc<Notify>>,
    /// Since when nobody watches.
    pub(super) idle_since: Option<Instant>,
}

impl Ring {
    /// A ring without events, whose next one follows number `newest`.
    pub(super) fn after(newest: u64) -> Self {
        Self {
            ended: false,
            newest,
            events: VecDeque::new(),
            bytes: 0,
            watchers: Vec::new(),
            idle_since: None,
        }
    }

    /// What its events take, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets the older half of its events: links that have not read them fall out.
    pub(super) fn halve(&mut self) {
        let half = self.bytes / 2;
        while self.bytes > half && self.pop().is_some() {}
        self.events.shrink_to(2 * self.events.len());
        self.wake();
    }

    fn pop(&mut self) -> Option<Broadcast> {
        let old = self.events.pop_front()?;
        self.bytes -= old.bytes();
        Some(old)
    }

    /// Forgets the events that are kept.
    pub(super) fn clear(&mut self) {
        self.events = VecDeque::new();
        self.bytes = 0;
    }

    /// The number of the oldest event that is still kept, or of the next one.
    pub(super) fn oldest(&self) -> u64 {
        self.newest + 1 - self.events.len() as u64
    }

    pub(super) fn push(&mut self, broadcast: Broadcast) {
        self.newest += 1;
        self.bytes += broadcast.bytes();
        self.events.push_back(broadcast);
        while self.events.len() > RING_EVENTS_MAX || self.bytes > RING_BYTES_MAX {
            if self.pop().is_none() {
                break;
            }
        }
        self.wake();
    }

    pub(super) fn wake(&self) {
        for watcher in &self.watchers {
            watcher.notify_one();
        }
    }
}
