//! A database of the first version, opened by this one: one that was written by hand, and one that
//! a server of today filled and that was taken back to the first schema.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;
use serde_json::json;
use usher_tests::chat::{Chat, accepted, contents};
use usher_tests::client::Client;
use usher_tests::scene::Scene;
use usher_tests::server::{Launch, Server};
use usher_tests::trace::strace_injecting;
use uuid::Uuid;

const FIRST_SCHEMA: &str = include_str!("../../server/src/store/migrations/0001_main.sql");

/// One task and session, with a turn that is over, one that a killed server left reserved (A), and
/// a prompt behind it (B); auto-run was switched off by hand.
const ROWS: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO meta VALUES ('schema', '1'), ('store_id', '01930000-0000-7000-8000-00000000000f');
INSERT INTO users VALUES (1, $id(1), 'tester');
INSERT INTO tasks VALUES (1, $id(2), 1, 'old', 'task', NULL, 'demo', 0, NULL, 1);
INSERT INTO session_incarnations VALUES (1, $id(4), 1);
INSERT INTO sessions VALUES (1, $id(3), 1, 1, 'demo', NULL, NULL, 'old', NULL, 1, 2, 5, 2, 4, 'user');
INSERT INTO queue_entries VALUES
 (1, $id(11), 1, 2, 'A', NULL, 0, '{\"ids\":[\"k2\"]}', 1, 'user', 'u', 'tester', 1, $id(22), NULL, NULL),
 (2, $id(12), 1, 3, 'B', NULL, 0, '{\"ids\":[\"k3\"]}', 1, 'user', 'u', 'tester', 1, NULL, NULL, NULL);
INSERT INTO queue_admission_receipts VALUES
 (1, 1, 'k1', zeroblob(32), $id(10), 'admitted', 1, 1, 'done', 0, NULL, 0, NULL, 1, 'user', 'u', 'tester', 1),
 (2, 1, 'k2', zeroblob(32), $id(11), 'admitted', 2, 2, 'A', 0, NULL, 0, NULL, 1, 'user', 'u', 'tester', 1),
 (3, 1, 'k3', zeroblob(32), $id(12), 'admitted', 3, 3, 'B', 0, NULL, 0, NULL, 1, 'user', 'u', 'tester', 1);
INSERT INTO turns VALUES
 (1, $id(21), 1, 'running', 0, NULL, $id(31), 1, 2, 'completed', NULL),
 (2, $id(22), 1, 'reserved', 0, $id(11), NULL, 1, NULL, NULL, NULL);
INSERT INTO messages VALUES
 (1, $id(31), 1, 1, 1, $id(21), 'user', 'done', 4, 'complete', '{\"ids\":[\"k1\"]}', 1),
 (2, $id(32), 1, 1, 2, $id(21), 'agent', 'You said: done', 14, 'complete', NULL, 1);
";

fn first_schema() -> String {
    FIRST_SCHEMA.replace("@KEY", "INTEGER PRIMARY KEY").replace("@BYTES", "BLOB")
}

fn uuid(number: u128) -> Uuid {
    Uuid::from_u128(0x0193_0000_0000_7000_8000_0000_0000_0000 + number)
}

/// A launch whose data directory was left by the first version.
fn of_the_first_version() -> (Launch, Chat) {
    let launch = Launch::new();
    std::fs::create_dir_all(launch.data_dir()).unwrap();
    let conn = Connection::open(launch.data_dir().join("usher.db")).unwrap();
    conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    let schema = first_schema();
    let mut rows = ROWS.to_owned();
    for number in 1..40 {
        let id = format!("x'{}'", uuid(number).simple());
        rows = rows.replace(&format!("$id({number})"), &id);
    }
    conn.execute_batch(&format!("BEGIN;{schema}{rows}COMMIT;")).unwrap();
    let chat = Chat {
        task_id: uuid(2).to_string(),
        session_id: uuid(3).to_string(),
        incarnation_id: uuid(4).to_string(),
    };
    (launch, chat)
}

/// Nothing was lost, nothing flipped, and what is new has its defaults.
async fn assert_as_it_was(server: &Server, chat: &Chat) {
    let mut client = Client::connect(server).await;
    let queue = client.queue(chat).await;
    assert_eq!((&queue["auto_run"], &queue["auto_run_reason"]), (&json!(false), &json!("user")));
    assert_eq!(contents(&client.entries(chat).await), ["A", "B"]);
    assert_eq!(contents(&client.transcript(chat).await), ["done", "You said: done"]);
    assert_eq!(client.session(chat).await["state"], "idle");
    for id in ["k1", "k2", "k3"] {
        let answer = client.add(chat, id, "something else").await;
        assert_eq!(answer.unwrap_err().code, "queue_id_conflict", "{id} has its receipt");
    }
    let fresh = Server::start();
    let mut other = Client::connect(&fresh).await;
    let defaults = other.ok("settings.get", json!({})).await;
    assert_eq!(client.ok("settings.get", json!({})).await, defaults);
}

#[tokio::test]
async fn c132_a_database_of_the_first_version_is_opened_with_everything_in_it_again_and_again() {
    let (mut launch, chat) = of_the_first_version();
    for _ in 0..2 {
        let server = launch.start();
        assert_as_it_was(&server, &chat).await;
        launch = server.kill();
    }
}

#[tokio::test]
async fn c132_a_kill_in_the_middle_of_the_migration_leaves_the_old_database_or_the_new_one() {
    for kill in [
        "pwrite64:signal=KILL:when=1",
        "pwrite64:signal=KILL:when=2",
        "pwrite64:signal=KILL:when=7",
        "fsync,fdatasync:signal=KILL:when=1",
        "fsync,fdatasync:signal=KILL:when=2",
    ] {
        let (launch, chat) = of_the_first_version();
        let log = launch.data_dir().join("usher.db-wal");
        let calls = launch.home().path("calls");
        let killed = launch.clone().under(strace_injecting(kill, Some(&log), calls));
        assert!(killed.try_start().is_err(), "{kill} came too late");
        let schema = schema(&launch.data_dir().join("usher.db"));
        assert!(["1", "5"].contains(&schema.as_str()), "{kill}: {schema}");
        let server = launch.start();
        assert_as_it_was(&server, &chat).await;
    }
}

fn schema(database: &Path) -> String {
    let conn = Connection::open(database).unwrap();
    let statement = "SELECT value FROM meta WHERE name = 'schema'";
    conn.query_row(statement, [], |row| row.get(0)).unwrap()
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
    DROP TABLE user_tokens; DROP TABLE nodes; DROP TABLE edit_operations; DROP TABLE edit_leases;
    ALTER TABLE queue_entries DROP COLUMN enclosed;
    ALTER TABLE queue_admission_receipts DROP COLUMN enclosed;
    DROP TABLE attachment_parts; DROP TABLE attachments;
    DROP TABLE plans; DROP TABLE plan_comments;
    UPDATE meta SET value = '1' WHERE name = 'schema';";

/// Returns every column of every table, and every index.
fn columns(database: &Connection) -> BTreeSet<String> {
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

    launch.change(BACK_TO_THE_FIRST);
    let as_released = Connection::open_in_memory().unwrap();
    as_released.execute_batch(&first_schema()).unwrap();
    assert_eq!(
        columns(&Connection::open(launch.data_dir().join("usher.db")).unwrap()),
        columns(&as_released),
        "the steps back are complete"
    );

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
