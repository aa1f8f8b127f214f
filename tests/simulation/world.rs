//! Virtual time: what happens next happens next, whatever it is.

mod acting;
mod clients;
mod ending;
mod telling;

use std::collections::BTreeMap;

use usher_shared::client::{Input, JournalOrder};

use crate::broken::Broken;
use crate::client::Client;
use crate::ledger::Ledger;
use crate::luck::Luck;
use crate::network::{Arrival, Cargo, LinkNo, Network, To};
use crate::schedule::{HeardBy, Schedule, Then};
use crate::server::{Due, Out, Server};
use crate::trace::{Recording, Trace};

/// No history has more steps than this; one that has goes round in circles.
const STEPS_MAX: u64 = 200_000;

/// What happens.
#[derive(Debug)]
enum Happening {
    /// A step of the schedule.
    Step(usize),
    /// An engine's deadline.
    Deadline {
        client: usize,
        life: u64,
    },
    /// Something that was ordered is done.
    Input {
        client: usize,
        life: u64,
        input: Box<Input>,
    },
    /// The journal does what it was told to.
    Journals {
        client: usize,
        life: u64,
        order: Box<JournalOrder>,
    },
    /// A client sends something that its engine did not ask for: one that is wrong does.
    Sends {
        client: usize,
        life: u64,
        frame: String,
    },
    /// A machine wakes up.
    Awake {
        client: usize,
    },
    ClientStarts {
        client: usize,
    },
    /// A connection is open.
    Opened(LinkNo),
    /// A connection could not be made.
    NotOpened {
        client: usize,
        life: u64,
        link: LinkNo,
    },
    /// Something arrives.
    Arrives(LinkNo, To),
    /// The server does what it said it would do in this start.
    Due {
        start: u64,
        due: Due,
    },
    ServerStarts,
    /// A server that was told to stop is gone.
    ServerGone {
        start: u64,
    },
}

/// See the module.
pub(crate) struct World {
    now: u64,
    next: BTreeMap<(u64, u64), Happening>,
    scheduled: u64,
    schedule: Schedule,
    luck: Luck,
    network: Network,
    server: Server,
    clients: Vec<Client>,
    ledger: Ledger,
    trace: Trace,
    seen: BTreeMap<String, u64>,
}

/// What a history came to.
pub(crate) struct Outcome {
    /// What does not hold, if anything.
    pub(crate) wrong: Option<String>,
    pub(crate) trace: Trace,
    /// What came about, and how often.
    pub(crate) seen: BTreeMap<String, u64>,
}

impl World {
    /// Runs a history to its end.
    pub(crate) fn run(
        schedule: &Schedule,
        broken: Option<Broken>,
        recording: Recording,
    ) -> Outcome {
        let luck = Luck(schedule.seed);
        let clients = (0..schedule.clients).map(|number| Client::new(number, broken));
        let mut world = Self {
            now: 0,
            next: BTreeMap::new(),
            scheduled: 0,
            schedule: schedule.clone(),
            luck,
            network: Network::new(luck, schedule.clients),
            server: Server::new(schedule, luck, broken),
            clients: clients.collect(),
            ledger: Ledger::new(schedule.receipts),
            trace: Trace::new(recording),
            seen: BTreeMap::new(),
        };
        world.do_all();
        let wrong = world.ledger.wrong().map(str::to_owned);
        Outcome { wrong, trace: world.trace, seen: world.seen }
    }

    fn do_all(&mut self) {
        self.after_server();
        for client in 0..self.clients.len() {
            self.at(client as u64 * 7, Happening::ClientStarts { client });
        }
        for index in 0..self.schedule.steps.len() {
            self.at(self.schedule.steps[index].at, Happening::Step(index));
        }
        let last = self.schedule.steps.last().map_or(0, |step| step.at);
        self.run_until(last + 5_000);
        self.settle();
    }

    fn at(&mut self, at: u64, happening: Happening) {
        self.scheduled += 1;
        self.next.insert((at.max(self.now), self.scheduled), happening);
    }

    /// Lets everything happen up to a time. Returns early if something does not hold.
    fn run_until(&mut self, until: u64) {
        let mut steps = 0;
        while self.ledger.wrong().is_none() {
            let Some(entry) = self.next.first_entry() else { break };
            let (at, _) = *entry.key();
            if at > until {
                break;
            }
            self.now = at;
            let happening = entry.remove();
            self.happen(happening);
            steps += 1;
            self.ledger.must(steps < STEPS_MAX, || "it goes round in circles".to_owned());
        }
        self.now = self.now.max(until);
        self.server.now = self.now;
    }

    fn happen(&mut self, happening: Happening) {
        self.server.now = self.now;
        self.trace.note(self.now, || {
            let text = format!("{happening:?}");
            text.chars().take(400).collect()
        });
        match happening {
            Happening::Step(index) => self.step(index),
            Happening::Deadline { client, life } => {
                if self.clients[client].life == life {
                    self.clients[client].due_at = None;
                    self.feed(client, Input::DeadlineReached);
                }
            }
            Happening::Input { client, life, input } => {
                if self.clients[client].life == life {
                    self.feed(client, *input);
                }
            }
            Happening::Journals { client, life, order } => {
                if self.clients[client].life == life && self.clients[client].engine.is_some() {
                    self.journals(client, *order);
                }
            }
            Happening::Sends { client, life, frame } => {
                if self.clients[client].life == life {
                    self.client_sends(client, frame);
                    let step_over = self.ledger.sends.step_over();
                    self.must(step_over);
                }
            }
            Happening::Awake { client } => self.awake(client),
            Happening::ClientStarts { client } => self.start_client(client),
            Happening::Opened(link) => self.opened(link),
            Happening::NotOpened { client, life, link } => {
                if self.clients[client].life == life {
                    self.link_closed(link, None);
                }
            }
            Happening::Arrives(link, to) => self.arrives(link, to),
            Happening::Due { start, due } => {
                if self.server.is_up() && self.server.starts() == start {
                    self.server.due(due);
                    self.after_server();
                }
            }
            Happening::ServerStarts => {
                if !self.server.is_up() {
                    self.server.start();
                    self.after_server();
                }
            }
            Happening::ServerGone { start } => {
                if self.server.is_up() && self.server.starts() == start {
                    self.server.say_goodbye();
                    self.after_server();
                    self.server_dies(true);
                }
            }
        }
    }

    /// Notes that something came about.
    fn see(&mut self, what: impl Into<String>) {
        *self.seen.entry(what.into()).or_default() += 1;
    }

    /// Carries out what the server wants done.
    fn after_server(&mut self) {
        self.ledger.look_at(&mut self.server);
        let start = self.server.starts();
        for out in self.server.take_out() {
            match out {
                Out::Send(link, frame) => self.send(link, To::Client, Cargo::Text(frame, None)),
                Out::Ping(link) => self.send(link, To::Client, Cargo::Ping),
                Out::Close(link, code) => {
                    self.see(format!("the server closes a link with {code:?}"));
                    self.send(link, To::Client, Cargo::End(code));
                    self.network.stop_receiving(link, To::Server);
                }
                Out::Later(millis, due) => {
                    self.at(self.now + millis, Happening::Due { start, due });
                }
                Out::Crash => {
                    self.crash_server(1_500);
                    return;
                }
            }
        }
    }

    fn send(&mut self, link: LinkNo, to: To, cargo: Cargo) {
        self.trace.note(self.now, || format!("link {link} to {to:?}: {cargo:?}"));
        if let Some(at) = self.network.send(link, to, cargo, self.now) {
            self.at(at, Happening::Arrives(link, to));
        }
    }

    fn arrives(&mut self, link: LinkNo, to: To) {
        let cargo = match self.network.arrive(link, to, self.now) {
            Arrival::Now(cargo) => cargo,
            Arrival::Later(at) => return self.at(at, Happening::Arrives(link, to)),
            Arrival::Nothing => return,
        };
        match (to, cargo) {
            (To::Server, _) if !self.server.is_up() => {}
            (To::Server, Cargo::Text(frame, mark)) => {
                if let Some(then) = mark {
                    self.see(format!("a trap: {}", first_word(&then)));
                }
                self.server.frame(link, &frame, mark);
                self.after_server();
                if let Some(Then::CutAfter(heard)) = mark.filter(|_| !self.server.is_healed()) {
                    self.cut(link, heard);
                }
            }
            (To::Server, Cargo::Pong | Cargo::Ping) => self.server.heard(link),
            (To::Server, Cargo::End(_)) => {
                self.server.peer_gone(link);
                self.after_server();
            }
            (To::Client, cargo) => self.client_receives(link, cargo),
        }
    }

    fn cut(&mut self, link: LinkNo, heard: HeardBy) {
        for (to, at) in self.network.cut(link, heard, self.now) {
            if let Some(at) = at {
                self.at(at, Happening::Arrives(link, to));
            }
        }
    }

    /// The server's process dies, and comes back after a while.
    fn crash_server(&mut self, down: u64) {
        if self.server.is_up() {
            self.server_dies(false);
        }
        self.at(self.now + down, Happening::ServerStarts);
    }

    fn server_dies(&mut self, is_told: bool) {
        self.server.crash();
        self.ledger.look_again(&self.server);
        // Whoever had a link learns that it is gone; some not before they ask.
        for client in 0..self.clients.len() {
            if let Some(link) = self.clients[client].link {
                let heard = match is_told || self.luck.0.is_multiple_of(3) {
                    true => HeardBy::Client,
                    false if (self.luck.0 >> 8).is_multiple_of(4) => HeardBy::Nobody,
                    false => HeardBy::Client,
                };
                self.cut(link, heard);
            }
        }
    }
}

/// Returns the name of what is shown.
fn first_word(shown: &impl std::fmt::Debug) -> String {
    let text = format!("{shown:?}");
    let end = text.find(['(', ' ', '{']).unwrap_or(text.len());
    text[..end].to_owned()
}
