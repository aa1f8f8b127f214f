//! The engine over a real connection: for programs that have no state machine of their own.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use uuid::Uuid;

use usher_shared::client::{Engine, EngineConfig, Event, Input, Journaling, Output, UploadId};
use usher_shared::id::ClientInstance;
use usher_shared::protocol::attachment::AttachmentBeginParams;
use usher_shared::protocol::hello::ClientInfo;

use super::clock::mono_now;
use super::socket::{Link, LinkCommand, Server};
use super::trouble::Trouble;
use crate::journal::{Journal, JournalAnswer, JournalJob};

/// The longest sleep: timers do not run while the machine sleeps, our clock does.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// An engine and its socket.
pub struct Driver {
    engine: Engine,
    link: Link,
    journal: Option<Journal>,
    files: BTreeMap<UploadId, File>,
    events: VecDeque<Event>,
}

/// Returns what a new engine of this program is told: a fresh instance, `token` if any, and what
/// becomes of a journal.
pub fn engine_config(token: Option<String>, journaling: Journaling) -> EngineConfig {
    EngineConfig {
        client: ClientInfo {
            name: "usher".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        client_instance: ClientInstance::from_uuid(Uuid::new_v4()),
        token,
        spread_seed: Uuid::new_v4().as_u64_pair().1,
        journaling,
    }
}

impl Driver {
    /// Starts to connect to `server`, with a journal in this folder. Needs a running tokio.
    pub fn start(server: Server, token: Option<String>, journal_dir: Option<PathBuf>) -> Self {
        let journaling = match journal_dir {
            Some(_) => Journaling::Own,
            None => Journaling::Off,
        };
        let mut driver = Self {
            engine: Engine::new(engine_config(token, journaling)),
            link: Link::spawn(server),
            journal: journal_dir.map(Journal::spawn),
            files: BTreeMap::new(),
            events: VecDeque::new(),
        };
        driver.handle(Input::Start);
        driver
    }

    /// Returns the engine's state.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns what kept the last attempt from becoming a connection; see [`Link::trouble`].
    pub fn trouble(&self) -> Option<Trouble> {
        self.link.trouble()
    }

    /// Hands an input to the engine and does what it asks for.
    pub fn handle(&mut self, input: Input) {
        self.engine.handle(input, mono_now());
        let mut jobs = Vec::new();
        while let Some(output) = self.engine.poll_output() {
            let command = match output {
                Output::Connect => LinkCommand::Connect,
                Output::Disconnect => LinkCommand::Disconnect,
                Output::Send(text) => LinkCommand::Send(text),
                Output::ReadUpload { id, offset, length } => {
                    let bytes = self.read_upload(id, offset, length);
                    self.engine.handle(Input::UploadRead { id, bytes }, mono_now());
                    continue;
                }
                Output::Journal(order) => {
                    jobs.push(JournalJob::Order(order));
                    continue;
                }
                Output::Event(event) => {
                    self.events.push_back(event);
                    continue;
                }
            };
            // The channel holds all that an engine can have under way. If it should not, the
            // frame counts as lost, which the engine recovers from.
            let _ = self.link.commands.try_send(command);
        }
        if let Some(journal) = &self.journal {
            journal.hand_over(jobs);
        }
    }

    /// Uploads a file that fits what `params` say of it.
    pub fn upload(&mut self, id: UploadId, file: File, params: AttachmentBeginParams) {
        self.files.insert(id, file);
        self.handle(Input::Upload { id, params });
    }

    fn read_upload(&self, id: UploadId, offset: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.files.get(&id)?.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    /// Waits for the next event. Can be cancelled and called again without losing anything.
    pub async fn next_event(&mut self) -> Event {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            let input = tokio::select! {
                Some(input) = self.link.inputs.recv() => input,
                answer = Journal::next_answer(&mut self.journal) => match answer {
                    JournalAnswer::Input(input) => *input,
                    // Nobody here asks for drafts.
                    JournalAnswer::Drafts(_) => continue,
                },
                () = sleep_until_due(&self.engine) => Input::DeadlineReached,
            };
            self.handle(input);
        }
    }
}

async fn sleep_until_due(engine: &Engine) {
    let wait = engine.next_deadline().map_or(LONGEST_SLEEP, |due| {
        Duration::from_millis(due.since(mono_now())).min(LONGEST_SLEEP)
    });
    tokio::time::sleep(wait).await;
}
