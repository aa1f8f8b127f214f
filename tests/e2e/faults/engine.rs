//! Rows for the recovery engine over a real socket, where the programs cannot send what a row needs:
//! a prompt with a file inside.

use serde_json::{from_value, json};
use usher_shared::client::{DeliveryState, Event, Input, LinkState, Submission};
use usher_shared::id::AdmissionId;
use usher_shared::protocol::queue::QueueAddParams;
use usher_tests::client::timed;
use usher_tests::faulty::Do;
use usher_tests::stage::Stage;
use usher_tui::driver::{Driver, Server};

use super::checks::{check_that_it_is_there_once, observed};
use super::row::{Check, Observed, Outcome, PROMPT, Row};

/// Plays a row; returns what came of it.
pub(super) fn play(row: &Row) -> Observed {
    let mut stage = Stage::with(row.launch, (row.always)());
    for rule in (row.fault)() {
        stage.link.rule(rule);
    }
    let file = json!({
        "type": "resource",
        "name": "notes.txt",
        "mime_type": "text/plain",
        "data": "bm90ZXM=",
    });
    let params = stage.chat.with(json!({"content": PROMPT, "attachments": [file]}));
    let params: QueueAddParams = from_value(params).unwrap();
    let id = AdmissionId::parse("with-a-file").unwrap();
    let mut driver = stage.run(async {
        let server = Server::Named(stage.link.address().parse().unwrap());
        let journal = stage.user.home().path("state/journal");
        let mut driver = Driver::start(server, None, Some(journal));
        driver.handle(Input::Submit(Submission::minted(id.clone(), params)));
        driver
    });
    (row.meanwhile)(&mut stage);
    let state = stage.run(timed(settled(&mut driver)));
    let observed = Observed { outcome: word(&state), ..observed(&stage) };
    if row.expected.outcome == Outcome::Uncertain(Check::Offered) {
        stage.link.act(&[Do::ForgetRules, Do::Accept]);
        let checked = stage.run(timed(async {
            while !matches!(driver.engine().link(), LinkState::Online { .. }) {
                driver.next_event().await;
            }
            driver.handle(Input::CheckAndResend(id));
            settled(&mut driver).await
        }));
        assert_eq!(word(&checked), "accepted", "{checked:?}");
        check_that_it_is_there_once(&stage);
    }
    observed
}

/// Waits until there is nothing more that the engine does by itself.
async fn settled(driver: &mut Driver) -> DeliveryState {
    loop {
        let Event::DeliveryChanged(delivery) = driver.next_event().await else {
            continue;
        };
        match delivery.state {
            DeliveryState::Accepted(_)
            | DeliveryState::Rejected(_)
            | DeliveryState::Returned
            | DeliveryState::Uncertain { .. } => return delivery.state,
            DeliveryState::WaitingForLink
            | DeliveryState::Queued
            | DeliveryState::Saving
            | DeliveryState::AwaitingReply { .. }
            | DeliveryState::Reconciling { .. } => {}
        }
    }
}

fn word(state: &DeliveryState) -> String {
    match state {
        DeliveryState::Accepted(_) => "accepted".to_owned(),
        DeliveryState::Rejected(error) => format!("rejected {}", error.code),
        DeliveryState::Uncertain { .. } => "uncertain".to_owned(),
        other => format!("{other:?}"),
    }
}
