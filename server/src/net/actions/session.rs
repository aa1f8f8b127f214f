//! Requests about whole sessions.

use usher_shared::limits::{LISTED_BYTES_MAX, NAME_BYTES_MAX, PAGE_MESSAGES_DEFAULT};
use usher_shared::protocol::Request;
use usher_shared::protocol::session::{
    self as wire_session, SessionCreateParams, SessionDeleteParams, SessionDeleteReply,
    SessionGetParams, SessionListParams, SessionListReply, SessionReply, SessionResetParams,
    SessionSetParams, SessionTransferParams, SessionTransferReply, SubscribeParams, SubscribeReply,
    UnsubscribeParams, UnsubscribeReply,
};

use super::{Context, Routed, Router, Watch};
use crate::domain::lifecycle::{OnReset, SessionPatch};
use crate::domain::session::{Session, Target};
use crate::net::hub::{Missed, Watched};
use crate::net::lanes::Lane;
use crate::net::wire::{self, PageEnd, Refused};
use crate::service::Service;

impl Router {
    pub(super) fn session_create(self, params: SessionCreateParams) -> Routed {
        for (field, text) in [
            ("agent", &params.agent),
            ("model", &params.model),
            ("client_request_id", &params.client_request_id),
        ] {
            wire::bounded(field, text.as_deref(), NAME_BYTES_MAX)?;
        }
        self.work([Lane::Free], SessionCreateParams::ACTION, move |context| async move {
            let SessionCreateParams { task_id, agent, model, client_request_id } = params;
            let made = context
                .service
                .create_session(context.caller, task_id, agent, model, client_request_id)
                .await;
            let made = made.map_err(|error| wire::transact_error(error, wire::make_error))?;
            Ok(SessionReply { session: wire::session(&made, None) })
        })
    }

    pub(super) fn session_list(self, params: SessionListParams) -> Routed {
        self.work([Lane::Free], SessionListParams::ACTION, move |context| async move {
            let found = context.service.sessions(context.caller, params.task_id).await;
            let sessions = found.map_err(|error| Ok(wire::find_error(error)))?;
            let sessions = sessions_shown(&context.service, &sessions);
            Ok(SessionListReply { sessions })
        })
    }

    pub(super) fn session_get(self, params: SessionGetParams) -> Routed {
        let id = params.session_id;
        self.work([Lane::Session(id)], SessionGetParams::ACTION, move |context| async move {
            let found = context.service.session(context.caller, id).await;
            let session = found.map_err(|error| Ok(wire::find_error(error)))?;
            let question = context.service.questions().get(id);
            Ok(SessionReply { session: wire::session(&session, question) })
        })
    }

    pub(super) fn subscribe(self, params: SubscribeParams) -> Routed {
        let id = params.session_id;
        self.watching([Lane::Session(id)], SubscribeParams::ACTION, move |context| async move {
            subscribe(context, params).await
        })
    }

    pub(super) fn unsubscribe(self, params: UnsubscribeParams) -> Routed {
        let id = params.session_id;
        self.watching([Lane::Session(id)], UnsubscribeParams::ACTION, move |context| async move {
            if !context.hub.unwatch(id, &context.wake) {
                let found = context.service.session(context.caller, id).await;
                found.map_err(|error| Ok(wire::find_error(error)))?;
            }
            Ok((UnsubscribeReply { session_id: id }, Watch::Stop(id)))
        })
    }

    pub(super) fn session_set(self, params: SessionSetParams) -> Routed {
        for (field, text) in
            [("model", &params.model), ("mode", &params.mode), ("title", &params.title)]
        {
            wire::bounded(field, text.as_deref(), NAME_BYTES_MAX)?;
        }
        let target = wire::target(&params.identity);
        let SessionSetParams { model, mode, title, .. } = params;
        let patch = SessionPatch { model, mode, title };
        self.work(
            [Lane::Session(target.session_id)],
            SessionSetParams::ACTION,
            move |context| async move {
                let set = context.service.set_session(context.caller, target, patch).await;
                let session =
                    set.map_err(|error| wire::transact_error(error, wire::session_error))?;
                let question = context.service.questions().get(session.id);
                Ok(SessionReply { session: wire::session(&session, question) })
            },
        )
    }

    pub(super) fn session_reset(self, params: SessionResetParams) -> Routed {
        let target = wire::target(&params.identity);
        let queue = match params.keep_queue {
            None | Some(true) => OnReset::KeepQueue,
            Some(false) => OnReset::ClearQueue,
        };
        self.work(
            [Lane::Session(target.session_id)],
            SessionResetParams::ACTION,
            move |context| async move {
                let reset = context.service.reset(context.caller, target, queue).await;
                let session =
                    reset.map_err(|error| wire::transact_error(error, wire::session_error))?;
                Ok(SessionReply { session: wire::session(&session, None) })
            },
        )
    }

    pub(super) fn session_transfer(self, params: SessionTransferParams) -> Routed {
        let from = wire::target(&params.identity);
        let to = Target {
            task_id: params.to_task_id,
            session_id: params.to_session_id,
            incarnation_id: Some(params.to_session_incarnation_id),
        };
        let lanes = [from, to].map(|side| Lane::Session(side.session_id));
        self.work(lanes, SessionTransferParams::ACTION, move |context| async move {
            let moved = context.service.transfer(context.caller, from, to).await;
            let moved = moved.map_err(|error| wire::transact_error(error, wire::session_error))?;
            Ok(SessionTransferReply { moved })
        })
    }

    pub(super) fn session_delete(self, params: SessionDeleteParams) -> Routed {
        let target = wire::target(&params.identity);
        let id = target.session_id;
        self.resting([Lane::Session(id)], SessionDeleteParams::ACTION, move |context| async move {
            let failed = |error| wire::transact_error(error, wire::session_error);
            let hidden = context.service.delete_session(context.caller, target).await;
            let rest = hidden.map_err(failed)?;
            Ok(async move {
                rest.done().await.map_err(failed)?;
                Ok(SessionDeleteReply { session_id: id })
            })
        })
    }
}

/// Sessions as far as they fit into an answer.
pub(super) fn sessions_shown(
    service: &Service,
    sessions: &[Session],
) -> Vec<wire_session::Session> {
    let shown = sessions.iter().map(|s| wire::session(s, service.questions().get(s.id)));
    wire::fitting(shown, LISTED_BYTES_MAX)
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
    if !context.hub.may_watch(id, &context.wake) {
        return Err(Ok(wire::too_many("this connection watches too many sessions")));
    }
    let (newest, live, watched) = context.hub.watch(id, &context.wake);
    let resumes_after = params.after_event_seq.filter(|place| {
        params.epoch == Some(epoch)
            && matches!(context.hub.missed(id, *place, 0), Missed::Events { .. })
    });
    let limit = if resumes_after.is_some() { 1 } else { PAGE_MESSAGES_DEFAULT };
    let view = match context.service.view(context.caller.clone(), id, limit).await {
        Ok(view) => view,
        Err(error) => {
            if watched == Watched::Anew {
                context.hub.unwatch(id, &context.wake);
            }
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
        None => (Some(wire::status(view.queue, newest, &context.viewer())), Some(page.messages)),
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
