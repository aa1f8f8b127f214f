//! The database goes away, hangs up, or keeps its answer to itself.

use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::json;
use usher_tests::binaries::usherd;
use usher_tests::chat::{Chat, accepted, contents};
use usher_tests::client::{Client, Refusal};
use usher_tests::home::Home;
use usher_tests::postgres::{Database, PASSWORD};
use usher_tests::server::{Launch, Server};

/// Ends every connection but the one that asks.
const HANG_UP: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE datname = current_database() AND pid <> pg_backend_pid()";

fn over(database: &Arc<Database>) -> Launch {
    Launch::with_home(Home::over(Some(Arc::clone(database))))
}

async fn parked_chat(client: &mut Client) -> Chat {
    let chat = Chat::create(client).await;
    client.set_auto_run(&chat, false).await;
    chat
}

/// Asks until the answer is this.
fn until(database: &Database, question: &str, answer: &str) {
    let deadline = std::time::Instant::now() + usher_tests::PATIENCE;
    while database.run(question) != [answer] {
        assert!(std::time::Instant::now() < deadline, "never: {question}");
    }
}

#[tokio::test]
async fn everything_is_in_the_shared_database_and_nothing_beside_the_lock() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = parked_chat(&mut client).await;
    client.admit(&chat, "k1", "kept by PostgreSQL").await;
    let database = server.launch().home().database().unwrap();
    assert_eq!(database.run("SELECT content FROM queue_entries"), ["kept by PostgreSQL"]);
    let mut files: Vec<_> = std::fs::read_dir(server.launch().data_dir())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["token", "usherd.lock", "usherd.pid"]);
    assert!(server.launch().try_start().is_err(), "one server per data directory");
}

#[test]
fn a_database_that_cannot_be_used_at_the_start_is_named_without_its_password() {
    let real = Database::new().url();
    let (server, name) = real.rsplit_once('/').unwrap();
    let no_such = real.replace(name, "no_such_database");
    let nobody = real.replace("usher:", "nobody:");
    let away = format!("{}/x", server.replace("usher-pg-", "usher-gone-"));
    let cases = [
        (no_such.as_str(), "no database of that name"),
        (&nobody, "refuses this user"),
        (&away, "the database is away"),
        (&format!("mysql://usher:{PASSWORD}@host/x"), "not of the form postgres://"),
        (&format!("postgres://usher:{PASSWORD}@127.0.0.1:x/y"), "not of the form postgres://"),
    ];
    for (url, why) in cases {
        let dir = tempfile::tempdir().unwrap();
        let started = Command::new(usherd())
            .arg("--data-dir")
            .arg(dir.path())
            .args(["--listen", "127.0.0.1:0", "--database", url])
            .env("RUST_LOG", "trace")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&started.stderr);
        assert!(!started.status.success());
        assert!(started.stdout.is_empty());
        assert!(said.contains(why), "{said}");
        assert!(!said.contains(PASSWORD), "{said}");
    }
}

#[tokio::test]
async fn a_connection_that_was_ended_between_two_requests_is_not_noticed() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = parked_chat(&mut client).await;
    for round in 0..10 {
        server.launch().home().database().unwrap().run(HANG_UP);
        let id = format!("k{round}");
        client.admit(&chat, &id, &id).await;
        server.launch().home().database().unwrap().run(HANG_UP);
        assert_eq!(client.queue(&chat).await["count"], round + 1);
    }
}

#[tokio::test]
async fn a_prompt_is_refused_while_the_database_is_away_and_taken_when_it_is_back() {
    let database = Arc::new(Database::with_own_server());
    let server = over(&database).start();
    let mut client = Client::connect(&server).await;
    let chat = parked_chat(&mut client).await;
    client.admit(&chat, "k1", "before").await;
    database.server().go_away();
    let refused = client.add(&chat, "k2", "meanwhile").await;
    let expected = Refusal::new("queue_admission_unavailable", json!({"retry_after_ms": 1_000}));
    assert_eq!(refused, Err(expected));
    let launch = server.kill();
    let failed = launch.try_start().map(drop).unwrap_err();
    assert!(failed.log.contains("the database is away"), "{}", failed.log);
    database.server().come_back();
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    client.admit(&chat, "k2", "meanwhile").await;
    database.server().go_away();
    database.server().come_back();
    assert_eq!(accepted(&client.add(&chat, "k2", "meanwhile").await).1, "replayed");
    assert_eq!(contents(&client.entries(&chat).await), ["before", "meanwhile"]);
}

/// Makes every commit of an admission wait until an advisory lock is free, which is held by what
/// is returned until it is killed.
fn hold_commits(database: &Database) -> std::process::Child {
    database.run(
        "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON queue_admission_receipts \
         DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold()",
    );
    let holder = database
        .session()
        .args(["-c", "SELECT pg_advisory_lock(4711)", "-c", "SELECT pg_sleep(600)"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The server has other databases, whose tests lock, too.
    until(
        database,
        "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
         WHERE d.datname = current_database() AND l.objid = 4711 AND l.granted",
        "1",
    );
    holder
}

/// Lets the commits go that [`hold_commits`] holds.
fn let_go(database: &Database, mut holder: std::process::Child) {
    holder.kill().unwrap();
    holder.wait().unwrap();
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)' \
         AND datname = current_database() AND pid <> pg_backend_pid()",
    );
}

#[tokio::test]
async fn c006_another_text_while_the_first_is_being_committed_is_a_conflict() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let mut other = Client::connect(&server).await;
    let second = server.launch().beside().start();
    let mut elsewhere = Client::connect(&second).await;
    let chat = parked_chat(&mut client).await;
    let database = server.launch().home().database().unwrap();
    let holder = hold_commits(database);
    let a = client.send("message.queue.add", chat.prompt("k1", "A")).await.unwrap();
    until(
        database,
        "SELECT count(*) FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event = 'advisory'",
        "1",
    );
    let mut others = Vec::new();
    for link in [&mut other, &mut elsewhere] {
        others.push(link.send("message.queue.add", chat.prompt("k1", "B")).await.unwrap());
        for _ in 0..200 {
            link.ok("ping", json!({})).await;
        }
    }
    let_go(database, holder);
    assert_eq!(accepted(&client.answer(&a).await.unwrap()).1, "admitted");
    let conflict = Err(Refusal::new("queue_id_conflict", json!({})));
    for (link, b) in [&mut other, &mut elsewhere].into_iter().zip(others) {
        assert_eq!(link.answer(&b).await.unwrap(), conflict);
        assert_eq!(link.add(&chat, "k1", "B").await, conflict);
    }
    assert_eq!(contents(&client.entries(&chat).await), ["A"]);
}

#[tokio::test]
async fn a_commit_that_the_database_broke_off_is_found_undone_and_run_again_once() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let chat = parked_chat(&mut client).await;
    let database = server.launch().home().database().unwrap();
    let holder = hold_commits(database);
    let request = client.send("message.queue.add", chat.prompt("k1", "once")).await.unwrap();
    until(
        database,
        "SELECT count(*) FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event = 'advisory'",
        "1",
    );
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE query = 'COMMIT' AND wait_event = 'advisory'",
    );
    let_go(database, holder);
    let answer = client.answer(&request).await.unwrap();
    assert_eq!(accepted(&answer).1, "admitted");
    assert_eq!(client.queue(&chat).await["count"], 1);
    assert_eq!(accepted(&client.add(&chat, "k1", "once").await).1, "replayed");
    assert!(server.log().contains("the commit without an answer is not there"));
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_found_and_answered() {
    let database = Arc::new(Database::with_own_server());
    let server = over(&database).start();
    let mut client = Client::connect(&server).await;
    let chat = parked_chat(&mut client).await;
    client.subscribe(&chat).await;
    // A commit waits for a replica that never comes, after it is durable here.
    database.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    database.run("SELECT pg_reload_conf()");
    until(&database, "SHOW synchronous_standby_names", "nobody");
    let request = client.send("message.queue.add", chat.prompt("k1", "once")).await.unwrap();
    let waits = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT' \
        AND EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = pg_stat_activity.pid \
        AND l.relation = 'queue_admission_receipts'::regclass)";
    until(&database, &format!("SELECT count(*) {waits}"), "1");
    database.run(&format!("SELECT pg_terminate_backend(pid) {waits}"));
    let answer = client.answer(&request).await.unwrap();
    assert_eq!(accepted(&answer).1, "admitted");
    let told = client.notified("message.queue.status_changed", |status| status["count"] == 1).await;
    assert_eq!(told["entries"][0]["id"], answer.unwrap()["id"]);
    database.run("ALTER SYSTEM RESET synchronous_standby_names");
    database.run("SELECT pg_reload_conf()");
    assert_eq!(accepted(&client.add(&chat, "k1", "once").await).1, "replayed");
    assert_eq!(contents(&client.entries(&chat).await), ["once"]);
    assert!(server.log().contains("the commit without an answer is there"));
}
