use crossterm::event::KeyCode;
use serde_json::{Value, json};
use usher_shared::error::ErrorCode;

use super::peer::{Peer, refusal};

/// A queue with the focus; its first entries were removed one after the other.
fn removed(contents: &[&str], count: usize) -> Peer {
    let mut peer = Peer::online(80, 24);
    peer.queue_entries(contents);
    peer.alt('q');
    for _ in 0..count {
        peer.key(KeyCode::Char('d'));
        peer.queue.entries.remove(0);
        peer.tell_queue();
    }
    peer
}

fn toast(peer: &Peer) -> Option<&str> {
    peer.state.toast.as_ref().map(|toast| toast.text.as_str())
}

fn restored(peer: &Peer) -> Vec<Value> {
    let asked = peer.asked_for("message.queue.restore");
    asked.into_iter().map(|asked| asked["undo_id"].clone()).collect()
}

fn hints(peer: &Peer) -> Vec<String> {
    peer.state.hints().into_iter().map(|(key, label)| format!("{key} {}", label.as_str())).collect()
}

#[test]
fn a_removed_prompt_is_named_and_comes_back() {
    let mut peer = removed(&["run the tests", "deploy"], 1);
    let said = "Removed “run the tests”. z in the queue brings it back.";
    assert_eq!(toast(&peer), Some(said));
    assert!(hints(&peer).contains(&"z undo".to_owned()), "{:?}", hints(&peer));
    peer.key(KeyCode::Char('z'));
    assert_eq!(restored(&peer).len(), 1);
    assert_eq!(toast(&peer), Some("One prompt is back in the queue."));
    peer.key(KeyCode::Char('z'));
    assert_eq!(restored(&peer).len(), 1);
    assert_eq!(toast(&peer), Some("You removed nothing here that could be brought back."));
    assert!(!hints(&peer).contains(&"z undo".to_owned()), "{:?}", hints(&peer));
}

#[test]
fn removals_are_undone_newest_first_with_either_key() {
    let mut peer = removed(&["one", "two", "three"], 2);
    let undone: [Value; 2] = [1005, 1004].map(|id: u128| json!(uuid::Uuid::from_u128(id)));
    peer.alt('u');
    peer.key(KeyCode::Char('z'));
    assert_eq!(restored(&peer), undone);
}

#[test]
fn a_cleared_queue_comes_back() {
    let mut peer = removed(&["one", "two"], 0);
    peer.key(KeyCode::Char('D'));
    peer.key(KeyCode::Char('D'));
    let said = "2 prompts were removed. z in the queue brings them back.";
    assert_eq!(toast(&peer), Some(said));
    peer.key(KeyCode::Char('z'));
    assert_eq!(restored(&peer).len(), 1);
}

#[test]
fn what_expired_says_so_and_is_not_offered_again() {
    let mut peer = removed(&["one"], 1);
    peer.refuse.push(("message.queue.restore", refusal(ErrorCode::UndoExpired)));
    peer.key(KeyCode::Char('z'));
    assert_eq!(toast(&peer), Some("What was removed cannot be brought back any more."));
    peer.key(KeyCode::Char('z'));
    assert_eq!(restored(&peer).len(), 1);
}

#[test]
fn what_could_not_be_asked_can_be_asked_again() {
    let mut peer = removed(&["one"], 1);
    peer.disconnect();
    peer.key(KeyCode::Char('z'));
    assert_eq!(toast(&peer), Some("There is no connection; nothing was changed."));
    peer.pass(1_000);
    peer.link(usher_shared::client::Input::LinkOpened);
    peer.refuse.push(("message.queue.restore", refusal(ErrorCode::ShuttingDown)));
    peer.key(KeyCode::Char('z'));
    peer.refuse.clear();
    peer.key(KeyCode::Char('z'));
    assert_eq!(restored(&peer).len(), 2);
    assert_eq!(toast(&peer), Some("One prompt is back in the queue."));
}

#[test]
fn an_empty_queue_offers_nothing_to_remove() {
    let mut peer = removed(&[], 0);
    assert_eq!(hints(&peer), ["Esc back", "p pause", "? keys"]);
    peer.key(KeyCode::Char('d'));
    assert_eq!(peer.asked_for("message.queue.remove").len(), 0);
}
