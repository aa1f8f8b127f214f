//! One request: from its action's name and payload to the work it asks for.

mod attachment;
mod edit;
mod plan;
mod queue;
mod session;
mod settings;
mod task;
mod transcript;
mod turn;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::sync::Notify;
use tracing::error;
use usher_shared::counter::EventSeq;
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::SessionId;
use usher_shared::limits::{ACTION_BYTES_MAX, FRAME_BYTES_MAX};
use usher_shared::protocol::Request;
use usher_shared::protocol::attachment::{
    AttachmentAbortParams, AttachmentAppendParams, AttachmentBeginParams, AttachmentFinishParams,
    AttachmentReadParams,
};
use usher_shared::protocol::edit::{
    EditBeginParams, EditEndParams, EditRenewParams, QueueUpdateParams,
};
use usher_shared::protocol::frame::{FrameKind, RequestFrame, write_frame};
use usher_shared::protocol::hello::{PingParams, PingReply};
use usher_shared::protocol::plan::{
    CommentAddParams, CommentRemoveParams, CommentUpdateParams, PlanGetParams,
};
use usher_shared::protocol::queue::{
    AutoRunSetParams, EntryGetParams, QueueAddParams, QueueClearParams, QueueDrainParams,
    QueueGetParams, QueueMergeParams, QueueRemoveParams, QueueReorderParams, QueueRestoreParams,
    SendNowParams,
};
use usher_shared::protocol::session::{
    PermissionRespondParams, SessionCreateParams, SessionDeleteParams, SessionGetParams,
    SessionListParams, SessionResetParams, SessionSetParams, SessionTransferParams,
    SubscribeParams, UnsubscribeParams,
};
use usher_shared::protocol::settings::{SettingsGetParams, SettingsSetParams};
use usher_shared::protocol::task::{
    TaskArchiveParams, TaskCreateParams, TaskDeleteParams, TaskGetParams, TaskListParams,
    TaskUnarchiveParams,
};
use usher_shared::protocol::transcript::{
    TranscriptPageParams, TranscriptReadParams, TranscriptSearchParams,
};
use usher_shared::protocol::turn::{TurnCancelParams, TurnResolveParams};

use crate::clock::now;
use crate::domain::lease::LinkId;
use crate::domain::session::Caller;
use crate::net::hub::Hub;
use crate::net::lanes::Lane;
use crate::net::wire::{self, CommitUnknown, Refused, Viewer};
use crate::service::Service;

/// What a request came to.
pub(super) struct Done {
    /// The frame that answers it.
    pub(super) frame: String,
    /// What it changed about the link.
    pub(super) watch: Watch,
}

/// What a request changed about the sessions that a link watches.
pub(super) enum Watch {
    Same,
    Start(SessionId, EventSeq),
    Stop(SessionId),
}

/// Work to be done when its turn has come.
pub(super) struct Work {
    /// Requests of one lane are handled in order.
    pub(super) lanes: Vec<Lane>,
    /// The work.
    pub(super) run: Running<Step>,
}

/// Work that runs; an error closes the link with 1011.
pub(super) type Running<T> = BoxFuture<'static, Result<T, CommitUnknown>>;

/// How far work has come when its effect is there.
pub(super) enum Step {
    /// It can be answered.
    Done(Done),
    /// Its answer waits for something that goes on whether or not anybody waits.
    Rest(Running<Done>),
}

/// What an action may use.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) service: Service,
    pub(super) hub: Arc<Hub>,
    pub(super) caller: Caller,
    pub(super) wake: Arc<Notify>,
    /// The connection that the request came on.
    pub(super) link: LinkId,
    /// Whether the connection ever began an edit.
    pub(super) edits: Arc<AtomicBool>,
}

impl Context {
    /// Returns who is shown something.
    pub(super) fn viewer(&self) -> Viewer<'_> {
        Viewer { caller: &self.caller, link: self.link, now: now() }
    }
}

/// Finds what a request asks for; a refusal is answered at once.
pub(super) fn route(context: &Context, frame: &RequestFrame<'_>) -> Result<Work, WireError> {
    let router = Router { context: context.clone(), id: frame.id.clone().into_owned() };
    let payload = frame.payload;
    match &*frame.action {
        PingParams::ACTION => router.ping(wire::parse(payload)?),
        TaskCreateParams::ACTION => router.task_create(wire::parse(payload)?),
        TaskListParams::ACTION => router.task_list(wire::parse(payload)?),
        TaskGetParams::ACTION => router.task_get(wire::parse(payload)?),
        SessionCreateParams::ACTION => router.session_create(wire::parse(payload)?),
        SessionListParams::ACTION => router.session_list(wire::parse(payload)?),
        SessionGetParams::ACTION => router.session_get(wire::parse(payload)?),
        SubscribeParams::ACTION => router.subscribe(wire::parse(payload)?),
        UnsubscribeParams::ACTION => router.unsubscribe(wire::parse(payload)?),
        SessionSetParams::ACTION => router.session_set(wire::parse(payload)?),
        SessionResetParams::ACTION => router.session_reset(wire::parse(payload)?),
        SessionTransferParams::ACTION => router.session_transfer(wire::parse(payload)?),
        SessionDeleteParams::ACTION => router.session_delete(wire::parse(payload)?),
        TaskArchiveParams::ACTION => router.task_archive(wire::parse(payload)?),
        TaskUnarchiveParams::ACTION => router.task_unarchive(wire::parse(payload)?),
        TaskDeleteParams::ACTION => router.task_delete(wire::parse(payload)?),
        SettingsGetParams::ACTION => router.settings_get(wire::parse(payload)?),
        SettingsSetParams::ACTION => router.settings_set(wire::parse(payload)?),
        TranscriptPageParams::ACTION => router.page(wire::parse(payload)?),
        TranscriptSearchParams::ACTION => router.search(wire::parse(payload)?),
        TranscriptReadParams::ACTION => router.read(wire::parse(payload)?),
        TurnCancelParams::ACTION => router.cancel(wire::parse(payload)?),
        TurnResolveParams::ACTION => router.resolve(wire::parse(payload)?),
        PermissionRespondParams::ACTION => router.respond(wire::parse(payload)?),
        PlanGetParams::ACTION => router.plan_get(wire::parse(payload)?),
        CommentAddParams::ACTION => router.comment_add(wire::parse(payload)?),
        CommentUpdateParams::ACTION => router.comment_update(wire::parse(payload)?),
        CommentRemoveParams::ACTION => router.comment_remove(wire::parse(payload)?),
        QueueGetParams::ACTION => router.queue_get(wire::parse(payload)?),
        QueueAddParams::ACTION => router.queue_add(wire::parse(payload)?),
        QueueRemoveParams::ACTION => router.queue_remove(wire::parse(payload)?),
        QueueClearParams::ACTION => router.queue_clear(wire::parse(payload)?),
        QueueRestoreParams::ACTION => router.queue_restore(wire::parse(payload)?),
        AttachmentBeginParams::ACTION => router.attachment_begin(wire::parse(payload)?),
        AttachmentAppendParams::ACTION => router.attachment_append(wire::parse(payload)?),
        AttachmentFinishParams::ACTION => router.attachment_finish(wire::parse(payload)?),
        AttachmentAbortParams::ACTION => router.attachment_abort(wire::parse(payload)?),
        AttachmentReadParams::ACTION => router.attachment_read(wire::parse(payload)?),
        EditBeginParams::ACTION => router.edit_begin(wire::parse(payload)?),
        EditRenewParams::ACTION => router.edit_renew(wire::parse(payload)?),
        EditEndParams::ACTION => router.edit_end(wire::parse(payload)?),
        QueueUpdateParams::ACTION => router.queue_update(wire::parse(payload)?),
        EntryGetParams::ACTION => router.entry_get(wire::parse(payload)?),
        QueueMergeParams::ACTION => router.queue_merge(wire::parse(payload)?),
        QueueReorderParams::ACTION => router.queue_reorder(wire::parse(payload)?),
        SendNowParams::ACTION => router.send_now(wire::parse(payload)?),
        QueueDrainParams::ACTION => router.queue_drain(wire::parse(payload)?),
        AutoRunSetParams::ACTION => router.auto_run_set(wire::parse(payload)?),
        _ => Err(WireError::new(ErrorCode::UnknownAction, "unknown action")),
    }
}

/// Writes an error frame. An action that is too long to be one is not repeated.
pub(super) fn error_frame(id: Option<&str>, action: Option<&str>, error: &WireError) -> String {
    let action = action.filter(|action| action.len() <= ACTION_BYTES_MAX);
    write_frame(FrameKind::Error, id, action, error).expect("an error is plain JSON")
}

/// Returns what is sent instead of an answer that no client takes: every answer has a bound of its
/// own, so this one is a fault.
fn too_large(id: &str, action: &str, frame: &str) -> Option<String> {
    if frame.len() <= FRAME_BYTES_MAX {
        return None;
    }
    error!(action, bytes = frame.len(), "an answer is larger than a frame");
    let error = WireError::new(ErrorCode::Internal, "the answer is larger than a frame");
    Some(error_frame(Some(id), Some(action), &error))
}

pub(super) type Routed = Result<Work, WireError>;

pub(super) struct Router {
    context: Context,
    id: String,
}

impl Router {
    /// Makes the work of an action that only answers.
    pub(super) fn work<R, F>(
        self,
        lanes: impl Into<Vec<Lane>>,
        action: &'static str,
        run: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Routed
    where
        R: Serialize,
        F: Future<Output = Result<R, Refused>> + Send,
    {
        self.watching(lanes, action, |context| async { Ok((run(context).await?, Watch::Same)) })
    }

    /// The same for an action that changes what the link watches.
    fn watching<R, F>(
        self,
        lanes: impl Into<Vec<Lane>>,
        action: &'static str,
        run: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Routed
    where
        R: Serialize,
        F: Future<Output = Result<(R, Watch), Refused>> + Send,
    {
        let Self { context, id } = self;
        let run = async move { Ok(Step::Done(done(&id, action, run(context).await)?)) };
        Ok(Work { lanes: lanes.into(), run: Box::pin(run) })
    }

    /// The same for an action whose answer waits for something after its effect: `run` returns when
    /// the effect is there, with what waits.
    fn resting<R, F, G>(
        self,
        lanes: impl Into<Vec<Lane>>,
        action: &'static str,
        run: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Routed
    where
        R: Serialize,
        F: Future<Output = Result<G, Refused>> + Send,
        G: Future<Output = Result<R, Refused>> + Send + 'static,
    {
        let Self { context, id } = self;
        let run = async move {
            let rest = match run(context).await {
                Ok(rest) => rest,
                Err(refused) => return Ok(Step::Done(refusal(&id, action, refused)?)),
            };
            Ok(Step::Rest(Box::pin(async move {
                let ended = rest.await.map(|reply| (reply, Watch::Same));
                done(&id, action, ended)
            })))
        };
        Ok(Work { lanes: lanes.into(), run: Box::pin(run) })
    }

    fn ping(self, _: PingParams) -> Routed {
        self.work([Lane::Free], PingParams::ACTION, |_| async {
            Ok(PingReply { server_time: now() })
        })
    }
}

fn done<R: Serialize>(
    id: &str,
    action: &str,
    ended: Result<(R, Watch), Refused>,
) -> Result<Done, CommitUnknown> {
    match ended {
        Ok((reply, watch)) => {
            let frame = write_frame(FrameKind::Response, Some(id), Some(action), reply);
            let frame = frame.expect("a reply is plain JSON");
            Ok(Done { frame: too_large(id, action, &frame).unwrap_or(frame), watch })
        }
        Err(refused) => refusal(id, action, refused),
    }
}

fn refusal(id: &str, action: &str, refused: Refused) -> Result<Done, CommitUnknown> {
    let error = refused?;
    Ok(Done { frame: error_frame(Some(id), Some(action), &error), watch: Watch::Same })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_no_client_takes_is_a_fault_and_answered_as_one() {
        assert_eq!(too_large("7", "ping", &"x".repeat(FRAME_BYTES_MAX)), None);
        let instead = too_large("7", "ping", &"x".repeat(FRAME_BYTES_MAX + 1)).unwrap();
        assert!(instead.starts_with(
            r#"{"id":"7","type":"error","action":"ping","payload":{"code":"internal","#
        ));
    }
}
