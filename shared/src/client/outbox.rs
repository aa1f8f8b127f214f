//! What the engine wants done, and the requests that are not answered yet.
//!
//! Request numbers are never used twice in the life of an engine, so that an answer can only ever
//! meet the request it belongs to.

use std::collections::{BTreeMap, VecDeque};

use serde_json::value::RawValue;

use super::api::{Event, Output};
use super::bounds::RESERVED_FOR_ENGINE;
use super::call::{CallId, written};
use super::edit::{Dispatch, EditTarget};
use super::journal::Journaling;
use super::upload::UploadId;
use crate::error::WireError;
use crate::id::{AdmissionId, LeaseId};
use crate::limits::{FRAME_BYTES_MAX, IN_FLIGHT_MAX};
use crate::protocol::Request;
use crate::protocol::frame::{FrameKind, write_frame};
use crate::protocol::hello::HelloReply;
use crate::time::MonoMillis;

/// Why a request was sent, and so who gets its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The first request of a link.
    Hello,
    /// Measures the round trip and keeps the link warm.
    Ping,
    /// Asks for the session that was opened as number `opening`.
    Subscribe { opening: u64 },
    /// Pages older messages into the session that was opened as number `opening`.
    Older { opening: u64 },
    /// Attempt number `attempt` of a send.
    Add { id: AdmissionId, attempt: u32 },
    /// The queue read of pass number `pass` of a send.
    ProofQueue { id: AdmissionId, pass: u32 },
    /// The transcript read of pass number `pass` of a send.
    ProofPage { id: AdmissionId, pass: u32 },
    /// Asks for the lease of edit number `number`.
    EditBegin { number: u64, target: EditTarget },
    /// Renews the lease of edit number `number`.
    EditRenew { number: u64 },
    /// Saves edit number `number`.
    EditSave { number: u64 },
    /// Reads the entry of edit number `number`, to see whether its save was done.
    EditLook { number: u64 },
    /// Ends a lease.
    EditEnd { target: EditTarget, lease_id: LeaseId, dispatch: Dispatch, attempt: u32 },
    /// The next request of an upload.
    Upload(UploadId),
    /// A request whose answer makes no difference.
    Unheeded,
    /// A request of the program.
    Call(CallId),
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Answer {
    /// A response came.
    Reply(Box<RawValue>),
    /// A typed error came.
    Refused(WireError),
    /// No (readable) answer came.
    Lost,
}

/// Whether the other side showed any sign of life since a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Something came.
    Something,
    /// Nothing came: the link is as good as gone.
    Nothing,
}

#[derive(Debug)]
struct Pending {
    purpose: Purpose,
    sent_at: MonoMillis,
    /// None: the time is over, but a late answer is still worth having.
    deadline: Option<MonoMillis>,
    heard_before: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Outbox {
    outputs: VecDeque<Output>,
    pending: BTreeMap<u64, Pending>,
    last_request: u64,
    heard_count: u64,
    in_flight_max: usize,
    frame_bytes_max: usize,
    journaling: Journaling,
}

impl Outbox {
    pub(super) fn new(journaling: Journaling) -> Self {
        Self {
            journaling,
            outputs: VecDeque::new(),
            pending: BTreeMap::new(),
            last_request: 0,
            heard_count: 0,
            in_flight_max: IN_FLIGHT_MAX,
            frame_bytes_max: FRAME_BYTES_MAX,
        }
    }

    /// Takes over the bounds of the server that answered `hello`.
    pub(super) fn adopt_limits(&mut self, hello: &HelloReply) {
        let bound = |value: u64, max: usize| usize::try_from(value).unwrap_or(max).min(max);
        self.in_flight_max = bound(hello.limits.in_flight_max, IN_FLIGHT_MAX);
        self.frame_bytes_max = bound(hello.limits.frame_bytes_max, FRAME_BYTES_MAX);
    }

    pub(super) fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(super) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn event(&mut self, event: Event) {
        self.push(Output::Event(event));
    }

    /// Whether there is a journal, and whose rows it gives.
    pub(super) const fn journaling(&self) -> Journaling {
        self.journaling
    }

    /// Tells whether what is sent is written down first.
    pub(super) fn journals(&self) -> bool {
        self.journaling != Journaling::Off
    }

    /// Counts a sign of life.
    pub(super) fn heard(&mut self) {
        self.heard_count += 1;
    }

    /// The largest frame the server takes, bytes.
    pub(super) const fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    /// Tells whether `count` more requests of sends or of the program fit beside the engine's own.
    pub(super) fn has_room_for(&self, count: usize) -> bool {
        let reserved = RESERVED_FOR_ENGINE.min(self.in_flight_max / 2);
        self.pending.len() + count <= self.in_flight_max - reserved
    }

    /// Tells whether one more request of the engine itself fits.
    pub(super) fn has_room(&self) -> bool {
        self.pending.len() < self.in_flight_max
    }

    /// Tells whether a request with this purpose is under way.
    pub(super) fn awaits(&self, purpose: &Purpose) -> bool {
        self.pending.values().any(|p| p.purpose == *purpose)
    }

    /// Sends a typed request.
    pub(super) fn request<R: Request>(
        &mut self,
        purpose: Purpose,
        request: &R,
        deadline: MonoMillis,
        now: MonoMillis,
    ) {
        self.request_raw(purpose, R::ACTION, &written(request), deadline, now);
    }

    /// Sends a request whose payload was written before.
    pub(super) fn request_raw(
        &mut self,
        purpose: Purpose,
        action: &str,
        payload: &RawValue,
        deadline: MonoMillis,
        now: MonoMillis,
    ) {
        self.last_request += 1;
        let id = self.last_request.to_string();
        let frame = write_frame(FrameKind::Request, Some(&id), Some(action), payload)
            .expect("JSON that was written once can be written again");
        self.pending.insert(
            self.last_request,
            Pending {
                purpose,
                sent_at: now,
                deadline: Some(deadline),
                heard_before: self.heard_count,
            },
        );
        self.push(Output::Send(frame));
    }

    /// Takes the request that an answer with this id belongs to, and when it was sent.
    pub(super) fn take(&mut self, id: &str) -> Option<(Purpose, MonoMillis)> {
        let pending = self.pending.remove(&id.parse().ok()?)?;
        Some((pending.purpose, pending.sent_at))
    }

    /// Takes a request whose time is over. A send stays answerable: a late reply is proof, too. So
    /// does the request for a lease.
    pub(super) fn take_expired(&mut self, now: MonoMillis) -> Option<(Purpose, Heard)> {
        let (&number, pending) = self
            .pending
            .iter_mut()
            .find(|(_, pending)| pending.deadline.is_some_and(|deadline| deadline <= now))?;
        let heard = if self.heard_count == pending.heard_before {
            Heard::Nothing
        } else {
            Heard::Something
        };
        let purpose = pending.purpose.clone();
        match purpose {
            // What a late answer gives has to be known, or given back.
            Purpose::Add { .. } | Purpose::EditBegin { .. } => pending.deadline = None,
            Purpose::Hello
            | Purpose::Ping
            | Purpose::Subscribe { .. }
            | Purpose::Older { .. }
            | Purpose::ProofQueue { .. }
            | Purpose::ProofPage { .. }
            | Purpose::EditRenew { .. }
            | Purpose::EditSave { .. }
            | Purpose::EditLook { .. }
            | Purpose::EditEnd { .. }
            | Purpose::Upload(_)
            | Purpose::Unheeded
            | Purpose::Call(_) => {
                self.pending.remove(&number);
            }
        }
        Some((purpose, heard))
    }

    /// Takes every request that waits in time: its link is gone. Late ones are forgotten.
    pub(super) fn take_all(&mut self) -> Vec<Purpose> {
        std::mem::take(&mut self.pending)
            .into_values()
            .filter(|pending| pending.deadline.is_some())
            .map(|pending| pending.purpose)
            .collect()
    }

    /// Forgets late sends with this ID.
    pub(super) fn forget(&mut self, dropped: &AdmissionId) {
        self.pending.retain(
            |_, pending| !matches!(&pending.purpose, Purpose::Add { id, .. } if id == dropped),
        );
    }

    pub(super) fn next_deadline(&self) -> Option<MonoMillis> {
        self.pending.values().filter_map(|p| p.deadline).min()
    }
}
