//! What happens to whole sessions and tasks: reset, transfer, archive, delete.

use serde_json::{Value, json};
use usher_tests::client::Answer;

use super::ask::Call;
use super::session::{Entry, Place, Session, Standing};
use super::{Model, refused};
use crate::names::ANYTHING;

impl Model {
    pub(super) fn archive(&mut self, call: &Call, standing: Standing) -> Answer {
        let task = self.sessions[call.session].task;
        let of_task =
            |session: &&mut Session| session.task == task && session.standing != Standing::Gone;
        for session in self.sessions.iter_mut().filter(of_task) {
            session.standing = standing;
            if standing == Standing::Archived {
                session.entries.iter_mut().for_each(|entry| entry.lease = None);
                session.stop_for_archive();
            }
        }
        Ok(call.task())
    }

    pub(super) fn transfer(&mut self, call: &Call, to: usize, to_identity: &Value) -> Answer {
        let from = call.session;
        let (source, destination) = (&self.sessions[from], &self.sessions[to]);
        let available =
            source.is_available_as(&call.identity) && destination.is_available_as(to_identity);
        if !available {
            return refused("queue_session_unavailable");
        }
        let moved = source.waiting().count();
        let reserved = |session: &Session| {
            let of_turn = |entry: &Entry| matches!(entry.place, Place::Reserved | Place::Claimed);
            session.entries.iter().any(of_turn)
        };
        if from == to {
            return Ok(json!({"moved": 0}));
        }
        if reserved(source) || reserved(destination) {
            return refused("session_busy");
        }
        if moved > 0 {
            let source = &mut self.sessions[from];
            source.forget_removed();
            source.revision += 1;
            let off = source.off;
            let mut entries = std::mem::take(&mut source.entries);
            entries.iter_mut().for_each(Entry::retire);
            let destination = &mut self.sessions[to];
            destination.entries.iter_mut().for_each(|entry| entry.lease = None);
            destination.entries.append(&mut entries);
            destination.revision += 1;
            destination.off = destination.off.or(off);
        }
        Ok(json!({"moved": moved}))
    }
}

impl Session {
    /// Nothing that was taken out can come back.
    fn forget_removed(&mut self) {
        self.entries.retain(|entry| !matches!(entry.place, Place::Removed(_)));
        self.undoable.clear();
    }

    pub(super) fn reset(&mut self, keep_queue: bool) -> Answer {
        if self.turn.is_some() {
            return refused("session_busy");
        }
        let mut divider = self.line("system", String::new(), "complete");
        divider.notice = Some("session_reset");
        self.transcript.push(divider);
        self.forget_removed();
        match keep_queue {
            true => self.entries.iter_mut().for_each(Entry::retire),
            false => self.entries.clear(),
        }
        self.receipts.clear();
        self.life += 1;
        self.revision += 1;
        let mut shown = self.shown();
        // It may have gone on since.
        for field in ["state", "turn", "last_seq"] {
            shown["session"][field] = json!(ANYTHING);
        }
        Ok(shown)
    }

    pub(super) fn delete(&mut self) -> Answer {
        self.standing = Standing::Gone;
        self.turn = None;
        self.entries.clear();
        self.staged.clear();
        // Nobody is told how its turn ended.
        self.told.clear();
        Ok(json!({"session_id": self.session_name()}))
    }
}
