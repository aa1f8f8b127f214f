//! What meets the very moment at which a turn begins or ends: every prompt runs once, in order, and
//! never two at a time.

use serde_json::{Value, json};
use tokio::sync::oneshot::Receiver;
use tokio::task::JoinSet;
use usher_tests::chat::{Chat, accepted, by_role, contents, string};
use usher_tests::client::{Client, Refusal};
use usher_tests::random::Random;
use usher_tests::scene::Scene;
use usher_tests::server::Server;

/// Returns the text of every prompt that ran, in order. Fails if a turn began before the last one
/// had said everything.
async fn ran(client: &mut Client, chat: &Chat) -> Vec<String> {
    let transcript = client.transcript(chat).await;
    let prompts = by_role(&transcript, "user");
    let mut turns: Vec<&Value> = transcript.iter().map(|message| &message["turn_id"]).collect();
    turns.dedup();
    assert_eq!(turns.len(), prompts.len(), "two turns at once");
    prompts.iter().map(|prompt| string(&prompt["content"])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c057_a_head_that_is_sent_now_as_the_turn_ends_runs_once_and_before_the_next() {
    const SESSIONS: usize = 5;
    const ROUNDS: usize = 100;
    let (random, seed) = Random::from_environment();
    let server = Server::start();
    let mut sessions = JoinSet::new();
    for session in 0..SESSIONS {
        let mut client = Client::connect(&server).await;
        let mut other = Client::connect(&server).await;
        let chat = Chat::create(&mut client).await;
        client.subscribe(&chat).await;
        let mut random = random.clone();
        sessions.spawn(async move {
            let mut expected = Vec::new();
            for round in 0..ROUNDS {
                let [a, b, c] = ["a", "b", "c"].map(|name| format!("{name}{round}"));
                let asks = format!("/demo ask; say {a}");
                client.admit(&chat, &a, &asks).await;
                let is_asking = |s: &Value, _: &Value| s["state"] == "awaiting_permission";
                client.until(&chat, is_asking).await;
                let question = client.session(&chat).await["permission"]["request_id"].clone();
                let entry = client.admit(&chat, &b, &b).await;
                client.admit(&chat, &c, &c).await;

                let answer = chat.with(json!({"request_id": question, "option_id": "once"}));
                let send_now = chat.with(json!({"scope": "entry", "entry_id": entry}));
                let ended = client.send("permission.respond", answer).await.unwrap();
                // Anywhere from before the end of the turn to after the start of the next.
                for _ in 0..random.below(12) + session as u64 {
                    other.ok("ping", json!({})).await;
                }
                let sent = other.request("message.queue.send_now", send_now).await;
                if let Err(refusal) = sent {
                    assert_eq!(refusal, Refusal::new("entry_not_found", json!({})), "seed {seed}");
                }
                // Sent first after all: then the claim closed the question.
                if let Err(refusal) = client.answer(&ended).await.unwrap() {
                    assert_eq!(refusal, Refusal::new("permission_closed", json!({})));
                }
                client.until_settled(&chat).await;
                expected.extend([asks, b, c]);
            }
            assert_eq!(ran(&mut client, &chat).await, expected, "seed {seed}");
            assert_eq!(client.queue(&chat).await["auto_run"], true);
        });
    }
    while let Some(done) = sessions.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn c060_what_is_sent_now_while_a_turn_starts_waits_or_replaces_but_never_runs_beside_it() {
    const ROUNDS: usize = 120;
    let (mut random, seed) = Random::from_environment();
    let mut scene = Scene::new().await;
    let mut other = Client::connect(&scene.server).await;
    let mut watcher = Client::connect(&scene.server).await;
    let snapshot = watcher.subscribe(&scene.chat).await;
    let (all_done, mut done) = tokio::sync::oneshot::channel();
    let watching = tokio::spawn(async move {
        let next = snapshot["event_seq"].as_u64().unwrap() + 1;
        one_turn_at_a_time(&mut watcher, next, &mut done).await;
    });
    let mut expected = Vec::new();
    for round in 0..ROUNDS {
        scene.park().await;
        let texts = ["a", "b", "c"].map(|name| format!("{name}{round}"));
        let ids = scene.admit_all(&texts.each_ref().map(String::as_str)).await;
        let chat = scene.chat.clone();
        let send = |id: &str| chat.with(json!({"scope": "entry", "entry_id": id}));
        let drain = scene.client.send("message.queue.drain", chat.identity()).await.unwrap();
        for _ in 0..random.below(4) {
            other.ok("ping", json!({})).await;
        }
        let b = other.send("message.queue.send_now", send(&ids[1])).await.unwrap();
        let c = other.send("message.queue.send_now", send(&ids[2])).await.unwrap();
        let drain = scene.client.answer(&drain).await.unwrap();
        for (answer, allowed) in [
            (drain, &["session_busy"][..]),
            (other.answer(&b).await.unwrap(), &["send_now_conflict", "entry_not_found"][..]),
            (other.answer(&c).await.unwrap(), &["send_now_conflict", "entry_not_found"][..]),
        ] {
            if let Err(refusal) = answer {
                let code = refusal.code.as_str();
                assert!(allowed.contains(&code), "round {round}, seed {seed}: {code}");
            }
        }
        scene.settled().await;
        // Whoever came first, each ran once.
        let mut round_ran = scene.prompts().await.split_off(expected.len());
        expected.extend(round_ran.clone());
        round_ran.sort();
        assert_eq!(round_ran, texts, "round {round}, seed {seed}");
    }
    // The newest message that a watcher will be told of.
    let last = scene.client.session(&scene.chat).await["last_seq"].clone();
    all_done.send(last).unwrap();
    watching.await.unwrap();
}

/// Reads every event of a session until it is idle after its last message, which `done` names.
async fn one_turn_at_a_time(watcher: &mut Client, mut next: u64, done: &mut Receiver<Value>) {
    let mut open: Option<Value> = None;
    let mut last = None;
    let mut seen = Value::Null;
    while open.is_some() || last.is_none() || last != Some(seen.clone()) {
        tokio::select! {
            named = &mut *done, if last.is_none() => last = Some(named.unwrap()),
            (action, event) = watcher.notification() => {
                if action == "task.changed" {
                    continue;
                }
                let first = event.get("first_event_seq").unwrap_or(&event["event_seq"]);
                assert_eq!(first.as_u64(), Some(next), "{action}");
                next = event["event_seq"].as_u64().unwrap() + 1;
                match action.as_str() {
                    "turn.started" => {
                        assert_eq!(open.replace(event["turn_id"].clone()), None, "two at once");
                    }
                    "turn.ended" => assert_eq!(open.take(), Some(event["turn_id"].clone())),
                    "session.changed" => seen = event["last_seq"].clone(),
                    _ => {}
                }
            }
        }
    }
}

#[tokio::test]
async fn everything_sent_now_while_prompts_arrive_and_turns_end_runs_once() {
    const ROUNDS: usize = 80;
    let mut scene = Scene::new().await;
    let mut other = Client::connect(&scene.server).await;
    let chat = scene.chat.clone();
    let mut admitted = Vec::new();
    for round in 0..ROUNDS {
        let texts: Vec<String> = (0..3).map(|number| format!("p{round}-{number}")).collect();
        let mut requests = Vec::new();
        for text in &texts {
            let prompt = chat.prompt(text, text);
            requests.push(scene.client.send("message.queue.add", prompt).await.unwrap());
        }
        let all = chat.with(json!({"scope": "all"}));
        if let Err(refusal) = other.request("message.queue.send_now", all).await {
            let code = refusal.code.as_str();
            assert!(["queue_empty", "send_now_conflict"].contains(&code), "{refusal:?}");
        }
        for request in requests {
            assert!(scene.client.answer(&request).await.unwrap().is_ok());
        }
        admitted.extend(texts);
    }
    scene.settled().await;
    let prompts = scene.prompts().await;
    let mut ran: Vec<&str> = prompts.iter().flat_map(|text| text.split("\n\n")).collect();
    ran.sort_unstable();
    admitted.sort_unstable();
    assert_eq!(ran, admitted);
    assert_eq!(scene.client.queue(&chat).await["count"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c004_a_prompt_sent_as_a_turn_ends_runs_exactly_once() {
    const SESSIONS: usize = 5;
    const ROUNDS: usize = 100;
    let (random, seed) = Random::from_environment();
    let server = Server::start();
    let mut sessions = JoinSet::new();
    for session in 0..SESSIONS {
        let mut client = Client::connect(&server).await;
        let mut other = Client::connect(&server).await;
        let chat = Chat::create(&mut client).await;
        client.subscribe(&chat).await;
        let mut random = random.clone();
        sessions.spawn(async move {
            let mut expected = Vec::new();
            for round in 0..ROUNDS {
                let (a, b) = (format!("a{round}"), format!("b{round}"));
                let asks = format!("/demo ask; say {a}");
                client.admit(&chat, &a, &asks).await;
                let is_asking = |s: &Value, _: &Value| s["state"] == "awaiting_permission";
                client.until(&chat, is_asking).await;
                let question = client.session(&chat).await["permission"]["request_id"].clone();
                let answer = chat.with(json!({"request_id": question, "option_id": "once"}));
                // In either order, and up to some steps apart.
                let lead = random.below(10) + session as u64;
                let first_the_prompt = random.below(2) == 0;
                let (sent, ended);
                if first_the_prompt {
                    sent = other.send("message.queue.add", chat.prompt(&b, &b)).await.unwrap();
                    ended = client.send("permission.respond", answer).await.unwrap();
                } else {
                    ended = client.send("permission.respond", answer).await.unwrap();
                    for _ in 0..lead {
                        other.ok("ping", json!({})).await;
                    }
                    sent = other.send("message.queue.add", chat.prompt(&b, &b)).await.unwrap();
                }
                let outcome = accepted(&other.answer(&sent).await.unwrap()).1;
                assert_eq!(outcome, "admitted", "round {round}, seed {seed}");
                assert!(client.answer(&ended).await.unwrap().is_ok());
                client.until_settled(&chat).await;
                assert_eq!(accepted(&client.add(&chat, &b, &b).await).1, "replayed");
                expected.extend([asks, b]);
            }
            assert_eq!(ran(&mut client, &chat).await, expected, "seed {seed}");
        });
    }
    while let Some(done) = sessions.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn c004_prompts_that_follow_each_other_closely_run_exactly_once() {
    const ROUNDS: usize = 150;
    let mut scene = Scene::new().await;
    let mut expected = Vec::new();
    for round in 0..ROUNDS {
        // The second one meets the end of the first one's turn at any of its points.
        for text in [format!("a{round}"), format!("b{round}")] {
            scene.admit(&text).await;
            expected.push(text);
        }
        if round % 10 == 9 {
            scene.settled().await;
        }
    }
    scene.settled().await;
    assert_eq!(scene.prompts().await, expected);
}

#[tokio::test]
async fn c021_a_prompt_sent_while_a_cancel_settles_is_there_once() {
    const ROUNDS: usize = 51;
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let mut other = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.subscribe(&chat).await;
    for round in 0..ROUNDS {
        client.set_auto_run(&chat, true).await;
        client.admit(&chat, &format!("turn-{round}"), "/demo hang").await;
        client.until_running(&chat).await;
        let id = format!("k{round}");
        let cancel = client.send("turn.cancel", chat.identity()).await.unwrap();
        let first = other.send("message.queue.add", chat.prompt(&id, &id)).await.unwrap();
        // Step by step later in the settling of the cancel.
        for _ in 0..round {
            client.ok("ping", json!({})).await;
        }
        let mut outcomes = vec![accepted(&client.add(&chat, &id, &id).await)];
        outcomes.push(accepted(&other.answer(&first).await.unwrap()));
        assert_eq!(outcomes[0].0, outcomes[1].0, "round {round}");
        assert!(client.answer(&cancel).await.unwrap().is_ok());
        client.until(&chat, |session, _| session["state"] == "idle").await;
        client.set_auto_run(&chat, true).await;
        client.until(&chat, |_, queue| queue["count"] == 0).await;
        client.until_settled(&chat).await;
    }
    let prompts = by_role(&client.transcript(&chat).await, "user");
    let mut expected = Vec::new();
    for round in 0..ROUNDS {
        expected.extend(["/demo hang".to_owned(), format!("k{round}")]);
    }
    assert_eq!(contents(&prompts), expected);
}
