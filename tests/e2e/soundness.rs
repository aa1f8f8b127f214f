//! `usherd check`, and that every test is followed by one.

use std::process::{Command, Output};

use rusqlite::Connection;
use serde_json::{Value, json};
use usher_tests::binaries;
use usher_tests::chat::Chat;
use usher_tests::client::Client;
use usher_tests::server::{Launch, Server};

fn check(launch: &Launch, more: &[&str]) -> Output {
    let mut command = Command::new(binaries::usherd());
    command.args(["check", "--data-dir"]).arg(launch.data_dir()).args(more);
    command.output().unwrap()
}

/// A server that has a turn open and one prompt waiting.
async fn busy_server() -> Server {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.subscribe(&chat).await;
    client.admit(&chat, "k1", "/demo hang").await;
    client.until_running(&chat).await;
    client.admit(&chat, "k2", "waits").await;
    server
}

fn run(launch: &Launch, statement: &str) {
    let database = Connection::open(launch.data_dir().join("usher.db")).unwrap();
    database.execute_batch(statement).unwrap();
}

const BREAK: &str = "UPDATE sessions SET queue_stored = queue_stored + 3";
const MEND: &str = "UPDATE sessions SET queue_stored = queue_stored - 3";

#[tokio::test]
async fn a_check_beside_a_server_and_after_a_kill_finds_nothing() {
    let server = busy_server().await;
    for launch in [server.launch().clone(), server.kill()] {
        let output = check(&launch, &[]);
        assert_eq!(output.status.code(), Some(0));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with("sound: ") && said.lines().count() == 1, "{said}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    }
}

#[tokio::test]
async fn a_check_names_what_is_broken_and_where_and_no_text() {
    let launch = busy_server().await.kill();
    run(&launch, BREAK);
    let output = check(&launch, &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("queue_count: 1 of sessions (keys 1): "), "{said}");
    assert_eq!(said.lines().count(), 1);

    let output = check(&launch, &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["sound"], false);
    assert_eq!(said["violations"][0]["invariant"], "queue_count");
    assert_eq!(said["violations"][0]["keys"], json!([1]));
    run(&launch, MEND);
}

#[test]
fn a_check_of_nothing_says_so_and_makes_nothing() {
    let launch = Launch::new();
    let output = check(&launch, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("usher.db"), "{said}");
    assert!(!launch.data_dir().exists());
}

/// The proof that the check after every test is one.
#[tokio::test]
#[should_panic(expected = "queue_count")]
async fn a_test_that_leaves_a_broken_database_fails() {
    let launch = busy_server().await.kill();
    run(&launch, BREAK);
}
