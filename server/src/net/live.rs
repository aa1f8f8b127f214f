//! Text that is shown before it is written.

use std::collections::HashMap;

use usher_shared::id::{MessageId, SessionId};
use usher_shared::limits::MESSAGE_CONTENT_BYTES_MAX;
use usher_shared::prompt::cut_at_char;
use usher_shared::vocabulary::{MessageStatus, Role};

use super::ring::Broadcast;
use crate::domain::Event;

/// The text of the message that is streaming right now, ahead of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveText {
    /// Which message.
    pub message_id: MessageId,
    /// What was shown of it so far, as much as lists show.
    pub text: String,
    /// The size of all that was shown, bytes.
    pub bytes: u64,
}

/// The live texts of all sessions.
#[derive(Default)]
pub(super) struct LiveTexts(HashMap<SessionId, LiveText>);

impl LiveTexts {
    pub(super) fn get(&self, session: SessionId) -> Option<&LiveText> {
        self.0.get(&session)
    }

    pub(super) fn forget(&mut self, session: SessionId) {
        self.0.remove(&session);
    }

    /// Keeps the live text in step with what is told.
    pub(super) fn note(&mut self, session: SessionId, broadcast: &Broadcast) {
        match broadcast {
            Broadcast::Delta { message_id, offset, text, .. } => {
                if let Some(live) = self.0.get_mut(&session)
                    && live.message_id == *message_id
                    // What another server added may have been read with the message already.
                    && let Some(known) = live.bytes.checked_sub(*offset)
                    && let Some(text) = usize::try_from(known).ok().and_then(|n| text.get(n..))
                {
                    if live.text.len() as u64 == live.bytes {
                        let room = MESSAGE_CONTENT_BYTES_MAX - live.text.len();
                        live.text.push_str(cut_at_char(text, room));
                    }
                    live.bytes += text.len() as u64;
                }
            }
            Broadcast::Event(event) => {
                let Event::MessageWritten(message) = &**event else {
                    return;
                };
                let streams = match message.role {
                    Role::Agent | Role::Thought => message.status == MessageStatus::Streaming,
                    // Replaced as a whole: nothing of it is ahead of the database.
                    Role::User | Role::Tool | Role::Plan | Role::System => false,
                };
                if streams {
                    let live = LiveText {
                        message_id: message.id,
                        text: cut_at_char(&message.content, MESSAGE_CONTENT_BYTES_MAX).to_owned(),
                        bytes: message.content_bytes,
                    };
                    self.0.insert(session, live);
                } else if self.0.get(&session).is_some_and(|l| l.message_id == message.id) {
                    self.0.remove(&session);
                }
            }
            Broadcast::PermissionRequested(_) | Broadcast::PermissionResolved { .. } => {}
        }
    }
}
