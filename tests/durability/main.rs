//! No reply leaves before its commit is on the disk, and one sync serves many. Seen in the system
//! calls of the real server.

mod pages;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use usher_tests::binaries;
use usher_tests::chat::{Chat, accepted};
use usher_tests::client::Client;
use usher_tests::server::{Launch, Server};
use usher_tests::trace::{Durability, durability, strace};

/// A traced server with a session whose prompts wait, so that only admissions are committed.
struct Traced {
    launch: Launch,
    server: Server,
    chat: Chat,
    trace: PathBuf,
}

impl Traced {
    async fn start(binary: &Path, sync: &str, sync_delay: Duration) -> Self {
        let launch = Launch::new().binary(binary).env("USHER_TEST_SYNC", sync);
        let trace = launch.home().path("trace");
        let server = launch.start();
        let mut client = Client::connect(&server).await;
        let chat = Chat::create(&mut client).await;
        client.set_auto_run(&chat, false).await;
        server.terminate();
        let launch = launch.under(strace(&trace, sync_delay));
        Self { server: launch.start(), launch, chat, trace }
    }

    /// Sends `count` prompts over each of `links` links, one after the other per link.
    async fn admit(&self, links: usize, count: usize) {
        let barrier = Arc::new(Barrier::new(links));
        let mut senders = JoinSet::new();
        for link in 0..links {
            let mut client = Client::connect(&self.server).await;
            let (barrier, chat) = (Arc::clone(&barrier), self.chat.clone());
            senders.spawn(async move {
                barrier.wait().await;
                for number in 0..count {
                    // Digits only, behind a prefix that nothing else in a trace has.
                    let id = format!("adm-{}", 1_000_000 + link * 10_000 + number);
                    assert_eq!(accepted(&client.add(&chat, &id, "x").await).1, "admitted");
                }
            });
        }
        senders.join_all().await;
    }

    fn read(self) -> Durability {
        // Killed, so that a clean end adds no syncs of its own.
        self.server.kill();
        assert!(self.launch.home().path("trace").exists());
        durability(&self.trace, "adm-")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_link_gets_one_sync_per_admission_and_never_a_reply_before_it() {
    const COUNT: usize = 40;
    let traced = Traced::start(binaries::usherd(), "", Duration::ZERO).await;
    traced.admit(1, COUNT).await;
    let found = traced.read();
    assert_eq!(found.answered.len(), COUNT);
    assert_eq!(found.answered_too_early, Vec::<String>::new());
    assert_eq!(found.sync_count, COUNT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c130_sixty_four_links_share_their_syncs() {
    const LINKS: usize = 64;
    const COUNT: usize = 10;
    let traced = Traced::start(binaries::usherd(), "", Duration::from_millis(10)).await;
    traced.admit(LINKS, COUNT).await;
    let found = traced.read();
    assert_eq!(found.answered.len(), LINKS * COUNT);
    assert_eq!(found.answered_too_early, Vec::<String>::new());
    assert!(
        found.answered.len() >= 8 * found.sync_count,
        "{} admissions took {} syncs",
        found.answered.len(),
        found.sync_count
    );
}

/// The proof of the two tests above: what they check for is found when it happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_syncs_every_reply_is_seen_to_leave_too_early() {
    const COUNT: usize = 10;
    let traced = Traced::start(binaries::usherd_with_stop_points(), "off", Duration::ZERO).await;
    traced.admit(1, COUNT).await;
    let found = traced.read();
    assert_eq!(found.answered.len(), COUNT);
    assert_eq!(found.answered_too_early, found.answered);
}
