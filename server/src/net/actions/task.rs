//! Requests about tasks.

use usher_shared::limits::LISTED_BYTES_MAX;
use usher_shared::protocol::Request;
use usher_shared::protocol::task::{
    TaskArchiveParams, TaskCreateParams, TaskCreateReply, TaskDeleteParams, TaskGetParams,
    TaskGetReply, TaskListParams, TaskListReply, TaskReply, TaskUnarchiveParams,
};

use super::session::sessions_shown;
use super::{Routed, Router};
use crate::net::lanes::Lane;
use crate::net::wire;

impl Router {
    pub(super) fn task_create(self, params: TaskCreateParams) -> Routed {
        let request = wire::task_request(params)?;
        self.work([Lane::Free], TaskCreateParams::ACTION, move |context| async move {
            wire::existing_directory(request.workspace_dir.as_deref()).await.map_err(Ok)?;
            let made = context.service.create_task(context.caller, request).await;
            let made = made.map_err(|error| wire::transact_error(error, wire::make_error))?;
            let session = wire::session(&made.session, None);
            Ok(TaskCreateReply { task: wire::task(made.task), session })
        })
    }

    pub(super) fn task_list(self, params: TaskListParams) -> Routed {
        self.work([Lane::Free], TaskListParams::ACTION, move |context| async move {
            let archived = params.include_archived.unwrap_or(false);
            let tasks = context.service.tasks(context.caller, archived).await;
            let tasks = tasks.map_err(|error| Ok(wire::find_error(error.into())))?;
            let tasks = wire::fitting(tasks.into_iter().map(wire::task), LISTED_BYTES_MAX);
            Ok(TaskListReply { tasks })
        })
    }

    pub(super) fn task_get(self, params: TaskGetParams) -> Routed {
        self.work([Lane::Free], TaskGetParams::ACTION, move |context| async move {
            let found = context.service.task(context.caller, params.task_id).await;
            let (task, sessions) = found.map_err(|error| Ok(wire::find_error(error)))?;
            let mut sessions = sessions_shown(&context.service, &sessions);
            sessions.reverse();
            Ok(TaskGetReply { task: wire::task(task), sessions })
        })
    }

    pub(super) fn task_archive(self, params: TaskArchiveParams) -> Routed {
        let task_id = params.task_id;
        self.resting([Lane::Task(task_id)], TaskArchiveParams::ACTION, move |context| async move {
            let failed = |error| wire::transact_error(error, wire::find_error);
            let archived = context.service.archive(context.caller, task_id).await;
            let rest = archived.map_err(failed)?;
            Ok(async move {
                rest.done().await.map_err(failed)?;
                Ok(TaskReply { task_id })
            })
        })
    }

    pub(super) fn task_unarchive(self, params: TaskUnarchiveParams) -> Routed {
        let task_id = params.task_id;
        self.work([Lane::Task(task_id)], TaskUnarchiveParams::ACTION, move |context| async move {
            let back = context.service.unarchive(context.caller, task_id).await;
            back.map_err(|error| wire::transact_error(error, wire::find_error))?;
            Ok(TaskReply { task_id })
        })
    }

    pub(super) fn task_delete(self, params: TaskDeleteParams) -> Routed {
        let task_id = params.task_id;
        self.resting([Lane::Task(task_id)], TaskDeleteParams::ACTION, move |context| async move {
            let failed = |error| wire::transact_error(error, wire::find_error);
            let deleted = context.service.delete_task(context.caller, task_id).await;
            let rest = deleted.map_err(failed)?;
            Ok(async move {
                rest.done().await.map_err(failed)?;
                Ok(TaskReply { task_id })
            })
        })
    }
}
