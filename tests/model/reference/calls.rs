//! What each request does to the reference, and what it is answered with.

use serde_json::{Value, json};
use usher_tests::client::Answer;

use super::ask::{Ask, Call, Prompt};
use super::attached::{Attachment, Offered, overflow, together};
use super::session::{Entry, Place, Receipt, Session, Standing, unite};
use super::shown::{entry_name, question_name, undo_name};
use super::turn::{joined, turn_name};
use super::{Folding, Model, Settings, refused, refused_with};
use crate::operation::Link;

impl Model {
    /// Answers one request.
    pub(crate) fn call(&mut self, call: &Call) -> Answer {
        let (fresh, settings) = (call.number, self.settings);
        match &call.ask {
            // A wrong shape is one whoever sends it, and whatever its ID meant before.
            Ask::Add { prompt, .. }
                if prompt.content.trim().is_empty() && prompt.attachments.is_empty() =>
            {
                return refused_with("validation", json!({"field": "content"}));
            }
            Ask::Archive => return self.archive(call, Standing::Archived),
            Ask::Unarchive => return self.archive(call, Standing::Open),
            Ask::Transfer { to, to_identity } => return self.transfer(call, *to, to_identity),
            Ask::Disconnect => return self.disconnect(call.link),
            Ask::Upload { file } => return self.upload(call, *file),
            Ask::Abort { upload } => return self.abort(*upload),
            _ => {}
        }
        let session = &mut self.sessions[call.session];
        if !session.is_available_as(&call.identity) {
            return refused("queue_session_unavailable");
        }
        match &call.ask {
            Ask::Add { admission_id, prompt } => session.add(fresh, settings, admission_id, prompt),
            Ask::Get { entry } => session.get(*entry, call.link),
            Ask::Begin { entry } => session.begin(fresh, *entry, call.link),
            Ask::Renew { entry, lease } => session.renew(*entry, *lease, call.link),
            Ask::Save { entry, lease, expected_revision, edit } => {
                session.save(call, (*entry, *lease, *expected_revision), edit)
            }
            Ask::End { entry, lease, .. } => session.end_edit(*entry, *lease, call.link),
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
            Ask::Reset { keep_queue } => session.reset(keep_queue.unwrap_or(true)),
            Ask::Delete => session.delete(),
            Ask::Archive
            | Ask::Unarchive
            | Ask::Transfer { .. }
            | Ask::Disconnect
            | Ask::Upload { .. }
            | Ask::Abort { .. } => unreachable!("answered above"),
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
        // What is refused for want of room claims nothing. Only what is inline folds into a full one.
        if prompt.attachments.iter().any(Offered::is_staged) {
            self.check_room(settings)?;
        }
        let attachments = self.find(fresh, &prompt.attachments, &[])?;
        let (outcome, entry) = match self.fold(settings, admission_id, prompt, &attachments) {
            Some(tail) => ("folded", tail),
            None => {
                self.check_room(settings)?;
                ("admitted", self.insert(fresh, admission_id, prompt, &attachments))
            }
        };
        self.claim(&attachments);
        self.revision += 1;
        let mut answer = self.entry(&entry, None);
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

    /// Returns the last stored entry, if a prompt may fold into it.
    fn tail(&mut self, settings: Settings, prompt: &Prompt) -> Option<&mut Entry> {
        let stored = |entry: &&mut Entry| !matches!(entry.place, Place::Removed(_));
        let tail = self.entries.iter_mut().rev().find(stored)?;
        let folds = settings.folding == Folding::On
            && tail.place == Place::Waiting
            && tail.lease.is_none()
            && tail.model == prompt.model
            && tail.plan_mode == prompt.plan_mode;
        folds.then_some(tail)
    }

    /// Adds a prompt to the tail; returns the tail if it could.
    fn fold(
        &mut self,
        settings: Settings,
        admission_id: &Option<String>,
        prompt: &Prompt,
        attachments: &[Attachment],
    ) -> Option<Entry> {
        let tail = self.tail(settings, prompt)?;
        tail.attachments = together([&tail.attachments[..], attachments])?;
        tail.content = joined(&[&tail.content, &prompt.content]);
        unite(&mut tail.admission_ids, admission_id.clone());
        tail.target_revision += 1;
        Some(tail.clone())
    }

    fn check_room(&self, settings: Settings) -> Answer {
        let (count, max) = (self.count(), settings.cap);
        match max > 0 && count >= max {
            true => refused_with("queue_full", json!({"queue_size": count, "max": max})),
            false => Ok(Value::Null),
        }
    }

    fn insert(
        &mut self,
        id: u32,
        admission_id: &Option<String>,
        prompt: &Prompt,
        attachments: &[Attachment],
    ) -> Entry {
        let entry = Entry {
            id,
            place: Place::Waiting,
            content: prompt.content.clone(),
            model: prompt.model.clone(),
            plan_mode: prompt.plan_mode,
            attachments: attachments.to_vec(),
            admission_ids: admission_id.iter().cloned().collect(),
            past: Vec::new(),
            target_revision: 1,
            lease: None,
            generation: 0,
        };
        self.entries.push(entry.clone());
        entry
    }

    fn get(&self, id: u32, viewer: Link) -> Answer {
        match self.waiting().find(|entry| entry.id == id) {
            Some(entry) => Ok(self.entry(entry, Some(viewer))),
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
        let both = [target, source].map(|index| &self.entries[index].attachments[..]);
        let Some(attachments) = together(both) else {
            return overflow("merge_overflow");
        };
        let source = self.entries.remove(source);
        let target = &mut self.entries[target];
        target.attachments = attachments;
        target.content = joined(&[&target.content, &source.content]);
        unite(&mut target.admission_ids, source.admission_ids);
        unite(&mut target.past, source.past);
        target.target_revision += 1;
        target.lease = None;
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
            _ if together(chosen.iter().map(|entry| &entry.attachments[..])).is_none() => {
                return overflow("send_now_overflow");
            }
            _ if stopping => return refused("send_now_conflict"),
            _ => chosen.into_iter().for_each(|entry| {
                entry.place = Place::Claimed;
                entry.lease = None;
            }),
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
                entry.lease = None;
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
            let starts = self.turn.is_none() && self.head_block().is_none();
            dispatched = starts && self.reserve_head();
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
        let unsettled = self.transcript.iter().position(|line| {
            line.turn == Some(turn) && line.role == "user" && line.status == "failed"
        });
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
