//! Prompts on their way: two at once, and those whose client is killed.

use rustix::process::Signal;
use usher_tests::faulty::{Do, Matching, Rule, Seen};
use usher_tests::stage::Stage;

use super::checks::ADD;
use super::row::PROMPT;

const SECOND: &str = "and at the docs";
const UNCERTAIN: &str = "Delivery uncertain: the server may have it.";

fn prompt(text: &str) -> Matching {
    Matching::request(ADD).saying(text)
}

/// Where in the record the frames of a kind are.
fn places(stage: &Stage, matching: &Matching) -> Vec<usize> {
    let record = stage.link.record();
    let frames: Vec<*const Seen> =
        record.frames(matching).into_iter().map(std::ptr::from_ref).collect();
    let at = record.0.iter().enumerate();
    at.filter(|(_, seen)| frames.contains(&std::ptr::from_ref(*seen))).map(|(at, _)| at).collect()
}

#[test]
fn two_quick_prompts_keep_their_order_when_the_first_one_gets_lost() {
    let lost_reply = Rule::first(Matching::answer(ADD)).swallow().then([Do::Cut]);
    let lost_prompt = Rule::first(Matching::request(ADD)).swallow().then([Do::Cut]);
    for rule in [lost_reply, lost_prompt] {
        let stage = Stage::new();
        let mut terminal = stage.terminal();
        stage.link.rule(rule);
        terminal.submit(PROMPT);
        terminal.submit(SECOND);
        terminal.wait_for("queue 2");
        stage.link.until_seen(&Matching::answer(ADD).saying(SECOND), 1);
        assert_eq!(stage.waiting(), [PROMPT, SECOND]);
        // The second one left when the first one was there, and once.
        let (first, second) = (places(&stage, &prompt(PROMPT)), places(&stage, &prompt(SECOND)));
        assert_eq!(second.len(), 1);
        assert!(first.iter().all(|place| *place < second[0]), "{first:?} {second:?}");
    }
}

#[test]
fn an_uncertain_prompt_is_confirmed_by_the_queue_itself_once_the_link_is_back() {
    let stage = Stage::new();
    let mut terminal = stage.terminal();
    stage.link.rule(Rule::every(Matching::notifications()).swallow());
    stage.link.rule(Rule::first(Matching::answer(ADD)).swallow().then([Do::Refuse, Do::Cut]));
    terminal.submit(PROMPT);
    terminal.wait_for(UNCERTAIN);
    stage.link.act(&[Do::ForgetRules, Do::Accept]);
    terminal.wait_for("queue 1");
    let screen = terminal.wait_until("proof", |screen| !screen.contains(UNCERTAIN));
    assert_eq!(screen.matches(PROMPT).count(), 1, "{screen}");
    assert_eq!(places(&stage, &prompt(PROMPT)).len(), 1, "nothing was sent again");
}

/// Whose client is killed.
#[derive(Clone, Copy, Debug)]
enum Killed {
    Chat,
    Command,
}

/// Sends the prompt, and kills its client when `seen` came by.
fn kill_when(stage: &Stage, killed: Killed, seen: &Matching) {
    match killed {
        Killed::Chat => {
            let mut terminal = stage.terminal();
            terminal.submit(PROMPT);
            stage.link.until_seen(seen, 1);
            terminal.signal(Signal::KILL);
            terminal.ended();
        }
        Killed::Command => {
            let mut running = stage.user.start_usher(&["send", "--json", PROMPT]);
            stage.link.until_seen(seen, 1);
            running.kill().unwrap();
            running.wait().unwrap();
        }
    }
}

#[test]
fn a_prompt_that_the_server_has_is_confirmed_after_its_client_was_killed() {
    for killed in [Killed::Chat, Killed::Command] {
        let stage = Stage::new();
        stage.link.rule(Rule::first(Matching::answer(ADD)).swallow());
        kill_when(&stage, killed, &Matching::answer(ADD));
        let mut terminal = stage.terminal();
        // It leaves when the one before it is settled.
        terminal.submit(SECOND);
        let screen = terminal.wait_for("queue 2");
        assert!(!screen.contains(UNCERTAIN), "{killed:?}: {screen}");
        assert_eq!(stage.waiting(), [PROMPT, SECOND], "{killed:?}");
        assert_eq!(places(&stage, &prompt(PROMPT)).len(), 1, "{killed:?}: nothing is sent again");
    }
}

#[test]
fn a_prompt_that_may_be_lost_is_uncertain_after_its_client_was_killed_and_never_sent_by_itself() {
    for killed in [Killed::Chat, Killed::Command] {
        let stage = Stage::new();
        stage.link.rule(Rule::first(Matching::request(ADD)).swallow());
        kill_when(&stage, killed, &Matching::request(ADD));
        let mut terminal = stage.terminal();
        let screen = terminal.wait_for(UNCERTAIN);
        assert!(screen.contains(PROMPT), "{killed:?}: {screen}");
        // Whatever else leaves, it does not.
        terminal.submit(SECOND);
        terminal.wait_for("queue 1");
        assert_eq!(places(&stage, &prompt(PROMPT)).len(), 1, "{killed:?}");
        // It is sent when somebody says so, with the same ID.
        terminal.type_keys("\u{1b}r");
        terminal.wait_for("queue 2");
        let record = stage.link.record();
        let sent = record.frames(&prompt(PROMPT));
        assert_eq!(sent.len(), 2, "{killed:?}");
        assert_eq!(sent[0].payload(), sent[1].payload(), "{killed:?}");
        assert_eq!(stage.entries_of(PROMPT), 1, "{killed:?}");
    }
}
