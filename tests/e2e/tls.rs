//! TLS on the server's TCP ports.

use std::io::ErrorKind;

use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ProtocolVersion;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use usher_tests::certificates::{Authority, Issued};
use usher_tests::chat::{Chat, contents};
use usher_tests::client::{Client, Closed, ConnectError, Refusal, timed};
use usher_tests::server::{Launch, Server};

/// A server with a certificate for `localhost`, and who signed it.
struct Secured {
    server: Server,
    authority: Authority,
}

impl Secured {
    fn start() -> Self {
        Self::of(Launch::new())
    }

    fn of(launch: Launch) -> Self {
        let authority = Authority::new();
        let server = launch.tls(&authority.issue(&["localhost"])).start();
        Self { server, authority }
    }

    async fn dial(&self, headers: &[(&'static str, &str)]) -> Result<Client, ConnectError> {
        let config = self.authority.client_config(&[&TLS13]);
        Client::dial_tls(&self.server, "localhost", config, headers).await
    }

    async fn connect(&self) -> Client {
        let mut client = self.dial(&[]).await.unwrap();
        client.hello(json!({"token": self.server.launch().token()})).await.unwrap();
        client
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.server.tls_address()).await.unwrap()
    }
}

#[tokio::test]
async fn a_link_over_tls_does_what_any_link_does() {
    let secured = Secured::start();
    let token = secured.server.launch().token();
    let mut witness = Client::connect(&secured.server).await;
    let chat = Chat::parked(&mut witness).await;
    for (version, spoken, id) in
        [(&TLS12, ProtocolVersion::TLSv1_2, "k12"), (&TLS13, ProtocolVersion::TLSv1_3, "k13")]
    {
        let config = secured.authority.client_config(&[version]);
        let shaken = Client::shake_hands(&secured.server, "localhost", config.clone()).await;
        let connection = shaken.unwrap().into_inner().1;
        assert_eq!(connection.protocol_version(), Some(spoken));
        assert_eq!(connection.alpn_protocol(), Some(&b"http/1.1"[..]));
        let mut client = Client::dial_tls(&secured.server, "localhost", config, &[]).await.unwrap();
        client.hello(json!({"token": token})).await.unwrap();
        client.subscribe(&chat).await;
        // More than one record in both directions.
        let content = format!("{id} {}", "é".repeat(100_000));
        client.admit(&chat, id, &content).await;
        let entries = client.entries(&chat).await;
        assert!(contents(&entries).contains(&content.as_str()), "{id}");
    }
    assert_eq!(witness.entries(&chat).await.len(), 2);
}

#[tokio::test]
async fn with_a_certificate_no_tcp_port_speaks_in_the_clear() {
    let secured = Secured::of(Launch::new().args(["--listen", "[::1]:0"]));
    let urls = secured.server.listening()["urls"].as_array().unwrap();
    let tcp: Vec<_> = urls.iter().filter_map(|url| url.as_str()?.split_once("://")).collect();
    assert_eq!(tcp.iter().map(|(scheme, _)| *scheme).collect::<Vec<_>>(), ["wss", "wss"]);
    for (_, address) in tcp {
        let address = address.strip_suffix("/ws").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        timed(stream.read_to_end(&mut answer)).await.unwrap();
        // An alert, if anything.
        assert!(answer.first().is_none_or(|kind| *kind == 21), "{answer:?}");
    }
}

#[tokio::test]
async fn nothing_that_is_sent_before_or_inside_tls_ends_the_server() {
    let secured = Secured::start();
    let mut hello = vec![22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3];
    hello.resize(205, 0);
    let outside: [&[u8]; 7] = [
        b"",
        b"\x00",
        b"\x16\x03\x01\xff\xff",
        &hello,
        &[0xff; 70_000],
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"GET /ws HTTP/1.1\r\n\r\n",
    ];
    for bytes in outside {
        let mut stream = secured.tcp().await;
        // It may be cut off in the middle.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let _ = timed(stream.read_to_end(&mut Vec::new())).await;
    }
    for bytes in [&b""[..], b"\x00\x01\x02", &[b'A'; 70_000], b"GET /ws HTTP/1.1\r\n\r\n"] {
        let config = secured.authority.client_config(&[&TLS13]);
        let shaken = Client::shake_hands(&secured.server, "localhost", config).await;
        let mut stream = shaken.unwrap();
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let _ = timed(stream.read_to_end(&mut Vec::new())).await;
        // Cut off without a word in the middle of a record.
        let config = secured.authority.client_config(&[&TLS12]);
        let shaken = Client::shake_hands(&secured.server, "localhost", config).await;
        let (mut below, _) = shaken.unwrap().into_inner();
        let _ = below.write_all(b"\x17\x03\x03\x40\x00garbage").await;
    }
    secured.connect().await.ok("ping", json!({})).await;
    let log = secured.server.log();
    assert!(!log.contains("panicked"), "{log}");
}

#[tokio::test]
async fn peers_that_do_not_shake_hands_hold_up_nobody() {
    let secured = Secured::start();
    let mut silent = Vec::new();
    for number in 0..400 {
        let mut stream = secured.tcp().await;
        if number % 2 == 0 {
            stream.write_all(b"\x16\x03\x01\x02\x00\x01").await.unwrap();
        }
        silent.push(stream);
    }
    let mut client = secured.connect().await;
    client.ok("ping", json!({})).await;
    drop(silent);
}

#[tokio::test]
async fn a_peer_that_does_not_shake_hands_loses_its_place() {
    let secured = Secured::of(Launch::new().config("connections_max = 2"));
    let mut silent = [secured.tcp().await, secured.tcp().await];
    // As many places as there may be connections.
    let mut one_more = secured.tcp().await;
    let read = timed(one_more.read(&mut [0])).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    // Who comes through the Unix socket needs none.
    Client::connect(&secured.server).await.ok("ping", json!({})).await;
    for stream in &silent {
        let here = stream.try_read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(here, Err(ErrorKind::WouldBlock), "it has its place for a while");
    }
    for stream in &mut silent {
        let read = timed(stream.read(&mut [0])).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    secured.connect().await.ok("ping", json!({})).await;
}

#[test]
fn a_certificate_or_key_that_cannot_be_used_is_named_and_nothing_starts() {
    let authority = Authority::new();
    let (good, other) = (authority.issue(&["localhost"]), authority.issue(&["localhost"]));
    let garbled = |pem: &str| pem.replacen("-----END", "-----FIN", 1);
    let weak = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
    let no_certificate = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    for (cert, key, file, words) in [
        ("", good.key.as_str(), "cert.pem", "no certificate"),
        (&good.key, &good.key, "cert.pem", "no certificate"),
        (&garbled(&good.cert), &good.key, "cert.pem", "not valid PEM"),
        (no_certificate, &good.key, "cert.pem", "cannot be read"),
        (&good.cert, "", "key.pem", "no private key"),
        (&good.cert, &good.cert, "key.pem", "no private key"),
        (&good.cert, &garbled(&good.key), "key.pem", "not valid PEM"),
        (&good.cert, weak, "key.pem", "cannot be used"),
        (&good.cert, &other.key, "key.pem", "not the key of the first certificate"),
    ] {
        let launch = Launch::new().tls(&Issued { cert: cert.to_owned(), key: key.to_owned() });
        let failed = launch.try_start().err().unwrap();
        assert_eq!(failed.status.code(), Some(1), "{words}");
        assert!(failed.log.contains(file) && failed.log.contains(words), "{}", failed.log);
        assert!(!launch.data_dir().exists(), "{words}");
        // A key is never repeated.
        assert!(!failed.log.contains("MAA") && !failed.log.contains("FIN"), "{}", failed.log);
    }
    let launch = Launch::new().tls(&good);
    let [_, key] = launch.tls_files();
    std::fs::remove_file(key).unwrap();
    let failed = launch.try_start().err().unwrap();
    assert!(failed.log.contains("key.pem: No such file"), "{}", failed.log);
    for (alone, missing) in [("--tls-cert", "tls_key"), ("--tls-key", "tls_cert")] {
        let failed = Launch::new().args([alone, "a.pem"]).try_start().err().unwrap();
        assert_eq!(failed.status.code(), Some(1));
        assert!(failed.log.contains(missing), "{}", failed.log);
    }
}

#[tokio::test]
async fn with_a_certificate_a_server_listens_for_other_machines_under_any_name() {
    let authority = Authority::new();
    let issued = authority.issue(&["chat.example"]);
    let server = Launch::new().listen_on(&["0.0.0.0:0"]).tls(&issued).start();
    assert!(server.tls_address().ip().is_unspecified());
    let config = authority.client_config(&[&TLS12, &TLS13]);
    let mut client = Client::dial_tls(&server, "chat.example", config, &[]).await.unwrap();
    client.hello(json!({"token": server.launch().token()})).await.unwrap();
    client.ok("ping", json!({})).await;
}

#[test]
fn a_server_for_other_machines_without_a_certificate_says_what_it_lacks() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:4317"] {
        let failed = Launch::new().args(["--listen", address]).try_start().err().unwrap();
        assert_eq!(failed.status.code(), Some(1));
        for words in [address, "--tls-cert", "--tls-key"] {
            assert!(failed.log.contains(words), "{words}: {}", failed.log);
        }
    }
}

#[tokio::test]
async fn the_configuration_names_certificate_and_key_from_its_own_folder() {
    let config = "tls_cert = \"cert.pem\"\ntls_key = \"key.pem\"";
    let launch = Launch::new().config(config);
    let authority = Authority::new();
    launch.write_tls(&authority.issue(&["localhost"]));
    let secured = Secured { server: launch.start(), authority };
    secured.connect().await.ok("ping", json!({})).await;
}

#[tokio::test]
async fn tokens_are_asked_for_and_wrong_ones_counted_as_without_tls() {
    let secured = Secured::start();
    let unauthorized = Refusal::new("unauthorized", json!({}));
    let limited = Refusal::new("rate_limited", json!({"retry_after_ms": 60_000}));
    for attempt in 0..7 {
        // In the header and in hello, by turns.
        let headers: &[(&str, &str)] = match attempt % 2 {
            0 => &[("authorization", "Bearer wrong")],
            _ => &[],
        };
        let mut client = secured.dial(headers).await.unwrap();
        let hello = if attempt % 2 == 0 { json!({}) } else { json!({"token": "wrong"}) };
        let expected = if attempt < 5 { &unauthorized } else { &limited };
        assert_eq!(client.hello(hello).await.as_ref(), Err(expected), "{attempt}");
        assert_eq!(client.closed().await, Closed { code: Some(1008) });
    }
    let bearer = format!("Bearer {}", secured.server.launch().token());
    let mut client = secured.dial(&[("authorization", &bearer)]).await.unwrap();
    client.hello(json!({})).await.unwrap();
    let mut silent = secured.dial(&[]).await.unwrap();
    assert_eq!(silent.hello(json!({})).await, Err(unauthorized));
}

#[tokio::test]
async fn c136_web_pages_are_refused_at_every_door_unless_they_are_configured() {
    let config = "allowed_origins = [\"https://chat.example\"]";
    let secured = Secured::of(Launch::new().config(config));
    let plain = Launch::new().config(config).start();
    for (origin, is_allowed) in [
        ("https://chat.example", true),
        ("https://evil.example", false),
        ("https://chat.example.evil.example", false),
        ("https://chat.example:8443", false),
        ("http://chat.example", false),
        ("https://localhost", false),
        ("null", false),
    ] {
        let headers = [("origin", origin)];
        for dialled in [
            secured.dial(&headers).await,
            Client::dial_tcp(&plain, &headers).await,
            Client::dial_unix(&plain, &headers).await,
        ] {
            match dialled {
                Ok(_) => assert!(is_allowed, "{origin}"),
                Err(ConnectError::Refused(403)) => assert!(!is_allowed, "{origin}"),
                Err(other) => panic!("{origin}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_hang_up_signal_brings_the_new_certificate_and_keeps_links() {
    let secured = Secured::start();
    let mut old = secured.connect().await;
    let (renewed, broken) = (Authority::new(), "no certificate".to_owned());
    let launch = secured.server.launch();
    launch.write_tls(&renewed.issue(&["localhost"]));
    secured.server.signal(Signal::HUP);
    let shakes = async |authority: &Authority| {
        let config = authority.client_config(&[&TLS13]);
        Client::shake_hands(&secured.server, "localhost", config).await.is_ok()
    };
    timed(async { while !shakes(&renewed).await {} }).await;
    assert!(!shakes(&secured.authority).await);
    old.ok("ping", json!({})).await;

    launch.write_tls(&Issued { cert: broken.clone(), key: broken });
    secured.server.signal(Signal::HUP);
    let warned = || secured.server.log().contains("the certificate in use stays");
    timed(async {
        while !warned() {
            old.ok("ping", json!({})).await;
        }
    })
    .await;
    assert!(shakes(&renewed).await);
}

#[tokio::test]
async fn a_server_that_stops_says_so_over_tls_and_waits_for_no_handshake() {
    let secured = Secured::start();
    let mut client = secured.connect().await;
    let _silent = secured.tcp().await;
    secured.server.signal(Signal::TERM);
    assert_eq!(client.closed().await, Closed { code: Some(1001) });
    drop(client);
    let (status, launch) = secured.server.ended();
    assert!(status.success());
    let log = launch.home().read("server.log");
    assert!(!log.contains("did not end in time"), "{log}");
}
