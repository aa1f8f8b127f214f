//! Histories on a real server: calls that overlap, on four links of one user.

use std::collections::HashMap;
use std::time::Instant;

use serde_json::{Value, json};
use usher_tests::chat::{Chat, by_role, contents, string};
use usher_tests::client::{Client, Closed};
use usher_tests::lease_clock::LeaseClock;
use usher_tests::random::Random;
use usher_tests::server::Server;

use crate::call::{Answer, Ask, Call, Event, History, LINKS, Look, Shown};
use crate::draw::{self, Known};
use crate::making::{Making, admission_id, name_of, number};
use crate::reference::Rules;
use crate::search::Reached;
use crate::{PATIENCE, invariants};

/// Rounds of a history.
const ROUNDS: usize = 5;
/// Numbers of calls begin here: below are the entries that are there at first.
pub(crate) const FIRST_CALL: u32 = 10;
/// A server with a clock of its own, and those who ask it.
pub(crate) struct Table {
    server: Server,
    clock: LeaseClock,
    rules: Rules,
    links: Vec<Client>,
    /// By link: the client's name, which it keeps when it connects anew.
    instances: [String; LINKS],
    watch: Client,
}

impl Table {
    /// Connects to a server of these rules.
    pub(crate) async fn set(server: Server, clock: LeaseClock, rules: Rules) -> Self {
        let instances = [(); LINKS].map(|()| uuid::Uuid::new_v4().to_string());
        let mut links = Vec::new();
        for instance in &instances {
            links.push(connect(&server, instance).await);
        }
        let watch = Client::connect(&server).await;
        Self { server, clock, rules, links, instances, watch }
    }

    /// Makes the history of a seed and judges it.
    ///
    /// # Errors
    /// What is wrong with it, and all of it.
    pub(crate) async fn play(&mut self, seed: u64) -> Result<History, String> {
        let mut random = Random::from_seed(seed);
        let mut making = self.begin(&mut random).await;
        let rounds = if random.below(2) == 0 { draw::edited_head(&mut random) } else { Vec::new() };
        for round in 0..ROUNDS {
            let first = FIRST_CALL + 10 * round as u32;
            let calls = rounds.get(round).cloned();
            let calls = calls.unwrap_or_else(|| draw::round(&mut random, &making.known, first));
            let events = self.round(&mut making, calls, &mut random).await;
            making.history.rounds.push(events);
            making.listen(&mut self.links);
        }
        let judged = match Reached::by(&making.history, self.rules) {
            Ok(reached) => self.rest(&mut making, &reached).await,
            Err(error) => Err(error),
        };
        let watched = json!({"session_id": making.chat.session_id});
        self.watch.ok("session.unsubscribe", watched).await;
        let history = making.history;
        match judged.and_then(|()| invariants::check(&history)) {
            Ok(()) => Ok(history),
            Err(error) => Err(format!("{error}\n{:?}\n{history}", self.rules)),
        }
    }

    /// A parked session with two or three entries.
    async fn begin(&mut self, random: &mut Random) -> Making {
        let chat = Chat::parked(&mut self.watch).await;
        self.watch.subscribe(&chat).await;
        self.fold(false).await;
        let mut making = Making {
            chat,
            history: History {
                begins_with: Vec::new(),
                rounds: Vec::new(),
                told: Vec::new(),
                last: Look::default(),
            },
            known: Known::default(),
            ids: HashMap::new(),
            time: 0,
        };
        for name in 1..3 + random.below(2) as u32 {
            let content = draw::prompt(&format!("entry {name}"));
            let id = self.watch.admit(&making.chat, &admission_id(name), &content).await;
            making.ids.insert(name, id);
            making.known.revisions.insert(name, 1);
            making.history.begins_with.push((name, content));
        }
        self.fold(self.rules.folding).await;
        making
    }

    async fn fold(&mut self, folding: bool) {
        if self.rules.folding {
            self.watch.ok("settings.set", json!({"auto_merge_enabled": folding})).await;
        }
    }

    /// Sends all calls of a round; returns when all are over.
    async fn round(
        &mut self,
        making: &mut Making,
        calls: Vec<Call>,
        random: &mut Random,
    ) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        // The requests that wait: which event, and the request's id.
        let mut waiting: Vec<(usize, String)> = Vec::new();
        let mut cut = Vec::new();
        for call in calls {
            let (index, link) = (events.len(), call.link);
            let request = making.request(&call.ask, &admission_id(call.number));
            let invoked = making.tick();
            let mut answer = Answer::Lost;
            match (request, &call.ask) {
                (Some((action, payload)), _) => {
                    let sent = self.links[link].send(action, payload).await;
                    waiting.push((index, sent.expect("the link is open")));
                }
                (None, Ask::Advance { millis }) => {
                    self.clock.advance(*millis);
                    answer = Answer::Done;
                }
                (None, _) => {
                    let new = Client::dial(&self.server).await.expect("it serves");
                    std::mem::replace(&mut self.links[link], new).cut();
                    waiting.retain(|(asked, _)| events[*asked].call.link != link);
                    cut.push(index);
                }
            }
            let returned = making.tick();
            events.push(Event { call, answer, invoked, returned, queue_revision: None });
            if random.below(3) == 0 && !waiting.is_empty() {
                let first = waiting.remove(0);
                self.answered(making, &mut events, first).await;
            }
        }
        for index in cut {
            let event = &mut events[index];
            let hello = json!({"client_instance": self.instances[event.call.link]});
            self.links[event.call.link].hello(hello).await.expect("hello is answered");
            (event.answer, event.returned) = (Answer::Done, making.tick());
        }
        for one in waiting {
            self.answered(making, &mut events, one).await;
        }
        // What was lost was over when its link was.
        let end = making.tick();
        let lost = |event: &&mut Event| event.answer == Answer::Lost;
        events.iter_mut().filter(lost).for_each(|event| event.returned = end);
        events.iter().for_each(|event| making.learn(event));
        if events.iter().any(Event::is_lost_admission) {
            // It may have become an entry, whose name nobody has heard.
            for entry in self.watch.entries(&making.chat).await {
                making.ids.insert(name_of(&entry), string(&entry["id"]));
            }
        }
        events
    }

    async fn answered(
        &mut self,
        making: &mut Making,
        events: &mut [Event],
        (index, id): (usize, String),
    ) {
        let call = &events[index].call;
        let reply = self.links[call.link].answer(&id).await.expect("the link is open");
        let (answer, queue_revision) = making.answer(call, &reply);
        let returned = making.tick();
        let event = &mut events[index];
        (event.answer, event.returned, event.queue_revision) = (answer, returned, queue_revision);
    }

    /// Waits until all is over in one of the ways that the rules allow.
    async fn rest(&mut self, making: &mut Making, reached: &Reached) -> Result<(), String> {
        let give_up_at = Instant::now() + PATIENCE;
        while Instant::now() < give_up_at {
            self.watch.forget_notifications();
            let look = self.look(making).await;
            let settled = look.is_some();
            if let Some(look) = look {
                for link in &mut self.links {
                    link.ok("ping", json!({})).await;
                }
                making.listen(&mut self.links);
                making.history.last = look;
                let ends = reached.ends_with(&making.history);
                if ends {
                    return Ok(());
                }
            }
            if !settled {
                let notified = tokio::time::timeout(PATIENCE, self.watch.until_notified()).await;
                notified.map_err(|_| "the turn goes on for ever")?.map_err(lost)?;
            }
        }
        Err("no order ends with the last look and what was told".to_owned())
    }

    /// Returns what is there, unless a turn is on its way.
    async fn look(&mut self, making: &Making) -> Option<Look> {
        let session = self.watch.session(&making.chat).await;
        let is_running = match session["state"].as_str() {
            Some("idle") => false,
            Some("awaiting_permission") => true,
            _ => return None,
        };
        let queue = self.watch.queue(&making.chat).await;
        let prompts = by_role(&self.watch.transcript(&making.chat).await, "user");
        let shown = |entry: &Value| Shown {
            entry: name_of(entry),
            content: string(&entry["content"]),
            revision: number(&entry["target_revision"]),
            is_edited: !entry["editing"].is_null(),
        };
        let entries = queue["entries"].as_array().expect("entries are a list");
        Some(Look {
            entries: entries.iter().map(shown).collect(),
            auto_run: queue["auto_run"] == true,
            blocked: queue["blocked"].as_str().filter(|_| !is_running).map(str::to_owned),
            is_running,
            ran: contents(&prompts).into_iter().map(str::to_owned).collect(),
            queue_revision: number(&queue["queue_revision"]),
        })
    }
}

async fn connect(server: &Server, instance: &str) -> Client {
    let mut client = Client::dial(server).await.expect("the server accepts a link");
    client.hello(json!({"client_instance": instance})).await.expect("hello is answered");
    client
}

fn lost(closed: Closed) -> String {
    format!("the link was lost: {closed:?}")
}
