//! Sudden ends and failing system calls while prompts bring attachments: a prompt carries all that
//! it came with or is not there, and no upload that was finished is lost.

mod load;

use std::time::Duration;

use serde_json::json;
use usher_tests::binaries;
use usher_tests::client::{Client, timed};
use usher_tests::random::Random;
use usher_tests::scene::let_passes_run;
use usher_tests::server::{Launch, Server};
use usher_tests::soundness::damage;
use usher_tests::trace::strace_injecting;
use usher_tests::uploads::named;

use self::load::{Load, places};

/// Ends at random moments.
const ROUNDS: usize = 12;
/// The moment is up to this long after the load began.
const MOMENT_MAX: Duration = Duration::from_millis(600);

/// What is left over is looked for all the time.
fn tidy() -> Launch {
    Launch::new().config("dispatch_pass = \"20ms\"")
}

/// Starts a healthy server over what an unhealthy one left, and checks everything.
async fn verify(load: &Load, launch: &Launch, context: &str) {
    assert_eq!(damage(&launch.data_dir()), None, "{context}");
    let server = launch.start();
    load.verify(&server, context).await;
    only_receiving(&server, context).await;
    server.terminate();
}

/// Checks that every file that is on its way belongs to an upload that is.
async fn only_receiving(server: &Server, context: &str) {
    let incoming = server.launch().data_dir().join("attachments/incoming");
    let mut client = Client::connect(server).await;
    let looked = timed(async {
        loop {
            let_passes_run(server).await;
            let mut strange = Vec::new();
            for file in std::fs::read_dir(&incoming).expect("the folder is there") {
                let name = file.expect("a folder can be listed").file_name();
                let id = name.to_str().expect("an id").to_owned();
                let nothing = json!({"attachment_id": id, "offset": 0, "data": ""});
                let receives = client.request("attachment.append", nothing).await.is_ok();
                if !receives || client.bytes_of(&id).await.is_ok() {
                    strange.push(id);
                }
            }
            if strange.is_empty() {
                break;
            }
        }
    });
    looked.await;
    // One of them can be given up like any other.
    let begun = load::begin_only(&mut client, &places(server, 1).await[0]).await;
    let aborted = client.request("attachment.abort", named(&begun)).await;
    assert_eq!(aborted, Ok(named(&begun)), "{context}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_at_random_moments_keeps_every_attachment() {
    let (mut random, seed) = Random::from_environment();
    let launch = tidy();
    let mut cut_off = 0;
    for round in 0..ROUNDS {
        let server = launch.start();
        let load = Load::begin(&server, &places(&server, 4).await, &format!("r{round}")).await;
        let moment = random.below(MOMENT_MAX.as_micros() as u64);
        tokio::time::sleep(Duration::from_micros(moment)).await;
        server.kill();
        let load = load.ended().await;
        cut_off += usize::from(load.was_cut_off());
        verify(&load, &launch, &format!("round {round}, seed {seed}")).await;
    }
    assert!(cut_off > 0, "no load was cut off");
}

/// Runs a load on a server that stops at these passings of a point.
async fn stopping_at(point: &str, passings: impl IntoIterator<Item = u32>) {
    let launch = tidy();
    for passing in passings {
        let context = format!("{point}:{passing}");
        let server = launch.start();
        let places = places(&server, 2).await;
        server.terminate();
        let stopping = launch.clone().binary(binaries::usherd_with_stop_points());
        let server = stopping.env("USHER_STOP_AT", context.as_str()).start();
        let load = Load::begin(&server, &places, &context.replace(':', "-")).await;
        let load = load.ended().await;
        assert!(load.was_cut_off(), "{context} was never passed");
        assert!(!server.ended().0.success(), "{context}");
        verify(&load, &launch, &context).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c012_a_server_that_stops_between_two_writes_of_one_decision_has_made_none_of_them() {
    // An admission with two attachments has five gaps: each is hit by some.
    stopping_at("between_writes", (1..=40).step_by(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_around_a_commit_keeps_every_attachment() {
    stopping_at("before_commit", [6, 13, 21]).await;
    stopping_at("after_commit", [5, 12, 20]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_in_a_turn_keeps_the_attachments_of_its_prompt() {
    for point in ["after_reservation", "after_hand_over", "after_acceptance"] {
        stopping_at(point, [1, 3]).await;
    }
}

/// Runs a load while calls fail; returns whether anything was refused or cut off.
async fn with_fault(fault: &str) -> bool {
    let launch = tidy();
    let server = launch.start();
    let places = places(&server, 2).await;
    server.terminate();
    let log = launch.home().path("strace.log");
    let faulty = launch.clone().under(strace_injecting(fault, None, log.clone()));
    let server = faulty.start();
    let load = Load::begin(&server, &places, "f").await.ended().await;
    server.kill();
    // It shows what was written: no server's log, so it may.
    std::fs::remove_file(log).expect("the trace is there");
    let refusals = load.refusals();
    assert!(refusals.iter().all(|code| code == "queue_admission_unavailable"), "{refusals:?}");
    verify(&load, &launch, fault).await;
    load.was_cut_off() || !refusals.is_empty()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c129_a_disk_that_fails_loses_no_attachment_that_was_acknowledged() {
    for fault in [
        "fsync,fdatasync:error=EIO:when=9",
        "fsync,fdatasync:error=EIO:when=14",
        "fsync,fdatasync:error=EIO:when=20+3",
        "pwrite64:error=ENOSPC:when=30+",
        "pwrite64:error=ENOSPC:when=40..90",
        "pwrite64:error=EIO:when=35+9",
        "linkat:error=EIO:when=2+3",
        "unlink:error=EIO:when=1+",
    ] {
        assert!(with_fault(fault).await, "{fault} was not met");
    }
}
