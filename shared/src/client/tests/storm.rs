//! Random inputs, garbage frames and a server that answers as it likes: whatever happens, the
//! engine keeps its promises.

use std::collections::{BTreeMap, VecDeque};

use serde_json::json;

use super::edit::{begun, lease, save, saved, target};
use super::journal::left;
use super::*;
use crate::client::{Call, CallId, JournalStage, Journaled};
use crate::protocol::hello::PingParams;

/// A small generator (xorshift64*): the seed is all there is to know about a run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }
}

/// What must hold at every moment.
#[derive(Default)]
struct Promises {
    /// The bytes that an admission ID first left with.
    payloads: BTreeMap<String, String>,
    /// The bytes that a save first left with.
    saves: BTreeMap<String, String>,
    /// Attempts of every admission ID.
    attempts: BTreeMap<String, u32>,
    /// Request numbers, for ever.
    ids: BTreeSet<String>,
    accepted: BTreeSet<String>,
    /// What was asked of the journal and is not done yet.
    orders: VecDeque<JournalOrder>,
    /// What may leave: on disk as sent, or its user knows that it is not.
    may_leave: BTreeSet<String>,
}

impl Promises {
    fn check(&mut self, rig: &mut Rig) -> Vec<Sent> {
        self.orders.extend(rig.journal.drain(..));
        for event in &rig.events {
            if let Event::Unprotected(id) = event {
                self.may_leave.insert(id.to_string());
            }
        }
        let sent = std::mem::take(&mut rig.sent);
        for request in &sent {
            assert!(self.ids.insert(request.id.clone()), "a number is used twice");
            if request.action == "message.queue.update" {
                let id = request.payload["operation_id"].as_str().unwrap().to_owned();
                let first = self.saves.entry(id).or_insert(request.raw.clone());
                assert_eq!(*first, request.raw, "a save left with another payload");
            }
            if request.action != "message.queue.add" {
                continue;
            }
            let id = request.payload["client_queue_id"].as_str().unwrap();
            assert!(self.may_leave.contains(id), "{id} left before it was on disk");
            let first = self.payloads.entry(id.to_owned()).or_insert(request.raw.clone());
            assert_eq!(*first, request.raw, "{id} left with another payload");
            *self.attempts.entry(id.to_owned()).or_default() += 1;
            assert!(!self.accepted.contains(id), "{id} was accepted before");
        }
        for event in std::mem::take(&mut rig.events) {
            let Event::DeliveryChanged(delivery) = event else {
                continue;
            };
            if let DeliveryState::Accepted(_) = delivery.state {
                let id = delivery.admission_id.as_str().to_owned();
                assert!(self.payloads.contains_key(&id), "{id} never left");
                assert!(self.accepted.insert(id), "accepted twice");
            }
        }
        let mut open = BTreeSet::new();
        for delivery in rig.engine.deliveries() {
            let under_way = matches!(
                delivery.state,
                DeliveryState::AwaitingReply { .. } | DeliveryState::Reconciling { .. }
            );
            let session = delivery.params.session_id.to_string();
            assert!(!under_way || open.insert(session), "two open sends");
        }
        rig.link_outputs.clear();
        sent
    }

    /// Does one thing in the journal, or fails to.
    fn journal(&mut self, rig: &mut Rig, dice: &mut Dice) {
        let outcome = if dice.roll(5) == 0 { Journaled::Failed } else { Journaled::OnDisk };
        let (id, stage) = match self.orders.pop_front() {
            Some(JournalOrder::Keep(row)) => (row.admission_id, row.stage),
            Some(JournalOrder::Mark(id, stage, _)) => (id, stage),
            Some(JournalOrder::Adopt { .. }) => {
                let stage = match dice.roll(3) {
                    0 => JournalStage::Refused(ErrorCode::QueueFull),
                    1 => JournalStage::Sent,
                    _ => JournalStage::Unsent,
                };
                let left = left("left", stage, dice.roll(2) * 900_000);
                if stage == JournalStage::Sent {
                    self.may_leave.insert("left".to_owned());
                    self.payloads.insert("left".to_owned(), left.row.payload.get().to_owned());
                }
                return rig.input(Input::Adopted(vec![left]));
            }
            Some(JournalOrder::Drop(_)) | None => return,
        };
        if (stage, outcome) == (JournalStage::Sent, Journaled::OnDisk) {
            self.may_leave.insert(id.to_string());
        }
        rig.input(Input::Journaled { id, outcome });
    }
}

fn garbage(dice: &mut Dice, ids: &[Sent]) -> String {
    let id = ids
        .get(dice.roll(ids.len() as u64 + 1) as usize)
        .map_or("1".to_owned(), |sent| sent.id.clone());
    let payloads = [
        "null",
        "{}",
        "[]",
        "7",
        "\"x\"",
        r#"{"code":"queue_full","message":"m"}"#,
        r#"{"code":"nonsense"}"#,
        r#"{"messages":[{}],"has_more":true}"#,
        r#"{"session_id":"","event_seq":9007199254740993,"epoch":""}"#,
        r#"{"reconnect_after_ms":18446744073709551615}"#,
    ];
    let kinds = ["response", "error", "notification", "request", "", "7"];
    let actions = [
        "hello",
        "transcript.delta",
        "message.queue.status_changed",
        "session.changed",
        "turn.ended",
        "server.draining",
        "task.changed",
        "",
    ];
    let pick =
        |dice: &mut Dice, list: &[&str]| list[dice.roll(list.len() as u64) as usize].to_owned();
    let (kind, action) = (pick(dice, &kinds), pick(dice, &actions));
    let payload = pick(dice, &payloads);
    match dice.roll(4) {
        0 => payload,
        1 => format!(r#"{{"id":"{id}","type":"{kind}"}}"#),
        _ => format!(r#"{{"id":"{id}","type":"{kind}","action":"{action}","payload":{payload}}}"#),
    }
}

/// Answers a request as a server might.
fn answer(rig: &mut Rig, dice: &mut Dice, request: &Sent, event_seq: &mut u64) {
    let id = request.payload["client_queue_id"].as_str();
    let refused = error(ErrorCode::ALL[dice.roll(ErrorCode::ALL.len() as u64) as usize]);
    if dice.roll(5) == 0 && request.action != "hello" {
        return rig.refuse(request, &refused);
    }
    match request.action.as_str() {
        "hello" => {
            let mut reply = hello_reply();
            if dice.roll(4) == 0 {
                reply.capabilities.clear();
            }
            rig.reply(request, &reply);
        }
        "session.subscribe" => {
            let session = if dice.roll(2) == 0 { 1 } else { 2 };
            *event_seq = dice.roll(50);
            rig.reply(request, &snapshot(session, *event_seq, vec![message(1, "hi")]));
        }
        "message.queue.add" => {
            let id = id.expect("every add has its ID");
            rig.reply(request, &add_reply(id, AdmissionOutcome::Admitted));
        }
        "message.queue.get" => {
            let ids = [some_delivery(rig, dice)];
            rig.reply(request, &status(1, dice.roll(9), 1, &[&ids[0]]));
        }
        "transcript.page" => {
            let message = message_from(5, &some_delivery(rig, dice));
            rig.reply(request, &page(vec![message]));
        }
        "message.queue.edit.begin" => rig.reply(request, &begun(u128::from(dice.roll(2)))),
        "message.queue.edit.renew" => {
            rig.reply(request, &lease(u128::from(dice.roll(2)), dice.roll(9)));
        }
        "message.queue.update" => {
            let operation = request.payload["operation_id"].as_str().unwrap();
            rig.reply(request, &saved(operation));
        }
        _ => rig.reply(request, &json!({})),
    }
}

fn some_delivery(rig: &Rig, dice: &mut Dice) -> String {
    let count = rig.engine.deliveries().len() as u64;
    let nth = dice.roll(count.max(1)) as usize;
    let delivery = rig.engine.deliveries().nth(nth);
    delivery.map_or("none".to_owned(), |d| d.admission_id.to_string())
}

fn storm(seed: u64) {
    let mut dice = Dice(seed);
    let mut rig = Rig::journaling(Journaling::Adopting);
    let mut promises = Promises::default();
    let mut open: Vec<Sent> = Vec::new();
    let mut event_seq = 0;
    rig.input(Input::Start);
    for step in 0..1_500 {
        let some_id = some_delivery(&rig, &mut dice);
        match dice.roll(32) {
            0 => rig.input(Input::LinkClosed { code: None }),
            1..=3 => rig.input(Input::LinkOpened),
            4..=6 => {
                // Mostly a new prompt; at times another text with an ID that is under way.
                let id = match dice.roll(4) {
                    0 if rig.engine.deliveries().len() > 0 => some_id,
                    _ => format!("k{step}"),
                };
                let session = u128::from(dice.roll(3)) + 1;
                rig.submit(session, &id, &format!("text {step}"));
            }
            7 => rig.input(Input::CheckAndResend(admission_id(&some_id))),
            8 => rig.input(Input::Dismiss(admission_id(&some_id))),
            9 => rig.input(Input::Open(session_id(u128::from(dice.roll(3)) + 1))),
            10 => rig.input(Input::Close),
            11 => rig.input(Input::LoadOlder),
            12 => rig.input(Input::Heartbeat),
            13 => rig.input(Input::Call(Call::new(CallId::new(step), &PingParams {}))),
            14 => rig.input(Input::Reconnect),
            15 => {
                let frame = garbage(&mut dice, &open);
                rig.input(Input::Frame(frame));
            }
            16 => {
                event_seq += dice.roll(3);
                let message = message_from(dice.roll(9) + 1, &some_id);
                let event = serde_json::to_value(message).unwrap();
                rig.notify("transcript.message", &stamped(1, event_seq, event));
            }
            17 => {
                let wait = [1, 200, 3_000, 11_000][dice.roll(4) as usize];
                rig.wait(wait);
            }
            18 => rig.input(Input::BeginEdit(target(u128::from(dice.roll(2))))),
            19 => rig.input(Input::LeaveEdit),
            20 | 21 => rig.input(save(&format!("op{step}"), &format!("text {step}"))),
            22..=25 => promises.journal(&mut rig, &mut dice),
            _ if !open.is_empty() => {
                let request = open.remove(dice.roll(open.len() as u64) as usize);
                answer(&mut rig, &mut dice, &request, &mut event_seq);
            }
            _ => rig.input(Input::DeadlineReached),
        }
        open.extend(promises.check(&mut rig));
        let surplus = open.len().saturating_sub(100);
        open.drain(..surplus);
    }
    // Left alone, everything comes to rest: no send stays open for ever.
    for _ in 0..10 {
        rig.wait(60_000);
        rig.input(Input::LinkClosed { code: None });
        open.extend(promises.check(&mut rig));
    }
    for delivery in rig.engine.deliveries() {
        let at_rest = !matches!(
            delivery.state,
            DeliveryState::AwaitingReply { .. } | DeliveryState::Reconciling { .. }
        );
        assert!(at_rest, "{:?} stays {:?}", delivery.admission_id, delivery.state);
    }
}

/// Runs one seed from `USHER_SEED`, or a range of them.
#[test]
fn promises_hold_in_any_storm() {
    let given = std::env::var("USHER_SEED").ok();
    let seeds = match given.and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..=seed,
        None => 1..=50,
    };
    for seed in seeds {
        let told = std::panic::catch_unwind(|| storm(seed));
        assert!(told.is_ok(), "a promise is broken with USHER_SEED={seed}");
    }
}
