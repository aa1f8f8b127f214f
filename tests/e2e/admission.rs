//! What is accepted, how it is answered, and what is refused with nothing stored.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use usher_tests::actions::UNKNOWN;
use usher_tests::chat::{Chat, accepted, contents};
use usher_tests::client::{Client, Refusal};
use usher_tests::server::Server;

fn validation(field: &str) -> Refusal {
    Refusal::new("validation", json!({"field": field}))
}

#[tokio::test]
async fn an_admission_is_answered_with_the_entry_and_the_proof() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let before = client.queue(&chat).await;
    let mut answer = client.add(&chat, "k1", "hello").await.unwrap();

    let id = answer["id"].take();
    assert_eq!(answer["admission"]["accepted_queue_id"].take(), id);
    assert!(answer["queued_at"].take().is_string());
    assert!(answer["queued_by"]["id"].take().is_string());
    assert!(answer["queued_by"]["name"].take().is_string());
    let revision = answer["admission"]["queue_revision"].take();
    assert!(revision.as_u64() > before["queue_revision"].as_u64());
    assert_eq!(
        answer,
        json!({
            "id": null,
            "task_id": chat.task_id,
            "session_id": chat.session_id,
            "position": 1,
            "content": "hello",
            "model": null,
            "plan_mode": false,
            "attachments": [],
            "metadata": {
                "queue_admission_ids": ["k1"],
                "queue_admission_ids_past": [],
                "entity_references": [],
                "context_files": [],
                "plan_comment_refs": [],
            },
            "queued_at": null,
            "queued_by": {"kind": "user", "id": null, "name": null},
            "target_revision": 1,
            "editing": null,
            "content_truncated": false,
            "admission": {
                "outcome": "admitted",
                "accepted_queue_id": null,
                "queue_revision": null,
                "replay_safe": true,
            },
        })
    );

    let mut queue = client.queue(&chat).await;
    assert_eq!(queue["queue_revision"].take(), revision);
    assert_eq!(queue["entries"][0]["id"].take(), id);
    queue["entries"] = json!(queue["entries"].as_array().unwrap().len());
    queue["event_seq"] = Value::Null;
    assert_eq!(
        queue,
        json!({
            "task_id": chat.task_id,
            "session_id": chat.session_id,
            "session_incarnation_id": chat.incarnation_id,
            "queue_revision": null,
            "event_seq": null,
            "entries": 1,
            "count": 1,
            "max": 0,
            "auto_run": false,
            "auto_run_reason": "user",
            "blocked": null,
            "merge_enabled": true,
            "auto_merge_enabled": false,
        })
    );
}

#[tokio::test]
async fn content_is_kept_byte_for_byte() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let texts = [
        " \t leading and trailing \r\n\n",
        "A\u{301} is not \u{c1}",
        "\u{202e}overridden\u{2066}",
        "\u{1}\u{1b}[31m\u{7f}\u{9b}",
        "family 👨\u{200d}👩\u{200d}👧, flag 🇩🇪, \u{feff}",
        "'; DROP TABLE queue_entries;--",
    ];
    for (number, text) in texts.into_iter().enumerate() {
        let answer = client.add(&chat, &format!("k{number}"), text).await.unwrap();
        assert_eq!(answer["content"], text);
    }
    assert_eq!(contents(&client.entries(&chat).await), texts);
}

#[tokio::test]
async fn prompts_of_one_link_are_kept_in_the_order_they_were_sent() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let texts: Vec<String> = (0..60).map(|number| format!("prompt {number}")).collect();
    let mut requests = Vec::new();
    for text in &texts {
        requests.push(client.send("message.queue.add", chat.prompt(text, text)).await.unwrap());
    }
    for request in requests {
        assert!(client.answer(&request).await.unwrap().is_ok());
    }
    let entries = client.entries(&chat).await;
    assert_eq!(contents(&entries), texts);
    let positions: Vec<u64> =
        entries.iter().map(|entry| entry["position"].as_u64().unwrap()).collect();
    assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
}

#[tokio::test]
async fn c013_fifty_links_with_the_same_id_at_once_give_one_entry_each_round() {
    const LINKS: usize = 50;
    const ROUNDS: usize = 200;
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let barrier = Arc::new(Barrier::new(LINKS));
    let mut links = JoinSet::new();
    for _ in 0..LINKS {
        let (barrier, chat) = (Arc::clone(&barrier), chat.clone());
        let mut link = Client::connect(&server).await;
        links.spawn(async move {
            let mut answers = Vec::new();
            for round in 0..ROUNDS {
                barrier.wait().await;
                let id = format!("k{round}");
                answers.push(accepted(&link.add(&chat, &id, &id).await));
            }
            answers
        });
    }
    let answers = links.join_all().await;
    for round in 0..ROUNDS {
        let (ids, outcomes): (Vec<_>, Vec<_>) =
            answers.iter().map(|answers| (&answers[round].0, answers[round].1.as_str())).unzip();
        assert!(ids.iter().all(|id| *id == ids[0]), "round {round}: {ids:?}");
        let admitted = outcomes.iter().filter(|outcome| **outcome == "admitted").count();
        let replayed = outcomes.iter().filter(|outcome| **outcome == "replayed").count();
        assert_eq!((admitted, replayed), (1, LINKS - 1), "round {round}");
    }
    let expected: Vec<String> = (0..ROUNDS).map(|round| format!("k{round}")).collect();
    assert_eq!(contents(&client.entries(&chat).await), expected);
}

#[tokio::test]
async fn c006_another_text_under_an_id_in_flight_or_accepted_is_a_conflict() {
    let server = Server::start();
    let mut first = Client::connect(&server).await;
    let mut second = Client::connect(&server).await;
    let chat = Chat::parked(&mut first).await;
    let conflict = Refusal::new("queue_id_conflict", json!({}));
    for round in 0..50 {
        let id = format!("k{round}");
        let (a, b) = tokio::join!(first.add(&chat, &id, "A"), second.add(&chat, &id, "B"));
        let (winner, loser) = if a.is_ok() { (a, b) } else { (b, a) };
        assert_eq!(loser, Err(conflict.clone()), "round {round}");
        let text = winner.unwrap()["content"].clone();
        let entries = first.entries(&chat).await;
        assert_eq!(entries.len(), round + 1);
        assert_eq!(entries[round]["content"], text);
        let other = if text == "A" { "B" } else { "A" };
        assert_eq!(second.add(&chat, &id, other).await, Err(conflict.clone()));
    }
    // The same pair in flight on one link.
    let a = first.send("message.queue.add", chat.prompt("k", "A")).await.unwrap();
    let b = first.send("message.queue.add", chat.prompt("k", "B")).await.unwrap();
    assert_eq!(accepted(&first.answer(&a).await.unwrap()).1, "admitted");
    assert_eq!(first.answer(&b).await.unwrap(), Err(conflict));
}

#[tokio::test]
async fn c007_the_fingerprint_covers_what_was_asked_for_and_nothing_else() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let fields = json!({
        "client_queue_id": "k1", "content": "A\u{301}", "plan_mode": false, "model": "m1",
    });
    let first = accepted(&client.request("message.queue.add", chat.with(fields.clone())).await);
    assert_eq!(first.1, "admitted");

    // Other order, other white space, null for omitted, unknown fields, another request id.
    let raw = format!(
        r#"{{"payload" : {{ "model":"m1", "sent_at": 7, "attachments": null, "entity_references": [],
            "content":"A\u0301", "client_queue_id":"k1", "session_id":"{}",
            "session_incarnation_id":"{}", "task_id":"{}" }},
            "action":"message.queue.add", "type":"request", "timeout_ms": 1, "id":"other"}}"#,
        chat.session_id, chat.incarnation_id, chat.task_id
    );
    client.send_raw(Message::text(raw)).await.unwrap();
    let replay = accepted(&client.answer("other").await.unwrap());
    assert_eq!(replay, (first.0, "replayed".to_owned()));

    for change in [
        json!({"plan_mode": true}),
        json!({"model": "m2"}),
        json!({"model": null}),
        json!({"content": "\u{c1}"}),
        json!({"content": "A\u{301} "}),
    ] {
        let mut payload = chat.with(fields.clone());
        usher_tests::client::merge(&mut payload, change.clone());
        let answer = client.request("message.queue.add", payload).await;
        assert_eq!(answer, Err(Refusal::new("queue_id_conflict", json!({}))), "{change}");
    }
    assert_eq!(client.entries(&chat).await.len(), 1);
}

#[tokio::test]
async fn c015_admission_ids_are_checked_in_bytes_and_never_changed() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let good = [
        "x".to_owned(),
        "x".repeat(127),
        "x".repeat(128),
        "é".repeat(64),
        " padded ".to_owned(),
        "padded".to_owned(),
        "'; DROP TABLE queue_admission_receipts;--".to_owned(),
        "a".to_owned(),
        "A".to_owned(),
        "A\u{301}".to_owned(),
        "\u{c1}".to_owned(),
        "\u{200b}x".to_owned(),
    ];
    for id in &good {
        let answer = client.add(&chat, id, "text").await;
        assert_eq!(accepted(&answer).1, "admitted", "{id:?}");
        assert_eq!(answer.unwrap()["metadata"]["queue_admission_ids"], json!([id]));
    }
    for id in [
        json!(""),
        json!("x".repeat(129)),
        json!("x".repeat(256)),
        json!("é".repeat(128)),
        json!("👨\u{200d}👩\u{200d}👧".repeat(32)),
        json!("a\0b"),
        json!("a\nb"),
        json!("a\u{9b}b"),
        json!("   "),
        json!("\u{3000}"),
        json!(null),
        json!(7),
        json!(["x"]),
        json!({"id": "x"}),
    ] {
        let payload = chat.with(json!({"client_queue_id": id, "content": "text"}));
        let is_too_long = id.as_str().is_some_and(|id| id.len() > 128);
        let too_long = json!({"field": "client_queue_id", "limit": 128});
        let refused = match is_too_long {
            true => Refusal::new("validation", too_long),
            false => validation("client_queue_id"),
        };
        assert_eq!(client.request("message.queue.add", payload).await, Err(refused), "{id:?}");
    }
    assert_eq!(client.entries(&chat).await.len(), good.len());
}

#[tokio::test]
async fn c016_numbers_past_2_to_the_53_are_never_rounded() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let identity = chat.identity().to_string();
    let identity = identity.trim_end_matches('}');
    for id in ["9007199254740992", "9007199254740993", "1e3", "-1"] {
        let raw = format!(
            r#"{{"id":"n{id}","type":"request","action":"message.queue.add","payload":{identity},"content":"x","client_queue_id":{id}}}}}"#
        );
        client.send_raw(Message::text(raw)).await.unwrap();
        let answer = client.answer(&format!("n{id}")).await.unwrap();
        assert_eq!(answer, Err(validation("client_queue_id")), "{id}");
    }
    client.admit(&chat, "k", "stays").await;
    for revision in [
        "9223372036854775807",
        "18446744073709551616",
        "9007199254740993",
        "-1",
        "1.5",
        "1e3",
        "1.0",
        "1e400",
    ] {
        let raw = format!(
            r#"{{"id":"r{revision}","type":"request","action":"message.queue.cancel","payload":{identity},"expected_queue_revision":{revision}}}}}"#
        );
        client.send_raw(Message::text(raw)).await.unwrap();
        let answer = match revision {
            // Not even JSON numbers have this size.
            "1e400" => Err(client.refusal_or_answer(&format!("r{revision}")).await),
            _ => client.answer(&format!("r{revision}")).await.unwrap(),
        };
        let code = answer.unwrap_err().code;
        assert!(
            ["validation", "queue_changed", "bad_request"].contains(&code.as_str()),
            "{revision}: {code}"
        );
    }
    assert_eq!(contents(&client.entries(&chat).await), ["stays"]);
}

#[tokio::test]
async fn a_field_that_is_missing_or_wrong_is_named_and_nothing_is_stored() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let good = chat.with(json!({"client_queue_id": "k", "content": "x"}));
    for field in ["task_id", "session_id", "session_incarnation_id", "content"] {
        let mut payload = good.clone();
        payload.as_object_mut().unwrap().remove(field);
        let answer = client.request("message.queue.add", payload).await;
        assert_eq!(answer, Err(validation(field)), "without {field}");
    }
    for (field, wrong) in [
        ("task_id", json!(7)),
        ("session_id", json!([])),
        ("session_incarnation_id", json!(true)),
        ("content", json!(null)),
        ("content", json!(7)),
        ("content", json!("a\0b")),
        ("content", json!("")),
        ("content", json!(" \n\u{200b}")),
        ("model", json!(7)),
        ("model", json!("a\0b")),
        ("plan_mode", json!("yes")),
        ("attachments", json!("none")),
    ] {
        let mut payload = good.clone();
        payload[field] = wrong.clone();
        let answer = client.request("message.queue.add", payload).await;
        assert_eq!(answer, Err(validation(field)), "{field}: {wrong}");
    }
    let long = chat.with(json!({"client_queue_id": "k", "content": "x".repeat(262_145)}));
    assert_eq!(
        client.request("message.queue.add", long).await,
        Err(Refusal::new("validation", json!({"field": "content", "limit": 262_144})))
    );
    assert_eq!(client.entries(&chat).await, Vec::<Value>::new());
    // None of them used up the id.
    let answer = client.request("message.queue.add", good).await;
    assert_eq!(accepted(&answer).1, "admitted");
}

#[tokio::test]
async fn c085_the_longest_content_fits_even_when_every_byte_is_escaped() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let worst = "\u{1}".repeat(262_144);
    let first = client.add(&chat, "k1", &worst).await;
    assert_eq!(accepted(&first).1, "admitted");
    // The answer is cut the same way now and in every replay, its ID included; the entry is whole.
    let first = first.unwrap();
    assert_eq!(first["content_truncated"], true);
    assert_eq!(first["content"].as_str().unwrap(), "\u{1}".repeat(65_536 - 2));
    let replay = client.add(&chat, "k1", &worst).await.unwrap();
    assert_eq!(replay["content"], first["content"]);
    assert_eq!(client.entries(&chat).await[0]["content"], worst);
}

#[tokio::test]
async fn an_unidentified_prompt_is_stored_once_per_request_without_a_promise() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let plain = chat.with(json!({"content": "same"}));
    let mut without_incarnation = plain.clone();
    without_incarnation.as_object_mut().unwrap().remove("session_incarnation_id");
    for payload in [plain, without_incarnation] {
        let answer = client.request("message.queue.add", payload).await.unwrap();
        assert_eq!(answer["admission"]["outcome"], "admitted");
        assert_eq!(answer["admission"]["replay_safe"], false);
        assert_eq!(answer["metadata"]["queue_admission_ids"], json!([]));
    }
    assert_eq!(contents(&client.entries(&chat).await), ["same", "same"]);
}

#[tokio::test]
async fn c053_blank_content_is_a_wrong_shape_whoever_sends_it_and_whatever_its_id_meant_before() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    client.admit(&chat, "k", "A").await;
    let mut foreign = chat.clone();
    foreign.session_id = UNKNOWN.to_owned();
    let refused = Err(Refusal::new("validation", json!({"field": "content"})));
    for blank in ["", " \n\t", "\u{200b}\u{3000}"] {
        for chat in [&chat, &foreign] {
            for id in ["k", "k2"] {
                assert_eq!(client.add(chat, id, blank).await, refused, "{blank:?}");
            }
        }
    }
    assert_eq!(client.queue(&chat).await["count"], 1);
}
