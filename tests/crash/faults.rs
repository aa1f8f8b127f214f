//! System calls of the real server that fail, one after the other: a disk that is full, or dies.
//!
//! Failing calls are injected by `strace`.

use usher_tests::server::Launch;
use usher_tests::trace::strace_injecting;

use crate::load::{CHATS, Counts, Load, Stored, create_chats};

/// Runs a load while the injected fault happens, then checks everything on a healthy server.
async fn with_fault(fault: &str) -> Counts {
    let launch = Launch::new();
    let server = launch.start();
    let chats = create_chats(&server, CHATS).await;
    server.terminate();

    let log = launch.home().path("strace.log");
    let faulty = launch.clone().under(strace_injecting(fault, None, log));
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
