//! The first request, who is let in, and what a server says about itself.

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use usher_tests::client::{Client, Closed, ConnectError, Refusal};
use usher_tests::server::{Launch, Server};
use uuid::Uuid;

fn unauthorized() -> Refusal {
    Refusal::new("unauthorized", json!({}))
}

#[tokio::test]
async fn hello_tells_all_about_the_server_and_its_limits() {
    let server = Server::start();
    let mut client = Client::dial(&server).await.unwrap();
    let mut reply = client.hello(json!({"later": "a field of another version"})).await.unwrap();
    for id in ["epoch", "store_id"] {
        let text = reply["server"][id].take();
        assert!(Uuid::parse_str(text.as_str().unwrap()).is_ok(), "{id}: {text}");
    }
    assert!(reply["user"]["id"].take().is_string());
    assert!(reply["user"]["name"].take().is_string());
    let capabilities = reply["capabilities"].take();
    for needed in
        ["queue.admission_receipts", "queue.auto_run", "plan.comments", "transcript.search"]
    {
        assert!(capabilities.as_array().unwrap().contains(&json!(needed)), "{capabilities}");
    }
    assert_eq!(
        reply,
        json!({
            "protocol": 1,
            "server": {
                "name": "usherd",
                "version": env!("CARGO_PKG_VERSION"),
                "epoch": null,
                "store_id": null,
            },
            "user": {"id": null, "name": null},
            "capabilities": null,
            "limits": {
                "frame_bytes_max": 16_777_216,
                "content_bytes_max": 262_144,
                "client_queue_id_bytes_max": 128,
                "admission_ids_max": 256,
                "attachments_max": 10,
                "attachment_bytes_max": 104_857_600,
                "inline_bytes_max": 10_485_760,
                "append_bytes_max": 524_288,
                "references_max": 100,
                "context_files_max": 200,
                "entries_max": 1_000,
                "metadata_bytes_max": 65_536,
                "in_flight_max": 64,
                "lease_ttl_ms": 60_000,
                "status_bytes_max": 4_194_304,
            },
            "heartbeat_ms": 15_000,
        })
    );
}

#[tokio::test]
async fn every_start_has_a_new_epoch_and_the_database_keeps_its_id() {
    async fn names(server: &Server) -> (Value, Value) {
        let mut client = Client::dial(server).await.unwrap();
        let mut reply = client.hello(json!({})).await.unwrap();
        (reply["server"]["epoch"].take(), reply["server"]["store_id"].take())
    }
    let server = Server::start();
    let (first_epoch, first_store) = names(&server).await;
    let server = server.kill().start();
    let (second_epoch, second_store) = names(&server).await;
    assert_ne!(first_epoch, second_epoch);
    assert_eq!(first_store, second_store);
}

#[tokio::test]
async fn nothing_is_answered_before_hello() {
    let server = Server::start();
    let mut client = Client::dial(&server).await.unwrap();
    for action in ["ping", "task.list", "no.such.action"] {
        assert_eq!(client.request(action, json!({})).await, Err(unauthorized()), "{action}");
    }
}

#[tokio::test]
async fn a_second_hello_is_refused_and_the_link_goes_on() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let second = client.hello(json!({})).await;
    assert_eq!(second, Err(Refusal::new("bad_request", json!({}))));
    assert!(client.ok("ping", json!({})).await["server_time"].is_string());
}

#[tokio::test]
async fn without_a_common_protocol_the_link_is_closed() {
    let server = Server::start();
    for versions in [json!([]), json!([0]), json!([2, 3])] {
        let mut client = Client::dial(&server).await.unwrap();
        let answer = client.hello(json!({"protocol": versions})).await;
        assert_eq!(answer, Err(Refusal::new("protocol_unsupported", json!({}))));
        assert_eq!(client.closed().await, Closed { code: Some(1002) });
    }
}

#[tokio::test]
async fn the_version_is_agreed_on_before_anything_else_of_a_hello_is_read() {
    let server = Server::start();
    for payload in [
        json!({"protocol": [2, 8_589_934_592_u64]}),
        json!({"protocol": [-1], "client": "another shape", "client_instance": 7}),
        json!({"protocol": [2], "token": {"of": "another shape"}}),
    ] {
        // Over TCP no token was shown, either.
        let mut client = Client::dial_tcp(&server, &[]).await.unwrap();
        let answer = client.request("hello", payload.clone()).await;
        assert_eq!(answer, Err(Refusal::new("protocol_unsupported", json!({}))), "{payload}");
        assert_eq!(client.closed().await, Closed { code: Some(1002) });
    }
    for versions in [json!([1, 8_589_934_592_u64]), json!([-7, u64::MAX, 1])] {
        let mut client = Client::dial(&server).await.unwrap();
        let reply = client.hello(json!({"protocol": versions})).await.unwrap();
        assert_eq!(reply["protocol"], 1);
    }
    let mut client = Client::dial(&server).await.unwrap();
    for versions in [json!(["1"]), json!([1.5]), json!(1), json!({"1": 1}), json!([null, 1])] {
        let Err(refusal) = client.hello(json!({"protocol": versions})).await else {
            panic!("{versions} was taken");
        };
        let field = refusal.details["field"].as_str().unwrap();
        assert_eq!(refusal.code, "validation", "{versions}");
        assert!(field.starts_with("protocol"), "{field}");
    }
}

#[tokio::test]
async fn one_right_token_is_enough_wherever_it_is_shown() {
    let server = Server::start();
    let token = server.launch().token();
    let right = format!("Bearer {token}");
    for (header, in_hello) in [
        ("Bearer wrong", Some(token.as_str())),
        (right.as_str(), Some("wrong")),
        (&format!("bearer {token}"), None),
        (&format!("BEARER  {token}"), None),
        ("Basic d3Jvbmc6d3Jvbmc=", Some(&token)),
    ] {
        let mut client = Client::dial_tcp(&server, &[("authorization", header)]).await.unwrap();
        let answer = client.hello(json!({"token": in_hello})).await;
        assert!(answer.is_ok(), "{header:.8} {in_hello:.8?}: {answer:?}");
    }
    for header in ["Bearer wrong", &format!("Basic {token}"), &format!("Bearer{token}")] {
        let mut client = Client::dial_tcp(&server, &[("authorization", header)]).await.unwrap();
        assert_eq!(client.hello(json!({"token": null})).await, Err(unauthorized()));
        assert_eq!(client.closed().await, Closed { code: Some(1008) });
    }
}

#[tokio::test]
async fn a_token_that_is_shown_over_the_unix_socket_counts() {
    let server = Server::start();
    let user = server.launch().add_user("zoe");
    let name = async |shown: Value| {
        let mut client = Client::dial(&server).await.unwrap();
        let answer = client.hello(shown).await;
        if answer.is_err() {
            assert_eq!(client.closed().await, Closed { code: Some(1008) });
        }
        answer.map(|reply| reply["user"]["name"].clone())
    };
    assert_eq!(name(json!({"token": user})).await, Ok(json!("zoe")));
    assert_eq!(name(json!({"token": server.launch().token()})).await, Ok(json!("tester")));
    assert_eq!(name(json!({})).await, Ok(json!("tester")));
    for wrong in ["wrong", ""] {
        assert_eq!(name(json!({"token": wrong})).await, Err(unauthorized()));
    }
}

#[tokio::test]
async fn a_hello_that_lacks_something_names_the_field() {
    let server = Server::start();
    let mut client = Client::dial(&server).await.unwrap();
    for (field, payload) in [
        (
            "protocol",
            json!({"client": {"name": "t", "version": "0"}, "client_instance": Uuid::nil()}),
        ),
        ("client", json!({"protocol": [1], "client_instance": Uuid::nil()})),
        ("client_instance", json!({"protocol": [1], "client": {"name": "t", "version": "0"}})),
    ] {
        let answer = client.request("hello", payload).await;
        assert_eq!(answer, Err(Refusal::new("validation", json!({"field": field}))));
    }
    assert!(client.hello(json!({})).await.is_ok());
}

#[tokio::test]
async fn a_new_link_of_the_same_client_ends_the_old_one() {
    let server = Server::start();
    let instance = json!({"client_instance": Uuid::new_v4()});
    let mut old = Client::dial(&server).await.unwrap();
    old.hello(instance.clone()).await.unwrap();
    let mut bystander = Client::connect(&server).await;
    let mut new = Client::dial(&server).await.unwrap();
    new.hello(instance).await.unwrap();
    assert_eq!(old.closed().await, Closed { code: Some(4001) });
    new.ok("ping", json!({})).await;
    bystander.ok("ping", json!({})).await;
}

#[tokio::test]
async fn tcp_needs_the_token_in_a_header_or_in_hello() {
    let server = Server::start();
    let token = server.launch().token();

    let mut client = Client::dial_tcp(&server, &[]).await.unwrap();
    assert!(client.hello(json!({"token": token})).await.is_ok());

    let bearer = format!("Bearer {token}");
    let mut client = Client::dial_tcp(&server, &[("authorization", &bearer)]).await.unwrap();
    assert!(client.hello(json!({})).await.is_ok());
    client.ok("task.list", json!({})).await;

    let near = format!("{}x", &token[..token.len() - 1]);
    for wrong in
        [json!({}), json!({"token": ""}), json!({"token": near}), json!({"token": &token[1..]})]
    {
        let mut client = Client::dial_tcp(&server, &[]).await.unwrap();
        assert_eq!(client.hello(wrong).await, Err(unauthorized()));
        assert_eq!(client.closed().await, Closed { code: Some(1008) });
    }
}

#[tokio::test]
async fn c136_a_token_in_the_address_is_no_token() {
    let server = Server::start();
    let token = server.launch().token();
    let address = server.tcp_address();
    let stream = TcpStream::connect(&address).await.unwrap();
    let url = format!("ws://{address}/ws?token={token}");
    let (mut socket, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
    let hello = json!({"id": "1", "type": "request", "action": "hello", "payload": {
        "protocol": [1], "client": {"name": "t", "version": "0"}, "client_instance": Uuid::new_v4(),
    }});
    use futures_util::{SinkExt, StreamExt};
    socket.send(hello.to_string().into()).await.unwrap();
    let answer = socket.next().await.unwrap().unwrap().into_text().unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["payload"]["code"], "unauthorized");
}

#[tokio::test]
async fn after_five_wrong_tokens_wrong_ones_are_refused_at_once_and_a_right_one_gets_in() {
    let server = Server::start();
    let mut codes = Vec::new();
    for _ in 0..7 {
        let mut client = Client::dial_tcp(&server, &[]).await.unwrap();
        codes.push(client.hello(json!({"token": "wrong"})).await.unwrap_err().code);
    }
    let mut expected = vec!["unauthorized"; 5];
    expected.extend(["rate_limited"; 2]);
    assert_eq!(codes, expected);
    let mut client = Client::dial_tcp(&server, &[]).await.unwrap();
    let token = server.launch().token();
    assert!(client.hello(json!({"token": token})).await.is_ok());
}

#[tokio::test]
async fn who_said_no_hello_does_not_keep_a_server_from_ending() {
    let server = Server::start();
    let mut silent = Client::dial(&server).await.unwrap();
    let _deaf = Client::dial_tcp(&server, &[]).await.unwrap();
    let mut client = Client::connect(&server).await;
    server.signal(Signal::TERM);
    assert_eq!(silent.closed().await, Closed { code: Some(1001) });
    assert_eq!(client.closed().await, Closed { code: Some(1001) });
    drop(client);
    let (status, launch) = server.ended();
    assert!(status.success());
    let log = launch.home().read("server.log");
    assert!(!log.contains("did not end in time"), "{log}");
}

#[tokio::test]
async fn c136_web_pages_are_refused_before_the_upgrade() {
    let server = Server::start();
    let bearer = format!("Bearer {}", server.launch().token());
    for origin in ["https://evil.example", "null", "http://localhost", "http://127.0.0.1"] {
        let headers = [("origin", origin), ("authorization", bearer.as_str())];
        let refused = Client::dial_tcp(&server, &headers).await;
        assert!(matches!(refused, Err(ConnectError::Refused(403))), "{origin}: {refused:?}");
    }
}

/// Sends a plain HTTP request; returns the status line's code and the body.
async fn http(server: &Server, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server.tcp_address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (code, body)
}

#[tokio::test]
async fn healthz_answers_without_a_token_and_tells_nothing() {
    let server = Server::start();
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let (code, body) = http(&server, &get("/healthz")).await;
    assert_eq!(code, 200);
    assert!(body.len() < 64, "{body}");
    for (path, expected) in [("/", 404), ("/healthz/x", 404), ("/../token", 404)] {
        assert_eq!(http(&server, &get(path)).await.0, expected, "{path}");
    }
}

#[tokio::test]
async fn a_server_that_listens_on_no_loopback_address_without_tls_does_not_start() {
    let failed = Launch::new().args(["--listen", "0.0.0.0:0"]).try_start().err().unwrap();
    assert!(!failed.status.success());
    assert!(failed.log.contains("0.0.0.0"), "{}", failed.log);
}

#[tokio::test]
async fn a_user_has_so_many_links_and_no_more() {
    let server = Launch::new().config("connections_per_user_max = 4").start();
    let known = json!({"client_instance": Uuid::new_v4().to_string()});
    let mut first = Client::dial(&server).await.unwrap();
    first.hello(known.clone()).await.unwrap();
    let mut links = Vec::new();
    for _ in 1..4 {
        links.push(Client::connect(&server).await);
    }
    let mut more = Client::dial(&server).await.unwrap();
    let too_many = Refusal::new("rate_limited", json!({"retry_after_ms": 5_000}));
    assert_eq!(more.hello(json!({})).await, Err(too_many));
    assert_eq!(more.closed().await, Closed { code: Some(1013) });
    // Another user, and a client that comes back, take no further place.
    let token = server.launch().add_user("otto");
    Client::connect_as(&server, &token).await.ok("ping", json!({})).await;
    let mut again = Client::dial(&server).await.unwrap();
    again.hello(known).await.unwrap();
    assert_eq!(first.closed().await, Closed { code: Some(4001) });
    // One that ends makes room for one.
    links.remove(0).cut();
    loop {
        let mut next = Client::dial(&server).await.unwrap();
        if next.hello(json!({})).await.is_ok() {
            break;
        }
    }
}
