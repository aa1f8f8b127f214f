//! What only somebody with the database file in hand can set up: old times, equal times, failing
//! statements, an older schema, a place that cannot be written.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use usher_tests::chat::{Chat, accepted, contents, string};
use usher_tests::client::Client;
use usher_tests::scene::{Scene, refused};
use usher_tests::server::{Launch, Server};

fn open(launch: &Launch) -> Connection {
    let database = Connection::open(launch.data_dir().join("usher.db")).unwrap();
    database.busy_timeout(Duration::from_secs(30)).unwrap();
    database
}

/// Runs statements on the database of a stopped server.
fn change(launch: &Launch, statements: &str) {
    let database = open(launch);
    database.execute_batch(statements).unwrap();
    database.close().unwrap();
}

#[tokio::test]
async fn c009_a_receipt_of_four_hundred_days_ago_still_answers() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let first = scene.client.add(&scene.chat, "k1", "A").await.unwrap();
    let (_, launch) = scene.server.terminate();
    change(
        &launch,
        "UPDATE queue_admission_receipts SET accepted_at = accepted_at - 34560000000;
         UPDATE queue_entries SET queued_at = queued_at - 34560000000;
         UPDATE sessions SET created_at = created_at - 34560000000;",
    );
    let mut scene = Scene::again(&launch, scene.chat).await;
    let long_ago = scene.client.entries(&scene.chat).await[0]["queued_at"].clone();
    assert!(string(&long_ago)[..4] < string(&first["queued_at"])[..4], "{long_ago}");
    let mut expected = first;
    expected["admission"]["outcome"] = json!("replayed");
    expected["queued_at"] = long_ago;
    for _ in 0..10 {
        assert_eq!(scene.client.add(&scene.chat, "k1", "A").await, Ok(expected.clone()));
    }
    scene.run_all().await;
    assert_eq!(scene.client.add(&scene.chat, "k1", "A").await, Ok(expected));
    assert_eq!(scene.prompts().await, ["A"]);
}

#[tokio::test]
async fn c012_an_admission_that_fails_half_way_leaves_neither_entry_nor_receipt() {
    for folding in [false, true] {
        let launch = if folding { Launch::new().folding() } else { Launch::new() };
        let mut scene = Scene::of(&launch).await;
        scene.park().await;
        scene.admit("before").await;
        let database = open(scene.server.launch());
        let entry = if folding { "UPDATE OF content ON" } else { "INSERT ON" };
        for (number, when) in [
            format!("BEFORE {entry} queue_entries"),
            format!("AFTER {entry} queue_entries"),
            "BEFORE INSERT ON queue_admission_receipts".to_owned(),
            "AFTER INSERT ON queue_admission_receipts".to_owned(),
            "AFTER UPDATE OF queue_revision ON sessions".to_owned(),
        ]
        .into_iter()
        .enumerate()
        {
            let before = scene.client.queue(&scene.chat).await;
            let trigger = format!(
                "CREATE TRIGGER fails {when} BEGIN SELECT RAISE(ABORT, 'set up by a test'); END"
            );
            database.execute_batch(&trigger).unwrap();
            let id = format!("k{number}");
            for text in [&id, "another text"] {
                let refusal = scene.client.add(&scene.chat, &id, text).await.unwrap_err();
                assert_eq!(refusal.code, "queue_admission_unavailable", "{when}");
                assert!(refusal.details["retry_after_ms"].is_u64());
            }
            assert_eq!(scene.client.queue(&scene.chat).await, before, "{when}");
            database.execute_batch("DROP TRIGGER fails").unwrap();
            // Nothing knows the id, so that this is its first admission, and only the next replays.
            let outcome = accepted(&scene.client.add(&scene.chat, &id, &id).await).1;
            assert_eq!(outcome, if folding { "folded" } else { "admitted" }, "{when}");
            assert_eq!(accepted(&scene.client.add(&scene.chat, &id, &id).await).1, "replayed");
        }
        let expected = ["before", "k0", "k1", "k2", "k3", "k4"];
        assert_eq!(scene.waiting().await.join("\n\n"), expected.join("\n\n"));
    }
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

#[tokio::test]
async fn c034_entries_of_one_millisecond_are_listed_and_run_in_their_order() {
    let mut scene = Scene::new().await;
    scene.park().await;
    let mut ids = scene.admit_all(&["a", "b", "c", "d"]).await;
    let (_, launch) = scene.server.terminate();
    change(&launch, "UPDATE queue_entries SET queued_at = 1800000000000");
    let mut scene = Scene::again(&launch, scene.chat).await;
    assert_eq!(scene.waiting().await, ["a", "b", "c", "d"]);
    ids.reverse();
    scene.act("message.queue.reorder", json!({"ordered_ids": ids})).await;
    let mut scene = scene.restarted().await;
    assert_eq!(scene.waiting().await, ["d", "c", "b", "a"]);
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["d", "c", "b", "a"]);
}

#[tokio::test]
async fn c106_messages_of_one_millisecond_keep_their_order_on_every_page() {
    let mut scene = Scene::new().await;
    for number in 0..10 {
        scene.admit(&format!("p{number}")).await;
    }
    scene.settled().await;
    let before = scene.client.transcript(&scene.chat).await;
    assert_eq!(before.len(), 20);
    let (_, launch) = scene.server.terminate();
    change(&launch, "UPDATE messages SET created_at = 1800000000000");
    let mut scene = Scene::again(&launch, scene.chat).await;
    for _ in 0..2 {
        let mut up: Vec<Value> = Vec::new();
        let mut has_more = true;
        while has_more {
            let before = up.first().map(|oldest| oldest["seq"].clone());
            let id = &scene.chat.session_id;
            let request = json!({"session_id": id, "before_seq": before, "limit": 7});
            let mut page = scene.client.ok("transcript.page", request).await;
            has_more = page["has_more"] == true;
            let Value::Array(mut messages) = page["messages"].take() else { panic!("a list") };
            messages.append(&mut up);
            up = messages;
        }
        assert_eq!(contents(&up), contents(&before));
        assert!(up.iter().all(|message| message["created_at"] == up[0]["created_at"]));
        scene = scene.restarted().await;
    }
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
    change(
        &launch,
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

/// The steps from the newest schema back to the first one that was released.
const BACK_TO_THE_FIRST: &str = "
    DROP INDEX tasks_deleted; DROP INDEX sessions_deleted; DROP INDEX queue_entries_by_turn;
    DROP INDEX session_incarnations_by_session; DROP INDEX turns_by_session;
    ALTER TABLE users DROP COLUMN removed_at; ALTER TABLE users DROP COLUMN max_per_session;
    ALTER TABLE users DROP COLUMN merge_enabled; ALTER TABLE users DROP COLUMN auto_merge_enabled;
    ALTER TABLE tasks DROP COLUMN deleted_at;
    ALTER TABLE sessions DROP COLUMN deleted_at; ALTER TABLE sessions DROP COLUMN operation;
    ALTER TABLE queue_entries DROP COLUMN sender_task;
    ALTER TABLE queue_admission_receipts DROP COLUMN base_key;
    ALTER TABLE queue_admission_receipts DROP COLUMN base_bytes;
    ALTER TABLE turns ADD COLUMN entry_id BLOB;
    ALTER TABLE turns DROP COLUMN replaced_by; ALTER TABLE turns DROP COLUMN node_id;
    DROP TABLE user_tokens; DROP TABLE nodes;
    UPDATE meta SET value = '1' WHERE name = 'schema';";

/// Returns every column of every table, and every index.
fn schema(database: &Connection) -> BTreeSet<String> {
    let mut names = database
        .prepare(
            "SELECT m.type || ' ' || m.name || ' ' || coalesce(c.name, '')
             FROM sqlite_master m LEFT JOIN pragma_table_info(m.name) c ON m.type = 'table'
             WHERE m.name NOT LIKE 'sqlite_%' AND m.name <> 'meta'",
        )
        .unwrap();
    names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn c132_a_database_of_the_first_release_is_brought_up_to_date_with_all_it_holds() {
    let mut scene = Scene::new().await;
    scene.admit("ran").await;
    scene.settled().await;
    scene.running("/demo say half; hang").await;
    let ids = scene.admit_all(&["B", "C", "removed"]).await;
    scene.act("message.queue.remove", json!({"entry_id": ids[2]})).await;
    let chat = scene.chat.clone();
    let waiting = scene.client.entries(&chat).await;
    let token = scene.server.launch().token();
    let launch = scene.server.kill();

    change(&launch, BACK_TO_THE_FIRST);
    let first = include_str!("../../server/src/store/migrations/0001_main.sql");
    let as_released = Connection::open_in_memory().unwrap();
    let first = first.replace("@KEY", "INTEGER PRIMARY KEY").replace("@BYTES", "BLOB");
    as_released.execute_batch(&first).unwrap();
    assert_eq!(schema(&open(&launch)), schema(&as_released), "the steps back are complete");

    // Settings that it did not know are as documented; those that it did are as they were.
    let mut launch = launch.folding().without_env("USHER_QUEUE_MAX_PER_SESSION");
    for start in 0..2 {
        let server = launch.start();
        let mut client = Client::connect(&server).await;
        let queue = client.queue(&chat).await;
        assert_eq!(queue["entries"], json!(waiting), "start {start}");
        for (field, value) in [
            ("max", json!(10)),
            ("merge_enabled", json!(true)),
            ("auto_merge_enabled", json!(true)),
            ("auto_run", json!(false)),
            ("auto_run_reason", json!("interrupted")),
        ] {
            assert_eq!(queue[field], value, "{field}, start {start}");
        }
        for text in ["ran", "B", "C", "removed"] {
            assert_eq!(accepted(&client.add(&chat, text, text).await).1, "replayed", "{text}");
        }
        let mut tcp = Client::dial_tcp(&server, &[]).await.unwrap();
        tcp.hello(json!({"token": token})).await.unwrap();
        assert_eq!(contents(&tcp.entries(&chat).await), ["B", "C"]);
        launch = server.kill();
    }
    let mut scene = Scene::again(&launch, chat).await;
    scene.run_all().await;
    assert_eq!(scene.prompts().await, ["ran", "/demo say half; hang", "B", "C"]);
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
