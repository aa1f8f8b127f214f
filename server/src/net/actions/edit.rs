//! Requests about edits.

use std::sync::atomic::Ordering;

use usher_shared::protocol::Request;
use usher_shared::protocol::edit::{
    EditBeginParams, EditBeginReply, EditEndParams, EditEndReply, EditRenewParams,
    QueueUpdateParams, QueueUpdateReply,
};

use super::queue::lanes;
use super::{Routed, Router};
use crate::clock::now;
use crate::domain::lease::Ask;
use crate::net::lanes::Lane;
use crate::net::wire::{self, Refused};
use crate::service::EditError;
use crate::store::TransactError;

fn refused(error: TransactError<EditError>) -> Refused {
    wire::transact_error(error, |error| wire::edit_error(error, now()))
}

impl Router {
    pub(super) fn edit_begin(self, params: EditBeginParams) -> Routed {
        let target = wire::target(&params.identity);
        let entry_id = params.entry_id;
        self.work(
            [Lane::Session(target.session_id)],
            EditBeginParams::ACTION,
            move |context| async move {
                context.edits.store(true, Ordering::Relaxed);
                let (service, caller) = (&context.service, context.caller.clone());
                let begun = service.begin_edit(caller, target, entry_id, context.link).await;
                let (granted, entry) = begun.map_err(refused)?;
                let viewer = context.viewer();
                Ok(EditBeginReply {
                    lease: wire::edit_lease(&target, &granted, viewer.now),
                    entry: wire::edited(&target, entry, &granted, &viewer),
                })
            },
        )
    }

    pub(super) fn edit_renew(self, params: EditRenewParams) -> Routed {
        let target = wire::target(&params.identity);
        let EditRenewParams { entry_id, lease_id, .. } = params;
        self.work(
            [Lane::Session(target.session_id)],
            EditRenewParams::ACTION,
            move |context| async move {
                let (service, caller) = (&context.service, context.caller.clone());
                let renewed =
                    service.renew_edit(caller, target, entry_id, lease_id, context.link).await;
                let granted = renewed.map_err(refused)?;
                Ok(wire::edit_lease(&target, &granted, context.viewer().now))
            },
        )
    }

    pub(super) fn edit_end(self, params: EditEndParams) -> Routed {
        let target = wire::target(&params.identity);
        let EditEndParams { entry_id, lease_id, dispatch_if_auto_run, .. } = params;
        let ask = match dispatch_if_auto_run {
            Some(true) => Ask::Dispatch,
            Some(false) | None => Ask::Nothing,
        };
        let session_id = target.session_id;
        self.work([Lane::Session(session_id)], EditEndParams::ACTION, move |context| async move {
            let (service, caller, link) = (context.service, context.caller, context.link);
            let ended = service.end_edit(caller, target, entry_id, lease_id, link, ask).await;
            ended.map_err(refused)?;
            Ok(EditEndReply { session_id, entry_id })
        })
    }

    pub(super) fn queue_update(self, params: QueueUpdateParams) -> Routed {
        let target = wire::target(&params.identity);
        let (entry_id, operation_id) = (params.entry_id, params.operation_id.clone());
        let edit = wire::edit(params, self.context.link)?;
        let lanes = lanes(target.session_id, edit.attachments.as_deref().unwrap_or_default());
        self.work(lanes, QueueUpdateParams::ACTION, move |context| async move {
            let saved = context.service.save_edit(context.caller, target, entry_id, edit).await;
            let target_revision = saved.map_err(refused)?;
            Ok(QueueUpdateReply { entry_id, operation_id, target_revision })
        })
    }
}
