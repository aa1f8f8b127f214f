use crossterm::event::{KeyCode, KeyModifiers};
use usher_shared::counter::MessageSeq;
use usher_shared::protocol::transcript::{MessageMetadata, MessageStatus, Role};
use usher_shared::time::UnixMillis;

use super::peer::Peer;
use crate::app::message_rows::RowKind;

/// A session with this many messages of two lines each.
fn with_messages(count: usize) -> Peer {
    let mut peer = Peer::new(80, 24);
    peer.speak(Role::User, None, "x");
    let template = peer.messages.pop().unwrap();
    for number in 0..count {
        let mut message = template.clone();
        message.id =
            usher_shared::id::MessageId::from_uuid(uuid::Uuid::from_u128(90_000 + number as u128));
        message.seq = MessageSeq::new(number as u64 + 1);
        message.content = format!("message {number}\nmore");
        peer.messages.push(message);
    }
    peer.connect();
    peer
}

fn shown(peer: &Peer) -> Vec<String> {
    let (columns, height) = peer.state.transcript_size();
    let window = peer.state.transcript_window(columns, height);
    window.rows.iter().map(|row| row.text.to_string()).collect()
}

fn shift(peer: &mut Peer, code: KeyCode) {
    peer.press(KeyModifiers::SHIFT, code);
}

#[test]
fn the_end_is_shown_and_followed() {
    let mut peer = with_messages(50);
    assert_eq!(shown(&peer).last().unwrap(), "more");
    peer.messages.clear();
    peer.speak_as(
        Role::Agent,
        None,
        "a new one",
        MessageStatus::Complete,
        MessageMetadata::default(),
    );
    assert_eq!(shown(&peer).len(), peer.state.transcript_size().1);
}

#[test]
fn rows_scroll_one_by_one_and_back() {
    let mut peer = with_messages(50);
    let at_end = shown(&peer);
    for _ in 0..7 {
        shift(&mut peer, KeyCode::Up);
    }
    let up = shown(&peer);
    assert_eq!(up[7..], at_end[..at_end.len() - 7]);
    for _ in 0..7 {
        shift(&mut peer, KeyCode::Down);
    }
    assert_eq!(shown(&peer), at_end);
    assert!(peer.state.transcript.follows());
}

#[test]
fn every_row_is_seen_once_by_pages() {
    let mut peer = with_messages(50);
    peer.press(KeyModifiers::CONTROL, KeyCode::Home);
    assert_eq!(shown(&peer)[1], "message 0");
    let mut seen = shown(&peer);
    let height = peer.state.transcript_size().1;
    while !peer.state.transcript.follows() {
        let before = shown(&peer);
        peer.key(KeyCode::PageDown);
        let after = shown(&peer);
        let overlap = (0..=height).rev().find(|n| before.ends_with(&after[..*n])).unwrap();
        assert!(overlap >= 2, "{before:?} {after:?}");
        seen.extend_from_slice(&after[overlap..]);
    }
    let numbers: Vec<_> = seen.iter().filter_map(|row| row.strip_prefix("message ")).collect();
    let expected: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn new_messages_do_not_move_what_is_being_read() {
    let mut peer = with_messages(50);
    peer.key(KeyCode::PageUp);
    let reading = shown(&peer);
    for _ in 0..5 {
        let number = peer.messages.len();
        peer.speak(Role::Agent, None, &format!("late {number}"));
    }
    assert_eq!(shown(&peer), reading);
    peer.press(KeyModifiers::CONTROL, KeyCode::End);
    assert!(peer.state.transcript.follows());
}

#[test]
fn sending_goes_back_to_the_end() {
    let mut peer = with_messages(50);
    peer.key(KeyCode::PageUp);
    peer.send("hello");
    assert!(peer.state.transcript.follows());
}

#[test]
fn short_transcripts_do_not_scroll() {
    let mut peer = with_messages(2);
    let all = shown(&peer);
    for code in [KeyCode::PageUp, KeyCode::PageDown] {
        peer.key(code);
        assert_eq!(shown(&peer), all);
    }
    assert!(peer.state.transcript.follows());
}

#[test]
fn only_what_is_in_sight_is_broken_into_rows() {
    let mut peer = with_messages(100_000);
    let kept = |peer: &Peer| peer.state.transcript.kept_count();
    assert!(!shown(&peer).is_empty());
    assert!(kept(&peer) < 20, "{}", kept(&peer));
    for _ in 0..10 {
        peer.key(KeyCode::PageUp);
        shown(&peer);
    }
    peer.press(KeyModifiers::CONTROL, KeyCode::Home);
    assert_eq!(shown(&peer)[1], "message 0");
    peer.press(KeyModifiers::CONTROL, KeyCode::End);
    assert!(kept(&peer) < 200, "{}", kept(&peer));
}

#[test]
fn a_streaming_message_grows_and_keeps_its_rows_right() {
    let mut peer = Peer::online(80, 24);
    let turn = peer.run_turn();
    let metadata = MessageMetadata::default();
    peer.speak_as(Role::Agent, Some(turn), "one", MessageStatus::Streaming, metadata);
    assert_eq!(shown(&peer), ["demo", "one▍"]);
    let mut message = peer.messages[0].clone();
    message.content = "one two".to_owned();
    message.status = MessageStatus::Complete;
    peer.tell_message(message);
    assert_eq!(shown(&peer), ["demo", "one two"]);
}

#[test]
fn c109_times_are_those_of_the_place_and_order_nothing() {
    let mut peer = Peer::new(80, 60);
    // Berlin, where an hour comes twice on the last Sunday of October.
    let berlin = jiff::tz::TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    peer.state.clock.zone = berlin;
    let at = |text: &str| serde_json::from_str(&format!("\"{text}\"")).unwrap();
    let cases = [
        (at("2026-10-25T00:30:00Z"), "02:30"),
        (at("2026-10-25T01:30:00Z"), "02:30"),
        (at("2026-10-25T01:59:59Z"), "02:59"),
        (at("2026-10-25T00:59:59Z"), "02:59"),
        (at("2016-12-31T23:59:60Z"), "00:59"),
        (at("9999-12-30T21:00:00Z"), "22:00"),
        (UnixMillis::new(0), "01:00"),
        (UnixMillis::new(-1), "00:59"),
    ];
    for (number, (time, _)) in cases.iter().enumerate() {
        let role = if number % 2 == 0 { Role::User } else { Role::Agent };
        peer.speak(role, None, &format!("message {number}"));
        peer.messages.last_mut().unwrap().created_at = *time;
    }
    peer.connect();
    let (columns, height) = peer.state.transcript_size();
    let rows = peer.state.transcript_window(columns, height).rows;
    let speakers = rows.iter().filter(|row| row.kind == RowKind::Speaker);
    let times: Vec<String> = speakers.map(|row| row.right.to_string()).collect();
    assert_eq!(times, cases.map(|(_, shown)| shown.to_owned()));
    let texts = rows.iter().filter(|row| row.kind == RowKind::Body).map(|row| row.text.to_string());
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    assert_eq!(texts, (0..cases.len()).map(|n| format!("message {n}")).collect::<Vec<_>>());
}
