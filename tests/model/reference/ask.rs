//! One request, and how it is sent.

use serde_json::{Value, json};
use usher_tests::client::merge;

use super::attached::{File, Offered, announced, attachment_name};
use super::session::Edit;
use super::shown::{entry_name, lease_name, question_name, undo_name};
use super::turn::turn_name;
use crate::operation::Link;

/// What an admission sends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) content: String,
    pub(crate) model: Option<String>,
    pub(crate) plan_mode: bool,
    pub(crate) attachments: Vec<Offered>,
}

/// One request, with the model's names. Ids that name nothing are allowed everywhere.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// Unlike that of any other request of the sequence: names what the request makes.
    pub(crate) number: u32,
    /// Which session.
    pub(crate) session: usize,
    /// On which link.
    pub(crate) link: Link,
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
    Begin {
        entry: u32,
    },
    Renew {
        entry: u32,
        lease: u32,
    },
    Save {
        entry: u32,
        lease: u32,
        expected_revision: u64,
        edit: Edit,
    },
    End {
        entry: u32,
        lease: u32,
        dispatch: bool,
    },
    /// An upload is begun and finished. It is several requests.
    Upload {
        file: File,
    },
    /// Of an upload.
    Abort {
        upload: u32,
    },
    /// The link is cut, and made anew by the same client.
    Disconnect,
    Reset {
        keep_queue: Option<bool>,
    },
    Transfer {
        /// Which session.
        to: usize,
        /// The names of that session as the caller knows them.
        to_identity: Value,
    },
    /// Of the session's task.
    Archive,
    /// Of the session's task.
    Unarchive,
    Delete,
}

impl Call {
    /// Returns whether it is about one session alone.
    pub(crate) fn is_of_one_session(&self) -> bool {
        use Ask::{Archive, Disconnect, Transfer, Unarchive};
        !matches!(self.ask, Transfer { .. } | Archive | Unarchive | Disconnect)
    }

    /// Returns whether it is about attachments.
    pub(crate) fn attaches(&self) -> bool {
        match &self.ask {
            Ask::Add { prompt, .. } => !prompt.attachments.is_empty(),
            Ask::Save { edit, .. } => edit.attachments.is_some(),
            Ask::Upload { .. } | Ask::Abort { .. } => true,
            _ => false,
        }
    }

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
                // None, in two ways that are one.
                if !prompt.attachments.is_empty() || self.number.is_multiple_of(2) {
                    fields["attachments"] = listed(&prompt.attachments);
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
            Ask::Begin { entry } => {
                ("message.queue.edit.begin", json!({"entry_id": entry_name(*entry)}))
            }
            Ask::Renew { entry, lease } => ("message.queue.edit.renew", held(*entry, *lease)),
            Ask::Save { entry, lease, expected_revision, edit } => {
                let mut fields = held(*entry, *lease);
                fields["operation_id"] = json!(format!("o{}", edit.operation));
                fields["expected_target_revision"] = json!(expected_revision);
                fields["content"] = json!(edit.content);
                if let Some(attachments) = &edit.attachments {
                    fields["attachments"] = listed(attachments);
                }
                ("message.queue.update", fields)
            }
            Ask::End { entry, lease, dispatch } => {
                let mut fields = held(*entry, *lease);
                fields["dispatch_if_auto_run"] = json!(dispatch);
                ("message.queue.edit.end", fields)
            }
            Ask::Upload { file } => ("attachment.begin", announced(*file)),
            Ask::Abort { upload } => {
                ("attachment.abort", json!({"attachment_id": attachment_name(*upload)}))
            }
            Ask::Disconnect => unreachable!("it is no request"),
            Ask::Reset { keep_queue } => ("session.reset", json!({"keep_queue": keep_queue})),
            Ask::Transfer { to_identity, .. } => (
                "session.transfer",
                json!({
                    "to_task_id": to_identity["task_id"],
                    "to_session_id": to_identity["session_id"],
                    "to_session_incarnation_id": to_identity["session_incarnation_id"],
                }),
            ),
            Ask::Archive => return ("task.archive", self.task()),
            Ask::Unarchive => return ("task.unarchive", self.task()),
            Ask::Delete => ("session.delete", json!({})),
        };
        let mut payload = self.identity.clone();
        merge(&mut payload, fields);
        (action, payload)
    }

    /// The names of the session's task.
    pub(super) fn task(&self) -> Value {
        json!({"task_id": self.identity["task_id"]})
    }
}

fn listed(attachments: &[Offered]) -> Value {
    attachments.iter().map(Offered::request).collect()
}

fn held(entry: u32, lease: u32) -> Value {
    json!({"entry_id": entry_name(entry), "lease_id": lease_name(lease)})
}
