//! One send: from its first frame to proof.
//!
//! A lost reply starts the recovery: look for proof, send once more if the server answers replays
//! from receipts, look again, and if there is still no proof say so.
//!
//! ```text
//! Waiting -> Saving -> Awaiting(first) -> LinkWait -> FirstPass -> RetryWait -> Awaiting(retry)
//!         -> FinalWait -> FinalPass -> Uncertain
//! ```
//! Every state leaves to acceptance on proof (also on a late reply), and to Rejected on a typed
//! error once no other attempt is unanswered.

mod saved;

use std::sync::Arc;

use serde_json::value::RawValue;

use self::saved::Saved;
use super::api::Event;
use super::bounds::{FINAL_PASS_MS, LINK_WAIT_MS, PROOF_PAGE_MESSAGES, PROOF_READ_TIMEOUT_MS};
use super::delivery::{Acceptance, Delivery, DeliveryState, IdOrigin};
use super::journal::Receipts;
use super::mirror::Mirror;
use super::outbox::{Outbox, Purpose};
use super::proof;
use crate::error::{ErrorCode, WireError};
use crate::id::{AdmissionId, IncarnationId, SessionId, StoreId, UserId};
use crate::limits::{REPLY_TIMEOUT_ATTACHMENTS_MS, REPLY_TIMEOUT_MS};
use crate::protocol::Request;
use crate::protocol::hello::{HelloReply, capability};
use crate::protocol::queue::{QueueAddParams, QueueGetParams};
use crate::protocol::session::Identity;
use crate::protocol::transcript::TranscriptPageParams;
use crate::time::MonoMillis;

/// What a send must know of a server to judge whether sending again is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerFacts {
    pub(super) store_id: StoreId,
    pub(super) user_id: UserId,
    receipts: Receipts,
}

impl ServerFacts {
    pub(super) fn of(hello: &HelloReply) -> Self {
        let mut capabilities = hello.capabilities.iter();
        Self {
            store_id: hello.server.store_id,
            user_id: hello.user.id,
            receipts: if capabilities.any(|name| name == capability::ADMISSION_RECEIPTS) {
                Receipts::Announced
            } else {
                Receipts::Missing
            },
        }
    }

    /// Tells whether what was sent to `self` may be sent to `other` again.
    fn may_resend_to(self, other: Self) -> bool {
        self == other && self.receipts == Receipts::Announced
    }
}

/// Which attempt of a round: a round is one submission, or one "check and resend".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    First,
    Retry,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    /// Not under way: behind another send of its session, or for want of a link.
    Waiting,
    /// It leaves when its row is on disk, or when that takes too long.
    Saving { until: MonoMillis },
    /// An attempt is under way; the outbox keeps its time.
    Awaiting(Round),
    /// The first reply got lost: for want of a link, until then.
    LinkWait { until: MonoMillis },
    /// The reads of the first pass are under way.
    FirstPass { open_reads: Reads },
    /// Sent again as soon as there is a link, until then.
    RetryWait { until: MonoMillis },
    /// The retry failed: one more look as soon as there is a link, until then.
    FinalWait { until: MonoMillis, error: Option<WireError> },
    /// The reads of the last pass are under way.
    FinalPass { until: MonoMillis, error: Option<WireError>, open_reads: Reads },
    /// There is proof that the server does not have it. The user decides.
    Rejected,
    /// A dead client never sent it, long ago. The user decides.
    Returned,
    /// There is no proof and nothing more to try. The user decides.
    Uncertain,
}

/// Which reads of a pass are not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    Both,
    Queue,
    Page,
}

/// One read of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Queue,
    Page,
}

impl Reads {
    /// What is left after `read` is over; None: nothing.
    const fn without(self, read: Read) -> Option<Self> {
        match (self, read) {
            (Self::Both, Read::Queue) => Some(Self::Page),
            (Self::Both, Read::Page) => Some(Self::Queue),
            (Self::Queue, Read::Page) => Some(Self::Queue),
            (Self::Page, Read::Queue) => Some(Self::Page),
            (Self::Queue, Read::Queue) | (Self::Page, Read::Page) => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Track {
    pub(super) delivery: Delivery,
    origin: IdOrigin,
    identity: Identity,
    /// Written once; every attempt sends these bytes.
    payload: Box<RawValue>,
    pub(super) phase: Phase,
    /// Frames that left.
    attempts: u32,
    /// Attempts that no answer came to.
    unanswered: u32,
    /// The server that the first attempt went to.
    first_server: Option<ServerFacts>,
    /// Reconciliation passes begun.
    passes: u32,
    saved: Saved,
    shown: Shown,
}

/// Whether the program was told of a delivery's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    NotYet,
    Yes,
}

impl Track {
    pub(super) fn new(
        admission_id: AdmissionId,
        origin: IdOrigin,
        params: QueueAddParams,
        payload: Box<RawValue>,
        now: MonoMillis,
    ) -> Self {
        Self {
            identity: Identity {
                task_id: params.task_id,
                session_id: params.session_id,
                session_incarnation_id: params.session_incarnation_id.unwrap_or_default(),
            },
            delivery: Delivery {
                admission_id,
                params: Arc::new(params),
                state: DeliveryState::Queued,
                since: now,
            },
            origin,
            payload,
            phase: Phase::Waiting,
            attempts: 0,
            unanswered: 0,
            first_server: None,
            passes: 0,
            saved: Saved::Unasked,
            shown: Shown::NotYet,
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        match self.phase {
            Phase::Waiting | Phase::Rejected | Phase::Returned | Phase::Uncertain => false,
            Phase::Saving { .. }
            | Phase::Awaiting(_)
            | Phase::LinkWait { .. }
            | Phase::FirstPass { .. }
            | Phase::RetryWait { .. }
            | Phase::FinalWait { .. }
            | Phase::FinalPass { .. } => true,
        }
    }

    /// Tells whether the user can drop it, or take it back.
    pub(super) fn can_be_dismissed(&self) -> bool {
        !self.is_under_way() || matches!(self.phase, Phase::Saving { .. })
    }

    pub(super) const fn session_id(&self) -> SessionId {
        self.identity.session_id
    }

    pub(super) const fn incarnation_id(&self) -> IncarnationId {
        self.identity.session_incarnation_id
    }

    /// When [`Track::advance`] has something to do without anything else happening.
    pub(super) const fn due_at(&self) -> Option<MonoMillis> {
        match self.phase {
            Phase::Saving { until }
            | Phase::LinkWait { until }
            | Phase::RetryWait { until }
            | Phase::FinalWait { until, .. } => Some(until),
            Phase::Waiting
            | Phase::Awaiting(_)
            | Phase::FirstPass { .. }
            | Phase::FinalPass { .. }
            | Phase::Rejected
            | Phase::Returned
            | Phase::Uncertain => None,
        }
    }

    /// Tells whether it has only seconds to find a link again.
    pub(super) const fn wants_a_link(&self) -> bool {
        match self.phase {
            Phase::LinkWait { .. } | Phase::RetryWait { .. } | Phase::FinalWait { .. } => true,
            Phase::Waiting
            | Phase::Saving { .. }
            | Phase::Awaiting(_)
            | Phase::FirstPass { .. }
            | Phase::FinalPass { .. }
            | Phase::Rejected
            | Phase::Returned
            | Phase::Uncertain => false,
        }
    }

    /// The user wants an uncertain send checked.
    pub(super) fn check(&mut self, now: MonoMillis, out: &mut Outbox) {
        if self.delivery.state == (DeliveryState::Uncertain { can_check: true }) {
            self.phase = Phase::Waiting;
            let attempt = self.attempts;
            self.show(DeliveryState::Reconciling { attempt }, now, out);
        }
    }

    /// The link is gone: a last pass that has time left looks for another one.
    pub(super) fn link_lost(&mut self) {
        if let Phase::FinalPass { until, error, .. } = &mut self.phase {
            let (until, error) = (*until, error.take());
            self.phase = Phase::FinalWait { until, error };
        }
    }

    pub(super) fn show(&mut self, state: DeliveryState, now: MonoMillis, out: &mut Outbox) {
        if self.delivery.state != state || self.shown == Shown::NotYet {
            self.shown = Shown::Yes;
            self.delivery.state = state;
            self.delivery.since = now;
            out.event(Event::DeliveryChanged(self.delivery.clone()));
        }
    }

    /// Its turn has come.
    pub(super) fn open(&mut self, server: Option<ServerFacts>, now: MonoMillis, out: &mut Outbox) {
        if self.attempts > 0 {
            let until = now.plus(LINK_WAIT_MS);
            self.phase = Phase::RetryWait { until };
            return self.advance(server, now, out);
        }
        match server {
            Some(server) if out.has_room_for(1) => {
                if self.save_as_sent(server, now, out) {
                    self.first_server = Some(server);
                    self.transmit(Round::First, now, out);
                }
            }
            Some(_) | None => self.show(DeliveryState::WaitingForLink, now, out),
        }
    }

    /// Moves a send that is under way as far as it goes by itself.
    pub(super) fn advance(
        &mut self,
        server: Option<ServerFacts>,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        match (&self.phase, server) {
            (Phase::LinkWait { .. }, Some(_)) if self.origin == IdOrigin::Given => {
                let until = now.plus(LINK_WAIT_MS);
                self.phase = Phase::RetryWait { until };
                self.advance(server, now, out);
            }
            (Phase::LinkWait { .. }, Some(_)) if out.has_room_for(2) => {
                let deadline = now.plus(PROOF_READ_TIMEOUT_MS);
                self.read_proof(deadline, now, out);
                let open_reads = Reads::Both;
                self.phase = Phase::FirstPass { open_reads };
            }
            (Phase::RetryWait { .. }, Some(server)) if !self.may_resend_to(server) => {
                self.settle(None, now, out);
            }
            (Phase::RetryWait { .. }, Some(_)) if out.has_room_for(1) => {
                self.transmit(Round::Retry, now, out);
            }
            (Phase::LinkWait { until } | Phase::RetryWait { until }, _) if now >= *until => {
                self.retry_failed(None, now, out);
            }
            (Phase::Saving { until }, _) if now >= *until => {
                self.go_unprotected(out);
                self.phase = Phase::Waiting;
            }
            (Phase::FinalWait { until, error }, _) if now >= *until => {
                let error = error.clone();
                self.settle(error, now, out);
            }
            (Phase::FinalWait { until, error }, Some(_)) if out.has_room_for(2) => {
                let (until, error) = (*until, error.clone());
                self.read_proof(until, now, out);
                let open_reads = Reads::Both;
                self.phase = Phase::FinalPass { until, error, open_reads };
            }
            _ => {}
        }
    }

    /// Sends the frame: the one place where a prompt leaves the client.
    fn transmit(&mut self, round: Round, now: MonoMillis, out: &mut Outbox) {
        let attachments = self.delivery.params.attachments.as_deref();
        let timeout_ms = match attachments.unwrap_or_default() {
            [] => REPLY_TIMEOUT_MS,
            [..] => REPLY_TIMEOUT_ATTACHMENTS_MS,
        };
        self.attempts += 1;
        self.unanswered += 1;
        self.phase = Phase::Awaiting(round);
        let attempt = self.attempts;
        let purpose = Purpose::Add { id: self.delivery.admission_id.clone(), attempt };
        let reply_by = now.plus(timeout_ms);
        out.request_raw(purpose, QueueAddParams::ACTION, &self.payload, reply_by, now);
        self.show(DeliveryState::AwaitingReply { attempt, reply_by }, now, out);
    }

    /// Sends the two reads of one pass.
    fn read_proof(&mut self, deadline: MonoMillis, now: MonoMillis, out: &mut Outbox) {
        self.passes += 1;
        let (id, pass) = (&self.delivery.admission_id, self.passes);
        let queue = QueueGetParams { identity: self.identity };
        let page = TranscriptPageParams {
            session_id: self.identity.session_id,
            before_seq: None,
            after_seq: None,
            limit: Some(PROOF_PAGE_MESSAGES),
        };
        let id = || id.clone();
        out.request(Purpose::ProofQueue { id: id(), pass }, &queue, deadline, now);
        out.request(Purpose::ProofPage { id: id(), pass }, &page, deadline, now);
    }

    pub(super) fn attempt_lost(&mut self, attempt: u32, now: MonoMillis, out: &mut Outbox) {
        let Phase::Awaiting(round) = self.phase else {
            return;
        };
        if attempt != self.attempts {
            return;
        }
        match round {
            Round::First => {
                let until = now.plus(LINK_WAIT_MS);
                self.phase = Phase::LinkWait { until };
                self.show(DeliveryState::Reconciling { attempt }, now, out);
            }
            Round::Retry => self.retry_failed(None, now, out),
        }
    }

    pub(super) fn attempt_refused(
        &mut self,
        attempt: u32,
        error: WireError,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        self.unanswered = self.unanswered.saturating_sub(1);
        let is_latest = attempt == self.attempts && matches!(self.phase, Phase::Awaiting(_));
        if self.unanswered == 0 || error.code == ErrorCode::QueueIdConflict {
            // Every attempt stored nothing; or the receipt of this ID is another prompt's.
            self.reject(error, now, out);
        } else if is_latest {
            self.retry_failed(Some(error), now, out);
        }
    }

    fn retry_failed(&mut self, error: Option<WireError>, now: MonoMillis, out: &mut Outbox) {
        match self.origin {
            IdOrigin::Given => self.settle(error, now, out),
            IdOrigin::Minted => {
                let until = now.plus(FINAL_PASS_MS);
                self.phase = Phase::FinalWait { until, error };
                let attempt = self.attempts;
                self.show(DeliveryState::Reconciling { attempt }, now, out);
            }
        }
    }

    /// One read of a pass brought no proof.
    pub(super) fn read_over(&mut self, pass: u32, read: Read, now: MonoMillis, out: &mut Outbox) {
        if pass != self.passes {
            return;
        }
        match &mut self.phase {
            Phase::FirstPass { open_reads } => match open_reads.without(read) {
                Some(left) => *open_reads = left,
                None => {
                    let until = now.plus(LINK_WAIT_MS);
                    self.phase = Phase::RetryWait { until };
                }
            },
            Phase::FinalPass { error, open_reads, .. } => match open_reads.without(read) {
                Some(left) => *open_reads = left,
                None => {
                    let error = error.take();
                    self.settle(error, now, out);
                }
            },
            Phase::Waiting
            | Phase::Saving { .. }
            | Phase::Awaiting(_)
            | Phase::LinkWait { .. }
            | Phase::RetryWait { .. }
            | Phase::FinalWait { .. }
            | Phase::Rejected
            | Phase::Returned
            | Phase::Uncertain => {}
        }
    }

    /// There is no proof and nothing more to try.
    fn settle(&mut self, error: Option<WireError>, now: MonoMillis, out: &mut Outbox) {
        match error {
            Some(error) if proof::of_absence(error.code) => self.reject(error, now, out),
            // Whether it can be checked is seen, and shown, at the end of the pump.
            Some(_) | None => self.phase = Phase::Uncertain,
        }
    }

    pub(super) fn reject(&mut self, error: WireError, now: MonoMillis, out: &mut Outbox) {
        self.phase = Phase::Rejected;
        self.mark_as_refused(error.code, out);
        self.show(DeliveryState::Rejected(error), now, out);
    }

    fn may_resend_to(&self, server: ServerFacts) -> bool {
        self.first_server.is_some_and(|first| first.may_resend_to(server))
    }

    pub(super) fn can_check(&self, server: Option<ServerFacts>, mirror: Option<&Mirror>) -> bool {
        let stale = mirror.is_some_and(|mirror| {
            let session = mirror.session();
            session.id == self.identity.session_id
                && session.incarnation_id != self.identity.session_incarnation_id
        });
        !stale && server.is_some_and(|server| self.may_resend_to(server))
    }

    /// Looks for proof in the mirror, if this send is in want of it.
    pub(super) fn proof_in(&self, mirror: &Mirror) -> Option<Acceptance> {
        let in_want = match self.phase {
            Phase::Waiting => self.attempts > 0,
            Phase::Saving { .. }
            | Phase::Awaiting(Round::First)
            | Phase::Rejected
            | Phase::Returned => false,
            Phase::Uncertain
            | Phase::Awaiting(Round::Retry)
            | Phase::LinkWait { .. }
            | Phase::FirstPass { .. }
            | Phase::RetryWait { .. }
            | Phase::FinalWait { .. }
            | Phase::FinalPass { .. } => true,
        };
        let ours = mirror.session().id == self.identity.session_id;
        if !in_want || !ours || self.origin == IdOrigin::Given {
            return None;
        }
        let id = &self.delivery.admission_id;
        let incarnation_id = self.identity.session_incarnation_id;
        proof::in_queue(mirror.queue(), id, incarnation_id)
            .or_else(|| proof::in_messages(mirror.messages(), id, incarnation_id))
    }
}
