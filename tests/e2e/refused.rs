//! A prompt that the server does not take is back with its person, with the reason in their words.

use serde_json::json;
use usher_tests::chat::string;
use usher_tests::faulty::{Do, Matching, RAW_TEXT, Rule};
use usher_tests::pty::Terminal;
use usher_tests::stage::Stage;

const ADD: &str = "message.queue.add";
const PROMPT: &str = "look at the tests";

/// Checks that the text is back where it can be sent again, and why it was not taken.
fn is_back(terminal: &Terminal, reason: &str) {
    let screen = terminal.wait_for(reason);
    assert!(screen.contains(&format!("› {PROMPT}")), "{screen}");
    let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(!bytes.contains(RAW_TEXT), "{screen}");
}

#[test]
fn c090_a_refused_prompt_is_back_in_the_composer_whatever_the_reason() {
    let full = json!({"queue_size": 10, "max": 10});
    let cases = [
        ("queue_full", full, "Not accepted: The queue is full"),
        ("validation", json!({"field": "content"}), "Not accepted: The prompt cannot be sent"),
        ("queue_id_conflict", json!({}), "Not accepted: This prompt was already sent with"),
        ("queue_session_unavailable", json!({}), "Not accepted: This session takes no prompts"),
        ("queue_admission_unavailable", json!({}), "Not accepted: The server cannot store prompts"),
        ("rate_limited", json!({"retry_after_ms": 1}), "Not accepted: Too many requests at once."),
        ("forbidden", json!({}), "Not accepted: You are not allowed to do that here."),
        ("internal", json!({}), "Not accepted: The server had a fault of its own."),
    ];
    let stage = Stage::new();
    let mut terminal = stage.terminal();
    for (code, details, reason) in cases {
        stage.link.act(&[Do::ForgetRules]);
        stage.link.rule(Rule::first(Matching::request(ADD)).refuse(code, details.clone()));
        terminal.submit_refused(PROMPT);
        is_back(&terminal, reason);
        // As it is, it can be sent again.
        terminal.type_keys("\r");
        terminal.wait_for("queue 1");
        assert_eq!(stage.waiting(), [PROMPT], "{code}");
        stage.beside(async |client, chat| client.ok("message.queue.cancel", chat.identity()).await);
        terminal.wait_for("queue 0");

        stage.link.rule(Rule::first(Matching::request(ADD)).refuse(code, details));
        let sent = stage.user.usher(&["send", "--json", PROMPT]);
        assert_eq!((sent.code, string(&sent.json()[0]["code"])), (3, code.to_owned()));
        assert!(!format!("{sent:?}").contains(RAW_TEXT), "{sent:?}");
    }
}

#[test]
fn c090_a_prompt_for_a_session_that_is_gone_is_back_in_the_composer() {
    let stage = Stage::new();
    let mut terminal = stage.terminal();
    stage.link.rule(Rule::first(Matching::request(ADD)).hold());
    terminal.submit(PROMPT);
    stage.link.until_seen(&Matching::request(ADD), 1);
    stage.beside(async |client, chat| client.ok("session.delete", chat.identity()).await);
    stage.link.until_seen(&Matching::notification("session.deleted"), 1);
    stage.link.act(&[Do::Release]);
    is_back(&terminal, "This session takes no prompts any more.");
}
