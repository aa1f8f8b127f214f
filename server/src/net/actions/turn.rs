//! Requests about turns and their questions.

use usher_shared::limits::NAME_BYTES_MAX;
use usher_shared::protocol::Request;
use usher_shared::protocol::session::{PermissionRespondParams, PermissionRespondReply};
use usher_shared::protocol::turn::{
    TurnCancelParams, TurnCancelReply, TurnResolveParams, TurnResolveReply,
};

use super::{Routed, Router};
use crate::domain::turn::Cancelled;
use crate::net::lanes::Lane;
use crate::net::wire;

impl Router {
    pub(super) fn cancel(self, params: TurnCancelParams) -> Routed {
        let target = wire::target(&params.identity);
        self.work(
            [Lane::Session(target.session_id)],
            TurnCancelParams::ACTION,
            move |context| async move {
                let asked = context.service.cancel(context.caller, target, params.expected_turn_id);
                let cancelled =
                    asked.await.map_err(|error| wire::transact_error(error, wire::turn_error))?;
                Ok(TurnCancelReply { cancelled: cancelled == Cancelled::Yes })
            },
        )
    }

    pub(super) fn resolve(self, params: TurnResolveParams) -> Routed {
        let target = wire::target(&params.identity);
        let turn_id = params.turn_id;
        self.work(
            [Lane::Session(target.session_id)],
            TurnResolveParams::ACTION,
            move |context| async move {
                context
                    .service
                    .resolve(context.caller, target, turn_id, params.resolution)
                    .await
                    .map_err(|error| wire::transact_error(error, wire::turn_error))?;
                Ok(TurnResolveReply { turn_id })
            },
        )
    }

    pub(super) fn respond(self, params: PermissionRespondParams) -> Routed {
        wire::bounded("option_id", Some(&params.option_id), NAME_BYTES_MAX)?;
        let target = wire::target(&params.identity);
        let lane = [Lane::Session(target.session_id)];
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
}
