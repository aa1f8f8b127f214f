//! What all connections of a faulty link share.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::frame::Frame;
use super::link::{Carrier, Ends};
use super::record::{Record, Seen, Way};
use super::rule::{Do, Fate, Rule, refusal};
use crate::PATIENCE;

/// What becomes of new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Open,
    Shut,
    /// They are made and come to nothing.
    Hanging,
}

/// Whether anything moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Free,
    Stalled,
}

/// What a frame has met, and what follows.
pub(super) struct Verdict {
    pub(super) fate: Fate,
    pub(super) then: Vec<Do>,
}

/// See the module.
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    runtime: Handle,
    pub(super) door: watch::Sender<Door>,
    pub(super) flow: watch::Sender<Flow>,
}

#[derive(Default)]
struct State {
    record: Record,
    rules: Vec<(Rule, usize)>,
    links: Vec<Carrier>,
    opened: usize,
    held: Vec<Held>,
    delay: Duration,
    bytes_per_second: Option<u32>,
}

struct Held {
    link: usize,
    way: Way,
    frame: Frame,
}

impl Shared {
    pub(super) fn new(runtime: Handle) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            runtime,
            door: watch::Sender::new(Door::Open),
            flow: watch::Sender::new(Flow::Free),
        }
    }

    pub(super) fn add_rule(&self, rule: Rule) {
        self.lock().rules.push((rule, 0));
    }

    pub(super) fn see(&self, seen: Seen) {
        self.lock().record.0.push(seen);
        self.changed.notify_all();
    }

    pub(super) fn record(&self) -> Record {
        self.lock().record.clone()
    }

    pub(super) fn until(&self, what: &str, is: impl Fn(&Record) -> bool) -> Record {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.lock();
        loop {
            if is(&state.record) {
                return state.record.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let record = state.record.clone();
                drop(state);
                panic!("the link never saw {what}: {record:#?}");
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.expect("nobody panics while holding it").0;
        }
    }

    /// Takes a new connection in; returns its number.
    pub(super) fn opened(&self, carrier: impl FnOnce(usize) -> Carrier) -> usize {
        let mut state = self.lock();
        state.opened += 1;
        let number = state.opened;
        state.links.push(carrier(number));
        state.record.0.push(Seen::Opened { link: number });
        drop(state);
        self.changed.notify_all();
        number
    }

    /// A connection is over on both sides.
    pub(super) fn forget(&self, number: usize) {
        self.lock().links.retain(|link| link.number != number);
    }

    /// Decides what becomes of a frame.
    pub(super) fn meet(&self, link: usize, way: Way, text: Option<&str>) -> Verdict {
        let mut state = self.lock();
        if state.links.iter().any(|other| other.number == link && other.ends == Ends::Dead) {
            return Verdict { fate: Fate::Swallow, then: Vec::new() };
        }
        let mut verdict = Verdict { fate: Fate::Pass, then: Vec::new() };
        let mut is_taken = false;
        for (rule, count) in &mut state.rules {
            if !text.is_some_and(|text| rule.matching.takes_text(link, way, text)) {
                continue;
            }
            *count += 1;
            if !is_taken && rule.wants(*count) {
                is_taken = true;
                verdict = Verdict { fate: rule.fate.clone(), then: rule.then.clone() };
            }
        }
        verdict
    }

    /// Keeps a frame for later.
    pub(super) fn hold(&self, link: usize, way: Way, frame: Frame) {
        self.lock().held.push(Held { link, way, frame });
    }

    /// Answers a request of a client with an error.
    pub(super) fn forge(&self, link: usize, request: &str, fate: &Fate) {
        if let Fate::Refuse { code, details } = fate {
            let frame = Frame::of_server(&refusal(request, code, details));
            self.send_by_hand(link, Way::ToClient, frame, Fate::Forged);
        }
    }

    fn send_by_hand(&self, link: usize, way: Way, frame: Frame, fate: Fate) {
        let state = self.lock();
        if let Some(carrier) = state.links.iter().find(|carrier| carrier.number == link) {
            carrier.send(way, frame, fate);
        }
    }

    /// Nothing more comes this way; returns what that means for the other side.
    pub(super) fn ended(&self, link: usize, way: Way) -> Ends {
        let mut state = self.lock();
        let carrier = state.links.iter().find(|other| other.number == link);
        // Whoever was cut by us did not hang up.
        let Some(ends) = carrier.map(|carrier| carrier.ends) else {
            return Ends::Joined;
        };
        if ends != Ends::Apart(way) {
            state.record.0.push(Seen::Ended { link, way });
            self.changed.notify_all();
        }
        ends
    }

    pub(super) fn pace(&self) -> (Duration, Option<u32>) {
        let state = self.lock();
        (state.delay, state.bytes_per_second)
    }

    /// Does these things in order, those behind a pause on a task of its own.
    pub(super) fn carry_out(self: &Arc<Self>, steps: &[Do]) {
        for (index, step) in steps.iter().enumerate() {
            let Do::After(pause) = *step else {
                self.carry_out_one(*step);
                continue;
            };
            let (shared, rest) = (Arc::clone(self), steps[index + 1..].to_vec());
            self.runtime.spawn(async move {
                tokio::time::sleep(pause).await;
                shared.carry_out(&rest);
            });
            return;
        }
    }

    fn carry_out_one(&self, step: Do) {
        let mut state = self.lock();
        match step {
            Do::Cut => state.links.drain(..).for_each(|link| link.cut()),
            Do::CutClient => state.links.iter_mut().for_each(Carrier::cut_client),
            Do::CutServer => state.links.iter_mut().for_each(Carrier::cut_server),
            Do::Refuse => drop(self.door.send_replace(Door::Shut)),
            Do::BlackHole => {
                self.door.send_replace(Door::Hanging);
                state.links.iter_mut().for_each(|link| link.ends = Ends::Dead);
            }
            Do::Accept => drop(self.door.send_replace(Door::Open)),
            Do::Stall => drop(self.flow.send_replace(Flow::Stalled)),
            Do::Flow => drop(self.flow.send_replace(Flow::Free)),
            Do::Release => {
                for Held { link, way, frame } in std::mem::take(&mut state.held) {
                    if let Some(carrier) = state.links.iter().find(|other| other.number == link) {
                        carrier.send(way, frame, Fate::Released);
                    }
                }
            }
            Do::Delay(delay) => state.delay = delay,
            Do::Throttle(bytes_per_second) => state.bytes_per_second = Some(bytes_per_second),
            Do::FullSpeed => (state.delay, state.bytes_per_second) = (Duration::ZERO, None),
            Do::ForgetRules => state.rules.clear(),
            Do::After(_) => {}
        }
        state.record.0.push(Seen::Did(step));
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }
}
