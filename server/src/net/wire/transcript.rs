//! Messages and pages of them.

use usher_shared::limits::MESSAGE_CONTENT_BYTES_MAX;
use usher_shared::prompt::cut_at_char;
use usher_shared::protocol::transcript::{
    self as wire_transcript, MessageMetadata, TranscriptPageReply,
};
use usher_shared::vocabulary::TurnReason;

use super::enclosed;
use super::size::fitting;
use crate::domain::message::Message;
use crate::net::live::LiveText;
use crate::store::Page;

/// Messages of one answer, bytes on the wire: with a status beside them they fit into a frame.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A page as far as it fits into an answer: the messages next to where it was asked for.
pub fn page(page: &Page, from: PageEnd, live: Option<&LiveText>) -> TranscriptPageReply {
    let shown = page.messages.iter().map(|message| message_live(message, live));
    let messages = match from {
        PageEnd::Oldest => fitting(shown, PAGE_BYTES_MAX),
        PageEnd::Newest => {
            let mut messages = fitting(shown.rev(), PAGE_BYTES_MAX);
            messages.reverse();
            messages
        }
    };
    TranscriptPageReply {
        has_more: page.has_more || messages.len() < page.messages.len(),
        messages,
    }
}

/// From which end a page is filled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PageEnd {
    /// From the oldest message on.
    Oldest,
    /// From the newest message back.
    Newest,
}

/// A message as clients are told.
pub fn message(message: &Message) -> wire_transcript::Message {
    let content = cut_at_char(&message.content, MESSAGE_CONTENT_BYTES_MAX);
    wire_transcript::Message {
        id: message.id,
        session_id: message.session_id,
        session_incarnation_id: message.incarnation_id,
        seq: message.seq,
        turn_id: message.turn_id,
        role: message.role,
        content_truncated: (content.len() as u64) < message.content_bytes,
        content: content.to_owned(),
        status: message.status,
        metadata: MessageMetadata {
            queue_admission_ids: message.details.provenance.admission_ids.clone(),
            queue_admission_ids_past: message.details.provenance.past.clone(),
            attachments: enclosed::attachments(&message.details.enclosed),
            entity_references: enclosed::references(&message.details.enclosed),
            context_files: enclosed::files(&message.details.enclosed),
            plan_comment_refs: enclosed::comments(&message.details.enclosed),
            notice: message.details.notice,
            resolution: message.details.resolution,
            tool: message.details.tool.clone(),
            sender: message.details.sender.clone(),
        },
        created_at: message.created_at,
    }
}

/// A message with what was shown of it ahead of the database.
fn message_live(stored: &Message, live: Option<&LiveText>) -> wire_transcript::Message {
    let mut message = message(stored);
    if let Some(live) = live
        && live.message_id == message.id
        && live.bytes > stored.content_bytes
    {
        message.content_truncated = (live.text.len() as u64) < live.bytes;
        message.content.clone_from(&live.text);
    }
    message
}

/// Returns the word that the protocol has for why a turn ended. That an agent lacks what a prompt asks
/// for is one way of not starting; which of them it was says the message in the transcript.
pub const fn turn_reason(reason: TurnReason) -> TurnReason {
    match reason {
        TurnReason::ModelUnavailable | TurnReason::PlanModeUnavailable => TurnReason::StartFailed,
        TurnReason::Refused
        | TurnReason::CutShort
        | TurnReason::Replaced
        | TurnReason::Forced
        | TurnReason::AgentExit
        | TurnReason::StartFailed
        | TurnReason::Error => reason,
    }
}
