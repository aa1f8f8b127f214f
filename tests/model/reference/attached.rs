//! Attachments: uploads that nothing claimed yet, and what prompts carry. An upload is claimed
//! once, by what is accepted or saved; nothing that owned it frees it again.

use serde_json::{Value, json};
use usher_tests::client::{Answer, Refusal};
use usher_tests::uploads::{base64, sha256};

use super::ask::Call;
use super::session::{Session, Standing};
use super::{Model, refused, refused_with};
use crate::names::TIME;

/// Attachments of one message.
pub(crate) const ATTACHMENTS_MAX: usize = 10;
/// Ids of attachments that one request may make.
const IDS_OF_REQUEST: u32 = 16;

/// A file of a user, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File(pub(crate) u8);

impl File {
    pub(crate) fn name(self) -> String {
        format!("f{}", self.0)
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        // One of them is empty.
        "x".repeat(self.0.into()).into_bytes()
    }

    fn described(self) -> Value {
        json!({"type": "resource", "name": self.name(), "mime_type": "text/plain"})
    }
}

/// An attachment as a request names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// With its bytes.
    Inline { file: File, delivery: Option<&'static str> },
    /// By its id.
    Named { id: u32, delivery: Option<&'static str> },
}

impl Offered {
    pub(super) fn request(&self) -> Value {
        let (mut request, delivery) = match self {
            Self::Inline { file, delivery } => {
                let mut request = file.described();
                request["data"] = json!(base64(&file.bytes()));
                (request, delivery)
            }
            Self::Named { id, delivery } => {
                (json!({"attachment_id": attachment_name(*id)}), delivery)
            }
        };
        if let Some(delivery) = delivery {
            request["delivery_mode"] = json!(delivery);
        }
        request
    }

    pub(super) fn is_staged(&self) -> bool {
        matches!(self, Self::Named { .. })
    }
}

/// What a prompt carries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attachment {
    pub(crate) id: u32,
    pub(crate) file: File,
    pub(crate) delivery: &'static str,
}

impl Attachment {
    pub(super) fn shown(&self) -> Value {
        let mut shown = self.file.described();
        shown["attachment_id"] = json!(attachment_name(self.id));
        shown["size_bytes"] = json!(self.file.bytes().len());
        shown["delivery_mode"] = json!(self.delivery);
        shown
    }

    /// As an agent that opens no file is told of it.
    pub(super) fn told(&self) -> String {
        format!("- {} (text/plain, {} bytes)\n", self.file.name(), self.file.bytes().len())
    }
}

/// What became of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Nobody's yet: it can be claimed.
    Nobodys,
    /// A prompt carries it.
    Carried,
    /// Nothing carries it any more.
    Gone,
}

impl Model {
    /// Returns every attachment that there ever was, with its bytes.
    pub(crate) fn attachments(&self) -> Vec<(u32, File, Whose)> {
        let shown = || self.sessions.iter().filter(|session| session.standing != Standing::Gone);
        let carried = |id: u32| shown().any(|session| session.carries(id));
        let whose = |id: u32| match () {
            () if shown().any(|session| session.staged.contains(&id)) => Whose::Nobodys,
            () if carried(id) => Whose::Carried,
            () => Whose::Gone,
        };
        let made = self.sessions.iter().flat_map(|session| &session.made);
        made.map(|(id, file)| (*id, *file, whose(*id))).collect()
    }

    pub(super) fn upload(&mut self, call: &Call, file: File) -> Answer {
        let session = &mut self.sessions[call.session];
        if session.standing != Standing::Open {
            return refused("not_found");
        }
        let id = call.number * IDS_OF_REQUEST;
        session.made.push((id, file));
        session.staged.push(id);
        let (name, size) = (attachment_name(id), file.bytes().len());
        Ok(json!({
            "begun": {"attachment_id": name, "expires_at": TIME, "received_bytes": 0},
            "appended": {"received_bytes": size},
            "finished": {"attachment_id": name, "size_bytes": size},
        }))
    }

    pub(super) fn abort(&mut self, id: u32) -> Answer {
        let mut sessions = self.sessions.iter_mut();
        let holder = sessions.find(|session| session.staged.contains(&id));
        let Some(holder) = holder else { return refused("attachment_unavailable") };
        holder.staged.retain(|staged| *staged != id);
        Ok(json!({"attachment_id": attachment_name(id)}))
    }
}

impl Session {
    fn carries(&self, id: u32) -> bool {
        let of_entries = self.entries.iter().flat_map(|entry| &entry.attachments);
        let of_messages = self.transcript.iter().flat_map(|message| &message.attachments);
        of_entries.chain(of_messages).any(|attachment| attachment.id == id)
    }

    /// Finds what a request offers, without claiming it. `number`: of the request. `kept`: what
    /// the prompt carries already.
    pub(super) fn find(
        &self,
        number: u32,
        offered: &[Offered],
        kept: &[Attachment],
    ) -> Result<Vec<Attachment>, Refusal> {
        let mut found: Vec<Attachment> = Vec::new();
        for (index, one) in offered.iter().enumerate() {
            let attachment = match *one {
                Offered::Inline { file, delivery } => Some(Attachment {
                    id: number * IDS_OF_REQUEST + 1 + index as u32,
                    file,
                    delivery: delivery.unwrap_or("prompt"),
                }),
                Offered::Named { id, delivery } => {
                    let carried = kept.iter().find(|kept| kept.id == id);
                    let made = self.made.iter().find(|(made, _)| *made == id);
                    let made = made.filter(|_| self.staged.contains(&id));
                    let file = carried.map(|kept| kept.file).or(made.map(|(_, file)| *file));
                    let delivery = delivery.unwrap_or("prompt");
                    file.map(|file| Attachment { id, file, delivery })
                }
            };
            let is_new = |one: &Attachment| !found.iter().any(|known| known.id == one.id);
            let Some(attachment) = attachment.filter(is_new) else {
                let details = json!({"attachment_index": index});
                return Err(Refusal::new("attachment_unavailable", details));
            };
            found.push(attachment);
        }
        Ok(found)
    }

    /// They are claimed.
    pub(super) fn claim(&mut self, attachments: &[Attachment]) {
        for Attachment { id, file, .. } in attachments {
            self.staged.retain(|staged| staged != id);
            if !self.made.iter().any(|(made, _)| made == id) {
                self.made.push((*id, *file));
            }
        }
    }
}

/// Returns the attachments of what becomes one, or None if they are too many.
pub(super) fn together<'a>(
    parts: impl IntoIterator<Item = &'a [Attachment]>,
) -> Option<Vec<Attachment>> {
    let all: Vec<&[Attachment]> = parts.into_iter().collect();
    Some(all.concat()).filter(|all| all.len() <= ATTACHMENTS_MAX)
}

pub(super) fn overflow(code: &str) -> Answer {
    refused_with(code, json!({"limit": "attachments_max"}))
}

pub(crate) fn attachment_name(id: u32) -> String {
    format!("$attachment:{id}")
}

/// Returns the fields of an announcement of an upload.
pub(super) fn announced(file: File) -> Value {
    let bytes = file.bytes();
    let mut fields = file.described();
    fields["size_bytes"] = json!(bytes.len());
    fields["sha256"] = json!(sha256(&bytes));
    fields
}
