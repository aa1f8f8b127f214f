//! Questions before something is stopped, cleared or left: the same key again says yes, any other
//! key says no. And the short notices that go by themselves.

use usher_shared::counter::QueueRevision;
use usher_shared::id::TurnId;
use usher_shared::time::MonoMillis;

/// How long a question waits for its second key, milliseconds.
const ASK_MS: u64 = 5_000;
/// How long a notice stays, milliseconds.
const TOAST_MS: u64 = 8_000;

/// What is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Stop this turn.
    StopTurn(TurnId),
    /// Remove everything that waits.
    ClearQueue {
        /// The queue that the person saw.
        revision: QueueRevision,
        /// How much it held.
        count: u64,
    },
    /// Leave, although there are prompts that were not delivered yet.
    Leave {
        /// How many those are.
        undelivered: usize,
        /// How many of them are nowhere on disk.
        lost: usize,
    },
}

/// An open question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenAsk {
    pub(crate) ask: Ask,
    pub(crate) until: MonoMillis,
}

impl OpenAsk {
    pub(crate) fn new(ask: Ask, now: MonoMillis) -> Self {
        Self { ask, until: now.plus(ASK_MS) }
    }
}

/// A notice.
#[derive(Clone, Debug)]
pub(crate) struct Toast {
    /// Localized.
    pub(crate) text: String,
    /// How long it stays.
    pub(crate) stays: Stays,
}

/// How long a notice stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    /// Until then.
    Until(MonoMillis),
    /// Until something else happens.
    Long,
    /// The same, but not longer than there is a draft: it speaks of it.
    WithDraft,
}

impl Toast {
    /// A notice that goes by itself.
    pub(crate) fn passing(text: String, now: MonoMillis) -> Self {
        Self { text, stays: Stays::Until(now.plus(TOAST_MS)) }
    }

    /// A notice that stays until something else happens.
    pub(crate) fn lasting(text: String) -> Self {
        Self { text, stays: Stays::Long }
    }

    /// A notice about the draft.
    pub(crate) fn with_draft(text: String) -> Self {
        Self { text, stays: Stays::WithDraft }
    }

    /// When it goes by itself.
    pub(crate) fn until(&self) -> Option<MonoMillis> {
        match self.stays {
            Stays::Until(until) => Some(until),
            Stays::Long | Stays::WithDraft => None,
        }
    }
}
