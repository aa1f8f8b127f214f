//! Frames that are no requests, and more requests than a link may have.

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use usher_tests::PATIENCE;
use usher_tests::chat::{Chat, contents};
use usher_tests::client::{Client, Closed, Refusal};
use usher_tests::server::{Launch, Server};

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
        Message::text(r#"{"type":"request","action":"ping"}"#),
        Message::text(r#"{"id":"","type":"request","action":"ping"}"#),
        Message::text(r#"{"id":7,"type":"request","action":"ping"}"#),
        Message::text(r#"{"id":"1","action":"ping"}"#),
        Message::text(r#"{"id":"1","type":"response","action":"ping"}"#),
        Message::text(r#"{"id":"1","type":"request"}"#),
        Message::text(format!(r#"{{"id":"{}","type":"request","action":"ping"}}"#, "x".repeat(65))),
        Message::text("[".repeat(100_000)),
        Message::text(r#"{"id":"1","type":"request","action":"ping"} {}"#),
        Message::binary(vec![1, 2, 3]),
        Message::binary(br#"{"id":"1","type":"request","action":"ping"}"#.to_vec()),
    ];
    for frame in frames {
        let mut client = Client::connect(&server).await;
        client.send_raw(frame.clone()).await.unwrap();
        assert_eq!(client.refusal_or_answer("1").await, bad_request(), "{frame:.60}");
        client.ok("ping", json!({})).await;
    }
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
    let closed = client.closed().await;
    assert!([Some(1009), None].contains(&closed.code), "{closed:?}");
    bystander.ok("ping", json!({})).await;
    assert_eq!(contents(&bystander.entries(&chat).await), ["x"]);
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
        let refusal = client.request("task.get", payload.clone()).await.unwrap_err();
        assert_eq!(refusal.code, "validation", "{payload}");
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
    use tokio::net::UnixStream;

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
