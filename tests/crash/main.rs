//! Sudden ends of the real server under load. Whatever it had acknowledged is there once, in
//! order, for ever; whatever it had not is there once after it was sent again.
//!
//! A failure prints its seed; `USHER_TEST_SEED=<seed>` repeats the run, as far as two programs on
//! one machine can be repeated.

mod attached;
mod broken;
mod faults;
mod load;

use std::time::Duration;

use serde_json::json;
use usher_tests::binaries;
use usher_tests::chat::{Chat, by_role, contents, string};
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

/// A server on which the turn of A stopped at a point while B waited, started again.
struct Stopped {
    client: Client,
    chat: Chat,
    /// Runs until it is dropped.
    _server: Server,
}

impl Stopped {
    async fn at(point: &str) -> Self {
        let launch = Launch::new();
        let server = launch.start();
        let mut client = Client::connect(&server).await;
        let chat = Chat::create(&mut client).await;
        client.set_auto_run(&chat, false).await;
        client.admit(&chat, "k1", "A").await;
        client.admit(&chat, "k2", "B").await;
        server.terminate();

        let stopping = launch.clone().binary(binaries::usherd_with_stop_points());
        let server = stopping.env("USHER_STOP_AT", format!("{point}:1")).start();
        let mut client = Client::connect(&server).await;
        // It stops before or after the answer.
        let on = chat.with(json!({"enabled": true}));
        let _ = client.try_request("message.queue.auto_run.set", on).await;
        assert!(!server.ended().0.success(), "{point}");

        let server = launch.start();
        let mut client = Client::connect(&server).await;
        client.subscribe(&chat).await;
        Self { client, chat, _server: server }
    }

    async fn prompts(&mut self) -> Vec<(String, String)> {
        let transcript = self.client.transcript(&self.chat).await;
        by_role(&transcript, "user")
            .iter()
            .map(|prompt| (string(&prompt["content"]), string(&prompt["status"])))
            .collect()
    }
}

fn prompt(content: &str, status: &str) -> (String, String) {
    (content.to_owned(), status.to_owned())
}

#[tokio::test]
async fn a_prompt_that_was_not_handed_over_is_back_at_its_place_and_runs_by_itself() {
    let mut stopped = Stopped::at("after_reservation").await;
    let queue = stopped.client.until_settled(&stopped.chat).await;
    assert_eq!((&queue["count"], &queue["auto_run"]), (&json!(0), &json!(true)));
    assert_eq!(stopped.prompts().await, [prompt("A", "complete"), prompt("B", "complete")]);
}

#[tokio::test]
async fn a_prompt_that_an_agent_may_have_is_shown_as_such_and_runs_again_only_when_asked() {
    for (point, status, reason) in [
        ("after_hand_over", "uncertain", "uncertain_turn"),
        ("after_acceptance", "interrupted", "interrupted"),
    ] {
        let mut stopped = Stopped::at(point).await;
        let queue = stopped.client.until_settled(&stopped.chat).await;
        assert_eq!(queue["auto_run_reason"], reason, "{point}");
        assert_eq!(contents(&stopped.client.entries(&stopped.chat).await), ["B"], "{point}");
        assert_eq!(stopped.prompts().await, [prompt("A", status)], "{point}");

        // The same message runs again, not a second one, and auto-run is left alone.
        let transcript = stopped.client.transcript(&stopped.chat).await;
        let again = json!({"turn_id": transcript[0]["turn_id"], "resolution": "resend"});
        stopped.client.ok("turn.resolve", stopped.chat.with(again)).await;
        stopped.client.until_said(&stopped.chat, "You said: A").await;
        let queue = stopped.client.until_settled(&stopped.chat).await;
        assert_eq!(queue["auto_run_reason"], reason, "{point}");
        assert_eq!(stopped.prompts().await, [prompt("A", "complete")], "{point}");
    }
}
