//! Deterministic simulation: real client engines against the real decisions of the server, in virtual
//! time, under schedules of faults.
//!
//! A failure prints its seed and the shortest schedule that still fails, with everything that happens in
//! it. `USHER_TEST_SEED=<seed>` runs that history alone and prints what happens;
//! `USHER_TEST_SEQUENCES=<count>` runs another number of histories than usual.

#![expect(clippy::print_stdout, reason = "a history and the variants are read by people")]

mod broken;
mod client;
mod draw;
mod ids;
mod journal;
mod ledger;
mod luck;
mod network;
mod schedule;
mod server;
mod shrink;
mod store;
mod tamper;
mod trace;
mod world;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use usher_tests::random::Random;

use crate::broken::Broken;
use crate::draw::draw;
use crate::shrink::shrunk;
use crate::trace::Recording;
use crate::world::World;

/// Histories of one run.
const HISTORIES: usize = 3_000;
/// Each variant that is wrong is found within so many histories.
const FOUND_WITHIN: u64 = 6_000;
/// Histories that come to everything that matters.
const VARIED: u64 = 2_500;

/// Returns what is wrong with the history of a seed, if anything is.
fn wrong_with(seed: u64, broken: Option<Broken>) -> Option<String> {
    World::run(&draw(seed), broken, Recording::Off).wrong
}

/// Fails with everything that is known of a history.
fn fail(seed: u64, wrong: &str) -> ! {
    let (shortest, still_wrong) = shrunk(draw(seed), wrong.to_owned());
    let outcome = World::run(&shortest, None, Recording::Lines);
    let steps: Vec<String> = shortest.steps.iter().map(|step| format!("{step:?}")).collect();
    panic!(
        "USHER_TEST_SEED={seed}: {wrong}\nthe shortest schedule: {still_wrong}\n{}\n\
         {} clients, cap {}, folding {}, receipts {}\n  {}",
        outcome.trace.lines().join("\n"),
        shortest.clients,
        shortest.cap,
        shortest.folding,
        shortest.receipts,
        steps.join("\n  "),
    );
}

/// Calls `each` with all of these, on every processor.
fn on_all_processors<T: Sync>(all: &[T], each: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    each(one);
                }
            });
        }
    });
}

#[test]
fn whatever_goes_wrong_what_was_promised_holds() {
    let (mut random, seed) = Random::from_environment();
    if std::env::var("USHER_TEST_SEED").is_ok() {
        let outcome = World::run(&draw(seed), None, Recording::Lines);
        println!("{}", outcome.trace.lines().join("\n"));
        if let Some(wrong) = outcome.wrong {
            fail(seed, &wrong);
        }
        return;
    }
    let count = std::env::var("USHER_TEST_SEQUENCES").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(HISTORIES);
    let seeds: Vec<u64> = (0..count).map(|_| random.below(u64::MAX)).collect();
    let failed = Mutex::new(None);
    on_all_processors(&seeds, |seed| {
        // After the first failure the others are in vain.
        let has_failed = failed.lock().expect("nobody panics while holding it").is_some();
        let wrong = if has_failed { None } else { wrong_with(*seed, None) };
        if let Some(wrong) = wrong {
            let mut failed = failed.lock().expect("nobody panics while holding it");
            failed.get_or_insert((*seed, wrong));
        }
    });
    if let Some((seed, wrong)) = failed.into_inner().expect("nobody panics while holding it") {
        fail(seed, &wrong);
    }
}

#[test]
fn the_same_seed_is_the_same_history() {
    for seed in 0..20 {
        let digest = || World::run(&draw(seed), None, Recording::Digest).trace.digest();
        assert_eq!(digest(), digest(), "USHER_TEST_SEED={seed}");
    }
}

#[test]
fn every_variant_that_is_wrong_is_found() {
    let found = Mutex::new(BTreeMap::new());
    on_all_processors(&Broken::ALL, |broken| {
        let wrong =
            (0..FOUND_WITHIN).find_map(|seed| Some((seed, wrong_with(seed, Some(*broken))?)));
        // What is found has to be the variant.
        let anyway = wrong.as_ref().and_then(|(seed, _)| wrong_with(*seed, None));
        assert_eq!(anyway, None, "{broken:?}: {wrong:?}");
        found.lock().expect("nobody panics while holding it").insert(*broken, wrong);
    });
    let found = found.into_inner().expect("nobody panics while holding it");
    for (broken, wrong) in &found {
        match wrong {
            Some((seed, wrong)) => println!("{broken:?}: history {seed}, {wrong:.120}"),
            None => println!("{broken:?}: not found"),
        }
    }
    let missed: Vec<_> = found.iter().filter(|(_, wrong)| wrong.is_none()).collect();
    assert!(missed.is_empty(), "within {FOUND_WITHIN} histories: {missed:?}");
}

/// A simulation in which nothing happens finds nothing.
#[test]
fn histories_come_to_everything_that_can_become_of_a_prompt_and_of_an_edit() {
    let seen = Mutex::new(BTreeMap::<String, u64>::new());
    let seeds: Vec<u64> = (0..VARIED).collect();
    on_all_processors(&seeds, |seed| {
        let outcome = World::run(&draw(*seed), None, Recording::Off);
        assert_eq!(outcome.wrong, None, "USHER_TEST_SEED={seed}");
        let mut seen = seen.lock().expect("nobody panics while holding it");
        for (what, count) in outcome.seen {
            *seen.entry(what).or_default() += count;
        }
    });
    let seen = seen.into_inner().expect("nobody panics while holding it");
    for (what, count) in &seen {
        println!("{count:>7} {what}");
    }
    let missing: Vec<_> = EVERYTHING.iter().filter(|what| !seen.contains_key(**what)).collect();
    assert_eq!(missing, Vec::<&&str>::new(), "of {seen:?}");
}

const EVERYTHING: [&str; 38] = [
    "Queued",
    "Saving",
    "WaitingForLink",
    "AwaitingReply",
    "Reconciling",
    "Returned",
    "accepted: Replied",
    "accepted: FoundInQueue",
    "accepted: FoundInTranscript",
    "rejected: queue_admission_unavailable",
    "rejected: queue_full",
    "rejected: queue_id_conflict",
    "rejected: queue_session_unavailable",
    "rejected: shutting_down",
    "uncertain: true",
    "uncertain: false",
    "an admission is folded",
    "an admission is replayed",
    "edit: Saved",
    "edit: Left",
    "edit: Refused",
    "edit lost: Told",
    "edit lost: Link",
    "edit lost: Expired",
    "edit lost: SaveUnknown",
    "a save is refused",
    "a subscription goes on",
    "a subscription begins anew",
    "a frame stands for several events",
    "a trap: CutAfter",
    "a trap: CrashBefore",
    "a trap: CrashAfter",
    "a trap: StallBefore",
    "a trap: StallAfter",
    "the server closes a link with None",
    "the server closes a link with Some(1001)",
    "the server closes a link with Some(4001)",
    "edit lost: Conflict",
];
