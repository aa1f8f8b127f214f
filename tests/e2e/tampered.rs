//! What only somebody with the database file in hand can set up: rows that make no sense, a lock, old
//! times, a place that cannot be written.

use std::ffi::OsString;
use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;
use tokio::task::JoinSet;
use usher_tests::chat::{Chat, accepted, contents};
use usher_tests::client::Client;
use usher_tests::scene::{Scene, refused};
use usher_tests::server::{Launch, Server};

fn open(launch: &Launch) -> Connection {
    let database = Connection::open(launch.data_dir().join("usher.db")).unwrap();
    database.busy_timeout(Duration::from_secs(30)).unwrap();
    database
}

#[tokio::test]
async fn a_row_that_makes_no_sense_is_a_fault_of_the_server_and_spoils_nothing_else() {
    let mut scene = Scene::new().await;
    scene.park().await;
    scene.admit_all(&["a", "b"]).await;
    let other = Chat::parked(&mut scene.client).await;
    scene.client.admit(&other, "k", "fine").await;
    let database = open(scene.server.launch());
    database
        .execute("UPDATE queue_entries SET sender_kind = 'ghost' WHERE content = 'b'", [])
        .unwrap();
    for (action, fields) in
        [("message.queue.get", json!({})), ("message.queue.send_now", json!({"scope": "all"}))]
    {
        let refusal = scene.ask(action, fields).await.unwrap_err();
        assert_eq!((refusal.code.as_str(), refusal.details), ("internal", json!({})), "{action}");
    }
    assert_eq!(contents(&scene.client.entries(&other).await), ["fine"]);
    scene.client.subscribe(&other).await;
    scene.client.set_auto_run(&other, true).await;
    scene.client.until_settled(&other).await;
    database
        .execute("UPDATE queue_entries SET sender_kind = 'user' WHERE content = 'b'", [])
        .unwrap();
    assert_eq!(scene.waiting().await, ["a", "b"]);
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c127_twenty_writers_and_another_program_that_locks_the_database_lose_nothing() {
    const WRITERS: usize = 20;
    const EACH: usize = 1_000;
    const BATCH: usize = 50;
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let (progress, progressed) = channel();
    let mut database = open(server.launch());
    // It takes the lock now and then, and keeps it while it has something long to do.
    let locking = std::thread::spawn(move || {
        let mut taken = 0;
        while progressed.iter().take(WRITERS).count() == WRITERS {
            let lock = database
                .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
                .unwrap();
            let work = "WITH RECURSIVE numbers(n) AS
                (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 500000)
                SELECT COUNT(*) FROM numbers";
            let counted: i64 = lock.query_row(work, [], |row| row.get(0)).unwrap();
            assert_eq!(counted, 500_000);
            lock.rollback().unwrap();
            taken += 1;
        }
        taken
    });
    let mut writers = JoinSet::new();
    let mut chats = Vec::new();
    for writer in 0..WRITERS {
        let chat = Chat::create(&mut client).await;
        client.set_auto_run(&chat, false).await;
        chats.push(chat.clone());
        let mut link = Client::connect(&server).await;
        let progress = progress.clone();
        writers.spawn(async move {
            for batch in 0..EACH / BATCH {
                let mut requests = Vec::new();
                for number in 0..BATCH {
                    let id = format!("{writer}-{}", batch * BATCH + number);
                    let prompt = chat.prompt(&id, &id);
                    requests.push(link.send("message.queue.add", prompt).await.unwrap());
                }
                for request in requests {
                    let outcome = accepted(&link.answer(&request).await.unwrap()).1;
                    assert_eq!(outcome, "admitted");
                }
                progress.send(()).unwrap();
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
    drop(progress);
    assert_eq!(locking.join().unwrap(), EACH / BATCH);
    // Nobody answered the server's pings on the first link all the while.
    let mut client = Client::connect(&server).await;
    for (writer, chat) in chats.iter().enumerate() {
        let expected: Vec<String> = (0..EACH).map(|number| format!("{writer}-{number}")).collect();
        assert_eq!(contents(&client.entries(chat).await), expected);
    }
}

#[tokio::test]
async fn what_was_removed_ten_minutes_ago_is_gone_and_later_ones_come_back() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let ids = scene.admit_all(&["a", "b", "c"]).await;
    let mut undo = Vec::new();
    for id in &ids[..2] {
        let removed = scene.act("message.queue.remove", json!({"entry_id": id})).await;
        undo.push(json!({"undo_id": removed["undo_id"]}));
    }
    let (_, launch) = scene.server.terminate();
    launch.change(
        "UPDATE queue_entries SET removed_at = removed_at - 601000 WHERE content = 'a';
         UPDATE queue_entries SET removed_at = removed_at - 500000 WHERE content = 'b';",
    );
    let mut scene = Scene::again(&launch, scene.chat).await;
    let expired = scene.ask("message.queue.restore", undo[0].clone()).await;
    assert_eq!(expired, refused("undo_expired"));
    scene.act("message.queue.restore", undo[1].clone()).await;
    assert_eq!(scene.waiting().await, ["b", "c"]);
    // The proof of its admission outlives it.
    assert_eq!(accepted(&scene.client.add(&scene.chat, "a", "a").await).1, "replayed");
}

/// A server in a mount namespace of its own, in which `script` has prepared the data directory
/// `$0`.
fn prepared(launch: &Launch, script: &str) -> Launch {
    let words = ["unshare", "-Urm", "sh", "-c"].map(OsString::from);
    let run = OsString::from(format!("{script} && exec \"$@\""));
    launch.clone().under(words.into_iter().chain([run, launch.data_dir().into_os_string()]))
}

#[tokio::test]
async fn c133_a_place_that_cannot_be_used_is_named_and_left_as_it_is() {
    let launch = Launch::new();
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    client.admit(&chat, "k1", "A").await;
    // Killed: a log is left that the next start has to read.
    let launch = server.kill();
    let files = || {
        let mut files: Vec<(OsString, Vec<u8>)> = fs::read_dir(launch.data_dir())
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("usher.db"))
            .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap_or_default()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    for (what, script) in [
        ("read-only", r#"mount --bind "$0" "$0" && mount -o remount,ro,bind "$0""#),
        (
            "full",
            r#"mkdir "$0.copy" && cp "$0"/usher.db* "$0.copy" && mount -t tmpfs -o size=1m,mode=700 none "$0" && cp "$0.copy"/* "$0"; rm -r "$0.copy"; head -c 2000000 /dev/zero >"$0/ballast" 2>/dev/null; true"#,
        ),
    ] {
        let failed = prepared(&launch, script).try_start().err();
        let failed = failed.unwrap_or_else(|| panic!("{what}: it started"));
        assert!(!failed.status.success(), "{what}");
        assert!(!failed.log.contains("panicked"), "{what}: {}", failed.log);
        assert!(files() == before, "{what}: the files were changed");
    }
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    assert_eq!(contents(&client.entries(&chat).await), ["A"]);

    // A directory where the file should be.
    let launch = Launch::new();
    fs::create_dir_all(launch.data_dir().join("usher.db/inner")).unwrap();
    let failed = launch.try_start().err().expect("it does not start");
    assert!(!failed.status.success() && failed.log.contains("usher.db"), "{}", failed.log);
    assert!(launch.data_dir().join("usher.db/inner").is_dir());
    fs::remove_dir_all(launch.data_dir().join("usher.db")).unwrap();
}
