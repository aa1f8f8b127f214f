//! The files of a server: one process at a time, and never damaged by us.

use std::fs;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use serde_json::json;
use usher_tests::chat::{Chat, accepted, contents};
use usher_tests::client::{Client, Refusal};
use usher_tests::server::{Launch, Server};
use usher_tests::trace::strace_injecting;

/// Returns the path of the one database file.
fn database(launch: &Launch) -> std::path::PathBuf {
    let mut found = Vec::new();
    for file in fs::read_dir(launch.data_dir()).unwrap() {
        let path = file.unwrap().path();
        let start = fs::read(&path).unwrap_or_default();
        if start.starts_with(b"SQLite format 3\0") {
            found.push(path);
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[tokio::test]
async fn a_second_server_on_the_same_directory_does_not_start_and_the_first_goes_on() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let log_before = server.log().len();
    // On other addresses: only the directory is the same.
    let failed = server.launch().clone().listen_on(&["127.0.0.1:0"]).try_start().err().unwrap();
    assert!(!failed.status.success());
    assert!(failed.log.len() > log_before, "it says why");
    client.ok("ping", json!({})).await;
}

#[tokio::test]
async fn only_its_user_may_read_the_data_and_the_socket() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::start();
    let mode = |path: std::path::PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let data = server.launch().data_dir();
    assert_eq!(mode(data.clone()), 0o700);
    assert_eq!(mode(data.join("token")), 0o600);
    assert_eq!(mode(server.launch().socket()), 0o600);
}

#[tokio::test]
async fn c127_another_writer_delays_an_admission_and_never_fails_it() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    client.admit(&chat, "k1", "A").await;
    let mut other = Connection::open(database(server.launch())).unwrap();
    other.busy_timeout(Duration::from_secs(30)).unwrap();
    let lock = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let waiting = client.send("message.queue.add", chat.prompt("k2", "B")).await.unwrap();
    // The lock is held for long after the server has the request: many others are answered.
    for _ in 0..500 {
        client.ok("ping", json!({})).await;
    }
    lock.rollback().unwrap();
    assert_eq!(accepted(&client.answer(&waiting).await.unwrap()).1, "admitted");
    assert_eq!(contents(&client.entries(&chat).await), ["A", "B"]);
}

#[tokio::test]
async fn c006_another_text_while_the_first_waits_to_be_stored_is_a_conflict() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let mut other = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    let mut database = Connection::open(database(server.launch())).unwrap();
    database.busy_timeout(Duration::from_secs(30)).unwrap();
    let lock = database.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let a = client.send("message.queue.add", chat.prompt("k1", "A")).await.unwrap();
    for _ in 0..200 {
        client.ok("ping", json!({})).await;
    }
    let b = other.send("message.queue.add", chat.prompt("k1", "B")).await.unwrap();
    for _ in 0..200 {
        other.ok("ping", json!({})).await;
    }
    lock.rollback().unwrap();
    let conflict = Err(Refusal::new("queue_id_conflict", json!({})));
    assert_eq!(accepted(&client.answer(&a).await.unwrap()).1, "admitted");
    assert_eq!(other.answer(&b).await.unwrap(), conflict);
    assert_eq!(other.add(&chat, "k1", "B").await, conflict);
    assert_eq!(contents(&client.entries(&chat).await), ["A"]);
}

/// A backup and a check are such readers.
#[tokio::test]
async fn a_reader_that_stays_holds_up_no_admission_however_long_the_log_grows() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    let path = database(server.launch());
    let log = path.with_extension("db-wal");
    let reader = Connection::open(path).unwrap();
    reader.execute_batch("BEGIN; SELECT COUNT(*) FROM sessions").unwrap();
    let admissions = async {
        let text = "x".repeat(262_144);
        let (mut count, mut beyond) = (0, 0);
        while beyond < 40 {
            client.admit(&chat, &format!("k{count}"), &text).await;
            count += 1;
            // 64 MiB: here the writer itself tries to begin the log anew.
            beyond += usize::from(fs::metadata(&log).unwrap().len() > 67_108_864);
        }
    };
    // Not a measurement: a writer that waits for the reader would need minutes.
    tokio::time::timeout(usher_tests::PATIENCE, admissions).await.unwrap();
    reader.execute_batch("COMMIT").unwrap();
}

#[tokio::test]
async fn c130_the_log_is_written_ahead_and_the_file_keeps_that() {
    let server = Server::start();
    let path = database(server.launch());
    let connection = Connection::open(&path).unwrap();
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    drop(connection);
    drop(server);
}

#[tokio::test]
async fn c133_a_database_that_cannot_be_used_stops_the_start_and_is_left_alone() {
    let launch = Launch::new();
    launch.start().terminate();
    let path = database(&launch);
    let good = fs::read(&path).unwrap();

    let newer = Connection::open(&path).unwrap();
    let changed = newer.execute("UPDATE meta SET value = '1000' WHERE name = 'schema'", []);
    assert_eq!(changed.unwrap(), 1);
    newer.close().unwrap();
    let newer = fs::read(&path).unwrap();

    let garbage = b"this is no database at all, but somebody's only copy of something".repeat(100);
    let mut damaged = good.clone();
    damaged[..16].fill(b'x');
    for (what, bytes) in [("garbage", &garbage), ("damaged", &damaged), ("newer", &newer)] {
        for extra in ["-wal", "-shm"] {
            let mut name = path.clone().into_os_string();
            name.push(extra);
            let _ = fs::remove_file(name);
        }
        fs::write(&path, bytes).unwrap();
        let failed = launch.try_start().err().unwrap_or_else(|| panic!("{what} was accepted"));
        assert!(!failed.status.success(), "{what}");
        assert!(!failed.log.contains("panicked"), "{what}: {}", failed.log);
        assert!(
            failed.log.contains("usher.db") || failed.log.contains("database"),
            "{what}: {}",
            failed.log
        );
        assert!(fs::read(&path).unwrap() == *bytes, "{what} was changed");
    }
    fs::write(&path, &good).unwrap();
    launch.start();
}

#[tokio::test]
async fn c133_a_file_that_cannot_be_opened_or_read_stops_the_start_and_is_left_alone() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    client.admit(&chat, "k1", "A").await;
    let (_, launch) = server.terminate();
    let path = database(&launch);
    let before = fs::read(&path).unwrap();
    for fault in ["openat:error=EACCES", "pread64:error=EIO"] {
        let calls = launch.home().path("calls");
        let failing = launch.clone().under(strace_injecting(fault, Some(&path), calls));
        let failed = failing.try_start().err().unwrap_or_else(|| panic!("{fault}: it started"));
        assert!(!failed.status.success(), "{fault}");
        assert!(!failed.log.contains("panicked"), "{fault}: {}", failed.log);
        let said = failed.log.lines().last().unwrap();
        assert!(said.contains("data/server: "), "{fault}: {said}");
        assert!(fs::read(&path).unwrap() == before, "{fault}: it was changed");
    }
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    assert_eq!(contents(&client.entries(&chat).await), ["A"]);
}

#[tokio::test]
async fn c133_an_empty_file_is_a_fresh_start_and_a_lost_shared_memory_file_loses_nothing() {
    let launch = Launch::new();
    fs::create_dir_all(launch.data_dir()).unwrap();
    fs::write(launch.data_dir().join("usher.db"), b"").unwrap();
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    client.admit(&chat, "k1", "A").await;
    let launch = server.kill();
    // Killed: everything is still in the log, whose index can be made again.
    fs::remove_file(launch.data_dir().join("usher.db-shm")).unwrap();
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    assert_eq!(contents(&client.entries(&chat).await), ["A"]);
}

#[test]
fn c142_c144_a_setting_that_makes_no_sense_stops_the_start_and_is_named() {
    let refused = |launch: Launch| launch.try_start().err().expect("it does not start").log;
    let log = refused(Launch::new().env("USHER_QUEUE_MAX_PER_SESSION", "10s"));
    assert!(log.contains("USHER_QUEUE_MAX_PER_SESSION") && log.contains("10s"), "{log}");
    for (key, line) in [
        ("heartbeat", "heartbeat = \"0s\""),
        ("heartbeat", "heartbeat = \"999ms\""),
        ("dispatch_pass", "dispatch_pass = \"soon\""),
        ("lease_ttl", "lease_ttl = \"0s\""),
        ("lease_hold_max", "lease_hold_max = \"-1s\""),
        ("connections_max", "connections_max = 0"),
        ("connections_per_user_max", "connections_per_user_max = -1"),
        ("max_per_session", "max_per_session = 1001"),
        ("hartbeat", "hartbeat = \"1s\""),
        ("default_agent", "default_agent = \"nobody\""),
        ("agents.x.command", "[agents.x]\nkind = \"command\""),
        ("agents.x.command", "[agents.x]\nkind = \"command\"\ncommand = \"\""),
        ("agents", "[agents.\"\"]\nkind = \"command\"\ncommand = \"cat\""),
    ] {
        let launch = Launch::new().without_env("USHER_QUEUE_MAX_PER_SESSION");
        let log = refused(launch.config(line));
        assert!(log.contains(key), "{line}: {log}");
    }
    let log = refused(Launch::new().args(["--listen", "127.0.0.1:65536"]));
    assert!(log.contains("65536"), "{log}");
}

#[test]
fn a_token_file_that_is_missing_open_to_others_or_too_short_stops_the_start() {
    use std::os::unix::fs::PermissionsExt;
    let launch = Launch::new();
    let file = launch.home().path("config/token");
    let refused = || {
        let failed = launch.clone().args(["--token-file".as_ref(), file.as_os_str()]).try_start();
        let log = failed.err().expect("it does not start").log;
        log.lines().last().expect("it says why").to_owned()
    };
    assert!(refused().contains("config/token: No such file"), "{}", refused());
    assert!(!file.exists(), "only the data directory's own token is made");
    fs::write(&file, "0123456789abcdef\n").unwrap();
    for mode in [0o644, 0o640, 0o604, 0o622] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        assert!(refused().contains("chmod 600"), "{}", refused());
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let server = launch.clone().args(["--token-file".as_ref(), file.as_os_str()]).start();
    drop(server);
    for short in ["", " \n", "0123456789abcde\n"] {
        fs::write(&file, short).unwrap();
        assert!(refused().contains("less than 16 characters"), "{}", refused());
    }
}

#[test]
fn a_start_that_fails_leaves_no_socket_behind() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let launch = Launch::new();
    let failed = launch.clone().args(["--listen", &address]).try_start().err().unwrap();
    assert!(failed.log.contains(&address), "{}", failed.log);
    assert!(!launch.socket().exists());
}

#[tokio::test]
async fn c132_starting_again_and_again_changes_nothing() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    client.admit(&chat, "k1", "A").await;
    let mut launch = server.kill();
    for _ in 0..3 {
        launch = launch.start().kill();
    }
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    assert_eq!(contents(&client.entries(&chat).await), ["A"]);
    assert_eq!(client.queue(&chat).await["auto_run"], false);
}

#[tokio::test]
async fn term_finishes_closes_and_leaves_nothing_on_stdout_but_the_first_line() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    client.admit(&chat, "k1", "A").await;
    let listening = server.listening().clone();
    assert_eq!(listening["version"], env!("CARGO_PKG_VERSION"));
    let socket = server.launch().socket();
    assert_eq!(listening["urls"].as_array().unwrap().len(), 2);
    assert!(
        listening["urls"]
            .as_array()
            .unwrap()
            .contains(&json!(format!("unix:{}", socket.display())))
    );

    server.signal(rustix::process::Signal::TERM);
    let draining = client.notified("server.draining", |_| true).await;
    assert!(draining["reconnect_after_ms"].is_u64());
    assert_eq!(client.closed().await.code, Some(1001));
    let (status, launch) = server.ended();
    assert_eq!(status.code(), Some(0));
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    assert_eq!(contents(&client.entries(&chat).await), ["A"]);
}

#[tokio::test]
async fn a_database_that_is_taken_away_accepts_nothing_and_goes_on_when_it_is_back() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    client.admit(&chat, "before", "before").await;
    let file = database(server.launch());
    for name in ["usher.db", "usher.db-wal"] {
        let (file, away) = (file.with_file_name(name), file.with_file_name(format!("{name}.away")));
        fs::rename(&file, &away).unwrap();
        let refused = client.add(&chat, name, name).await.unwrap_err();
        assert_eq!(refused.code, "queue_admission_unavailable", "{name}");
        // Another one in its place is not it.
        fs::copy(&away, &file).unwrap();
        let refused = client.add(&chat, name, name).await.unwrap_err();
        assert_eq!(refused.code, "queue_admission_unavailable", "{name}");
        fs::rename(&away, &file).unwrap();
        assert_eq!(accepted(&client.add(&chat, name, name).await).1, "admitted");
    }
    let launch = server.kill();
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    assert_eq!(contents(&client.entries(&chat).await), ["before", "usher.db", "usher.db-wal"]);
}
