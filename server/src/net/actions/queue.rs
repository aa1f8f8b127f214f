//! Requests about what waits.

use usher_shared::error::WireError;
use usher_shared::id::SessionId;
use usher_shared::limits::ENTRIES_MAX;
use usher_shared::protocol::Request;
use usher_shared::protocol::queue::{
    AutoRunSetParams, AutoRunSetReply, EntryGetParams, QueueAddParams, QueueClearParams,
    QueueClearReply, QueueDrainParams, QueueDrainReply, QueueGetParams, QueueMergeParams,
    QueueMergeReply, QueueRemoveParams, QueueRemoveReply, QueueReorderParams, QueueReorderReply,
    QueueRestoreParams, QueueRestoreReply, SendNowParams, SendNowReply,
};

use super::{Routed, Router};
use crate::domain::attachment::Offered;
use crate::net::lanes::Lane;
use crate::net::wire;

/// What names uploads comes behind what was said about them before.
pub(super) fn lanes(session: SessionId, offered: &[Offered]) -> Vec<Lane> {
    let uploads = offered.iter().filter_map(Offered::named).map(Lane::Upload);
    [Lane::Session(session)].into_iter().chain(uploads).collect()
}

impl Router {
    pub(super) fn queue_get(self, params: QueueGetParams) -> Routed {
        let target = wire::target(&params.identity);
        self.work(
            [Lane::Session(target.session_id)],
            QueueGetParams::ACTION,
            move |context| async move {
                let newest = context.hub.newest(target.session_id);
                let found = context.service.queue(context.caller.clone(), target).await;
                let view = found.map_err(|error| Ok(wire::queue_error(error)))?;
                Ok(wire::status(view, newest, &context.viewer()))
            },
        )
    }

    pub(super) fn queue_add(self, params: QueueAddParams) -> Routed {
        let (target, submission) = wire::submission(params, &self.context.caller)?;
        let lanes = lanes(target.session_id, &submission.offered);
        self.work(lanes, QueueAddParams::ACTION, move |context| async move {
            let admitted = context.service.add(context.caller, target, submission).await;
            let admitted =
                admitted.map_err(|error| wire::transact_error(error, wire::add_error))?;
            Ok(wire::admitted(&target, admitted))
        })
    }

    pub(super) fn queue_remove(self, params: QueueRemoveParams) -> Routed {
        let target = wire::target(&params.identity);
        let entry_id = params.entry_id;
        self.work(
            [Lane::Session(target.session_id)],
            QueueRemoveParams::ACTION,
            move |context| async move {
                let removed = context.service.remove(context.caller, target, entry_id).await;
                let undo_id =
                    removed.map_err(|error| wire::transact_error(error, wire::queue_error))?;
                Ok(QueueRemoveReply { entry_id, undo_id })
            },
        )
    }

    pub(super) fn queue_clear(self, params: QueueClearParams) -> Routed {
        let target = wire::target(&params.identity);
        let expected = params.expected_queue_revision;
        self.work(
            [Lane::Session(target.session_id)],
            QueueClearParams::ACTION,
            move |context| async move {
                let cleared = context.service.clear(context.caller, target, expected).await;
                let cleared =
                    cleared.map_err(|error| wire::transact_error(error, wire::queue_error))?;
                Ok(QueueClearReply {
                    session_id: target.session_id,
                    removed: cleared.removed,
                    undo_id: cleared.undo_id,
                })
            },
        )
    }

    pub(super) fn queue_restore(self, params: QueueRestoreParams) -> Routed {
        let target = wire::target(&params.identity);
        let undo_id = params.undo_id;
        self.work(
            [Lane::Session(target.session_id)],
            QueueRestoreParams::ACTION,
            move |context| async move {
                let restored = context.service.restore(context.caller, target, undo_id).await;
                let restored =
                    restored.map_err(|error| wire::transact_error(error, wire::queue_error))?;
                Ok(QueueRestoreReply { restored })
            },
        )
    }

    pub(super) fn entry_get(self, params: EntryGetParams) -> Routed {
        let target = wire::target(&params.identity);
        self.work(
            [Lane::Session(target.session_id)],
            EntryGetParams::ACTION,
            move |context| async move {
                let found =
                    context.service.entry(context.caller.clone(), target, params.entry_id).await;
                let (entry, leases) = found.map_err(|error| Ok(wire::queue_error(error)))?;
                Ok(wire::shown(&target, entry, &leases, &context.viewer()))
            },
        )
    }

    pub(super) fn queue_merge(self, params: QueueMergeParams) -> Routed {
        let target = wire::target(&params.identity);
        self.work(
            [Lane::Session(target.session_id)],
            QueueMergeParams::ACTION,
            move |context| async move {
                let merged = context.service.merge(context.caller, target, params.entry_id).await;
                let entry_id =
                    merged.map_err(|error| wire::transact_error(error, wire::queue_error))?;
                Ok(QueueMergeReply { entry_id })
            },
        )
    }

    pub(super) fn queue_reorder(self, params: QueueReorderParams) -> Routed {
        let target = wire::target(&params.identity);
        if params.ordered_ids.len() > ENTRIES_MAX {
            let error = WireError::validation("ordered_ids", "too many");
            return Err(error.with("limit", ENTRIES_MAX));
        }
        let lane = [Lane::Session(target.session_id)];
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

    pub(super) fn send_now(self, params: SendNowParams) -> Routed {
        let target = wire::target(&params.identity);
        let ask = wire::send_now(&params)?;
        self.work(
            [Lane::Session(target.session_id)],
            SendNowParams::ACTION,
            move |context| async move {
                let sent = context.service.send_now(context.caller, target, ask).await;
                let sent_count =
                    sent.map_err(|error| wire::transact_error(error, wire::queue_error))?;
                Ok(SendNowReply { session_id: target.session_id, dispatched: true, sent_count })
            },
        )
    }

    pub(super) fn queue_drain(self, params: QueueDrainParams) -> Routed {
        let target = wire::target(&params.identity);
        self.work(
            [Lane::Session(target.session_id)],
            QueueDrainParams::ACTION,
            move |context| async move {
                let drained = context.service.drain(context.caller, target).await;
                let drained =
                    drained.map_err(|error| wire::transact_error(error, wire::queue_error))?;
                Ok(QueueDrainReply { session_id: target.session_id, drained })
            },
        )
    }

    pub(super) fn auto_run_set(self, params: AutoRunSetParams) -> Routed {
        let target = wire::target(&params.identity);
        let enabled = params.enabled;
        self.work(
            [Lane::Session(target.session_id)],
            AutoRunSetParams::ACTION,
            move |context| async move {
                let set = context.service.set_auto_run(context.caller, target, enabled).await;
                let dispatched =
                    set.map_err(|error| wire::transact_error(error, wire::queue_error))?;
                Ok(AutoRunSetReply { session_id: target.session_id, auto_run: enabled, dispatched })
            },
        )
    }
}
