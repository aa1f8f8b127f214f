//! The chat on a link that goes away and comes back.

use rustix::process::Signal;
use serde_json::json;
use usher_tests::chat::Chat;
use usher_tests::cli::UserHome;
use usher_tests::client::Client;
use usher_tests::faulty::{Do, FaultyLink, Matching, Record, Rule, Seen};
use usher_tests::pty::Terminal;
use usher_tests::stage::Stage;

const ADD: &str = "message.queue.add";
const STATUS: &str = "message.queue.status_changed";
const OFFLINE: &str = "offline, trying again";
const UNCERTAIN: &str = "Delivery uncertain: the server may have it.";

/// A stage whose server and clients expect a sign of life every second.
fn quick() -> Stage {
    Stage::with(|launch| launch.config("heartbeat = \"1s\""), Vec::new())
}

#[test]
fn a_link_that_brings_nothing_is_offline_within_heartbeats_and_a_quiet_one_stays() {
    let stage = quick();
    let mut terminal = stage.terminal();
    // Five heartbeats in which nothing else happens.
    let record = stage.link.until_seen(&Matching::answer("ping"), 5);
    assert_eq!(record.opened(), 1);
    terminal.wait_online();

    // Another chat on a sound link is the clock: it pings with every heartbeat.
    let clock = FaultyLink::named(stage.server.as_ref().unwrap(), "clock");
    let other = UserHome::with_env(&[("USHER_SERVER", clock.address())]);
    let _ticking = Terminal::open(&other, 120, 40, &[]);
    clock.until_seen(&Matching::answer("ping"), 1);
    clock.mark("dead");
    stage.link.act(&[Do::BlackHole, Do::Refuse]);
    terminal.wait_for(OFFLINE);
    let beats = clock.record().after("dead").frames(&Matching::request("ping")).len();
    stage.link.until("the client's end", |record| record.client_left(1));
    // 2.5 of them; the timeout of the ping that was lost would have come after 10.
    assert!(beats <= 4, "{beats} heartbeats on a dead link");

    // What is written meanwhile waits, and arrives once.
    terminal.submit("written offline");
    terminal.wait_for("Waiting for a connection");
    stage.link.act(&[Do::Accept]);
    terminal.wait_online();
    terminal.wait_for("queue 1");
    assert_eq!(stage.link.record().frames(&Matching::request(ADD)).len(), 1);
    assert_eq!(stage.waiting(), ["written offline"]);
}

#[test]
fn c082_what_is_asked_for_offline_is_not_asked_for_again_and_again() {
    let stage = Stage::new();
    let mut terminal = stage.terminal();
    stage.link.act(&[Do::Refuse, Do::Cut]);
    terminal.wait_for(OFFLINE);
    terminal.submit("A");
    for _ in 0..3 {
        // Send it again; look at the queue, and back.
        terminal.type_keys("\u{1b}r");
        terminal.type_keys("\u{1b}q\u{1b}q");
    }
    terminal.wait_for("Waiting for a connection");
    stage.link.mark("online");
    stage.link.act(&[Do::Accept]);
    terminal.wait_for("queue 1");
    // It waits behind everything that the link may have brought with it.
    terminal.submit("B");
    terminal.wait_for("queue 2");
    let record = stage.link.record().after("online");
    assert_eq!(record.frames(&Matching::request(ADD)).len(), 2);
    assert_eq!(record.frames(&Matching::request("message.queue.get")).len(), 0);
    assert_eq!(record.frames(&Matching::request("session.subscribe")).len(), 1);
    assert_eq!(stage.waiting(), ["A", "B"]);
}

#[test]
fn c084_a_prompt_for_a_server_that_sleeps_is_uncertain_and_there_once_when_it_wakes() {
    let stage = quick();
    let mut terminal = stage.terminal();
    let server = stage.server.as_ref().unwrap();
    server.signal(Signal::STOP);
    terminal.submit("A");
    terminal.wait_for(OFFLINE);
    stage.link.until("the client's end", |record| record.client_left(1));
    terminal.wait_for(UNCERTAIN);
    server.signal(Signal::CONT);
    terminal.wait_online();
    // The server may take what it has in its ear, or drop a link that was silent for so long. Either
    // way, a resend of the same prompt is the same prompt.
    terminal.type_keys("\u{1b}r");
    terminal.wait_for("queue 1");
    terminal.wait_until("proof", |screen| !screen.contains(UNCERTAIN));
    assert_eq!(stage.waiting(), ["A"]);
    let record = stage.link.record();
    let mut sent: Vec<_> = record.frames(&Matching::request(ADD));
    sent.dedup_by_key(|seen| seen.payload());
    assert_eq!(sent.len(), 1, "{record:#?}");
}

#[test]
fn c085_what_is_too_long_is_refused_before_it_leaves_and_the_link_lives() {
    const LIMIT: usize = 262_144;
    let stage = Stage::new();
    let of = |bytes: usize, fill: &str| format!("x{}", fill.repeat((bytes - 1) / fill.len()));
    let send = |text: &str| stage.user.usher_with_input(&["send", "--json", "-"], text);
    // One byte of these takes six on the wire.
    for text in [of(LIMIT - 1, "a"), of(LIMIT, "a"), of(LIMIT, "\u{1}")] {
        let sent = send(&text);
        assert_eq!(sent.code, 0, "{:?}", sent.stderr);
        assert_eq!(stage.entries_of(&text), 1, "{} bytes arrive as they are", text.len());
        stage.beside(async |client, chat| client.ok("message.queue.cancel", chat.identity()).await);
    }
    stage.link.mark("too long");
    for text in [of(LIMIT + 1, "a"), of(2 * 1024 * 1024, "a"), of(700 * 1024, "\u{1}")] {
        let sent = send(&text);
        assert_eq!((sent.code, &sent.json()[0]["code"]), (3, &json!("validation")));
    }
    let mut terminal = stage.terminal();
    let text = format!("so long {}", of(LIMIT, "a"));
    terminal.type_keys(&format!("\u{1b}[200~{text}\u{1b}[201~"));
    terminal.wait_for("[pasted: 262");
    terminal.type_keys("\r");
    let screen = terminal.wait_for("This prompt is longer than 256 KiB and cannot be sent.");
    assert!(screen.contains("› [pasted: 262"), "the draft is kept: {screen}");
    // Shortened to nothing, the composer sends what comes next, over the same link.
    terminal.type_keys("\u{3}");
    terminal.submit("short");
    terminal.wait_for("queue 1");
    let record = stage.link.record().after("too long");
    assert_eq!(record.frames(&Matching::request(ADD)).len(), 1);
    assert_eq!(record.opened(), 1, "the chat's: what cannot be sent needs no link");
}

/// Tells whether there was never more than one connection at a time.
fn one_at_a_time(record: &Record) -> bool {
    let mut open = 0_usize;
    record.0.iter().all(|seen| {
        match seen {
            Seen::Opened { .. } => open += 1,
            Seen::Ended { .. } | Seen::Did(Do::Cut) => open = 0,
            Seen::Refused | Seen::Frame { .. } | Seen::Did(_) | Seen::Marked(_) => {}
        }
        open <= 1
    })
}

#[test]
fn c087_a_flapping_link_is_one_link_with_one_subscription() {
    let mut stage = Stage::new();
    let mut terminal = stage.terminal();
    terminal.submit("A");
    terminal.wait_for("queue 1");
    // Five links in a row end as soon as they are greeted, two of them while the server restarts.
    stage.link.rule(Rule::first(Matching::answer("hello")).then([Do::Cut]));
    for nth in 2..=4 {
        let half = Rule::nth(nth, Matching::answer("hello"));
        stage.link.rule(half.part(20).then([Do::Cut]));
    }
    stage.link.act(&[Do::Cut]);
    stage.link.until_seen(&Matching::answer("hello"), 3);
    stage.restart();
    stage.link.until_seen(&Matching::answer("session.subscribe"), 2);
    terminal.wait_online();
    for text in ["B", "C"] {
        terminal.submit(text);
    }
    let screen = terminal.wait_for("queue 3");
    assert_eq!(stage.waiting(), ["A", "B", "C"], "{screen}");
    let record = stage.link.record();
    assert!(one_at_a_time(&record), "{record:#?}");
    for link in 1..=record.opened() {
        let subscribed = Matching::request("session.subscribe").on_link(link);
        assert!(record.frames(&subscribed).len() <= 1, "link {link}: {record:#?}");
    }
    assert_eq!(record.frames(&Matching::request(ADD)).len(), 3);
}

#[test]
fn c087_a_lease_of_a_link_that_is_gone_is_released() {
    let stage = Stage::new();
    let entry_id = stage.beside(async |client, chat| client.admit(chat, "k1", "A").await);
    let edit = stage.chat.with(json!({"entry_id": entry_id}));
    let mut behind = stage.run(Client::connect_to(stage.link.address()));
    stage.run(behind.ok("message.queue.edit.begin", edit.clone()));
    stage.link.act(&[Do::Cut]);
    let again = stage.beside(async |client: &mut Client, chat: &Chat| {
        client.subscribe(chat).await;
        client.until(chat, |_, queue| queue["entries"][0]["editing"].is_null()).await;
        client.request("message.queue.edit.begin", edit).await
    });
    assert!(again.is_ok(), "{again:?}");
}

#[test]
fn c088_the_event_and_the_reply_of_a_send_make_one_row_in_any_order() {
    let first_event = || Matching::notification(STATUS);
    let first_reply = || Matching::answer(ADD);
    let let_go = [Do::ForgetRules, Do::Release];
    let orders = [
        [Rule::first(first_reply()).hold(), Rule::first(first_event()).then(let_go)],
        [Rule::first(first_event()).hold(), Rule::first(first_reply()).then(let_go)],
        // The event alone, until the wait for the reply is over.
        [Rule::first(first_reply()).swallow(), Rule::first(first_event())],
    ];
    std::thread::scope(|scope| {
        for rules in orders {
            scope.spawn(move || {
                let stage = Stage::new();
                let mut terminal = stage.terminal();
                rules.into_iter().for_each(|rule| stage.link.rule(rule));
                terminal.submit("look at the tests");
                terminal.wait_for("queue 1");
                // It leaves when the one before it is done with.
                terminal.submit("and at the docs");
                let screen = terminal.wait_for("queue 2");
                assert_eq!(screen.matches("look at the tests").count(), 1, "{screen}");
                for stuck in ["Sending", "Waiting", "reply got lost", UNCERTAIN] {
                    assert!(!screen.contains(stuck), "{screen}");
                }
                assert_eq!(stage.waiting(), ["look at the tests", "and at the docs"]);
            });
        }
    });
}

#[test]
fn c065_what_waits_behind_a_cancelled_turn_is_there_after_a_cut_and_a_restart() {
    let mut stage = Stage::new();
    let mut terminal = stage.terminal();
    stage.beside(async |client, chat| {
        client.admit(chat, "k1", "/demo say busy; hang").await;
        client.set_auto_run(chat, true).await;
    });
    terminal.wait_for("busy");
    terminal.submit("B first");
    terminal.submit("C second");
    terminal.wait_for("queue 2");
    terminal.type_keys("\u{1b}");
    terminal.wait_for("again to stop the turn");
    terminal.type_keys("\u{1b}");
    let parked = "auto-run off: a turn was stopped";
    terminal.wait_for(parked);
    stage.link.act(&[Do::Refuse, Do::Cut]);
    terminal.wait_for(OFFLINE);
    stage.restart();
    stage.link.act(&[Do::Accept]);
    terminal.wait_online();
    let screen = terminal.wait_for("queue 2");
    assert!(screen.contains(parked), "{screen}");
    assert!(screen.find("B first") < screen.find("C second"), "{screen}");
    // What waits can still be removed and run.
    terminal.type_keys("\u{1b}qd");
    terminal.wait_for("queue 1");
    terminal.type_keys("p");
    terminal.wait_for("You said: C second");
    assert_eq!(stage.entries_of("B first"), 0);
}
