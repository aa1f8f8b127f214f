use crossterm::event::{KeyCode, KeyModifiers};
use serde_json::json;
use usher_shared::error::ErrorCode;
use usher_shared::protocol::entry::StatusEntry;

use super::peer::{Peer, refusal};
use crate::app::{Attention, Effect, Focus, Message};

fn toast(peer: &Peer) -> Option<&str> {
    peer.state.toast.as_ref().map(|toast| toast.text.as_str())
}

fn hints(peer: &Peer) -> Vec<String> {
    peer.state.hints().into_iter().map(|(key, label)| format!("{key} {}", label.as_str())).collect()
}

#[test]
fn enter_sends_the_draft_with_a_fresh_id() {
    let mut peer = Peer::online(80, 24);
    peer.send("hello");
    peer.send("again");
    let asked = peer.asked_for("message.queue.add");
    let sent: Vec<_> = asked
        .iter()
        .map(|asked| (asked["content"].clone(), asked["client_queue_id"].clone()))
        .collect();
    assert_eq!(sent[0].0, json!("hello"));
    assert_eq!(sent[1].0, json!("again"));
    assert_ne!(sent[0].1, sent[1].1);
    assert_eq!(peer.draft(), "");
}

#[test]
fn blank_drafts_are_not_sent() {
    let mut peer = Peer::online(80, 24);
    peer.send("  \u{200b}");
    assert_eq!(peer.asked_for("message.queue.add").len(), 0);
}

#[test]
fn c121_a_draft_that_is_too_long_stays_with_a_reason() {
    let mut peer = Peer::online(80, 24);
    let text = "x".repeat(262_145);
    peer.take(Message::Paste(text.clone()));
    peer.key(KeyCode::Enter);
    assert_eq!(peer.draft(), text);
    let reason = "This prompt is longer than 256 KiB and cannot be sent. Shorten it.";
    assert_eq!(toast(&peer), Some(reason));
    peer.key(KeyCode::Backspace);
    peer.take(Message::Paste("x".repeat(262_144)));
    peer.key(KeyCode::Enter);
    assert_eq!(peer.asked_for("message.queue.add").len(), 1);
}

#[test]
fn escape_twice_stops_the_turn_that_was_seen() {
    let mut peer = Peer::online(80, 24);
    let turn = peer.run_turn();
    peer.key(KeyCode::Esc);
    assert_eq!(peer.asked_for("turn.cancel").len(), 0);
    peer.key(KeyCode::Esc);
    let asked = peer.asked_for("turn.cancel");
    assert_eq!(asked[0]["expected_turn_id"], json!(turn));
}

#[test]
fn escape_then_another_key_or_a_pause_does_not_stop_it() {
    let mut peer = Peer::online(80, 24);
    peer.run_turn();
    peer.key(KeyCode::Esc);
    peer.key(KeyCode::Char('x'));
    peer.key(KeyCode::Esc);
    peer.pass(6_000);
    peer.key(KeyCode::Esc);
    assert_eq!(peer.asked_for("turn.cancel").len(), 0);
    assert_eq!(peer.draft(), "x");
}

#[test]
fn escape_on_an_idle_session_does_nothing() {
    let mut peer = Peer::online(80, 24);
    peer.type_text("draft");
    peer.key(KeyCode::Esc);
    peer.key(KeyCode::Esc);
    assert_eq!((peer.draft(), peer.effects.as_slice()), ("draft", [].as_slice()));
}

#[test]
fn ctrl_c_clears_then_asks_then_leaves_and_the_text_can_come_back() {
    let mut peer = Peer::online(80, 24);
    peer.type_text("a long draft");
    peer.ctrl('c');
    assert_eq!(peer.draft(), "");
    peer.alt('u');
    assert_eq!(peer.draft(), "a long draft");
    peer.ctrl('c');
    peer.ctrl('c');
    assert_eq!(peer.effects, []);
    peer.ctrl('c');
    assert_eq!(peer.effects, [Effect::Quit]);
}

#[test]
fn ctrl_d_leaves_only_without_text() {
    let mut peer = Peer::online(80, 24);
    peer.type_text("ab");
    peer.key(KeyCode::Home);
    peer.ctrl('d');
    assert_eq!((peer.draft(), peer.effects.as_slice()), ("b", [].as_slice()));
    peer.ctrl('d');
    peer.ctrl('d');
    assert_eq!(peer.effects, [Effect::Quit]);
}

#[test]
fn every_printable_key_is_text_while_writing() {
    let mut peer = Peer::online(80, 24);
    let text = "q?dDp! :/aAr1";
    peer.type_text(text);
    assert_eq!(peer.draft(), text);
}

#[test]
fn the_queue_takes_keys_only_while_it_has_the_focus() {
    let mut peer = Peer::online(80, 24);
    peer.queue_entries(&["one", "two", "three"]);
    peer.type_text("draft");
    peer.alt('q');
    assert_eq!(peer.state.focus, Focus::Queue);
    peer.key(KeyCode::Down);
    peer.key(KeyCode::Char('d'));
    let second = peer.queue.entries[1].id();
    assert_eq!(peer.asked_for("message.queue.remove")[0]["entry_id"], json!(second));
    peer.key(KeyCode::Char('p'));
    assert_eq!(peer.asked_for("message.queue.auto_run.set")[0]["enabled"], json!(false));
    peer.key(KeyCode::Esc);
    assert_eq!((peer.state.focus, peer.draft()), (Focus::Chat, "draft"));
}

#[test]
fn the_selection_follows_its_entry_when_another_client_moves_it() {
    let mut peer = Peer::online(80, 24);
    peer.queue_entries(&["one", "two", "three"]);
    peer.alt('q');
    let first = peer.queue.entries[0].id();
    peer.queue.entries.rotate_left(1);
    peer.tell_queue();
    peer.key(KeyCode::Char('d'));
    assert_eq!(peer.asked_for("message.queue.remove")[0]["entry_id"], json!(first));
}

#[test]
fn clearing_asks_first_and_names_the_queue_that_was_seen() {
    let mut peer = Peer::online(80, 24);
    peer.queue_entries(&["one", "two"]);
    let revision = peer.queue.queue_revision;
    peer.alt('q');
    peer.key(KeyCode::Char('D'));
    peer.key(KeyCode::Esc);
    assert_eq!(peer.asked_for("message.queue.cancel").len(), 0);
    peer.alt('q');
    peer.key(KeyCode::Char('D'));
    peer.queue_entries(&["three"]);
    peer.key(KeyCode::Char('D'));
    let asked = peer.asked_for("message.queue.cancel");
    assert_eq!(asked[0]["expected_queue_revision"], json!(revision));
}

#[test]
fn a_refused_change_is_told_in_words() {
    let mut peer = Peer::online(80, 24);
    peer.queue_entries(&["one"]);
    peer.refuse.push(("message.queue.remove", refusal(ErrorCode::EntryNotFound)));
    peer.alt('q');
    peer.key(KeyCode::Char('d'));
    assert_eq!(toast(&peer), Some("This entry is not in the queue any more."));
    peer.pass(10_000);
    assert_eq!(toast(&peer), None);
}

#[test]
fn a_change_without_a_link_says_that_nothing_changed() {
    let mut peer = Peer::online(80, 24);
    peer.queue_entries(&["one"]);
    peer.disconnect();
    peer.alt('q');
    peer.key(KeyCode::Char('d'));
    assert_eq!(toast(&peer), Some("There is no connection; nothing was changed."));
}

#[test]
fn a_question_takes_the_focus_after_half_a_second_without_keys() {
    let mut peer = Peer::online(80, 24);
    peer.ask("cargo test");
    peer.pass(300);
    peer.type_text("a");
    peer.key(KeyCode::Backspace);
    peer.pass(300);
    peer.type_text("a");
    peer.key(KeyCode::Backspace);
    assert_eq!(peer.asked_for("permission.respond").len(), 0);
    peer.pass(600);
    peer.key(KeyCode::Enter);
    assert_eq!(peer.asked_for("permission.respond").len(), 0);
    assert_eq!(peer.asked_for("message.queue.add").len(), 0);
    assert_eq!(peer.draft(), "");
    peer.key(KeyCode::Char('A'));
    peer.key(KeyCode::Char('r'));
    let asked = peer.asked_for("permission.respond");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["option_id"], json!("always"));
}

#[test]
fn a_sentence_that_begins_over_a_question_does_not_answer_with_its_letters() {
    let mut peer = Peer::online(80, 24);
    peer.ask("rm -rf /");
    peer.pass(2_000);
    peer.type_text("please not");
    assert_eq!(peer.asked_for("permission.respond").len(), 0);
    assert_eq!(peer.draft(), "please not");
    peer.alt('a');
    peer.key(KeyCode::Char('r'));
    assert_eq!(peer.asked_for("permission.respond")[0]["option_id"], json!("no"));
}

#[test]
fn a_prompt_being_typed_never_answers_a_question() {
    let mut peer = Peer::online(80, 24);
    peer.type_text("st");
    peer.ask("rm -rf /");
    for _ in 0..20 {
        peer.type_text("ar");
    }
    assert_eq!(peer.asked_for("permission.respond").len(), 0);
    assert_eq!(peer.draft(), format!("st{}", "ar".repeat(20)));
    // However long its writer thinks.
    peer.pass(60_000);
    peer.type_text(" at it");
    assert_eq!(peer.asked_for("permission.respond").len(), 0);
    assert_eq!(peer.draft(), format!("st{} at it", "ar".repeat(20)));
    assert_eq!(peer.state.permission_options(80)[0].to_string(), "Alt+A to answer");
    peer.alt('a');
    peer.key(KeyCode::Char('r'));
    assert_eq!(peer.asked_for("permission.respond")[0]["option_id"], json!("no"));
}

#[test]
fn a_question_can_be_put_aside_and_answered_later() {
    let mut peer = Peer::online(80, 24);
    peer.ask("cargo test");
    peer.pass(600);
    peer.key(KeyCode::Esc);
    peer.send("also this");
    assert_eq!(peer.asked_for("message.queue.add").len(), 1);
    peer.alt('a');
    peer.key(KeyCode::Char('r'));
    assert_eq!(peer.asked_for("permission.respond")[0]["option_id"], json!("no"));
}

#[test]
fn a_question_that_somebody_answered_gives_the_keys_back() {
    let mut peer = Peer::online(80, 24);
    peer.ask("cargo test");
    peer.pass(600);
    peer.end_turn();
    peer.type_text("a");
    assert_eq!(peer.draft(), "a");
}

#[test]
fn an_answer_that_was_refused_can_be_given_again() {
    let mut peer = Peer::online(80, 24);
    peer.refuse.push(("permission.respond", refusal(ErrorCode::Internal)));
    peer.ask("cargo test");
    peer.pass(600);
    peer.key(KeyCode::Char('a'));
    peer.key(KeyCode::Char('a'));
    assert_eq!(peer.asked_for("permission.respond").len(), 2);
}

#[test]
fn the_bell_rings_only_while_nobody_looks() {
    let mut peer = Peer::online(80, 24);
    peer.ask("one");
    assert_eq!(peer.effects, []);
    peer.end_turn();
    peer.take(Message::Attention(Attention::Elsewhere));
    peer.ask("two");
    assert_eq!(peer.effects, [Effect::Bell]);
}

#[test]
fn a_paste_goes_into_the_draft_wherever_the_focus_is() {
    let mut peer = Peer::online(80, 24);
    peer.queue_entries(&["one"]);
    for open in [KeyCode::F(1), KeyCode::Esc] {
        peer.key(open);
    }
    peer.alt('q');
    peer.take(Message::Paste("d\nD\np".to_owned()));
    assert_eq!((peer.draft(), peer.state.focus), ("d\nD\np", Focus::Chat));
    assert_eq!(peer.asked_for("message.queue.remove").len(), 0);
}

#[test]
fn c119_a_burst_without_paste_marks_becomes_one_prompt() {
    let mut peer = Peer::online(80, 24);
    for c in "a\nb\rc\nd".chars() {
        let code = match c {
            '\n' | '\r' => KeyCode::Enter,
            c => KeyCode::Char(c),
        };
        let event = crossterm::event::KeyEvent::new(code, KeyModifiers::NONE);
        peer.take(Message::Key(event));
    }
    peer.pass(1_000);
    assert_eq!(peer.asked_for("message.queue.add").len(), 0);
    peer.key(KeyCode::Enter);
    let asked = peer.asked_for("message.queue.add");
    assert_eq!((asked.len(), &asked[0]["content"]), (1, &json!("a\nb\nc\nd")));
}

#[test]
fn help_closes_with_the_key_that_opened_it() {
    let mut peer = Peer::online(80, 24);
    peer.key(KeyCode::F(1));
    assert_eq!(peer.state.focus, Focus::Help);
    peer.key(KeyCode::Char('x'));
    peer.key(KeyCode::F(1));
    assert_eq!((peer.state.focus, peer.draft()), (Focus::Chat, ""));
}

#[test]
fn help_goes_back_to_where_it_was_opened_and_opens_at_its_top() {
    let mut peer = Peer::online(80, 24);
    peer.queue_entries(&["one"]);
    peer.alt('q');
    peer.key(KeyCode::Char('?'));
    peer.key(KeyCode::PageDown);
    assert_ne!(peer.state.help.first_row, 0);
    peer.key(KeyCode::Esc);
    assert_eq!(peer.state.focus, Focus::Queue);
    peer.key(KeyCode::F(1));
    assert_eq!((peer.state.focus, peer.state.help.first_row), (Focus::Help, 0));
    peer.key(KeyCode::Esc);
    peer.alt('s');
    peer.key(KeyCode::F(1));
    peer.key(KeyCode::F(1));
    assert_eq!(peer.state.focus, Focus::Sessions);
}

#[test]
fn the_last_page_of_the_help_offers_no_more() {
    let mut peer = Peer::online(80, 24);
    peer.key(KeyCode::F(1));
    assert_eq!(hints(&peer), ["Esc back", "PgDn more"]);
    for _ in 0..9 {
        peer.key(KeyCode::PageDown);
    }
    assert_eq!(hints(&peer), ["Esc back"]);
}

#[test]
fn a_turn_that_is_being_stopped_is_not_offered_to_be_stopped() {
    let mut peer = Peer::online(40, 20);
    peer.run_turn();
    assert!(hints(&peer).contains(&"Esc stop turn".to_owned()), "{:?}", hints(&peer));
    peer.session.state = usher_shared::protocol::session::SessionState::Cancelling;
    peer.tell_session();
    assert!(!hints(&peer).contains(&"Esc stop turn".to_owned()), "{:?}", hints(&peer));
    peer.key(KeyCode::Esc);
    peer.key(KeyCode::Esc);
    assert_eq!(peer.asked_for("turn.cancel").len(), 0);
}

#[test]
fn an_answer_on_its_way_is_not_given_twice() {
    let mut peer = Peer::online(80, 24);
    peer.ask("cargo test");
    peer.pass(600);
    peer.key(KeyCode::Char('a'));
    peer.alt('a');
    peer.key(KeyCode::Char('r'));
    assert_eq!(peer.asked_for("permission.respond").len(), 1);
}

#[test]
fn stubs_of_a_long_queue_can_be_removed_too() {
    let mut peer = Peer::online(80, 24);
    peer.queue_entries(&["one"]);
    let id = peer.queue.entries[0].id();
    let position = match &peer.queue.entries[0] {
        StatusEntry::Whole(entry) => entry.position,
        StatusEntry::Stub { position, .. } => *position,
    };
    peer.queue.entries = vec![StatusEntry::Stub { id, position, truncated: true }];
    peer.tell_queue();
    peer.alt('q');
    peer.key(KeyCode::Char('d'));
    assert_eq!(peer.asked_for("message.queue.remove")[0]["entry_id"], json!(id));
}
