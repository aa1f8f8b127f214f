//! The open session: what applies, what is dropped, when it is asked for anew.

use serde_json::json;

use super::*;
use crate::client::Freshness;
use crate::client::bounds::MIRROR_CONTENT_BYTES_MAX;
use crate::limits::MESSAGE_CONTENT_BYTES_MAX;
use crate::protocol::session::Permission;

pub(super) const SUBSCRIBE: &str = "session.subscribe";

pub(super) fn queue_event(status: &QueueStatus) -> Value {
    let mut event = serde_json::to_value(status).unwrap();
    event["epoch"] = json!(epoch(1));
    event
}

pub(super) fn notify_queue(rig: &mut Rig, status: &QueueStatus) {
    rig.notify("message.queue.status_changed", &queue_event(status));
}

pub(super) fn notify_message(rig: &mut Rig, event_seq: u64, message: &Message) {
    let event = stamped(1, event_seq, serde_json::to_value(message).unwrap());
    rig.notify("transcript.message", &event);
}

pub(super) fn notify_delta(rig: &mut Rig, event_seq: u64, offset: u64, text: &str) {
    let delta = json!({
        "message_id": message_id(2), "seq": 2, "offset": offset, "text": text,
    });
    rig.notify("transcript.delta", &stamped(1, event_seq, delta));
}

pub(super) fn streaming(content: &str) -> Message {
    Message { status: MessageStatus::Streaming, ..message(2, content) }
}

pub(super) fn contents(rig: &Rig) -> Vec<&str> {
    let mirror = rig.engine.mirror().unwrap();
    mirror.messages().iter().map(|m| m.content.as_str()).collect()
}

#[test]
fn a_session_opens_with_its_snapshot() {
    let mut rig = Rig::online();
    rig.input(Input::Open(session_id(1)));
    assert!(rig.engine.mirror().is_none());
    let subscribe = rig.take(SUBSCRIBE);
    assert_eq!(subscribe.payload, json!({"session_id": session_id(1)}));
    rig.reply(&subscribe, &snapshot(1, 10, vec![message(1, "hi")]));
    assert_eq!(rig.event_names(), ["SessionOpened"]);
    let mirror = rig.engine.mirror().unwrap();
    assert_eq!(mirror.session(), &session(1));
    assert_eq!(mirror.queue(), &status(1, 1, 10, &[]));
    assert_eq!(mirror.messages(), [message(1, "hi")]);
    assert_eq!(mirror.freshness(), Freshness::Live);
}

#[test]
fn deltas_are_placed_by_offset_and_overlaps_add_nothing() {
    let mut rig = Rig::with_session();
    notify_message(&mut rig, 11, &streaming("für"));
    notify_delta(&mut rig, 12, 4, " alle");
    notify_delta(&mut rig, 13, 0, "für");
    notify_delta(&mut rig, 14, 2, "Xr alle!");
    // Ends inside the ü of the text that is there: adds nothing rather than half a character.
    notify_delta(&mut rig, 15, 0, "f");
    assert_eq!(contents(&rig), ["hi", "für alle!"]);
    notify_delta(&mut rig, 16, 99, "beyond");
    assert_eq!(rig.actions(), [SUBSCRIBE], "text is missing in between");
}

#[test]
fn a_final_message_never_becomes_a_streaming_one_again() {
    let mut rig = Rig::with_session();
    notify_message(&mut rig, 11, &message(2, "whole"));
    notify_message(&mut rig, 12, &streaming("wh"));
    notify_delta(&mut rig, 13, 5, " and more");
    assert_eq!(contents(&rig), ["hi", "whole"]);
}

#[test]
fn an_event_that_the_mirror_does_not_show_is_no_gap() {
    let mut rig = Rig::with_session();
    let place = rig.engine.mirror().unwrap().queue().event_seq.get();
    let plan = json!({"plan": null, "comments": []});
    rig.notify("plan.changed", &stamped(1, place + 1, plan));
    rig.notify("something.new", &stamped(1, place + 2, json!({})));
    rig.notify("turn.started", &stamped(1, place + 3, json!({"turn_id": turn_id(1)})));
    assert_eq!(rig.event_names(), ["TurnStarted"]);
    assert!(!rig.actions().contains(&SUBSCRIBE));
    // It counts only once it was told.
    rig.notify("plan.changed", &stamped(1, place + 5, json!({})));
    assert!(rig.actions().contains(&SUBSCRIBE));
}

#[test]
fn a_gap_asks_for_what_was_missed_and_then_for_everything() {
    let mut rig = Rig::with_session();
    notify_message(&mut rig, 13, &message(4, "too early"));
    let subscribe = rig.take(SUBSCRIBE);
    let after = json!({
        "session_id": session_id(1), "after_event_seq": 10, "epoch": epoch(1),
    });
    assert_eq!(subscribe.payload, after);
    assert_eq!(rig.engine.mirror().unwrap().freshness(), Freshness::Stale);
    notify_message(&mut rig, 14, &message(5, "while asking"));
    assert_eq!(contents(&rig), ["hi"]);
    let resumed = SubscribeReply {
        queue: None,
        messages: None,
        resumed: true,
        ..snapshot(1, 10, Vec::new())
    };
    rig.reply(&subscribe, &resumed);
    for (event_seq, seq) in [(11, 2), (12, 3)] {
        notify_message(&mut rig, event_seq, &message(seq, "missed"));
    }
    assert_eq!(contents(&rig), ["hi", "missed", "missed"]);
    // The same events missing again after a resume cannot be had that way.
    notify_message(&mut rig, 14, &message(5, "too early"));
    let subscribe = rig.take(SUBSCRIBE);
    assert_eq!(subscribe.payload["after_event_seq"], 12);
    let resumed = SubscribeReply {
        queue: None,
        messages: None,
        resumed: true,
        ..snapshot(1, 12, Vec::new())
    };
    rig.reply(&subscribe, &resumed);
    notify_message(&mut rig, 14, &message(5, "still too early"));
    let subscribe = rig.take(SUBSCRIBE);
    assert_eq!(subscribe.payload, json!({"session_id": session_id(1)}));
}

#[test]
fn a_reconnect_resumes_after_what_is_known() {
    let mut rig = Rig::with_session();
    notify_message(&mut rig, 11, &message(2, "b"));
    rig.input(Input::LinkClosed { code: None });
    assert_eq!(rig.engine.mirror().unwrap().freshness(), Freshness::Stale);
    assert_eq!(contents(&rig), ["hi", "b"], "what was known stays on the screen");
    rig.wait_for_connect();
    rig.come_online();
    let subscribe = rig.take(SUBSCRIBE);
    assert_eq!(subscribe.payload["after_event_seq"], 11);
    rig.forget();
    // The server started anew: another epoch, and a lower event number.
    let mut restarted = snapshot(1, 2, vec![message(2, "b"), message(3, "c")]);
    restarted.epoch = epoch(2);
    rig.reply(&subscribe, &restarted);
    assert_eq!(contents(&rig), ["hi", "b", "c"]);
    let changes = ["SessionChanged", "QueueChanged", "TranscriptChanged"];
    assert_eq!(rig.event_names(), changes);
    let mut event = stamped(1, 3, serde_json::to_value(message(4, "d")).unwrap());
    event["epoch"] = json!(epoch(2));
    rig.notify("transcript.message", &event);
    assert_eq!(contents(&rig), ["hi", "b", "c", "d"]);
}

#[test]
fn a_resume_without_anything_missed_says_that_the_picture_is_fresh() {
    let mut rig = Rig::with_session();
    rig.blink();
    let subscribe = rig.take(SUBSCRIBE);
    rig.events.clear();
    let resumed = SubscribeReply {
        queue: None,
        messages: None,
        resumed: true,
        ..snapshot(1, 10, Vec::new())
    };
    rig.reply(&subscribe, &resumed);
    assert_eq!(rig.event_names(), ["SessionChanged"]);
    assert_eq!(rig.engine.mirror().unwrap().freshness(), Freshness::Live);
}

#[test]
fn every_kind_of_frame_may_stand_for_several_events() {
    let mut rig = Rig::with_session();
    let turn = json!({"turn_id": turn_id(1)});
    let message = serde_json::to_value(message(2, "b")).unwrap();
    let of_session = serde_json::to_value(session(1)).unwrap();
    let frames =
        [("turn.started", turn), ("transcript.message", message), ("session.changed", of_session)];
    for (number, (action, event)) in (0..).zip(frames) {
        let mut event = stamped(1, 13 + 3 * number, event);
        event["first_event_seq"] = json!(11 + 3 * number);
        rig.notify(action, &event);
    }
    let mut changed = queue_event(&status(1, 2, 22, &["a"]));
    changed["first_event_seq"] = json!(20);
    rig.notify("message.queue.status_changed", &changed);
    assert_eq!(rig.actions(), Vec::<&str>::new(), "nothing is missing");
    assert_eq!(contents(&rig), ["hi", "b"]);
    assert_eq!(rig.engine.mirror().unwrap().queue().count, 1);
}

#[test]
fn a_snapshot_that_does_not_continue_replaces_everything() {
    let mut rig = Rig::with_session();
    rig.blink();
    let subscribe = rig.take(SUBSCRIBE);
    let mut far_ahead = snapshot(1, 500, vec![message(200, "x"), message(201, "y")]);
    far_ahead.has_more = true;
    rig.reply(&subscribe, &far_ahead);
    assert_eq!(contents(&rig), ["x", "y"]);
    assert!(rig.engine.mirror().unwrap().has_more());
}

#[test]
fn c093_opening_the_open_session_asks_for_nothing() {
    let mut rig = Rig::with_session();
    rig.input(Input::Open(session_id(1)));
    assert_eq!(rig.actions(), Vec::<&str>::new());
    assert_eq!(rig.event_names(), ["SessionOpened"]);
}

#[test]
fn a_refused_session_is_closed_and_a_busy_server_asked_again() {
    let mut rig = Rig::online();
    rig.input(Input::Open(session_id(1)));
    let subscribe = rig.take(SUBSCRIBE);
    let busy = error(ErrorCode::RateLimited).with("retry_after_ms", 3_000);
    rig.refuse(&subscribe, &busy);
    rig.wait(2_999);
    assert_eq!(rig.actions(), Vec::<&str>::new());
    rig.wait(1);
    let subscribe = rig.take(SUBSCRIBE);
    rig.refuse(&subscribe, &error(ErrorCode::NotFound));
    assert_eq!(rig.event_names(), ["SessionRefused"]);
    rig.blink();
    assert_eq!(rig.actions(), Vec::<&str>::new());
}

#[test]
fn a_reset_is_followed_by_a_whole_picture() {
    let mut rig = Rig::with_session();
    let mut reset = session(1);
    reset.incarnation_id = incarnation(50);
    let event = stamped(1, 11, serde_json::to_value(&reset).unwrap());
    rig.notify("session.changed", &event);
    let subscribe = rig.take(SUBSCRIBE);
    assert_eq!(subscribe.payload, json!({"session_id": session_id(1)}));
    let mut anew = snapshot(1, 11, vec![message(1, "hi")]);
    anew.session = reset;
    let mut queue = status(1, 1, 11, &[]);
    queue.session_incarnation_id = incarnation(50);
    anew.queue = Some(queue.clone());
    rig.reply(&subscribe, &anew);
    assert_eq!(rig.engine.mirror().unwrap().queue(), &queue);
}

#[test]
fn a_whole_picture_that_is_wanted_is_wanted_over_the_next_link_too() {
    let mut rig = Rig::with_session();
    let mut reset = session(1);
    reset.incarnation_id = incarnation(50);
    let event = stamped(1, 11, serde_json::to_value(&reset).unwrap());
    rig.notify("session.changed", &event);
    rig.take(SUBSCRIBE);
    rig.blink();
    let subscribe = rig.take(SUBSCRIBE);
    assert_eq!(subscribe.payload, json!({"session_id": session_id(1)}));
    rig.refuse(&subscribe, &error(ErrorCode::RateLimited));
    rig.wait(1_000);
    assert_eq!(rig.take(SUBSCRIBE).payload, json!({"session_id": session_id(1)}));
}

#[test]
fn turns_and_questions_are_told_of_once() {
    let mut rig = Rig::with_session();
    let started = stamped(1, 11, json!({"turn_id": turn_id(1)}));
    rig.notify("turn.started", &started);
    rig.notify("turn.started", &started);
    let question = Permission {
        request_id: crate::id::PermissionId::from_uuid(Uuid::from_u128(8)),
        turn_id: turn_id(1),
        title: "run".to_owned(),
        tool: "shell".to_owned(),
        options: Vec::new(),
    };
    let asked = stamped(1, 12, serde_json::to_value(&question).unwrap());
    rig.notify("permission.requested", &asked);
    assert_eq!(rig.engine.mirror().unwrap().session().permission, Some(question.clone()));
    let resolved = json!({
        "request_id": question.request_id, "option_id": null, "by": null, "reason": "cancelled",
    });
    rig.notify("permission.resolved", &stamped(1, 13, resolved));
    assert_eq!(rig.engine.mirror().unwrap().session().permission, None);
    let ended = json!({
        "turn_id": turn_id(1), "outcome": "cancelled", "reason": null, "text": null,
    });
    let ended = stamped(1, 14, ended);
    rig.notify("turn.ended", &ended);
    rig.notify("turn.ended", &ended);
    let expected = ["TurnStarted", "SessionChanged", "SessionChanged", "TurnEnded"];
    assert_eq!(rig.event_names(), expected);
}

#[test]
fn older_messages_are_paged_in_once_and_stay_over_a_reconnect() {
    let mut rig = Rig::online();
    rig.input(Input::LoadOlder);
    rig.input(Input::Open(session_id(1)));
    let subscribe = rig.take(SUBSCRIBE);
    let mut newest = snapshot(1, 10, vec![message(3, "c")]);
    newest.has_more = true;
    rig.reply(&subscribe, &newest);
    rig.input(Input::LoadOlder);
    rig.input(Input::LoadOlder);
    let older = rig.take("transcript.page");
    let before = json!({"session_id": session_id(1), "before_seq": 3});
    assert_eq!(older.payload, before);
    rig.reply(&older, &page(vec![message(1, "a"), message(2, "b")]));
    assert_eq!(contents(&rig), ["a", "b", "c"]);
    rig.input(Input::LoadOlder);
    assert_eq!(rig.actions(), Vec::<&str>::new(), "there is nothing older");
    rig.blink();
    let subscribe = rig.take(SUBSCRIBE);
    rig.reply(&subscribe, &newest);
    assert_eq!(contents(&rig), ["a", "b", "c"]);
    assert!(!rig.engine.mirror().unwrap().has_more());
}

#[test]
fn text_for_an_unknown_message_asks_for_a_picture_once() {
    let mut rig = Rig::with_session();
    notify_delta(&mut rig, 11, 0, "x");
    let subscribe = rig.take(SUBSCRIBE);
    rig.reply(&subscribe, &snapshot(1, 11, vec![message(1, "hi")]));
    notify_delta(&mut rig, 12, 1, "y");
    notify_delta(&mut rig, 13, 2, "z");
    assert_eq!(rig.actions(), Vec::<&str>::new(), "asking again would not help");
}

#[test]
fn a_long_answer_is_cut_where_lists_cut_it() {
    let mut rig = Rig::with_session();
    notify_message(&mut rig, 11, &streaming(""));
    let chunk = "é".repeat(MESSAGE_CONTENT_BYTES_MAX / 4);
    for part in 0..3_u64 {
        notify_delta(&mut rig, 12 + part, part * chunk.len() as u64, &chunk);
    }
    let message = &rig.engine.mirror().unwrap().messages()[1];
    assert_eq!(message.content.len(), MESSAGE_CONTENT_BYTES_MAX);
    assert!(message.content_truncated);
    assert_eq!(rig.actions(), Vec::<&str>::new());
}

#[test]
fn the_oldest_messages_go_when_there_is_too_much() {
    let mut rig = Rig::with_session();
    let long = "x".repeat(MESSAGE_CONTENT_BYTES_MAX);
    let count = (MIRROR_CONTENT_BYTES_MAX / MESSAGE_CONTENT_BYTES_MAX) as u64 + 1;
    for number in 0..count {
        notify_message(&mut rig, 11 + number, &message(2 + number, &long));
    }
    let mirror = rig.engine.mirror().unwrap();
    assert!(mirror.has_more());
    let kept = mirror.messages();
    assert_eq!(kept.last().unwrap().seq.get(), count + 1);
    assert!(kept.windows(2).all(|two| two[0].seq.next() == two[1].seq));
    let bytes: usize = kept.iter().map(|message| message.content.len()).sum();
    assert!(bytes <= MIRROR_CONTENT_BYTES_MAX && bytes > MIRROR_CONTENT_BYTES_MAX / 2);
}
