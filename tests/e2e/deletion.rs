//! What a delete takes with it, whatever runs meanwhile.

use serde_json::json;
use usher_tests::actions::all_unavailable;
use usher_tests::chat::{Chat, string};
use usher_tests::client::{Answer, Client, Refusal};
use usher_tests::scene::refused;
use usher_tests::server::{Launch, Server};

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
    let count = |table: &str| server.launch().number(&format!("SELECT COUNT(*) FROM {table}"));
    let mut rows = TABLES.map(|table| (table, count(table))).to_vec();
    rows.retain(|(_, count)| *count > 0);
    rows
}

fn not_found() -> Answer {
    refused("not_found")
}

#[tokio::test]
async fn a_deaf_agent_does_not_keep_a_task_from_being_deleted() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::watched(&mut client).await;
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
    let chat = Chat::watched(&mut client).await;
    client.admit(&chat, "k1", "/demo deaf; say never mind; hang").await;
    client.until_running(&chat).await;
    client.send("task.delete", json!({"task_id": chat.task_id})).await.unwrap();
    while client.request("session.get", chat.identity()).await != not_found() {}
    server.signal(rustix::process::Signal::TERM);
    client.notified("server.draining", |_| true).await;
    let late = client.add(&chat, "k2", "B").await;
    let details = json!({"retry_after_ms": 1_000});
    assert_eq!(late, Err(Refusal::new("shutting_down", details)));
}

#[tokio::test]
async fn a_deleted_session_is_an_unknown_one_and_tells_nobody_anything() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let kept = Chat::watched(&mut client).await;
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
    let chat = Chat::watched(&mut client).await;
    client.admit(&chat, "busy", "/demo say on it; hang").await;
    client.until_running(&chat).await;
    client.admit(&chat, "A", "A").await;
    let made = client.ok("session.create", json!({"task_id": chat.task_id})).await;
    let idle = Chat::of_session(&made["session"]);
    client.set_auto_run(&idle, false).await;
    let entry = client.admit(&idle, "k1", "B").await;
    client.ok("message.queue.remove", idle.with(json!({"entry_id": entry}))).await;
    client.ok("session.reset", idle.identity()).await;
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
    // It writes down what it was sent.
    const AGENT: &str = "[agents.mine]\nkind = \"command\"\ncommand = \"sh\"\n\
        args = [\"-c\", \"cat >>seen; echo ok\"]\n";
    let launch = Launch::new().config(AGENT);
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let work = launch.home().path("work");
    let fields = json!({"title": "races", "agent": "mine", "workspace_dir": work});
    let task = client.ok("task.create", fields).await;
    let mut seen = Vec::new();
    let task_id = string(&task["task"]["id"]);
    client.ok("session.delete", Chat::of_session(&task["session"]).identity()).await;
    for round in 0..200 {
        let made = client.ok("session.create", json!({"task_id": task_id})).await;
        let chat = Chat::of_session(&made["session"]);
        client.subscribe(&chat).await;
        client.forget_notifications();
        let texts = ["A", "B"].map(|name| format!("<{name}{round}>"));
        for text in &texts {
            client.admit(&chat, text, text).await;
        }
        match round % 4 {
            0 => {}
            1 => drop(client.notified("turn.started", |_| true).await),
            2 => drop(client.notified("transcript.message", |_| true).await),
            _ => drop(client.notified("turn.ended", |_| true).await),
        }
        client.ok("session.delete", chat.identity()).await;
        let by_now = launch.home().read("work/seen");
        seen.extend(texts.map(|text| (by_now.contains(&text), text)));
        assert_eq!(
            client.request("turn.cancel", chat.identity()).await,
            refused("queue_session_unavailable")
        );
    }
    let at_the_end = launch.home().read("work/seen");
    assert!(at_the_end.contains("<A3>"));
    for (was_sent, text) in seen {
        assert_eq!(at_the_end.contains(&text), was_sent, "{text} was sent after its delete");
    }
    assert_eq!(rows(&server), [("tasks", 1)]);
}

#[tokio::test]
async fn what_was_to_be_deleted_when_the_server_died_is_deleted_at_the_next_start() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::watched(&mut client).await;
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

/// An agent that goes on, whatever it is asked, until there is a file `go`.
const DEAF: &str = "[agents.deaf]\nkind = \"command\"\ncommand = \"sh\"\n\
    args = [\"-c\", \"trap '' INT TERM HUP; cat >input; while [ ! -e go ]; do sleep 0.05; done\"]\n\
    cancel_grace = \"10m\"\n";

/// A session whose agent is [`DEAF`] and runs.
async fn deaf(client: &mut Client, server: &Server) -> Chat {
    let work = server.launch().home().path("work");
    let chat = Chat::create_with(client, json!({"agent": "deaf", "workspace_dir": work})).await;
    client.subscribe(&chat).await;
    client.admit(&chat, "k", "go on").await;
    client.until_running(&chat).await;
    chat
}

fn let_end(server: &Server) {
    std::fs::write(server.launch().home().path("work/go"), "").unwrap();
}

#[tokio::test]
async fn nothing_else_waits_until_the_agents_of_a_task_have_stopped() {
    let server = Launch::new().config(DEAF).start();
    let mut client = Client::connect(&server).await;
    let archived = deaf(&mut client, &server).await;
    let deleted = deaf(&mut client, &server).await;
    let archive = json!({"task_id": archived.task_id});
    let archive = client.send("task.archive", archive).await.unwrap();
    let delete = json!({"task_id": deleted.task_id});
    let delete = client.send("task.delete", delete).await.unwrap();
    // The agents go on for as long as this takes.
    client.ok("ping", json!({})).await;
    client.ok("settings.get", json!({})).await;
    client.ok("task.list", json!({})).await;
    client.ok("session.list", json!({})).await;
    let other = Chat::create(&mut client).await;
    client.admit(&other, "k", "hello").await;
    let_end(&server);
    for (request, chat) in [(archive, archived), (delete, deleted)] {
        assert_eq!(client.answer(&request).await, Ok(Ok(json!({"task_id": chat.task_id}))));
    }
}

#[tokio::test]
async fn a_client_that_comes_back_does_not_wait_for_agents_and_finds_what_it_decided() {
    let server = Launch::new().config(DEAF).start();
    let instance = json!({"client_instance": uuid::Uuid::new_v4()});
    let mut client = Client::dial(&server).await.unwrap();
    client.hello(instance.clone()).await.unwrap();
    let archived = deaf(&mut client, &server).await;
    let deleted = deaf(&mut client, &server).await;
    let gone = deaf(&mut client, &server).await;
    client.send("task.archive", json!({"task_id": archived.task_id})).await.unwrap();
    client.send("task.delete", json!({"task_id": deleted.task_id})).await.unwrap();
    client.send("session.delete", gone.identity()).await.unwrap();
    // Waits behind the one before, and is finished all the same.
    client.send("task.delete", json!({"task_id": archived.task_id})).await.unwrap();
    client.ok("ping", json!({})).await;
    let mut back = Client::dial(&server).await.unwrap();
    back.hello(instance).await.unwrap();
    for chat in [&archived, &deleted] {
        assert_eq!(back.request("task.get", json!({"task_id": chat.task_id})).await, not_found());
    }
    let get = json!({"session_id": gone.session_id});
    assert_eq!(back.request("session.get", get).await, not_found());
    // Their rows are there until the agents have ended.
    let turns = || rows(&server).into_iter().find(|(table, _)| *table == "turns");
    assert_eq!(turns(), Some(("turns", 3)));
    let_end(&server);
    while turns().is_some() {
        back.ok("ping", json!({})).await;
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
