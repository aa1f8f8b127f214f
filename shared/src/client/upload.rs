//! Uploads: files that go up before the prompt that carries them, over as many links as it takes.
//!
//! ```text
//! Wanted(begin) -> Asked -> Wanted(bytes) -> Reading -> Asked -> … -> Wanted(finish) -> Asked -> end
//! ```
//! Where an upload stands is what the server said of it, so a lost answer or a lost link costs at
//! most one piece. A begin whose answer is lost is asked again: the first upload, if there is one,
//! belongs to nobody and is deleted by the server after a while. Pieces grow while they go up quickly
//! and shrink when one gets lost, so that a slow link moves at all.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::api::{Event, Output};
use super::bounds::{
    PIECE_BYTES_MIN, PIECE_FAST_MS, PIECE_FIRST_BYTES, SETBACKS_MAX, UPLOAD_AGAIN_MS, UPLOADS_MAX,
};
use super::outbox::{Answer, Outbox, Purpose};
use crate::error::{Advice, ErrorCode, WireError};
use crate::id::AttachmentId;
use crate::limits::{
    APPEND_BYTES_MAX, BACKOFF_LONGEST_MS, REPLY_TIMEOUT_ATTACHMENTS_MS, REPLY_TIMEOUT_MS,
};
use crate::protocol::attachment::{
    AttachmentAbortParams, AttachmentAppendParams, AttachmentAppendReply, AttachmentBeginParams,
    AttachmentBeginReply, AttachmentFinishParams, AttachmentFinishReply,
};
use crate::time::MonoMillis;

/// Names one upload of a running client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UploadId(u64);

impl UploadId {
    /// Wraps a number that the caller uses once.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }
}

/// How an upload ended.
#[derive(Clone, Debug, PartialEq)]
pub enum UploadEnd {
    /// All bytes are there: a prompt can carry it.
    Finished(AttachmentId),
    /// The server refused it.
    Refused(WireError),
    /// Its file gives other bytes than it had when it began, or none at all.
    Unreadable,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    open: Vec<Upload>,
}

#[derive(Debug)]
struct Upload {
    id: UploadId,
    params: AttachmentBeginParams,
    /// None: not begun yet.
    attachment_id: Option<AttachmentId>,
    /// What the server has, bytes.
    received: u64,
    piece_bytes: usize,
    /// How often the server had less than it had said, or said what cannot be read.
    setbacks: u32,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The next request is due as soon as there is a link and it is `at`.
    Wanted { at: MonoMillis },
    /// The program reads the next piece.
    Reading { offset: u64 },
    /// A request is under way; `end`: what will be there after it.
    Asked { end: u64 },
}

impl Uploads {
    pub(super) fn begin(
        &mut self,
        id: UploadId,
        params: AttachmentBeginParams,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        if self.open.len() >= UPLOADS_MAX {
            let error = WireError::new(ErrorCode::RateLimited, "too many open uploads");
            let end = UploadEnd::Refused(error.with("retry_after_ms", 1_000));
            return out.event(Event::UploadEnded { id, end });
        }
        self.open.push(Upload {
            id,
            params,
            attachment_id: None,
            received: 0,
            piece_bytes: PIECE_FIRST_BYTES,
            setbacks: 0,
            step: Step::Wanted { at: now },
        });
    }

    #[cfg(test)]
    pub(super) fn is_any(&self) -> bool {
        !self.open.is_empty()
    }

    /// The program gives an upload up.
    pub(super) fn abort(&mut self, id: UploadId, online: bool, now: MonoMillis, out: &mut Outbox) {
        let Some(index) = self.find(id) else { return };
        let upload = self.open.remove(index);
        if let Some(attachment_id) = upload.attachment_id.filter(|_| online && out.has_room()) {
            // Nobody waits for the answer; what stays is deleted by the server after a while.
            let request = AttachmentAbortParams { attachment_id };
            out.request(Purpose::Unheeded, &request, now.plus(REPLY_TIMEOUT_MS), now);
        }
    }

    /// The program read a piece: exactly what was asked for, or None if it cannot.
    pub(super) fn read(
        &mut self,
        id: UploadId,
        bytes: Option<&[u8]>,
        online: bool,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        let Some(index) = self.find(id) else { return };
        let upload = &mut self.open[index];
        let Step::Reading { offset } = upload.step else {
            return;
        };
        match (bytes, upload.attachment_id) {
            (Some(bytes), Some(attachment_id)) if bytes.len() == upload.next_piece() => {
                if !online || !out.has_room_for(1) {
                    upload.step = Step::Wanted { at: now };
                    return;
                }
                let data = STANDARD.encode(bytes);
                upload.step = Step::Asked { end: offset + bytes.len() as u64 };
                let request = AttachmentAppendParams { attachment_id, offset, data };
                let deadline = now.plus(REPLY_TIMEOUT_ATTACHMENTS_MS);
                out.request(Purpose::Upload(id), &request, deadline, now);
            }
            _ => {
                self.abort(id, online, now, out);
                out.event(Event::UploadEnded { id, end: UploadEnd::Unreadable });
            }
        }
    }

    /// Asks for what is wanted. Called while the link is up.
    pub(super) fn pump(&mut self, now: MonoMillis, out: &mut Outbox) {
        for upload in &mut self.open {
            match upload.step {
                Step::Wanted { at } if now >= at && out.has_room_for(1) => upload.ask(now, out),
                Step::Wanted { .. } | Step::Reading { .. } | Step::Asked { .. } => {}
            }
        }
    }

    /// When [`Uploads::pump`] has something to do without anything else happening.
    pub(super) fn next_deadline(&self) -> impl Iterator<Item = MonoMillis> {
        self.open.iter().filter_map(|upload| match upload.step {
            Step::Wanted { at } => Some(at),
            Step::Reading { .. } | Step::Asked { .. } => None,
        })
    }

    pub(super) fn answered(
        &mut self,
        id: UploadId,
        answer: Answer,
        round_trip_ms: u64,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        let Some(index) = self.find(id) else { return };
        let upload = &mut self.open[index];
        let end = match answer {
            Answer::Reply(payload) => match upload.take_reply(payload.get(), round_trip_ms) {
                Some(Progress::Began) => None,
                Some(Progress::Received) => {
                    let received_bytes = upload.received;
                    out.event(Event::UploadProgress { id, received_bytes });
                    None
                }
                Some(Progress::Finished(attachment_id)) => Some(UploadEnd::Finished(attachment_id)),
                None if upload.setbacks < SETBACKS_MAX => {
                    upload.setbacks += 1;
                    upload.step = Step::Wanted { at: now.plus(UPLOAD_AGAIN_MS) };
                    return;
                }
                None => {
                    let error = WireError::new(ErrorCode::Internal, "answers that say nothing");
                    Some(UploadEnd::Refused(error))
                }
            },
            Answer::Refused(error) => match upload.after_refusal(&error) {
                Some(wait_ms) => {
                    upload.step = Step::Wanted { at: now.plus(wait_ms) };
                    return;
                }
                None => Some(UploadEnd::Refused(error)),
            },
            Answer::Lost => {
                upload.piece_bytes = (upload.piece_bytes / 2).max(PIECE_BYTES_MIN);
                None
            }
        };
        upload.step = Step::Wanted { at: now };
        if let Some(end) = end {
            self.open.remove(index);
            out.event(Event::UploadEnded { id, end });
        }
    }

    fn find(&self, id: UploadId) -> Option<usize> {
        self.open.iter().position(|upload| upload.id == id)
    }
}

/// What an answer brought.
enum Progress {
    Began,
    Received,
    Finished(AttachmentId),
}

impl Upload {
    /// The size of the piece that comes next, bytes.
    fn next_piece(&self) -> usize {
        let left = self.params.size_bytes.saturating_sub(self.received);
        usize::try_from(left).map_or(self.piece_bytes, |left| left.min(self.piece_bytes))
    }

    fn ask(&mut self, now: MonoMillis, out: &mut Outbox) {
        let deadline = now.plus(REPLY_TIMEOUT_MS);
        let offset = self.received;
        match self.attachment_id {
            None => {
                self.step = Step::Asked { end: 0 };
                out.request(Purpose::Upload(self.id), &self.params, deadline, now);
            }
            Some(_) if offset < self.params.size_bytes => {
                self.step = Step::Reading { offset };
                let length = self.next_piece();
                out.push(Output::ReadUpload { id: self.id, offset, length });
            }
            Some(attachment_id) => {
                self.step = Step::Asked { end: offset };
                let request = AttachmentFinishParams { attachment_id };
                out.request(Purpose::Upload(self.id), &request, deadline, now);
            }
        }
    }

    /// Takes an answer over; None: it is not one to the request that was sent.
    fn take_reply(&mut self, payload: &str, round_trip_ms: u64) -> Option<Progress> {
        let Step::Asked { end } = self.step else {
            return None;
        };
        if self.attachment_id.is_none() {
            let reply: AttachmentBeginReply = serde_json::from_str(payload).ok()?;
            self.attachment_id = Some(reply.attachment_id);
            return Some(Progress::Began);
        }
        if end == self.received {
            let finished = serde_json::from_str::<AttachmentFinishReply>(payload).ok()?;
            return Some(Progress::Finished(finished.attachment_id));
        }
        let reply: AttachmentAppendReply = serde_json::from_str(payload).ok()?;
        self.received = reply.received_bytes.min(self.params.size_bytes);
        if round_trip_ms < PIECE_FAST_MS {
            self.piece_bytes = (self.piece_bytes * 2).min(APPEND_BYTES_MAX);
        }
        Some(Progress::Received)
    }

    /// Returns how long to wait before going on after a refusal; None: it is final.
    fn after_refusal(&mut self, error: &WireError) -> Option<u64> {
        // The server has less than we thought: it goes on from there.
        let has = error.details.get("received_bytes").and_then(Value::as_u64);
        if let Some(has) = has.filter(|has| *has < self.received && self.setbacks < SETBACKS_MAX) {
            self.setbacks += 1;
            self.received = has;
            return Some(0);
        }
        if error.code.advice() != Advice::RetrySame {
            return None;
        }
        let wait_ms = error.details.get("retry_after_ms").and_then(Value::as_u64).unwrap_or(0);
        Some(wait_ms.clamp(UPLOAD_AGAIN_MS, BACKOFF_LONGEST_MS))
    }
}
