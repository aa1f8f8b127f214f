//! A load of prompts from several links, and the proof of what became of each.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::AddAssign;

use serde_json::json;
use tokio::task::JoinSet;
use usher_tests::chat::{Chat, by_role, contents, string};
use usher_tests::client::{Answer, Client};
use usher_tests::server::Server;
use uuid::Uuid;

/// Links that send at once.
const LINKS: usize = 8;
/// Sessions they send to, two links each.
pub(crate) const CHATS: usize = 4;
/// Prompts of one link.
const PROMPTS: usize = 80;
/// Prompts of one link that wait for their answer.
const WINDOW: usize = 4;

/// Makes sessions for a load.
pub(crate) async fn create_chats(server: &Server, count: usize) -> Vec<Chat> {
    let mut client = Client::connect(server).await;
    let mut chats = Vec::new();
    for _ in 0..count {
        chats.push(Chat::create(&mut client).await);
    }
    chats
}

/// What a sender knows about one prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// It was accepted as this entry.
    Acknowledged(String),
    /// It was refused with this code: nothing was stored.
    Refused(String),
    /// No answer came.
    Nothing,
}

/// What one link sent, in order; the text is the ID.
struct Sent {
    chat: Chat,
    prompts: Vec<(String, Known)>,
    cut_off: bool,
}

/// Which prompts must have been stored before they are sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Those of a link up to some point: a link's prompts are handled in order.
    Prefix,
    /// At least those that were acknowledged; others may have been refused in between.
    Acknowledged,
    /// All.
    All,
}

/// A load under way.
pub(crate) struct Running {
    links: JoinSet<Sent>,
}

/// A load that is over.
pub(crate) struct Load {
    links: Vec<Sent>,
}

impl Load {
    /// Connects and starts sending.
    pub(crate) async fn begin(server: &Server, chats: &[Chat], name: &str) -> Running {
        let mut clients = Vec::new();
        for _ in 0..LINKS {
            // Some of these servers die before anything is sent.
            let Ok(mut client) = Client::dial(server).await else {
                break;
            };
            let instance = Uuid::new_v4().to_string();
            let hello = json!({
                "protocol": [1],
                "client": {"name": "load", "version": "0"},
                "client_instance": instance,
            });
            if client.try_request("hello", hello).await.is_ok() {
                clients.push(client);
            }
        }
        let mut links = JoinSet::new();
        for (number, client) in clients.into_iter().enumerate() {
            let chat = chats[number % chats.len()].clone();
            links.spawn(send_all(client, chat, format!("{name}-{number}")));
        }
        Running { links }
    }

    /// Nothing was sent.
    pub(crate) fn nothing() -> Self {
        Self { links: Vec::new() }
    }

    /// Sends every prompt again and checks what the server has made of all of them.
    pub(crate) async fn verify(&mut self, server: &Server, stored: Stored, context: &str) {
        let mut again = JoinSet::new();
        for (number, sent) in self.links.iter().enumerate() {
            let client = Client::connect(server).await;
            let ids: Vec<String> = sent.prompts.iter().map(|(id, _)| id.clone()).collect();
            let chat = sent.chat.clone();
            again.spawn(async move { (number, send_again(client, chat, ids).await) });
        }
        let mut expected: HashMap<String, Vec<Vec<String>>> = HashMap::new();
        for (number, answers) in again.join_all().await {
            let sent = &mut self.links[number];
            let order = sent.check(&answers, stored, context);
            expected.entry(sent.chat.session_id.clone()).or_default().push(order);
        }
        let mut client = Client::connect(server).await;
        for sent in &self.links {
            if let Some(orders) = expected.remove(&sent.chat.session_id) {
                check_session(&mut client, &sent.chat, &orders, context).await;
            }
        }
    }

    /// Tells whether any link ended before it had sent all.
    pub(crate) fn was_cut_off(&self) -> bool {
        self.links.iter().any(|sent| sent.cut_off)
    }

    /// Returns how many prompts were sent, and how many of them are known to be accepted.
    pub(crate) fn counts(&self) -> Counts {
        let prompts = || self.links.iter().flat_map(|sent| &sent.prompts);
        Counts {
            sent: prompts().count(),
            acknowledged: prompts()
                .filter(|(_, known)| matches!(known, Known::Acknowledged(_)))
                .count(),
        }
    }

    /// Returns the codes of refusals, each once.
    pub(crate) fn refusals(&self) -> BTreeSet<String> {
        let prompts = self.links.iter().flat_map(|sent| &sent.prompts);
        prompts
            .filter_map(|(_, known)| match known {
                Known::Refused(code) => Some(code.clone()),
                Known::Acknowledged(_) | Known::Nothing => None,
            })
            .collect()
    }
}

/// How far a load came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Prompts sent.
    pub(crate) sent: usize,
    /// Prompts acknowledged.
    pub(crate) acknowledged: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.sent += more.sent;
        self.acknowledged += more.acknowledged;
    }
}

impl Running {
    /// Waits until every link has sent all or was cut off.
    pub(crate) async fn ended(self) -> Load {
        Load { links: self.links.join_all().await }
    }
}

impl Sent {
    /// Compares what the server says now with what was known, and returns the order in which the
    /// prompts of this link must be found.
    fn check(&mut self, answers: &[Answer], stored: Stored, context: &str) -> Vec<String> {
        let mut kept = Vec::new();
        let mut new = Vec::new();
        for ((id, known), answer) in self.prompts.iter_mut().zip(answers) {
            let answer = answer.as_ref().unwrap_or_else(|refusal| {
                panic!("{context}: {id} was refused when sent again: {refusal:?}")
            });
            let entry = string(&answer["admission"]["accepted_queue_id"]);
            let outcome = answer["admission"]["outcome"].as_str();
            match (&*known, outcome) {
                (Known::Acknowledged(before), Some("replayed")) => {
                    assert_eq!(*before, entry, "{context}: {id} became another entry");
                    kept.push(id.clone());
                }
                (Known::Nothing, Some("replayed")) => {
                    assert!(
                        stored != Stored::Prefix || new.is_empty(),
                        "{context}: {id} is stored and {new:?} before it are not"
                    );
                    kept.push(id.clone());
                }
                (Known::Nothing | Known::Refused(_), Some("admitted")) => new.push(id.clone()),
                (known, outcome) => panic!("{context}: {id} was {known:?} and is now {outcome:?}"),
            }
            *known = Known::Acknowledged(entry);
        }
        assert!(stored != Stored::All || new.is_empty(), "{context}: {new:?} were lost");
        kept.append(&mut new);
        // From now on this is the order they were accepted in.
        let place = |id: &String| kept.iter().position(|other| other == id);
        self.prompts.sort_by_key(|(id, _)| place(id));
        kept
    }
}

/// Sends prompts, a few ahead of the answers, until the link ends.
async fn send_all(mut client: Client, chat: Chat, name: String) -> Sent {
    let mut sent = Sent { chat, prompts: Vec::new(), cut_off: true };
    let mut requests = VecDeque::new();
    for number in 0..PROMPTS + WINDOW {
        if number < PROMPTS {
            let id = format!("{name}-{number}");
            let prompt = sent.chat.prompt(&id, &id);
            // Even a frame that could not be written whole may have arrived.
            sent.prompts.push((id, Known::Nothing));
            match client.send("message.queue.add", prompt).await {
                Ok(request) => requests.push_back((sent.prompts.len() - 1, request)),
                Err(_) => break,
            }
        }
        while requests.len() >= WINDOW || (number >= PROMPTS && !requests.is_empty()) {
            let Some((place, request)) = requests.pop_front() else {
                break;
            };
            let Ok(answer) = client.answer(&request).await else {
                requests.clear();
                break;
            };
            sent.prompts[place].1 = known(answer);
        }
    }
    // Answers that came before the end count, though nobody was waiting for them.
    while let Some((place, request)) = requests.pop_front() {
        if let Ok(answer) = client.answer(&request).await {
            sent.prompts[place].1 = known(answer);
        }
    }
    sent.cut_off = sent.prompts.iter().any(|(_, known)| *known == Known::Nothing);
    sent
}

fn known(answer: Answer) -> Known {
    match answer {
        Ok(answer) => {
            assert_eq!(answer["admission"]["outcome"], "admitted");
            Known::Acknowledged(string(&answer["admission"]["accepted_queue_id"]))
        }
        Err(refusal) => Known::Refused(refusal.code),
    }
}

async fn send_again(mut client: Client, chat: Chat, ids: Vec<String>) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut requests = VecDeque::new();
    for id in &ids {
        let prompt = chat.prompt(id, id);
        let request = client.send("message.queue.add", prompt).await;
        requests.push_back(request.expect("the restarted server stays"));
        if requests.len() >= 32 {
            answers.extend(next_answer(&mut client, &mut requests).await);
        }
    }
    while let Some(answer) = next_answer(&mut client, &mut requests).await {
        answers.push(answer);
    }
    answers
}

async fn next_answer(client: &mut Client, requests: &mut VecDeque<String>) -> Option<Answer> {
    let request = requests.pop_front()?;
    Some(client.answer(&request).await.expect("the restarted server stays"))
}

/// Checks that each prompt is in the transcript or in the queue, once, and that those of one link
/// are in their order.
async fn check_session(client: &mut Client, chat: &Chat, orders: &[Vec<String>], context: &str) {
    client.subscribe(chat).await;
    client.set_auto_run(chat, false).await;
    client.until(chat, |session, _| session["state"] == "idle").await;
    let transcript = client.transcript(chat).await;
    let mut prompts = by_role(&transcript, "user");
    for prompt in &prompts {
        let status = prompt["status"].as_str().unwrap_or_default();
        assert!(["complete", "interrupted", "uncertain"].contains(&status), "{context}: {prompt}");
    }
    prompts.extend(client.entries(chat).await);
    for prompt in &prompts {
        let ids = &prompt["metadata"]["queue_admission_ids"];
        assert_eq!(*ids, json!([prompt["content"]]), "{context}: wrong provenance");
    }
    let found = contents(&prompts);
    let count: usize = orders.iter().map(Vec::len).sum();
    assert_eq!(found.len(), count, "{context}: {found:?}");
    for order in orders {
        let of_link: Vec<&str> =
            found.iter().copied().filter(|id| order.iter().any(|other| other == id)).collect();
        assert_eq!(of_link, *order, "{context}");
    }
    client.ok("session.unsubscribe", json!({"session_id": chat.session_id})).await;
}
