//! The rules of edit leases, one call at a time, written from the design alone.
//!
//! What the server does by itself (it starts the head, a turn goes on, it looks for leases that
//! are over) are steps of their own: see [`State::steps`].

mod edits;
mod queue;
mod rules;

pub(crate) use rules::{Fault, Rules};

use std::collections::BTreeMap;

use crate::call::{Answer, Ask, Call, History, LINKS, Look, Loss, Shown};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Waiting,
    Reserved,
    Claimed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    name: u32,
    place: Place,
    content: String,
    revision: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lease {
    name: u32,
    /// None: its link is gone, and the entry is held.
    link: Option<usize>,
    expires_at: i64,
    until: i64,
    is_saved: bool,
    /// Name, content, the revision that it made.
    operations: Vec<(u32, String, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Turn {
    /// The entry can still go back to its place.
    Reserved,
    /// The agent may have the prompt.
    HandedOver,
    /// The agent has it, and asks.
    Running,
    /// It was told to stop, for what is claimed.
    Stopping,
}

/// Whether the head is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Start {
    /// Nothing has asked for that.
    Never,
    /// Something has changed; the rules leave it open.
    May,
    Must,
}

/// Everything that a session is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    now: i64,
    entries: Vec<Entry>,
    /// By entry, those that are over and that nobody has met since, too.
    leases: BTreeMap<u32, Lease>,
    generations: BTreeMap<u32, u64>,
    auto_run: bool,
    turn: Option<Turn>,
    start: Start,
    ran: Vec<String>,
    /// In order, of links that are still there.
    told: Vec<Loss>,
    /// What each link ever leased: only a fault looks at it.
    leased: [Vec<u32>; LINKS],
}

impl State {
    /// Returns where a history begins: parked.
    pub(crate) fn new(history: &History) -> Self {
        let waiting = |(name, content): &(u32, String)| Entry {
            name: *name,
            place: Place::Waiting,
            content: content.clone(),
            revision: 1,
        };
        Self {
            now: 0,
            entries: history.begins_with.iter().map(waiting).collect(),
            leases: BTreeMap::new(),
            generations: BTreeMap::new(),
            auto_run: false,
            turn: None,
            start: Start::Never,
            ran: Vec::new(),
            told: Vec::new(),
            leased: Default::default(),
        }
    }

    /// Does what is asked for.
    pub(crate) fn call(&mut self, call: &Call, rules: Rules) -> Answer {
        match &call.ask {
            Ask::Begin { entry } => self.begin(call, *entry, rules),
            Ask::Renew { entry, lease } => self.renew(call.link, *entry, *lease, rules),
            Ask::Save { entry, lease, operation, expected, content } => {
                let edit = (*operation, *expected, content);
                self.save(call.link, *entry, *lease, edit, rules)
            }
            Ask::End { entry, lease, dispatch } => {
                self.end(call.link, *entry, *lease, *dispatch, rules)
            }
            Ask::Remove { entry } => {
                let Some(index) = self.visible(*entry) else { return NOT_FOUND };
                self.lose(*entry, "removed", rules);
                self.entries.remove(index);
                self.may_start();
                Answer::Done
            }
            Ask::Merge { entry } => self.merge(*entry, rules),
            Ask::SendNow { entry } => self.send_now(*entry, rules),
            Ask::Drain => self.drain(rules),
            Ask::AutoRun { on } => {
                self.auto_run = *on;
                Answer::Switched { started: self.starts(rules) && self.reserve_head(rules) }
            }
            Ask::Admit { content } => self.admit(call.number, content, rules),
            Ask::Reconnect => self.reconnect(call.link, rules),
            Ask::Advance { millis } => {
                self.now += millis;
                Answer::Done
            }
        }
    }

    fn visible(&self, entry: u32) -> Option<usize> {
        let is_it = |known: &Entry| known.name == entry && known.place == Place::Waiting;
        self.entries.iter().position(is_it)
    }

    fn is_over(&self, lease: &Lease, rules: Rules) -> bool {
        match rules.fault {
            Some(Fault::ExpiryAnInstantLate) => self.now > lease.expires_at,
            _ => self.now >= lease.expires_at,
        }
    }

    /// The lease under which somebody edits an entry.
    fn live(&self, entry: u32, rules: Rules) -> Option<&Lease> {
        let lease = self.leases.get(&entry)?;
        (lease.link.is_some() && !self.is_over(lease, rules)).then_some(lease)
    }

    /// Whether nothing automatic may take an entry, and why.
    fn blocked(&self, entry: u32, rules: Rules) -> Option<&'static str> {
        let lease = self.leases.get(&entry).filter(|lease| !self.is_over(lease, rules))?;
        Some(if lease.link.is_some() { "head_editing" } else { "head_held" })
    }

    /// Ends what is there of an entry's lease, and tells its holder.
    fn lose(&mut self, entry: u32, reason: &'static str, rules: Rules) {
        let Some(lease) = self.leases.remove(&entry) else { return };
        let reason = match self.is_over(&lease, rules) {
            true if lease.expires_at >= lease.until => "held_too_long",
            true => "expired",
            false => reason,
        };
        if let Some(link) = lease.link {
            self.told.push(Loss { link, lease: lease.name, reason });
            self.told.sort_unstable();
        }
    }

    fn drain(&mut self, rules: Rules) -> Answer {
        if self.turn.is_some() {
            return Answer::Busy;
        }
        self.auto_run = true;
        Answer::Drained { started: self.reserve_head(rules) }
    }

    /// Takes the head, whoever edits it; false if nothing waits.
    fn reserve_head(&mut self, rules: Rules) -> bool {
        let Some(head) = self.head() else { return false };
        self.lose(head, "sent", rules);
        let index = self.visible(head).expect("the head waits");
        self.entries[index].place = Place::Reserved;
        self.turn = Some(Turn::Reserved);
        self.start = Start::Never;
        true
    }

    fn head(&self) -> Option<u32> {
        let head = self.entries.iter().find(|entry| entry.place == Place::Waiting);
        head.map(|entry| entry.name)
    }

    /// Whether the head would start by itself.
    fn starts(&self, rules: Rules) -> bool {
        let is_free = |head| {
            let fault = rules.fault == Some(Fault::StartOfAnEditedHead);
            fault || self.blocked(head, rules).is_none()
        };
        self.auto_run && self.turn.is_none() && self.head().is_some_and(is_free)
    }

    fn may_start(&mut self) {
        if self.auto_run && self.start == Start::Never {
            self.start = Start::May;
        }
    }

    /// Returns what may be next without a call.
    pub(crate) fn steps(&self, rules: Rules) -> Vec<Self> {
        let mut steps = Vec::new();
        let mut after = |step: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            step(&mut next);
            steps.push(next);
        };
        match self.turn {
            Some(Turn::Reserved) => after(&|next| next.turn = Some(Turn::HandedOver)),
            Some(Turn::HandedOver) => after(&|next| next.accept(Turn::Running)),
            Some(Turn::Running) => {}
            Some(Turn::Stopping) if self.has_reserved() => {
                after(&|next| next.accept(Turn::Stopping));
            }
            Some(Turn::Stopping) => after(&Self::stopped),
            None => {
                let asked = rules.passing || self.start != Start::Never;
                if asked && self.starts(rules) {
                    after(&|next| _ = next.reserve_head(rules));
                }
            }
        }
        // It was looked at in vain.
        if self.start == Start::May || (self.start == Start::Must && !self.starts(rules)) {
            after(&|next| next.start = Start::Never);
        }
        if rules.passing {
            for entry in self.over(rules) {
                after(&|next| next.lose(entry, "expired", rules));
            }
        }
        steps
    }

    /// Entries whose leases are over.
    fn over(&self, rules: Rules) -> Vec<u32> {
        let over = self.leases.iter().filter(|(_, lease)| self.is_over(lease, rules));
        over.map(|(entry, _)| *entry).collect()
    }

    fn has_reserved(&self) -> bool {
        self.entries.iter().any(|entry| entry.place == Place::Reserved)
    }

    /// The prompt moves from the queue into the transcript.
    fn accept(&mut self, turn: Turn) {
        let reserved = |entry: &mut Entry| entry.place == Place::Reserved;
        let entries = self.entries.extract_if(.., reserved);
        self.ran.extend(entries.map(|entry| entry.content));
        self.turn = Some(turn);
    }

    fn stopped(&mut self) {
        let claimed = |entry: &&mut Entry| entry.place == Place::Claimed;
        let claimed = self.entries.iter_mut().find(claimed);
        claimed.expect("it stops for one").place = Place::Reserved;
        self.turn = Some(Turn::Reserved);
    }

    /// Whether this is where everything stays, and looks like this.
    pub(crate) fn is_last(&self, look: &Look, told: &[Loss], rules: Rules) -> bool {
        let goes_on = matches!(self.turn, Some(turn) if turn != Turn::Running)
            || ((rules.passing || self.start == Start::Must) && self.starts(rules))
            || (rules.passing && !self.over(rules).is_empty());
        let shown = |entry: &Entry| Shown {
            entry: entry.name,
            content: entry.content.clone(),
            revision: entry.revision,
            is_edited: self.live(entry.name, rules).is_some(),
        };
        let blocked = self.head().filter(|_| self.auto_run && self.turn.is_none());
        let blocked = blocked.and_then(|head| self.blocked(head, rules)).map(str::to_owned);
        let expected = Look {
            entries: self.entries.iter().map(shown).collect(),
            auto_run: self.auto_run,
            blocked,
            is_running: self.turn.is_some(),
            ran: self.ran.clone(),
            queue_revision: look.queue_revision,
        };
        !goes_on && expected == *look && self.told == told
    }
}

const NOT_FOUND: Answer = Answer::Refused("entry_not_found");
const CONFLICT: Answer = Answer::Refused("edit_conflict");
