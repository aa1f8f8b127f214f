//! What happens to whole sessions and tasks: set, reset, archive.

use serde_json::{Value, json};
use usher_tests::actions::all_unavailable;
use usher_tests::chat::{Chat, accepted, by_role, contents};
use usher_tests::client::{Answer, Client, Refusal};
use usher_tests::scene::refused;
use usher_tests::server::Server;

/// A watched session with a turn that runs until it is stopped, and prompts behind it.
async fn busy(client: &mut Client, waiting: &[&str]) -> Chat {
    let chat = Chat::watched(client).await;
    client.admit(&chat, "busy", "/demo say on it; hang").await;
    client.until_running(&chat).await;
    for text in waiting {
        client.admit(&chat, text, text).await;
    }
    chat
}

async fn reset(client: &mut Client, chat: &Chat, fields: Value) -> Chat {
    let reply = client.ok("session.reset", chat.with(fields)).await;
    Chat::of_session(&reply["session"])
}

async fn archive(client: &mut Client, chat: &Chat) -> Answer {
    client.request("task.archive", json!({"task_id": chat.task_id})).await
}

async fn unarchive(client: &mut Client, chat: &Chat) -> Answer {
    client.request("task.unarchive", json!({"task_id": chat.task_id})).await
}

#[tokio::test]
async fn model_mode_and_title_are_set_one_by_one_and_told() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::watched(&mut client).await;
    let set = client.ok("session.set", chat.with(json!({"model": "m1", "title": "new"}))).await;
    let shown = |session: &Value| {
        (session["model"].clone(), session["mode"].clone(), session["title"].clone())
    };
    assert_eq!(shown(&set["session"]), (json!("m1"), Value::Null, json!("new")));
    let told = client.notified("session.changed", |_| true).await;
    assert_eq!(shown(&told), shown(&set["session"]));
    let only_mode = chat.with(json!({"mode": "plan", "model": null}));
    let set = client.ok("session.set", only_mode).await;
    assert_eq!(shown(&set["session"]), (json!("m1"), json!("plan"), json!("new")));
    // Empty: back to the agent's own choice.
    let set = client.ok("session.set", chat.with(json!({"model": ""}))).await;
    assert_eq!(shown(&set["session"]), (Value::Null, json!("plan"), json!("new")));
    assert_eq!(client.session(&chat).await, set["session"]);
    for field in ["model", "mode", "title"] {
        let nul = client.request("session.set", chat.with(json!({field: "a\0b"}))).await;
        assert_eq!(nul, Err(Refusal::new("validation", json!({"field": field}))));
        let long =
            client.request("session.set", chat.with(json!({field: "x".repeat(1_025)}))).await;
        let limit = json!({"field": field, "limit": 1_024});
        assert_eq!(long, Err(Refusal::new("validation", limit)));
    }
}

#[tokio::test]
async fn a_reset_keeps_queue_and_transcript_and_makes_the_old_life_stale() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let old = Chat::watched(&mut client).await;
    client.admit(&old, "k0", "hello").await;
    client.until_settled(&old).await;
    client.set_auto_run(&old, false).await;
    client.admit(&old, "k1", "A").await;
    let removed = client.admit(&old, "k2", "B").await;
    let undo = client.ok("message.queue.remove", old.with(json!({"entry_id": removed}))).await;
    let before = client.queue(&old).await;

    let new = reset(&mut client, &old, json!({})).await;
    assert_eq!((&new.task_id, &new.session_id), (&old.task_id, &old.session_id));
    assert_ne!(new.incarnation_id, old.incarnation_id);
    all_unavailable(&mut client, &old).await;

    let after = client.queue(&new).await;
    assert!(after["queue_revision"].as_u64() > before["queue_revision"].as_u64());
    assert_eq!(after["auto_run"], false);
    let mut entry = before["entries"][0].clone();
    entry["metadata"]["queue_admission_ids"] = json!([]);
    entry["metadata"]["queue_admission_ids_past"] = json!(["k1"]);
    assert_eq!(after["entries"], json!([entry]));
    let restore = new.with(json!({"undo_id": undo["undo_id"]}));
    let restored = client.request("message.queue.restore", restore).await;
    assert_eq!(restored, Err(Refusal::new("undo_expired", json!({}))));

    let transcript = client.transcript(&new).await;
    assert_eq!(contents(&transcript), ["hello", "You said: hello", ""]);
    assert_eq!(transcript[2]["role"], "system");
    assert_eq!(transcript[2]["metadata"]["notice"], "session_reset");

    // Provenance of an earlier life stays past on the transcript, too.
    client.set_auto_run(&new, true).await;
    client.until_settled(&new).await;
    let prompts = by_role(&client.transcript(&new).await, "user");
    let ids = |message: &Value| {
        let metadata = &message["metadata"];
        (metadata["queue_admission_ids"].clone(), metadata["queue_admission_ids_past"].clone())
    };
    assert_eq!(ids(&prompts[1]), (json!([]), json!(["k1"])));
}

#[tokio::test]
async fn c010_an_admission_id_counts_within_one_life_of_one_session() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let one = Chat::create(&mut client).await;
    let two = Chat::create(&mut client).await;
    for chat in [&one, &two] {
        client.set_auto_run(chat, false).await;
    }
    let first = accepted(&client.add(&one, "k1", "A").await);
    let other = accepted(&client.add(&two, "k1", "B").await);
    assert_eq!((first.1.as_str(), other.1.as_str()), ("admitted", "admitted"));
    let new = reset(&mut client, &one, json!({})).await;
    assert_eq!(client.add(&one, "k1", "A").await, refused("queue_session_unavailable"));
    assert_eq!(
        client.add(&one, "k1", "not A").await,
        refused("queue_session_unavailable"),
        "not even a conflict"
    );
    let fresh = accepted(&client.add(&new, "k1", "A").await);
    assert_eq!(fresh.1, "admitted");
    assert_ne!(fresh.0, first.0);
    assert_eq!(contents(&client.entries(&new).await), ["A", "A"]);
    assert_eq!(accepted(&client.add(&new, "k1", "A").await), (fresh.0, "replayed".to_owned()));
}

#[tokio::test]
async fn a_reset_clears_the_queue_only_if_asked_and_waits_for_nobody() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = busy(&mut client, &["A", "B"]).await;
    let busy = client.request("session.reset", chat.identity()).await;
    assert_eq!(busy, refused("session_busy"));
    client.ok("turn.cancel", chat.identity()).await;
    client.until_settled(&chat).await;
    let new = reset(&mut client, &chat, json!({"keep_queue": false})).await;
    let queue = client.queue(&new).await;
    assert_eq!((&queue["entries"], &queue["count"]), (&json!([]), &json!(0)));
    assert_eq!(queue["auto_run_reason"], "cancelled");
    client.set_auto_run(&new, true).await;
    client.admit(&new, "k1", "C").await;
    client.until_settled(&new).await;
    let prompts = by_role(&client.transcript(&new).await, "user");
    assert_eq!(contents(&prompts), ["/demo say on it; hang", "C"]);
}

#[tokio::test]
async fn an_archived_task_is_read_only_and_comes_back_as_it_was() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = busy(&mut client, &["A", "B"]).await;
    assert_eq!(archive(&mut client, &chat).await, Ok(json!({"task_id": chat.task_id})));
    let told = client.notified("task.changed", |task| task["archived"] == true).await;
    assert_eq!(told["id"], json!(chat.task_id));
    // The turn has ended, and nothing is parked.
    let session = client.session(&chat).await;
    assert_eq!((&session["state"], &session["turn"]), (&json!("idle"), &Value::Null));
    all_unavailable(&mut client, &chat).await;
    assert_eq!(client.ok("task.list", json!({})).await["tasks"], json!([]));
    let all = client.ok("task.list", json!({"include_archived": true})).await;
    assert_eq!(all["tasks"][0]["archived"], true);
    assert_eq!(all["tasks"][0]["queued_prompt_count"], 2);
    let task = client.ok("task.get", json!({"task_id": chat.task_id})).await;
    assert_eq!(task["task"], all["tasks"][0]);
    let said = client.transcript(&chat).await;
    assert_eq!(contents(&said), ["/demo say on it; hang", "on it", ""]);
    assert_eq!(said[2]["metadata"]["notice"], "turn_cancelled");
    // Once more is as good as once.
    assert_eq!(archive(&mut client, &chat).await, Ok(json!({"task_id": chat.task_id})));

    let server = server.kill().start();
    let mut client = Client::connect(&server).await;
    all_unavailable(&mut client, &chat).await;
    client.subscribe(&chat).await;
    assert_eq!(unarchive(&mut client, &chat).await, Ok(json!({"task_id": chat.task_id})));
    client.until_settled(&chat).await;
    let prompts = by_role(&client.transcript(&chat).await, "user");
    assert_eq!(contents(&prompts), ["/demo say on it; hang", "A", "B"]);
    let replay = accepted(&client.add(&chat, "A", "A").await);
    assert_eq!(replay.1, "replayed", "receipts outlive an archive");
    assert_eq!(unarchive(&mut client, &chat).await, Ok(json!({"task_id": chat.task_id})));
}

#[tokio::test]
async fn who_watches_an_archived_session_sees_its_turn_end() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::watched(&mut client).await;
    let mut watcher = Client::connect(&server).await;
    watcher.subscribe(&chat).await;
    client.admit(&chat, "k1", "/demo hang").await;
    client.until_running(&chat).await;
    client.admit(&chat, "k2", "waits").await;
    client.ok("task.archive", json!({"task_id": chat.task_id})).await;
    let ended = watcher.notified("turn.ended", |_| true).await;
    assert_eq!(ended["outcome"], "cancelled");
    watcher.notified("session.changed", |session| session["state"] == "idle").await;
    // The queue rests, and is shown.
    client.ok("settings.set", json!({"merge_enabled": false})).await;
    watcher.notified("message.queue.status_changed", |queue| queue["merge_enabled"] == false).await;
}

#[tokio::test]
async fn who_watches_is_told_how_the_turn_of_an_archived_task_ends() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::watched(&mut client).await;
    client.admit(&chat, "k1", "/demo deaf; say never mind; hang").await;
    client.until_running(&chat).await;
    let entry = client.admit(&chat, "k2", "B").await;
    // The turn that this is to replace ends when the task is archived already: B waits again.
    let now = chat.with(json!({"scope": "entry", "entry_id": entry}));
    client.ok("message.queue.send_now", now).await;
    assert_eq!(archive(&mut client, &chat).await, Ok(json!({"task_id": chat.task_id})));

    let mut watcher = Client::connect(&server).await;
    let snapshot = watcher.subscribe(&chat).await;
    let queue = &snapshot["queue"];
    assert_eq!(contents(queue["entries"].as_array().unwrap()), ["B"]);
    let mut told = (Value::Null, Value::Null);
    loop {
        let (action, event) = client.notification().await;
        match action.as_str() {
            "turn.ended" => told.0 = event["reason"].clone(),
            "message.queue.status_changed" => told.1 = event["queue_revision"].clone(),
            _ => {}
        }
        if event["event_seq"] == snapshot["event_seq"] {
            break;
        }
    }
    assert_eq!(told, (json!("replaced"), queue["queue_revision"].clone()));
}

#[tokio::test]
async fn unarchive_leaves_a_parked_queue_parked() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::watched(&mut client).await;
    client.set_auto_run(&chat, false).await;
    client.admit(&chat, "k1", "A").await;
    let before = client.queue(&chat).await;
    archive(&mut client, &chat).await.unwrap();
    unarchive(&mut client, &chat).await.unwrap();
    assert_eq!(client.queue(&chat).await["entries"], before["entries"]);
    assert_eq!(client.queue(&chat).await["auto_run_reason"], "user");
}
