//! The link's life.

use serde_json::json;

use super::*;
use crate::client::{Call, CallId, CallOutcome};
use crate::limits::{BACKOFF_LONGEST_MS, HEALTHY_MS};
use crate::protocol::hello::PingParams;

fn waits(rig: &Rig) -> (u64, u32) {
    match *rig.engine.link() {
        LinkState::Waiting { until, attempt } => (until.since(MonoMillis::new(rig.now)), attempt),
        ref other => panic!("waits: {other:?}"),
    }
}

#[test]
fn nothing_happens_before_the_start() {
    let mut rig = Rig::new();
    rig.wait(100_000);
    rig.input(Input::Reconnect);
    rig.input(Input::LinkOpened);
    rig.input(Input::LinkClosed { code: None });
    rig.input(Input::Frame("{}".to_owned()));
    assert_eq!((rig.link_outputs, rig.sent), (vec![], vec![]));
}

#[test]
fn every_link_is_greeted_by_the_same_instance_with_the_token() {
    let mut rig = Rig::new();
    rig.input(Input::Start);
    let mut hellos = Vec::new();
    for _ in 0..2 {
        rig.input(Input::LinkOpened);
        let hello = rig.take("hello");
        rig.reply(&hello, &hello_reply());
        hellos.push(hello.payload);
        assert_eq!(rig.engine.link(), &LinkState::Online { round_trip_ms: Some(0) });
        rig.input(Input::LinkClosed { code: Some(1006) });
        rig.wait_for_connect();
    }
    let expected = json!({
        "protocol": [1],
        "client": {"name": "test", "version": "1"},
        "client_instance": "00000000-0000-0000-0000-00000000004d",
        "token": "t0ken",
    });
    assert_eq!(hellos, [expected.clone(), expected]);
}

#[test]
fn waits_grow_until_the_link_was_healthy_for_a_while() {
    let mut rig = Rig::new();
    rig.input(Input::Start);
    let mut longest = Vec::new();
    for attempt in 1..=9 {
        rig.input(Input::LinkClosed { code: None });
        let (wait, number) = waits(&rig);
        assert_eq!(number, attempt);
        let whole = (250 << (attempt - 1)).min(BACKOFF_LONGEST_MS);
        assert!((whole / 2..=whole).contains(&wait), "{attempt}: {wait}");
        longest.push(wait);
        rig.wait_for_connect();
    }
    assert!(longest[8] >= 15_000);
    rig.come_online();
    rig.input(Input::LinkClosed { code: None });
    assert_eq!(waits(&rig).1, 10, "a short life changes nothing");
    rig.wait_for_connect();
    rig.come_online();
    rig.wait_alive(HEALTHY_MS);
    rig.input(Input::LinkClosed { code: None });
    let (wait, attempt) = waits(&rig);
    assert_eq!(attempt, 1);
    assert!(wait <= 250);
}

#[test]
fn c084_a_silent_link_is_dropped_and_the_next_waits_for_its_end() {
    let mut rig = Rig::online();
    // The ping of the first heartbeat stays unanswered, and nothing else comes.
    rig.wait(37_499);
    assert_eq!(rig.link_outputs, Vec::<&str>::new());
    rig.wait(1);
    assert_eq!(rig.link_outputs, ["disconnect"]);
    rig.wait(100_000);
    assert_eq!(rig.link_outputs, ["disconnect"], "the old socket is still there");
    rig.input(Input::Frame("{\"late\":true}".to_owned()));
    rig.input(Input::LinkClosed { code: None });
    assert_eq!(rig.link_outputs, ["disconnect", "connect"]);
}

#[test]
fn silence_of_two_and_a_half_heartbeats_drops_a_link_that_answered_its_ping() {
    let mut rig = Rig::online();
    rig.wait(15_000);
    let ping = rig.take("ping");
    rig.reply(&ping, &json!({"server_time": "2026-01-01T00:00:00.000Z"}));
    // A ping that takes its time is no reason by itself.
    rig.wait(37_499);
    assert_eq!(rig.link_outputs, Vec::<&str>::new());
    rig.wait(1);
    assert_eq!(rig.link_outputs, ["disconnect"]);
}

#[test]
fn heartbeats_keep_a_quiet_link() {
    let mut rig = Rig::online();
    rig.wait_alive(600_000);
    assert_eq!(rig.link_outputs, Vec::<&str>::new());
    assert!(rig.sent.len() <= 40, "one ping per heartbeat at most");
}

#[test]
fn round_trips_are_measured() {
    let mut rig = Rig::online();
    rig.wait(15_000);
    let ping = rig.take("ping");
    rig.now += 23;
    rig.reply(&ping, &json!({"server_time": "2026-01-01T00:00:00.000Z"}));
    let expected = LinkState::Online { round_trip_ms: Some(23) };
    assert_eq!(rig.engine.link(), &expected);
}

#[test]
fn a_server_that_will_not_have_us_is_not_asked_again_by_itself() {
    for code in [ErrorCode::Unauthorized, ErrorCode::ProtocolUnsupported] {
        let mut rig = Rig::new();
        rig.input(Input::Start);
        rig.input(Input::LinkOpened);
        let hello = rig.take("hello");
        rig.refuse(&hello, &error(code));
        rig.input(Input::LinkClosed { code: Some(1008) });
        rig.wait(3_600_000);
        assert_eq!(rig.engine.link(), &LinkState::Refused(error(code)));
        assert_eq!(rig.link_outputs, ["connect", "disconnect"]);
        rig.input(Input::Reconnect);
        assert_eq!(rig.link_outputs, ["connect", "disconnect", "connect"]);
    }
}

#[test]
fn a_server_of_another_protocol_is_refused_by_us() {
    let mut rig = Rig::new();
    rig.input(Input::Start);
    rig.input(Input::LinkOpened);
    let hello = rig.take("hello");
    let mut reply = hello_reply();
    reply.protocol = 2;
    rig.reply(&hello, &reply);
    let LinkState::Refused(refused) = rig.engine.link() else {
        panic!("refused: {:?}", rig.engine.link());
    };
    assert_eq!(refused.code, ErrorCode::ProtocolUnsupported);
}

#[test]
fn a_busy_server_is_asked_again_when_it_said() {
    let mut rig = Rig::new();
    rig.input(Input::Start);
    rig.input(Input::LinkOpened);
    let hello = rig.take("hello");
    rig.refuse(&hello, &error(ErrorCode::RateLimited).with("retry_after_ms", 7_000));
    assert_eq!(waits(&rig), (7_000, 1));
}

#[test]
fn an_unanswered_or_unreadable_hello_gives_the_link_up() {
    let mut rig = Rig::new();
    rig.input(Input::Start);
    rig.input(Input::LinkOpened);
    rig.wait(10_000);
    assert_eq!(rig.link_outputs, ["connect", "disconnect"]);
    rig.input(Input::LinkClosed { code: None });
    rig.wait(1_000);
    rig.sent.clear();
    rig.input(Input::LinkOpened);
    let hello = rig.take("hello");
    rig.reply(&hello, &json!({"protocol": "one"}));
    let expected = ["connect", "disconnect", "connect", "disconnect"];
    assert_eq!(rig.link_outputs, expected);
}

#[test]
fn a_connection_that_never_opens_is_given_up() {
    let mut rig = Rig::new();
    rig.input(Input::Start);
    rig.wait(9_999);
    assert_eq!(rig.link_outputs, ["connect"]);
    rig.wait(1);
    assert_eq!(rig.link_outputs, ["connect", "disconnect"]);
}

#[test]
fn a_draining_server_is_left_alone_for_as_long_as_it_asked() {
    let mut rig = Rig::online();
    rig.notify("server.draining", &json!({"reconnect_after_ms": 5_000}));
    assert_eq!(rig.event_names(), ["Draining"]);
    rig.input(Input::LinkClosed { code: Some(1001) });
    assert_eq!(waits(&rig), (5_000, 1));
}

#[test]
fn c087_reconnect_keys_never_make_a_second_connection() {
    let mut rig = Rig::online();
    for _ in 0..5 {
        rig.input(Input::Reconnect);
    }
    assert_eq!(rig.link_outputs, Vec::<&str>::new(), "there is a link");
    rig.input(Input::LinkClosed { code: None });
    for _ in 0..5 {
        rig.input(Input::Reconnect);
        rig.input(Input::Start);
    }
    assert_eq!(rig.link_outputs, ["connect"]);
}

#[test]
fn calls_are_answered_once_and_never_buffered() {
    let mut rig = Rig::new();
    let call = |number| Input::Call(Call::new(CallId::new(number), &PingParams {}));
    let outcomes = |rig: &mut Rig| -> Vec<String> {
        let events = std::mem::take(&mut rig.events);
        let outcomes = events.into_iter().filter_map(|event| match event {
            Event::Called { id, outcome } => Some(match outcome {
                CallOutcome::Reply(payload) => format!("{id:?} {payload}"),
                CallOutcome::Rejected(error) => format!("{id:?} {}", error.code),
                CallOutcome::Lost => format!("{id:?} lost"),
                CallOutcome::NotSent => format!("{id:?} not sent"),
            }),
            _ => None,
        });
        outcomes.collect()
    };
    rig.input(call(1));
    assert_eq!(outcomes(&mut rig), ["CallId(1) not sent"]);
    rig.input(Input::Start);
    rig.come_online();
    for number in 2..=5 {
        rig.input(call(number));
    }
    let sent = std::mem::take(&mut rig.sent);
    assert_eq!(sent.len(), 4);
    rig.reply(&sent[0], &json!({"a": 1}));
    rig.reply(&sent[0], &json!({"a": 2}));
    rig.refuse(&sent[1], &error(ErrorCode::NotFound));
    rig.input(Input::Frame(format!(
        r#"{{"id":"{}","type":"error","action":"ping","payload":{{"code":"from_the_future"}}}}"#,
        sent[2].id
    )));
    rig.wait_alive(10_000);
    let expected =
        ["CallId(2) {\"a\":1}", "CallId(3) not_found", "CallId(4) lost", "CallId(5) lost"];
    assert_eq!(outcomes(&mut rig), expected);
    assert_eq!(rig.link_outputs, ["connect"], "the link lives");
    for number in 100..200 {
        rig.input(call(number));
    }
    let refused = outcomes(&mut rig);
    assert_eq!(rig.sent.len(), 48, "the engine keeps room for itself");
    assert_eq!(refused.len(), 52);
    assert!(refused.iter().all(|outcome| outcome.ends_with("rate_limited")));
}
