//! The engine over a real connection: for programs that have no state machine of their own.

use std::collections::VecDeque;
use std::time::Duration;

use uuid::Uuid;

use usher_shared::client::{Engine, EngineConfig, Event, Input, Output};
use usher_shared::id::ClientInstance;
use usher_shared::protocol::hello::ClientInfo;

use super::clock::mono_now;
use super::socket::{Link, LinkCommand, Server};
use super::trouble::Trouble;

/// The longest sleep: timers do not run while the machine sleeps, our clock does.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// An engine and its socket.
pub struct Driver {
    engine: Engine,
    link: Link,
    events: VecDeque<Event>,
}

/// Returns what a new engine of this program is told: a fresh instance, and `token` if any.
pub fn engine_config(token: Option<String>) -> EngineConfig {
    EngineConfig {
        client: ClientInfo {
            name: "usher".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        client_instance: ClientInstance::from_uuid(Uuid::new_v4()),
        token,
        spread_seed: Uuid::new_v4().as_u64_pair().1,
    }
}

impl Driver {
    /// Starts to connect to `server`. Needs a running tokio.
    pub fn start(server: Server, config: EngineConfig) -> Self {
        let mut driver = Self {
            engine: Engine::new(config),
            link: Link::spawn(server),
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
        while let Some(output) = self.engine.poll_output() {
            let command = match output {
                Output::Connect => LinkCommand::Connect,
                Output::Disconnect => LinkCommand::Disconnect,
                Output::Send(text) => LinkCommand::Send(text),
                Output::Event(event) => {
                    self.events.push_back(event);
                    continue;
                }
            };
            // The channel holds all that an engine can have under way. If it should not, the
            // frame counts as lost, which the engine recovers from.
            let _ = self.link.commands.try_send(command);
        }
    }

    /// Waits for the next event. Can be cancelled and called again without losing anything.
    pub async fn next_event(&mut self) -> Event {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            let input = tokio::select! {
                Some(input) = self.link.inputs.recv() => input,
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
