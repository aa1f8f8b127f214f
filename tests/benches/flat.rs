//! What an admission costs after 1,000,000 others and behind 900 entries, beside what it costs in
//! an empty database.
//!
//! `cargo bench -p usher-tests --bench flat`. Two servers take turns, a fraction of a second each,
//! so that whatever else the machine does slows both: only the ratio counts.

mod probe;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Barrier, Mutex};
use tokio::task::JoinSet;
use usher_tests::chat::{Chat, accepted};
use usher_tests::client::Client;
use usher_tests::fill;
use usher_tests::server::{Launch, Server};
use uuid::Uuid;

use crate::probe::{Sample, print, probe};

/// Receipts of a long past.
const RECEIPTS: usize = 1_000_000;
/// Entries of a long queue; a hundred more may come.
const ENTRIES: usize = 900;
/// Bytes of a prompt.
const PROMPT_BYTES: usize = 300;
/// Prompts of one link before the other server's turn.
const TURN: usize = 50;

/// One comparison.
struct Case {
    name: &'static str,
    sessions: usize,
    receipts: usize,
    entries: usize,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    // `cargo test --benches` runs this with arguments that are not for us: one quick round.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let (receipts, rounds) = if measured { (RECEIPTS, 20) } else { (1_000, 2) };
    print(&format!(
        "{:>28} {:>5} {:>11} {:>8} {:>11} {:>8} {:>6}   {:>12} {:>8}",
        "", "links", "empty: p50", "p90", "full: p50", "p90", "ratio", "fdatasync/s", "p50"
    ));
    let cases = [
        Case { name: "receipts in one session", sessions: 1, receipts, entries: 0 },
        Case { name: "receipts in 100 sessions", sessions: 100, receipts, entries: 0 },
        Case { name: "900 entries before it", sessions: 100, receipts: 0, entries: ENTRIES },
    ];
    for case in cases {
        let mut empty = Side::new(&Case { receipts: 0, entries: 0, ..case }).await;
        let mut full = Side::new(&case).await;
        for links in [1, 16] {
            compare(&case, &mut empty, &mut full, links, rounds).await?;
        }
    }
    Ok(())
}

async fn compare(
    case: &Case,
    empty: &mut Side,
    full: &mut Side,
    links: usize,
    rounds: usize,
) -> io::Result<()> {
    for side in [&mut *empty, &mut *full] {
        side.link(links).await;
        // The first ones fill caches.
        side.turn().await;
        side.tidy(case.entries).await;
    }
    let mut took: [Vec<Duration>; 2] = Default::default();
    for _ in 0..rounds {
        for (place, side) in [&mut *empty, &mut *full].into_iter().enumerate() {
            took[place].extend(side.turn().await);
            side.tidy(case.entries).await;
        }
    }
    let syncs = probe(&full.launch.home().path("probe"))?;
    let [empty, full] = took.map(|took| {
        let over = took.iter().sum();
        Sample::new(took, over)
    });
    // Of the medians: what interrupts a server for a moment says nothing about its tables.
    let ratio = full.percentile(50).as_secs_f64() / empty.percentile(50).as_secs_f64();
    print(&format!(
        "{:>28} {links:>5} {:>11.0?} {:>8.0?} {:>11.0?} {:>8.0?} {ratio:>6.2}   {:>12.0} {:>8.0?}",
        case.name,
        empty.percentile(50),
        empty.percentile(90),
        full.percentile(50),
        full.percentile(90),
        syncs.per_second(),
        syncs.percentile(50),
    ));
    Ok(())
}

/// A server with its sessions and the links that send to them.
struct Side {
    launch: Launch,
    server: Server,
    chats: Arc<[Chat]>,
    links: Vec<Arc<Mutex<Client>>>,
    /// Prompts that the fullest session got since it was last cleared.
    added: usize,
}

impl Side {
    async fn new(case: &Case) -> Self {
        let server = Server::start();
        let mut client = Client::connect(&server).await;
        let mut chats = Vec::new();
        for _ in 0..case.sessions {
            let chat = Chat::create(&mut client).await;
            client.set_auto_run(&chat, false).await;
            chats.push(chat);
        }
        let (_, launch) = server.terminate();
        fill::receipts(&launch, &chats, case.receipts);
        for chat in &chats {
            fill::entries(&launch, chat, case.entries);
        }
        let server = launch.start();
        Self { launch, server, chats: chats.into(), links: Vec::new(), added: 0 }
    }

    async fn link(&mut self, links: usize) {
        while self.links.len() < links {
            let client = Client::connect(&self.server).await;
            self.links.push(Arc::new(Mutex::new(client)));
        }
        self.links.truncate(links);
    }

    /// Every link sends its prompts, one after the other; returns how long each took.
    async fn turn(&mut self) -> Vec<Duration> {
        let barrier = Arc::new(Barrier::new(self.links.len()));
        let mut senders = JoinSet::new();
        for (number, client) in self.links.iter().enumerate() {
            let (client, chats) = (Arc::clone(client), Arc::clone(&self.chats));
            let barrier = Arc::clone(&barrier);
            senders.spawn(async move {
                let mut client = client.lock().await;
                let text = "x".repeat(PROMPT_BYTES);
                let mut took = Vec::new();
                barrier.wait().await;
                for prompt in 0..TURN {
                    let chat = &chats[(number * TURN + prompt) % chats.len()];
                    let id = Uuid::new_v4().to_string();
                    let start = Instant::now();
                    let answer = client.add(chat, &id, &text).await;
                    took.push(start.elapsed());
                    assert_eq!(accepted(&answer).1, "admitted");
                }
                took
            });
        }
        self.added += (self.links.len() * TURN).div_ceil(self.chats.len());
        senders.join_all().await.into_iter().flatten().collect()
    }

    /// Makes room for the next turn, outside of what is measured.
    async fn tidy(&mut self, entries: usize) {
        let next = (self.links.len() * TURN).div_ceil(self.chats.len());
        if self.added + next <= 1_000 - ENTRIES {
            return;
        }
        let mut client = self.links[0].lock().await;
        for chat in self.chats.iter() {
            let waiting = client.entries(chat).await;
            if entries == 0 || waiting.len() < entries {
                client.ok("message.queue.cancel", chat.identity()).await;
                continue;
            }
            // The newest ones, so that it stays as full as it was.
            for entry in waiting.iter().skip(entries) {
                let entry = chat.with(serde_json::json!({"entry_id": entry["id"]}));
                client.ok("message.queue.remove", entry).await;
            }
        }
        self.added = 0;
    }
}
