//! `usher` against servers with certificates, and against what is wrong with them.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use rustix::process::Signal;
use usher_tests::certificates::{Authority, Issued, Validity, self_signed, self_signed_authority};
use usher_tests::chat::Chat;
use usher_tests::cli::{Ran, UserHome};
use usher_tests::client::Client;
use usher_tests::pty::Terminal;
use usher_tests::server::{Launch, Server};

/// A server with a certificate of an authority, and a user with the authority's file and the
/// server's token.
struct Secured {
    authority: Authority,
    server: Server,
    user: UserHome,
    ca: String,
}

impl Secured {
    fn start(names: &[&str]) -> Self {
        Self::with(|authority| authority.issue(names))
    }

    fn with(issue: impl FnOnce(&Authority) -> Issued) -> Self {
        let authority = Authority::new();
        let server = Launch::new().tls(&issue(&authority)).start();
        let user = UserHome::with_env(&[("USHER_TOKEN", &server.launch().token())]);
        let ca = authority.file(user.home()).to_str().unwrap().to_owned();
        Self { authority, server, user, ca }
    }

    fn address(&self, host: &str) -> String {
        format!("wss://{host}:{}", self.server.tls_address().port())
    }

    /// Sends a prompt and trusts the authority.
    fn send(&self, host: &str, text: &str) -> Ran {
        let address = self.address(host);
        self.user.usher(&["send", "--json", "--server", &address, "--ca", &self.ca, text])
    }
}

/// Says that there is no link, and why.
fn assert_says(ran: &Ran, words: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (5, ""), "{ran:?}");
    assert!(ran.stderr.contains(words), "{words}: {ran:?}");
}

#[tokio::test]
async fn a_prompt_is_sent_over_tls_once() {
    let secured = Secured::start(&["localhost", "127.0.0.1"]);
    let mut witness = Client::connect(&secured.server).await;
    let chat = Chat::parked(&mut witness).await;
    let address = secured.address("localhost");
    let mut ids = Vec::new();
    for host in ["localhost", "127.0.0.1"] {
        let ran = secured.send(host, "over tls");
        assert_eq!(ran.code, 0, "{ran:?}");
        ids.extend(ran.json().remove(0)["accepted_queue_id"].as_str().map(str::to_owned));
    }
    assert_eq!(witness.entries(&chat).await.len(), 2);
    let ids_of_entries = witness.entries(&chat).await;
    let known: Vec<_> = ids_of_entries.iter().filter_map(|entry| entry["id"].as_str()).collect();
    assert_eq!(known, ids);
    let ran = secured.user.usher(&["queue", "list", "--server", &address, "--ca", &secured.ca]);
    assert_eq!(ran.stdout.matches("over tls").count(), 2, "{ran:?}");
}

#[test]
fn server_token_and_authority_come_from_the_environment_as_well() {
    let authority = Authority::new();
    let server = Launch::new().tls(&authority.issue(&["localhost"])).start();
    let ca = authority.file(server.launch().home());
    let user = UserHome::with_env(&[
        ("USHER_TOKEN", &server.launch().token()),
        ("USHER_SERVER", &format!("wss://localhost:{}/ws", server.tls_address().port())),
        ("USHER_CA", ca.to_str().unwrap()),
    ]);
    let ran = user.usher(&["send", "--wait", "--json", "hello"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("You said: hello"), "{ran:?}");
    let ran = user.usher(&["status", "--json"]);
    assert_eq!((ran.code, &ran.json()[0]["running"]), (0, &true.into()), "{ran:?}");
}

#[test]
fn this_machines_authorities_count_where_none_is_named() {
    let secured = Secured::start(&["localhost"]);
    // Where a machine keeps them can be said by a variable, which is the way to have some here.
    let user = UserHome::with_env(&[
        ("USHER_TOKEN", &secured.server.launch().token()),
        ("SSL_CERT_FILE", &secured.ca),
    ]);
    let address = secured.address("localhost");
    assert_eq!(user.usher(&["send", "--server", &address, "hello"]).code, 0);
    // A file that is named replaces them.
    let other = Authority::new().file(user.home());
    let other = other.to_str().unwrap();
    let ran = user.usher(&["send", "--server", &address, "--ca", other, "hello"]);
    assert_says(&ran, "not signed by an authority in the file");
    let nobody = UserHome::with_env(&[("SSL_CERT_FILE", "/dev/null")]);
    let ran = nobody.usher(&["send", "--server", &address, "hello"]);
    assert_says(&ran, "no list of authorities");
}

#[tokio::test]
async fn a_certificate_that_does_not_count_is_said_to_and_why_and_nothing_is_sent() {
    let secured = Secured::start(&["localhost"]);
    let address = secured.address("localhost");
    let other = Authority::new();
    let other_ca = secured.user.home().path("config/other.pem");
    std::fs::write(&other_ca, other.pem()).unwrap();

    let without = secured.user.usher(&["send", "--server", &address, "hello"]);
    assert_says(&without, "No authority that this machine trusts");
    assert!(without.stderr.contains(&address), "{without:?}");
    let other_ca = other_ca.to_str().unwrap();
    let ran = secured.user.usher(&["send", "--server", &address, "--ca", other_ca, "hello"]);
    assert_says(&ran, "not signed by an authority in the file");
    assert_says(&secured.send("127.0.0.1", "hello"), "made out to another name");

    let at_other_times =
        |validity| Secured::with(|authority| authority.issue_valid(&["localhost"], validity));
    assert_says(&at_other_times(Validity::Past).send("localhost", "hello"), "has expired");
    assert_says(&at_other_times(Validity::Future).send("localhost", "hello"), "not valid yet");

    let mut witness = Client::connect(&secured.server).await;
    let tasks = witness.ok("task.list", serde_json::json!({})).await;
    assert_eq!(tasks["tasks"], serde_json::json!([]));
}

#[test]
fn a_certificate_that_signed_itself_counts_for_who_names_it_unless_it_is_an_authoritys() {
    for (issued, words) in [
        (self_signed(&["localhost"]), None),
        (self_signed_authority(&["localhost"]), Some("certificate of an authority as its own")),
    ] {
        let secured = Secured::with(|_| issued.clone());
        std::fs::write(&secured.ca, &issued.cert).unwrap();
        let ran = secured.send("localhost", "hello");
        match words {
            None => assert_eq!(ran.code, 0, "{ran:?}"),
            Some(words) => assert_says(&ran, words),
        }
    }
}

#[test]
fn a_scheme_that_the_server_does_not_speak_is_named() {
    let secured = Secured::start(&["localhost"]);
    let port = secured.server.tls_address().port();
    let address = format!("ws://localhost:{port}");
    let ran = secured.user.usher(&["send", "--server", &address, "hello"]);
    assert_says(&ran, "does not speak in the clear");

    let plain = Server::start();
    let address = format!("wss://{}", plain.tcp_address());
    let ran = secured.user.usher(&["send", "--server", &address, "hello"]);
    assert_says(&ran, "speaks no TLS");
}

/// Answers every connection with these bytes and hangs up; returns the address.
fn answers(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // What is asked for is read, so that the answer is not taken back.
            let _ = stream.read(&mut [0; 4_096]);
            let _ = stream.write_all(bytes);
        }
    });
    address.to_string()
}

#[test]
fn whatever_else_answers_is_no_server_and_ends_in_words() {
    let user = UserHome::new();
    let send = |address: &str| user.usher(&["send", "--server", address, "hello"]);
    let teapot = answers(b"HTTP/1.1 418 I'm a teapot\r\ncontent-length: 0\r\n\r\n");
    assert_says(&send(&format!("ws://{teapot}")), "HTTP 418");
    let mail = answers(b"220 mail.example ESMTP\r\n");
    assert_says(&send(&format!("wss://{mail}")), "speaks no TLS");
    assert_says(&send(&format!("ws://{mail}")), "does not speak in the clear");
    let alert = answers(b"\x15\x03\x03\x00\x02\x02\x28");
    assert_says(&send(&format!("wss://{alert}")), "No encrypted connection");
    let silent = answers(b"");
    assert_says(&send(&format!("wss://{silent}")), "No server answers");
    let status = user.usher(&["status", "--json", "--server", &format!("wss://{mail}")]);
    assert_eq!((status.code, &status.json()[0]["running"]), (5, &false.into()), "{status:?}");
    assert!(status.stderr.contains("speaks no TLS"), "{status:?}");
}

#[test]
fn a_file_of_authorities_that_holds_none_is_a_usage_error_that_names_it() {
    let user = UserHome::new();
    let empty = user.home().path("config/empty.pem");
    std::fs::write(&empty, "no certificate").unwrap();
    let missing = user.home().path("config/missing.pem");
    for (file, words) in [(&empty, "holds no certificate"), (&missing, "cannot be read")] {
        let file = file.to_str().unwrap();
        let ran = user.usher(&["send", "--server", "wss://localhost:1", "--ca", file, "hello"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(file) && ran.stderr.contains(words), "{ran:?}");
    }
    // It is of no use for a server without a certificate, and nobody looks at it.
    let missing = missing.to_str().unwrap();
    assert_eq!(user.usher(&["send", "--wait", "--ca", missing, "hello"]).code, 0);
}

#[test]
fn the_chat_says_why_there_is_no_link_and_goes_on_when_that_is_mended() {
    for (columns, rows) in [(120, 40), (40, 20)] {
        let authority = Authority::new();
        let server = Launch::new().tls(&Authority::new().issue(&["localhost"])).start();
        let user = UserHome::with_env(&[("USHER_TOKEN", &server.launch().token())]);
        let ca = authority.file(user.home());
        let address = format!("wss://localhost:{}", server.tls_address().port());
        let args = ["--server", &address, "--ca", ca.to_str().unwrap()];
        let mut terminal = Terminal::open(&user, columns, rows, &args);
        terminal.wait_for("certificate not trusted");
        terminal.wait_until("the whole reason", |screen| {
            let words: Vec<&str> = screen.split_whitespace().collect();
            words.join(" ").contains("not signed by an authority in the file")
        });
        server.launch().write_tls(&authority.issue(&["localhost"]));
        server.signal(Signal::HUP);
        let screen = terminal.wait_for("Welcome");
        assert!(!screen.contains("not trusted") && !screen.contains("signed by"), "{screen}");
        terminal.submit("hello");
        terminal.wait_for("You said: hello");
    }
}

#[test]
fn the_chat_comes_back_after_a_restart_with_another_certificate() {
    let secured = Secured::start(&["localhost"]);
    let address = secured.address("localhost");
    let args = ["--server", &address, "--ca", &secured.ca];
    let mut terminal = Terminal::open(&secured.user, 120, 40, &args);
    terminal.wait_for("Welcome");
    terminal.submit("before");
    terminal.wait_for("You said: before");
    // Nothing is left that the end of the server could interrupt.
    terminal.wait_for("Enter send");
    let port = secured.server.tls_address().port();
    let listen = [OsString::from("--listen"), format!("127.0.0.1:{port}").into()];
    let launch = secured.server.kill();
    terminal.wait_for("offline");
    // The same port.
    let _server =
        launch.listen_on(&[]).args(listen).tls(&secured.authority.issue(&["localhost"])).start();
    terminal.wait_until("the link", |screen| !screen.contains("offline"));
    terminal.submit("after");
    terminal.wait_for("You said: after");
}
