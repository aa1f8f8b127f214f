//! Which session a request means, and that an answer never tells whether another one exists.

use serde_json::json;
use usher_tests::actions::{UNKNOWN, with_identity};
use usher_tests::chat::{Chat, accepted, contents};
use usher_tests::client::{Client, Refusal};
use usher_tests::scene::refused;
use usher_tests::server::Server;

#[tokio::test]
async fn a_wrong_part_of_the_identity_always_gets_the_same_answer() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    let other = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    client.set_auto_run(&other, false).await;
    client.admit(&chat, "k1", "A").await;
    let unavailable = Refusal::new("queue_session_unavailable", json!({}));
    for (action, fields) in with_identity() {
        for wrong in [
            json!({"task_id": other.task_id}),
            json!({"session_id": other.session_id}),
            json!({"session_incarnation_id": other.incarnation_id}),
            json!({"task_id": UNKNOWN}),
            json!({"session_id": UNKNOWN}),
            json!({"session_incarnation_id": UNKNOWN}),
            json!({"session_incarnation_id": ""}),
            json!({"session_id": chat.session_id.to_uppercase()}),
            json!({"session_id": "'; DROP TABLE sessions;--"}),
        ] {
            let mut payload = chat.with(fields.clone());
            usher_tests::client::merge(&mut payload, wrong.clone());
            let answer = client.request(action, payload).await;
            assert_eq!(answer, Err(unavailable.clone()), "{action} with {wrong}");
        }
    }
    assert_eq!(contents(&client.entries(&chat).await), ["A"]);
    assert_eq!(client.queue(&chat).await["auto_run"], false);
    assert_eq!(client.queue(&other).await["count"], 0);
}

#[tokio::test]
async fn actions_without_an_identity_do_not_find_what_is_not_there() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let not_found = Refusal::new("not_found", json!({}));
    for (action, payload) in [
        ("task.get", json!({"task_id": UNKNOWN})),
        ("session.get", json!({"session_id": UNKNOWN})),
        ("session.create", json!({"task_id": UNKNOWN})),
        ("session.subscribe", json!({"session_id": UNKNOWN})),
        ("transcript.page", json!({"session_id": UNKNOWN})),
    ] {
        assert_eq!(client.request(action, payload).await, Err(not_found.clone()), "{action}");
    }
}

#[tokio::test]
async fn c036_sessions_do_not_disturb_each_other() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let one = Chat::create(&mut client).await;
    let session = client.ok("session.create", json!({"task_id": one.task_id})).await;
    let two = Chat::of_session(&session["session"]);
    for chat in [&one, &two] {
        client.set_auto_run(chat, false).await;
    }
    let mut ids = Vec::new();
    for (chat, text) in [(&one, "a1"), (&two, "b1"), (&one, "a2"), (&two, "b2")] {
        ids.push(client.admit(chat, text, text).await);
    }
    // An entry of the other session is no entry here.
    let foreign =
        client.request("message.queue.remove", one.with(json!({"entry_id": ids[1]}))).await;
    assert_eq!(foreign, Err(Refusal::new("entry_not_found", json!({}))));
    client.ok("message.queue.cancel", one.identity()).await;
    assert_eq!(contents(&client.entries(&two).await), ["b1", "b2"]);
    client.subscribe(&two).await;
    client.set_auto_run(&two, true).await;
    client.until_settled(&two).await;
    assert_eq!(contents(&client.transcript(&one).await), Vec::<&str>::new());
    assert_eq!(
        contents(&client.transcript(&two).await),
        ["b1", "You said: b1", "b2", "You said: b2"]
    );
}

#[tokio::test]
async fn tasks_and_sessions_are_listed_newest_first_and_made_once_per_request_id() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let request = json!({"title": "once", "client_request_id": "r1"});
    let first = client.ok("task.create", request.clone()).await;
    let again = client.ok("task.create", request).await;
    assert_eq!(first["task"]["id"], again["task"]["id"]);
    assert_eq!(first["session"]["id"], again["session"]["id"]);
    let second = client.ok("task.create", json!({"title": "second", "kind": "quick"})).await;
    let task_id = second["task"]["id"].clone();
    let request = json!({"task_id": task_id, "client_request_id": "r2"});
    let session = client.ok("session.create", request.clone()).await["session"]["id"].clone();
    assert_eq!(client.ok("session.create", request).await["session"]["id"], session);

    let tasks = client.ok("task.list", json!({})).await;
    let titles: Vec<_> = tasks["tasks"].as_array().unwrap().iter().map(|t| &t["title"]).collect();
    assert_eq!(titles, ["second", "once"]);
    assert_eq!(tasks["tasks"][0]["kind"], "quick");
    let sessions = client.ok("session.list", json!({"task_id": task_id})).await;
    let ids: Vec<_> = sessions["sessions"].as_array().unwrap().iter().map(|s| &s["id"]).collect();
    assert_eq!(ids, [&session, &second["session"]["id"]]);
    let sessions = client.ok("session.list", json!({})).await;
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 3);
    // task.get lists the sessions of a task from the oldest on.
    let task = client.ok("task.get", json!({"task_id": task_id})).await;
    let ids: Vec<_> = task["sessions"].as_array().unwrap().iter().map(|s| &s["id"]).collect();
    assert_eq!(ids, [&second["session"]["id"], &session]);
}

#[tokio::test]
async fn a_task_that_cannot_be_is_refused_with_the_field() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let cases = [
        ("title", json!({})),
        ("title", json!({"title": "a\0b"})),
        ("workspace_dir", json!({"title": "x", "workspace_dir": "relative"})),
        ("workspace_dir", json!({"title": "x", "workspace_dir": "/no/such/directory"})),
        ("agent", json!({"title": "x", "agent": "no-such-agent"})),
        ("kind", json!({"title": "x", "kind": "odd"})),
    ];
    for (field, payload) in cases {
        let refusal = client.request("task.create", payload.clone()).await.unwrap_err();
        assert_eq!(
            (refusal.code.as_str(), &refusal.details["field"]),
            ("validation", &json!(field)),
            "{payload}"
        );
    }
    let long = client.request("task.create", json!({"title": "x".repeat(1_025)})).await;
    assert_eq!(long, Err(Refusal::new("validation", json!({"field": "title", "limit": 1_024}))));
    assert_eq!(client.ok("task.list", json!({})).await["tasks"], json!([]));
}

#[tokio::test]
async fn a_payload_cannot_choose_who_sends() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    let payload = chat.with(json!({
        "client_queue_id": "k1", "content": "x",
        "id": UNKNOWN, "entry_id": UNKNOWN, "position": 99,
        "queued_by": {"kind": "server", "id": UNKNOWN, "name": "root"},
        "metadata": {"queue_admission_ids": ["forged"]},
    }));
    let answer = client.request("message.queue.add", payload).await;
    assert_ne!(accepted(&answer).0, UNKNOWN);
    let answer = answer.unwrap();
    assert_eq!(answer["position"], 1);
    assert_eq!(answer["queued_by"]["kind"], "user");
    assert_ne!(answer["queued_by"]["name"], "root");
    assert_eq!(answer["metadata"]["queue_admission_ids"], json!(["k1"]));
}

#[tokio::test]
async fn only_what_is_there_can_be_left() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let mine = Chat::create(&mut client).await;
    let mut other = Client::connect_as(&server, &server.launch().add_user("eve")).await;
    let foreign = Chat::create(&mut other).await;
    other.subscribe(&foreign).await;
    for id in [UNKNOWN, "x", "", &foreign.session_id] {
        let leave = json!({"session_id": id});
        assert_eq!(
            client.request("session.unsubscribe", leave).await,
            refused("not_found"),
            "{id}"
        );
    }
    let leave = json!({"session_id": mine.session_id});
    for watches in [false, true] {
        if watches {
            client.subscribe(&mine).await;
        }
        assert_eq!(client.ok("session.unsubscribe", leave.clone()).await, leave);
    }
}
