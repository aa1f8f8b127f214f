//! What a session of the reference looks like from outside.

use serde_json::{Value, json};

use super::attached::Attachment;
use super::session::{Entry, Message, Session, Standing};
use super::turn::{Stage, turn_name};
use super::{Folding, Settings};
use crate::names::{NUMBER, TIME};
use crate::operation::Link;

/// The three looks at one session: its queue, itself, its transcript.
pub(crate) type Look = [Value; 3];

impl Session {
    /// Returns what a look at the session gives.
    pub(crate) fn look(&self, settings: Settings) -> Look {
        let [queue, session, page] = [self.queue(settings), self.shown(), self.page()];
        match self.standing {
            Standing::Open => [queue, session, page],
            Standing::Archived => [refusal("queue_session_unavailable"), session, page],
            Standing::Gone => {
                [refusal("queue_session_unavailable"), refusal("not_found"), refusal("not_found")]
            }
        }
    }

    fn queue(&self, settings: Settings) -> Value {
        json!({
            "task_id": self.task_name(),
            "session_id": self.session_name(),
            "session_incarnation_id": self.life_name(self.life),
            "queue_revision": self.revision,
            "event_seq": NUMBER,
            "entries": self.waiting().map(|entry| self.entry(entry, None)).collect::<Value>(),
            "count": self.count(),
            "max": settings.cap,
            "auto_run": self.off.is_none(),
            "auto_run_reason": self.off,
            "blocked": self.blocked(),
            "merge_enabled": true,
            "auto_merge_enabled": settings.folding == Folding::On,
        })
    }

    /// Returns an entry as it is shown on one of the links that edit, or to one who watches.
    pub(super) fn entry(&self, entry: &Entry, viewer: Option<Link>) -> Value {
        let editor = entry.lease.as_ref().and_then(|lease| lease.link);
        let editing = editor.map(|link| {
            let by = json!({"id": "$user", "name": "$user-name"});
            json!({"by": by, "is_you": viewer == Some(link), "expires_at": TIME})
        });
        json!({
            "id": entry_name(entry.id),
            "task_id": self.task_name(),
            "session_id": self.session_name(),
            "position": NUMBER,
            "content": entry.content,
            "model": entry.model,
            "plan_mode": entry.plan_mode,
            "attachments": shown(&entry.attachments),
            "metadata": {
                "queue_admission_ids": entry.admission_ids,
                "queue_admission_ids_past": entry.past,
                "entity_references": [],
                "context_files": [],
                "plan_comment_refs": [],
            },
            "queued_at": TIME,
            "queued_by": {"kind": "user", "id": "$user", "name": "$user-name"},
            "target_revision": entry.target_revision,
            "editing": editing,
            "content_truncated": false,
        })
    }

    pub(super) fn shown(&self) -> Value {
        let turn = self.turn.as_ref();
        let state = match turn {
            None => "idle",
            Some(turn) if turn.stopping => "cancelling",
            Some(turn) if turn.stage != Stage::Running => "starting",
            Some(turn) if turn.question.is_some() => "awaiting_permission",
            Some(_) => "running",
        };
        let permission = turn.and_then(|turn| {
            let question = turn.question?;
            Some(json!({
                "request_id": question_name(question),
                "turn_id": turn_name(turn.id),
                "title": "run a command",
                "tool": "demo",
                "options": [
                    {"option_id": "once", "name": "Allow once", "kind": "allow_once"},
                    {"option_id": "always", "name": "Always allow", "kind": "allow_always"},
                    {"option_id": "no", "name": "Reject", "kind": "reject_once"},
                ],
            }))
        });
        json!({"session": {
            "id": self.session_name(),
            "task_id": self.task_name(),
            "incarnation_id": self.life_name(self.life),
            "agent": "demo",
            "model": null,
            "mode": null,
            "state": state,
            "turn": turn.map(|turn| json!({"id": turn_name(turn.id), "started_at": TIME})),
            "permission": permission,
            "title": "a task",
            "created_at": TIME,
            "last_seq": self.transcript.len(),
        }})
    }

    fn page(&self) -> Value {
        let message = |(index, message): (usize, &Message)| {
            json!({
                "id": format!("$message:{}.{index}", self.name),
                "session_id": self.session_name(),
                "session_incarnation_id": self.life_name(message.life),
                "seq": index + 1,
                "turn_id": message.turn.map(turn_name),
                "role": message.role,
                "content": message.content,
                "content_truncated": false,
                "status": message.status,
                "metadata": {
                    "queue_admission_ids": message.admission_ids,
                    "queue_admission_ids_past": message.past,
                    "attachments": shown(&message.attachments),
                    "notice": message.notice,
                    "resolution": message.resolution,
                    "tool": null,
                    "sender": if message.role == "user" { json!("$user-name") } else { Value::Null },
                },
                "created_at": TIME,
            })
        };
        let messages: Value = self.transcript.iter().enumerate().map(message).collect();
        json!({"messages": messages, "has_more": false})
    }
}

fn shown(attachments: &[Attachment]) -> Value {
    attachments.iter().map(Attachment::shown).collect()
}

fn refusal(code: &str) -> Value {
    json!({"code": code, "details": {}})
}

pub(crate) fn entry_name(id: u32) -> String {
    format!("$entry:{id}")
}

pub(crate) fn question_name(id: u32) -> String {
    format!("$permission:{id}")
}

pub(crate) fn lease_name(id: u32) -> String {
    format!("$lease:{id}")
}

pub(crate) fn undo_name(id: u32) -> String {
    format!("$undo:{id}")
}
