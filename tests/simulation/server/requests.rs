//! One request: from its action's name and payload to its answer.

use serde_json::value::to_raw_value;
use usher_server::domain::Decision;
use usher_server::domain::lease::Ask;
use usher_server::domain::lifecycle::OnReset;
use usher_server::domain::turn::Cancelled;
use usher_server::net::wire::{self, PageEnd, Viewer};
use usher_server::service::{AddError, EditError, FindError, QueueError, TurnError};
use usher_server::store::PageBounds;
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::SessionId;
use usher_shared::protocol::Request as WireRequest;
use usher_shared::protocol::edit::{
    EditBeginParams, EditBeginReply, EditEndParams, EditEndReply, EditRenewParams,
    QueueUpdateParams, QueueUpdateReply,
};
use usher_shared::protocol::frame::{FrameKind, write_frame};
use usher_shared::protocol::hello::{PingParams, PingReply};
use usher_shared::protocol::queue::{
    AutoRunSetParams, AutoRunSetReply, EntryGetParams, QueueAddParams, QueueClearParams,
    QueueClearReply, QueueDrainParams, QueueDrainReply, QueueGetParams, QueueMergeParams,
    QueueMergeReply, QueueRemoveParams, QueueRemoveReply, QueueReorderParams, QueueReorderReply,
    QueueRestoreParams, QueueRestoreReply,
};
use usher_shared::protocol::session::{
    SessionReply, SessionResetParams, SubscribeParams, UnsubscribeParams,
};
use usher_shared::protocol::transcript::TranscriptPageParams;
use usher_shared::protocol::turn::{TurnCancelParams, TurnCancelReply};

use super::commits::store_failed;
use super::decide::Deciding;
use super::links::{Answer, Request, error_frame};
use super::{Fact, Server, Stop};
use crate::network::LinkNo;

type Answered = Result<Answer, Stop>;

impl Server {
    /// Returns the answer to a request; None: the server dies.
    pub(super) fn answer(&mut self, link: LinkNo, request: &Request) -> Option<Answer> {
        let is_away = self.now < self.away_until && request.action != PingParams::ACTION;
        let answered = if is_away { Err(store_failed()) } else { self.route(link, request) };
        match answered {
            Ok(answer) => Some(answer),
            Err(Stop::Refused(error)) => {
                Some(Answer { frame: error_frame(request, &error), watch: None })
            }
            Err(Stop::Crash) => None,
        }
    }

    fn route(&mut self, link: LinkNo, request: &Request) -> Answered {
        match request.action.as_str() {
            PingParams::ACTION => {
                let server_time = self.wall();
                replied::<PingParams>(request, &PingReply { server_time })
            }
            SubscribeParams::ACTION => self.subscribe(link, request, &read(request)?),
            UnsubscribeParams::ACTION => self.unsubscribe(link, request, &read(request)?),
            TranscriptPageParams::ACTION => self.page(request, &read(request)?),
            QueueGetParams::ACTION => self.queue_get(link, request, &read(request)?),
            EntryGetParams::ACTION => self.entry_get(link, request, &read(request)?),
            QueueAddParams::ACTION => self.queue_add(request, read(request)?),
            SessionResetParams::ACTION => self.session_reset(request, &read(request)?),
            TurnCancelParams::ACTION => self.turn_cancel(request, &read(request)?),
            EditBeginParams::ACTION => self.edit_begin(link, request, &read(request)?),
            EditRenewParams::ACTION => self.edit_renew(link, request, &read(request)?),
            EditEndParams::ACTION => self.edit_end(link, request, &read(request)?),
            QueueUpdateParams::ACTION => self.queue_update(link, request, read(request)?),
            _ => self.route_operation(request),
        }
    }

    fn route_operation(&mut self, request: &Request) -> Answered {
        match request.action.as_str() {
            QueueRemoveParams::ACTION => {
                let QueueRemoveParams { identity, entry_id } = read(request)?;
                let target = wire::target(&identity);
                let undo_id = self.operate(|decide| decide.remove(&target, entry_id))?;
                replied::<QueueRemoveParams>(request, &QueueRemoveReply { entry_id, undo_id })
            }
            QueueClearParams::ACTION => {
                let target = wire::target(&read::<QueueClearParams>(request)?.identity);
                let cleared = self.operate(|decide| decide.clear(&target))?;
                let reply = QueueClearReply {
                    session_id: target.session_id,
                    removed: cleared.removed,
                    undo_id: cleared.undo_id,
                };
                replied::<QueueClearParams>(request, &reply)
            }
            QueueRestoreParams::ACTION => {
                let QueueRestoreParams { identity, undo_id } = read(request)?;
                let target = wire::target(&identity);
                let restored = self.operate(|decide| decide.restore(&target, undo_id))?;
                replied::<QueueRestoreParams>(request, &QueueRestoreReply { restored })
            }
            QueueMergeParams::ACTION => {
                let QueueMergeParams { identity, entry_id } = read(request)?;
                let target = wire::target(&identity);
                let entry_id = self.operate(|decide| decide.merge(&target, entry_id))?;
                replied::<QueueMergeParams>(request, &QueueMergeReply { entry_id })
            }
            QueueReorderParams::ACTION => {
                let params: QueueReorderParams = read(request)?;
                let target = wire::target(&params.identity);
                let reordered =
                    self.operate(|decide| decide.reorder(&target, &params.ordered_ids))?;
                let reply = QueueReorderReply {
                    session_id: target.session_id,
                    reordered: reordered.entries,
                    queue_revision: reordered.revision,
                };
                replied::<QueueReorderParams>(request, &reply)
            }
            AutoRunSetParams::ACTION => {
                let AutoRunSetParams { identity, enabled } = read(request)?;
                let target = wire::target(&identity);
                let dispatched = self.operate(|decide| decide.set_auto_run(&target, enabled))?;
                let session_id = target.session_id;
                let reply = AutoRunSetReply { session_id, auto_run: enabled, dispatched };
                replied::<AutoRunSetParams>(request, &reply)
            }
            QueueDrainParams::ACTION => {
                let target = wire::target(&read::<QueueDrainParams>(request)?.identity);
                let drained = self.operate(|decide| decide.drain(&target))?;
                let reply = QueueDrainReply { session_id: target.session_id, drained };
                replied::<QueueDrainParams>(request, &reply)
            }
            other => panic!("nobody in the simulation asks for {other}"),
        }
    }

    /// Decides and commits an operation on a queue.
    fn operate<T>(
        &mut self,
        decide: impl FnOnce(&mut Deciding<'_>) -> Result<Decision<T>, QueueError>,
    ) -> Result<T, Stop> {
        self.transact(decide, |_, error| wire::queue_error(error))
    }

    /// Decides and commits.
    fn transact<T, E>(
        &mut self,
        decide: impl FnOnce(&mut Deciding<'_>) -> Result<Decision<T>, E>,
        refuse: impl FnOnce(&Self, E) -> WireError,
    ) -> Result<T, Stop> {
        match decide(&mut self.deciding()) {
            Ok(decision) => self.commit(decision),
            Err(error) => Err(Stop::Refused(refuse(self, error))),
        }
    }

    fn edit<T>(
        &mut self,
        decide: impl FnOnce(&mut Deciding<'_>) -> Result<Decision<T>, EditError>,
    ) -> Result<T, Stop> {
        self.transact(decide, |server, error| wire::edit_error(error, server.wall()))
    }

    /// Calls `show` with the one who is shown something.
    pub(super) fn viewed<T>(&self, link: LinkNo, show: impl FnOnce(&Viewer<'_>) -> T) -> T {
        let link = Self::link_id(self.starts, link);
        show(&Viewer { caller: &self.rules.caller, link, now: self.wall() })
    }

    fn queue_get(&mut self, link: LinkNo, request: &Request, params: &QueueGetParams) -> Answered {
        let target = wire::target(&params.identity);
        let newest = self.newest(target.session_id);
        let view = self.deciding().queue(&target);
        let view = view.map_err(|error| Stop::Refused(wire::queue_error(error)))?;
        let status = self.viewed(link, |viewer| wire::status(view, newest, viewer));
        replied::<QueueGetParams>(request, &status)
    }

    fn entry_get(&mut self, link: LinkNo, request: &Request, params: &EntryGetParams) -> Answered {
        let target = wire::target(&params.identity);
        let found = self.deciding().one(&target, params.entry_id);
        let (entry, leases) = found.map_err(|error| Stop::Refused(wire::queue_error(error)))?;
        let entry = self.viewed(link, |viewer| wire::shown(&target, entry, &leases, viewer));
        replied::<EntryGetParams>(request, &entry)
    }

    fn queue_add(&mut self, request: &Request, params: QueueAddParams) -> Answered {
        let read = wire::submission(params, &self.rules.caller);
        let (target, submission) = read.map_err(Stop::Refused)?;
        let admitted = self.transact(
            |decide| decide.add(&target, submission),
            |_, error: AddError| wire::add_error(error),
        )?;
        let current = self.store.row(target.session_id).map(|row| row.session.incarnation_id);
        self.facts.push(Fact::Added { asked: target.incarnation_id, current });
        replied::<QueueAddParams>(request, &wire::admitted(&target, admitted))
    }

    fn page(&mut self, request: &Request, params: &TranscriptPageParams) -> Answered {
        let bounds = match (params.before_seq, params.after_seq) {
            (Some(seq), _) => PageBounds::Before(seq),
            (None, Some(seq)) => PageBounds::After(seq),
            (None, None) => PageBounds::Newest,
        };
        let limit = params.limit.map_or(100, |limit| limit as usize);
        let row = self.store.row(params.session_id);
        let page = row.ok_or_else(not_found)?.page(bounds, limit);
        replied::<TranscriptPageParams>(request, &wire::page(&page, PageEnd::Newest, None))
    }

    fn session_reset(&mut self, request: &Request, params: &SessionResetParams) -> Answered {
        let target = wire::target(&params.identity);
        let queue = match params.keep_queue {
            None | Some(true) => OnReset::KeepQueue,
            Some(false) => OnReset::ClearQueue,
        };
        self.transact(
            |decide| decide.reset(&target, queue),
            |_, error| wire::session_error(error),
        )?;
        let session = self.wire_session(target.session_id).ok_or_else(not_found)?;
        replied::<SessionResetParams>(request, &SessionReply { session })
    }

    fn turn_cancel(&mut self, request: &Request, params: &TurnCancelParams) -> Answered {
        let target = wire::target(&params.identity);
        let cancelled = self.transact(
            |decide| decide.cancel(&target, params.expected_turn_id),
            |_, error: TurnError| wire::turn_error(error),
        )?;
        let cancelled = cancelled == Cancelled::Yes;
        replied::<TurnCancelParams>(request, &TurnCancelReply { cancelled })
    }

    fn edit_begin(
        &mut self,
        link: LinkNo,
        request: &Request,
        params: &EditBeginParams,
    ) -> Answered {
        let target = wire::target(&params.identity);
        let holder = Self::link_id(self.starts, link);
        let begun = self.edit(|decide| decide.begin_edit(&target, params.entry_id, holder));
        if let Err(Stop::Refused(error)) = &begun
            && error.code == ErrorCode::EditConflict
        {
            self.facts.push(Fact::Taken(params.entry_id));
        }
        let (granted, entry) = begun?;
        self.facts.push(Fact::Granted(granted.lease));
        let reply = EditBeginReply {
            lease: wire::edit_lease(&target, &granted, self.wall()),
            entry: self.viewed(link, |viewer| wire::edited(&target, entry, &granted, viewer)),
        };
        replied::<EditBeginParams>(request, &reply)
    }

    fn edit_renew(
        &mut self,
        link: LinkNo,
        request: &Request,
        params: &EditRenewParams,
    ) -> Answered {
        let target = wire::target(&params.identity);
        let holder = Self::link_id(self.starts, link);
        let granted = self
            .edit(|decide| decide.renew_edit(&target, params.entry_id, params.lease_id, holder))?;
        self.facts.push(Fact::Renewed(granted.lease));
        let renewed = wire::edit_lease(&target, &granted, self.wall());
        replied::<EditRenewParams>(request, &renewed)
    }

    fn edit_end(&mut self, link: LinkNo, request: &Request, params: &EditEndParams) -> Answered {
        let target = wire::target(&params.identity);
        let holder = Self::link_id(self.starts, link);
        let ask = match params.dispatch_if_auto_run {
            Some(true) => Ask::Dispatch,
            Some(false) | None => Ask::Nothing,
        };
        let EditEndParams { entry_id, lease_id, .. } = *params;
        self.edit(|decide| decide.end_edit(&target, entry_id, lease_id, holder, ask))?;
        self.facts.push(Fact::Ended(entry_id));
        let reply = EditEndReply { session_id: target.session_id, entry_id };
        replied::<EditEndParams>(request, &reply)
    }

    fn queue_update(
        &mut self,
        link: LinkNo,
        request: &Request,
        params: QueueUpdateParams,
    ) -> Answered {
        let target = wire::target(&params.identity);
        let (entry_id, operation_id) = (params.entry_id, params.operation_id.clone());
        let holder = Self::link_id(self.starts, link);
        let lease_id = params.lease_id;
        let edit = wire::edit(params, holder).map_err(Stop::Refused)?;
        let revision = self.edit(|decide| decide.save_edit(&target, entry_id, edit))?;
        let operation = operation_id.clone();
        self.facts.push(Fact::Saved { entry_id, lease_id, link: holder, operation, revision });
        let target_revision = revision;
        let reply = QueueUpdateReply { entry_id, operation_id, target_revision };
        replied::<QueueUpdateParams>(request, &reply)
    }

    pub(super) fn wire_session(
        &self,
        id: SessionId,
    ) -> Option<usher_shared::protocol::session::Session> {
        self.store.row(id).map(|row| wire::session(&row.session, None))
    }
}

pub(super) fn not_found() -> Stop {
    Stop::Refused(wire::find_error(FindError::NotFound))
}

fn read<R: WireRequest>(request: &Request) -> Result<R, Stop> {
    wire::parse(&request.payload).map_err(Stop::Refused)
}

/// Writes the answer to a request of type `R`.
pub(super) fn replied<R: WireRequest>(request: &Request, reply: &R::Reply) -> Answered {
    let payload = to_raw_value(reply).expect("a reply is plain JSON");
    let (id, action) = (Some(request.id.as_str()), Some(request.action.as_str()));
    let frame = write_frame(FrameKind::Response, id, action, payload);
    Ok(Answer { frame: frame.expect("a reply is plain JSON"), watch: None })
}
