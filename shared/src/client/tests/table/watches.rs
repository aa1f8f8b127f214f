//! The subscription of the open session.

use super::*;
use crate::client::Freshness;

const SUBSCRIBE: &str = "session.subscribe";

fn none() -> Rig {
    Rig::online()
}

fn wanted_offline() -> Rig {
    let mut rig = Rig::online();
    rig.input(Input::LinkClosed { code: None });
    rig.input(Input::Open(session_id(1)));
    rig
}

fn asked() -> Rig {
    let mut rig = Rig::online();
    rig.input(Input::Open(session_id(1)));
    rig
}

fn live() -> Rig {
    let mut rig = asked();
    let subscribe = rig.take(SUBSCRIBE);
    rig.reply(&subscribe, &snapshot(1, 10, vec![message(1, "hi")]));
    rig
}

fn stale() -> Rig {
    let mut rig = live();
    rig.input(Input::LinkClosed { code: None });
    rig
}

fn resuming() -> Rig {
    let mut rig = live();
    rig.blink();
    rig
}

fn paging() -> Rig {
    let mut rig = asked();
    let subscribe = rig.take(SUBSCRIBE);
    let more = SubscribeReply { has_more: true, ..snapshot(1, 10, vec![message(7, "hi")]) };
    rig.reply(&subscribe, &more);
    rig.input(Input::LoadOlder);
    rig
}

fn state_of(case: &Case) -> String {
    let mirror = case.rig.engine.mirror();
    mirror.map_or("no mirror".to_owned(), |mirror| {
        let freshness = match mirror.freshness() {
            Freshness::Live => "live",
            Freshness::Stale => "stale",
        };
        let revision = mirror.queue().queue_revision.get();
        format!("{freshness}, {} messages, queue {revision}", mirror.messages().len())
    })
}

fn event(case: &mut Case, session: u128, event_seq: u64, revision: u64) {
    let status = serde_json::to_value(status(session, revision, event_seq, &["k"])).unwrap();
    case.rig.notify("message.queue.status_changed", &stamped(session, event_seq, status));
}

#[test]
fn every_state_of_a_subscription_meets_every_input() {
    let states: &[State] = &[
        ("none open", none),
        ("wanted without a link", wanted_offline),
        ("asked for", asked),
        ("live", live),
        ("stale without a link", stale),
        ("resuming", resuming),
        ("paging", paging),
    ];
    let inputs: &[Step] = &[
        ("open the same", |case| case.rig.input(Input::Open(session_id(1)))),
        ("open another", |case| case.rig.input(Input::Open(session_id(2)))),
        ("close", |case| case.rig.input(Input::Close)),
        ("load older", |case| case.rig.input(Input::LoadOlder)),
        ("a picture", |case| {
            case.reply(SUBSCRIBE, &snapshot(1, 20, vec![message(1, "hi"), message(2, "ho")]));
        }),
        ("resumed", |case| {
            let resumed = SubscribeReply {
                queue: None,
                messages: None,
                resumed: true,
                ..snapshot(1, 10, vec![])
            };
            case.reply(SUBSCRIBE, &resumed);
        }),
        ("garbage", |case| case.reply(SUBSCRIBE, &json!(7))),
        ("refused: not_found", |case| case.refuse(SUBSCRIBE, ErrorCode::NotFound)),
        ("refused: rate_limited", |case| case.refuse(SUBSCRIBE, ErrorCode::RateLimited)),
        ("older messages", |case| case.reply("transcript.page", &page(vec![message(6, "a")]))),
        ("the next event", |case| event(case, 1, 11, 2)),
        ("an event of an older queue", |case| event(case, 1, 11, 0)),
        ("the same event again", |case| {
            event(case, 1, 11, 2);
            event(case, 1, 11, 2);
        }),
        ("an event after a gap", |case| event(case, 1, 13, 2)),
        ("an event of another session", |case| event(case, 2, 11, 2)),
        ("an event of another epoch", |case| {
            let status = serde_json::to_value(status(1, 2, 11, &[])).unwrap();
            let mut stamped = stamped(1, 11, status);
            stamped["epoch"] = json!(epoch(2));
            case.rig.notify("message.queue.status_changed", &stamped);
        }),
        ("link closes", |case| case.rig.input(Input::LinkClosed { code: None })),
        ("link comes (again)", Case::link_comes),
        ("next deadline", Case::next_deadline),
    ];
    check("watches", states, inputs, state_of);
}
