//! What a history is made of: calls, their answers, and when both happened.

use std::fmt;

/// Links of a history.
pub(crate) const LINKS: usize = 4;

/// Something that is asked of the server, or done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Unlike that of any other call of the history. An admission names its entry by it, a begin
    /// its lease.
    pub(crate) number: u32,
    /// On which link.
    pub(crate) link: usize,
    pub(crate) ask: Ask,
}

impl Call {
    fn is_on_a_link(&self) -> bool {
        !matches!(self.ask, Ask::Advance { .. })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Begin {
        entry: u32,
    },
    Renew {
        entry: u32,
        lease: u32,
    },
    Save {
        entry: u32,
        lease: u32,
        operation: u32,
        expected: u64,
        content: String,
    },
    End {
        entry: u32,
        lease: u32,
        dispatch: bool,
    },
    Remove {
        entry: u32,
    },
    Merge {
        entry: u32,
    },
    SendNow {
        entry: u32,
    },
    Drain,
    AutoRun {
        on: bool,
    },
    Admit {
        content: String,
    },
    /// The link is cut, and made anew by the same client.
    Reconnect,
    /// The clock of leases goes on by this many milliseconds.
    Advance {
        millis: i64,
    },
}

/// What a call was answered with, in the history's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Begun {
        generation: u64,
        revision: u64,
        content: String,
    },
    Renewed {
        generation: u64,
        revision: u64,
    },
    Saved {
        revision: u64,
    },
    Merged {
        into: u32,
    },
    Drained {
        started: bool,
    },
    Switched {
        started: bool,
    },
    Admitted {
        content: String,
    },
    Folded {
        into: u32,
        content: String,
    },
    /// Done, and there is nothing to say about it.
    Done,
    /// Somebody holds the lease.
    Taken {
        holder_is_you: bool,
    },
    /// The entry is at this revision.
    Stale {
        revision: u64,
    },
    /// A turn is open.
    Busy,
    /// Refused with this code.
    Refused(&'static str),
    /// The link was cut before it was answered; it may not even have been received.
    Lost,
    /// Nothing that the protocol knows.
    Unknown(String),
}

/// A call with its answer. Times are places in the order of everything that the client side saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) call: Call,
    pub(crate) answer: Answer,
    pub(crate) invoked: u32,
    pub(crate) returned: u32,
    /// The queue's revision, if the answer tells it.
    pub(crate) queue_revision: Option<u64>,
}

impl Event {
    /// Tells whether it is known to have happened before the other one: it was over when that
    /// began, or it is before it on the same link.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        let on_links = [self, other].iter().all(|event| event.call.is_on_a_link());
        let same_link = on_links && self.call.link == other.call.link;
        (same_link && self.invoked < other.invoked) || self.returned < other.invoked
    }

    /// Tells whether nobody knows what became of an admission.
    pub(crate) fn is_lost_admission(&self) -> bool {
        matches!((&self.call.ask, &self.answer), (Ask::Admit { .. }, Answer::Lost))
    }
}

/// A link was told that its lease is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Loss {
    pub(crate) link: usize,
    pub(crate) lease: u32,
    pub(crate) reason: &'static str,
}

/// A loss, and when its link had read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) loss: Loss,
    pub(crate) read: u32,
}

/// A waiting entry as everybody sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) entry: u32,
    pub(crate) content: String,
    pub(crate) revision: u64,
    pub(crate) is_edited: bool,
}

/// What is there when all is over and nothing goes on by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) entries: Vec<Shown>,
    pub(crate) auto_run: bool,
    /// Why the head of an idle session does not start.
    pub(crate) blocked: Option<String>,
    pub(crate) is_running: bool,
    /// The prompts of the transcript, in order.
    pub(crate) ran: Vec<String>,
    pub(crate) queue_revision: u64,
}

/// One session from its beginning to its last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct History {
    /// The entries that wait at first, by their names.
    pub(crate) begins_with: Vec<(u32, String)>,
    /// Every call of a round is over before the next round begins.
    pub(crate) rounds: Vec<Vec<Event>>,
    pub(crate) told: Vec<Told>,
    pub(crate) last: Look,
}

impl History {
    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.rounds.iter().flatten()
    }

    /// Returns what was told on the links that are there at last, in order.
    pub(crate) fn told_at_last(&self) -> Vec<Loss> {
        let is_old = |told: &&Told| {
            let cut = |event: &Event| {
                event.call.ask == Ask::Reconnect && event.call.link == told.loss.link
            };
            self.events().any(|event| cut(event) && told.read < event.invoked)
        };
        let told = self.told.iter().filter(|told| !is_old(told));
        let mut told: Vec<Loss> = told.map(|told| told.loss).collect();
        told.sort_unstable();
        told
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "begins with {:?}", self.begins_with)?;
        for (number, round) in self.rounds.iter().enumerate() {
            writeln!(f, "round {number}")?;
            for Event { call, answer, invoked, returned, .. } in round {
                let Call { number, link, ask } = call;
                writeln!(f, "  {invoked:>3}..{returned:<3} link {link}: {number} {ask:?}")?;
                writeln!(f, "             {answer:?}")?;
            }
        }
        for Told { loss, read } in &self.told {
            writeln!(f, "  {read:>3} {loss:?}")?;
        }
        write!(f, "ends with {:?}", self.last)
    }
}
