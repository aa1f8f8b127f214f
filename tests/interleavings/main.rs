//! Every order of five things that can happen to a session, while it is held at every point where
//! a prompt changes hands: send now, the end of the running turn, a cancel, an admission, a drain.
//!
//! Each run has a session of its own: A runs and asks, B and C wait. The first time that the
//! session passes the point it is held there; what comes later in the order happens meanwhile.
//! Then it goes on, and all is driven to rest. Whatever the order: no prompt is lost or doubled,
//! what was not sent now runs in the order of its admission, a turn ends before the next begins,
//! and every request is answered as the protocol says. The database is checked at the end, too.
//!
//! `cargo test -p usher-tests --test interleavings -- --nocapture` lists every run.

mod run;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use usher_tests::binaries;
use usher_tests::chat::Chat;
use usher_tests::client::{Client, Refusal};
use usher_tests::home::Home;
use usher_tests::pauses::Pauses;
use usher_tests::postgres::Database;
use usher_tests::server::{Launch, Server};

use crate::run::{Happening, Links, Report};

/// Where a session can be held.
const POINTS: [&str; 7] =
    ["claim", "reservation", "hand_over", "acceptance", "turn_end", "cancel", "stop"];
/// Orders of five happenings.
const ORDERS: usize = 120;
/// Runs at once.
const WORKERS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_order_at_every_point_runs_every_prompt_once() {
    let reports = run_all(Launch::new(), cases(1)).await;
    assert_eq!(reports.len(), POINTS.len() * ORDERS);
    list(&reports);
    // A run that was never held would show nothing.
    for report in &reports {
        assert!(report.held.is_some(), "never held: {report:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_of_the_orders_at_every_point_runs_every_prompt_once_on_postgresql() {
    let home = Home::over(Some(Arc::new(Database::new())));
    let reports = run_all(Launch::with_home(home), cases(8)).await;
    assert_eq!(reports.len(), POINTS.len() * ORDERS / 8);
    list(&reports);
}

#[tokio::test]
async fn an_answer_that_an_archive_overtakes_finds_its_session_gone() {
    let (launch, pauses) = with_pauses(Launch::new());
    let server = launch.start();
    let mut client = Client::connect(&server).await;
    let mut other = Client::connect(&server).await;
    let chat = Chat::create(&mut client).await;
    client.subscribe(&chat).await;
    client.admit(&chat, "k1", "/demo ask").await;
    client.until(&chat, |session, _| session["state"] == "awaiting_permission").await;
    let question = client.session(&chat).await["permission"]["request_id"].clone();
    let held = pauses.arm("answer", &chat.session_id);
    let answer = chat.with(json!({"request_id": question, "option_id": "once"}));
    let asked = other.send("permission.respond", answer).await.expect("the link is open");
    let hold = held.await.expect("the answer passes the point");
    client.ok("task.archive", json!({"task_id": chat.task_id})).await;
    drop(hold);
    let answered = other.answer(&asked).await.expect("the link is open");
    assert_eq!(answered, Err(Refusal::new("queue_session_unavailable", json!({}))));
}

/// Every `share`-th order at every point, another one at each.
fn cases(share: usize) -> Vec<(&'static str, Vec<Happening>)> {
    let orders = orders(&Happening::ALL);
    assert_eq!(orders.len(), ORDERS);
    let at_point = |(number, point): (usize, &&'static str)| {
        let chosen = orders.iter().skip(number % share).step_by(share);
        chosen.map(|order| (*point, order.clone())).collect::<Vec<_>>()
    };
    POINTS.iter().enumerate().flat_map(at_point).collect()
}

/// Every order of a list.
fn orders(list: &[Happening]) -> Vec<Vec<Happening>> {
    if list.is_empty() {
        return vec![Vec::new()];
    }
    let first_of = |first: &Happening| {
        let others: Vec<_> = list.iter().copied().filter(|other| other != first).collect();
        orders(&others).into_iter().map(|order| [vec![*first], order].concat()).collect::<Vec<_>>()
    };
    list.iter().flat_map(first_of).collect()
}

/// A server that can be held.
fn with_pauses(launch: Launch) -> (Launch, Pauses) {
    let pauses = Pauses::listen(&launch.home().path("run"));
    let (name, value) = pauses.variable();
    let launch = launch.binary(binaries::usherd_with_stop_points()).env(name, value);
    (launch, pauses)
}

async fn run_all(launch: Launch, cases: Vec<(&'static str, Vec<Happening>)>) -> Vec<Report> {
    let (launch, pauses) = with_pauses(launch);
    let server = launch.env("RUST_LOG", "info").start();
    let (next, reports) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = async || work(&server, &pauses, &cases, &next, &reports).await;
    futures_util::future::join_all((0..WORKERS).map(|_| worker())).await;
    let mut reports = reports.into_inner().expect("nobody panics while holding it");
    reports.sort_by_key(|(number, _)| *number);
    reports.into_iter().map(|(_, report)| report).collect()
}

async fn work(
    server: &Server,
    pauses: &Pauses,
    cases: &[(&'static str, Vec<Happening>)],
    next: &AtomicUsize,
    reports: &Mutex<Vec<(usize, Report)>>,
) {
    let mut links = Links::connect(server).await;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some((point, order)) = cases.get(number) else {
            return;
        };
        let report = links.run(pauses, point, order).await;
        reports.lock().expect("nobody panics while holding it").push((number, report));
    }
}

#[expect(clippy::print_stdout, reason = "the list of runs is what this test shows")]
fn list(reports: &[Report]) {
    for report in reports {
        println!("{report}");
    }
}
