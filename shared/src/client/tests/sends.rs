//! Sends on a link that works: one ID, one open send of a session, typed errors, and what can never be
//! sent.

use serde_json::json;

use super::*;
use crate::client::{Acceptance, DELIVERIES_MAX};
use crate::limits::CONTENT_BYTES_MAX;

#[test]
fn a_send_is_accepted_by_its_reply_and_adds_no_row() {
    let mut rig = Rig::with_session();
    rig.submit(1, "k1", "hello");
    let add = rig.take("message.queue.add");
    let expected = json!({
        "task_id": task_id(),
        "session_id": session_id(1),
        "session_incarnation_id": incarnation(1),
        "client_queue_id": "k1",
        "content": "hello",
    });
    assert_eq!(add.payload, expected);
    rig.reply(&add, &add_reply("k1", AdmissionOutcome::Admitted));
    let awaiting =
        DeliveryState::AwaitingReply { attempt: 1, reply_by: MonoMillis::new(rig.now + 10_000) };
    let proof = Acceptance::Replied(admitted(1, AdmissionOutcome::Admitted));
    assert_eq!(rig.states("k1"), [awaiting, DeliveryState::Accepted(proof)]);
    assert_eq!(rig.engine.deliveries().len(), 0);
    assert_eq!(rig.engine.mirror().unwrap().queue(), &status(1, 1, 10, &[]));
}

#[test]
fn a_missing_incarnation_is_taken_from_the_open_session() {
    let mut rig = Rig::with_session();
    let mut submission = submission(1, "k1", "hello");
    submission.params.session_incarnation_id = None;
    rig.input(Input::Submit(submission.clone()));
    let add = rig.take("message.queue.add");
    assert_eq!(add.payload["session_incarnation_id"], json!(incarnation(1)));
    submission.admission_id = admission_id("k2");
    submission.params.session_id = session_id(2);
    rig.input(Input::Submit(submission));
    let refused = WireError::validation("session_incarnation_id", "missing");
    assert_eq!(rig.states("k2"), [DeliveryState::Rejected(refused)]);
}

#[test]
fn one_send_of_a_session_is_open_and_the_others_follow_in_order() {
    let mut rig = Rig::online();
    for id in ["k1", "k2", "k3"] {
        rig.submit(1, id, id);
    }
    rig.submit(2, "other", "other");
    assert_eq!(rig.actions(), ["message.queue.add"; 2]);
    assert_eq!(rig.sent[0].payload["content"], "k1");
    assert_eq!(rig.sent[1].payload["content"], "other");
    assert_eq!(rig.states("k3"), [DeliveryState::Queued]);
    let first = rig.sent.remove(0);
    rig.sent.clear();
    rig.refuse(&first, &error(ErrorCode::QueueFull));
    let second = rig.take("message.queue.add");
    assert_eq!(second.payload["content"], "k2", "a rejection frees the way");
    rig.reply(&second, &add_reply("k2", AdmissionOutcome::Folded));
    assert_eq!(rig.take("message.queue.add").payload["content"], "k3");
}

#[test]
fn a_typed_error_is_final_whatever_its_code() {
    for &code in ErrorCode::ALL {
        let mut rig = Rig::online();
        rig.submit(1, "k1", "hello");
        let add = rig.take("message.queue.add");
        rig.refuse(&add, &error(code));
        rig.wait_alive(120_000);
        assert_eq!(rig.last_state("k1"), DeliveryState::Rejected(error(code)));
        assert_eq!(rig.actions(), Vec::<&str>::new(), "{code}: nothing is repeated");
        assert_eq!(rig.engine.deliveries().len(), 1, "the draft stays until dismissed");
        rig.input(Input::Dismiss(admission_id("k1")));
        assert_eq!(rig.engine.deliveries().len(), 0);
    }
}

#[test]
fn c082_offline_prompts_wait_and_leave_once_each_in_order() {
    let mut rig = Rig::new();
    rig.input(Input::Start);
    for _ in 0..3 {
        rig.submit(1, "k1", "first");
    }
    rig.submit(1, "k2", "second");
    assert_eq!(
        rig.states("k1"),
        vec![DeliveryState::WaitingForLink; 3],
        "the same Enter again changes nothing"
    );
    rig.wait(9_000);
    rig.come_online();
    let add = rig.take("message.queue.add");
    assert_eq!(add.payload["content"], "first");
    rig.reply(&add, &add_reply("k1", AdmissionOutcome::Admitted));
    assert_eq!(rig.take("message.queue.add").payload["content"], "second");
}

#[test]
fn an_id_that_is_under_way_never_gets_another_payload() {
    let mut rig = Rig::online();
    rig.submit(1, "k1", "one text");
    rig.submit(1, "k1", "another text");
    let add = rig.take("message.queue.add");
    assert_eq!(add.payload["content"], "one text");
    rig.wait_alive(60_000);
    for sent in rig.sent.iter().filter(|sent| sent.action == add.action) {
        assert_eq!(sent.raw, add.raw);
    }
}

#[test]
fn what_never_left_can_be_taken_back_and_what_left_cannot() {
    let mut rig = Rig::new();
    rig.input(Input::Start);
    rig.submit(1, "k1", "one");
    rig.submit(1, "k2", "two");
    rig.input(Input::Dismiss(admission_id("k2")));
    rig.come_online();
    rig.input(Input::Dismiss(admission_id("k1")));
    let add = rig.take("message.queue.add");
    assert_eq!(rig.engine.deliveries().len(), 1, "it is under way");
    rig.reply(&add, &add_reply("k1", AdmissionOutcome::Admitted));
    assert_eq!(rig.actions(), Vec::<&str>::new(), "k2 was taken back");
}

#[test]
fn c085_what_is_too_large_is_refused_here_and_the_link_lives() {
    let mut rig = Rig::online();
    let too_long = "x".repeat(CONTENT_BYTES_MAX + 1);
    rig.submit(1, "long", &too_long);
    let refused = WireError::validation("content", "over the bound").with("limit", 262_144);
    assert_eq!(rig.states("long"), [DeliveryState::Rejected(refused)]);
    rig.submit(1, "nul", "a\0b");
    let DeliveryState::Rejected(refused) = rig.last_state("nul") else {
        panic!("a NUL is refused");
    };
    assert_eq!(refused.details["field"], "content");
    // The longest prompt fits even when JSON makes six bytes of every one.
    rig.submit(1, "escaped", &"\u{1}".repeat(CONTENT_BYTES_MAX));
    let add = rig.take("message.queue.add");
    assert!(add.raw.len() > 6 * CONTENT_BYTES_MAX);
}

#[test]
fn lowered_limits_of_the_server_count() {
    let mut rig = Rig::new();
    rig.input(Input::Start);
    rig.input(Input::LinkOpened);
    let hello = rig.take("hello");
    let mut reply = hello_reply();
    reply.limits.content_bytes_max = 10;
    reply.limits.frame_bytes_max = 500;
    rig.reply(&hello, &reply);
    rig.submit(1, "k1", "01234567890");
    let refused = WireError::validation("content", "over the bound").with("limit", 10);
    assert_eq!(rig.last_state("k1"), DeliveryState::Rejected(refused));
    let mut with_attachment = submission(1, "k2", "0123456789");
    with_attachment.params.attachments = Some(vec![crate::protocol::entry::AttachmentParams {
        data: Some("A".repeat(400)),
        ..Default::default()
    }]);
    rig.input(Input::Submit(with_attachment));
    let refused = WireError::validation("attachments", "over the bound").with("limit", 500);
    assert_eq!(rig.last_state("k2"), DeliveryState::Rejected(refused));
    assert_eq!(rig.actions(), Vec::<&str>::new());
}

#[test]
fn unresolved_sends_are_bounded() {
    let mut rig = Rig::new();
    for number in 0..=DELIVERIES_MAX {
        rig.submit(1, &format!("k{number}"), "x");
    }
    assert_eq!(rig.engine.deliveries().len(), DELIVERIES_MAX);
    let DeliveryState::Rejected(refused) = rig.last_state(&format!("k{DELIVERIES_MAX}")) else {
        panic!("one too many is refused");
    };
    assert_eq!(refused.code, ErrorCode::RateLimited);
}

#[test]
fn many_sessions_share_the_requests_that_a_server_takes_at_once() {
    let mut rig = Rig::online();
    for number in 1..=100 {
        rig.submit(number, &format!("k{number}"), "x");
    }
    assert_eq!(rig.sent.len(), 48);
    let mut seen = BTreeSet::new();
    while !rig.sent.is_empty() {
        let add = rig.sent.remove(0);
        let id = add.payload["client_queue_id"].as_str().unwrap().to_owned();
        rig.reply(&add, &add_reply(&id, AdmissionOutcome::Admitted));
        assert!(seen.insert(id), "each leaves once");
    }
    assert_eq!(seen.len(), 100);
    assert_eq!(rig.engine.deliveries().len(), 0);
}
