//! `usher` in a real terminal.

use rustix::process::Signal;
use usher_tests::cli::UserHome;
use usher_tests::pty::Terminal;

#[test]
fn the_chat_shows_and_hello_is_answered() {
    let user = UserHome::new();
    let mut terminal = Terminal::open(&user, 120, 40, &[]);
    terminal.wait_for("Welcome");
    terminal.submit("hello");
    terminal.wait_for("You said: hello");
}

#[test]
fn closing_the_terminal_leaves_the_queue_running() {
    let user = UserHome::new();
    let mut terminal = Terminal::open(&user, 120, 40, &[]);
    terminal.wait_for("Welcome");
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
fn prompts_that_wait_are_one_entry_unless_somebody_wants_them_apart() {
    let user = UserHome::folding();
    let mut terminal = Terminal::open(&user, 120, 40, &[]);
    terminal.wait_for("Welcome");
    terminal.submit("/demo sleep 2s; say first done");
    terminal.submit("prompt one");
    terminal.submit("prompt two");
    terminal.wait_for("1/");
    let screen = terminal.wait_for("You said: prompt one");
    assert!(screen.contains("prompt two"), "{screen}");
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
    terminal.wait_for("Welcome");
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

/// A terminal with a turn that never ends by itself and two prompts that wait.
fn with_waiting_prompts(user: &UserHome, columns: u16, rows: u16) -> Terminal {
    let mut terminal = Terminal::open(user, columns, rows, &[]);
    terminal.wait_for("Welcome");
    for text in ["/demo say busy; hang", "prompt one", "prompt two"] {
        terminal.submit(text);
    }
    terminal.wait_for("busy");
    terminal.wait_for("2/10");
    terminal
}

#[test]
fn the_queue_panel_removes_pauses_and_goes_on() {
    let user = UserHome::new();
    let mut terminal = with_waiting_prompts(&user, 120, 40);
    terminal.type_keys("\u{1b}q");
    terminal.type_keys("d");
    terminal.wait_until("that the first is gone", |screen| {
        screen.contains("1/10") && !screen.contains("prompt one")
    });
    // Off, and on again: the turn that runs is not touched.
    terminal.type_keys("p");
    terminal.wait_for("auto-run off");
    terminal.type_keys("p");
    terminal.wait_for("auto-run on");
    let list = user.usher(&["queue", "list", "--json"]);
    assert!(list.stdout.contains("prompt two") && !list.stdout.contains("prompt one"), "{list:?}");
}

#[test]
fn what_one_terminal_does_the_other_one_shows() {
    let user = UserHome::new();
    let mut first = with_waiting_prompts(&user, 120, 40);
    let second = Terminal::open(&user, 40, 20, &[]);
    second.wait_for("2/10");
    first.submit("prompt three");
    second.wait_for("3/10");
    assert_eq!(user.usher(&["queue", "clear"]).code, 0);
    for terminal in [&first, &second] {
        terminal.wait_until("an empty queue", |screen| !screen.contains("3/10"));
    }
}

#[test]
fn a_pasted_text_of_several_lines_is_one_prompt() {
    let user = UserHome::new();
    let mut terminal = Terminal::open(&user, 80, 24, &[]);
    terminal.wait_for("Welcome");
    terminal.type_keys("\u{1b}[200~line one\rline two\r\nline three\u{1b}[201~");
    terminal.wait_for("line three");
    terminal.type_keys("\r");
    let screen = terminal.wait_for("You said: line one");
    assert_eq!(screen.matches("You said").count(), 1, "{screen}");
}

#[test]
fn help_shows_and_goes() {
    let user = UserHome::new();
    let mut terminal = Terminal::open(&user, 120, 40, &[]);
    let before = terminal.wait_for("›");
    terminal.type_keys("\u{1b}OP");
    terminal.wait_until("the help", |screen| screen != before && screen.contains("Alt+Q"));
    terminal.type_keys("\u{1b}OP");
    terminal.wait_for("›");
}

#[test]
fn a_terminal_of_any_size_gets_something_and_never_a_panic() {
    let user = UserHome::new();
    for (columns, rows) in [(1, 1), (5, 2), (39, 9), (40, 10), (46, 11), (500, 200)] {
        let mut terminal = Terminal::open(&user, columns, rows, &[]);
        terminal.wait_until("anything", |screen| !screen.trim().is_empty());
        terminal.resize(120, 40);
        let screen = terminal.wait_for("›");
        assert!(!screen.contains("panicked"), "{columns}x{rows}: {screen}");
    }
}

#[test]
fn a_signal_ends_it_with_the_terminal_restored() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let user = UserHome::new();
        let terminal = Terminal::open(&user, 80, 24, &[]);
        terminal.wait_for("›");
        let seen = terminal.output();
        terminal.signal(signal);
        assert_eq!(terminal.ended(), code);
        assert!(contains(&seen.bytes(), b"\x1b[?1049l"));
    }
}

#[test]
fn more_keys_than_the_terminal_holds_all_arrive() {
    let user = UserHome::new();
    let mut terminal = Terminal::open(&user, 80, 24, &[]);
    terminal.wait_for("Welcome");
    terminal.type_ahead(format!("{} the end", "x".repeat(30_000)));
    terminal.wait_for(" the end");
}

#[test]
fn a_terminal_that_goes_away_in_the_middle_of_typing_ends_the_program() {
    let user = UserHome::new();
    for keys in [10_000, 15_000, 20_000, 25_000] {
        let terminal = Terminal::open(&user, 80, 24, &[]);
        terminal.wait_for("›");
        terminal.take_away(&"x".repeat(keys));
    }
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}
