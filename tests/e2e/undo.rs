//! What a remove or clear took comes back once, at its place, within the session's life.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, contents};
use usher_tests::client::{Answer, Client, Refusal};
use usher_tests::server::Server;

async fn three_waiting(client: &mut Client) -> (Chat, Vec<Value>) {
    let chat = Chat::create(client).await;
    client.set_auto_run(&chat, false).await;
    for id in ["a", "b", "c"] {
        client.admit(&chat, id, id).await;
    }
    let entries = client.entries(&chat).await;
    (chat, entries)
}

async fn restore(client: &mut Client, chat: &Chat, undo: &Value) -> Answer {
    client.request("message.queue.restore", chat.with(json!({"undo_id": undo["undo_id"]}))).await
}

fn expired() -> Answer {
    Err(Refusal::new("undo_expired", json!({})))
}

#[tokio::test]
async fn a_removed_entry_is_back_at_its_place_with_its_id_once_also_after_a_restart() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let (chat, before) = three_waiting(&mut client).await;
    let middle = chat.with(json!({"entry_id": before[1]["id"]}));
    let removed = client.ok("message.queue.remove", middle).await;
    assert_eq!(client.entries(&chat).await, [before[0].clone(), before[2].clone()]);

    let (_, launch) = server.terminate();
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    assert_eq!(restore(&mut client, &chat, &removed).await, Ok(json!({"restored": 1})));
    assert_eq!(client.entries(&chat).await, before);
    assert_eq!(client.queue(&chat).await["count"], 3);
    assert_eq!(restore(&mut client, &chat, &removed).await, expired());
}

#[tokio::test]
async fn a_cleared_queue_is_back_in_order_beyond_the_cap_and_behind_nobody() {
    let launch = usher_tests::server::Launch::new().env("USHER_QUEUE_MAX_PER_SESSION", "3");
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let (chat, before) = three_waiting(&mut client).await;
    let cleared = client.ok("message.queue.cancel", chat.identity()).await;
    client.admit(&chat, "d", "d").await;
    assert_eq!(restore(&mut client, &chat, &cleared).await, Ok(json!({"restored": 3})));
    let after = client.entries(&chat).await;
    assert_eq!(after[..3], before);
    let full = client.add(&chat, "e", "e").await;
    assert_eq!(full, Err(Refusal::new("queue_full", json!({"queue_size": 4, "max": 3}))));
}

#[tokio::test]
async fn another_sessions_undo_and_a_made_up_one_are_nothing_to_restore() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let (chat, before) = three_waiting(&mut client).await;
    let (other, _) = three_waiting(&mut client).await;
    let first = chat.with(json!({"entry_id": before[0]["id"]}));
    let removed = client.ok("message.queue.remove", first).await;
    assert_eq!(restore(&mut client, &other, &removed).await, expired());
    assert_eq!(restore(&mut client, &chat, &json!({"undo_id": "made up"})).await, expired());
    assert_eq!(restore(&mut client, &chat, &removed).await, Ok(json!({"restored": 1})));
}

#[tokio::test]
async fn clear_takes_every_entry_and_counts_them() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    for number in 0..3 {
        client.admit(&chat, &format!("k{number}"), "x").await;
    }
    let stale = chat.with(json!({"expected_queue_revision": 0}));
    let refusal = client.request("message.queue.cancel", stale).await.unwrap_err();
    let revision = client.queue(&chat).await["queue_revision"].clone();
    assert_eq!(refusal, Refusal::new("queue_changed", json!({"queue_revision": revision})));

    let exact = chat.with(json!({"expected_queue_revision": revision}));
    let cleared = client.ok("message.queue.cancel", exact).await;
    assert_eq!((&cleared["session_id"], &cleared["removed"]), (&json!(chat.session_id), &json!(3)));
    assert!(cleared["undo_id"].is_string());
    let cleared = client.ok("message.queue.cancel", chat.identity()).await;
    assert_eq!(cleared["removed"], 0);
    let queue = client.queue(&chat).await;
    assert_eq!((&queue["count"], &queue["auto_run"]), (&json!(0), &json!(false)));
}

#[tokio::test]
async fn remove_takes_one_entry_once() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let mut ids = Vec::new();
    for text in ["A", "B", "C"] {
        ids.push(client.admit(&chat, text, text).await);
    }
    let removed = client.ok("message.queue.remove", chat.with(json!({"entry_id": ids[1]}))).await;
    assert_eq!(removed["entry_id"], json!(ids[1]));
    assert_eq!(contents(&client.entries(&chat).await), ["A", "C"]);
    let gone = Refusal::new("entry_not_found", json!({}));
    for id in [ids[1].as_str(), "no-such-id", "00000000-0000-0000-0000-000000000000"] {
        let again =
            client.request("message.queue.remove", chat.with(json!({"entry_id": id}))).await;
        assert_eq!(again, Err(gone.clone()), "{id}");
    }
}
