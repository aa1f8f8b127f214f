//! Each state at three sizes, compared with `screens/<state>.txt` as a whole. After a wanted
//! change, `USHER_BLESS=1 cargo test -p usher-tui screens` writes the files anew; read the diff.

use std::fs;
use std::path::Path;

use crossterm::event::KeyCode;
use usher_shared::client::Input;
use usher_shared::error::ErrorCode;
use usher_shared::protocol::entry::{Editing, StatusEntry};
use usher_shared::protocol::session::SessionState;
use usher_shared::protocol::transcript::{MessageMetadata, MessageStatus, Notice, Role};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::AutoRunReason;

use super::screen;
use crate::app::Message;
use crate::app::tests::peer::{Admit, NOON, Peer, me, refusal};
use crate::driver::Trouble;
use crate::theme::{Charset, Colours, Theme};

const SIZES: &[(u16, u16)] = &[(120, 40), (80, 24), (40, 20)];

/// Compares the screens that `play` leads to, at every size.
fn compare(name: &str, play: impl Fn(&mut Peer)) {
    compare_at(name, SIZES, play);
}

fn compare_at(name: &str, sizes: &[(u16, u16)], play: impl Fn(&mut Peer)) {
    let mut screens = String::new();
    for (columns, rows) in sizes {
        let mut peer = Peer::new(*columns, *rows);
        play(&mut peer);
        screens.push_str(&format!("== {columns}x{rows}\n{}", screen(&peer.state)));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/view/tests/screens");
    let file = folder.join(format!("{name}.txt"));
    if std::env::var_os("USHER_BLESS").is_some() {
        fs::create_dir_all(folder).unwrap();
        fs::write(&file, &screens).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(screens == expected, "{name} now looks like this:\n{screens}");
}

/// A turn that runs while three prompts wait.
fn conversation(peer: &mut Peer) {
    peer.connect();
    let turn = Some(peer.run_turn());
    peer.speak(Role::User, turn, "Why does retry_after_timeout fail every tenth run?");
    let answer = "The test races the clock: the backoff is computed before the fake clock is \
                  installed. Two ways to fix it:\n  1. install the clock in the fixture\n  2. pass \
                  the clock in";
    peer.speak(Role::Agent, turn, answer);
    let tool =
        MessageMetadata { tool: Some("cargo test retry".to_owned()), ..MessageMetadata::default() };
    let output = "line\n".repeat(38);
    peer.speak_as(Role::Tool, turn, &output, MessageStatus::Complete, tool);
    peer.speak_as(
        Role::Agent,
        turn,
        "I am now changing the fixture so that",
        MessageStatus::Streaming,
        MessageMetadata::default(),
    );
    peer.queue_entries(&[
        "then run the whole suite ten times",
        "and write the changelog line",
        "open a PR titled \"Fix flaky retry test\"",
    ]);
    peer.pass(41_000);
}

#[test]
fn connecting() {
    compare("connecting", |peer| peer.link(Input::Start));
}

#[test]
fn welcome() {
    compare("welcome", Peer::connect);
}

#[test]
fn running_with_a_queue() {
    compare("running", |peer| {
        conversation(peer);
        let StatusEntry::Whole(entry) = &mut peer.queue.entries[1] else {
            panic!("a stub");
        };
        let mut anna = me();
        anna.name = "anna".to_owned();
        entry.editing =
            Some(Editing { by: anna, is_you: false, expires_at: UnixMillis::new(NOON) });
        peer.tell_queue();
        peer.type_text("also check the timeout in client.rs");
    });
}

#[test]
fn queue_with_the_focus() {
    compare("queue", |peer| {
        conversation(peer);
        let more: Vec<String> = (4..=12).map(|number| format!("prompt number {number}")).collect();
        peer.queue_entries(&more.iter().map(String::as_str).collect::<Vec<_>>());
        peer.type_text("a draft stays");
        peer.alt('q');
        for _ in 0..10 {
            peer.key(KeyCode::Down);
        }
    });
}

#[test]
fn queue_that_does_not_fit() {
    compare("queue-more", |peer| {
        conversation(peer);
        peer.queue_entries(&["four", "five", "six", "seven"]);
    });
}

#[test]
fn queue_that_does_not_fit_while_auto_run_is_off() {
    compare_at("paused-more", &[(80, 24), (40, 20)], |peer| {
        peer.connect();
        peer.queue_entries(&["one", "two", "three", "four", "five"]);
        peer.queue.auto_run = false;
        peer.queue.auto_run_reason = Some(AutoRunReason::User);
        peer.tell_queue();
    });
}

#[test]
fn turn_that_is_being_stopped() {
    compare("stopping", |peer| {
        conversation(peer);
        peer.session.state = SessionState::Cancelling;
        peer.tell_session();
    });
}

#[test]
fn queue_from_which_one_was_removed() {
    compare("removed", |peer| {
        peer.connect();
        peer.queue_entries(&["then run the whole suite ten times, and tell me what failed", "two"]);
        peer.alt('q');
        peer.key(KeyCode::Char('d'));
        peer.queue.entries.remove(0);
        peer.tell_queue();
    });
}

#[test]
fn last_page_of_the_keys() {
    compare("help-end", |peer| {
        peer.connect();
        peer.key(KeyCode::F(1));
        for _ in 0..9 {
            peer.key(KeyCode::PageDown);
        }
    });
}

#[test]
fn auto_run_off_with_a_reason() {
    compare("paused", |peer| {
        peer.connect();
        peer.queue_entries(&["one", "two"]);
        peer.queue.auto_run = false;
        peer.queue.auto_run_reason = Some(AutoRunReason::Interrupted);
        peer.tell_queue();
    });
}

#[test]
fn permission() {
    compare("permission", |peer| {
        conversation(peer);
        peer.ask("rm -rf target/tmp && cargo test --release");
        peer.pass(600);
    });
}

#[test]
fn uncertain_delivery() {
    compare("uncertain", |peer| {
        peer.connect();
        peer.admit = Admit::Silence;
        peer.send("deploy to staging, then tell me what changed since the last time");
        for _ in 0..20 {
            if peer.state.undecided().is_some() {
                break;
            }
            peer.pass(5_000);
            peer.disconnect();
            peer.pass(1_000);
            peer.link(Input::LinkOpened);
        }
        peer.type_text("typed since");
    });
}

#[test]
fn refused_prompt_is_back() {
    compare("refused", |peer| {
        peer.connect();
        let full = refusal(ErrorCode::QueueFull).with("queue_size", 10).with("max", 10);
        peer.admit = Admit::Refuse(full);
        peer.send("one more");
    });
}

#[test]
fn refused_prompt_beside_newer_typing() {
    compare("refused-beside", |peer| {
        peer.connect();
        peer.disconnect();
        peer.send("older");
        peer.type_text("newer");
        peer.admit = Admit::Refuse(refusal(ErrorCode::QueueSessionUnavailable));
        peer.pass(1_000);
        peer.link(Input::LinkOpened);
    });
}

#[test]
fn offline() {
    compare("offline", |peer| {
        conversation(peer);
        peer.disconnect();
        peer.send("and this");
        peer.type_text("still typing");
    });
}

#[test]
fn offline_with_prompts_to_take_back() {
    compare("offline-waiting", |peer| {
        peer.connect();
        peer.disconnect();
        peer.send("one");
        peer.send("two");
        peer.pass(400);
    });
}

#[test]
fn certificate_that_is_not_trusted() {
    compare("not-trusted", |peer| {
        peer.link(Input::Start);
        peer.fail_to_connect(Trouble::not_trusted("wss://chat.example:443"));
        peer.type_text("what I was about to say");
    });
}

#[test]
fn trouble_is_over_when_the_link_is_there() {
    let mut peer = Peer::new(120, 40);
    peer.link(Input::Start);
    peer.fail_to_connect(Trouble::not_trusted("wss://chat.example:443"));
    assert!(screen(&peer.state).contains("chat.example"));
    peer.pass(400);
    peer.link(Input::LinkOpened);
    assert!(!screen(&peer.state).contains("chat.example"));
    // The next time that it is gone is another story.
    peer.disconnect();
    assert!(screen(&peer.state).contains("offline, trying again"));
}

#[test]
fn wrong_token() {
    compare("unauthorized", |peer| {
        peer.refuse.push(("hello", refusal(ErrorCode::Unauthorized)));
        peer.connect();
    });
}

#[test]
fn interrupted_turn() {
    compare("interrupted", |peer| {
        peer.connect();
        let turn = peer.run_turn();
        peer.speak(Role::User, Some(turn), "Refactor the parser.");
        let metadata = MessageMetadata::default();
        let half = "I have begun with";
        peer.speak_as(Role::Agent, Some(turn), half, MessageStatus::Interrupted, metadata);
        peer.notice(turn, Notice::TurnInterrupted, "");
        peer.end_turn();
    });
}

#[test]
fn stop_question() {
    compare("stop", |peer| {
        conversation(peer);
        peer.key(KeyCode::Esc);
    });
}

#[test]
fn scrolled_up() {
    compare("scrolled", |peer| {
        peer.connect();
        for number in 0..30 {
            peer.speak(Role::User, None, &format!("message {number}"));
        }
        peer.key(KeyCode::PageUp);
    });
}

#[test]
fn help() {
    compare("help", |peer| {
        peer.connect();
        peer.key(KeyCode::F(1));
    });
}

#[test]
fn sessions() {
    compare("sessions", |peer| {
        let mut other = peer.session.clone();
        other.id = usher_shared::id::SessionId::from_uuid(uuid::Uuid::from_u128(77));
        other.title = "docs for v2".to_owned();
        peer.sessions.push(other);
        conversation(peer);
        peer.alt('s');
        peer.key(KeyCode::Down);
    });
}

#[test]
fn long_paste_and_wide_text() {
    compare("paste", |peer| {
        peer.connect();
        peer.type_text("look: ");
        peer.take(Message::Paste("log line\n".repeat(500)));
        peer.type_text(" 你好世界你 👨‍👩‍👧‍👦 🇩🇪 e\u{301}");
    });
}

#[test]
fn c112_c115_hostile_text_cannot_leave_its_place() {
    compare("hostile", |peer| {
        peer.connect();
        let hostile = "a\tb x\r\ny p\u{8}q\u{7} \u{1b}[31mred\u{1b}[2J \u{1b}]0;title\u{7} \
                       \u{85}\u{2028}z harmless\u{202e}txt.exe \u{2066}nested\u{2069}";
        peer.session.title = hostile.to_owned();
        peer.session.agent = "de\u{1b}[5mmo".to_owned();
        peer.tell_session();
        let tower = format!("tower a{} مرحبا gpt-5 שלום", "\u{301}".repeat(300));
        peer.speak(Role::User, None, hostile);
        peer.speak(Role::Agent, None, &tower);
        peer.queue_entries(&[hostile, &tower, "the row after"]);
        peer.take(Message::Paste(hostile.to_owned()));
    });
}

#[test]
fn ascii_twins() {
    compare_at("ascii", &[(80, 24)], |peer| {
        peer.state.theme = Theme::new(Colours::None, Charset::Ascii);
        conversation(peer);
        peer.alt('q');
    });
}

#[test]
fn too_small() {
    compare_at("too-small", &[(39, 10), (40, 9), (10, 3), (1, 1), (0, 0)], conversation);
}
