//! Sudden ends of the real server under load. Whatever it had acknowledged is there once, in
//! order, for ever; whatever it had not is there once after it was sent again.
//!
//! A failure prints its seed; `USHER_TEST_SEED=<seed>` repeats the run, as far as two programs on
//! one machine can be repeated.

mod faults;
mod load;

use std::time::Duration;

use usher_tests::binaries;
use usher_tests::client::Client;
use usher_tests::random::Random;
use usher_tests::server::{Launch, Server};

use crate::load::{CHATS, Counts, Load, Stored};

/// Ends at random moments.
const ROUNDS: usize = 100;
/// The moment is up to this long after the load began.
const MOMENT_MAX: Duration = Duration::from_millis(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_at_random_moments_keeps_what_it_acknowledged() {
    let (mut random, seed) = Random::from_environment();
    let mut server = Server::start();
    let mut rounds: Vec<Load> = Vec::new();
    let mut total = Counts::default();
    for round in 0..ROUNDS {
        let context = format!("round {round}, seed {seed}");
        let chats = load::create_chats(&server, CHATS).await;
        let load = Load::begin(&server, &chats, &format!("r{round}")).await;
        let moment = random.below(MOMENT_MAX.as_micros() as u64);
        tokio::time::sleep(Duration::from_micros(moment)).await;
        let launch = server.kill();
        let mut load = load.ended().await;
        total += load.counts();
        server = launch.start();
        load.verify(&server, Stored::Prefix, &context).await;
        rounds.push(load);
    }
    // A later crash takes nothing back either.
    for (round, load) in rounds.iter_mut().enumerate() {
        load.verify(&server, Stored::All, &format!("round {round} at the end, seed {seed}")).await;
    }
    assert!(total.acknowledged > ROUNDS, "the load was too light: {total:?}");
    assert!(total.acknowledged < total.sent, "no prompt was cut off: {total:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_at_any_step_of_an_admission_or_a_turn_keeps_what_it_acknowledged() {
    let launch = Launch::new();
    let stopping = launch.clone().binary(binaries::usherd_with_stop_points());
    for (point, passings) in [
        ("before_commit", [8, 9, 20, 45]),
        ("after_commit", [8, 9, 20, 45]),
        ("after_reservation", [1, 2, 5, 17]),
        ("after_hand_over", [1, 2, 5, 17]),
        ("after_acceptance", [1, 2, 5, 17]),
    ] {
        for passing in passings {
            let context = format!("{point}:{passing}");
            let server = launch.start();
            let chats = load::create_chats(&server, CHATS).await;
            server.terminate();

            let server = stopping.clone().env("USHER_STOP_AT", context.as_str()).start();
            let load = Load::begin(&server, &chats, &context.replace(':', "-")).await;
            let mut load = load.ended().await;
            assert!(load.was_cut_off(), "{context} was never passed");
            let (status, _) = server.ended();
            assert!(!status.success(), "{context}: {status}");

            let server = launch.start();
            load.verify(&server, Stored::Prefix, &context).await;
            server.terminate();
        }
    }
}

/// Where exactly a turn is when the server stops decides what becomes of its prompt.
#[tokio::test]
async fn the_prompt_of_a_turn_that_was_cut_off_is_where_the_rules_say() {
    for (point, waiting, prompts, status, parked) in [
        ("after_reservation", vec!["A", "B"], vec![], "", None),
        ("after_hand_over", vec!["B"], vec!["A"], "uncertain", Some("uncertain_turn")),
        ("after_acceptance", vec!["B"], vec!["A"], "interrupted", Some("interrupted")),
    ] {
        let launch = Launch::new();
        let server = launch.start();
        let mut client = Client::connect(&server).await;
        let chat = usher_tests::chat::Chat::create(&mut client).await;
        client.set_auto_run(&chat, false).await;
        client.admit(&chat, "k1", "A").await;
        client.admit(&chat, "k2", "B").await;
        server.terminate();

        let server = launch
            .clone()
            .binary(binaries::usherd_with_stop_points())
            .env("USHER_STOP_AT", format!("{point}:1"))
            .start();
        let mut client = Client::connect(&server).await;
        let on = chat.with(serde_json::json!({"enabled": true}));
        // It stops before or after the answer.
        let _ = client.try_request("message.queue.auto_run.set", on).await;
        assert!(!server.ended().0.success(), "{point}");

        // Not handed over: it is back at its place and runs by itself. Nothing else does.
        let server = launch.start();
        let mut client = Client::connect(&server).await;
        client.subscribe(&chat).await;
        let queue = client.until_settled(&chat).await;
        let transcript = client.transcript(&chat).await;
        let users = usher_tests::chat::by_role(&transcript, "user");
        match parked {
            Some(reason) => {
                assert_eq!(queue["auto_run_reason"], reason, "{point}");
                let entries = client.entries(&chat).await;
                assert_eq!(usher_tests::chat::contents(&entries), waiting, "{point}");
                assert_eq!(usher_tests::chat::contents(&users), prompts, "{point}");
                assert_eq!(users[0]["status"], status, "{point}");
            }
            None => {
                assert_eq!(queue["auto_run"], true, "{point}");
                assert_eq!(usher_tests::chat::contents(&users), waiting, "{point}");
                assert!(users.iter().all(|user| user["status"] == "complete"), "{point}");
            }
        }
    }
}
