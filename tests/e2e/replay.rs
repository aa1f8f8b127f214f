//! The same admission ID again, whatever happened to its reply, its entry or the server.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted, by_role, contents, string};
use usher_tests::client::{Client, Refusal};
use usher_tests::server::Server;

fn replayed(id: &str) -> (String, String) {
    (id.to_owned(), "replayed".to_owned())
}

/// Checks that every field of a replay is what the first answer had.
fn same_but_outcome(first: &Value, replay: &Value) {
    let mut expected = first.clone();
    expected["admission"]["outcome"] = json!("replayed");
    assert_eq!(replay, &expected);
}

#[tokio::test]
async fn c003_a_reply_that_was_lost_is_given_again() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    client.subscribe(&chat).await;
    for round in 0..20 {
        let (id, text) = (format!("k{round}"), format!("text {round}"));
        let mut link = Client::connect(&server).await;
        link.send("message.queue.add", chat.prompt(&id, &text)).await.unwrap();
        link.cut();
        // What was received whole stands, though nobody is left to hear the answer.
        client.until(&chat, |_, queue| queue["count"] == round + 1).await;
        let (entry, outcome) = accepted(&client.add(&chat, &id, &text).await);
        assert_eq!(outcome, "replayed");
        assert_eq!(client.entries(&chat).await[round]["id"], json!(entry));
    }
    assert_eq!(client.entries(&chat).await.len(), 20);
}

#[tokio::test]
async fn c003_a_reply_that_was_lost_with_the_server_is_given_after_the_restart() {
    let mut server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    for round in 0..5 {
        let id = format!("k{round}");
        client.subscribe(&chat).await;
        let mut link = Client::connect(&server).await;
        link.send("message.queue.add", chat.prompt(&id, &id)).await.unwrap();
        link.cut();
        let queue = client.until(&chat, |_, queue| queue["count"] == round + 1).await;
        let entry = queue["entries"][round]["id"].as_str().unwrap().to_owned();
        server = server.kill().start();
        client = Client::connect(&server).await;
        assert_eq!(accepted(&client.add(&chat, &id, &id).await), replayed(&entry));
        assert_eq!(client.queue(&chat).await["count"], round + 1);
    }
}

#[tokio::test]
async fn c001_a_late_first_reply_and_its_retry_are_the_same_admission() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::watched(&mut client).await;
    client.admit(&chat, "k0", "/demo hang").await;
    client.until_running(&chat).await;
    let first = client.send("message.queue.add", chat.prompt("k1", "A")).await.unwrap();
    let retry = client.send("message.queue.add", chat.prompt("k1", "A")).await.unwrap();
    let retry = client.answer(&retry).await.unwrap();
    let first = client.answer(&first).await.unwrap();
    assert_eq!(accepted(&first).1, "admitted");
    same_but_outcome(&first.unwrap(), &retry.unwrap());
    assert_eq!(contents(&client.entries(&chat).await), ["A"]);
    client.ok("turn.cancel", chat.identity()).await;
    client.until_settled(&chat).await;
    client.set_auto_run(&chat, true).await;
    client.until_settled(&chat).await;
    let prompts = by_role(&client.transcript(&chat).await, "user");
    assert_eq!(contents(&prompts), ["/demo hang", "A"]);
}

#[tokio::test]
async fn a_replay_changes_nothing() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    let first = client.add(&chat, "k1", "A").await.unwrap();
    client.admit(&chat, "k2", "B").await;
    client.subscribe(&chat).await;
    let before = client.queue(&chat).await;
    for _ in 0..3 {
        let replay = client.add(&chat, "k1", "A").await.unwrap();
        same_but_outcome(&first, &replay);
    }
    assert_eq!(client.queue(&chat).await, before);
}

#[tokio::test]
async fn an_entry_that_was_removed_or_cleared_stays_accepted() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    let first = client.add(&chat, "k1", "A").await.unwrap();
    let second = client.add(&chat, "k2", "B").await.unwrap();
    client.ok("message.queue.remove", chat.with(json!({"entry_id": first["id"]}))).await;
    same_but_outcome(&first, &client.add(&chat, "k1", "A").await.unwrap());
    client.ok("message.queue.cancel", chat.identity()).await;
    same_but_outcome(&second, &client.add(&chat, "k2", "B").await.unwrap());
    assert_eq!(client.entries(&chat).await, Vec::<Value>::new());
    let conflict = Refusal::new("queue_id_conflict", json!({}));
    assert_eq!(client.add(&chat, "k1", "other").await, Err(conflict));
}

#[tokio::test]
async fn a_prompt_that_was_dispatched_stays_accepted_and_runs_once() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.subscribe(&chat).await;
    let entry = client.admit(&chat, "k1", "A").await;
    client.until_settled(&chat).await;
    assert_eq!(accepted(&client.add(&chat, "k1", "A").await), replayed(&entry));
    client.until_settled(&chat).await;
    let transcript = client.transcript(&chat).await;
    assert_eq!(contents(&transcript), ["A", "You said: A"]);
    assert_eq!(transcript[0]["metadata"]["queue_admission_ids"], json!(["k1"]));
}

#[tokio::test]
async fn a_prompt_of_a_running_turn_is_replayed_and_not_queued_again() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.subscribe(&chat).await;
    let text = "/demo say working; hang";
    let entry = client.admit(&chat, "k1", text).await;
    client.until_running(&chat).await;
    assert_eq!(accepted(&client.add(&chat, "k1", text).await), replayed(&entry));
    assert_eq!(client.queue(&chat).await["count"], 0);
}

#[tokio::test]
async fn a_restart_forgets_nothing() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.subscribe(&chat).await;
    let dispatched = client.add(&chat, "k1", "A").await.unwrap();
    client.until_settled(&chat).await;
    client.set_auto_run(&chat, false).await;
    let waiting = client.add(&chat, "k2", "B").await.unwrap();
    let removed = client.add(&chat, "k3", "C").await.unwrap();
    client.ok("message.queue.remove", chat.with(json!({"entry_id": removed["id"]}))).await;
    let queue = client.queue(&chat).await;
    let transcript = client.transcript(&chat).await;
    let session = client.session(&chat).await;

    let (status, launch) = server.terminate();
    assert_eq!(status.code(), Some(0));
    // Once after a clean end, once after another kind of end.
    for _ in 0..2 {
        let server = launch.start();
        let mut client = Client::connect(&server).await;
        let mut queue_now = client.queue(&chat).await;
        queue_now["event_seq"] = queue["event_seq"].clone();
        assert_eq!(queue_now, queue);
        assert_eq!(client.transcript(&chat).await, transcript);
        assert_eq!(client.session(&chat).await, session);
        same_but_outcome(&dispatched, &client.add(&chat, "k1", "A").await.unwrap());
        same_but_outcome(&waiting, &client.add(&chat, "k2", "B").await.unwrap());
        same_but_outcome(&removed, &client.add(&chat, "k3", "C").await.unwrap());
        assert_eq!(contents(&client.entries(&chat).await), ["B"]);
        server.kill();
    }
}

#[tokio::test]
async fn c010_the_same_id_in_another_session_is_another_admission() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let one = Chat::parked(&mut client).await;
    let two = Chat::parked(&mut client).await;
    let first = accepted(&client.add(&one, "k1", "A").await);
    let second = accepted(&client.add(&two, "k1", "B").await);
    assert_eq!((first.1.as_str(), second.1.as_str()), ("admitted", "admitted"));
    assert_ne!(first.0, second.0);
    assert_eq!(contents(&client.entries(&one).await), ["A"]);
    assert_eq!(contents(&client.entries(&two).await), ["B"]);
}

#[tokio::test]
async fn c009_an_id_of_long_ago_is_remembered_behind_thousands_of_others() {
    const OTHERS: usize = 20_000;
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    let first = client.admit(&chat, "k1", "A").await;
    for batch in 0..OTHERS / 50 {
        let mut requests = Vec::new();
        for number in 0..50 {
            let prompt = chat.prompt(&format!("other-{batch}-{number}"), "x");
            requests.push(client.send("message.queue.add", prompt).await.unwrap());
        }
        for request in requests {
            assert!(client.answer(&request).await.unwrap().is_ok());
        }
        client.ok("message.queue.cancel", chat.identity()).await;
    }
    assert_eq!(accepted(&client.add(&chat, "k1", "A").await), replayed(&first));

    // 400 days later; the machine's clock is not ours, so that what is stored goes back.
    let (_, launch) = server.terminate();
    launch.change(
        "UPDATE queue_admission_receipts SET accepted_at = accepted_at - 34560000000;
         UPDATE queue_entries SET queued_at = queued_at - 34560000000;
         UPDATE sessions SET created_at = created_at - 34560000000;",
    );
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let long_ago = client.add(&chat, "k1", "A").await.unwrap()["queued_at"].clone();
    let later = client.add(&chat, "k2", "B").await.unwrap()["queued_at"].clone();
    assert!(string(&long_ago)[..4] < string(&later)[..4], "{long_ago}");
    for _ in 0..10 {
        assert_eq!(accepted(&client.add(&chat, "k1", "A").await), replayed(&first));
    }
    assert_eq!(contents(&client.entries(&chat).await), ["B"]);
}
