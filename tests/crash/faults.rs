//! System calls of the real server that fail, one after the other: a disk that is full, or dies.
//!
//! Failing calls are injected by `strace`.

use usher_tests::chat::{Chat, accepted};
use usher_tests::client::{Answer, Client};
use usher_tests::server::Launch;
use usher_tests::soundness::damage;
use usher_tests::trace::{attach_to_thread, strace_injecting};

use crate::load::{CHATS, Counts, Load, Stored, create_chats};

/// The write-ahead log, which every commit goes to.
const LOG: &str = "usher.db-wal";
/// The database itself, which only a checkpoint writes.
const DATABASE: &str = "usher.db";

/// Runs a load while the injected fault happens, to whatever file, then checks everything on a
/// healthy server.
async fn with_fault(fault: &str) -> Counts {
    with_fault_at(fault, None).await
}

/// The same with a fault of one file of the data directory.
async fn with_fault_at(fault: &str, file: Option<&str>) -> Counts {
    let launch = Launch::new();
    let server = launch.start();
    let chats = create_chats(&server, CHATS).await;
    server.terminate();

    let log = launch.home().path("strace.log");
    let file = file.map(|name| launch.data_dir().join(name));
    let faulty = launch.clone().under(strace_injecting(fault, file.as_deref(), log));
    let mut load = match faulty.try_start() {
        Ok(server) => {
            let load = Load::begin(&server, &chats, "f").await.ended().await;
            server.kill();
            load
        }
        // The fault came before it served: nothing was sent.
        Err(_) => Load::nothing(),
    };
    let counts = load.counts();
    let refusals = load.refusals();
    let expected = ["queue_admission_unavailable".to_owned()];
    assert!(refusals.iter().all(|code| expected.contains(code)), "{fault}: {refusals:?}");
    assert_eq!(damage(&launch.data_dir()), None, "{fault}");
    let server = launch.start();
    load.verify(&server, Stored::Acknowledged, fault).await;
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c129_a_sync_that_fails_acknowledges_nothing_that_is_not_there() {
    let mut total = Counts::default();
    for when in [2, 5, 9, 14] {
        total += with_fault(&format!("fsync,fdatasync:error=EIO:when={when}")).await;
    }
    // Not only was nothing lost: the fault was met.
    assert!(total.acknowledged < total.sent, "{total:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c129_a_full_disk_refuses_what_it_cannot_keep_and_accepts_it_later() {
    let mut total = Counts::default();
    for when in ["12+", "40+", "90..200"] {
        total += with_fault(&format!("pwrite64:error=ENOSPC:when={when}")).await;
    }
    assert!(total.acknowledged < total.sent, "{total:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_the_middle_of_a_sync_or_a_write_keeps_what_was_acknowledged() {
    for call in ["fsync", "pwrite64"] {
        for when in [6, 11, 30] {
            with_fault(&format!("{call}:signal=KILL:when={when}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c129_a_log_that_cannot_be_synced_or_written_acknowledges_nothing_that_is_not_there() {
    for fault in [
        "fsync,fdatasync:error=EIO:when=4",
        "fsync,fdatasync:error=EIO:when=4+",
        "pwrite64:error=EIO:when=9",
        "pwrite64:error=EIO:when=9+",
    ] {
        let counts = with_fault_at(fault, Some(LOG)).await;
        assert!(counts.acknowledged < counts.sent, "{fault} was not met: {counts:?}");
    }
}

/// After some errors SQLite undoes the whole transaction, also when it only read: nobody of the group
/// may be told that it was accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c129_a_page_that_cannot_be_read_takes_its_whole_group_back() {
    let launch = Launch::new();
    let server = launch.start();
    let chats = create_chats(&server, 40).await;
    let mut client = Client::connect(&server).await;
    for chat in &chats {
        client.set_auto_run(chat, false).await;
        // More than one page: what follows has to read others.
        client.admit(chat, "first", &"x".repeat(9_000)).await;
    }
    server.terminate();

    let mut refused = 0;
    for when in (5..25).step_by(2) {
        let server = launch.start();
        let fault = format!("pread64:error=ESTALE:when={when}");
        let mut client = Client::connect(&server).await;
        let strace = attach_to_thread(&server, "usher-writer", &fault);
        let id = format!("k{when}");
        let mut asked = Vec::new();
        for chat in &chats {
            let sent = client.send("message.queue.add", chat.prompt(&id, "more")).await;
            asked.extend(sent.ok().map(|request| (chat, request)));
        }
        let mut acknowledged = Vec::new();
        for (chat, request) in asked {
            match client.answer(&request).await {
                Ok(Ok(_)) => acknowledged.push(chat),
                Ok(Err(_)) | Err(_) => refused += 1,
            }
        }
        server.kill();
        strace.ended();

        let server = launch.start();
        let mut client = Client::connect(&server).await;
        for chat in acknowledged {
            assert_eq!(accepted(&client.add(chat, &id, "more").await).1, "replayed", "{fault}");
        }
        for chat in &chats {
            client.ok("message.queue.cancel", chat.identity()).await;
            client.admit(chat, &format!("{id} first"), &"x".repeat(9_000)).await;
        }
        server.terminate();
    }
    assert!(refused > 0, "the fault was never met");
}

/// A checkpoint that fails leaves everything in the log, where commits go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c129_a_database_that_cannot_be_written_or_synced_holds_up_no_admission() {
    for fault in [
        "pwrite64:error=EIO:when=1+",
        "pwrite64:error=ENOSPC:when=20",
        "fsync,fdatasync:error=EIO:when=1+",
    ] {
        let launch = Launch::new();
        let server = launch.start();
        let chat = create_chats(&server, 1).await.remove(0);
        Client::connect(&server).await.set_auto_run(&chat, false).await;
        server.terminate();

        let (log, database) = (launch.home().path("strace.log"), launch.data_dir().join(DATABASE));
        let faulty =
            launch.clone().under(strace_injecting(fault, Some(&database), log.clone())).start();
        let mut client = Client::connect(&faulty).await;
        // 16 MiB of log are copied into the database.
        for number in 0..100 {
            assert_eq!(accepted(&add(&mut client, &chat, number).await).1, "admitted", "{fault}");
        }
        // At the latest its end copies the log.
        faulty.terminate();
        let met = std::fs::read_to_string(log).unwrap();
        assert!(met.contains("INJECTED"), "{fault}");
        assert_eq!(damage(&launch.data_dir()), None, "{fault}");

        let server = launch.start();
        let mut client = Client::connect(&server).await;
        assert_eq!(client.queue(&chat).await["count"], 100, "{fault}");
        for number in 0..100 {
            assert_eq!(accepted(&add(&mut client, &chat, number).await).1, "replayed", "{fault}");
        }
    }
}

async fn add(client: &mut Client, chat: &Chat, number: usize) -> Answer {
    client.add(chat, &format!("k{number}"), &format!("{number} ").repeat(60_000)).await
}
