//! How many admissions per second the real server makes durable, beside what the disk can do.
//!
//! `cargo bench -p usher-tests`. Figures of different runs are not comparable, ratios are: the
//! probe writes and syncs the same disk, in the same run, just before and after each row.

mod probe;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use usher_tests::chat::{Chat, accepted};
use usher_tests::client::Client;
use usher_tests::server::{Launch, Server};

use crate::probe::{Sample, print, probe};

/// How long each row measures.
const MEASURE: Duration = Duration::from_secs(3);
/// Bytes of a prompt.
const PROMPT_BYTES: usize = 300;
/// Sessions that the links share.
const SESSIONS: usize = 16;
/// The sessions are cleared when each holds about this many: a queue has a bound.
const CLEAR_AT: usize = 400;

#[tokio::main]
async fn main() -> io::Result<()> {
    // `cargo test --benches` runs this with arguments that are not for us: one quick round.
    let measure = if std::env::args().any(|argument| argument == "--bench") {
        MEASURE
    } else {
        Duration::from_millis(200)
    };
    let launch = Launch::new();
    let server = launch.start();
    print(&format!(
        "{:>6} {:>12} {:>10} {:>10}   {:>12} {:>10}   {:>6}",
        "links", "admitted/s", "p50", "p99", "fdatasync/s", "p50", "ratio"
    ));
    for links in [1, 16, 64] {
        let before = probe(&launch.home().path("probe"))?;
        let admissions = admissions(&server, links, measure).await;
        let after = probe(&launch.home().path("probe"))?;
        let syncs = if before.per_second() > after.per_second() { before } else { after };
        print(&format!(
            "{links:>6} {:>12.0} {:>10.2?} {:>10.2?}   {:>12.0} {:>10.2?}   {:>6.2}",
            admissions.per_second(),
            admissions.percentile(50),
            admissions.percentile(99),
            syncs.per_second(),
            syncs.percentile(50),
            admissions.per_second() / syncs.per_second(),
        ));
    }
    Ok(())
}

/// Sends prompts over `links` links, each as soon as the one before is answered.
async fn admissions(server: &Server, links: usize, measure: Duration) -> Sample {
    let mut client = Client::connect(server).await;
    let mut chats = Vec::new();
    for _ in 0..SESSIONS {
        let chat = Chat::create(&mut client).await;
        client.set_auto_run(&chat, false).await;
        chats.push(chat);
    }
    let barrier = Arc::new(Barrier::new(links + 1));
    let mut senders = JoinSet::new();
    for link in 0..links {
        let client = Client::connect(server).await;
        let chats = chats.clone();
        let barrier = Arc::clone(&barrier);
        senders.spawn(async move {
            barrier.wait().await;
            let clear_every = (link == 0).then_some(CLEAR_AT * SESSIONS / links);
            send(client, &chats, link, clear_every, measure).await
        });
    }
    barrier.wait().await;
    let begin = Instant::now();
    let took: Vec<Duration> = senders.join_all().await.into_iter().flatten().collect();
    Sample::new(took, begin.elapsed())
}

async fn send(
    mut client: Client,
    chats: &[Chat],
    link: usize,
    clear_every: Option<usize>,
    measure: Duration,
) -> Vec<Duration> {
    let text = "x".repeat(PROMPT_BYTES);
    let mut took = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < measure {
        let chat = &chats[(link + took.len()) % chats.len()];
        let id = uuid::Uuid::new_v4().to_string();
        let start = Instant::now();
        let answer = client.add(chat, &id, &text).await;
        took.push(start.elapsed());
        assert_eq!(accepted(&answer).1, "admitted");
        if clear_every.is_some_and(|every| took.len() % every == 0) {
            for chat in chats {
                client.ok("message.queue.cancel", chat.identity()).await;
            }
        }
    }
    took
}
