//! Where a row plays: a server, a faulty link before it, a user who knows only the link, and a session
//! in which prompts wait.

use std::sync::Arc;

use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use usher_tests::chat::{Chat, by_role, contents};
use usher_tests::cli::UserHome;
use usher_tests::client::Client;
use usher_tests::faulty::{FaultyLink, Matching, RAW_TEXT, Record, Rule};
use usher_tests::server::{Launch, Server};

use super::row::{Expected, Observed, PROMPT};

/// The action that sends a prompt.
pub(super) const ADD: &str = "message.queue.add";

/// See the module.
pub(super) struct Stage {
    pub(super) link: FaultyLink,
    pub(super) user: Arc<UserHome>,
    pub(super) chat: Chat,
    /// None while it is down.
    pub(super) server: Option<Server>,
    runtime: Runtime,
}

impl Stage {
    pub(super) fn new(launch: fn(Launch) -> Launch, always: Vec<Rule>) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        // What is set up is set up on a server without faults of its own.
        let plain = Launch::new();
        let server = plain.start();
        let link = FaultyLink::before(&server);
        for rule in always {
            link.rule(rule);
        }
        let user = UserHome::with_env(&[("USHER_SERVER", link.address())]);
        let workspace = user.home().path("work");
        let chat = runtime.block_on(async {
            let mut client = Client::connect(&server).await;
            let task = json!({"title": "faults", "workspace_dir": workspace});
            let chat = Chat::create_with(&mut client, task).await;
            client.set_auto_run(&chat, false).await;
            chat
        });
        server.terminate();
        let server = Some(launch(plain).start());
        Self { link, user: Arc::new(user), chat, server, runtime }
    }

    /// Asks the server something past the link.
    pub(super) fn beside<T>(&self, ask: impl AsyncFnOnce(&mut Client, &Chat) -> T) -> T {
        let server = self.server.as_ref().expect("the server is up");
        self.runtime.block_on(async {
            let mut client = Client::connect(server).await;
            ask(&mut client, &self.chat).await
        })
    }

    /// Runs what needs a runtime.
    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Counts where a prompt is: what waits, and what ran or runs.
    pub(super) fn entries_of(&self, text: &str) -> usize {
        self.beside(async |client, chat| {
            let waiting = client.entries(chat).await;
            let ran = by_role(&client.transcript(chat).await, "user");
            contents(&waiting)
                .into_iter()
                .chain(contents(&ran))
                .filter(|said| *said == text)
                .count()
        })
    }

    /// Waits until the server has died with the prompt unanswered, and starts a sound one.
    pub(super) fn replace_server(&mut self) {
        let (status, launch) = self.server.take().expect("the server is up").ended();
        assert!(!status.success(), "it was to die: {status}");
        let record = self.link.record();
        assert_eq!(record.passed(&Matching::request(ADD)).len(), 1, "{record:#?}");
        assert_eq!(record.frames(&Matching::answer(ADD)).len(), 0, "{record:#?}");
        let binary = usher_tests::binaries::usherd();
        self.server = Some(launch.binary(binary).without_env("USHER_STOP_AT").start());
    }

    /// Returns what a row has led to, apart from what its client says.
    pub(super) fn observed(&self) -> Observed {
        let record = self.link.record();
        let prompt = Matching::request(ADD).saying(PROMPT);
        check_that_attempts_are_alike(&record, &prompt);
        Observed {
            outcome: String::new(),
            exit_code: None,
            sent: record.frames(&prompt).len(),
            served: record.passed(&prompt).len(),
            entries: self.entries_of(PROMPT),
            shows: None,
        }
    }

    /// After the fault: an uncertain prompt that is sent again as itself is there once.
    pub(super) fn check_that_it_is_there_once(&self, expected: &Expected) {
        assert_eq!(self.entries_of(PROMPT), 1, "{expected:?}");
        check_that_attempts_are_alike(&self.link.record(), &Matching::request(ADD).saying(PROMPT));
    }
}

/// Every attempt has the same ID and the same bytes.
fn check_that_attempts_are_alike(record: &Record, prompt: &Matching) {
    let mut payloads: Vec<_> = record.frames(prompt).iter().map(|seen| seen.payload()).collect();
    payloads.dedup();
    assert!(payloads.len() <= 1, "attempts differ: {payloads:#?}");
}

/// Nobody is shown what a server says to developers.
pub(super) fn check_that_nothing_raw_is_shown(shown: &str) {
    assert!(!shown.contains(RAW_TEXT), "raw text is shown: {shown}");
}
