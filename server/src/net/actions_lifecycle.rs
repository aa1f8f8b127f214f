//! Requests about whole sessions and tasks.

use usher_shared::limits::NAME_BYTES_MAX;
use usher_shared::protocol::Request;
use usher_shared::protocol::session::{
    SessionDeleteParams, SessionDeleteReply, SessionReply, SessionResetParams, SessionSetParams,
    SessionTransferParams, SessionTransferReply,
};
use usher_shared::protocol::task::{
    TaskArchiveParams, TaskDeleteParams, TaskReply, TaskUnarchiveParams,
};

use super::actions::{Routed, Router};
use super::wire;
use crate::domain::lifecycle::{OnReset, SessionPatch};
use crate::domain::session::Target;

impl Router {
    pub(super) fn session_set(self, params: SessionSetParams) -> Routed {
        for (field, text) in
            [("model", &params.model), ("mode", &params.mode), ("title", &params.title)]
        {
            wire::bounded(field, text.as_deref(), NAME_BYTES_MAX)?;
        }
        let target = wire::target(&params.identity);
        let SessionSetParams { model, mode, title, .. } = params;
        let patch = SessionPatch { model, mode, title };
        self.work(Some(target.session_id), SessionSetParams::ACTION, move |context| async move {
            let set = context.service.set_session(context.caller, target, patch).await;
            let session = set.map_err(|error| wire::transact_error(error, wire::session_error))?;
            let question = context.service.questions().get(session.id);
            Ok(SessionReply { session: wire::session(&session, question) })
        })
    }

    pub(super) fn session_reset(self, params: SessionResetParams) -> Routed {
        let target = wire::target(&params.identity);
        let queue = match params.keep_queue {
            None | Some(true) => OnReset::KeepQueue,
            Some(false) => OnReset::ClearQueue,
        };
        self.work(Some(target.session_id), SessionResetParams::ACTION, move |context| async move {
            let reset = context.service.reset(context.caller, target, queue).await;
            let session =
                reset.map_err(|error| wire::transact_error(error, wire::session_error))?;
            Ok(SessionReply { session: wire::session(&session, None) })
        })
    }

    pub(super) fn session_transfer(self, params: SessionTransferParams) -> Routed {
        let from = wire::target(&params.identity);
        let to = Target {
            task_id: params.to_task_id,
            session_id: params.to_session_id,
            incarnation_id: Some(params.to_session_incarnation_id),
        };
        let lane = Some(from.session_id);
        self.work(lane, SessionTransferParams::ACTION, move |context| async move {
            let moved = context.service.transfer(context.caller, from, to).await;
            let moved = moved.map_err(|error| wire::transact_error(error, wire::session_error))?;
            Ok(SessionTransferReply { moved })
        })
    }

    pub(super) fn session_delete(self, params: SessionDeleteParams) -> Routed {
        let target = wire::target(&params.identity);
        let id = target.session_id;
        self.work(Some(id), SessionDeleteParams::ACTION, move |context| async move {
            let deleted = context.service.delete_session(context.caller, target).await;
            deleted.map_err(|error| wire::transact_error(error, wire::session_error))?;
            Ok(SessionDeleteReply { session_id: id })
        })
    }

    pub(super) fn task_archive(self, params: TaskArchiveParams) -> Routed {
        let task_id = params.task_id;
        self.work(None, TaskArchiveParams::ACTION, move |context| async move {
            let archived = context.service.archive(context.caller, task_id).await;
            archived.map_err(|error| wire::transact_error(error, wire::find_error))?;
            Ok(TaskReply { task_id })
        })
    }

    pub(super) fn task_unarchive(self, params: TaskUnarchiveParams) -> Routed {
        let task_id = params.task_id;
        self.work(None, TaskUnarchiveParams::ACTION, move |context| async move {
            let back = context.service.unarchive(context.caller, task_id).await;
            back.map_err(|error| wire::transact_error(error, wire::find_error))?;
            Ok(TaskReply { task_id })
        })
    }

    pub(super) fn task_delete(self, params: TaskDeleteParams) -> Routed {
        let task_id = params.task_id;
        self.work(None, TaskDeleteParams::ACTION, move |context| async move {
            let deleted = context.service.delete_task(context.caller, task_id).await;
            deleted.map_err(|error| wire::transact_error(error, wire::find_error))?;
            Ok(TaskReply { task_id })
        })
    }
}
