//! Pages of the transcript.

use serde_json::{Value, json};
use usher_tests::chat::{Chat, accepted, by_role, contents, string};
use usher_tests::client::Client;
use usher_tests::scene::Scene;
use usher_tests::server::{Launch, Server};

async fn page(client: &mut Client, chat: &Chat, bounds: Value) -> (Vec<Value>, bool) {
    let mut request = json!({"session_id": chat.session_id});
    usher_tests::client::merge(&mut request, bounds);
    let page = client.ok("transcript.page", request).await;
    (page["messages"].as_array().unwrap().clone(), page["has_more"].as_bool().unwrap())
}

/// Reads everything in pages of seven, from the oldest on.
async fn down(client: &mut Client, chat: &Chat) -> Vec<Value> {
    let mut read = Vec::new();
    loop {
        let after = read.last().map_or(json!(0), |last: &Value| last["seq"].clone());
        let (messages, has_more) =
            page(client, chat, json!({"after_seq": after, "limit": 7})).await;
        read.extend(messages);
        if !has_more {
            return read;
        }
    }
}

/// The same from the newest back.
async fn up(client: &mut Client, chat: &Chat) -> Vec<Value> {
    let (mut read, mut has_more) = page(client, chat, json!({"limit": 7})).await;
    while has_more {
        let before = read[0]["seq"].clone();
        let (mut messages, more) =
            page(client, chat, json!({"before_seq": before, "limit": 7})).await;
        messages.append(&mut read);
        read = messages;
        has_more = more;
    }
    read
}

#[tokio::test]
async fn c106_c109_pages_give_every_message_once_in_its_order_whatever_its_time() {
    let mut scene = Scene::new().await;
    let chat = scene.chat.clone();
    let texts: Vec<String> = (0..10).map(|number| format!("p{number}")).collect();
    scene.admit_all(&texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    scene.settled().await;
    let expected: Vec<String> =
        texts.iter().flat_map(|text| [text.clone(), format!("You said: {text}")]).collect();
    for times in [
        "created_at",
        // One moment, an hour that comes twice, and a clock that runs backwards.
        "1800000000000",
        "1792886400000 + 1800000 * (seq % 4)",
        "1800000000000 - 86400000 * seq",
    ] {
        let (_, launch) = scene.server.terminate();
        launch.change(&format!("UPDATE messages SET created_at = {times}"));
        scene = Scene::again(&launch, chat.clone()).await;
        for _ in 0..2 {
            let read = down(&mut scene.client, &chat).await;
            assert_eq!(contents(&read), expected, "{times}");
            assert_eq!(up(&mut scene.client, &chat).await, read, "{times}");
            scene = scene.restarted().await;
        }
    }
}

#[tokio::test]
async fn bounds_of_a_page_are_checked() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    for (field, bounds) in [
        ("limit", json!({"limit": 0})),
        ("limit", json!({"limit": 201})),
        ("limit", json!({"limit": -1})),
        ("before_seq", json!({"before_seq": "x"})),
    ] {
        let mut request = json!({"session_id": chat.session_id});
        usher_tests::client::merge(&mut request, bounds.clone());
        let refusal = client.request("transcript.page", request).await.unwrap_err();
        assert_eq!(refusal.code, "validation", "{bounds}");
        assert_eq!(refusal.details["field"], json!(field), "{bounds}");
    }
    let (messages, has_more) = page(&mut client, &chat, json!({"after_seq": 99})).await;
    assert_eq!((messages, has_more), (Vec::new(), false));
}

#[tokio::test]
async fn a_long_answer_is_cut_in_lists_and_says_so() {
    const BYTES: usize = 1_000_000;
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.subscribe(&chat).await;
    client.admit(&chat, "k", &format!("/demo big {BYTES}")).await;
    client.until_settled(&chat).await;
    let answer = client.transcript(&chat).await.pop().unwrap();
    assert_eq!(answer["content"].as_str().unwrap().len(), 262_144);
    assert_eq!(answer["content_truncated"], true);
}

#[tokio::test]
async fn c103_a_prompt_that_ran_reaches_the_agent_once_however_often_its_readers_come_back() {
    const AGENT: &str = "[agents.mine]\nkind = \"command\"\ncommand = \"sh\"\n\
                         args = [\"-c\", \"cat >>seen; echo >>seen; echo ok\"]\n";
    let launch = Launch::new().config(&format!("dispatch_pass = \"10ms\"\n{AGENT}"));
    let work = json!({"agent": "mine", "workspace_dir": launch.home().path("work")});
    let mut scene = Scene::with(&launch, work).await;
    scene.admit("A").await;
    scene.settled().await;
    let before = scene.client.transcript(&scene.chat).await;
    assert_eq!(contents(&before), ["A", "ok\n"]);
    for round in 0..8 {
        if round == 4 {
            scene = scene.restarted().await;
        }
        let mut link = Client::connect(&scene.server).await;
        link.subscribe(&scene.chat).await;
        assert_eq!(accepted(&link.add(&scene.chat, "A", "A").await).1, "replayed");
        link.set_auto_run(&scene.chat, false).await;
        link.set_auto_run(&scene.chat, true).await;
        assert_eq!(link.ok("message.queue.drain", scene.chat.identity()).await["drained"], false);
        link.cut();
    }
    scene.admit("B").await;
    scene.settled().await;
    let after = scene.client.transcript(&scene.chat).await;
    assert_eq!(after[..2], before);
    assert_eq!(contents(&after), ["A", "ok\n", "B", "ok\n"]);
    assert_eq!(launch.home().read("work/seen"), "A\nB\n");
}

#[tokio::test]
async fn c105_the_order_is_that_of_the_server_whatever_time_clients_claim() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let mut other = Client::connect(&scene.server).await;
    let times =
        ["2099-01-01T05:00:00.000Z", "2000-01-01T00:00:00.000Z", "1969-12-31T23:57:00.000Z"];
    for (text, time) in ["A", "B", "C"].into_iter().zip(times) {
        let mut payload = scene.chat.prompt(text, text);
        let claims = json!({
            "queued_at": time, "created_at": time, "sent_at": time, "timestamp": time,
            "metadata": {"queued_at": time}, "position": 1, "seq": 1,
        });
        usher_tests::client::merge(&mut payload, claims);
        let link = if text == "C" { &mut other } else { &mut scene.client };
        let answer = link.ok("message.queue.add", payload).await;
        assert_ne!(answer["queued_at"], json!(time));
    }
    let queued: Vec<String> =
        scene.client.entries(&scene.chat).await.iter().map(|e| string(&e["queued_at"])).collect();
    assert!(queued.is_sorted(), "{queued:?}");
    scene.run_all().await;
    let transcript = scene.client.transcript(&scene.chat).await;
    assert_eq!(contents(&by_role(&transcript, "user")), ["A", "B", "C"]);
    let seqs: Vec<&Value> = transcript.iter().map(|message| &message["seq"]).collect();
    assert_eq!(json!(seqs), json!([1, 2, 3, 4, 5, 6]));
    let created: Vec<String> = transcript.iter().map(|m| string(&m["created_at"])).collect();
    assert!(created.is_sorted(), "{created:?}");
}
