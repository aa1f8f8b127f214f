//! Edit leases: who edits what waits. No time passes: nothing expires.

use serde_json::{Value, json};
use usher_tests::client::Answer;

use super::ask::Call;
use super::session::{Edit, Entry, Lease, Place, Session, Standing};
use super::shown::{entry_name, lease_name};
use super::{Model, refused, refused_with};
use crate::names::TIME;
use crate::operation::{LEASE_TTL_MS, Link};

impl Model {
    /// A link is gone: what it edited is held for its editor.
    pub(super) fn disconnect(&mut self, link: Link) -> Answer {
        let entries = self.sessions.iter_mut().flat_map(|session| &mut session.entries);
        for lease in entries.filter_map(|entry| entry.lease.as_mut()) {
            if lease.link == Some(link) {
                lease.link = None;
            }
        }
        Ok(Value::Null)
    }
}

impl Session {
    /// Why nothing automatic takes the head.
    pub(super) fn head_block(&self) -> Option<&'static str> {
        let lease = self.waiting().next()?.lease.as_ref()?;
        Some(if lease.link.is_some() { "head_editing" } else { "head_held" })
    }

    /// Why auto-run does not start the head.
    pub(super) fn blocked(&self) -> Option<&'static str> {
        self.head_block().filter(|_| self.off.is_none())
    }

    /// Returns whether only an edit keeps its head from starting.
    pub(crate) fn is_kept_waiting(&self) -> bool {
        self.standing == Standing::Open && self.turn.is_none() && self.blocked().is_some()
    }

    fn editable(&mut self, id: u32) -> Option<&mut Entry> {
        let is_it = |entry: &&mut Entry| entry.id == id && entry.place == Place::Waiting;
        self.entries.iter_mut().find(is_it)
    }

    pub(super) fn begin(&mut self, lease: u32, id: u32, link: Link) -> Answer {
        let Some(entry) = self.editable(id) else { return refused("entry_not_found") };
        let holder = entry.lease.as_ref().and_then(|lease| lease.link);
        if let Some(holder) = holder {
            let details = json!({"holder_is_you": holder == link, "expires_at": TIME});
            return refused_with("edit_conflict", details);
        }
        entry.generation += 1;
        entry.lease = Some(Lease { id: lease, link: Some(link), operations: Vec::new() });
        let entry = entry.clone();
        self.leases.push(lease);
        let mut begun = self.granted(&entry, lease);
        begun["entry"] = self.entry(&entry, Some(link));
        Ok(begun)
    }

    fn granted(&self, entry: &Entry, lease: u32) -> Value {
        json!({
            "session_id": self.session_name(),
            "entry_id": entry_name(entry.id),
            "lease_id": lease_name(lease),
            "target_revision": entry.target_revision,
            "lease_generation": entry.generation,
            "expires_at": TIME,
            "ttl_ms": LEASE_TTL_MS,
        })
    }

    /// Returns an entry that this link edits under this lease.
    fn held(&mut self, id: u32, lease: u32, link: Link) -> Result<&mut Entry, Answer> {
        let entry = self.editable(id).ok_or_else(|| refused("entry_not_found"))?;
        let held = entry.lease.as_ref();
        match held.is_some_and(|held| held.id == lease && held.link == Some(link)) {
            true => Ok(entry),
            false => Err(refused("edit_conflict")),
        }
    }

    pub(super) fn renew(&mut self, id: u32, lease: u32, link: Link) -> Answer {
        let entry = match self.held(id, lease, link) {
            Ok(entry) => entry,
            Err(refusal) => return refusal,
        };
        entry.generation += 1;
        let entry = entry.clone();
        Ok(self.granted(&entry, lease))
    }

    pub(super) fn save(&mut self, call: &Call, save: (u32, u32, u64), edit: &Edit) -> Answer {
        let (id, lease, expected) = save;
        let entry = match self.held(id, lease, call.link) {
            Ok(entry) => entry.clone(),
            Err(refusal) => return refusal,
        };
        let saved = |revision: u64| {
            let operation = format!("o{}", edit.operation);
            Ok(json!({
                "entry_id": entry_name(id), "operation_id": operation, "target_revision": revision,
            }))
        };
        let lease = entry.lease.as_ref().expect("it is held");
        let known = lease.operations.iter().find(|(known, _)| known.operation == edit.operation);
        if let Some((known, revision)) = known {
            return if known == edit { saved(*revision) } else { refused("operation_conflict") };
        }
        let revision = entry.target_revision;
        if expected != revision {
            return refused_with("revision_conflict", json!({"target_revision": revision}));
        }
        let attachments = match &edit.attachments {
            Some(offered) => self.find(call.number, offered, &entry.attachments)?,
            None => entry.attachments,
        };
        if edit.content.trim().is_empty() && attachments.is_empty() {
            return refused_with("validation", json!({"field": "content"}));
        }
        self.claim(&attachments);
        self.revision += 1;
        let entry = self.editable(id).expect("it is held");
        edit.content.clone_into(&mut entry.content);
        entry.attachments = attachments;
        entry.target_revision += 1;
        let lease = entry.lease.as_mut().expect("it is held");
        lease.operations.push((edit.clone(), revision + 1));
        saved(revision + 1)
    }

    pub(super) fn end_edit(&mut self, id: u32, lease: u32, link: Link) -> Answer {
        match self.held(id, lease, link) {
            Ok(entry) => entry.lease = None,
            Err(refusal) => return refusal,
        }
        Ok(json!({"session_id": self.session_name(), "entry_id": entry_name(id)}))
    }
}
