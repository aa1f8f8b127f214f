//! What an admission writes, in pages of the write-ahead log: what a long past and a long queue
//! cost, without the noise of a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use usher_tests::chat::{Chat, accepted};
use usher_tests::client::Client;
use usher_tests::fill;
use usher_tests::server::{Launch, Server};
use usher_tests::trace::strace;
use uuid::Uuid;

/// A page of the log, with its header.
const FRAME_BYTES: u64 = 4_096 + 24;

/// What a session has behind it.
#[derive(Clone, Copy, Debug)]
struct Past {
    receipts: usize,
    entries: usize,
}

const NONE: Past = Past { receipts: 0, entries: 0 };
const RECEIPTS: Past = Past { receipts: 100_000, entries: 0 };
const ENTRIES: Past = Past { receipts: 0, entries: 850 };

/// A stopped server with a session of this past.
async fn stopped(past: Past) -> (Launch, Chat) {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    let (_, launch) = server.terminate();
    fill::receipts(&launch, std::slice::from_ref(&chat), past.receipts);
    fill::entries(&launch, &chat, past.entries);
    (launch, chat)
}

fn log_pages(launch: &Launch) -> u64 {
    let log = launch.data_dir().join("usher.db-wal");
    std::fs::metadata(log).map_or(0, |log| log.len() / FRAME_BYTES)
}

/// How admission IDs follow each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ids {
    /// As those of `usher`: a later one sorts behind an earlier one.
    InOrder,
    /// UUIDs of version 4.
    Random,
}

impl Ids {
    fn next(self) -> String {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        match self {
            // Behind all hexadecimal ones.
            Self::InOrder => format!("z-{:033}", COUNT.fetch_add(1, Ordering::Relaxed)),
            Self::Random => Uuid::new_v4().to_string(),
        }
    }
}

/// Sends `count` prompts over each of `links` links; returns the pages that one took.
async fn pages_of_one(server: &Server, chat: &Chat, ids: Ids, links: usize, count: usize) -> f64 {
    let before = log_pages(server.launch());
    let barrier = Arc::new(Barrier::new(links));
    let mut senders = JoinSet::new();
    for _ in 0..links {
        let mut client = Client::connect(server).await;
        let (barrier, chat) = (Arc::clone(&barrier), chat.clone());
        senders.spawn(async move {
            for _ in 0..count {
                // All together, so that they share commits.
                barrier.wait().await;
                let answer = client.add(&chat, &ids.next(), &"y".repeat(300)).await;
                assert_eq!(accepted(&answer).1, "admitted");
            }
        });
    }
    senders.join_all().await;
    let pages = log_pages(server.launch()) - before;
    assert!(pages > 0, "the log is where it was looked for, and did not begin anew");
    pages as f64 / (links * count) as f64
}

async fn single(past: Past, ids: Ids) -> f64 {
    let (launch, chat) = stopped(past).await;
    pages_of_one(&launch.start(), &chat, ids, 1, 100).await
}

async fn grouped(past: Past, ids: Ids) -> f64 {
    let (launch, chat) = stopped(past).await;
    let calls = launch.home().path("calls");
    // While a sync takes long, everything else waits for one commit.
    let slow_syncs = strace(&calls, Duration::from_millis(20));
    pages_of_one(&launch.under(slow_syncs).start(), &chat, ids, 24, 6).await
}

/// An admission changes a row of its session, adds one to the entries and one to the receipts, and
/// one to each of their three indexes: six pages. What is above that are pages that fill up: 6.5
/// with an empty past, 7.1 in an index of 100,000.
const SINGLE_PAGES_MAX: f64 = 7.6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_admission_writes_as_many_pages_whatever_is_behind_the_session() {
    let first = single(NONE, Ids::Random).await;
    assert!(first <= SINGLE_PAGES_MAX, "{first}");
    for past in [RECEIPTS, ENTRIES] {
        let pages = single(past, Ids::Random).await;
        assert!(pages <= SINGLE_PAGES_MAX, "{past:?}: {pages}");
        assert!(pages <= 1.2 * first, "{past:?}: {pages}, {first} without");
    }
}

/// Rows of one group that lie beside each other share pages: 0.9 to 1.1 pages each, as measured, by
/// how many commits the machine makes of 24 prompts.
const GROUPED_PAGES_MAX: f64 = 2.0;
/// A random admission ID has a page of a large index for itself: 2.2 pages, as measured.
const GROUPED_RANDOM_PAGES_MAX: f64 = 3.2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admissions_of_one_group_share_pages_whatever_is_behind_the_session() {
    let first = grouped(NONE, Ids::InOrder).await;
    assert!(first <= GROUPED_PAGES_MAX, "{first}");
    for past in [RECEIPTS, ENTRIES] {
        let pages = grouped(past, Ids::InOrder).await;
        assert!(pages <= GROUPED_PAGES_MAX, "{past:?}: {pages}");
        assert!(pages <= 1.5 * first, "{past:?}: {pages}, {first} without");
    }
    let pages = grouped(RECEIPTS, Ids::Random).await;
    assert!(pages <= GROUPED_RANDOM_PAGES_MAX, "{pages}");
}
