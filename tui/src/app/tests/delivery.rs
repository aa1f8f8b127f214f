use crossterm::event::KeyCode;
use serde_json::json;
use usher_shared::client::{DeliveryState, Input};
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::protocol::transcript::{MessageMetadata, MessageStatus, Notice, Role};

use super::peer::{Admit, Peer, refusal};
use crate::app::Effect;

fn states(peer: &Peer) -> Vec<DeliveryState> {
    peer.state.deliveries().map(|delivery| delivery.state.clone()).collect()
}

/// A peer that has one prompt whose reply never came.
fn uncertain() -> Peer {
    let mut peer = Peer::online(80, 24);
    peer.admit = Admit::Silence;
    peer.send("maybe");
    for _ in 0..20 {
        peer.pass(5_000);
        if let [DeliveryState::Uncertain { .. }] = states(&peer)[..] {
            return peer;
        }
        // The engine may have dropped the link: it gets another one.
        peer.disconnect();
        peer.pass(1_000);
        peer.link(Input::LinkOpened);
    }
    panic!("still {:?}", states(&peer));
}

fn refused_with(error: &WireError) -> Peer {
    let mut peer = Peer::online(80, 24);
    peer.admit = Admit::Refuse(error.clone());
    peer.send("A prompt");
    peer
}

#[test]
fn c090_a_refused_prompt_is_back_in_the_composer_with_its_own_reason() {
    let full = refusal(ErrorCode::QueueFull).with("queue_size", 10).with("max", 10);
    for (error, reason) in [
        (full, "The queue is full (10 of 10)."),
        (refusal(ErrorCode::Validation).with("field", "content"), "The prompt cannot be sent:"),
        (refusal(ErrorCode::QueueIdConflict), "This prompt was already sent with other text."),
        (refusal(ErrorCode::QueueSessionUnavailable), "This session takes no prompts any more."),
    ] {
        let peer = refused_with(&error);
        assert_eq!(peer.draft(), "A prompt");
        assert_eq!(states(&peer), []);
        let said = peer.state.toast.as_ref().unwrap().text.clone();
        assert!(said.starts_with(&format!("Not accepted: {reason}")), "{said}");
        assert!(!said.contains("developer text"));
    }
}

#[test]
fn c090_a_prompt_without_an_answer_is_never_gone() {
    let peer = uncertain();
    let delivery = peer.state.deliveries().next().unwrap();
    assert_eq!(delivery.params.content, "maybe");
    assert_eq!(delivery.state, DeliveryState::Uncertain { can_check: true });
}

#[test]
fn a_refused_prompt_waits_beside_newer_typing() {
    let mut peer = Peer::online(80, 24);
    peer.disconnect();
    peer.send("older");
    peer.type_text("newer");
    peer.admit = Admit::Refuse(refusal(ErrorCode::QueueFull));
    peer.pass(1_000);
    peer.link(Input::LinkOpened);
    assert_eq!(peer.draft(), "newer");
    assert_eq!(states(&peer), [DeliveryState::Rejected(refusal(ErrorCode::QueueFull))]);
    peer.alt('r');
    assert_eq!((peer.draft(), states(&peer).len()), ("older", 0));
    peer.alt('u');
    assert_eq!(peer.draft(), "newer");
}

#[test]
fn an_uncertain_prompt_is_checked_with_its_own_id() {
    let mut peer = uncertain();
    let first = peer.asked_for("message.queue.add")[0]["client_queue_id"].clone();
    peer.admit = Admit::Accept;
    peer.alt('r');
    let last = peer.asked_for("message.queue.add").pop().unwrap();
    assert_eq!(last["client_queue_id"], first);
    assert_eq!(states(&peer), []);
}

#[test]
fn an_uncertain_prompt_is_sent_as_new_under_a_new_id() {
    let mut peer = uncertain();
    let first = peer.asked_for("message.queue.add")[0].clone();
    peer.admit = Admit::Accept;
    peer.alt('n');
    let last = peer.asked_for("message.queue.add").pop().unwrap();
    assert_ne!(last["client_queue_id"], first["client_queue_id"]);
    assert_eq!(last["content"], first["content"]);
    assert_eq!(states(&peer), []);
}

#[test]
fn a_prompt_that_waits_for_the_link_is_sent_once_or_taken_back() {
    let mut peer = Peer::online(80, 24);
    peer.disconnect();
    peer.send("one");
    peer.send("two");
    assert_eq!(states(&peer), [DeliveryState::WaitingForLink, DeliveryState::Queued]);
    peer.key(KeyCode::Esc);
    assert_eq!(peer.draft(), "two");
    peer.ctrl('c');
    peer.pass(1_000);
    peer.link(Input::LinkOpened);
    let asked = peer.asked_for("message.queue.add");
    assert_eq!((asked.len(), &asked[0]["content"]), (1, &json!("one")));
}

#[test]
fn leaving_with_undelivered_prompts_asks_first() {
    let mut peer = Peer::online(80, 24);
    peer.disconnect();
    peer.send("one");
    peer.ctrl('d');
    assert_eq!(peer.effects, []);
    peer.ctrl('d');
    assert_eq!(peer.effects, [Effect::Quit]);
}

#[test]
fn a_slow_reply_is_announced_and_a_quick_one_is_not() {
    let mut peer = Peer::online(80, 24);
    peer.admit = Admit::Silence;
    peer.send("slow");
    assert_eq!(peer.state.shown_deliveries().count(), 0);
    assert!(peer.state.next_deadline().is_some());
    peer.pass(300);
    assert_eq!(peer.state.shown_deliveries().count(), 1);
}

#[test]
fn a_failed_turn_is_run_again_or_dropped_once() {
    let mut peer = Peer::online(80, 24);
    let turn = peer.run_turn();
    peer.speak(Role::User, Some(turn), "fail");
    peer.notice(turn, Notice::TurnFailed, "out of memory");
    peer.end_turn();
    peer.alt('r');
    peer.alt('x');
    let resolved: Vec<_> = peer
        .asked_for("turn.resolve")
        .into_iter()
        .map(|asked| (asked["turn_id"].clone(), asked["resolution"].clone()))
        .collect();
    assert_eq!(resolved, [(json!(turn), json!("resend")), (json!(turn), json!("drop"))]);
}

#[test]
fn an_uncertain_prompt_of_the_transcript_is_found_by_its_status() {
    let mut peer = Peer::online(80, 24);
    let turn = peer.run_turn();
    let metadata = MessageMetadata::default();
    peer.speak_as(Role::User, Some(turn), "maybe", MessageStatus::Uncertain, metadata);
    peer.end_turn();
    let shown_at = peer.messages[0].id;
    assert_eq!(peer.state.unresolved().map(|unresolved| unresolved.shown_at), Some(shown_at));
}

#[test]
fn what_was_resolved_or_cancelled_offers_nothing() {
    let mut peer = Peer::online(80, 24);
    let turn = peer.run_turn();
    let metadata = MessageMetadata {
        resolution: Some(usher_shared::protocol::transcript::Resolution::Drop),
        ..MessageMetadata::default()
    };
    peer.speak_as(Role::User, Some(turn), "x", MessageStatus::Failed, metadata);
    peer.notice(turn, Notice::TurnFailed, "");
    let turn = peer.run_turn();
    peer.speak(Role::User, Some(turn), "y");
    peer.notice(turn, Notice::TurnCancelled, "");
    peer.end_turn();
    assert_eq!(peer.state.unresolved(), None);
    peer.alt('r');
    assert_eq!(peer.asked_for("turn.resolve").len(), 0);
}

#[test]
fn what_is_said_about_the_text_below_goes_with_that_text() {
    for clear in ["ctrl+c", "ctrl+u", "sent"] {
        let mut peer = Peer::online(80, 24);
        peer.admit = Admit::Refuse(refusal(ErrorCode::QueueFull));
        peer.send("one more");
        let text = peer.state.toast.as_ref().unwrap().text.clone();
        assert!(text.ends_with("Your text is below."), "{text}");
        peer.key(KeyCode::Left);
        assert!(peer.state.toast.is_some());
        peer.key(KeyCode::End);
        match clear {
            "ctrl+c" => peer.ctrl('c'),
            "ctrl+u" => peer.ctrl('u'),
            _ => {
                peer.admit = Admit::Accept;
                peer.key(KeyCode::Enter);
            }
        }
        assert_eq!((peer.draft(), peer.state.toast.is_none()), ("", true), "{clear}");
    }
}

#[test]
fn a_full_queue_that_does_not_run_says_how_it_is_resumed() {
    let mut peer = Peer::online(80, 24);
    peer.queue_entries(&["one", "two"]);
    peer.queue.auto_run = false;
    peer.tell_queue();
    peer.admit = Admit::Refuse(refusal(ErrorCode::QueueFull));
    peer.send("one more");
    let text = peer.state.toast.as_ref().unwrap().text.clone();
    let expected = "Not accepted: The queue is full (2) and auto-run is off. Alt+Q, then p resumes \
                    it; or remove an entry there. Your text is below.";
    assert_eq!(text, expected);
}

#[test]
fn what_is_dropped_says_so_and_its_text_is_one_key_away() {
    let mut peer = uncertain();
    peer.alt('x');
    assert_eq!(states(&peer), []);
    let said = peer.state.toast.as_ref().unwrap().text.clone();
    assert!(said.starts_with("Dropped here; if the server has it, it runs there."), "{said}");
    peer.key(KeyCode::Up);
    assert_eq!(peer.draft(), "maybe");
}
