//! A history in the making: its names for what the server mints, and the words of the protocol.

use std::collections::HashMap;

use serde_json::{Value, json};
use usher_tests::chat::{Chat, string};
use usher_tests::client::{Answer as Reply, Client};

use crate::call::{Answer, Ask, Call, Event, History, Loss, Told};
use crate::draw::Known;

/// An id that nothing has.
const NOTHING: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// A history that is being made.
pub(crate) struct Making {
    pub(crate) chat: Chat,
    pub(crate) history: History,
    pub(crate) known: Known,
    /// What the server calls entries and leases, by the history's names.
    pub(crate) ids: HashMap<u32, String>,
    /// Everything that the client side has seen so far.
    pub(crate) time: u32,
}

impl Making {
    pub(crate) fn tick(&mut self) -> u32 {
        self.time += 1;
        self.time
    }

    fn id(&self, name: u32) -> &str {
        self.ids.get(&name).map_or(NOTHING, String::as_str)
    }

    fn name(&self, id: &Value) -> Option<u32> {
        self.ids.iter().find(|(_, known)| *id == known.as_str()).map(|(name, _)| *name)
    }

    /// Returns the request of a call; None if it is none.
    pub(crate) fn request(&self, ask: &Ask, admission_id: &str) -> Option<(&'static str, Value)> {
        let held = |entry: u32, lease: u32| json!({"entry_id": self.id(entry), "lease_id": self.id(lease)});
        let (action, fields) = match ask {
            Ask::Begin { entry } => {
                ("message.queue.edit.begin", json!({"entry_id": self.id(*entry)}))
            }
            Ask::Renew { entry, lease } => ("message.queue.edit.renew", held(*entry, *lease)),
            Ask::Save { entry, lease, operation, expected, content } => {
                let mut fields = held(*entry, *lease);
                fields["operation_id"] = json!(format!("o{operation}"));
                fields["expected_target_revision"] = json!(expected);
                fields["content"] = json!(content);
                ("message.queue.update", fields)
            }
            Ask::End { entry, lease, dispatch } => {
                let mut fields = held(*entry, *lease);
                fields["dispatch_if_auto_run"] = json!(dispatch);
                ("message.queue.edit.end", fields)
            }
            Ask::Remove { entry } => ("message.queue.remove", json!({"entry_id": self.id(*entry)})),
            Ask::Merge { entry } => ("message.queue.merge", json!({"entry_id": self.id(*entry)})),
            Ask::SendNow { entry } => {
                ("message.queue.send_now", json!({"scope": "entry", "entry_id": self.id(*entry)}))
            }
            Ask::Drain => ("message.queue.drain", json!({})),
            Ask::AutoRun { on } => ("message.queue.auto_run.set", json!({"enabled": on})),
            Ask::Admit { content } => {
                ("message.queue.add", json!({"client_queue_id": admission_id, "content": content}))
            }
            Ask::Reconnect | Ask::Advance { .. } => return None,
        };
        Some((action, self.chat.with(fields)))
    }

    /// Puts a reply into the history's names; learns those that it gives.
    pub(crate) fn answer(&mut self, call: &Call, reply: &Reply) -> (Answer, Option<u64>) {
        let reply = match reply {
            Ok(reply) => reply,
            Err(refusal) => {
                let details = &refusal.details;
                let answer = match refusal.code.as_str() {
                    "edit_conflict" => match details["holder_is_you"].as_bool() {
                        Some(holder_is_you) => Answer::Taken { holder_is_you },
                        None => Answer::Refused("edit_conflict"),
                    },
                    "revision_conflict" => {
                        Answer::Stale { revision: number(&details["target_revision"]) }
                    }
                    "session_busy" | "session_not_promptable" => Answer::Busy,
                    "entry_not_found" => Answer::Refused("entry_not_found"),
                    "operation_conflict" => Answer::Refused("operation_conflict"),
                    "no_merge_target" => Answer::Refused("no_merge_target"),
                    "send_now_conflict" => Answer::Refused("send_now_conflict"),
                    code => Answer::Unknown(format!("{code} {details}")),
                };
                return (answer, None);
            }
        };
        let (generation, revision) =
            (number(&reply["lease_generation"]), number(&reply["target_revision"]));
        let unknown = || Answer::Unknown(reply.to_string());
        let answer = match call.ask {
            Ask::Begin { .. } => {
                self.ids.insert(call.number, string(&reply["lease_id"]));
                let content = string(&reply["entry"]["content"]);
                Answer::Begun { generation, revision, content }
            }
            Ask::Renew { .. } => Answer::Renewed { generation, revision },
            Ask::Save { .. } => Answer::Saved { revision },
            Ask::Merge { .. } => match self.name(&reply["entry_id"]) {
                Some(into) => Answer::Merged { into },
                None => unknown(),
            },
            Ask::Drain => Answer::Drained { started: reply["drained"] == true },
            Ask::AutoRun { .. } => Answer::Switched { started: reply["dispatched"] == true },
            Ask::Admit { .. } => {
                let admission = &reply["admission"];
                let (id, content) = (&admission["accepted_queue_id"], string(&reply["content"]));
                let answer = match (admission["outcome"].as_str(), self.name(id)) {
                    (Some("admitted"), None) => {
                        self.ids.insert(call.number, string(id));
                        Answer::Admitted { content }
                    }
                    (Some("folded"), _) => Answer::Folded { into: name_of(reply), content },
                    _ => unknown(),
                };
                return (answer, Some(number(&admission["queue_revision"])));
            }
            Ask::End { .. } | Ask::Remove { .. } | Ask::SendNow { .. } => Answer::Done,
            Ask::Reconnect | Ask::Advance { .. } => unknown(),
        };
        (answer, None)
    }

    /// Takes in what later calls can be about.
    pub(crate) fn learn(&mut self, event: &Event) {
        let revisions = &mut self.known.revisions;
        match (&event.call.ask, &event.answer) {
            (Ask::Begin { entry }, Answer::Begun { revision, .. }) => {
                revisions.insert(*entry, *revision);
                self.known.leases.push((*entry, event.call.number, event.call.link));
            }
            (Ask::Save { entry, .. }, Answer::Saved { revision } | Answer::Stale { revision }) => {
                revisions.insert(*entry, *revision);
            }
            (Ask::Admit { .. }, Answer::Admitted { .. }) => {
                revisions.insert(event.call.number, 1);
            }
            _ => {}
        }
    }

    /// Takes what the links were told of their leases.
    pub(crate) fn listen(&mut self, links: &mut [Client]) {
        for (link, client) in links.iter_mut().enumerate() {
            for (action, event) in client.take_notifications() {
                let of_this = event["session_id"] == self.chat.session_id.as_str();
                if action != "message.queue.edit.lost" || !of_this {
                    continue;
                }
                let reason = ["expired", "held_too_long", "removed", "merged", "sent"]
                    .into_iter()
                    .find(|known| event["reason"] == *known);
                let (lease, reason) = (self.name(&event["lease_id"]), reason.unwrap_or("unknown"));
                let loss = Loss { link, lease: lease.unwrap_or_default(), reason };
                let read = self.tick();
                self.history.told.push(Told { loss, read });
            }
        }
    }
}

pub(crate) fn admission_id(name: u32) -> String {
    format!("k{name}")
}

/// An entry is named by the first of the admissions that it is made of.
pub(crate) fn name_of(entry: &Value) -> u32 {
    let first = entry["metadata"]["queue_admission_ids"][0].as_str();
    first.and_then(|id| id.strip_prefix('k')?.parse().ok()).unwrap_or_default()
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
