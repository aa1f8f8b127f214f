//! What each request does to the reference, and what it is answered with.

use serde_json::{Value, json};
use usher_tests::client::{Answer, Refusal, merge};

use super::session::{Entry, Place, Receipt, Session};
use super::shown::{entry_name, question_name, undo_name};
use super::turn::{BLANK_LINE, turn_name};
use super::{Folding, Model, Settings, refused, refused_with};

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
    Add {
        admission_id: Option<String>,
        prompt: Prompt,
    },
    Get {
        entry: u32,
    },
    Remove {
        entry: u32,
    },
    Merge {
        entry: u32,
    },
    Reorder {
        order: Vec<u32>,
        expected_revision: Option<u64>,
    },
    SendNow {
        entry: Option<u32>,
        expected_turn: Option<u32>,
        expected_revision: Option<u64>,
        resume: bool,
    },
    Clear {
        expected_revision: Option<u64>,
    },
    Restore {
        undo: u32,
    },
    Drain,
    AutoRun {
        on: bool,
    },
    Cancel {
        expected_turn: Option<u32>,
    },
    Resolve {
        turn: u32,
        resend: bool,
    },
    Respond {
        question: u32,
        option: &'static str,
    },
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
            Ask::Get { entry } => {
                ("message.queue.entry.get", json!({"entry_id": entry_name(*entry)}))
            }
            Ask::Merge { entry } => {
                ("message.queue.merge", json!({"entry_id": entry_name(*entry)}))
            }
            Ask::Reorder { order, expected_revision } => {
                let order: Value = order.iter().map(|entry| entry_name(*entry)).collect();
                let fields = json!({
                    "ordered_ids": order, "expected_queue_revision": expected_revision,
                });
                ("message.queue.reorder", fields)
            }
            Ask::SendNow { entry, expected_turn, expected_revision, resume } => {
                let fields = json!({
                    "scope": if entry.is_some() { "entry" } else { "all" },
                    "entry_id": entry.map(entry_name),
                    "expected_turn_id": expected_turn.map(turn_name),
                    "expected_queue_revision": expected_revision,
                    "resume": if *resume { Value::Null } else { json!(false) },
                });
                ("message.queue.send_now", fields)
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
        let (fresh, settings) = (call.number, self.settings);
        // A wrong shape is one whoever sends it, and whatever its ID meant before.
        if let Ask::Add { prompt, .. } = &call.ask
            && prompt.content.trim().is_empty()
        {
            return refused_with("validation", json!({"field": "content"}));
        }
        let session = &mut self.sessions[call.session];
        if call.identity != session.identity() {
            return refused("queue_session_unavailable");
        }
        match &call.ask {
            Ask::Add { admission_id, prompt } => session.add(fresh, settings, admission_id, prompt),
            Ask::Get { entry } => session.get(*entry),
            Ask::Remove { entry } => session.remove(fresh, *entry),
            Ask::Merge { entry } => session.merge(*entry),
            Ask::Reorder { order, expected_revision } => session.reorder(order, *expected_revision),
            Ask::SendNow { entry, expected_turn, expected_revision, resume } => {
                session.send_now(*entry, *expected_turn, *expected_revision, *resume)
            }
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
        settings: Settings,
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
        let (outcome, entry) = match self.fold(settings, admission_id, prompt) {
            Some(tail) => ("folded", tail),
            None => ("admitted", self.insert(fresh, settings, admission_id, prompt)?),
        };
        self.revision += 1;
        let mut answer = self.entry(&entry);
        answer["admission"] = json!({
            "outcome": outcome,
            "accepted_queue_id": entry_name(entry.id),
            "queue_revision": self.revision,
            "replay_safe": admission_id.is_some(),
        });
        if let Some(id) = admission_id {
            self.receipts.push(Receipt {
                admission_id: id.clone(),
                sent: prompt.clone(),
                answer: answer.clone(),
            });
        }
        Ok(answer)
    }

    /// Adds a prompt to the tail; returns the tail if it could.
    fn fold(
        &mut self,
        settings: Settings,
        admission_id: &Option<String>,
        prompt: &Prompt,
    ) -> Option<Entry> {
        let stored = |entry: &&mut Entry| !matches!(entry.place, Place::Removed(_));
        let tail = self.entries.iter_mut().rev().find(stored)?;
        let folds = settings.folding == Folding::On
            && tail.place == Place::Waiting
            && tail.model == prompt.model
            && tail.plan_mode == prompt.plan_mode;
        if !folds {
            return None;
        }
        tail.content = [tail.content.as_str(), &prompt.content].join(BLANK_LINE);
        tail.admission_ids.extend(admission_id.clone());
        tail.target_revision += 1;
        Some(tail.clone())
    }

    fn insert(
        &mut self,
        id: u32,
        settings: Settings,
        admission_id: &Option<String>,
        prompt: &Prompt,
    ) -> Result<Entry, Refusal> {
        let (count, max) = (self.count(), settings.cap);
        if max > 0 && count >= max {
            let details = json!({"queue_size": count, "max": max});
            return Err(Refusal::new("queue_full", details));
        }
        let entry = Entry {
            id,
            place: Place::Waiting,
            content: prompt.content.clone(),
            model: prompt.model.clone(),
            plan_mode: prompt.plan_mode,
            admission_ids: admission_id.iter().cloned().collect(),
            target_revision: 1,
        };
        self.entries.push(entry.clone());
        Ok(entry)
    }

    fn get(&self, id: u32) -> Answer {
        match self.waiting().find(|entry| entry.id == id) {
            Some(entry) => Ok(self.entry(entry)),
            None => refused("entry_not_found"),
        }
    }

    fn merge(&mut self, id: u32) -> Answer {
        let stored = |entry: &Entry| !matches!(entry.place, Place::Removed(_));
        let is_it = |entry: &Entry| entry.id == id && entry.place == Place::Waiting;
        let Some(source) = self.entries.iter().position(is_it) else {
            return refused("entry_not_found");
        };
        let Some(target) = self.entries[..source].iter().rposition(stored) else {
            return refused("no_merge_target");
        };
        if self.entries[target].place != Place::Waiting {
            return refused("no_merge_target");
        }
        let source = self.entries.remove(source);
        let target = &mut self.entries[target];
        target.content = [target.content.as_str(), &source.content].join(BLANK_LINE);
        for id in source.admission_ids {
            if !target.admission_ids.contains(&id) {
                target.admission_ids.push(id);
            }
        }
        target.target_revision += 1;
        let survivor = entry_name(target.id);
        self.revision += 1;
        Ok(json!({"entry_id": survivor}))
    }

    fn reorder(&mut self, order: &[u32], expected_revision: Option<u64>) -> Answer {
        self.check_revision(expected_revision)?;
        let before: Vec<u32> = self.waiting().map(|entry| entry.id).collect();
        let (mut wanted, mut visible) = (order.to_vec(), before.clone());
        wanted.sort_unstable();
        visible.sort_unstable();
        if wanted != visible {
            return refused_with("queue_changed", json!({"queue_revision": self.revision}));
        }
        // The slots stay, and with them what is hidden; the visible entries change places.
        let slots = 0..self.entries.len();
        let slots = slots.filter(|slot| self.entries[*slot].place == Place::Waiting);
        let entries: Vec<Entry> = self.waiting().cloned().collect();
        for (slot, id) in slots.collect::<Vec<_>>().into_iter().zip(order) {
            let entry = entries.iter().find(|entry| entry.id == *id);
            self.entries[slot] = entry.expect("it is a permutation").clone();
        }
        if before != order {
            self.revision += 1;
        }
        Ok(json!({
            "session_id": self.session_name(),
            "reordered": order.len(),
            "queue_revision": self.revision,
        }))
    }

    fn send_now(
        &mut self,
        entry: Option<u32>,
        expected_turn: Option<u32>,
        expected_revision: Option<u64>,
        resume: bool,
    ) -> Answer {
        let open = self.turn();
        if expected_turn.is_some() && expected_turn != open {
            return refused_with("turn_changed", json!({"turn_id": open.map(turn_name)}));
        }
        self.check_revision(expected_revision)?;
        let which = |known: &&mut Entry| {
            known.place == Place::Waiting && entry.is_none_or(|entry| entry == known.id)
        };
        let stopping = self.turn.as_ref().is_some_and(|turn| turn.stopping);
        let chosen: Vec<&mut Entry> = self.entries.iter_mut().filter(which).collect();
        let sent_count = chosen.len();
        match (sent_count, entry) {
            (0, Some(_)) => return refused("entry_not_found"),
            (0, None) => return refused("queue_empty"),
            _ if stopping => return refused("send_now_conflict"),
            _ => chosen.into_iter().for_each(|entry| entry.place = Place::Claimed),
        }
        self.revision += 1;
        if resume {
            self.off = None;
        }
        self.stop(Some("replaced"));
        if self.turn.is_none() {
            self.open_claimed();
        }
        Ok(json!({
            "session_id": self.session_name(), "dispatched": true, "sent_count": sent_count,
        }))
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
        if self.question().is_some() {
            return refused("session_not_promptable");
        }
        let unsettled = self
            .transcript
            .iter()
            .position(|line| line.turn == turn && line.role == "user" && line.status == "failed");
        let unsettled = unsettled.filter(|index| self.transcript[*index].resolution.is_none());
        let Some(index) = unsettled else {
            let open = self.turn().map(turn_name);
            return refused_with("turn_changed", json!({"turn_id": open}));
        };
        self.check_promptable()?;
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
