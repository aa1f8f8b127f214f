//! A disk that is really full: nothing that was acknowledged is taken back, and with room again
//! everything goes on, without a restart.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use usher_tests::binaries;
use usher_tests::chat::{Chat, accepted, contents, string};
use usher_tests::client::{Answer, Client};
use usher_tests::disk::SmallDisk;
use usher_tests::server::{FailedStart, Launch, Server};

/// Prompts so long that few fit.
const PROMPT_BYTES: usize = 60_000;

/// A server's launch on a disk of 4 MiB, with a file that can make room.
fn on_a_small_disk() -> (SmallDisk, Launch) {
    let launch = Launch::new();
    let disk = SmallDisk::at(&launch.data_dir(), 4);
    let launch = launch.under(disk.seen());
    std::fs::write(disk.path("ballast"), vec![0; 1_000_000]).unwrap();
    (disk, launch)
}

/// What `usherd check` says where the disk is seen.
fn assert_sound(disk: &SmallDisk, launch: &Launch) {
    let data_dir = launch.data_dir();
    let args = ["check", "--data-dir", data_dir.to_str().unwrap()];
    let output = disk.run(binaries::usherd(), &args);
    assert!(output.status.success(), "{output:?}");
}

/// Admits until the disk is full; returns the entries of what was accepted, and the ID that was
/// not.
async fn admit_until_full(client: &mut Client, chat: &Chat) -> (BTreeMap<String, String>, String) {
    let text = "x".repeat(PROMPT_BYTES);
    let mut entries = BTreeMap::new();
    for number in 0..100 {
        let id = format!("k{number:02}");
        match client.add(chat, &id, &text).await {
            Ok(answer) => entries.insert(id, string(&answer["admission"]["accepted_queue_id"])),
            Err(refusal) => {
                assert_eq!(refusal.code, "queue_admission_unavailable");
                assert!(refusal.details["retry_after_ms"].is_u64());
                return (entries, id);
            }
        };
    }
    panic!("the disk is not small");
}

fn ids(entries: &[Value]) -> Vec<String> {
    entries.iter().map(|entry| string(&entry["id"])).collect()
}

/// Tells whether it was done; the only other answer is that it cannot be stored now.
fn done(action: &str, answer: &Answer) -> bool {
    match answer {
        Ok(_) => true,
        Err(refusal) => {
            assert_eq!(refusal.code, "queue_admission_unavailable", "{action}");
            false
        }
    }
}

#[tokio::test]
async fn c129_a_full_disk_takes_nothing_back_and_accepts_again_when_there_is_room() {
    let (disk, launch) = on_a_small_disk();
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    let (mut entries, refused) = admit_until_full(&mut client, &chat).await;

    // Nothing is taken back, and reads go on.
    assert_eq!(ids(&client.entries(&chat).await), entries.values().cloned().collect::<Vec<_>>());
    assert_eq!(client.session(&chat).await["state"], "idle");
    assert_eq!(client.transcript(&chat).await, Vec::<Value>::new());
    let text = "x".repeat(PROMPT_BYTES);
    let again = client.add(&chat, &refused, &text).await;
    assert_eq!(again.unwrap_err().code, "queue_admission_unavailable");

    disk.free("ballast");
    let (entry, outcome) = accepted(&client.add(&chat, &refused, &text).await);
    assert_eq!(outcome, "admitted", "it left no receipt");
    entries.insert(refused, entry);

    // Everything that was acknowledged is there after a kill, once.
    server.kill();
    assert_sound(&disk, &launch);
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let stored = ids(&client.entries(&chat).await);
    assert_eq!(stored, entries.values().cloned().collect::<Vec<_>>());
    for (id, entry) in &entries {
        let answer = client.add(&chat, id, &text).await;
        assert_eq!(accepted(&answer), (entry.clone(), "replayed".to_owned()));
    }
    assert_eq!(ids(&client.entries(&chat).await), stored);
}

#[tokio::test]
async fn c129_what_a_full_disk_does_not_store_is_refused_and_has_not_happened() {
    let (disk, launch) = on_a_small_disk();
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let other = Chat::create(&mut client).await;
    client.set_auto_run(&other, false).await;
    client.admit(&other, "o1", "run me").await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    for id in ["s1", "s2", "s3", "s4"] {
        client.admit(&chat, id, "a short one").await;
    }
    let big = Chat::create(&mut client).await;
    client.set_auto_run(&big, false).await;
    admit_until_full(&mut client, &big).await;
    disk.fill("rest");

    // Each is done, or refused and has not happened.
    let mut expected = ids(&client.entries(&chat).await);
    let turned: Vec<String> = expected.iter().rev().cloned().collect();
    let reorder = chat.with(json!({"ordered_ids": turned}));
    if done("reorder", &client.request("message.queue.reorder", reorder).await) {
        expected = turned;
    }
    assert_eq!(ids(&client.entries(&chat).await), expected);
    let remove = chat.with(json!({"entry_id": expected[1]}));
    if done("remove", &client.request("message.queue.remove", remove).await) {
        expected.remove(1);
    }
    assert_eq!(ids(&client.entries(&chat).await), expected);
    if done("clear", &client.request("message.queue.cancel", chat.identity()).await) {
        expected.clear();
    }
    assert_eq!(ids(&client.entries(&chat).await), expected);
    let long = client.add(&other, "o2", &"x".repeat(PROMPT_BYTES)).await;
    assert_eq!(long.unwrap_err().code, "queue_admission_unavailable");
    assert_eq!(contents(&client.entries(&other).await), ["run me"]);
    // A turn may begin, or not; nothing of it is lost.
    let on = other.with(json!({"enabled": true}));
    done("auto-run", &client.request("message.queue.auto_run.set", on).await);
    assert!(!server.log().contains("panicked"), "{}", server.log());

    // With room everything is done, and what waited runs.
    disk.free("rest");
    disk.free("ballast");
    client.ok("message.queue.cancel", chat.identity()).await;
    client.subscribe(&other).await;
    client.set_auto_run(&other, true).await;
    client.until_said(&other, "You said: run me").await;
    client.until_settled(&other).await;
    assert_eq!(client.entries(&chat).await, Vec::<Value>::new());
    server.kill();
    assert_sound(&disk, &launch);
}

#[tokio::test]
async fn a_turn_that_ends_on_a_full_disk_is_over_when_there_is_room_and_the_next_runs() {
    let (disk, launch) = on_a_small_disk();
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::watched(&mut client).await;
    client.admit(&chat, "k1", "/demo ask; say so").await;
    let is_asking = |session: &Value, _: &Value| session["state"] == "awaiting_permission";
    client.until(&chat, is_asking).await;
    client.admit(&chat, "k2", "B").await;
    let big = Chat::parked(&mut client).await;
    admit_until_full(&mut client, &big).await;
    disk.fill("rest");
    let question = client.session(&chat).await["permission"]["request_id"].clone();
    let answer = chat.with(json!({"request_id": question, "option_id": "once"}));
    client.ok("permission.respond", answer).await;
    // It tries to write the end, in vain as a rule: room that was taken before may do.
    for _ in 0..200 {
        client.ok("ping", json!({})).await;
    }
    disk.free("rest");
    disk.free("ballast");
    let queue = client.until_settled(&chat).await;
    assert_eq!((&queue["count"], &queue["auto_run"]), (&json!(0), &json!(true)));
    assert_eq!(
        contents(&client.transcript(&chat).await),
        ["/demo ask; say so", "You chose: Allow once\nso", "B", "You said: B"]
    );
    assert!(!server.log().contains("panicked"), "{}", server.log());
    server.kill();
    assert_sound(&disk, &launch);
}

/// A start that fails, and that says why.
fn refused(launch: &Launch, what: &str) -> FailedStart {
    let failed = launch.try_start().err().unwrap_or_else(|| panic!("{what}: it serves"));
    assert!(!failed.status.success(), "{what}");
    assert!(!failed.log.contains("panicked"), "{what}: {}", failed.log);
    failed
}

async fn holds(server: &Server, chat: &Chat, expected: &[&str]) {
    let mut client = Client::connect(server).await;
    assert_eq!(contents(&client.entries(chat).await), expected);
}

#[tokio::test]
async fn c133_a_start_without_room_or_permission_to_write_leaves_everything_as_it_is() {
    let (disk, launch) = on_a_small_disk();
    // At the very first start.
    disk.fill("rest");
    refused(&launch, "no room at first");
    disk.free("rest");
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.set_auto_run(&chat, false).await;
    client.admit(&chat, "k1", "A").await;
    server.kill();
    std::fs::remove_file(disk.path("usher.db-shm")).unwrap();

    let files = |disk: &SmallDisk| {
        ["usher.db", "usher.db-wal"].map(|name| std::fs::read(disk.path(name)).unwrap())
    };
    let before = files(&disk);
    let remount = |how: &str| {
        let place = launch.data_dir();
        let how = format!("remount,{how}");
        let output = disk.run("mount", &["-o", &how, place.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
    };
    remount("ro");
    let failed = refused(&launch, "read-only");
    assert!(failed.log.to_lowercase().contains("read-only"), "{}", failed.log);
    assert!(files(&disk) == before, "it was changed");
    remount("rw");

    disk.fill("rest");
    refused(&launch, "no room for what a server needs");
    disk.free("rest");
    let server = launch.start();
    holds(&server, &chat, &["A"]).await;
    server.kill();
    assert_sound(&disk, &launch);
    assert!(Path::new(&disk.path("ballast")).exists());
}
