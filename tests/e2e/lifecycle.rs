//! What happens to whole sessions and tasks: set, reset, archive, delete.

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use usher_tests::actions::with_identity;
use usher_tests::chat::{Chat, accepted, by_role, contents, string};
use usher_tests::client::{Answer, Client, Refusal};
use usher_tests::server::Server;

fn unavailable() -> Answer {
    Err(Refusal::new("queue_session_unavailable", json!({})))
}

fn not_found() -> Answer {
    Err(Refusal::new("not_found", json!({})))
}

/// A subscribed session.
async fn watched(client: &mut Client) -> Chat {
    let chat = Chat::create(client).await;
    client.subscribe(&chat).await;
    chat
}

/// A watched session with a turn that runs until it is stopped, and prompts behind it.
async fn busy(client: &mut Client, waiting: &[&str]) -> Chat {
    let chat = watched(client).await;
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

/// The tables that hold something of a session.
const TABLES: [&str; 8] = [
    "tasks",
    "sessions",
    "session_incarnations",
    "queue_entries",
    "queue_admission_receipts",
    "turns",
    "messages",
    "message_parts",
];

/// Returns how many rows the tables have, those that are empty aside.
fn rows(server: &Server) -> Vec<(&'static str, i64)> {
    let count = |table: &str| format!("SELECT COUNT(*) FROM {table}");
    let mut rows: Vec<_> = match server.launch().home().database() {
        Some(database) => TABLES
            .map(|table| (table, database.run(&count(table))[0].parse().unwrap()))
            .into_iter()
            .collect(),
        None => {
            let path = server.launch().data_dir().join("usher.db");
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
            let database = Connection::open_with_flags(path, flags).unwrap();
            let read = |table| database.query_row(&count(table), [], |row| row.get(0)).unwrap();
            TABLES.map(|table| (table, read(table))).into_iter().collect()
        }
    };
    rows.retain(|(_, count)| *count > 0);
    rows
}

async fn all_unavailable(client: &mut Client, chat: &Chat) {
    for (action, fields) in with_identity() {
        assert_eq!(client.request(action, chat.with(fields)).await, unavailable(), "{action}");
    }
}

#[tokio::test]
async fn model_mode_and_title_are_set_one_by_one_and_told() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = watched(&mut client).await;
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
    let old = watched(&mut client).await;
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
    assert_eq!(client.add(&one, "k1", "A").await, unavailable());
    assert_eq!(client.add(&one, "k1", "not A").await, unavailable(), "not even a conflict");
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
    let refused = client.request("session.reset", chat.identity()).await;
    assert_eq!(refused, Err(Refusal::new("session_busy", json!({}))));
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
async fn unarchive_leaves_a_parked_queue_parked() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = watched(&mut client).await;
    client.set_auto_run(&chat, false).await;
    client.admit(&chat, "k1", "A").await;
    let before = client.queue(&chat).await;
    archive(&mut client, &chat).await.unwrap();
    unarchive(&mut client, &chat).await.unwrap();
    assert_eq!(client.queue(&chat).await["entries"], before["entries"]);
    assert_eq!(client.queue(&chat).await["auto_run_reason"], "user");
}

#[tokio::test]
async fn a_deaf_agent_does_not_keep_a_task_from_being_deleted() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = watched(&mut client).await;
    client.admit(&chat, "k1", "/demo deaf; say never mind; hang").await;
    client.until_running(&chat).await;
    let deleted = client.request("task.delete", json!({"task_id": chat.task_id})).await;
    assert_eq!(deleted, Ok(json!({"task_id": chat.task_id})));
    assert_eq!(rows(&server), []);
}

#[tokio::test]
async fn what_comes_while_the_server_still_finishes_something_is_turned_away() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = watched(&mut client).await;
    client.admit(&chat, "k1", "/demo deaf; say never mind; hang").await;
    client.until_running(&chat).await;
    client.send("task.delete", json!({"task_id": chat.task_id})).await.unwrap();
    while client.request("session.get", chat.identity()).await != not_found() {}
    server.signal(rustix::process::Signal::TERM);
    client.notified("server.draining", |_| true).await;
    let refused = client.add(&chat, "k2", "B").await;
    let details = json!({"retry_after_ms": 1_000});
    assert_eq!(refused, Err(Refusal::new("shutting_down", details)));
}

#[tokio::test]
async fn a_deleted_session_is_an_unknown_one_and_tells_nobody_anything() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let kept = watched(&mut client).await;
    let made = client.ok("session.create", json!({"task_id": kept.task_id})).await;
    let chat = Chat::of_session(&made["session"]);
    let mut watcher = Client::connect(&server).await;
    for client in [&mut client, &mut watcher] {
        client.subscribe(&chat).await;
    }
    client.admit(&chat, "k1", "/demo big 100000; hang").await;
    client.until_running(&chat).await;
    client.admit(&chat, "k2", "waits").await;
    client.forget_notifications();
    let deleted = client.ok("session.delete", chat.identity()).await;
    assert_eq!(deleted, json!({"session_id": chat.session_id}));
    all_unavailable(&mut client, &chat).await;
    for action in ["session.get", "session.subscribe", "transcript.page"] {
        let request = json!({"session_id": chat.session_id});
        assert_eq!(client.request(action, request).await, not_found(), "{action}");
    }
    let task = client.ok("task.get", json!({"task_id": kept.task_id})).await;
    assert_eq!(task["sessions"].as_array().unwrap().len(), 1);

    // The link goes on; the first thing it hears is of the other session.
    watcher.subscribe(&kept).await;
    watcher.forget_notifications();
    client.admit(&kept, "k1", "hello").await;
    let told = loop {
        let (action, told) = watcher.notification().await;
        match action.as_str() {
            "task.changed" => {}
            "session.deleted" => assert_eq!(told["session_id"], json!(chat.session_id)),
            _ => break told,
        }
    };
    assert_eq!(told["session_id"], json!(kept.session_id));
    client.until_settled(&kept).await;
    let gone = client.request("session.delete", kept.identity()).await;
    assert_eq!(gone, Ok(json!({"session_id": kept.session_id})));
    assert_eq!(rows(&server), [("tasks", 1)]);
}

#[tokio::test]
async fn a_deleted_task_takes_everything_with_it() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = busy(&mut client, &["A"]).await;
    let made = client.ok("session.create", json!({"task_id": chat.task_id})).await;
    let idle = Chat::of_session(&made["session"]);
    client.set_auto_run(&idle, false).await;
    let entry = client.admit(&idle, "k1", "B").await;
    client.ok("message.queue.remove", idle.with(json!({"entry_id": entry}))).await;
    reset(&mut client, &idle, json!({})).await;
    let task = json!({"task_id": chat.task_id});
    assert_eq!(client.request("task.delete", task.clone()).await, Ok(task.clone()));
    for action in ["task.get", "task.archive", "task.unarchive", "task.delete", "session.create"] {
        assert_eq!(client.request(action, task.clone()).await, not_found(), "{action}");
    }
    all_unavailable(&mut client, &chat).await;
    let listed = client.ok("task.list", json!({"include_archived": true})).await;
    assert_eq!(listed["tasks"], json!([]));
    assert_eq!(rows(&server), []);
}

#[tokio::test]
async fn c135_receipts_go_with_their_session() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    for number in 0..100 {
        client.admit(&chat, &format!("k{number}"), &"x".repeat(100)).await;
    }
    assert!(rows(&server).contains(&("queue_admission_receipts", 100)));
    client.ok("session.delete", chat.identity()).await;
    assert_eq!(rows(&server), [("tasks", 1)]);
}

#[tokio::test]
async fn c080_a_delete_that_races_with_the_end_of_a_turn_starts_nothing() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let task = client.ok("task.create", json!({"title": "races"})).await;
    let task_id = string(&task["task"]["id"]);
    client.ok("session.delete", Chat::of_session(&task["session"]).identity()).await;
    for round in 0..200 {
        let made = client.ok("session.create", json!({"task_id": task_id})).await;
        let chat = Chat::of_session(&made["session"]);
        client.subscribe(&chat).await;
        client.forget_notifications();
        client.admit(&chat, "A", "/demo say A").await;
        client.admit(&chat, "B", "/demo say B").await;
        match round % 4 {
            0 => {}
            1 => drop(client.notified("turn.started", |_| true).await),
            2 => drop(client.notified("transcript.message", |_| true).await),
            _ => drop(client.notified("turn.ended", |_| true).await),
        }
        client.ok("session.delete", chat.identity()).await;
        assert_eq!(client.request("turn.cancel", chat.identity()).await, unavailable());
    }
    assert_eq!(rows(&server), [("tasks", 1)]);
}

#[tokio::test]
async fn what_was_to_be_deleted_when_the_server_died_is_deleted_at_the_next_start() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = watched(&mut client).await;
    client.admit(&chat, "k1", "/demo deaf; say no; hang").await;
    client.until_running(&chat).await;
    let asked = json!({"task_id": chat.task_id});
    let id = client.send("task.delete", asked.clone()).await.unwrap();
    // Decided from the moment it cannot be found.
    let mut other = Client::connect(&server).await;
    while other.request("task.get", asked.clone()).await != not_found() {}
    let server = server.kill().start();
    assert!(client.answer(&id).await.is_err(), "the agent was deaf");
    // Where several servers share a database, the next one waits until it is sure that the last one
    // is gone; alone it starts with nothing left.
    if server.launch().home().database().is_none() {
        assert_eq!(rows(&server), []);
    }
    let mut client = Client::connect(&server).await;
    while !rows(&server).is_empty() {
        client.ok("ping", json!({})).await;
    }
}

#[tokio::test]
async fn what_is_being_deleted_has_given_its_request_id_free() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let mut other = Client::connect(&server).await;
    let request = json!({"title": "t", "client_request_id": "r"});
    let made = client.ok("task.create", request.clone()).await;
    let first = Chat::of_session(&made["session"]);
    let session = json!({"task_id": first.task_id, "client_request_id": "r"});
    let second = client.ok("session.create", session.clone()).await["session"].take();
    let second = Chat::of_session(&second);
    for chat in [&first, &second] {
        client.subscribe(chat).await;
        client.admit(chat, "k", "/demo deaf; say never mind; hang").await;
        client.until_running(chat).await;
    }
    // Decided from the moment it cannot be found; the agent does not hear.
    client.send("session.delete", second.identity()).await.unwrap();
    while other.request("session.get", second.identity()).await != not_found() {}
    let again = other.ok("session.create", session.clone()).await;
    assert_ne!(again["session"]["id"], json!(second.session_id));
    assert_eq!(other.ok("session.create", session).await["session"]["id"], again["session"]["id"]);

    client.send("task.delete", json!({"task_id": first.task_id})).await.unwrap();
    while other.request("session.get", first.identity()).await != not_found() {}
    let again = other.ok("task.create", request.clone()).await;
    assert_ne!(again["task"]["id"], made["task"]["id"]);
    assert_eq!(other.ok("task.create", request).await["task"]["id"], again["task"]["id"]);
}

#[tokio::test]
async fn every_link_of_the_user_learns_what_is_archived_and_what_is_gone() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let mut other = Client::connect(&server).await;
    let token = server.launch().add_user("otto");
    let mut otto = Client::connect_as(&server, &token).await;
    let chat = Chat::create(&mut client).await;
    let task = json!({"task_id": chat.task_id});
    client.ok("session.delete", chat.identity()).await;
    let gone = json!({"task_id": chat.task_id, "session_id": chat.session_id});
    for client in [&mut client, &mut other] {
        assert_eq!(client.notified("session.deleted", |_| true).await, gone);
    }
    // The task has no session now.
    for (action, archived) in [("task.archive", true), ("task.unarchive", false)] {
        client.ok(action, task.clone()).await;
        for client in [&mut client, &mut other] {
            let told = client.notified("task.changed", |told| told["archived"] == archived).await;
            assert_eq!(told["id"], json!(chat.task_id), "{action}");
        }
    }
    // It is told when it is decided: the agent does not hear.
    let made = client.ok("session.create", task.clone()).await;
    let busy = Chat::of_session(&made["session"]);
    client.subscribe(&busy).await;
    client.admit(&busy, "k", "/demo deaf; say never mind; hang").await;
    client.until_running(&busy).await;
    client.send("session.delete", busy.identity()).await.unwrap();
    let gone = json!({"task_id": busy.task_id, "session_id": busy.session_id});
    assert_eq!(other.notified("session.deleted", |_| true).await, gone);
    assert_eq!(other.request("session.get", busy.identity()).await, not_found());
    client.send("task.delete", task.clone()).await.unwrap();
    assert_eq!(other.notified("task.deleted", |_| true).await, task);
    assert_eq!(other.request("task.get", task.clone()).await, not_found());
    // One without anything to wait for.
    let empty = Chat::create(&mut other).await;
    let task = json!({"task_id": empty.task_id});
    other.ok("task.delete", task.clone()).await;
    for client in [&mut client, &mut other] {
        assert_eq!(client.notified("task.deleted", |told| *told == task).await, task);
    }
    otto.ok("ping", json!({})).await;
    assert_eq!(otto.take_notifications(), []);
}
