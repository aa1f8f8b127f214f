//! One request: from its action's name and payload to the work it asks for.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::sync::Notify;
use usher_shared::counter::EventSeq;
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::SessionId;
use usher_shared::limits::{
    ENTRIES_MAX, NAME_BYTES_MAX, PAGE_MESSAGES_DEFAULT, PAGE_MESSAGES_MAX, READ_BYTES_MAX,
};
use usher_shared::protocol::Request;
use usher_shared::protocol::frame::{FrameKind, RequestFrame, write_frame};
use usher_shared::protocol::hello::{PingParams, PingReply};
use usher_shared::protocol::queue::{
    AutoRunSetParams, AutoRunSetReply, EntryGetParams, QueueAddParams, QueueClearParams,
    QueueClearReply, QueueDrainParams, QueueDrainReply, QueueGetParams, QueueMergeParams,
    QueueMergeReply, QueueRemoveParams, QueueRemoveReply, QueueReorderParams, QueueReorderReply,
    QueueRestoreParams, QueueRestoreReply, SendNowParams, SendNowReply,
};
use usher_shared::protocol::session::{
    self as wire_session, PermissionRespondParams, PermissionRespondReply, SessionCreateParams,
    SessionDeleteParams, SessionGetParams, SessionListParams, SessionListReply, SessionReply,
    SessionResetParams, SessionSetParams, SessionTransferParams, SubscribeParams, SubscribeReply,
    UnsubscribeParams, UnsubscribeReply,
};
use usher_shared::protocol::settings::{SettingsGetParams, SettingsSetParams};
use usher_shared::protocol::task::{
    TaskArchiveParams, TaskCreateParams, TaskCreateReply, TaskDeleteParams, TaskGetParams,
    TaskGetReply, TaskListParams, TaskListReply, TaskUnarchiveParams,
};
use usher_shared::protocol::transcript::{
    TranscriptPageParams, TranscriptReadParams, TranscriptReadReply, TranscriptSearchParams,
};
use usher_shared::protocol::turn::{
    TurnCancelParams, TurnCancelReply, TurnResolveParams, TurnResolveReply,
};

use super::hub::{Hub, Missed};
use super::wire::{self, CommitUnknown, PageEnd, Refused};
use crate::clock::now;
use crate::domain::session::{Caller, Session};
use crate::domain::turn::Cancelled;
use crate::service::Service;
use crate::store::PageBounds;

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
    /// Requests of one session are handled in order.
    pub(super) lane: Option<SessionId>,
    /// The work; an error closes the link with 1011.
    pub(super) run: BoxFuture<'static, Result<Done, CommitUnknown>>,
}

/// What an action may use.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) service: Service,
    pub(super) hub: Arc<Hub>,
    pub(super) caller: Caller,
    pub(super) wake: Arc<Notify>,
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
        QueueGetParams::ACTION => router.queue_get(wire::parse(payload)?),
        QueueAddParams::ACTION => router.queue_add(wire::parse(payload)?),
        QueueRemoveParams::ACTION => router.queue_remove(wire::parse(payload)?),
        QueueClearParams::ACTION => router.queue_clear(wire::parse(payload)?),
        QueueRestoreParams::ACTION => router.queue_restore(wire::parse(payload)?),
        EntryGetParams::ACTION => router.entry_get(wire::parse(payload)?),
        QueueMergeParams::ACTION => router.queue_merge(wire::parse(payload)?),
        QueueReorderParams::ACTION => router.queue_reorder(wire::parse(payload)?),
        SendNowParams::ACTION => router.send_now(wire::parse(payload)?),
        QueueDrainParams::ACTION => router.queue_drain(wire::parse(payload)?),
        AutoRunSetParams::ACTION => router.auto_run_set(wire::parse(payload)?),
        _ => Err(WireError::new(ErrorCode::UnknownAction, "unknown action")),
    }
}

/// Writes an error frame.
pub(super) fn error_frame(id: Option<&str>, action: Option<&str>, error: &WireError) -> String {
    write_frame(FrameKind::Error, id, action, error).expect("an error is plain JSON")
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
        lane: Option<SessionId>,
        action: &'static str,
        run: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Routed
    where
        R: Serialize,
        F: Future<Output = Result<R, Refused>> + Send,
    {
        self.watching(lane, action, |context| async { Ok((run(context).await?, Watch::Same)) })
    }

    /// The same for an action that changes what the link watches.
    fn watching<R, F>(
        self,
        lane: Option<SessionId>,
        action: &'static str,
        run: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Routed
    where
        R: Serialize,
        F: Future<Output = Result<(R, Watch), Refused>> + Send,
    {
        let Self { context, id } = self;
        let run = Box::pin(async move {
            let done = match run(context).await {
                Ok((reply, watch)) => {
                    let frame = write_frame(FrameKind::Response, Some(&id), Some(action), reply);
                    Done { frame: frame.expect("a reply is plain JSON"), watch }
                }
                Err(Ok(error)) => {
                    Done { frame: error_frame(Some(&id), Some(action), &error), watch: Watch::Same }
                }
                Err(Err(unknown)) => return Err(unknown),
            };
            Ok(done)
        });
        Ok(Work { lane, run })
    }

    fn ping(self, _: PingParams) -> Routed {
        self.work(None, PingParams::ACTION, |_| async { Ok(PingReply { server_time: now() }) })
    }

    fn task_create(self, params: TaskCreateParams) -> Routed {
        let request = wire::task_request(params)?;
        self.work(None, TaskCreateParams::ACTION, move |context| async move {
            let made = context.service.create_task(context.caller, request).await;
            let made = made.map_err(|error| wire::transact_error(error, wire::make_error))?;
            let session = wire::session(&made.session, None);
            Ok(TaskCreateReply { task: wire::task(made.task), session })
        })
    }

    fn task_list(self, params: TaskListParams) -> Routed {
        self.work(None, TaskListParams::ACTION, move |context| async move {
            let archived = params.include_archived.unwrap_or(false);
            let tasks = context.service.tasks(context.caller, archived).await;
            let tasks = tasks.map_err(|error| Ok(wire::find_error(error.into())))?;
            Ok(TaskListReply { tasks: tasks.into_iter().map(wire::task).collect() })
        })
    }

    fn task_get(self, params: TaskGetParams) -> Routed {
        self.work(None, TaskGetParams::ACTION, move |context| async move {
            let found = context.service.task(context.caller, params.task_id).await;
            let (task, sessions) = found.map_err(|error| Ok(wire::find_error(error)))?;
            let sessions = sessions_shown(&context.service, &sessions);
            Ok(TaskGetReply { task: wire::task(task), sessions })
        })
    }

    fn session_create(self, params: SessionCreateParams) -> Routed {
        for (field, text) in [
            ("agent", &params.agent),
            ("model", &params.model),
            ("client_request_id", &params.client_request_id),
        ] {
            wire::bounded(field, text.as_deref(), NAME_BYTES_MAX)?;
        }
        self.work(None, SessionCreateParams::ACTION, move |context| async move {
            let SessionCreateParams { task_id, agent, model, client_request_id } = params;
            let made = context
                .service
                .create_session(context.caller, task_id, agent, model, client_request_id)
                .await;
            let made = made.map_err(|error| wire::transact_error(error, wire::make_error))?;
            Ok(SessionReply { session: wire::session(&made, None) })
        })
    }

    fn session_list(self, params: SessionListParams) -> Routed {
        self.work(None, SessionListParams::ACTION, move |context| async move {
            let found = context.service.sessions(context.caller, params.task_id).await;
            let sessions = found.map_err(|error| Ok(wire::find_error(error)))?;
            let sessions = sessions_shown(&context.service, &sessions);
            Ok(SessionListReply { sessions })
        })
    }

    fn session_get(self, params: SessionGetParams) -> Routed {
        let id = params.session_id;
        self.work(Some(id), SessionGetParams::ACTION, move |context| async move {
            let found = context.service.session(context.caller, id).await;
            let session = found.map_err(|error| Ok(wire::find_error(error)))?;
            let question = context.service.questions().get(id);
            Ok(SessionReply { session: wire::session(&session, question) })
        })
    }

    fn subscribe(self, params: SubscribeParams) -> Routed {
        let id = params.session_id;
        self.watching(Some(id), SubscribeParams::ACTION, move |context| async move {
            subscribe(context, params).await
        })
    }

    fn unsubscribe(self, params: UnsubscribeParams) -> Routed {
        let id = params.session_id;
        self.watching(Some(id), UnsubscribeParams::ACTION, move |context| async move {
            context.hub.unwatch(id, &context.wake);
            Ok((UnsubscribeReply { session_id: id }, Watch::Stop(id)))
        })
    }

    fn page(self, params: TranscriptPageParams) -> Routed {
        let limit = params.limit.unwrap_or(PAGE_MESSAGES_DEFAULT);
        if !(1..=PAGE_MESSAGES_MAX).contains(&limit) {
            let error = WireError::validation("limit", "out of bounds");
            return Err(error.with("limit", PAGE_MESSAGES_MAX));
        }
        let bounds = match (params.before_seq, params.after_seq) {
            (None, None) => PageBounds::Newest,
            (Some(seq), None) => PageBounds::Before(seq),
            (None, Some(seq)) => PageBounds::After(seq),
            (Some(_), Some(_)) => {
                return Err(WireError::validation("after_seq", "one bound at most"));
            }
        };
        let id = params.session_id;
        self.work(Some(id), TranscriptPageParams::ACTION, move |context| async move {
            let found = context.service.page(context.caller, id, bounds, limit).await;
            let page = found.map_err(|error| Ok(wire::find_error(error)))?;
            let from = match bounds {
                PageBounds::Newest | PageBounds::Before(_) => PageEnd::Newest,
                PageBounds::After(_) => PageEnd::Oldest,
            };
            Ok(wire::page(&page, from, None))
        })
    }

    fn read(self, params: TranscriptReadParams) -> Routed {
        let TranscriptReadParams { session_id, message_id, offset, length } = params;
        if !(1..=READ_BYTES_MAX).contains(&length) {
            let error = WireError::validation("length", "out of bounds");
            return Err(error.with("limit", READ_BYTES_MAX));
        }
        let lane = Some(session_id);
        self.work(lane, TranscriptReadParams::ACTION, move |context| async move {
            let (service, caller) = (context.service, context.caller);
            let found = service.read_text(caller, session_id, message_id, offset, length).await;
            let range = found.map_err(|error| Ok(wire::find_error(error)))?;
            Ok(TranscriptReadReply { text: range.text, eof: range.eof })
        })
    }

    fn cancel(self, params: TurnCancelParams) -> Routed {
        let target = wire::target(&params.identity);
        self.work(Some(target.session_id), TurnCancelParams::ACTION, move |context| async move {
            let asked = context.service.cancel(context.caller, target, params.expected_turn_id);
            let cancelled =
                asked.await.map_err(|error| wire::transact_error(error, wire::turn_error))?;
            Ok(TurnCancelReply { cancelled: cancelled == Cancelled::Yes })
        })
    }

    fn resolve(self, params: TurnResolveParams) -> Routed {
        let target = wire::target(&params.identity);
        let turn_id = params.turn_id;
        self.work(Some(target.session_id), TurnResolveParams::ACTION, move |context| async move {
            context
                .service
                .resolve(context.caller, target, turn_id, params.resolution)
                .await
                .map_err(|error| wire::transact_error(error, wire::turn_error))?;
            Ok(TurnResolveReply { turn_id })
        })
    }

    fn respond(self, params: PermissionRespondParams) -> Routed {
        wire::bounded("option_id", Some(&params.option_id), NAME_BYTES_MAX)?;
        let target = wire::target(&params.identity);
        let lane = Some(target.session_id);
        self.work(lane, PermissionRespondParams::ACTION, move |context| async move {
            let request_id = params.request_id;
            context
                .service
                .respond(context.caller, target, request_id, params.option_id)
                .await
                .map_err(|error| Ok(wire::turn_error(error)))?;
            Ok(PermissionRespondReply { request_id })
        })
    }

    fn queue_get(self, params: QueueGetParams) -> Routed {
        let target = wire::target(&params.identity);
        self.work(Some(target.session_id), QueueGetParams::ACTION, move |context| async move {
            let newest = context.hub.newest(target.session_id);
            let found = context.service.queue(context.caller, target).await;
            let view = found.map_err(|error| Ok(wire::queue_error(error)))?;
            Ok(wire::status(view, newest))
        })
    }

    fn queue_add(self, params: QueueAddParams) -> Routed {
        let (target, submission) = wire::submission(params, &self.context.caller)?;
        self.work(Some(target.session_id), QueueAddParams::ACTION, move |context| async move {
            let admitted = context.service.add(context.caller, target, submission).await;
            let admitted =
                admitted.map_err(|error| wire::transact_error(error, wire::add_error))?;
            Ok(wire::admitted(&target, admitted))
        })
    }

    fn queue_remove(self, params: QueueRemoveParams) -> Routed {
        let target = wire::target(&params.identity);
        let entry_id = params.entry_id;
        self.work(Some(target.session_id), QueueRemoveParams::ACTION, move |context| async move {
            let removed = context.service.remove(context.caller, target, entry_id).await;
            let undo_id =
                removed.map_err(|error| wire::transact_error(error, wire::queue_error))?;
            Ok(QueueRemoveReply { entry_id, undo_id })
        })
    }

    fn queue_clear(self, params: QueueClearParams) -> Routed {
        let target = wire::target(&params.identity);
        let expected = params.expected_queue_revision;
        self.work(Some(target.session_id), QueueClearParams::ACTION, move |context| async move {
            let cleared = context.service.clear(context.caller, target, expected).await;
            let cleared =
                cleared.map_err(|error| wire::transact_error(error, wire::queue_error))?;
            Ok(QueueClearReply {
                session_id: target.session_id,
                removed: cleared.removed,
                undo_id: cleared.undo_id,
            })
        })
    }

    fn queue_restore(self, params: QueueRestoreParams) -> Routed {
        let target = wire::target(&params.identity);
        let undo_id = params.undo_id;
        self.work(Some(target.session_id), QueueRestoreParams::ACTION, move |context| async move {
            let restored = context.service.restore(context.caller, target, undo_id).await;
            let restored =
                restored.map_err(|error| wire::transact_error(error, wire::queue_error))?;
            Ok(QueueRestoreReply { restored })
        })
    }

    fn entry_get(self, params: EntryGetParams) -> Routed {
        let target = wire::target(&params.identity);
        self.work(Some(target.session_id), EntryGetParams::ACTION, move |context| async move {
            let found = context.service.entry(context.caller, target, params.entry_id).await;
            let entry = found.map_err(|error| Ok(wire::queue_error(error)))?;
            Ok(wire::queued(&target, entry, false))
        })
    }

    fn queue_merge(self, params: QueueMergeParams) -> Routed {
        let target = wire::target(&params.identity);
        self.work(Some(target.session_id), QueueMergeParams::ACTION, move |context| async move {
            let merged = context.service.merge(context.caller, target, params.entry_id).await;
            let entry_id =
                merged.map_err(|error| wire::transact_error(error, wire::queue_error))?;
            Ok(QueueMergeReply { entry_id })
        })
    }

    fn queue_reorder(self, params: QueueReorderParams) -> Routed {
        let target = wire::target(&params.identity);
        if params.ordered_ids.len() > ENTRIES_MAX {
            let error = WireError::validation("ordered_ids", "too many");
            return Err(error.with("limit", ENTRIES_MAX));
        }
        let lane = Some(target.session_id);
        self.work(lane, QueueReorderParams::ACTION, move |context| async move {
            let QueueReorderParams { ordered_ids, expected_queue_revision, .. } = params;
            let reordered = context
                .service
                .reorder(context.caller, target, ordered_ids, expected_queue_revision)
                .await
                .map_err(|error| wire::transact_error(error, wire::queue_error))?;
            Ok(QueueReorderReply {
                session_id: target.session_id,
                reordered: reordered.entries,
                queue_revision: reordered.revision,
            })
        })
    }

    fn send_now(self, params: SendNowParams) -> Routed {
        let target = wire::target(&params.identity);
        let ask = wire::send_now(&params)?;
        self.work(Some(target.session_id), SendNowParams::ACTION, move |context| async move {
            let sent = context.service.send_now(context.caller, target, ask).await;
            let sent_count =
                sent.map_err(|error| wire::transact_error(error, wire::queue_error))?;
            Ok(SendNowReply { session_id: target.session_id, dispatched: true, sent_count })
        })
    }

    fn queue_drain(self, params: QueueDrainParams) -> Routed {
        let target = wire::target(&params.identity);
        self.work(Some(target.session_id), QueueDrainParams::ACTION, move |context| async move {
            let drained = context.service.drain(context.caller, target).await;
            let drained =
                drained.map_err(|error| wire::transact_error(error, wire::queue_error))?;
            Ok(QueueDrainReply { session_id: target.session_id, drained })
        })
    }

    fn auto_run_set(self, params: AutoRunSetParams) -> Routed {
        let target = wire::target(&params.identity);
        let enabled = params.enabled;
        self.work(Some(target.session_id), AutoRunSetParams::ACTION, move |context| async move {
            let set = context.service.set_auto_run(context.caller, target, enabled).await;
            let dispatched = set.map_err(|error| wire::transact_error(error, wire::queue_error))?;
            Ok(AutoRunSetReply { session_id: target.session_id, auto_run: enabled, dispatched })
        })
    }
}

fn sessions_shown(service: &Service, sessions: &[Session]) -> Vec<wire_session::Session> {
    sessions.iter().map(|s| wire::session(s, service.questions().get(s.id))).collect()
}

/// Watches first and reads second: what happens in between is told again, which clients bear.
async fn subscribe(
    context: Context,
    params: SubscribeParams,
) -> Result<(SubscribeReply, Watch), Refused> {
    let id = params.session_id;
    let epoch = context.hub.epoch();
    let found = context.service.session(context.caller.clone(), id).await;
    found.map_err(|error| Ok(wire::find_error(error)))?;
    let (newest, live) = context.hub.watch(id, &context.wake);
    let resumes_after = params.after_event_seq.filter(|place| {
        params.epoch == Some(epoch)
            && matches!(context.hub.missed(id, *place, 0), Missed::Events { .. })
    });
    let limit = if resumes_after.is_some() { 1 } else { PAGE_MESSAGES_DEFAULT };
    let view = match context.service.view(context.caller, id, limit).await {
        Ok(view) => view,
        Err(error) => {
            context.hub.unwatch(id, &context.wake);
            return Err(Ok(wire::find_error(error)));
        }
    };
    let question = context.service.questions().get(id);
    let session = wire::session(&view.queue.session, question);
    let place = resumes_after.unwrap_or(newest);
    let page = wire::page(&view.page, PageEnd::Newest, live.as_ref());
    let has_more = page.has_more;
    let (queue, messages) = match resumes_after {
        Some(_) => (None, None),
        None => (Some(wire::status(view.queue, newest)), Some(page.messages)),
    };
    let reply = SubscribeReply {
        session,
        queue,
        messages,
        has_more,
        event_seq: place,
        epoch,
        resumed: resumes_after.is_some(),
    };
    Ok((reply, Watch::Start(id, place)))
}
