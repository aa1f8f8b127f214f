//! `usher` without a terminal.

use serde_json::{Value, json};
use usher_tests::cli::UserHome;

fn one_line(ran: &usher_tests::cli::Ran) -> Value {
    let mut lines = ran.json();
    assert_eq!(lines.len(), 1, "{ran:?}");
    lines.remove(0)
}

#[test]
fn send_wait_answers_without_a_terminal_and_without_a_server_running() {
    let user = UserHome::new();
    let ran = user.usher(&["send", "--wait", "--json", "hi"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("You said: hi"), "{ran:?}");
}

#[test]
fn a_token_for_another_server_is_not_shown_to_ones_own() {
    let user = UserHome::with_env(&[("USHER_TOKEN", "of another server")]);
    let ran = user.usher(&["send", "--wait", "--json", "hi"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn the_same_id_twice_is_the_same_admission_and_another_text_is_a_conflict() {
    let user = UserHome::new();
    let first = user.usher(&["send", "--wait", "--json", "--id", "my-id", "hi"]);
    let again = user.usher(&["send", "--wait", "--json", "--id", "my-id", "hi"]);
    assert_eq!((first.code, again.code), (0, 0), "{first:?} {again:?}");
    let accepted = |ran: &usher_tests::cli::Ran| {
        ran.json()
            .iter()
            .find_map(|line| line.get("accepted_queue_id").cloned())
            .expect("the accepted id is printed")
    };
    assert_eq!(accepted(&first), accepted(&again));
    assert!(accepted(&first).is_string());

    let other = user.usher(&["send", "--json", "--id", "my-id", "something else"]);
    assert_eq!(other.code, 3, "{other:?}");
    assert_eq!(one_line(&other)["code"], json!("queue_id_conflict"), "{other:?}");
}

#[test]
fn text_comes_from_standard_input_too() {
    let user = UserHome::new();
    let ran = user.usher_with_input(&["send", "--wait", "--json", "-"], "from a pipe\nline two");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("You said: from a pipe\\nline two"), "{ran:?}");
}

#[test]
fn a_turn_that_fails_is_an_exit_code_of_its_own() {
    let user = UserHome::new();
    let ran = user.usher(&["send", "--wait", "--json", "/demo fail no luck"]);
    assert_eq!(ran.code, 6, "{ran:?}");
}

#[test]
fn a_wrong_command_line_is_usage() {
    let user = UserHome::new();
    for args in [&["send"][..], &["send", "--no-such-flag", "x"], &["no-such-command"]] {
        let ran = user.usher(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(!ran.stderr.is_empty());
    }
    let ran = user.usher(&["send", "--json", "--id", "", "x"]);
    assert!([2, 3].contains(&ran.code), "{ran:?}");
}

#[test]
fn status_and_stop_tell_and_end_the_background_server() {
    let user = UserHome::new();
    assert_eq!(user.usher(&["status"]).code, 5);
    assert_eq!(user.usher(&["send", "--json", "x"]).code, 0);
    assert_eq!(user.usher(&["status"]).code, 0);
    assert_eq!(user.usher(&["stop"]).code, 0);
    assert_eq!(user.usher(&["status"]).code, 5);
}

#[test]
fn the_queue_is_listed_and_cleared() {
    let user = UserHome::new();
    assert_eq!(user.usher(&["send", "--json", "/demo hang"]).code, 0);
    for text in ["A", "B"] {
        assert_eq!(user.usher(&["send", "--json", text]).code, 0);
    }
    let list = user.usher(&["queue", "list", "--json"]);
    assert_eq!(list.code, 0, "{list:?}");
    let text = list.stdout.clone();
    assert!(text.find("\"A\"").unwrap() < text.find("\"B\"").unwrap(), "{text}");
    let cleared = user.usher(&["queue", "clear", "--json"]);
    assert_eq!(cleared.code, 0, "{cleared:?}");
    let list = user.usher(&["queue", "list", "--json"]);
    assert!(!list.stdout.contains("\"A\""), "{list:?}");
}

#[test]
fn waiting_for_an_answer_never_misses_it() {
    let user = UserHome::new();
    // No heartbeat helps out.
    user.configure("heartbeat = \"10m\"\n");
    for round in 0..30 {
        let text = format!("hi {round}");
        let ran = user.usher(&["send", "--wait", "--json", &text]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stdout.contains(&format!("You said: {text}")), "{ran:?}");
    }
}

#[test]
fn c145_a_closed_pipe_ends_the_program_quietly() {
    let user = UserHome::new();
    assert_eq!(user.usher(&["send", "--json", "x"]).code, 0);
    for args in [&["queue", "list", "--json"][..], &["status"], &["--help"]] {
        let stderr = user.usher_into_a_closed_pipe(args);
        assert!(!stderr.contains("panic"), "{args:?}: {stderr}");
    }
}
