//! Random requests. They are numbers that the state at their time gives a meaning to, so that
//! what is left of a shrunk sequence still makes sense.

use std::fmt;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::Union;
use serde_json::Value;

use crate::reference::{
    ATTACHMENTS_MAX, Ask, Call, Edit, Entry, File, Model, Offered, Prompt, Session, Standing,
};

/// Sessions of a sequence.
pub(crate) const SESSIONS: usize = 3;
/// Steps of a sequence.
pub(crate) const STEPS: std::ops::RangeInclusive<usize> = 1..=40;

/// How long a lease lives, milliseconds: no sequence takes so long.
pub(crate) const LEASE_TTL_MS: u64 = 3_600_000;

/// The number of a thing that does not exist.
const NOTHING: u32 = 0;

/// What happens in one step; when it is over, everything waits.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// One request.
    One(Link, Operation),
    /// Two on one link, the second without waiting for the answer of the first: it meets a turn
    /// that is only just reserved.
    Pipelined(Link, Operation, Operation),
    /// Two at once, each on a link of its own.
    Race(Operation, Operation),
}

/// Which of two links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    First,
    Second,
}

/// One request.
#[derive(Clone)]
pub(crate) struct Operation {
    session: usize,
    kind: Kind,
    pick: Index,
    choice: u8,
    prompt: &'static str,
    attached: Option<Vec<Attached>>,
}

/// An attachment that a request names.
#[derive(Clone, Debug)]
enum Attached {
    /// With its bytes.
    Inline,
    /// As many as almost fill a message.
    Many,
    /// An upload that nothing claimed.
    Staged(Index),
    /// What the edited entry carries already.
    Kept(Index),
    /// All of that.
    AllKept,
    /// Whatever there ever was: claimed, released, of another session, or nothing.
    Any(Index),
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Add,
    AddUnidentified,
    Replay,
    Get,
    Remove,
    Merge,
    Reorder,
    SendNow,
    SendAllNow,
    Clear,
    Restore,
    Drain,
    AutoRunOn,
    AutoRunOff,
    Cancel,
    Resolve,
    Respond,
    Reset,
    Transfer,
    /// Brings the task back if it is archived.
    Archive,
    Delete,
    Begin,
    Renew,
    Save,
    End,
    Disconnect,
    Upload,
    Abort,
}

/// The operations in play, and how often each is drawn.
const IN_PLAY: &[(u32, Kind)] = &[
    (30, Kind::Add),
    (4, Kind::AddUnidentified),
    (8, Kind::Replay),
    (3, Kind::Get),
    (10, Kind::Remove),
    (8, Kind::Merge),
    (8, Kind::Reorder),
    (10, Kind::SendNow),
    (4, Kind::SendAllNow),
    (4, Kind::Clear),
    (10, Kind::Restore),
    (8, Kind::Drain),
    (8, Kind::AutoRunOn),
    (8, Kind::AutoRunOff),
    (8, Kind::Cancel),
    (6, Kind::Resolve),
    (12, Kind::Respond),
    (5, Kind::Reset),
    (8, Kind::Transfer),
    (3, Kind::Archive),
    (1, Kind::Delete),
    (14, Kind::Begin),
    (3, Kind::Renew),
    (12, Kind::Save),
    (10, Kind::End),
    (3, Kind::Disconnect),
    (10, Kind::Upload),
    (3, Kind::Abort),
];

/// The prompts: what waits for an answer, what ends by itself, what ends badly.
const PROMPTS: &[&str] = &[
    "/demo ask",
    "/demo hang",
    "a",
    "/demo ask; say b",
    "c\n\n/demo say d",
    "/demo fail no luck",
    "/demo refuse",
    "/demo",
    " ",
    "",
];

/// Draws a sequence.
pub(crate) fn sequence() -> impl Strategy<Value = Vec<Step>> {
    let link = || prop_oneof![Just(Link::First), Just(Link::Second)];
    let one = (link(), 0..SESSIONS, operation())
        .prop_map(|(link, session, operation)| Step::One(link, operation.of(session)));
    let pipelined = (link(), 0..SESSIONS, operation(), operation()).prop_map(
        |(link, session, first, second)| {
            Step::Pipelined(link, first.of(session), second.of(session))
        },
    );
    let race = (0..SESSIONS, operation(), operation())
        .prop_map(|(session, first, second)| Step::Race(first.of(session), second.of(session)));
    let step = prop_oneof![8 => one, 1 => pipelined, 1 => race];
    let steps = prop::collection::vec(step, STEPS);
    // Where nothing starts by itself, more waits: there is something to merge, edit and move.
    (0..=SESSIONS, operation(), steps).prop_map(|(parked, park, steps)| {
        let park = Operation { kind: Kind::AutoRunOff, ..park };
        let park = |session| Step::One(Link::First, park.clone().of(session));
        (0..parked).map(park).chain(steps).collect()
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let kinds = IN_PLAY.iter().map(|(weight, kind)| (*weight, Just(*kind)));
    let kind = Union::new_weighted(kinds.collect());
    (kind, any::<Index>(), any::<u8>(), 0..PROMPTS.len(), attached()).prop_map(
        |(kind, pick, choice, prompt, attached)| Operation {
            session: 0,
            kind,
            pick,
            choice,
            prompt: PROMPTS[prompt],
            attached,
        },
    )
}

fn attached() -> impl Strategy<Value = Option<Vec<Attached>>> {
    let one = prop_oneof![
        6 => Just(Attached::Inline),
        1 => Just(Attached::Many),
        10 => any::<Index>().prop_map(Attached::Staged),
        4 => any::<Index>().prop_map(Attached::Kept),
        2 => Just(Attached::AllKept),
        5 => any::<Index>().prop_map(Attached::Any),
    ];
    prop_oneof![
        1 => Just(None),
        1 => prop::collection::vec(one, 0..=3).prop_map(Some),
    ]
}

impl Operation {
    fn of(self, session: usize) -> Self {
        Self { session, ..self }
    }

    /// Returns the same, but often on the session that this other one moves entries to.
    pub(crate) fn meeting(&self, other: &Self, model: &Model) -> Self {
        match other.call(0, Link::First, model).ask {
            Ask::Transfer { to, .. } if self.unusual(160) => self.clone().of(to),
            _ => self.clone(),
        }
    }

    /// Returns whether a choice with these odds, in 256, falls on the unusual side.
    fn unusual(&self, odds: u8) -> bool {
        self.choice < odds
    }

    /// Returns one of these, or something that is in no list.
    fn one_of(&self, known: impl IntoIterator<Item = u32>) -> u32 {
        let known: Vec<u32> = known.into_iter().collect();
        if known.is_empty() || self.unusual(16) {
            return NOTHING;
        }
        *self.pick.get(&known)
    }

    /// Gives the numbers a meaning in this state.
    pub(crate) fn call(&self, number: u32, link: Link, model: &Model) -> Call {
        let session = &model.sessions[self.session];
        let ask = match self.kind {
            // Nothing else can be done with it.
            _ if session.standing == Standing::Archived && self.unusual(128) => Ask::Unarchive,
            Kind::Add => self.add(model, Some(format!("k{}", session.admission_ids.len()))),
            Kind::AddUnidentified => self.add(model, None),
            Kind::Replay => match session.admission_ids.len() {
                0 => self.add(model, Some("k0".to_owned())),
                known => self.replay(model, self.pick.index(known)),
            },
            Kind::Get => Ask::Get { entry: self.entry(model) },
            Kind::Remove => Ask::Remove { entry: self.entry(model) },
            Kind::Merge => Ask::Merge { entry: self.entry(model) },
            Kind::Reorder => self.reorder(session),
            Kind::SendNow => self.send_now(session, Some(self.entry(model))),
            Kind::SendAllNow => self.send_now(session, None),
            Kind::Clear => Ask::Clear { expected_revision: self.revision(session) },
            Kind::Restore if self.unusual(48) => {
                let all = model.sessions.iter().flat_map(|session| &session.undos);
                Ask::Restore { undo: self.one_of(all.copied()) }
            }
            Kind::Restore => Ask::Restore { undo: self.one_of(session.undos.iter().copied()) },
            Kind::Drain => Ask::Drain,
            Kind::AutoRunOn => Ask::AutoRun { on: true },
            Kind::AutoRunOff => Ask::AutoRun { on: false },
            Kind::Cancel => Ask::Cancel {
                expected_turn: match self.choice % 4 {
                    0 => Some(self.one_of(session.ended.iter().copied().chain(session.turn()))),
                    1 => session.turn(),
                    _ => None,
                },
            },
            Kind::Resolve => Ask::Resolve {
                turn: self.one_of(session.ended.iter().copied()),
                resend: self.choice.is_multiple_of(2),
            },
            Kind::Respond => Ask::Respond {
                question: match session.question() {
                    Some(open) if !self.unusual(32) => open,
                    _ => self.one_of(session.questions.iter().copied()),
                },
                option: ["once", "always", "no", "maybe"][usize::from(self.choice % 4)],
            },
            Kind::Reset => Ask::Reset {
                keep_queue: [None, Some(true), Some(false)][usize::from(self.choice % 3)],
            },
            Kind::Transfer => {
                let to = self.pick.index(SESSIONS);
                Ask::Transfer { to, to_identity: self.identity(&model.sessions[to]) }
            }
            Kind::Archive if session.standing == Standing::Archived => Ask::Unarchive,
            Kind::Archive => Ask::Archive,
            Kind::Delete => Ask::Delete,
            Kind::Begin => Ask::Begin { entry: self.entry(model) },
            Kind::Renew => {
                let (entry, lease) = self.lease(session);
                Ask::Renew { entry, lease }
            }
            Kind::Save => self.save(model),
            Kind::End => {
                let (entry, lease) = self.lease(session);
                Ask::End { entry, lease, dispatch: self.choice.is_multiple_of(2) }
            }
            Kind::Disconnect => Ask::Disconnect,
            Kind::Upload => Ask::Upload { file: self.file() },
            Kind::Abort => Ask::Abort {
                upload: match session.staged.is_empty() || self.unusual(64) {
                    true => self.one_of(made(model)),
                    false => *self.pick.get(&session.staged),
                },
            },
        };
        let identity = self.identity(session);
        Call { number, session: self.session, link, identity, ask }
    }

    /// Returns the link that something of a lease is mostly asked for on.
    pub(crate) fn holder(&self, model: &Model) -> Option<Link> {
        if !matches!(self.kind, Kind::Renew | Kind::Save | Kind::End) || self.choice % 5 == 3 {
            return None;
        }
        let session = &model.sessions[self.session];
        let (entry, _) = self.lease(session);
        let entry = session.waiting().find(|waiting| waiting.id == entry)?;
        entry.lease.as_ref()?.link
    }

    /// Mostly an edited entry and its lease; else an earlier lease, or none.
    fn lease(&self, session: &Session) -> (u32, u32) {
        let edited: Vec<(u32, u32)> = session
            .waiting()
            .filter_map(|entry| Some((entry.id, entry.lease.as_ref()?.id)))
            .collect();
        if edited.is_empty() {
            let entry = self.one_of(session.waiting().map(|entry| entry.id));
            return (entry, self.one_of(session.leases.iter().copied()));
        }
        let (entry, lease) = *self.pick.get(&edited);
        match self.choice % 16 {
            9 => (entry, self.one_of(session.leases.iter().copied())),
            _ => (entry, lease),
        }
    }

    fn save(&self, model: &Model) -> Ask {
        let session = &model.sessions[self.session];
        let (id, lease) = self.lease(session);
        let entry = session.waiting().find(|waiting| waiting.id == id);
        let revision = entry.map_or(1, |entry| entry.target_revision);
        let attachments = self.attached.as_ref().map(|all| self.offered(model, all, entry));
        Ask::Save {
            entry: id,
            lease,
            expected_revision: if self.choice.is_multiple_of(8) { revision - 1 } else { revision },
            edit: Edit {
                operation: u32::from(self.choice / 8 % 2),
                content: self.prompt.to_owned(),
                attachments,
            },
        }
    }

    /// Returns what is offered; of an edit, what it keeps of its entry.
    fn offered(&self, model: &Model, all: &[Attached], edited: Option<&Entry>) -> Vec<Offered> {
        let session = &model.sessions[self.session];
        let carried = edited.map_or(&[][..], |entry| &entry.attachments);
        let delivery = self.unusual(64).then_some("path");
        let inline = || Offered::Inline { file: self.file(), delivery };
        let mut offered = Vec::new();
        for one in all {
            match one {
                Attached::Inline => offered.push(inline()),
                Attached::Many => offered.extend((0..6).map(|_| inline())),
                Attached::Staged(pick) if !session.staged.is_empty() => {
                    offered.push(Offered::Named { id: *pick.get(&session.staged), delivery });
                }
                Attached::Kept(pick) if !carried.is_empty() => {
                    let id = pick.get(carried).id;
                    offered.push(Offered::Named { id, delivery: Some("prompt") });
                }
                Attached::Staged(_) | Attached::Kept(_) => {}
                Attached::AllKept => offered.extend(carried.iter().map(|one| {
                    let delivery = Some(delivery.unwrap_or(one.delivery));
                    Offered::Named { id: one.id, delivery }
                })),
                Attached::Any(pick) => {
                    let all: Vec<u32> = made(model).chain([NOTHING]).collect();
                    offered.push(Offered::Named { id: *pick.get(&all), delivery: Some("prompt") });
                }
            }
        }
        offered.truncate(ATTACHMENTS_MAX);
        offered
    }

    fn file(&self) -> File {
        File(self.choice % 4)
    }

    /// Mostly what the session is named by now; else what an earlier life was.
    fn identity(&self, session: &Session) -> Value {
        match session.life {
            1.. if self.choice % 16 == 5 => session.identity_in(session.life - 1),
            life => session.identity_in(life),
        }
    }

    /// Mostly a visible entry; else one that is gone, hidden or of another session.
    fn entry(&self, model: &Model) -> u32 {
        let all = model.sessions.iter().flat_map(|session| &session.entries);
        match self.unusual(48) {
            true => self.one_of(all.map(|entry| entry.id)),
            false => self.one_of(model.sessions[self.session].waiting().map(|entry| entry.id)),
        }
    }

    /// Mostly a permutation; else one entry is missing, twice there, or unknown.
    fn reorder(&self, session: &Session) -> Ask {
        let mut order: Vec<u32> = session.waiting().map(|entry| entry.id).collect();
        if !order.is_empty() {
            let places = order.len();
            order.rotate_left(self.pick.index(places));
            order.swap(0, usize::from(self.choice) % places);
            match self.choice {
                0..16 => drop(order.pop()),
                16..32 => order[0] = order[places - 1],
                32..40 => order[0] = NOTHING,
                40..48 => order.push(order[0]),
                _ => {}
            }
        }
        let expected_revision = if self.unusual(96) { self.revision(session) } else { None };
        Ask::Reorder { order, expected_revision }
    }

    fn send_now(&self, session: &Session, entry: Option<u32>) -> Ask {
        Ask::SendNow {
            entry,
            expected_turn: match self.choice % 8 {
                0 => Some(self.one_of(session.ended.iter().copied())),
                1 => session.turn(),
                _ => None,
            },
            expected_revision: if self.unusual(64) { self.revision(session) } else { None },
            resume: !self.choice.is_multiple_of(3),
        }
    }

    fn add(&self, model: &Model, admission_id: Option<String>) -> Ask {
        let attached = self.attached.as_deref().unwrap_or_default();
        let prompt = Prompt {
            attachments: self.offered(model, attached, None),
            content: self.prompt.to_owned(),
            model: self.unusual(40).then(|| "demo-fast".to_owned()),
            plan_mode: self.unusual(64),
        };
        Ask::Add { admission_id, prompt }
    }

    /// The same again, or another prompt under a known ID.
    fn replay(&self, model: &Model, known: usize) -> Ask {
        let (admission_id, prompt) = model.sessions[self.session].admission_ids[known].clone();
        match self.unusual(64) {
            true => self.add(model, Some(admission_id)),
            false => Ask::Add { admission_id: Some(admission_id), prompt },
        }
    }

    /// The revision that a caller names: none, the right one, an old one.
    fn revision(&self, session: &Session) -> Option<u64> {
        match self.choice % 4 {
            0 => Some(session.revision.saturating_sub(1)),
            1 => Some(session.revision),
            _ => None,
        }
    }
}

/// Returns whatever was uploaded or accepted, in whichever session.
fn made(model: &Model) -> impl Iterator<Item = u32> {
    model.sessions.iter().flat_map(|session| &session.made).map(|(id, _)| *id)
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, kind, pick, choice, prompt, attached } = self;
        write!(f, "{kind:?} session {session}, choice {choice}, pick {}", pick.index(10))?;
        match kind {
            Kind::Add | Kind::AddUnidentified | Kind::Replay | Kind::Save => {
                write!(f, ", {prompt:?}, attached {attached:?}")
            }
            _ => Ok(()),
        }
    }
}
