//! What is too large to be shown at once, and how the whole of it is read.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use usher_tests::chat::{by_role, string};
use usher_tests::client::{Client, Refusal};
use usher_tests::fill;
use usher_tests::scene::{Scene, refused};
use usher_tests::server::Server;

/// The longest text that there may be.
const LONGEST: usize = 262_144;

#[tokio::test]
async fn a_queue_beyond_four_mebibytes_names_its_last_entries_and_gives_them_one_by_one() {
    let mut scene = Scene::new().await;
    scene.park().await;
    // The test's client does not read while it writes, so it is not told meanwhile.
    scene.client.ok("session.unsubscribe", json!({"session_id": scene.chat.session_id})).await;
    let texts: Vec<String> = ('a'..='t').map(|c| c.to_string().repeat(LONGEST)).collect();
    for text in &texts {
        scene.client.admit(&scene.chat, &text[..1], text).await;
    }
    let mut other = Client::connect(&scene.server).await;
    let snapshot = other.subscribe(&scene.chat).await;
    let queue = scene.client.queue(&scene.chat).await;
    assert_eq!(snapshot["queue"]["entries"], queue["entries"]);
    let entries = queue["entries"].as_array().unwrap();
    assert_eq!((entries.len(), &queue["count"]), (20, &json!(20)));
    let whole = entries.iter().take_while(|entry| entry["content"].is_string()).count();
    assert!((10..20).contains(&whole), "{whole}");
    for (entry, text) in entries.iter().zip(&texts) {
        if entry["content"].is_string() {
            assert!(entry["content"] == json!(text));
        } else {
            let stub = json!({"id": entry["id"], "position": entry["position"], "truncated": true});
            assert_eq!(entry, &stub);
        }
        let one = scene.act("message.queue.entry.get", json!({"entry_id": entry["id"]})).await;
        assert!(one["content"] == json!(text), "{}", &text[..1]);
        assert_eq!(
            (&one["position"], &one["content_truncated"]),
            (&entry["position"], &json!(false))
        );
    }
    // They are entries like all others.
    let mut ids: Vec<Value> = entries.iter().map(|entry| entry["id"].clone()).collect();
    ids.reverse();
    scene.act("message.queue.reorder", json!({"ordered_ids": ids})).await;
    let queue = scene.client.queue(&scene.chat).await;
    assert!(queue["entries"][0]["content"] == json!(texts[19]));
    let last = &queue["entries"][19];
    assert_eq!((&last["id"], &last["truncated"]), (&ids[19], &json!(true)));
    let overflow = Refusal::new("merge_overflow", json!({"limit": "content_bytes_max"}));
    let merge = scene.ask("message.queue.merge", json!({"entry_id": last["id"]})).await;
    assert_eq!(merge, Err(overflow));
    scene.client.subscribe(&scene.chat).await;
    let now = json!({"scope": "entry", "entry_id": last["id"], "resume": false});
    scene.act("message.queue.send_now", now).await;
    scene.settled().await;
    let prompts = by_role(&scene.client.transcript(&scene.chat).await, "user");
    assert!(prompts.len() == 1 && prompts[0]["content"] == json!(texts[0]));
}

#[tokio::test]
async fn a_long_answer_is_read_in_pieces_that_are_whole_characters() {
    let mut scene = Scene::new().await;
    // Four bytes each; the echo's first words make it longer than lists show.
    let text = "🦀".repeat(LONGEST / 4);
    scene.client.admit(&scene.chat, "k", &text).await;
    scene.settled().await;
    let answer = by_role(&scene.client.transcript(&scene.chat).await, "agent").remove(0);
    let expected = format!("You said: {text}");
    let shown = answer["content"].as_str().unwrap();
    assert_eq!(answer["content_truncated"], true);
    assert!(expected.starts_with(shown) && LONGEST - shown.len() < 4, "{}", shown.len());

    for length in [524_288, 100_000, 65_537] {
        let mut read = String::new();
        loop {
            let piece =
                scene.client.ok("transcript.read", part(&scene, &answer, read.len(), length)).await;
            let text = string(&piece["text"]);
            assert!(text.len() <= length && (!text.is_empty() || piece["eof"] == true));
            read.push_str(&text);
            if piece["eof"] == true {
                break;
            }
        }
        assert!(read == expected, "in pieces of {length}");
    }
    // Behind the end there is nothing.
    let behind = part(&scene, &answer, expected.len() + 1_000, 10);
    let behind = scene.client.ok("transcript.read", behind).await;
    assert_eq!(behind, json!({"text": "", "eof": true}));
}

#[tokio::test]
async fn a_read_gives_no_more_than_asked_for_and_no_part_of_a_character() {
    let mut scene = Scene::new().await;
    scene.admit("aé🦀").await;
    scene.settled().await;
    let message = scene.client.transcript(&scene.chat).await.remove(0);
    let found = |text: &str, eof: bool| Ok(json!({"text": text, "eof": eof}));
    let wrong = |field: &str| Err(Refusal::new("validation", json!({"field": field})));
    for (offset, length, expected) in [
        (0, 1, found("a", false)),
        (0, 2, found("a", false)),
        (0, 3, found("aé", false)),
        (0, 6, found("aé", false)),
        (0, 7, found("aé🦀", true)),
        (1, 1, wrong("length")),
        (1, 2, found("é", false)),
        (3, 3, wrong("length")),
        (3, 4, found("🦀", true)),
        (2, 1, wrong("offset")),
        (2, 100, wrong("offset")),
        (6, 1, wrong("offset")),
        (7, 1, found("", true)),
    ] {
        let answer =
            scene.client.request("transcript.read", part(&scene, &message, offset, length)).await;
        assert_eq!(answer, expected, "{length} bytes at {offset}");
    }
}

fn part(scene: &Scene, message: &Value, offset: usize, length: usize) -> Value {
    json!({
        "session_id": scene.chat.session_id, "message_id": message["id"],
        "offset": offset, "length": length,
    })
}

#[tokio::test]
async fn a_read_of_what_is_not_there_or_makes_no_sense_is_refused() {
    let mut scene = Scene::new().await;
    scene.admit("hello").await;
    scene.settled().await;
    let message = scene.client.transcript(&scene.chat).await.remove(0);
    let other = Scene::new().await;
    let mut foreign = part(&scene, &message, 0, 10);
    foreign["session_id"] = json!(other.chat.session_id);
    let mut unknown = part(&scene, &message, 0, 10);
    unknown["message_id"] = json!("01890a5d-ac96-774b-bcce-b302099a8057");
    for payload in [foreign, unknown] {
        assert_eq!(scene.client.request("transcript.read", payload).await, refused("not_found"));
    }
    for (field, value) in [
        ("offset", json!(-1)),
        ("offset", json!(1_u64 << 53)),
        ("offset", json!(u64::MAX)),
        ("length", json!(0)),
        ("length", json!(524_289)),
        ("length", json!("all")),
    ] {
        let mut payload = part(&scene, &message, 0, 10);
        payload[field] = value.clone();
        let refusal = scene.client.request("transcript.read", payload).await.unwrap_err();
        let got = (refusal.code.as_str(), &refusal.details["field"]);
        assert_eq!(got, ("validation", &json!(field)), "{value}");
    }
}

/// As many bytes as JSON has of a value.
fn bytes(value: &Value) -> usize {
    serde_json::to_string(value).unwrap().len()
}

#[tokio::test]
async fn a_status_never_has_more_than_four_mebibytes_whatever_its_entries_are_made_of() {
    const ENTRIES: usize = 800;
    let mut scene = Scene::new().await;
    scene.park().await;
    scene.client.ok("session.unsubscribe", json!({"session_id": scene.chat.session_id})).await;
    // Six bytes each as JSON.
    let model = "\u{1}".repeat(1_024);
    for batch in 0..ENTRIES / 32 {
        let mut requests = Vec::new();
        for number in 0..32 {
            let mut prompt = scene.chat.prompt(&format!("k{batch}-{number}"), "x");
            prompt["model"] = json!(model);
            requests.push(scene.client.send("message.queue.add", prompt).await.unwrap());
        }
        for request in requests {
            scene.client.answer(&request).await.unwrap().unwrap();
        }
    }
    let mut other = Client::connect(&scene.server).await;
    let snapshot = other.subscribe(&scene.chat).await["queue"].take();
    for status in [scene.client.queue(&scene.chat).await, snapshot] {
        let entries = status["entries"].as_array().unwrap();
        let whole = entries.iter().take_while(|entry| entry["content"].is_string()).count();
        assert!(whole > 600 && entries.len() == ENTRIES, "{whole}");
        assert!(entries[whole..].iter().all(|entry| entry["truncated"] == true));
        assert!(bytes(&status) <= 4_194_304, "{}", bytes(&status));
        assert!(bytes(&status) + bytes(&entries[0]) + 2_048 > 4_194_304, "{}", bytes(&status));
    }
}

#[tokio::test]
async fn of_thousands_of_tasks_and_sessions_the_newest_are_listed() {
    const EACH: usize = 3_000;
    for (title, listed) in [("t".to_owned(), 1_000), ("\u{1}".repeat(1_024), 900)] {
        let scene = Scene::new().await;
        let (_, launch) = scene.server.terminate();
        fill::tasks(&launch, &scene.chat, EACH, &title);
        let mut scene = Scene::again(&launch, scene.chat).await;
        // Made after all others.
        let newest = scene.client.ok("task.create", json!({"title": "newest"})).await;
        let task = json!({"task_id": scene.chat.task_id});
        let more = scene.client.ok("session.create", task.clone()).await["session"].take();
        let used_last = newest["session"]["created_at"].as_str().unwrap();
        for (action, payload, list, at) in [
            ("task.list", json!({}), "tasks", Some(&newest["task"])),
            ("task.list", json!({"include_archived": true}), "tasks", Some(&newest["task"])),
            ("session.list", json!({}), "sessions", None),
            ("session.list", task.clone(), "sessions", Some(&more)),
        ] {
            let answer = scene.client.ok(action, payload).await;
            let found = answer[list].as_array().unwrap();
            assert!((listed..=1_000).contains(&found.len()), "{action}: {}", found.len());
            assert!(bytes(&answer) <= 8_388_700, "{action}: {}", bytes(&answer));
            match at {
                Some(newest) => assert_eq!(&found[0], newest, "{action}"),
                None => assert!(found[0]["created_at"].as_str().unwrap() >= used_last),
            }
        }
        // Of one task with its sessions the newest are last.
        let answer = scene.client.ok("task.get", task).await;
        let found = answer["sessions"].as_array().unwrap();
        assert!((listed..=1_000).contains(&found.len()), "{}", found.len());
        assert_eq!(found.last(), Some(&more));
    }
}

#[tokio::test]
async fn who_pings_without_end_is_cut_off() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let mut other = Client::connect(&server).await;
    for _ in 0..=1_000 {
        client.send_raw(Message::Ping(Vec::new().into())).await.unwrap();
    }
    assert_eq!(client.closed().await.code, Some(1008));
    other.ok("ping", json!({})).await;
}
