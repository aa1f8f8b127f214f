//! Sends whose reply got lost: one look, one retry, one more look, and what is said then.

use serde_json::json;

use super::*;
use crate::client::Acceptance;
use crate::protocol::entry::AttachmentParams;

const ADD: &str = "message.queue.add";
const QUEUE: &str = "message.queue.get";
const PAGE: &str = "transcript.page";

/// A send that left and whose reply will not come.
fn sent(rig: &mut Rig, id: &str) -> Sent {
    rig.submit(1, id, "hello");
    let add = rig.take(ADD);
    rig.events.clear();
    add
}

/// Answers both reads of a pass without proof.
fn find_nothing(rig: &mut Rig) {
    let (queue, messages) = (rig.take(QUEUE), rig.take(PAGE));
    rig.reply(&queue, &status(1, 1, 10, &["other"]));
    rig.reply(&messages, &page(vec![message_from(1, "another")]));
}

fn reply_by(rig: &Rig, attempt: u32) -> DeliveryState {
    DeliveryState::AwaitingReply { attempt, reply_by: MonoMillis::new(rig.now + 10_000) }
}

const UNCERTAIN: DeliveryState = DeliveryState::Uncertain { can_check: true };

#[test]
fn c001_a_late_reply_looks_once_retries_with_the_same_bytes_and_is_accepted() {
    let mut rig = Rig::with_session();
    let add = sent(&mut rig, "k1");
    rig.wait_alive(9_999);
    assert_eq!(rig.actions(), Vec::<&str>::new());
    rig.wait(1);
    assert_eq!(rig.actions(), [QUEUE, PAGE]);
    let reads = (&rig.sent[0].payload, &rig.sent[1].payload);
    let identity = json!({
        "task_id": task_id(),
        "session_id": session_id(1),
        "session_incarnation_id": incarnation(1),
    });
    let newest = json!({"session_id": session_id(1), "limit": 100});
    assert_eq!(reads, (&identity, &newest));
    find_nothing(&mut rig);
    let retry = rig.take(ADD);
    assert_eq!(retry.raw, add.raw);
    assert_ne!(retry.id, add.id);
    assert_eq!(rig.states("k1"), [DeliveryState::Reconciling { attempt: 1 }, reply_by(&rig, 2)]);
    rig.reply(&retry, &add_reply("k1", AdmissionOutcome::Replayed));
    let proof = Acceptance::Replied(admitted(1, AdmissionOutcome::Replayed));
    assert_eq!(rig.states("k1"), [DeliveryState::Accepted(proof)]);
    let shown = rig.engine.mirror().unwrap().queue().clone();
    rig.reply(&add, &add_reply("k1", AdmissionOutcome::Admitted));
    assert_eq!(rig.states("k1"), [], "the late reply of a settled send is nothing");
    assert_eq!(rig.engine.deliveries().len(), 0);
    assert_eq!(rig.engine.mirror().unwrap().queue(), &shown, "no row of its own");
}

#[test]
fn a_late_reply_is_proof_at_any_time() {
    let accepted =
        DeliveryState::Accepted(Acceptance::Replied(admitted(1, AdmissionOutcome::Admitted)));
    for passes in 0..=2 {
        let mut rig = Rig::online();
        let add = sent(&mut rig, "k1");
        rig.wait_alive(10_000);
        if passes > 0 {
            find_nothing(&mut rig);
            rig.wait_alive(10_000);
        }
        if passes > 1 {
            rig.wait_alive(5_000);
            assert_eq!(rig.last_state("k1"), UNCERTAIN);
        }
        rig.reply(&add, &add_reply("k1", AdmissionOutcome::Admitted));
        assert_eq!(rig.last_state("k1"), accepted, "{passes}");
    }
}

#[test]
fn attachments_have_thirty_seconds_on_both_attempts() {
    let mut rig = Rig::online();
    let mut with_attachment = submission(1, "k1", "look");
    with_attachment.params.attachments = Some(vec![AttachmentParams::default()]);
    rig.input(Input::Submit(with_attachment));
    rig.take(ADD);
    rig.wait_alive(29_999);
    assert_eq!(rig.actions(), Vec::<&str>::new());
    rig.wait(1);
    find_nothing(&mut rig);
    rig.take(ADD);
    rig.wait_alive(29_999);
    assert_eq!(rig.actions(), Vec::<&str>::new());
    rig.wait(1);
    assert_eq!(rig.actions(), [QUEUE, PAGE]);
}

#[test]
fn a_timeout_without_any_frame_takes_a_new_link_for_the_retry() {
    let mut rig = Rig::online();
    let add = sent(&mut rig, "k1");
    rig.wait(10_000);
    assert_eq!(rig.link_outputs, ["disconnect"]);
    assert_eq!(rig.actions(), Vec::<&str>::new());
    rig.blink();
    find_nothing(&mut rig);
    assert_eq!(rig.take(ADD).raw, add.raw);
}

#[test]
fn proof_is_found_in_the_queue_or_in_the_transcript_of_this_incarnation() {
    let in_queue = DeliveryState::Accepted(Acceptance::FoundInQueue(entry_id(2)));
    let in_transcript = DeliveryState::Accepted(Acceptance::FoundInTranscript(message_id(7)));
    for found_in in [QUEUE, PAGE] {
        let mut rig = Rig::online();
        sent(&mut rig, "k1");
        rig.wait_alive(10_000);
        let (queue, messages) = (rig.take(QUEUE), rig.take(PAGE));
        let expected = if found_in == QUEUE {
            rig.reply(&queue, &status(1, 1, 10, &["other", "k1"]));
            in_queue.clone()
        } else {
            rig.reply(&queue, &status(1, 1, 10, &["other"]));
            rig.reply(&messages, &page(vec![message(6, "x"), message_from(7, "k1")]));
            in_transcript.clone()
        };
        assert_eq!(rig.last_state("k1"), expected);
        rig.wait_alive(60_000);
        assert_eq!(rig.actions(), Vec::<&str>::new(), "nothing is sent again");
    }
}

#[test]
fn what_another_life_of_the_session_carries_proves_nothing() {
    let mut rig = Rig::online();
    sent(&mut rig, "k1");
    rig.wait_alive(10_000);
    let (queue, messages) = (rig.take(QUEUE), rig.take(PAGE));
    let mut other_life = status(1, 1, 10, &["k1"]);
    other_life.session_incarnation_id = incarnation(99);
    rig.reply(&queue, &other_life);
    let mut old = message_from(7, "k1");
    old.session_incarnation_id = incarnation(99);
    let mut past = message(8, "x");
    past.metadata.queue_admission_ids_past = vec![admission_id("k1")];
    rig.reply(&messages, &page(vec![old, past]));
    assert_eq!(rig.take(ADD).payload["client_queue_id"], "k1");
}

#[test]
fn a_pass_takes_five_seconds_and_no_longer() {
    let mut rig = Rig::online();
    sent(&mut rig, "k1");
    rig.wait_alive(14_999);
    assert_eq!(rig.actions(), [QUEUE, PAGE]);
    rig.wait(1);
    assert_eq!(rig.actions(), [QUEUE, PAGE, ADD]);
}

#[test]
fn reads_that_are_refused_find_nothing() {
    let mut rig = Rig::online();
    sent(&mut rig, "k1");
    rig.wait_alive(10_000);
    let (queue, messages) = (rig.take(QUEUE), rig.take(PAGE));
    rig.refuse(&queue, &error(ErrorCode::QueueSessionUnavailable));
    rig.reply(&messages, &json!({"messages": 7}));
    assert_eq!(rig.actions(), [ADD]);
}

#[test]
fn a_closed_link_is_waited_for_at_most_three_seconds() {
    let mut rig = Rig::online();
    let add = sent(&mut rig, "k1");
    rig.input(Input::LinkClosed { code: None });
    rig.wait_for_connect();
    rig.wait(2_000);
    rig.come_online();
    find_nothing(&mut rig);
    assert_eq!(rig.take(ADD).raw, add.raw);

    let mut rig = Rig::online();
    sent(&mut rig, "k1");
    rig.input(Input::LinkClosed { code: None });
    rig.wait_for_connect();
    rig.wait(4_000);
    rig.come_online();
    // The retry counts as failed; this is the last pass.
    find_nothing(&mut rig);
    assert_eq!(rig.last_state("k1"), UNCERTAIN);
    assert_eq!(rig.actions(), Vec::<&str>::new());
}

#[test]
fn without_a_link_a_send_is_uncertain_after_eight_seconds() {
    let mut rig = Rig::online();
    sent(&mut rig, "k1");
    rig.input(Input::LinkClosed { code: None });
    let gone_at = rig.now;
    rig.wait(60_000);
    assert_eq!(rig.last_state("k1"), UNCERTAIN);
    let mut deliveries = rig.engine.deliveries();
    assert_eq!(deliveries.next().unwrap().since.get() - gone_at, 8_000);
}

#[test]
fn the_last_pass_looks_for_a_new_link_while_it_has_time() {
    let mut rig = Rig::online();
    sent(&mut rig, "k1");
    rig.wait_alive(10_000);
    find_nothing(&mut rig);
    rig.take(ADD);
    rig.wait_alive(10_000);
    assert_eq!(rig.actions(), [QUEUE, PAGE], "the last pass");
    rig.forget();
    rig.blink();
    assert_eq!(rig.actions(), [QUEUE, PAGE], "the last pass, on the new link");
    let messages = rig.take(PAGE);
    rig.reply(&messages, &page(vec![message_from(3, "k1")]));
    let proof = Acceptance::FoundInTranscript(message_id(3));
    assert_eq!(rig.last_state("k1"), DeliveryState::Accepted(proof));
}

#[test]
fn c022_without_receipts_on_both_links_nothing_is_retried() {
    let plain = || {
        let mut reply = hello_reply();
        reply.capabilities.clear();
        reply
    };
    let moved = || {
        let mut reply = hello_reply();
        reply.server.store_id = StoreId::from_uuid(Uuid::from_u128(99));
        reply
    };
    for (first, second) in [
        (plain(), plain()),
        (plain(), hello_reply()),
        (hello_reply(), plain()),
        (hello_reply(), moved()),
    ] {
        let mut rig = Rig::new();
        rig.input(Input::Start);
        rig.input(Input::LinkOpened);
        let hello = rig.take("hello");
        rig.reply(&hello, &first);
        sent(&mut rig, "k1");
        rig.input(Input::LinkClosed { code: None });
        rig.wait_for_connect();
        rig.input(Input::LinkOpened);
        let hello = rig.take("hello");
        rig.reply(&hello, &second);
        find_nothing(&mut rig);
        let uncertain = DeliveryState::Uncertain { can_check: false };
        assert_eq!(rig.last_state("k1"), uncertain);
        rig.input(Input::CheckAndResend(admission_id("k1")));
        rig.wait_alive(60_000);
        assert_eq!(rig.actions(), Vec::<&str>::new());
    }
}

/// The retry of a send is answered with `code`, and the last pass finds nothing.
fn retry_answered_with(code: ErrorCode) -> (Rig, DeliveryState) {
    let mut rig = Rig::online();
    sent(&mut rig, "k1");
    rig.wait_alive(10_000);
    find_nothing(&mut rig);
    let retry = rig.take(ADD);
    rig.refuse(&retry, &error(code));
    if code != ErrorCode::QueueIdConflict {
        find_nothing(&mut rig);
    }
    let state = rig.last_state("k1");
    (rig, state)
}

#[test]
fn after_a_lost_reply_only_errors_that_follow_the_receipt_lookup_prove_absence() {
    let proving = set(&[
        "queue_full",
        "queue_id_conflict",
        "reference_invalid",
        "attachment_unavailable",
        "plan_comment_conflict",
    ]);
    for &code in ErrorCode::ALL {
        let (_, state) = retry_answered_with(code);
        if proving.contains(code.as_str()) {
            assert_eq!(state, DeliveryState::Rejected(error(code)));
        } else {
            assert_eq!(state, UNCERTAIN, "{code}");
        }
    }
}

#[test]
fn a_late_error_of_the_first_attempt_settles_what_was_uncertain() {
    let mut rig = Rig::online();
    let add = sent(&mut rig, "k1");
    rig.wait_alive(10_000);
    find_nothing(&mut rig);
    let retry = rig.take(ADD);
    rig.refuse(&retry, &error(ErrorCode::ShuttingDown));
    find_nothing(&mut rig);
    assert_eq!(rig.last_state("k1"), UNCERTAIN);
    rig.refuse(&add, &error(ErrorCode::ShuttingDown));
    let rejected = DeliveryState::Rejected(error(ErrorCode::ShuttingDown));
    assert_eq!(rig.last_state("k1"), rejected, "both attempts stored nothing");
}

#[test]
fn a_found_id_wins_over_a_refused_retry() {
    let mut rig = Rig::online();
    sent(&mut rig, "k1");
    rig.wait_alive(10_000);
    find_nothing(&mut rig);
    let retry = rig.take(ADD);
    rig.refuse(&retry, &error(ErrorCode::QueueFull));
    let queue = rig.take(QUEUE);
    rig.reply(&queue, &status(1, 1, 10, &["k1"]));
    let proof = Acceptance::FoundInQueue(entry_id(1));
    assert_eq!(rig.last_state("k1"), DeliveryState::Accepted(proof));
}

#[test]
fn a_given_id_skips_the_passes_and_trusts_answers_only() {
    let given = |rig: &mut Rig| {
        let mut given = submission(1, "k1", "hello");
        given.id_origin = IdOrigin::Given;
        rig.input(Input::Submit(given));
        rig.take(ADD)
    };
    let mut rig = Rig::with_session();
    let add = given(&mut rig);
    rig.wait_alive(10_000);
    let retry = rig.take(ADD);
    assert_eq!(retry.raw, add.raw);
    // Somebody's prompt has this ID; it need not be this one.
    let seen = stamped(1, 11, serde_json::to_value(message_from(2, "k1")).unwrap());
    rig.notify("transcript.message", &seen);
    rig.wait_alive(10_000);
    assert_eq!(rig.last_state("k1"), UNCERTAIN);
    assert_eq!(rig.actions(), Vec::<&str>::new());

    let mut rig = Rig::online();
    given(&mut rig);
    rig.blink();
    let retry = rig.take(ADD);
    rig.refuse(&retry, &error(ErrorCode::QueueIdConflict));
    let conflict = DeliveryState::Rejected(error(ErrorCode::QueueIdConflict));
    assert_eq!(rig.last_state("k1"), conflict);
}

#[test]
fn an_uncertain_send_frees_the_way_and_can_be_checked_with_the_same_bytes() {
    let mut rig = Rig::online();
    let add = sent(&mut rig, "k1");
    rig.submit(1, "k2", "behind");
    rig.wait_alive(10_000);
    find_nothing(&mut rig);
    rig.take(ADD);
    rig.wait_alive(10_000);
    rig.sent.clear();
    rig.wait_alive(5_000);
    assert_eq!(rig.last_state("k1"), UNCERTAIN);
    let behind = rig.take(ADD);
    assert_eq!(behind.payload["content"], "behind");
    rig.input(Input::CheckAndResend(admission_id("k1")));
    rig.input(Input::CheckAndResend(admission_id("k1")));
    assert_eq!(rig.actions(), Vec::<&str>::new(), "one open send per session");
    rig.reply(&behind, &add_reply("k2", AdmissionOutcome::Admitted));
    let again = rig.take(ADD);
    assert_eq!(again.raw, add.raw);
    rig.reply(&again, &add_reply("k1", AdmissionOutcome::Replayed));
    let proof = Acceptance::Replied(admitted(1, AdmissionOutcome::Replayed));
    assert_eq!(rig.last_state("k1"), DeliveryState::Accepted(proof));
}

#[test]
fn an_uncertain_send_that_turns_up_in_the_open_session_is_accepted() {
    let mut rig = Rig::with_session();
    sent(&mut rig, "k1");
    rig.wait_alive(30_000);
    assert_eq!(rig.last_state("k1"), UNCERTAIN);
    let seen = stamped(1, 11, serde_json::to_value(message_from(2, "k1")).unwrap());
    rig.notify("transcript.message", &seen);
    let proof = Acceptance::FoundInTranscript(message_id(2));
    assert_eq!(rig.last_state("k1"), DeliveryState::Accepted(proof));
}

#[test]
fn c088_events_before_the_reply_leave_the_send_to_its_reply() {
    let mut rig = Rig::with_session();
    let add = sent(&mut rig, "k1");
    let mut changed = serde_json::to_value(status(1, 2, 11, &["k1"])).unwrap();
    changed["epoch"] = json!(epoch(1));
    rig.notify("message.queue.status_changed", &changed);
    assert_eq!(rig.states("k1"), []);
    rig.reply(&add, &add_reply("k1", AdmissionOutcome::Admitted));
    let proof = Acceptance::Replied(admitted(1, AdmissionOutcome::Admitted));
    assert_eq!(rig.states("k1"), [DeliveryState::Accepted(proof)]);
    assert_eq!(rig.engine.mirror().unwrap().queue().count, 1);
}

#[test]
fn a_new_life_of_the_session_takes_the_check_away() {
    let mut rig = Rig::with_session();
    sent(&mut rig, "k1");
    rig.wait_alive(30_000);
    assert_eq!(rig.last_state("k1"), UNCERTAIN);
    let mut reset = session(1);
    reset.incarnation_id = incarnation(50);
    let changed = stamped(1, 11, serde_json::to_value(reset).unwrap());
    rig.notify("session.changed", &changed);
    let uncertain = DeliveryState::Uncertain { can_check: false };
    assert_eq!(rig.last_state("k1"), uncertain);
}

#[test]
fn an_unreadable_reply_is_a_lost_one() {
    let mut rig = Rig::online();
    let add = sent(&mut rig, "k1");
    rig.reply(&add, &json!({"admission": "yes"}));
    assert_eq!(rig.actions(), [QUEUE, PAGE], "at once, without waiting");
}

/// The link is gone, and back so many milliseconds later: whatever the spread of the reconnects.
fn outage(spread_seed: u64, millis: u64) -> Rig {
    let mut rig = Rig::with(EngineConfig { spread_seed, ..config() });
    rig.input(Input::Start);
    rig.come_online();
    rig.forget();
    sent(&mut rig, "k1");
    rig.input(Input::LinkClosed { code: None });
    let back_at = rig.now + millis;
    loop {
        rig.wait_for_connect();
        if rig.now >= back_at {
            rig.come_online();
            return rig;
        }
        rig.input(Input::LinkClosed { code: None });
    }
}

#[test]
fn a_link_that_is_back_in_time_is_found_in_time() {
    for seed in 0..500 {
        let mut rig = outage(seed, 2_000);
        find_nothing(&mut rig);
        let retry = rig.take(ADD);
        rig.reply(&retry, &add_reply("k1", AdmissionOutcome::Admitted));
        let proof = Acceptance::Replied(admitted(1, AdmissionOutcome::Admitted));
        assert_eq!(rig.last_state("k1"), DeliveryState::Accepted(proof), "seed {seed}");
        // Too late for the retry, not for a look.
        let mut rig = outage(seed, 4_000);
        assert_eq!(rig.actions(), [QUEUE, PAGE], "seed {seed}");
        find_nothing(&mut rig);
        assert_eq!(rig.last_state("k1"), UNCERTAIN, "seed {seed}");
    }
}

#[test]
fn only_a_send_that_waits_for_a_link_shortens_the_waits() {
    let mut rig = outage(1, 12_000);
    let waits: Vec<_> = rig.link_outputs.iter().filter(|output| **output == "connect").collect();
    // Some 20 in the eight seconds that the send has, then as seldom as ever.
    assert!((15..40).contains(&waits.len()), "{waits:?}");
    rig.input(Input::LinkClosed { code: None });
    let LinkState::Waiting { until, .. } = *rig.engine.link() else {
        panic!("waits: {:?}", rig.engine.link());
    };
    assert!(until.since(MonoMillis::new(rig.now)) > 500, "nobody is in a hurry any more");
}
