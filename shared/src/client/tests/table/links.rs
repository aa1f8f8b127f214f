//! The link.

use super::*;
use crate::protocol::hello::PingReply;

fn unused() -> Rig {
    Rig::new()
}

fn connecting() -> Rig {
    let mut rig = Rig::new();
    rig.input(Input::Start);
    rig
}

fn greeting() -> Rig {
    let mut rig = connecting();
    rig.input(Input::LinkOpened);
    rig
}

fn online() -> Rig {
    let mut rig = connecting();
    rig.come_online();
    rig
}

fn waiting() -> Rig {
    let mut rig = online();
    rig.input(Input::LinkClosed { code: None });
    rig
}

/// Given up, and the driver has not let go of it yet.
fn closing() -> Rig {
    let mut rig = online();
    rig.wait(37_500);
    rig
}

fn refused() -> Rig {
    let mut rig = greeting();
    let hello = rig.take("hello");
    rig.refuse(&hello, &error(ErrorCode::Unauthorized));
    rig
}

fn refused_and_closed() -> Rig {
    let mut rig = refused();
    rig.input(Input::LinkClosed { code: Some(1008) });
    rig
}

fn state_of(case: &Case) -> String {
    match case.rig.engine.link() {
        LinkState::Online { .. } => "Online".to_owned(),
        LinkState::Waiting { attempt, .. } => format!("Waiting, attempt {attempt}"),
        LinkState::Refused(error) => format!("Refused {}", error.code),
        other => format!("{other:?}"),
    }
}

#[test]
fn every_state_of_the_link_meets_every_input() {
    let states: &[State] = &[
        ("not started", unused),
        ("connecting", connecting),
        ("greeting", greeting),
        ("online", online),
        ("waiting", waiting),
        ("given up, not closed yet", closing),
        ("refused, not closed yet", refused),
        ("refused and closed", refused_and_closed),
    ];
    let inputs: &[Step] = &[
        ("start", |case| case.rig.input(Input::Start)),
        ("opened", |case| case.rig.input(Input::LinkOpened)),
        ("closed", |case| case.rig.input(Input::LinkClosed { code: Some(1001) })),
        ("greeted", |case| case.reply("hello", &hello_reply())),
        ("greeted in another version", |case| {
            case.reply("hello", &HelloReply { protocol: 2, ..hello_reply() });
        }),
        ("greeted in garbage", |case| case.reply("hello", &json!({}))),
        ("hello: unauthorized", |case| case.refuse("hello", ErrorCode::Unauthorized)),
        ("hello: shutting_down", |case| case.refuse("hello", ErrorCode::ShuttingDown)),
        ("pong", |case| {
            case.reply("ping", &PingReply { server_time: UnixMillis::new(0) });
        }),
        ("heartbeat", |case| case.rig.input(Input::Heartbeat)),
        ("garbage", |case| case.rig.input(Input::Frame("{".to_owned()))),
        ("told to drain", |case| {
            case.rig.notify("server.draining", &json!({ "reconnect_after_ms": 500 }));
        }),
        ("reconnect now", |case| case.rig.input(Input::Reconnect)),
        ("next deadline, alive", Case::next_deadline),
        ("silence of 38 s", |case| case.rig.wait(38_000)),
        ("deadline before its time", |case| case.rig.input(Input::DeadlineReached)),
    ];
    check("links", states, inputs, state_of);
}
