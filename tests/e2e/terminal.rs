//! `usher` in a real terminal.

use usher_tests::cli::UserHome;
use usher_tests::pty::Terminal;

#[test]
fn the_chat_shows_and_hello_is_answered() {
    let user = UserHome::new();
    let mut terminal = Terminal::open(&user, 120, 40, &[]);
    terminal.wait_for("›");
    terminal.submit("hello");
    terminal.wait_for("You said: hello");
}

#[test]
fn closing_the_terminal_leaves_the_queue_running() {
    let user = UserHome::new();
    let mut terminal = Terminal::open(&user, 120, 40, &[]);
    terminal.wait_for("›");
    terminal.submit("/demo sleep 2s; say first done");
    for text in ["prompt one", "prompt two", "prompt three"] {
        terminal.submit(text);
    }
    terminal.wait_for("3/");
    terminal.close();

    let terminal = Terminal::open(&user, 120, 40, &[]);
    let screen = terminal.wait_for("You said: prompt three");
    let places: Vec<usize> = ["first done", "prompt one", "prompt two", "prompt three"]
        .iter()
        .map(|text| {
            let answer = if text.starts_with("prompt") {
                format!("You said: {text}")
            } else {
                (*text).to_owned()
            };
            screen.find(&answer).unwrap_or_else(|| panic!("no {answer:?} in\n{screen}"))
        })
        .collect();
    assert!(places.is_sorted(), "{screen}");
}

#[test]
fn the_terminal_is_left_as_it_was() {
    let user = UserHome::new();
    let mut terminal = Terminal::open(&user, 80, 24, &[]);
    terminal.wait_for("›");
    // Once to clear, twice to leave.
    terminal.type_keys("\u{3}");
    terminal.type_keys("\u{3}");
    let bytes = terminal.bytes();
    assert!(contains(&bytes, b"\x1b[?1049h"), "it uses the other screen");
    let seen = terminal.output();
    assert_eq!(terminal.ended(), 0);
    let bytes = seen.bytes();
    for (on, off) in [
        (&b"\x1b[?1049h"[..], &b"\x1b[?1049l"[..]),
        (b"\x1b[?2004h", b"\x1b[?2004l"),
        (b"\x1b[?25l", b"\x1b[?25h"),
    ] {
        let last = |what: &[u8]| bytes.windows(what.len()).rposition(|window| window == what);
        if let Some(switched_on) = last(on) {
            assert!(
                last(off) > Some(switched_on),
                "{} stays on",
                String::from_utf8_lossy(&on[1..])
            );
        }
    }
}

#[test]
fn nothing_an_agent_says_drives_the_terminal() {
    let user = UserHome::new();
    let mut terminal = Terminal::open(&user, 120, 40, &[]);
    terminal.wait_for("›");
    terminal.submit("/demo ansi; say safe");
    terminal.wait_for("safe");
    let bytes = terminal.bytes();
    for hostile in [
        &b"\x1b]52;"[..],
        b"\x1b]0;owned",
        b"\x1b[6n",
        b"\x1bc",
        "\u{202e}".as_bytes(),
        "\u{9b}".as_bytes(),
    ] {
        assert!(!contains(&bytes, hostile), "{}", String::from_utf8_lossy(&hostile[1..]));
    }
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}
