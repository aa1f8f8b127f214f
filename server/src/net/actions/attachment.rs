//! Requests about uploads and the bytes of attachments.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use usher_shared::error::WireError;
use usher_shared::limits::{APPEND_BYTES_MAX, ATTACHMENT_BYTES_MAX, READ_BYTES_MAX};
use usher_shared::protocol::Request;
use usher_shared::protocol::attachment::{
    AttachmentAbortParams, AttachmentAbortReply, AttachmentAppendParams, AttachmentAppendReply,
    AttachmentBeginParams, AttachmentBeginReply, AttachmentFinishParams, AttachmentFinishReply,
    AttachmentReadParams, AttachmentReadReply,
};

use super::{Routed, Router};
use crate::domain::attachment::ContentDigest;
use crate::net::lanes::Lane;
use crate::net::wire::{self, Announced};

impl Router {
    pub(super) fn attachment_begin(self, params: AttachmentBeginParams) -> Routed {
        let AttachmentBeginParams { task_id, session_id, name, mime_type, kind, .. } = params;
        let size_bytes = params.size_bytes;
        if size_bytes > ATTACHMENT_BYTES_MAX as u64 {
            let error = WireError::validation("size_bytes", "too large");
            return Err(error.with("limit", ATTACHMENT_BYTES_MAX));
        }
        let sha256 = ContentDigest::parse(&params.sha256)
            .ok_or_else(|| WireError::validation("sha256", "no 64 lower-case hex digits"))?;
        let announced = Announced { kind, name, mime_type, size_bytes, sha256 };
        let about = wire::described(announced, str::to_owned)?;
        let lane = [Lane::Session(session_id)];
        self.work(lane, AttachmentBeginParams::ACTION, move |context| async move {
            let (service, caller) = (context.service, context.caller);
            let begun = service.begin_upload(caller, task_id, session_id, about).await;
            let begun = begun.map_err(|error| wire::transact_error(error, wire::upload_error))?;
            Ok(AttachmentBeginReply {
                attachment_id: begun.id,
                expires_at: begun.expires_at,
                received_bytes: 0,
            })
        })
    }

    pub(super) fn attachment_append(self, params: AttachmentAppendParams) -> Routed {
        let AttachmentAppendParams { attachment_id, offset, data } = params;
        let data: Arc<[u8]> = STANDARD
            .decode(data)
            .map_err(|_| WireError::validation("data", "no padded base64"))?
            .into();
        if data.len() > APPEND_BYTES_MAX {
            let error = WireError::validation("data", "too large");
            return Err(error.with("limit", APPEND_BYTES_MAX));
        }
        let lane = [Lane::Upload(attachment_id)];
        self.work(lane, AttachmentAppendParams::ACTION, move |context| async move {
            let (service, caller) = (context.service, context.caller);
            let appended = service.append_upload(caller, attachment_id, offset, data).await;
            let received_bytes =
                appended.map_err(|error| wire::transact_error(error, wire::upload_error))?;
            Ok(AttachmentAppendReply { received_bytes })
        })
    }

    pub(super) fn attachment_finish(self, params: AttachmentFinishParams) -> Routed {
        let attachment_id = params.attachment_id;
        let lane = [Lane::Upload(attachment_id)];
        self.work(lane, AttachmentFinishParams::ACTION, move |context| async move {
            let finished = context.service.finish_upload(context.caller, attachment_id).await;
            let size_bytes =
                finished.map_err(|error| wire::transact_error(error, wire::upload_error))?;
            Ok(AttachmentFinishReply { attachment_id, size_bytes })
        })
    }

    pub(super) fn attachment_abort(self, params: AttachmentAbortParams) -> Routed {
        let attachment_id = params.attachment_id;
        let lane = [Lane::Upload(attachment_id)];
        self.work(lane, AttachmentAbortParams::ACTION, move |context| async move {
            let aborted = context.service.abort_upload(context.caller, attachment_id).await;
            aborted.map_err(|error| wire::transact_error(error, wire::upload_error))?;
            Ok(AttachmentAbortReply { attachment_id })
        })
    }

    pub(super) fn attachment_read(self, params: AttachmentReadParams) -> Routed {
        let AttachmentReadParams { attachment_id, offset, length } = params;
        if !(1..=READ_BYTES_MAX).contains(&length) {
            let error = WireError::validation("length", "out of bounds");
            return Err(error.with("limit", READ_BYTES_MAX));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let lane = [Lane::Upload(attachment_id)];
        self.work(lane, AttachmentReadParams::ACTION, move |context| async move {
            let (service, caller) = (context.service, context.caller);
            let found = service.read_attachment(caller, attachment_id, offset, length).await;
            let found = found.map_err(|error| wire::transact_error(error, wire::upload_error))?;
            Ok(AttachmentReadReply { data: STANDARD.encode(found.data), eof: found.eof })
        })
    }
}
