//! The rows, and the two tests that play them all at once: most of their time is waiting.

use std::time::Duration;

use serde_json::json;
use usher_tests::binaries;
use usher_tests::faulty::{Do, Matching, Rule};
use usher_tests::home::wants_postgres;
use usher_tests::stage::Stage;

use super::checks::{ADD, replace_server};
use super::row::Check::{NotOffered, Offered};
use super::row::Outcome::{Accepted, Rejected, Uncertain};
use super::row::{Expected, Observed, PROMPT, Row, Sender};
use super::{chat, send};

const GET: &str = "message.queue.get";
const PAGE: &str = "transcript.page";

const BOTH: &[Sender] = &[Sender::Command, Sender::Chat];
const ALL: &[Sender] = &[Sender::Command, Sender::CommandWithId, Sender::Chat];

fn request() -> Matching {
    Matching::request(ADD)
}

fn answer() -> Matching {
    Matching::answer(ADD)
}

/// The link is gone, and back so many seconds later.
fn outage(seconds: u64) -> [Do; 4] {
    [Do::Refuse, Do::Cut, Do::After(Duration::from_secs(seconds)), Do::Accept]
}

/// Nothing passes for so many seconds, and nobody is told.
fn black_hole(seconds: u64) -> [Do; 3] {
    [Do::BlackHole, Do::After(Duration::from_secs(seconds)), Do::Accept]
}

/// No look at the server shows anything.
fn blind() -> Vec<Rule> {
    vec![
        Rule::every(Matching::answers(&[GET, PAGE])).swallow(),
        Rule::every(Matching::notifications()).swallow(),
    ]
}

/// A row with nothing special about it.
fn row(
    name: &'static str,
    senders: &'static [Sender],
    fault: fn() -> Vec<Rule>,
    expected: Expected,
) -> Row {
    Row {
        name,
        senders,
        launch: |launch| launch,
        always: Vec::new,
        fault,
        meanwhile: |_| {},
        expected,
    }
}

const fn accepted(sent: usize, served: usize) -> Expected {
    Expected { outcome: Accepted, sent, served, entries: 1, shows: PROMPT }
}

const fn uncertain(sent: usize, served: usize, entries: usize) -> Expected {
    let shows = "Delivery uncertain: the server may have it.";
    Expected { outcome: Uncertain(Offered), sent, served, entries, shows }
}

/// The reply, or the prompt itself, is lost with the link.
fn rows_of_cuts() -> Vec<Row> {
    vec![
        row(
            "the reply is lost with the link",
            BOTH,
            || vec![Rule::first(answer()).swallow().then([Do::Cut])],
            accepted(1, 1),
        ),
        row(
            "the reply is lost with the link, and only a replay is proof",
            &[Sender::CommandWithId],
            || vec![Rule::first(answer()).swallow().then([Do::Cut])],
            accepted(2, 2),
        ),
        row(
            "the prompt is lost in the middle of its frame",
            ALL,
            || vec![Rule::first(request()).part(40).then([Do::Cut])],
            accepted(2, 1),
        ),
        row(
            "cut before the commit, back after 2 s",
            ALL,
            || vec![Rule::first(request()).swallow().then(outage(2))],
            accepted(2, 1),
        ),
        row(
            "cut before the commit, back after 4 s",
            ALL,
            || vec![Rule::first(request()).swallow().then(outage(4))],
            uncertain(1, 0, 0),
        ),
        row(
            "cut after the commit, back after 4 s",
            BOTH,
            || vec![Rule::first(answer()).swallow().then(outage(4))],
            accepted(1, 1),
        ),
        row(
            "cut after the commit, back after 4 s, and only a replay is proof",
            &[Sender::CommandWithId],
            || vec![Rule::first(answer()).swallow().then(outage(4))],
            uncertain(1, 1, 1),
        ),
        row(
            "only the client is cut off, after the commit",
            BOTH,
            || vec![Rule::first(answer()).swallow().then([Do::CutClient])],
            accepted(1, 1),
        ),
        row(
            "only the server is cut off, before the commit",
            ALL,
            || vec![Rule::first(request()).swallow().then([Do::CutServer])],
            accepted(2, 1),
        ),
        Row {
            meanwhile: replace_server,
            launch: |launch| {
                // One commit at its start, and no others of its own.
                let stopping = launch.binary(binaries::usherd_with_stop_points());
                stopping.config("dispatch_pass = \"1h\"").env("USHER_STOP_AT", "after_commit:2")
            },
            ..row("the server dies between commit and reply", BOTH, Vec::new, accepted(1, 1))
        },
    ]
}

/// The link stands and brings nothing, or not in time.
fn rows_of_silence() -> Vec<Row> {
    vec![
        row(
            "the reply is lost, the link is not",
            BOTH,
            || vec![Rule::first(answer()).swallow()],
            accepted(1, 1),
        ),
        row(
            "the reply comes after 12 s",
            BOTH,
            || {
                let late = [Do::After(Duration::from_secs(12)), Do::Release];
                vec![Rule::first(answer()).hold().then(late)]
            },
            accepted(1, 1),
        ),
        row(
            "the first reply comes late, behind its retry",
            BOTH,
            || {
                let replies = [
                    Rule::first(answer()).hold(),
                    Rule::nth(2, answer()).hold().then([Do::Release]),
                ];
                replies.into_iter().chain(blind()).collect()
            },
            accepted(2, 2),
        ),
        row(
            "both replies and all reads are lost",
            BOTH,
            || [Rule::every(answer()).swallow()].into_iter().chain(blind()).collect(),
            uncertain(2, 2, 1),
        ),
        row(
            "both replies are lost, and only a replay is proof",
            &[Sender::CommandWithId],
            || vec![Rule::every(answer()).swallow()],
            uncertain(2, 2, 1),
        ),
        row(
            "black hole for 12 s, before the commit",
            ALL,
            || vec![Rule::first(request()).swallow().then(black_hole(12))],
            accepted(2, 1),
        ),
        row(
            "black hole for 12 s, after the commit",
            BOTH,
            || vec![Rule::first(answer()).swallow().then(black_hole(12))],
            accepted(1, 1),
        ),
    ]
}

/// The server answers the retry, but not with a reply.
fn rows_of_answers() -> Vec<Row> {
    let no_check = Expected { outcome: Uncertain(NotOffered), ..uncertain(1, 0, 0) };
    vec![
        Row {
            always: || vec![Rule::every(Matching::answer("hello")).rewrite(without_receipts)],
            ..row(
                "the server has no receipts",
                ALL,
                || vec![Rule::first(request()).swallow().then([Do::Cut])],
                no_check,
            )
        },
        Row {
            always: || vec![Rule::nth(2, Matching::answer("hello")).rewrite(without_receipts)],
            ..row(
                "the server has lost its receipts when the link is back",
                ALL,
                || vec![Rule::first(request()).swallow().then([Do::Cut])],
                no_check,
            )
        },
        Row {
            launch: |launch| launch.env("USHER_QUEUE_MAX_PER_SESSION", "1"),
            meanwhile: fill_the_queue,
            ..row(
                "the retry meets a full queue",
                ALL,
                || vec![Rule::first(request()).swallow().then([Do::Refuse, Do::Cut])],
                Expected {
                    outcome: Rejected("queue_full"),
                    sent: 2,
                    served: 1,
                    entries: 0,
                    shows: "Not accepted: The queue is full (1) and auto-run is off.",
                },
            )
        },
        row(
            "the retry meets a server that stops",
            ALL,
            || {
                vec![
                    Rule::first(request()).swallow().then([Do::Cut]),
                    Rule::nth(2, request())
                        .refuse("shutting_down", json!({"retry_after_ms": 1_000})),
                ]
            },
            uncertain(2, 0, 0),
        ),
    ]
}

/// A prompt with a file has 30 s for each reply.
fn rows_with_a_file() -> Vec<Row> {
    const WITH_FILE: &[Sender] = &[Sender::CommandWithFile];
    vec![
        row(
            "black hole for 12 s, before the commit",
            WITH_FILE,
            || vec![Rule::first(request()).swallow().then(black_hole(12))],
            accepted(2, 1),
        ),
        row(
            "black hole for 12 s, after the commit",
            WITH_FILE,
            || vec![Rule::first(answer()).swallow().then(black_hole(12))],
            accepted(1, 1),
        ),
        row(
            "black hole for 35 s, before the commit",
            WITH_FILE,
            || vec![Rule::first(request()).swallow().then(black_hole(35))],
            uncertain(1, 0, 0),
        ),
        row(
            "black hole for 35 s, after the commit",
            WITH_FILE,
            || vec![Rule::first(answer()).swallow().then(black_hole(35))],
            accepted(1, 1),
        ),
        row(
            "the reply comes after 12 s",
            WITH_FILE,
            || {
                let late = [Do::After(Duration::from_secs(12)), Do::Release];
                vec![Rule::first(answer()).hold().then(late)]
            },
            accepted(1, 1),
        ),
    ]
}

fn without_receipts(hello: &mut serde_json::Value) {
    let capabilities = hello["payload"]["capabilities"].as_array_mut().unwrap();
    capabilities.retain(|name| name != "queue.admission_receipts");
}

/// Somebody else takes the last place before the link is back.
fn fill_the_queue(stage: &mut Stage) {
    stage.link.until_seen(&request(), 1);
    stage.beside(async |client, chat| drop(client.admit(chat, "other", "of somebody else").await));
    stage.link.act(&[Do::Accept]);
}

/// Rows in which the database has a part.
const ON_POSTGRESQL: &[&str] = &[
    "the reply is lost with the link",
    "cut before the commit, back after 2 s",
    "cut after the commit, back after 4 s",
    "the first reply comes late, behind its retry",
    "the retry meets a full queue",
];

fn rows() -> Vec<Row> {
    let mut rows =
        [rows_of_cuts(), rows_of_silence(), rows_of_answers(), rows_with_a_file()].concat();
    if wants_postgres() {
        rows.retain(|row| ON_POSTGRESQL.contains(&row.name));
    }
    rows
}

#[test]
fn every_fault_leads_usher_send_to_what_the_table_says() {
    play_all(|sender| sender != Sender::Chat);
}

#[test]
fn every_fault_leads_the_chat_to_what_the_table_says() {
    play_all(|sender| sender == Sender::Chat);
}

/// Plays all rows of these senders at once, and compares.
#[expect(clippy::print_stdout, reason = "the table is worth seeing")]
fn play_all(wanted: fn(Sender) -> bool) {
    let rows = rows();
    let plays = rows.iter().flat_map(|row| row.senders.iter().map(move |sender| (row, *sender)));
    let plays: Vec<_> = plays.filter(|(_, sender)| wanted(*sender)).collect();
    let played: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = plays
            .iter()
            .map(|(row, sender)| {
                let name = format!("{} ({sender:?})", row.name);
                let thread = std::thread::Builder::new().name(name);
                thread.spawn_scoped(scope, || play(row, *sender)).unwrap()
            })
            .collect();
        running.into_iter().map(|thread| thread.join().ok()).collect()
    });
    let mut wrong = Vec::new();
    println!("{:<74} {:<20} exit sent served entries  the chat shows", "fault", "outcome");
    for ((row, sender), observed) in plays.into_iter().zip(played) {
        let name = format!("{} ({sender:?})", row.name);
        let expected = row.expected.as_seen_by(sender);
        match observed {
            Some(observed) if observed == expected => println!("{name:<74} {observed}"),
            Some(observed) => wrong.push(format!("{name}\n  {observed}\n  not\n  {expected}")),
            None => wrong.push(format!("{name}\n  panicked, see above")),
        }
    }
    assert!(wrong.is_empty(), "not as the table says:\n{}", wrong.join("\n"));
}

fn play(row: &Row, sender: Sender) -> Observed {
    match sender {
        Sender::Command | Sender::CommandWithId | Sender::CommandWithFile => {
            send::play(row, sender)
        }
        Sender::Chat => chat::play(row),
    }
}
