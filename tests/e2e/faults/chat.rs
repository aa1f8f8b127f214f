//! Rows for the chat, in a terminal of 120 columns and 40 rows.

use usher_tests::faulty::{Do, Matching};
use usher_tests::pty::Terminal;
use usher_tests::stage::Stage;

use super::checks::{ADD, check_that_it_is_there_once, check_that_nothing_raw_is_shown, observed};
use super::row::{Check, Observed, Outcome, PROMPT, Row};

/// A prompt that leaves when the one before it is accepted, rejected or uncertain, and not earlier.
const NEXT: &str = "and at the docs";

/// What somebody else adds in the end.
const LAST: &str = "of somebody else";

const UNCERTAIN: &str = "Delivery uncertain: the server may have it.";
const REJECTED: &str = "Not accepted:";
const CHECK: &str = "check and resend safely";

/// Plays a row; returns what came of it.
pub(super) fn play(row: &Row) -> Observed {
    let mut stage = Stage::with(row.launch, (row.always)());
    let mut terminal = stage.terminal();
    for rule in (row.fault)() {
        stage.link.rule(rule);
    }
    terminal.submit(PROMPT);
    (row.meanwhile)(&mut stage);
    let screen = end_of(row.expected.outcome, &stage, &mut terminal);
    let outcome = read_outcome(&screen).to_owned();
    let shows = screen.lines().find(|line| line.contains(row.expected.shows));
    let shows = Some(shows.map_or(screen.clone(), |_| row.expected.shows.to_owned()));
    let observed = Observed { outcome, shows, ..observed(&stage) };
    if let Outcome::Uncertain(check) = row.expected.outcome {
        assert!(screen.contains(PROMPT), "the draft is kept:\n{screen}");
        let offered = if screen.contains(CHECK) { Check::Offered } else { Check::NotOffered };
        assert_eq!(offered, check, "{screen}");
    }
    if row.expected.outcome == Outcome::Uncertain(Check::Offered) {
        check_and_resend(&stage, &mut terminal);
        check_that_it_is_there_once(&stage);
    }
    check_that_nothing_raw_is_shown(&String::from_utf8_lossy(&terminal.bytes()));
    observed
}

/// Waits until the prompt's fate is settled; returns the screen then.
fn end_of(outcome: Outcome, stage: &Stage, terminal: &mut Terminal) -> String {
    match outcome {
        Outcome::Accepted => {
            // Acceptance leaves nothing on the screen but the entry, which may be there before.
            terminal.submit(NEXT);
            stage.link.until_seen(&Matching::request(ADD).saying(NEXT), 1);
            look_for_phantoms(stage, terminal)
        }
        Outcome::Rejected(_) => terminal.wait_for(&format!("› {PROMPT}")),
        Outcome::Uncertain(_) => terminal.wait_for(UNCERTAIN),
    }
}

/// Shows the chat the queue as it is; nothing but that may be there.
fn look_for_phantoms(stage: &Stage, terminal: &Terminal) -> String {
    stage.link.act(&[Do::ForgetRules]);
    stage.beside(async |client, chat| drop(client.admit(chat, "last", LAST).await));
    let screen = terminal.wait_for(LAST);
    assert_eq!(screen.matches(PROMPT).count(), 1, "{screen}");
    screen
}

fn read_outcome(screen: &str) -> &'static str {
    if screen.contains(UNCERTAIN) {
        "uncertain"
    } else if screen.contains(REJECTED) {
        "rejected"
    } else {
        "accepted"
    }
}

/// Presses the key that cannot duplicate anything, once the link is sound.
fn check_and_resend(stage: &Stage, terminal: &mut Terminal) {
    stage.link.act(&[Do::ForgetRules, Do::Accept]);
    terminal.wait_online();
    terminal.type_keys("\u{1b}r");
    terminal.wait_until("a prompt that is accepted", |screen| !screen.contains(UNCERTAIN));
    terminal.submit(NEXT);
    stage.link.until_seen(&Matching::request(ADD).saying(NEXT), 1);
    let screen = terminal.screen();
    assert_eq!(read_outcome(&screen), "accepted", "{screen}");
}
