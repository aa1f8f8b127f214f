//! Frames that are no requests, and more requests than a link may have.

use std::net::Shutdown;
use std::os::fd::AsFd;

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use usher_tests::PATIENCE;
use usher_tests::actions::UNKNOWN;
use usher_tests::chat::{Chat, contents};
use usher_tests::client::{Client, Closed, Refusal};
use usher_tests::server::{Launch, Server};
use uuid::Uuid;

fn bad_request() -> Refusal {
    Refusal::new("bad_request", json!({}))
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_the_link_goes_on() {
    let server = Server::start();
    let frames = [
        Message::text(""),
        Message::text("{"),
        Message::text("[]"),
        Message::text("null"),
        Message::text("\"ping\""),
        Message::text(r#"["1","request","ping"]"#),
        Message::text(r#"{"type":"request","action":"ping"}"#),
        Message::text(r#"{"id":"","type":"request","action":"ping"}"#),
        Message::text(r#"{"id":7,"type":"request","action":"ping"}"#),
        Message::text(r#"{"id":["1"],"type":"request","action":"ping"}"#),
        Message::text(r#"{"id":"1\u0000","type":"request","action":"ping"}"#),
        Message::text(r#"{"id":"1\n","type":"request","action":"ping"}"#),
        Message::text(r#"{"id":"1","id":"1","type":"request","action":"ping"}"#),
        Message::text(format!(r#"{{"id":"{}","type":"request","action":"ping"}}"#, "x".repeat(65))),
        Message::text("[".repeat(100_000)),
        Message::text(r#"{"id":"1","type":"request","action":"ping"} {}"#),
        Message::binary(vec![1, 2, 3]),
        Message::binary(br#"{"id":"1","type":"request","action":"ping"}"#.to_vec()),
    ];
    for frame in frames {
        let mut client = Client::connect(&server).await;
        client.send_raw(frame.clone()).await.unwrap();
        assert_eq!(client.refusal().await, Ok(bad_request()), "{frame:.60}");
        client.ok("ping", json!({})).await;
    }
}

#[tokio::test]
async fn a_frame_with_an_id_that_is_wrong_otherwise_is_refused_with_it() {
    let server = Server::start();
    for frame in [
        r#"{"id":"a","action":"ping"}"#,
        r#"{"id":"a","type":"response","action":"ping"}"#,
        r#"{"id":"a","type":["request"],"action":"ping"}"#,
        r#"{"id":"a","type":"request"}"#,
        r#"{"id":"a","type":"request","action":7}"#,
        r#"{"action":"ping","action":"ping","type":"request","id":"a"}"#,
        r#"{"id":"a","type":"request","action":"ping","payload":{},"payload":{}}"#,
    ] {
        // Before the hello and after it.
        let mut client = Client::dial(&server).await.unwrap();
        for greeted in [false, true] {
            client.send_raw(Message::text(frame)).await.unwrap();
            assert_eq!(client.answer("a").await, Ok(Err(bad_request())), "{frame}");
            if !greeted {
                client.hello(json!({})).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn no_error_repeats_what_was_sent_beyond_its_action() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    let text = "\u{85}sEcReT".repeat(500_000);
    let key: serde_json::Map<_, _> = [(text.clone(), json!(1))].into_iter().collect();
    for (action, fields) in [
        ("message.queue.add", json!({"content": "x", "plan_mode": text})),
        ("message.queue.add", json!({"content": [text]})),
        ("message.queue.add", json!({"content": "x", "client_queue_id": text})),
        ("message.queue.send_now", json!({"scope": text})),
        ("turn.resolve", json!({"turn_id": {"x": text}, "resolution": text})),
        ("message.queue.remove", json!(key)),
        ("task.create", json!({"title": text})),
        ("task.create", json!({"title": "t", "workspace_dir": text})),
        ("task.create", json!({"title": "t", "agent": "sEcReT"})),
        (&text, json!({})),
        (&"x".repeat(65), json!({})),
    ] {
        let id = client.send(action, chat.with(fields)).await.unwrap();
        let mut answer = client.text().await.unwrap();
        while answer.contains("notification") {
            answer = client.text().await.unwrap();
        }
        assert!(answer.len() < 512 && !answer.contains("sEcReT"), "{action:.60}: {answer:.512}");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        let known = action.len() <= 64;
        assert_eq!(answer["action"], if known { json!(action) } else { json!(null) });
        assert_eq!((&answer["id"], &answer["type"]), (&json!(id), &json!("error")));
    }
}

#[tokio::test]
async fn only_objects_are_objects_and_only_strings_are_words() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    for (action, payload, field) in [
        ("ping", json!([]), "payload"),
        ("settings.get", json!([]), "payload"),
        ("settings.set", json!([1, null, null]), "payload"),
        ("task.create", json!(["TT", null, null, null, null]), "payload"),
        ("task.list", json!("x"), "payload"),
        ("task.create", json!({"title": "t", "kind": {"quick": null}}), "kind"),
        ("task.create", json!({"title": "t", "kind": ["quick"]}), "kind"),
        ("message.queue.send_now", chat.with(json!({"scope": {"all": null}})), "scope"),
        (
            "message.queue.add",
            chat.with(json!({"content": "x", "context_files": [["p", "n"]]})),
            "context_files[0]",
        ),
        (
            "turn.resolve",
            chat.with(json!({"turn_id": UNKNOWN, "resolution": {"drop": null}})),
            "resolution",
        ),
    ] {
        let refused = Refusal::new("validation", json!({"field": field}));
        assert_eq!(client.request(action, payload.clone()).await, Err(refused), "{payload}");
    }
    let repeated =
        r#"{"id":"a","type":"request","action":"task.create","payload":{"title":"a","title":"b"}}"#;
    client.send_raw(Message::text(repeated)).await.unwrap();
    let refused = Refusal::new("validation", json!({"field": "title"}));
    assert_eq!(client.answer("a").await, Ok(Err(refused)));
    let tasks = client.ok("task.list", json!({})).await;
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn ten_bad_frames_close_the_link() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    for _ in 0..9 {
        client.send_raw(Message::text("no")).await.unwrap();
        assert_eq!(client.refusal().await, Ok(bad_request()));
    }
    client.ok("ping", json!({})).await;
    client.send_raw(Message::text("no")).await.unwrap();
    assert_eq!(client.closed().await, Closed { code: Some(1008) });
}

#[tokio::test]
async fn c085_a_frame_over_the_limit_closes_only_its_own_link() {
    let server = Server::start();
    let mut bystander = Client::connect(&server).await;
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    let frame = |bytes: usize| {
        let payload = chat.prompt("k", "x");
        let start = format!(
            r#"{{"id":"big","type":"request","action":"message.queue.add","payload":{payload},"pad":""#
        );
        let pad = bytes - start.len() - 2;
        format!("{start}{}\"}}", "p".repeat(pad))
    };
    client.send_raw(Message::text(frame(16_777_216))).await.unwrap();
    assert!(client.answer("big").await.unwrap().is_ok());
    // The server may close before it has taken all of it.
    let _ = client.send_raw(Message::text(frame(16_777_217))).await;
    assert_eq!(client.closed().await, Closed { code: Some(1009) });
    bystander.ok("ping", json!({})).await;
    assert_eq!(contents(&bystander.entries(&chat).await), ["x"]);
}

#[tokio::test]
async fn whoever_sends_too_much_is_told_so_however_it_is_sent() {
    let server = Server::start();
    for _ in 0..5 {
        // In pieces, after the hello.
        let mut client = Client::connect(&server).await;
        for piece in 0..6 {
            let code = if piece == 0 { Data::Text } else { Data::Continue };
            let frame = Frame::message(vec![b'x'; 4_194_304], OpCode::Data(code), piece == 5);
            let _ = client.send_raw(Message::Frame(frame)).await;
        }
        assert_eq!(client.closed().await, Closed { code: Some(1009) });
        // Before it, over both doors.
        let doors = [Client::dial(&server).await, Client::dial_tcp(&server, &[]).await];
        for client in doors {
            let mut client = client.unwrap();
            let _ = client.send_raw(Message::text("x".repeat(2_000_000))).await;
            assert_eq!(client.closed().await, Closed { code: Some(1009) });
        }
    }
}

#[tokio::test]
async fn what_was_sent_before_a_client_vanished_takes_effect_though_no_answer_arrives() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    for round in 0..5 {
        let chat = Chat::parked(&mut client).await;
        let hello = json!({
            "protocol": [1], "client": {"name": "t", "version": "0"},
            "client_instance": Uuid::new_v4(),
        });
        let request = |id: &str, action: &str, payload: &serde_json::Value| {
            let frame = json!({"id": id, "type": "request", "action": action, "payload": payload});
            Message::text(frame.to_string())
        };
        let stream = UnixStream::connect(server.launch().socket()).await.unwrap();
        let (mut vanishing, _) =
            tokio_tungstenite::client_async("ws://localhost/ws", stream).await.unwrap();
        vanishing.send(request("hello", "hello", &hello)).await.unwrap();
        assert!(vanishing.next().await.unwrap().unwrap().is_text());
        // From here on nothing that the server writes arrives, not even the answer to a ping.
        let stream = vanishing.get_ref().as_fd().try_clone_to_owned().unwrap();
        std::os::unix::net::UnixStream::from(stream).shutdown(Shutdown::Read).unwrap();
        let mut expected = Vec::new();
        for number in 0..100 {
            let text = number.to_string();
            if number % 10 == 0 {
                vanishing.feed(request("p", "ping", &json!({}))).await.unwrap();
                vanishing.feed(Message::Ping(Vec::new().into())).await.unwrap();
            }
            let add = chat.prompt(&text, &text);
            vanishing.feed(request(&text, "message.queue.add", &add)).await.unwrap();
            expected.push(text);
        }
        vanishing.flush().await.unwrap();
        drop(vanishing);
        // Answered when the old link has finished everything.
        Client::dial(&server).await.unwrap().hello(hello).await.unwrap();
        assert_eq!(contents(&client.entries(&chat).await), expected, "round {round}");
    }
}

#[tokio::test]
async fn a_client_that_writes_before_it_reads_is_not_waited_for() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    client.subscribe(&chat).await;
    // Each one is answered with a status of everything that waits; nobody reads it meanwhile.
    let prompt = "x".repeat(262_144);
    for number in 0..8 {
        client.admit(&chat, &format!("k{number}"), &prompt).await;
    }
    assert_eq!(client.queue(&chat).await["count"], 8);
}

#[tokio::test]
async fn unknown_actions_and_wrong_payloads_are_named() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    for action in ["", "nothing", "message.queue", "message.queue.Add", "hello\u{0}"] {
        let answer = client.request(action, json!({})).await;
        assert_eq!(answer, Err(Refusal::new("unknown_action", json!({}))), "{action:?}");
    }
    for payload in [json!([]), json!("x"), json!(7)] {
        let refused = Refusal::new("validation", json!({"field": "payload"}));
        assert_eq!(client.request("task.get", payload.clone()).await, Err(refused), "{payload}");
    }
    client.ok("ping", json!({})).await;
    // `payload` may be left out, and null is the same.
    for raw in [
        r#"{"id":"a","type":"request","action":"task.list"}"#,
        r#"{"id":"a","type":"request","action":"task.list","payload":null}"#,
    ] {
        client.send_raw(Message::text(raw)).await.unwrap();
        assert_eq!(client.answer("a").await.unwrap(), Ok(json!({"tasks": []})));
    }
}

#[tokio::test]
async fn more_requests_in_flight_than_allowed_are_refused_or_wait_but_never_lost() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    let mut requests = Vec::new();
    // Few enough for the buffers of the socket: nothing is read until all are sent.
    for number in 0..150 {
        let prompt = chat.prompt(&format!("k{number}"), &number.to_string());
        requests.push(client.send("message.queue.add", prompt).await.unwrap());
    }
    let mut accepted = Vec::new();
    for (number, request) in requests.iter().enumerate() {
        match client.answer(request).await.unwrap() {
            Ok(_) => accepted.push(number.to_string()),
            Err(refusal) => {
                assert_eq!(refusal.code, "rate_limited");
                assert!(refusal.details["retry_after_ms"].is_u64());
            }
        }
    }
    assert!(accepted.len() >= 64, "{}", accepted.len());
    assert_eq!(contents(&client.entries(&chat).await), accepted);
}

#[tokio::test]
async fn pings_of_the_transport_are_answered() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    client.send_raw(Message::Ping(b"are you there".to_vec().into())).await.unwrap();
    client.ok("ping", json!({})).await;
}

#[tokio::test]
async fn a_link_that_vanishes_in_the_middle_of_a_frame_leaves_nothing_behind() {
    use tokio::io::AsyncWriteExt;

    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    let upgrade = "GET /ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n\
                   connection: upgrade\r\nsec-websocket-version: 13\r\n\
                   sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    for cut in [10, upgrade.len() - 1, upgrade.len()] {
        let mut stream = UnixStream::connect(server.launch().socket()).await.unwrap();
        stream.write_all(&upgrade.as_bytes()[..cut]).await.unwrap();
        if cut == upgrade.len() {
            // A masked text frame that promises 100 bytes and brings 10.
            stream.write_all(&[0x81, 0x80 | 100, 0, 0, 0, 0]).await.unwrap();
            stream.write_all(b"{\"id\":\"1\",").await.unwrap();
        }
    }
    client.ok("ping", json!({})).await;
    assert_eq!(client.queue(&chat).await["count"], 0);
}

#[tokio::test]
async fn a_link_that_answers_no_ping_is_dropped_and_others_stay() {
    use tokio::io::AsyncReadExt;

    let server = Launch::new().config("heartbeat = \"1s\"\n").start();
    let mut client = Client::connect(&server).await;
    let silent = Client::dial(&server).await.unwrap();
    let mut silent = silent.into_stream();
    // Whoever reads without ever answering sees the end of the link.
    let mut received = Vec::new();
    let read = tokio::time::timeout(PATIENCE, silent.read_to_end(&mut received));
    // The other one answers pings while it waits.
    tokio::select! {
        read = read => assert!(read.is_ok(), "the silent link was never dropped"),
        closed = client.closed() => panic!("the link that answers was dropped: {closed:?}"),
    }
    client.ok("ping", json!({})).await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_cut_off_and_delays_nobody() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let mut lazy = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.subscribe(&chat).await;
    lazy.subscribe(&chat).await;
    // More than the server keeps for those who are behind, in pieces that it does keep; and in
    // messages of a size that is shown as it comes.
    let piece = ["big 200KB; think then"; 6].join("; ");
    client.admit(&chat, "k", &format!("/demo {}", [&*piece; 4].join("; ask; "))).await;
    for _ in 0..3 {
        let asked = client.notified("permission.requested", |_| true).await;
        let answer = json!({"request_id": asked["request_id"], "option_id": "once"});
        client.ok("permission.respond", chat.with(answer)).await;
    }
    let ended = client.notified("turn.ended", |_| true).await;
    assert_eq!(ended["outcome"], "completed");
    let transcript = client.transcript(&chat).await;
    assert_eq!(transcript.len(), 1 + 2 * 6 * 4);
    assert!(transcript.iter().all(|message| message["status"] == "complete"));
    assert_eq!(lazy.closed().await, Closed { code: Some(1013) });
    // It comes back with a snapshot.
    let mut lazy = Client::connect(&server).await;
    let snapshot = lazy.subscribe(&chat).await;
    assert_eq!(snapshot["messages"].as_array().unwrap().len(), transcript.len());
}
