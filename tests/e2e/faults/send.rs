//! Rows for `usher send`.

use std::fs;
use std::sync::Arc;

use usher_tests::cli::Ran;
use usher_tests::faulty::Do;
use usher_tests::stage::Stage;

use super::checks::{check_that_it_is_there_once, check_that_nothing_raw_is_shown, observed};
use super::row::{Check, Observed, Outcome, PROMPT, Row, Sender};

/// The ID of a caller who chooses one.
const OWN_ID: &str = "build-42";
/// The file that is sent along, in the directory that the command runs in.
const FILE: &str = "notes.txt";

/// Plays a row; returns what came of it.
pub(super) fn play(row: &Row, sender: Sender) -> Observed {
    let mut stage = Stage::with(row.launch, (row.always)());
    for rule in (row.fault)() {
        stage.link.rule(rule);
    }
    let flags: &[&str] = match sender {
        Sender::CommandWithId => &["--id", OWN_ID],
        Sender::CommandWithFile => &["--attach", FILE],
        Sender::Command | Sender::Chat => &[],
    };
    fs::write(stage.user.home().path("work").join(FILE), "notes").unwrap();
    let args = [&["send", "--json"], flags, &[PROMPT]].concat();
    let user = Arc::clone(&stage.user);
    let running = std::thread::spawn(move || user.usher(&args));
    (row.meanwhile)(&mut stage);
    let ran = running.join().unwrap();
    let (outcome, id) = read_outcome(&ran);
    let observed = Observed { outcome, exit_code: Some(ran.code), ..observed(&stage) };
    if row.expected.outcome == Outcome::Uncertain(Check::Offered) {
        stage.link.act(&[Do::ForgetRules, Do::Accept]);
        let own_id: &[&str] = if sender == Sender::CommandWithId { &[] } else { &["--id", &id] };
        let again = [&["send", "--json"], own_id, flags, &[PROMPT]].concat();
        let again = stage.user.usher(&again);
        assert_eq!(again.code, 0, "{again:?}");
        check_that_it_is_there_once(&stage);
    }
    observed
}

fn read_outcome(ran: &Ran) -> (String, String) {
    check_that_nothing_raw_is_shown(&format!("{}{}", ran.stdout, ran.stderr));
    let mut lines = ran.json();
    assert_eq!(lines.len(), 1, "{ran:?}");
    let line = lines.remove(0);
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let outcome = format!("{} {}", text("outcome"), text("code"));
    (outcome.trim_end().to_owned(), text("id"))
}
