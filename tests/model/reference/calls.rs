//! What each request does to the reference, and what it is answered with.

use serde_json::{Value, json};
use usher_tests::client::{Answer, merge};

use super::session::{Entry, Place, Receipt, Session};
use super::shown::{entry_name, question_name, undo_name};
use super::turn::turn_name;
use super::{Model, refused, refused_with};

/// What an admission sends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) content: String,
    pub(crate) model: Option<String>,
    pub(crate) plan_mode: bool,
}

/// One request, with the model's names. Ids that name nothing are allowed everywhere.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// Unlike that of any other request of the sequence: names what the request makes.
    pub(crate) number: u32,
    /// Which session.
    pub(crate) session: usize,
    /// The names of the session as the caller knows them.
    pub(crate) identity: Value,
    /// What is asked for.
    pub(crate) ask: Ask,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ask {
    Add { admission_id: Option<String>, prompt: Prompt },
    Remove { entry: u32 },
    Clear { expected_revision: Option<u64> },
    Restore { undo: u32 },
    Drain,
    AutoRun { on: bool },
    Cancel { expected_turn: Option<u32> },
    Resolve { turn: u32, resend: bool },
    Respond { question: u32, option: &'static str },
}

impl Call {
    /// Returns the action and the fields of the request.
    pub(crate) fn request(&self) -> (&'static str, Value) {
        let (action, fields) = match &self.ask {
            Ask::Add { admission_id, prompt } => {
                let mut fields = json!({"content": prompt.content});
                if let Some(id) = admission_id {
                    fields["client_queue_id"] = json!(id);
                }
                if let Some(model) = &prompt.model {
                    fields["model"] = json!(model);
                }
                if prompt.plan_mode {
                    fields["plan_mode"] = json!(true);
                }
                ("message.queue.add", fields)
            }
            Ask::Remove { entry } => {
                ("message.queue.remove", json!({"entry_id": entry_name(*entry)}))
            }
            Ask::Clear { expected_revision } => {
                ("message.queue.cancel", json!({"expected_queue_revision": expected_revision}))
            }
            Ask::Restore { undo } => {
                ("message.queue.restore", json!({"undo_id": undo_name(*undo)}))
            }
            Ask::Drain => ("message.queue.drain", json!({})),
            Ask::AutoRun { on } => ("message.queue.auto_run.set", json!({"enabled": on})),
            Ask::Cancel { expected_turn } => {
                ("turn.cancel", json!({"expected_turn_id": expected_turn.map(turn_name)}))
            }
            Ask::Resolve { turn, resend } => {
                let resolution = if *resend { "resend" } else { "drop" };
                ("turn.resolve", json!({"turn_id": turn_name(*turn), "resolution": resolution}))
            }
            Ask::Respond { question, option } => (
                "permission.respond",
                json!({"request_id": question_name(*question), "option_id": option}),
            ),
        };
        let mut payload = self.identity.clone();
        merge(&mut payload, fields);
        (action, payload)
    }
}

impl Model {
    /// Answers one request.
    pub(crate) fn call(&mut self, call: &Call) -> Answer {
        let (fresh, cap) = (call.number, self.cap);
        let session = &mut self.sessions[call.session];
        if call.identity != session.identity() {
            return refused("queue_session_unavailable");
        }
        match &call.ask {
            Ask::Add { admission_id, prompt } => session.add(fresh, cap, admission_id, prompt),
            Ask::Remove { entry } => session.remove(fresh, *entry),
            Ask::Clear { expected_revision } => session.clear(fresh, *expected_revision),
            Ask::Restore { undo } => session.restore(*undo),
            Ask::Drain => session.drain(),
            Ask::AutoRun { on } => session.auto_run(*on),
            Ask::Cancel { expected_turn } => session.ask_cancel(*expected_turn),
            Ask::Resolve { turn, resend } => session.resolve(*turn, *resend),
            Ask::Respond { question, option } => session.respond(*question, option),
        }
    }
}

impl Session {
    fn add(
        &mut self,
        fresh: u32,
        cap: u64,
        admission_id: &Option<String>,
        prompt: &Prompt,
    ) -> Answer {
        if let Some(id) = admission_id
            && !self.admission_ids.iter().any(|(known, _)| known == id)
        {
            self.admission_ids.push((id.clone(), prompt.clone()));
        }
        if let Some(id) = admission_id {
            let known = self.receipts.iter().find(|receipt| receipt.admission_id == *id);
            if let Some(receipt) = known {
                if receipt.sent != *prompt {
                    return refused("queue_id_conflict");
                }
                let mut answer = receipt.answer.clone();
                answer["admission"]["outcome"] = json!("replayed");
                return Ok(answer);
            }
        }
        if prompt.content.trim().is_empty() {
            return refused_with("validation", json!({"field": "content"}));
        }
        let count = self.count();
        if cap > 0 && count >= cap {
            return refused_with("queue_full", json!({"queue_size": count, "max": cap}));
        }
        self.revision += 1;
        let entry = Entry {
            id: fresh,
            place: Place::Waiting,
            content: prompt.content.clone(),
            model: prompt.model.clone(),
            plan_mode: prompt.plan_mode,
            admission_ids: admission_id.iter().cloned().collect(),
            target_revision: 1,
        };
        let mut answer = self.entry(&entry);
        answer["admission"] = json!({
            "outcome": "admitted",
            "accepted_queue_id": entry_name(entry.id),
            "queue_revision": self.revision,
            "replay_safe": admission_id.is_some(),
        });
        self.entries.push(entry);
        if let Some(id) = admission_id {
            self.receipts.push(Receipt {
                admission_id: id.clone(),
                sent: prompt.clone(),
                answer: answer.clone(),
            });
        }
        Ok(answer)
    }

    /// Takes entries out; they can come back by the undo.
    fn take_out(&mut self, undo: u32, which: impl Fn(&Entry) -> bool) -> u64 {
        let mut taken = 0;
        for entry in &mut self.entries {
            if entry.place == Place::Waiting && which(entry) {
                entry.place = Place::Removed(undo);
                taken += 1;
            }
        }
        self.undos.push(undo);
        if taken > 0 {
            self.revision += 1;
            self.undoable.push(undo);
        }
        taken
    }

    fn remove(&mut self, undo: u32, id: u32) -> Answer {
        if !self.waiting().any(|entry| entry.id == id) {
            return refused("entry_not_found");
        }
        self.take_out(undo, |entry| entry.id == id);
        Ok(json!({"entry_id": entry_name(id), "undo_id": undo_name(undo)}))
    }

    fn clear(&mut self, undo: u32, expected_revision: Option<u64>) -> Answer {
        self.check_revision(expected_revision)?;
        let removed = self.take_out(undo, |_| true);
        Ok(json!({
            "session_id": self.session_name(), "removed": removed, "undo_id": undo_name(undo),
        }))
    }

    fn check_revision(&self, expected: Option<u64>) -> Answer {
        match expected {
            Some(expected) if expected != self.revision => {
                refused_with("queue_changed", json!({"queue_revision": self.revision}))
            }
            _ => Ok(Value::Null),
        }
    }

    fn restore(&mut self, undo: u32) -> Answer {
        if !self.undoable.contains(&undo) {
            return refused("undo_expired");
        }
        self.undoable.retain(|known| *known != undo);
        let mut restored = 0;
        for entry in &mut self.entries {
            if entry.place == Place::Removed(undo) {
                entry.place = Place::Waiting;
                restored += 1;
            }
        }
        self.revision += 1;
        Ok(json!({"restored": restored}))
    }

    /// Why no turn can begin.
    fn check_promptable(&self) -> Answer {
        match &self.turn {
            None => Ok(Value::Null),
            Some(turn) if turn.question.is_some() => refused("session_not_promptable"),
            Some(_) => refused("session_busy"),
        }
    }

    fn drain(&mut self) -> Answer {
        self.check_promptable()?;
        self.switch_on();
        let drained = self.reserve_head();
        Ok(json!({"session_id": self.session_name(), "drained": drained}))
    }

    fn switch_on(&mut self) {
        if self.off.take().is_some() {
            self.revision += 1;
        }
    }

    fn auto_run(&mut self, on: bool) -> Answer {
        let mut dispatched = false;
        if on {
            self.switch_on();
            dispatched = self.turn.is_none() && self.reserve_head();
        } else if self.off.is_none() {
            self.off = Some("user");
            self.revision += 1;
        }
        Ok(json!({
            "session_id": self.session_name(), "auto_run": on, "dispatched": dispatched,
        }))
    }

    fn ask_cancel(&mut self, expected_turn: Option<u32>) -> Answer {
        let open = self.turn.as_ref().map(|turn| turn.id);
        if expected_turn.is_some() && expected_turn != open {
            return refused_with("turn_changed", json!({"turn_id": open.map(turn_name)}));
        }
        let Some(turn) = &self.turn else {
            return Ok(json!({"cancelled": false}));
        };
        if turn.stopping {
            return refused("send_now_conflict");
        }
        self.cancel();
        Ok(json!({"cancelled": true}))
    }

    fn resolve(&mut self, turn: u32, resend: bool) -> Answer {
        let unsettled = self
            .transcript
            .iter()
            .position(|line| line.turn == turn && line.role == "user" && line.status == "failed");
        let unsettled = unsettled.filter(|index| self.transcript[*index].resolution.is_none());
        let Some(index) = unsettled else {
            let open = self.turn().map(turn_name);
            return refused_with("turn_changed", json!({"turn_id": open}));
        };
        if self.turn.is_some() {
            return refused("session_busy");
        }
        if resend {
            self.open(Some(index));
        } else {
            self.transcript[index].resolution = Some("drop");
        }
        Ok(json!({"turn_id": turn_name(turn)}))
    }

    fn respond(&mut self, question: u32, option: &str) -> Answer {
        let open = self.turn.as_ref().and_then(|turn| turn.question);
        if open != Some(question) {
            return refused("permission_closed");
        }
        let name = match option {
            "once" => "Allow once",
            "always" => "Always allow",
            "no" => "Reject",
            _ => return refused_with("validation", json!({"field": "option_id"})),
        };
        self.answer(name);
        Ok(json!({"request_id": question_name(question)}))
    }
}
