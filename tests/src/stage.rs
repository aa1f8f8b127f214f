//! Where the stories of failing links play: a server, a faulty link before it, a user who knows only
//! the link, and a session of theirs in which prompts wait. For tests that block.

use std::sync::Arc;

use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::chat::{Chat, by_role, contents};
use crate::cli::UserHome;
use crate::client::Client;
use crate::faulty::{FaultyLink, Rule};
use crate::pty::Terminal;
use crate::server::{Launch, Server};

/// See the module.
pub struct Stage {
    /// What `usher` takes for its server.
    pub link: FaultyLink,
    /// Whose `usher` it is.
    pub user: Arc<UserHome>,
    /// The session of the directory that `usher` runs in.
    pub chat: Chat,
    /// None while it is down.
    pub server: Option<Server>,
    runtime: Runtime,
}

impl Stage {
    /// A usual server.
    pub fn new() -> Self {
        Self::with(|launch| launch, Vec::new())
    }

    /// A server that is started like this once the session is there, behind a link with rules from the
    /// first connection on.
    pub fn with(launch: impl FnOnce(Launch) -> Launch, rules: Vec<Rule>) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("this thread can drive sockets");
        // What is set up is set up on a server without faults of its own.
        let plain = Launch::new();
        let server = plain.start();
        let link = FaultyLink::before(&server);
        for rule in rules {
            link.rule(rule);
        }
        let user = UserHome::with_env(&[("USHER_SERVER", link.address())]);
        let chat = runtime.block_on(async {
            let mut client = Client::connect(&server).await;
            let workspace = user.home().path("work");
            let task = json!({"title": "faults", "workspace_dir": workspace});
            let chat = Chat::create_with(&mut client, task).await;
            client.set_auto_run(&chat, false).await;
            chat
        });
        server.terminate();
        let server = Some(launch(plain).start());
        Self { link, user: Arc::new(user), chat, server, runtime }
    }

    /// Opens the chat in a terminal, and waits until it shows the session.
    pub fn terminal(&self) -> Terminal {
        let terminal = Terminal::open(&self.user, 120, 40, &[]);
        terminal.wait_for("auto-run");
        terminal
    }

    /// Asks the server something past the link.
    pub fn beside<T>(&self, ask: impl AsyncFnOnce(&mut Client, &Chat) -> T) -> T {
        let server = self.server.as_ref().expect("the server is up");
        self.runtime.block_on(async {
            let mut client = Client::connect(server).await;
            ask(&mut client, &self.chat).await
        })
    }

    /// Runs what needs a runtime.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Returns the texts that wait, in order.
    pub fn waiting(&self) -> Vec<String> {
        let entries = self.beside(async |client, chat| client.entries(chat).await);
        contents(&entries).into_iter().map(str::to_owned).collect()
    }

    /// Counts where a prompt is: what waits, and what ran or runs.
    pub fn entries_of(&self, text: &str) -> usize {
        self.beside(async |client, chat| {
            let waiting = client.entries(chat).await;
            let ran = by_role(&client.transcript(chat).await, "user");
            let all = contents(&waiting).into_iter().chain(contents(&ran));
            all.filter(|said| *said == text).count()
        })
    }

    /// Kills the server, and starts it again.
    pub fn restart(&mut self) {
        let launch = self.server.take().expect("the server is up").kill();
        self.server = Some(launch.start());
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}
