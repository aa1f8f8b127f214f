//! What the variants of the client do: frames are rewritten between the engine and the network, so
//! that the engine behaves as one that is wrong would.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use usher_shared::client::Delivery;
use usher_shared::error::ErrorCode;
use usher_shared::protocol::Request;
use usher_shared::protocol::edit::EditRenewParams;
use usher_shared::protocol::hello::{HelloParams, capability};
use usher_shared::protocol::queue::QueueAddParams;
use usher_shared::protocol::turn::notification;

use crate::broken::Broken;

/// Where a rewritten frame goes.
pub(crate) enum Tampered {
    /// To the other side, as it would have.
    On(String),
    /// Back to the engine, as if the server had said it.
    Back(String),
}

/// See the module.
#[derive(Default)]
pub(crate) struct Tamper {
    broken: Option<Broken>,
    /// How often each admission left.
    sent: BTreeMap<String, u32>,
    /// The requests that are retries of an admission.
    retries: Vec<String>,
    /// Admissions that are under way: request and ID.
    adds: Vec<(String, String)>,
    early: u64,
    old_status: Option<Value>,
    renewed: Option<Value>,
}

impl Tamper {
    pub(crate) fn new(broken: Option<Broken>) -> Self {
        Self { broken, ..Self::default() }
    }

    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn rewrites(&self) -> bool {
        matches!(
            self.broken,
            Some(
                Broken::NewIdOnRetry
                    | Broken::OtherTextOnRetry
                    | Broken::OldLifeProves
                    | Broken::OldStatusWins
                    | Broken::AnyRefusalProves
                    | Broken::NotFoundProves
                    | Broken::AnyAnswerAccepts
                    | Broken::OldRenewalAdopted
                    | Broken::RetriesUnannounced
            )
        )
    }

    /// Returns what a client sends at once that does not wait for its turn.
    pub(crate) fn queued(&mut self, delivery: &Delivery) -> Option<String> {
        if !self.is(Broken::TwoOpenSends) {
            return None;
        }
        self.early += 1;
        let mut params = (*delivery.params).clone();
        params.client_queue_id = Some(delivery.admission_id.clone());
        let id = format!("early-{}", self.early);
        let frame = json!({
            "id": id, "type": "request", "action": QueueAddParams::ACTION, "payload": params,
        });
        Some(frame.to_string())
    }

    /// A frame of the engine.
    pub(crate) fn up(&mut self, frame: String) -> Tampered {
        let is_ours =
            frame.contains(QueueAddParams::ACTION) || frame.contains(EditRenewParams::ACTION);
        if !self.rewrites() || !is_ours {
            return Tampered::On(frame);
        }
        let mut value: Value = serde_json::from_str(&frame).expect("the engine writes JSON");
        if value["action"] == EditRenewParams::ACTION {
            return self.renew(frame, &value);
        }
        let id = value["payload"]["client_queue_id"].as_str().unwrap_or_default().to_owned();
        let request = value["id"].as_str().unwrap_or_default().to_owned();
        let sent = self.sent.entry(id.clone()).or_default();
        *sent += 1;
        let is_retry = *sent > 1;
        self.adds.push((request.clone(), id.clone()));
        if !is_retry {
            return Tampered::On(frame);
        }
        self.retries.push(request.clone());
        if !id.starts_with('c') {
            // One that somebody gave may be sent anew.
            return Tampered::On(frame);
        }
        if self.is(Broken::NewIdOnRetry) {
            value["payload"]["client_queue_id"] = json!(format!("{id}-again"));
        } else if self.is(Broken::OtherTextOnRetry) {
            value["payload"]["content"] = json!("another text");
        } else if self.is(Broken::NotFoundProves) {
            return Tampered::Back(refusal(&request));
        } else {
            return Tampered::On(frame);
        }
        Tampered::On(value.to_string())
    }

    /// Every renewal but the first is answered with the first one's answer.
    fn renew(&mut self, frame: String, value: &Value) -> Tampered {
        match &self.renewed {
            Some(renewed) if self.is(Broken::OldRenewalAdopted) => {
                let mut payload = renewed.clone();
                let generation = payload["lease_generation"].as_u64().unwrap_or_default();
                payload["lease_generation"] = json!(generation + 1);
                self.renewed = Some(payload.clone());
                let answer = json!({
                    "id": value["id"], "type": "response", "action": value["action"], "payload": payload,
                });
                Tampered::Back(answer.to_string())
            }
            _ => Tampered::On(frame),
        }
    }

    /// A frame of the server; returns what the engine is given instead.
    pub(crate) fn down(&mut self, frame: String) -> Vec<String> {
        if !self.rewrites() {
            return vec![frame];
        }
        let value: Value = serde_json::from_str(&frame).expect("the server writes JSON");
        if value["type"] == "response" && value["action"] == EditRenewParams::ACTION {
            self.renewed = Some(value["payload"].clone());
        }
        if self.is(Broken::OldStatusWins) && value["action"] == notification::QUEUE_STATUS_CHANGED {
            return self.old_status(frame, &value);
        }
        if self.is(Broken::RetriesUnannounced) && value["action"] == HelloParams::ACTION {
            let mut promises = value;
            let capabilities = promises["payload"]["capabilities"].as_array_mut();
            if let Some(list) = capabilities {
                list.push(json!(capability::ADMISSION_RECEIPTS));
            }
            return vec![promises.to_string()];
        }
        if self.is(Broken::OldLifeProves) {
            return vec![forget_lives(value).to_string()];
        }
        let request = value["id"].as_str().unwrap_or_default();
        let is_error = value["type"] == "error";
        if is_error
            && self.is(Broken::AnyRefusalProves)
            && self.retries.iter().any(|id| id == request)
        {
            return vec![refusal(request)];
        }
        let admitted = self.adds.iter().find(|(id, _)| id == request);
        if let Some((request, id)) =
            admitted.filter(|_| is_error && self.is(Broken::AnyAnswerAccepts))
        {
            return vec![acceptance(request, id)];
        }
        vec![frame]
    }

    /// The first status comes again, behind a newer one, as if it were the newest.
    fn old_status(&mut self, frame: String, value: &Value) -> Vec<String> {
        let Some(old) = &self.old_status else {
            self.old_status = Some(value.clone());
            return vec![frame];
        };
        let mut late = old.clone();
        let revision = value["payload"]["queue_revision"].as_u64().unwrap_or_default();
        late["payload"]["queue_revision"] = json!(revision + 1);
        late["payload"]["event_seq"] = value["payload"]["event_seq"].clone();
        late["payload"]["session_id"] = value["payload"]["session_id"].clone();
        vec![frame, late.to_string()]
    }
}

fn refusal(request: &str) -> String {
    let code = ErrorCode::QueueFull;
    let payload = json!({"code": code, "message": "made up", "details": {}});
    let action = QueueAddParams::ACTION;
    json!({"id": request, "type": "error", "action": action, "payload": payload}).to_string()
}

fn acceptance(request: &str, id: &str) -> String {
    let nil = "00000000-0000-0000-0000-000000000000";
    let time = "2026-01-01T00:00:00.000Z";
    let payload = json!({
        "id": nil, "task_id": nil, "session_id": nil, "position": 1, "content": "", "model": null,
        "plan_mode": false, "attachments": [], "metadata": {"queue_admission_ids": [id]},
        "queued_at": time, "queued_by": {"kind": "user", "id": nil, "name": ""},
        "target_revision": 1, "editing": null, "content_truncated": false,
        "admission": {
            "outcome": "admitted", "accepted_queue_id": nil, "queue_revision": 1, "replay_safe": true
        },
    });
    let action = QueueAddParams::ACTION;
    json!({"id": request, "type": "response", "action": action, "payload": payload}).to_string()
}

/// Everything that an entry or a message was ever made from counts as of this life.
fn forget_lives(mut value: Value) -> Value {
    match &mut value {
        Value::Array(items) => {
            let all = std::mem::take(items);
            items.extend(all.into_iter().map(forget_lives));
        }
        Value::Object(fields) => {
            let past = fields.get_mut("queue_admission_ids_past").map(Value::take);
            if let Some(Value::Array(past)) = past {
                fields.insert("queue_admission_ids_past".to_owned(), json!([]));
                if let Some(Value::Array(ids)) = fields.get_mut("queue_admission_ids") {
                    ids.extend(past);
                }
            }
            for (_, field) in fields.iter_mut() {
                *field = forget_lives(field.take());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}
