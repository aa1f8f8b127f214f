//! What arrives after something newer: it changes nothing.

use serde_json::json;

use super::mirror::{
    SUBSCRIBE, contents, notify_delta, notify_message, notify_queue, queue_event, streaming,
};
use super::*;

#[test]
fn c033_older_statuses_and_those_of_other_lives_are_dropped() {
    let mut rig = Rig::with_session();
    let newest = status(1, 5, 11, &["a"]);
    notify_queue(&mut rig, &newest);
    let mut other_life = status(1, 9, 12, &["b"]);
    other_life.session_incarnation_id = incarnation(9);
    notify_queue(&mut rig, &other_life);
    notify_queue(&mut rig, &status(1, 4, 13, &["c"]));
    notify_queue(&mut rig, &status(1, 5, 10, &["d"]));
    assert_eq!(rig.engine.mirror().unwrap().queue(), &newest);
    assert_eq!(rig.event_names(), ["QueueChanged"]);
    let same_revision = status(1, 5, 14, &["e"]);
    notify_queue(&mut rig, &same_revision);
    assert_eq!(rig.engine.mirror().unwrap().queue(), &same_revision);
}

#[test]
fn a_coalesced_frame_that_overtook_another_does_no_harm() {
    let mut rig = Rig::with_session();
    notify_message(&mut rig, 11, &streaming("a"));
    let mut coalesced = queue_event(&status(1, 3, 14, &["x"]));
    coalesced["first_event_seq"] = json!(12);
    rig.notify("message.queue.status_changed", &coalesced);
    notify_delta(&mut rig, 13, 1, "b");
    notify_queue(&mut rig, &status(1, 2, 12, &[]));
    notify_message(&mut rig, 11, &streaming("a"));
    let old_session = Session { title: "old".to_owned(), ..session(1) };
    let event = stamped(1, 12, serde_json::to_value(old_session).unwrap());
    rig.notify("session.changed", &event);
    assert_eq!(contents(&rig), ["hi", "ab"]);
    let mirror = rig.engine.mirror().unwrap();
    assert_eq!((mirror.queue().count, mirror.session()), (1, &session(1)));
    assert_eq!(rig.actions(), Vec::<&str>::new());
}

#[test]
fn late_answers_of_a_session_that_is_no_longer_open_touch_nothing() {
    let mut rig = Rig::online();
    rig.input(Input::Open(session_id(1)));
    let first = rig.take(SUBSCRIBE);
    rig.input(Input::Open(session_id(2)));
    let unsubscribe = rig.take("session.unsubscribe");
    assert_eq!(unsubscribe.payload, json!({"session_id": session_id(1)}));
    let second = rig.take(SUBSCRIBE);
    rig.reply(&second, &snapshot(2, 5, Vec::new()));
    rig.forget();
    rig.reply(&first, &snapshot(1, 10, vec![message(1, "hi")]));
    notify_message(&mut rig, 6, &message(1, "hi"));
    notify_queue(&mut rig, &status(1, 9, 6, &["x"]));
    rig.refuse(&unsubscribe, &error(ErrorCode::NotFound));
    assert_eq!(rig.event_names(), Vec::<String>::new());
    assert_eq!(rig.engine.mirror().unwrap().session(), &session(2));
    rig.input(Input::Close);
    assert!(rig.engine.mirror().is_none());
}

#[test]
fn c033_a_queue_that_was_read_before_a_move_and_arrives_after_it_is_dropped() {
    let mut rig = Rig::with_session();
    rig.submit(1, "k1", "x");
    rig.wait_alive(10_000);
    let read = rig.take("message.queue.get");
    let moved = status(1, 5, 11, &["c", "a", "b"]);
    notify_queue(&mut rig, &moved);
    rig.forget();
    rig.reply(&read, &status(1, 4, 10, &["a", "b", "c"]));
    assert_eq!(rig.engine.mirror().unwrap().queue(), &moved);
    assert_eq!(rig.event_names(), Vec::<String>::new());

    // The same in a whole picture of the session.
    rig.blink();
    let subscribe = rig.take(SUBSCRIBE);
    let mut older = snapshot(1, 12, vec![message(1, "hi")]);
    older.queue = Some(status(1, 4, 12, &["a", "b", "c"]));
    rig.reply(&subscribe, &older);
    assert_eq!(rig.engine.mirror().unwrap().queue(), &moved);
}
