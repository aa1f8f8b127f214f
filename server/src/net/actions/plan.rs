//! Requests about the plan of a session.

use usher_shared::protocol::Request;
use usher_shared::protocol::plan::{
    CommentAddParams, CommentRemoveParams, CommentRemoveReply, CommentReply, CommentUpdateParams,
    PlanGetParams,
};

use super::{Routed, Router};
use crate::domain::plan::CommentRef;
use crate::net::lanes::Lane;
use crate::net::wire;

impl Router {
    pub(super) fn plan_get(self, params: PlanGetParams) -> Routed {
        let target = wire::target(&params.identity);
        self.work(
            [Lane::Session(target.session_id)],
            PlanGetParams::ACTION,
            move |context| async move {
                let found = context.service.plan(context.caller, target).await;
                Ok(wire::plan(found.map_err(|error| Ok(wire::plan_error(error)))?))
            },
        )
    }

    pub(super) fn comment_add(self, params: CommentAddParams) -> Routed {
        let target = wire::target(&params.identity);
        let new = wire::new_comment(params)?;
        self.work(
            [Lane::Session(target.session_id)],
            CommentAddParams::ACTION,
            move |context| async move {
                let made = context.service.add_comment(context.caller, target, new).await;
                let made = made.map_err(|error| wire::transact_error(error, wire::plan_error))?;
                Ok(CommentReply { comment: wire::comment(made) })
            },
        )
    }

    pub(super) fn comment_update(self, params: CommentUpdateParams) -> Routed {
        let target = wire::target(&params.identity);
        let (seen, body) = wire::comment_update(params)?;
        self.work(
            [Lane::Session(target.session_id)],
            CommentUpdateParams::ACTION,
            move |context| async move {
                let (service, caller) = (context.service, context.caller);
                let updated = service.update_comment(caller, target, seen, body).await;
                let updated =
                    updated.map_err(|error| wire::transact_error(error, wire::plan_error))?;
                Ok(CommentReply { comment: wire::comment(updated) })
            },
        )
    }

    pub(super) fn comment_remove(self, params: CommentRemoveParams) -> Routed {
        let target = wire::target(&params.identity);
        let CommentRemoveParams { id, version, .. } = params;
        self.work(
            [Lane::Session(target.session_id)],
            CommentRemoveParams::ACTION,
            move |context| async move {
                let seen = CommentRef { id, version };
                let removed = context.service.remove_comment(context.caller, target, seen).await;
                removed.map_err(|error| wire::transact_error(error, wire::plan_error))?;
                Ok(CommentRemoveReply { id })
            },
        )
    }
}
