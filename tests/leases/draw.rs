//! Random calls: about what is known, most of them such that they meet.

use std::collections::BTreeMap;

use usher_tests::random::Random;

use crate::call::{Ask, Call, LINKS};
use crate::run::FIRST_CALL;

/// What a history has shown so far: what its next calls can be about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// The newest revision that was seen of each entry.
    pub(crate) revisions: BTreeMap<u32, u64>,
    /// Entry, lease and its link, the newest last.
    pub(crate) leases: Vec<(u32, u32, usize)>,
}

/// The most that a round asks for.
const CALLS_MAX: u64 = 4;
/// Around what a lease lives, and what it lives with renewals.
const ADVANCES: [i64; 8] = [1, 20_000, 40_000, 50_000, 59_999, 60_000, 60_001, 99_999];

/// What is drawn, and how often.
#[derive(Clone, Copy)]
enum Kind {
    Begin,
    Renew,
    Save,
    End,
    Remove,
    Merge,
    SendNow,
    Drain,
    AutoRun,
    Admit,
    Reconnect,
    Advance,
}

const KINDS: [(u64, Kind); 12] = [
    (18, Kind::Begin),
    (16, Kind::Renew),
    (26, Kind::Save),
    (16, Kind::End),
    (3, Kind::Remove),
    (5, Kind::Merge),
    (2, Kind::SendNow),
    (2, Kind::Drain),
    (7, Kind::AutoRun),
    (7, Kind::Admit),
    (7, Kind::Reconnect),
    (14, Kind::Advance),
];

/// Begins a history in which only an edit keeps the head from starting.
pub(crate) fn edited_head(random: &mut Random) -> Vec<Vec<Call>> {
    let mut call =
        |number, ask| vec![Call { number, link: random.below(LINKS as u64) as usize, ask }];
    let begin = call(FIRST_CALL, Ask::Begin { entry: 1 });
    vec![begin, call(FIRST_CALL + 10, Ask::AutoRun { on: true })]
}

/// Draws the calls of a round, numbered from `number` on.
pub(crate) fn round(random: &mut Random, known: &Known, number: u32) -> Vec<Call> {
    let count = 2 + random.below(CALLS_MAX - 1) as usize;
    let mut free = [true; LINKS];
    let mut calls: Vec<Call> = Vec::new();
    // Most rounds are about one entry.
    let about = entry(random, known);
    while calls.len() < count {
        let number = number + calls.len() as u32;
        let about = if random.below(4) == 0 { entry(random, known) } else { about };
        let call = call(random, known, number, about);
        // A link that is cut is asked for nothing more in its round.
        if free[call.link] {
            free[call.link] = call.ask != Ask::Reconnect;
            calls.push(call);
        }
    }
    calls
}

fn call(random: &mut Random, known: &Known, number: u32, entry: u32) -> Call {
    let mut link = random.below(LINKS as u64) as usize;
    let leased: Vec<_> = known.leases.iter().filter(|(of, ..)| *of == entry).copied().collect();
    let kind = match (kind(random), leased.last()) {
        (Kind::Renew | Kind::Save | Kind::End, None) => Kind::Begin,
        (kind, _) => kind,
    };
    // Mostly the newest lease, on the link that holds it.
    let mut lease = || {
        let back =
            if random.below(4) == 0 { random.below(leased.len() as u64) as usize } else { 0 };
        let (_, lease, holder) = leased[leased.len() - 1 - back];
        if random.below(5) > 0 {
            link = holder;
        }
        lease
    };
    let ask = match kind {
        Kind::Begin => Ask::Begin { entry },
        Kind::Renew => Ask::Renew { entry, lease: lease() },
        Kind::Save => {
            let lease = lease();
            let operation = 1 + random.below(2) as u32;
            let seen = known.revisions.get(&entry).copied().unwrap_or(1);
            let expected = match random.below(5) {
                0 => seen.saturating_sub(1),
                1 => seen + 1,
                _ => seen,
            };
            let variant = if random.below(5) == 0 { "b" } else { "a" };
            let content = prompt(&format!("save {lease}.{operation}{variant}"));
            Ask::Save { entry, lease, operation, expected, content }
        }
        Kind::End => {
            let lease = lease();
            Ask::End { entry, lease, dispatch: random.below(3) > 0 }
        }
        Kind::Remove => Ask::Remove { entry },
        Kind::Merge => Ask::Merge { entry },
        Kind::SendNow => Ask::SendNow { entry },
        Kind::Drain => Ask::Drain,
        Kind::AutoRun => Ask::AutoRun { on: random.below(4) > 0 },
        Kind::Admit => Ask::Admit { content: prompt(&format!("admission {number}")) },
        Kind::Reconnect => {
            // Mostly a link that holds something.
            if let Some((_, _, holder)) = leased.last().filter(|_| random.below(4) > 0) {
                link = *holder;
            }
            Ask::Reconnect
        }
        Kind::Advance => {
            Ask::Advance { millis: ADVANCES[random.below(ADVANCES.len() as u64) as usize] }
        }
    };
    Call { number, link, ask }
}

fn kind(random: &mut Random) -> Kind {
    let mut left = random.below(KINDS.iter().map(|(weight, _)| weight).sum());
    for (weight, kind) in KINDS {
        match left.checked_sub(weight) {
            None => return kind,
            Some(rest) => left = rest,
        }
    }
    unreachable!("it is less than the sum")
}

fn entry(random: &mut Random, known: &Known) -> u32 {
    let entries: Vec<u32> = known.revisions.keys().copied().collect();
    entries[random.below(entries.len() as u64) as usize]
}

/// A prompt whose turn asks, and so goes on.
pub(crate) fn prompt(name: &str) -> String {
    format!("/demo ask; say {name}")
}
