//! Sends: one open send per session, later ones wait in order.
//!
//! Takes submissions, refuses what could never be sent, decides whose turn it is, and hands every
//! answer to the send it belongs to. What one send does is in [`super::track`].

use std::collections::HashSet;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::api::{Event, Output};
use super::bounds::{DELIVERIES_MAX, JOURNAL_WAIT_MS};
use super::call::written;
use super::delivery::{Acceptance, Delivery, DeliveryState, Submission};
use super::journal::{JournalOrder, Journaled, Journaling, LeftRow};
use super::mirror::Mirror;
use super::outbox::{Answer, Outbox};
use super::proof;
use super::track::{Phase, Read, ServerFacts, Track};
use crate::error::{ErrorCode, WireError};
use crate::id::{AdmissionId, SessionId, StoreId, UserId};
use crate::limits::{CONTENT_BYTES_MAX, REQUEST_ID_BYTES_MAX};
use crate::prompt::PromptText;
use crate::protocol::hello::HelloReply;
use crate::protocol::queue::{QueueAddParams, QueueAddReply, QueueStatus};
use crate::protocol::session::Session;
use crate::protocol::transcript::TranscriptPageReply;
use crate::time::MonoMillis;

/// What the sends can see of the rest of the engine.
pub(super) struct Surroundings<'a> {
    /// The server, while the link is up.
    pub(super) online: Option<&'a HelloReply>,
    /// The server, also while the link is down.
    pub(super) hello: Option<&'a HelloReply>,
    /// The open session.
    pub(super) mirror: Option<&'a Mirror>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Sends {
    /// Oldest first, at most [`DELIVERIES_MAX`].
    tracks: Vec<Track>,
    adoption: Adoption,
}

/// How far this client is with what dead clients left for the database and user that it talks to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Adoption {
    #[default]
    NotAsked,
    /// New prompts wait until then: those that were left are older.
    Asked {
        of: (StoreId, UserId),
        until: MonoMillis,
    },
    Done {
        of: (StoreId, UserId),
    },
}

impl Adoption {
    const fn of(self) -> Option<(StoreId, UserId)> {
        match self {
            Self::NotAsked => None,
            Self::Asked { of, .. } | Self::Done { of } => Some(of),
        }
    }
}

impl Sends {
    pub(super) fn deliveries(&self) -> impl ExactSizeIterator<Item = &Delivery> {
        self.tracks.iter().map(|track| &track.delivery)
    }

    /// Returns how many of them would be gone if this client ended now.
    pub(super) fn unprotected_count(&self) -> usize {
        self.tracks.iter().filter(|track| track.is_unprotected()).count()
    }

    pub(super) fn submit(
        &mut self,
        submission: Submission,
        surroundings: &Surroundings<'_>,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        if let Some(index) = self.find(&submission.admission_id) {
            // The same Enter twice, or an ID that is taken: what is under way stays as it is.
            return out.event(Event::DeliveryChanged(self.tracks[index].delivery.clone()));
        }
        let session = surroundings.mirror.map(Mirror::session);
        let Submission { admission_id, id_origin, mut params } = submission;
        complete(&mut params, &admission_id, session);
        let payload = written(&params);
        let refusal = self.refusal(&params, &payload, surroundings.hello, out);
        let mut track = Track::new(admission_id, id_origin, params, payload, now);
        if let Some(error) = refusal {
            track.reject(error, now, out);
        }
        if self.tracks.len() < DELIVERIES_MAX {
            self.tracks.push(track);
        }
    }

    /// Returns why a submission cannot be sent, if it cannot: the same codes as the server's.
    fn refusal(
        &self,
        params: &QueueAddParams,
        payload: &RawValue,
        hello: Option<&HelloReply>,
        out: &Outbox,
    ) -> Option<WireError> {
        let bound = |field: &str, limit: usize| {
            Some(WireError::validation(field, "over the bound").with("limit", limit))
        };
        let announced = hello.map(|hello| hello.limits.content_bytes_max);
        let content_bytes_max = announced
            .and_then(|bytes| usize::try_from(bytes).ok())
            .map_or(CONTENT_BYTES_MAX, |bytes| bytes.min(CONTENT_BYTES_MAX));
        if params.content.len() > content_bytes_max {
            return bound("content", content_bytes_max);
        }
        if let Err(error) = PromptText::parse(params.content.as_str()) {
            return Some(WireError::validation("content", error.to_string()));
        }
        if params.session_incarnation_id.is_none() {
            return Some(WireError::validation("session_incarnation_id", "missing"));
        }
        // The envelope around the payload: its fields, the action and the request id.
        let envelope_bytes = 128 + REQUEST_ID_BYTES_MAX;
        if payload.get().len() + envelope_bytes > out.frame_bytes_max() {
            return match params.attachments.as_deref().unwrap_or_default() {
                [] => bound("content", out.frame_bytes_max()),
                [..] => bound("attachments", out.frame_bytes_max()),
            };
        }
        if self.tracks.len() >= DELIVERIES_MAX {
            let error = WireError::new(ErrorCode::RateLimited, "too many unresolved sends");
            return Some(error.with("retry_after_ms", 1_000));
        }
        None
    }

    /// The user wants an uncertain send checked.
    pub(super) fn check_and_resend(&mut self, id: &AdmissionId, now: MonoMillis, out: &mut Outbox) {
        let Some(index) = self.find(id) else { return };
        self.tracks[index].check(now, out);
    }

    /// The user gives a send up, or takes it back before it left.
    pub(super) fn dismiss(&mut self, id: &AdmissionId, out: &mut Outbox) {
        let Some(index) = self.find(id) else { return };
        if self.tracks[index].can_be_dismissed() {
            self.tracks.remove(index).drop_row(out);
            out.forget(id);
        }
    }

    /// A row is on disk, or cannot be written.
    pub(super) fn journaled(&mut self, id: &AdmissionId, outcome: Journaled, out: &mut Outbox) {
        if let Some(index) = self.find(id) {
            self.tracks[index].journaled(outcome, out);
        }
    }

    /// Takes over what dead clients left. It is older than what waits here.
    pub(super) fn adopt(&mut self, rows: Vec<LeftRow>, now: MonoMillis, out: &mut Outbox) {
        if let Some(of) = self.adoption.of() {
            self.adoption = Adoption::Done { of };
        }
        let mut adopted = Vec::new();
        for left in rows {
            let id = left.row.admission_id.clone();
            if self.find(&id).is_some() {
                continue;
            }
            match Track::adopted(left, now, out) {
                Some(track) => adopted.push(track),
                None => out.push(Output::Journal(JournalOrder::Drop(id))),
            }
        }
        self.tracks.splice(0..0, adopted);
    }

    /// Asks for what dead clients left, once per database and user.
    fn ask_to_adopt(&mut self, server: ServerFacts, now: MonoMillis, out: &mut Outbox) {
        let of = (server.store_id, server.user_id);
        if out.journaling() != Journaling::Adopting || self.adoption.of() == Some(of) {
            return;
        }
        let rows_max = DELIVERIES_MAX - self.tracks.len();
        let (store_id, user_id) = of;
        out.push(Output::Journal(JournalOrder::Adopt { store_id, user_id, rows_max }));
        self.adoption = Adoption::Asked { of, until: now.plus(JOURNAL_WAIT_MS) };
    }

    /// Moves every send as far as it goes by itself.
    pub(super) fn pump(
        &mut self,
        surroundings: &Surroundings<'_>,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        self.look_for_proof(surroundings.mirror, now, out);
        let server = surroundings.online.map(ServerFacts::of);
        for track in &mut self.tracks {
            track.advance(server, now, out);
        }
        if let Some(server) = server {
            self.ask_to_adopt(server, now, out);
        }
        if let Adoption::Asked { of, until } = self.adoption
            && now >= until
        {
            self.adoption = Adoption::Done { of };
        }
        self.open_next(server, now, out);
        let known = surroundings.hello.map(ServerFacts::of);
        for track in &mut self.tracks {
            if let Some(known) = known {
                track.save_as_unsent(known, out);
            }
            if track.phase == Phase::Uncertain {
                let can_check = track.can_check(known, surroundings.mirror);
                track.show(DeliveryState::Uncertain { can_check }, now, out);
            }
        }
    }

    /// The link is gone.
    pub(super) fn link_lost(&mut self) {
        for track in &mut self.tracks {
            track.link_lost();
        }
    }

    /// Opens the oldest waiting send of every session that has none under way.
    fn open_next(&mut self, server: Option<ServerFacts>, now: MonoMillis, out: &mut Outbox) {
        let under_way = self.tracks.iter().filter(|track| track.is_under_way());
        let mut taken: HashSet<SessionId> = under_way.map(Track::session_id).collect();
        let held_back = matches!(self.adoption, Adoption::Asked { .. });
        for track in &mut self.tracks {
            if track.phase != Phase::Waiting {
                continue;
            }
            if !held_back && taken.insert(track.session_id()) {
                track.open(server, now, out);
            } else {
                track.show(DeliveryState::Queued, now, out);
            }
        }
    }

    /// Accepts what the mirror proves of the sends that are in want of proof.
    fn look_for_proof(&mut self, mirror: Option<&Mirror>, now: MonoMillis, out: &mut Outbox) {
        let Some(mirror) = mirror else { return };
        let mut index = 0;
        while let Some(track) = self.tracks.get(index) {
            match track.proof_in(mirror) {
                Some(proof) => self.accept(index, proof, now, out),
                None => index += 1,
            }
        }
    }

    /// Tells whether a send has only seconds to find a link again.
    pub(super) fn want_a_link(&self) -> bool {
        self.tracks.iter().any(Track::wants_a_link)
    }

    /// When [`Sends::pump`] has something to do without anything else happening.
    pub(super) fn next_deadline(&self) -> impl Iterator<Item = MonoMillis> {
        let adoption = match self.adoption {
            Adoption::Asked { until, .. } => Some(until),
            Adoption::NotAsked | Adoption::Done { .. } => None,
        };
        self.tracks.iter().filter_map(Track::due_at).chain(adoption)
    }

    /// An attempt was answered, in time or late, or its answer is lost.
    pub(super) fn answered(
        &mut self,
        id: &AdmissionId,
        attempt: u32,
        answer: Answer,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        let Some(index) = self.find(id) else { return };
        let track = &mut self.tracks[index];
        match answer {
            Answer::Reply(payload) => match serde_json::from_str::<QueueAddReply>(payload.get()) {
                Ok(reply) => {
                    let proof = Acceptance::Replied(reply.admission);
                    self.accept(index, proof, now, out);
                }
                Err(_) => track.attempt_lost(attempt, now, out),
            },
            Answer::Refused(error) => track.attempt_refused(attempt, error, now, out),
            Answer::Lost => track.attempt_lost(attempt, now, out),
        }
    }

    /// The queue read of a pass is over. Returns the status if there is one.
    pub(super) fn queue_read(
        &mut self,
        id: &AdmissionId,
        pass: u32,
        answer: &Answer,
        now: MonoMillis,
        out: &mut Outbox,
    ) -> Option<QueueStatus> {
        let status: Option<QueueStatus> = read(answer);
        if let Some(index) = self.find(id) {
            let found = status.as_ref().and_then(|status| {
                proof::in_queue(status, id, self.tracks[index].incarnation_id())
            });
            match found {
                Some(proof) => self.accept(index, proof, now, out),
                None => self.tracks[index].read_over(pass, Read::Queue, now, out),
            }
        }
        status
    }

    /// The transcript read of a pass is over.
    pub(super) fn page_read(
        &mut self,
        id: &AdmissionId,
        pass: u32,
        answer: &Answer,
        now: MonoMillis,
        out: &mut Outbox,
    ) {
        let Some(index) = self.find(id) else { return };
        let page: Option<TranscriptPageReply> = read(answer);
        let found = page.and_then(|page| {
            proof::in_messages(&page.messages, id, self.tracks[index].incarnation_id())
        });
        match found {
            Some(proof) => self.accept(index, proof, now, out),
            None => self.tracks[index].read_over(pass, Read::Page, now, out),
        }
    }

    fn accept(&mut self, index: usize, proof: Acceptance, now: MonoMillis, out: &mut Outbox) {
        let mut track = self.tracks.remove(index);
        track.drop_row(out);
        out.forget(&track.delivery.admission_id);
        track.show(DeliveryState::Accepted(proof), now, out);
    }

    fn find(&self, id: &AdmissionId) -> Option<usize> {
        let mut tracks = self.tracks.iter();
        tracks.position(|track| track.delivery.admission_id == *id)
    }
}

/// Puts in what the engine knows better than the caller.
fn complete(params: &mut QueueAddParams, id: &AdmissionId, session: Option<&Session>) {
    params.client_queue_id = Some(id.clone());
    if params.session_incarnation_id.is_none() {
        params.session_incarnation_id = session
            .filter(|session| session.id == params.session_id)
            .map(|session| session.incarnation_id);
    }
}

fn read<T: DeserializeOwned>(answer: &Answer) -> Option<T> {
    match answer {
        Answer::Reply(payload) => serde_json::from_str(payload.get()).ok(),
        Answer::Refused(_) | Answer::Lost => None,
    }
}
