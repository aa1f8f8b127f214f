//! Random histories of edit leases: four links of one user ask at the same time, on real servers
//! whose clock of leases the test moves. Every history has to have an order: one that the
//! reference, which knows one call at a time, gives the same answers in (`search.rs`).
//!
//! A failure prints the seed of its history and the history; `USHER_TEST_SEED=<seed>` makes the
//! calls of that seed alone, many times: when they meet depends on time, too.

mod call;
mod draw;
mod forged;
mod invariants;
mod making;
mod reference;
mod run;
mod search;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use usher_tests::home::Home;
use usher_tests::lease_clock::LeaseClock;
use usher_tests::postgres::Database;
use usher_tests::random::Random;
use usher_tests::server::Launch;

use crate::call::History;
use crate::reference::{Fault, Rules};
use crate::run::Table;

/// Histories of one run on SQLite.
const HISTORIES: usize = 2_000;
/// Histories of one run on PostgreSQL.
const HISTORIES_ON_POSTGRESQL: usize = 200;
/// Histories that are to show every broken rule.
const HISTORIES_OF_FAULTS: usize = 400;
/// How often a seed is played when it is asked for.
const REPETITIONS: usize = 400;
/// How long anything may take that goes on by itself.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_history_has_an_order() {
    play(HISTORIES, Launch::new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_history_on_postgresql_has_an_order() {
    let launch = || Launch::with_home(Home::over(Some(Arc::new(Database::new()))));
    play(HISTORIES_ON_POSTGRESQL, launch).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_of_the_server_are_none_of_other_rules() {
    let histories = play(HISTORIES_OF_FAULTS, Launch::new).await;
    for fault in Fault::ALL {
        let differs = |(rules, history): &(Rules, History)| {
            search::explain(history, Rules { fault: Some(fault), ..*rules }).is_err()
        };
        assert!(histories.iter().any(differs), "{fault:?} would not be noticed");
    }
}

/// A server for each of these, with a clock of its own.
const RULES: [Rules; 4] = [
    Rules { folding: false, passing: false, fault: None },
    Rules { folding: true, passing: false, fault: None },
    Rules { folding: false, passing: true, fault: None },
    Rules { folding: true, passing: true, fault: None },
];

/// Plays so many histories; fails with the first that has no order.
async fn play(count: usize, launch: impl Fn() -> Launch) -> Vec<(Rules, History)> {
    let replayed = std::env::var("USHER_TEST_SEED").is_ok();
    let (mut random, seed) = Random::from_environment();
    let seeds: Vec<u64> = match replayed {
        true => vec![seed; REPETITIONS],
        false => (0..count).map(|_| random.below(u64::MAX)).collect(),
    };
    let next = AtomicUsize::new(0);
    let worker = async |rules: Rules| {
        let pass = if rules.passing { "20ms" } else { "1h" };
        let config = format!("dispatch_pass = \"{pass}\"\nlease_hold_max = \"100s\"");
        let launch = launch().config(&config).env("RUST_LOG", "info");
        let launch = if rules.folding { launch.folding() } else { launch };
        let (clock, launch) = LeaseClock::keep(launch);
        let mut table = Table::set(launch.start(), clock, rules).await;
        let mut histories = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(seed) = seeds.get(number) else { break };
            match table.play(*seed).await {
                Ok(history) => histories.push((rules, history)),
                Err(error) => {
                    // The others are in vain.
                    next.store(seeds.len(), Ordering::Relaxed);
                    return Err(format!("USHER_TEST_SEED={seed}\nhistory {number}: {error}"));
                }
            }
        }
        Ok(histories)
    };
    let played = futures_util::future::join_all(RULES.map(worker)).await;
    let played: Result<Vec<_>, String> = played.into_iter().collect();
    match played {
        Ok(histories) => histories.concat(),
        Err(error) => panic!("{error}"),
    }
}
