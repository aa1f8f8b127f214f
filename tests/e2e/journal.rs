//! Prompts and drafts outlive the client that they were typed in.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::Signal;
use rustix::termios::{Winsize, tcsetwinsize};
use usher_tests::cli::UserHome;
use usher_tests::journal::{Journal, Kept};
use usher_tests::pty::Terminal;
use usher_tests::random::Random;

/// A chat of a user whose first session is there.
fn chat(user: &UserHome) -> Terminal {
    let terminal = Terminal::open(user, 120, 40, &[]);
    terminal.wait_for("You said: hi");
    terminal
}

/// A user with a session that does not run what waits.
fn paused() -> UserHome {
    let user = UserHome::new();
    user.configure("max_per_session = 0\n");
    let ran = user.usher(&["send", "--wait", "hi"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = user.usher(&["queue", "auto-run", "off"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    user
}

/// The texts that wait.
fn waiting(user: &UserHome) -> Vec<String> {
    let ran = user.usher(&["queue", "list", "--json"]);
    let status = ran.json().pop().unwrap();
    let entries = status["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["content"].as_str().unwrap().to_owned()).collect()
}

fn kept(text: &str, stage: &str) -> Kept {
    Kept { text: text.to_owned(), stage: stage.to_owned() }
}

#[test]
fn a_prompt_in_flight_when_its_client_is_killed_is_confirmed_and_never_sent_again() {
    let user = paused();
    let mut terminal = chat(&user);
    user.signal_server(Signal::STOP);
    terminal.submit("in flight");
    terminal.wait_for("Sending:");
    assert_eq!(Journal::of(&user).prompts(), [kept("in flight", "sent")]);
    terminal.signal(Signal::KILL);
    terminal.ended();
    user.signal_server(Signal::CONT);
    let terminal = chat(&user);
    terminal.wait_for("queue 1 ");
    let journal = Journal::of(&user);
    journal.wait_until("confirmed", |journal| journal.prompts().is_empty());
    assert_eq!(waiting(&user), ["in flight"]);
    assert!(!terminal.screen().contains("uncertain"), "{}", terminal.screen());
}

#[test]
fn a_prompt_that_died_with_client_and_server_is_shown_as_uncertain_and_checked_by_key() {
    let user = paused();
    let mut terminal = chat(&user);
    user.signal_server(Signal::STOP);
    terminal.submit("in flight");
    terminal.wait_for("Sending:");
    user.signal_server(Signal::KILL);
    terminal.signal(Signal::KILL);
    terminal.ended();
    let mut terminal = chat(&user);
    let screen = terminal.wait_for("Delivery uncertain");
    assert!(screen.contains("in flight") && screen.contains("check and resend"), "{screen}");
    assert_eq!(waiting(&user), Vec::<String>::new(), "nothing is sent behind one's back");
    terminal.type_keys("\u{1b}r");
    terminal.wait_for("queue 1 ");
    assert_eq!(waiting(&user), ["in flight"]);
    Journal::of(&user).wait_until("confirmed", |journal| journal.prompts().is_empty());
}

/// A chat whose server was stopped, with a prompt that waits for it.
fn offline_with_a_prompt(user: &UserHome) -> Terminal {
    let mut terminal = chat(user);
    assert_eq!(user.usher(&["stop"]).code, 0);
    terminal.wait_until("a chat without a link", |screen| !screen.contains("●"));
    terminal.submit("typed offline");
    terminal.wait_for("Waiting for a connection");
    let journal = Journal::of(user);
    journal.wait_until("kept", |journal| journal.prompts() == [kept("typed offline", "unsent")]);
    terminal
}

#[test]
fn a_prompt_that_waited_for_a_link_in_a_killed_client_is_sent_by_the_next_one() {
    let user = paused();
    let terminal = offline_with_a_prompt(&user);
    terminal.signal(Signal::KILL);
    terminal.ended();
    let terminal = chat(&user);
    terminal.wait_for("queue 1 ");
    assert_eq!(waiting(&user), ["typed offline"]);
}

#[test]
fn leaving_says_that_prompts_are_kept_and_keeps_them() {
    let user = paused();
    let mut terminal = offline_with_a_prompt(&user);
    terminal.type_keys("\u{3}");
    terminal.wait_for("It is kept");
    terminal.type_keys("\u{3}");
    assert_eq!(terminal.ended(), 0);
    let terminal = chat(&user);
    terminal.wait_for("queue 1 ");
    assert_eq!(waiting(&user), ["typed offline"]);
}

#[test]
fn a_prompt_that_was_never_sent_and_is_old_comes_back_as_a_draft() {
    let user = paused();
    let terminal = offline_with_a_prompt(&user);
    terminal.signal(Signal::KILL);
    terminal.ended();
    Journal::of(&user).age(600_001);
    let terminal = chat(&user);
    let screen = terminal.wait_for("› typed offline");
    assert!(screen.contains("never sent"), "{screen}");
    assert_eq!(waiting(&user), Vec::<String>::new());
    let journal = Journal::of(&user);
    journal.wait_until("a draft", |journal| {
        journal.prompts().is_empty() && journal.drafts() == ["typed offline"]
    });
}

#[test]
fn a_command_keeps_nothing_that_its_caller_was_told_of() {
    let user = paused();
    let journal = Journal::of(&user);
    assert_eq!(user.usher(&["send", "--id", "k", "one"]).code, 0);
    assert_eq!(user.usher(&["send", "--id", "k", "another"]).code, 3);
    assert_eq!(journal.prompts(), []);
}

#[test]
fn a_living_client_keeps_its_own_prompts() {
    let user = paused();
    let first = offline_with_a_prompt(&user);
    let second = chat(&user);
    second.wait_until("the first one's prompt, sent by the first", |screen| {
        screen.contains("queue 1 ")
    });
    assert_eq!(waiting(&user), ["typed offline"]);
    first.wait_for("queue 1 ");
}

#[test]
fn c092_every_session_has_its_own_draft_and_a_killed_client_loses_none() {
    let user = paused();
    let mut terminal = chat(&user);
    terminal.type_keys("draft x");
    terminal.wait_for("› draft x");
    terminal.type_keys("\u{1b}s");
    terminal.wait_for("new");
    terminal.type_keys("n");
    terminal.wait_until("another session", |screen| !screen.contains("draft x"));
    terminal.wait_for("Welcome");
    terminal.type_keys("draft y");
    terminal.wait_for("› draft y");
    let journal = Journal::of(&user);
    journal.wait_until("both drafts", |journal| journal.drafts() == ["draft x", "draft y"]);
    terminal.signal(Signal::KILL);
    terminal.ended();
    let mut terminal = Terminal::open(&user, 120, 40, &[]);
    terminal.wait_for("› draft y");
    terminal.type_keys("\u{1b}s\u{1b}[B\r");
    terminal.wait_for("› draft x");
    terminal.type_keys("\r");
    let screen = terminal.wait_for("queue 1 ");
    assert!(screen.contains("1  draft x") && !screen.contains("draft y"), "{screen}");
}

#[test]
fn what_is_written_before_the_server_answers_survives_as_well() {
    let user = paused();
    user.signal_server(Signal::STOP);
    let mut terminal = Terminal::open(&user, 120, 40, &[]);
    terminal.wait_for("Waiting for the server");
    terminal.type_keys("early words");
    let journal = Journal::of(&user);
    journal.wait_until("a draft", |journal| journal.drafts() == ["early words"]);
    terminal.signal(Signal::KILL);
    terminal.ended();
    let terminal = Terminal::open(&user, 120, 40, &[]);
    terminal.wait_for("› early words");
    user.signal_server(Signal::CONT);
    let screen = terminal.wait_for("You said: hi");
    assert_eq!(screen.matches("early words").count(), 1, "{screen}");
    journal.wait_until("one draft", |journal| journal.drafts() == ["early words"]);
}

#[test]
fn a_terminal_that_is_gone_ends_the_chat_without_a_signal_and_keeps_the_draft() {
    let user = paused();
    let (keyboard, mut chat) = without_a_session(&user);
    rustix::io::write(&keyboard, b"typed and gone").unwrap();
    let journal = Journal::of(&user);
    journal.wait_until("a draft", |journal| {
        // Somebody has to take what is drawn.
        while rustix::io::read(&keyboard, &mut [0; 4096]).is_ok() {}
        journal.drafts() == ["typed and gone"]
    });
    rustix::io::write(&keyboard, b"!").unwrap();
    drop(keyboard);
    assert_eq!(chat.wait().unwrap().code(), Some(129));
    assert_eq!(journal.drafts(), ["typed and gone!"]);
}

/// A chat in a terminal whose end no signal tells it of: it leads no session.
fn without_a_session(user: &UserHome) -> (OwnedFd, Child) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&keyboard, size).unwrap();
    fcntl_setfl(&keyboard, OFlags::NONBLOCK).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let path = ptsname(&keyboard, Vec::new()).unwrap();
    let mut options = File::options();
    // O_NOCTTY: it does not become the terminal of the tests either.
    let terminal = options.read(true).write(true).custom_flags(0o400);
    let terminal = terminal.open(OsStr::from_bytes(path.as_bytes())).unwrap();
    let mut command = Command::new(usher_tests::binaries::usher());
    command.env_clear().envs(user.environment()).current_dir(user.home().path("work"));
    command.stdin(terminal.try_clone().unwrap()).stdout(terminal.try_clone().unwrap());
    (keyboard, command.stderr(terminal).spawn().unwrap())
}

#[test]
fn c093_choosing_the_open_session_or_another_size_leaves_the_draft_alone() {
    let user = paused();
    let mut terminal = chat(&user);
    terminal.type_keys("long text");
    terminal.wait_for("› long text");
    terminal.type_keys("\u{1b}s\r");
    terminal.resize(80, 24);
    terminal.wait_for("› long text");
    terminal.resize(40, 20);
    terminal.wait_for("› long text");
    terminal.resize(120, 40);
    terminal.wait_for("› long text");
}

#[test]
fn c095_a_client_killed_right_after_enter_leaves_each_prompt_once_here_or_there() {
    let user = paused();
    let journal = Journal::of(&user);
    let (mut random, seed) = Random::from_environment();
    let rounds = 100;
    for round in 0..rounds {
        let text = format!("round {round} of many");
        let mut terminal = chat(&user);
        terminal.type_keys(&text);
        // Before that it is on the screen alone, like in any editor.
        journal.wait_until("a draft", |journal| journal.drafts().contains(&text));
        terminal.type_keys("\r");
        // The moment is what the test is about; nothing is waited for.
        std::thread::sleep(std::time::Duration::from_micros(random.below(50_000)));
        terminal.signal(Signal::KILL);
        terminal.ended();
        // A draft that is left would stand before the next text.
        let drafts = journal.drafts();
        if drafts.contains(&text) {
            assert!(!journal.prompts().iter().any(|kept| kept.text == text), "kept twice");
            assert!(!waiting(&user).contains(&text), "{text} is sent and still a draft");
            let mut terminal = chat(&user);
            terminal.wait_for(&text);
            terminal.type_keys("\r");
            terminal.wait_until("sent", |screen| !screen.contains(&format!("› {text}")));
            journal.wait_until("done", |journal| journal.drafts().is_empty());
        }
    }
    let terminal = chat(&user);
    journal
        .wait_until("settled", |journal| journal.prompts().iter().all(|kept| kept.stage == "sent"));
    drop(terminal);
    let (sent, left) = (waiting(&user), journal.prompts());
    for round in 0..rounds {
        let text = format!("round {round} of many");
        let there = sent.iter().filter(|sent| **sent == text).count();
        let here = left.iter().filter(|kept| kept.text == text).count();
        assert!(there <= 1 && there + here >= 1, "{text}: {there} there, {here} here, seed {seed}");
    }
}

#[test]
fn without_a_place_to_write_prompts_are_sent_and_it_is_said() {
    let user = paused();
    let folder = Journal::of(&user).folder();
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "in the way").unwrap();
    let ran = user.usher(&["send", "from a script"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("could not be written to disk"), "{ran:?}");
    let mut terminal = chat(&user);
    terminal.submit("from a chat");
    terminal.wait_for("could not be written to disk");
    terminal.wait_for("queue 2 ");
    assert_eq!(waiting(&user), ["from a script", "from a chat"]);
}
