//! What a row has led to, as the link and the server saw it.

use usher_tests::binaries;
use usher_tests::faulty::{Matching, RAW_TEXT, Record};
use usher_tests::stage::Stage;

use super::row::{Observed, PROMPT};

/// The action that sends a prompt.
pub(super) const ADD: &str = "message.queue.add";

/// Returns what a row has led to, apart from what its client says.
pub(super) fn observed(stage: &Stage) -> Observed {
    let record = stage.link.record();
    let prompt = Matching::request(ADD).saying(PROMPT);
    check_that_attempts_are_alike(&record, &prompt);
    Observed {
        outcome: String::new(),
        exit_code: None,
        sent: record.frames(&prompt).len(),
        served: record.passed(&prompt).len(),
        entries: stage.entries_of(PROMPT),
        shows: None,
    }
}

/// After the fault: an uncertain prompt that was sent again as itself is there once.
pub(super) fn check_that_it_is_there_once(stage: &Stage) {
    assert_eq!(stage.entries_of(PROMPT), 1);
    check_that_attempts_are_alike(&stage.link.record(), &Matching::request(ADD).saying(PROMPT));
}

/// Every attempt has the same ID and the same bytes.
fn check_that_attempts_are_alike(record: &Record, prompt: &Matching) {
    let mut payloads: Vec<_> = record.frames(prompt).iter().map(|seen| seen.payload()).collect();
    payloads.dedup();
    assert!(payloads.len() <= 1, "attempts differ: {payloads:#?}");
}

/// Nobody is shown what a server says to developers.
pub(super) fn check_that_nothing_raw_is_shown(shown: &str) {
    assert!(!shown.contains(RAW_TEXT), "raw text is shown: {shown}");
}

/// Waits until the server has died with the prompt unanswered, and starts a sound one.
pub(super) fn replace_server(stage: &mut Stage) {
    let (status, launch) = stage.server.take().expect("the server is up").ended();
    assert!(!status.success(), "it was to die: {status}");
    let record = stage.link.record();
    assert_eq!(record.passed(&Matching::request(ADD)).len(), 1, "{record:#?}");
    assert_eq!(record.frames(&Matching::answer(ADD)).len(), 0, "{record:#?}");
    let sound = launch.binary(binaries::usherd()).without_env("USHER_STOP_AT");
    stage.server = Some(sound.start());
}
