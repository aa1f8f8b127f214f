//! Random sequences of requests from several links, on the real server, against a plain
//! reference of the queue's rules (`reference/`). After every step everything that the server
//! shows is compared, and every answer was, and so is what one who watches was told.
//!
//! A failure prints the seed of its sequence and the smallest sequence that still fails;
//! `USHER_TEST_SEED=<seed>` runs that sequence alone, many times; `USHER_TEST_SEQUENCES=<count>` runs
//! another number of them than usual.

mod files;
mod mirror;
mod names;
mod operation;
mod reference;
mod run;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use usher_tests::client::Client;
use usher_tests::home::Home;
use usher_tests::postgres::Database;
use usher_tests::random::Random;
use usher_tests::server::{Launch, Server};

use crate::operation::Step;
use crate::reference::{Folding, Settings};
use crate::run::{Links, PATIENCE, PATIENCE_OF_SHRINKING};

/// Sequences of one run on SQLite.
const SEQUENCES: usize = 2_000;
/// Sequences of one run on PostgreSQL.
const SEQUENCES_ON_POSTGRESQL: usize = 300;
/// How often a sequence runs for its seed: what two links meet depends on time, too.
const REPETITIONS: usize = 100;
/// No edit expires while a sequence runs, and what only the regular pass starts starts soon.
const CONFIG: &str = "lease_ttl = \"1h\"\nlease_hold_max = \"2h\"\ndispatch_pass = \"500ms\"";
/// Sequences that run at once.
const WORKERS: usize = 8;
/// How long a failed sequence is made smaller.
const SHRINKING_MAX: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences_do_what_the_reference_does() {
    let launch = Launch::new().without_env("USHER_QUEUE_MAX_PER_SESSION").env("RUST_LOG", "info");
    let launch = launch.config(CONFIG);
    let settings = Settings { cap: 10, folding: Folding::Off };
    check(&launch.start(), settings, SEQUENCES / 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences_that_fold_do_what_the_reference_does() {
    let launch = Launch::new().env("USHER_QUEUE_MAX_PER_SESSION", "3").env("RUST_LOG", "info");
    let settings = Settings { cap: 3, folding: Folding::On };
    check(&launch.config(CONFIG).folding().start(), settings, SEQUENCES / 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences_on_postgresql_do_what_the_reference_does() {
    let launch = Launch::with_home(Home::over(Some(Arc::new(Database::new()))));
    let launch = launch.env("USHER_QUEUE_MAX_PER_SESSION", "3").env("RUST_LOG", "info");
    let settings = Settings { cap: 3, folding: Folding::On };
    check(&launch.config(CONFIG).folding().start(), settings, SEQUENCES_ON_POSTGRESQL).await;
}

async fn check(server: &Server, settings: Settings, usual: usize) {
    let replayed = std::env::var("USHER_TEST_SEED").is_ok();
    let (mut random, seed) = Random::from_environment();
    let sequences = std::env::var("USHER_TEST_SEQUENCES").ok();
    let sequences = sequences.and_then(|count| count.parse().ok()).unwrap_or(usual);
    let seeds: Vec<u64> = match replayed {
        true => vec![seed; REPETITIONS],
        false => (0..sequences).map(|_| random.below(u64::MAX)).collect(),
    };
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let left = Mutex::new(Vec::new());
    let worker = async || {
        let mut links = Links::connect(server, settings, PATIENCE).await;
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut tree = tree(*seed);
            let error = match links.run(&tree.current()).await {
                Ok(files) => {
                    left.lock().expect("nobody panics while holding it").push((*seed, files));
                    continue;
                }
                Err(error) => error,
            };
            // The others are in vain.
            if next.swap(seeds.len(), Ordering::Relaxed) < seeds.len() + WORKERS {
                let smallest = shrink(server, settings, &mut tree, error).await;
                let mut failed = failed.lock().expect("nobody panics while holding it");
                failed.get_or_insert((*seed, smallest));
            }
            return;
        }
    };
    futures_util::future::join_all((0..WORKERS).map(|_| worker())).await;
    let failed = failed.into_inner().expect("nobody panics while holding it");
    if let Some((seed, (steps, error))) = failed {
        let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
        panic!("USHER_TEST_SEED={seed}\n{error}\nsequence:\n  {}", steps.join("\n  "));
    }
    let left = left.into_inner().expect("nobody panics while holding it");
    let mut client = Client::connect(server).await;
    for (seed, files) in left {
        if let Err(error) = files::all_kept(&mut client, files, PATIENCE).await {
            panic!("USHER_TEST_SEED={seed}\nafter its sequence: {error}");
        }
    }
}

type Tree = Box<dyn ValueTree<Value = Vec<Step>>>;

/// Draws the sequence of a seed.
fn tree(seed: u64) -> Tree {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, random);
    Box::new(operation::sequence().new_tree(&mut runner).expect("nothing is filtered"))
}

/// Returns the smallest sequence that was found to fail, and how it does.
async fn shrink(
    server: &Server,
    settings: Settings,
    tree: &mut Tree,
    error: String,
) -> (Vec<Step>, String) {
    let began = Instant::now();
    let links = || Links::connect(server, settings, PATIENCE_OF_SHRINKING);
    let mut smallest = (tree.current(), error);
    while began.elapsed() < SHRINKING_MAX && tree.simplify() {
        loop {
            // Links of its own: a failed sequence leaves a mess behind.
            let steps = tree.current();
            if let Err(error) = links().await.run(&steps).await {
                smallest = (steps, error);
                break;
            }
            if began.elapsed() > SHRINKING_MAX || !tree.complicate() {
                return smallest;
            }
        }
    }
    smallest
}
