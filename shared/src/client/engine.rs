//! The engine's three doors, and the way from each frame to whom it concerns.

use serde::Deserialize;

use super::api::{EngineConfig, Event, Input, Output};
use super::bounds::END_ATTEMPTS_MAX;
use super::call::{Call, CallOutcome};
use super::delivery::Delivery;
use super::edit::{Edit, Keeper, ask_to_end};
use super::link::{Link, LinkState};
use super::mirror::Mirror;
use super::outbox::{Answer, Heard, Outbox, Purpose};
use super::send::{Sends, Surroundings};
use super::upload::Uploads;
use super::watch::Watch;
use crate::error::{ErrorCode, WireError};
use crate::limits::{REPLY_TIMEOUT_MS, REQUEST_ID_BYTES_MAX};
use crate::protocol::frame::ServerFrame;
use crate::protocol::hello::HelloReply;
use crate::protocol::turn::{
    ServerDraining, SessionDeleted, TaskChanged, TaskDeleted, notification,
};
use crate::time::MonoMillis;

/// The recovery engine of one client. See the [module](super).
pub struct Engine {
    link: Link,
    watch: Watch,
    sends: Sends,
    keeper: Keeper,
    uploads: Uploads,
    out: Outbox,
    now: MonoMillis,
}

impl Engine {
    /// Makes an engine that waits for [`Input::Start`].
    pub fn new(config: EngineConfig) -> Self {
        Self {
            out: Outbox::new(config.journaling),
            link: Link::new(config),
            watch: Watch::default(),
            sends: Sends::default(),
            keeper: Keeper::default(),
            uploads: Uploads::default(),
            now: MonoMillis::default(),
        }
    }

    /// Takes one input. Whatever is due at `now` is done as well, so that a flood of inputs
    /// cannot hold a deadline up.
    pub fn handle(&mut self, input: Input, now: MonoMillis) {
        self.now = now.max(self.now);
        let was_open = self.link.is_open();
        self.take(input);
        self.expire();
        self.link.tick(self.now, &mut self.out);
        if was_open && !self.link.is_open() {
            self.link_lost();
        }
        self.pump();
    }

    /// Returns the next thing to do. Call until None after every [`Engine::handle`].
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.poll()
    }

    /// Returns when [`Input::DeadlineReached`] is due, if nothing else happens before.
    pub fn next_deadline(&self) -> Option<MonoMillis> {
        // What was due is done. What is still there from the past waits for something else.
        let ahead = |at: &MonoMillis| *at > self.now;
        self.link
            .due_at()
            .into_iter()
            .chain(self.out.next_deadline())
            .chain(self.watch.next_deadline())
            .chain(self.sends.next_deadline())
            .chain(self.keeper.next_deadline())
            .chain(self.uploads.next_deadline())
            .filter(ahead)
            .min()
    }

    /// Returns the state of the link.
    pub const fn link(&self) -> &LinkState {
        self.link.state()
    }

    /// Returns what the server last answered to `hello`; also while there is no link.
    pub const fn hello(&self) -> Option<&HelloReply> {
        self.link.hello()
    }

    /// Returns the open session, once the server has told of it.
    pub fn mirror(&self) -> Option<&Mirror> {
        self.watch.mirror()
    }

    /// Returns the sends of this client that are open or unresolved, oldest first.
    pub fn deliveries(&self) -> impl ExactSizeIterator<Item = &Delivery> {
        self.sends.deliveries()
    }

    /// Returns the edit that is open.
    pub fn edit(&self) -> Option<Edit> {
        self.keeper.edit()
    }

    /// Returns how many of [`Engine::deliveries`] would be gone if this client ended now: they are not
    /// in its journal.
    pub fn unprotected_count(&self) -> usize {
        self.sends.unprotected_count()
    }

    /// Tells whether an upload is open.
    #[cfg(test)]
    pub(super) fn has_uploads(&self) -> bool {
        self.uploads.is_any()
    }

    fn take(&mut self, input: Input) {
        let (now, out) = (self.now, &mut self.out);
        match input {
            Input::Start => self.link.start(now, out),
            Input::LinkOpened => self.link.opened(now, out),
            Input::LinkClosed { code: _ } => self.link.closed(now, out),
            Input::Heartbeat => self.heard(),
            Input::Frame(text) => {
                if self.link.is_open() {
                    self.heard();
                    self.frame(&text);
                }
            }
            Input::DeadlineReached => {}
            Input::Open(session_id) => {
                let online = self.link.online().is_some();
                self.watch.open(session_id, online, now, out);
            }
            Input::Close => {
                let online = self.link.online().is_some();
                self.watch.close(online, now, out);
            }
            Input::LoadOlder => {
                if self.link.online().is_some() && out.has_room() {
                    self.watch.load_older(now, out);
                }
            }
            Input::Submit(submission) => {
                let surroundings = Surroundings {
                    online: self.link.online(),
                    hello: self.link.hello(),
                    mirror: self.watch.mirror(),
                };
                self.sends.submit(submission, &surroundings, now, out);
            }
            Input::CheckAndResend(id) => self.sends.check_and_resend(&id, now, out),
            Input::Dismiss(id) => self.sends.dismiss(&id, out),
            Input::Journaled { id, outcome } => self.sends.journaled(&id, outcome, out),
            Input::Adopted(rows) => self.sends.adopt(rows, now, out),
            Input::BeginEdit(target) => {
                let online = self.link.online().is_some();
                self.keeper.begin(target, online, now, out);
            }
            Input::SaveEdit(save) => self.keeper.save(save, now, out),
            Input::LeaveEdit => {
                let online = self.link.online().is_some();
                self.keeper.leave(online, now, out);
            }
            Input::Upload { id, params } => self.uploads.begin(id, params, now, out),
            Input::UploadRead { id, bytes } => {
                let online = self.link.online().is_some();
                self.uploads.read(id, bytes.as_deref(), online, now, out);
            }
            Input::AbortUpload(id) => {
                let online = self.link.online().is_some();
                self.uploads.abort(id, online, now, out);
            }
            Input::Call(call) => self.call(call),
            Input::Reconnect => self.link.reconnect(now, out),
        }
    }

    fn heard(&mut self) {
        if self.link.is_open() {
            self.link.heard(self.now);
            self.out.heard();
        }
    }

    fn call(&mut self, call: Call) {
        let Call { id, action, payload } = call;
        let outcome = if self.link.online().is_none() {
            CallOutcome::NotSent
        } else if !self.out.has_room_for(1) {
            let error = WireError::new(ErrorCode::RateLimited, "too many open requests");
            CallOutcome::Rejected(error.with("retry_after_ms", 1_000))
        } else if payload.get().len() + 2 * REQUEST_ID_BYTES_MAX > self.out.frame_bytes_max() {
            let limit = self.out.frame_bytes_max();
            let error = WireError::validation("payload", "over the frame bound");
            CallOutcome::Rejected(error.with("limit", limit))
        } else {
            let deadline = self.now.plus(REPLY_TIMEOUT_MS);
            let purpose = Purpose::Call(id);
            return self.out.request_raw(purpose, action, &payload, deadline, self.now);
        };
        self.out.event(Event::Called { id, outcome });
    }

    fn frame(&mut self, text: &str) {
        match ServerFrame::parse(text) {
            Ok(ServerFrame::Response { id, payload }) => {
                self.answered(&id, Answer::Reply(payload));
            }
            Ok(ServerFrame::Error { id: Some(id), error }) => {
                self.answered(&id, Answer::Refused(error))
            }
            // A complaint about a frame that was no request; we send none.
            Ok(ServerFrame::Error { id: None, .. }) => {}
            Ok(ServerFrame::Notification { action, payload }) => match action.as_str() {
                notification::TASK_CHANGED => {
                    if let Ok(TaskChanged { task }) = serde_json::from_str(payload.get()) {
                        self.out.event(Event::TaskChanged(task));
                    }
                }
                notification::TASK_DELETED => {
                    if let Ok(TaskDeleted { task_id }) = serde_json::from_str(payload.get()) {
                        self.out.event(Event::TaskDeleted(task_id));
                    }
                }
                notification::SESSION_DELETED => {
                    let deleted = serde_json::from_str(payload.get());
                    if let Ok(SessionDeleted { session_id, .. }) = deleted {
                        self.out.event(Event::SessionDeleted(session_id));
                    }
                }
                notification::SERVER_DRAINING => {
                    if let Ok(draining) = serde_json::from_str::<ServerDraining>(payload.get()) {
                        let reconnect_after_ms = draining.reconnect_after_ms;
                        self.link.hold_off(reconnect_after_ms, self.now);
                        self.out.event(Event::Draining { reconnect_after_ms });
                    }
                }
                notification::EDIT_LOST => {
                    if let Ok(notice) = serde_json::from_str(payload.get()) {
                        self.keeper.told_lost(&notice, &mut self.out);
                    }
                }
                action => self.watch.notified(action, &payload, self.now, &mut self.out),
            },
            // Not readable, but if it names a request, no other answer will come to that one.
            Err(_) => {
                if let Some(id) = answered_id(text) {
                    self.answered(&id, Answer::Lost);
                }
            }
        }
    }

    fn answered(&mut self, request_id: &str, answer: Answer) {
        if let Some((purpose, sent_at)) = self.out.take(request_id) {
            self.route(purpose, answer, sent_at);
        }
    }

    /// Hands an answer (or its absence) to whom it belongs.
    fn route(&mut self, purpose: Purpose, answer: Answer, sent_at: MonoMillis) {
        let online = self.link.online().is_some();
        let (now, out) = (self.now, &mut self.out);
        let round_trip_ms = now.since(sent_at);
        match purpose {
            Purpose::Hello => self.greeted(answer, round_trip_ms),
            Purpose::Ping => {
                if let Answer::Reply(_) = answer {
                    self.link.measured(round_trip_ms, out);
                }
            }
            Purpose::Subscribe { opening } => self.watch.subscribed(opening, answer, now, out),
            Purpose::Older { opening } => self.watch.older(opening, answer, out),
            Purpose::Add { id, attempt } => self.sends.answered(&id, attempt, answer, now, out),
            Purpose::ProofQueue { id, pass } => {
                let status = self.sends.queue_read(&id, pass, &answer, now, out);
                if let Some(status) = status {
                    self.watch.saw_status(&status, out);
                }
            }
            Purpose::ProofPage { id, pass } => {
                self.sends.page_read(&id, pass, &answer, now, out);
            }
            Purpose::EditBegin { number, target } => {
                self.keeper.began(number, target, answer, (sent_at, now), out);
            }
            Purpose::EditRenew { number } => self.keeper.renewed(number, answer, sent_at, out),
            Purpose::EditSave { number } => self.keeper.saved(number, answer, online, now, out),
            Purpose::EditLook { number } => self.keeper.looked(number, answer, online, now, out),
            Purpose::EditEnd { target, lease_id, dispatch, attempt } => {
                if matches!(answer, Answer::Lost) && online && attempt < END_ATTEMPTS_MAX {
                    let attempt = attempt + 1;
                    let purpose = Purpose::EditEnd { target, lease_id, dispatch, attempt };
                    ask_to_end(purpose, now, out);
                }
            }
            Purpose::Upload(id) => self.uploads.answered(id, answer, round_trip_ms, now, out),
            Purpose::Unheeded => {}
            Purpose::Call(id) => {
                let outcome = match answer {
                    Answer::Reply(payload) => CallOutcome::Reply(payload),
                    Answer::Refused(error) => CallOutcome::Rejected(error),
                    Answer::Lost => CallOutcome::Lost,
                };
                out.event(Event::Called { id, outcome });
            }
        }
    }

    fn greeted(&mut self, answer: Answer, round_trip_ms: u64) {
        let (now, out) = (self.now, &mut self.out);
        match answer {
            Answer::Reply(payload) => match serde_json::from_str(payload.get()) {
                Ok(hello) => self.link.greeted(hello, round_trip_ms, now, out),
                Err(_) => self.link.give_up(now, out),
            },
            Answer::Refused(error) => self.link.refused(error, now, out),
            Answer::Lost => self.link.give_up(now, out),
        }
    }

    /// Ends the requests whose time is over. If nothing at all came since one of them was sent,
    /// the link is as good as gone and goes.
    fn expire(&mut self) {
        let mut silent = false;
        while let Some((purpose, heard)) = self.out.take_expired(self.now) {
            silent |= heard == Heard::Nothing;
            self.route(purpose, Answer::Lost, self.now);
        }
        if silent {
            self.link.give_up(self.now, &mut self.out);
        }
    }

    fn link_lost(&mut self) {
        self.sends.link_lost();
        self.keeper.link_lost(&mut self.out);
        for purpose in self.out.take_all() {
            // The link is gone already: whatever became of `hello` makes no difference.
            if purpose != Purpose::Hello {
                self.route(purpose, Answer::Lost, self.now);
            }
        }
        self.watch.link_lost(self.now);
    }

    /// Does what became possible.
    fn pump(&mut self) {
        let (now, out) = (self.now, &mut self.out);
        if self.link.online().is_some() {
            self.watch.pump(now, out);
            self.keeper.pump(now, out);
            self.uploads.pump(now, out);
        }
        let surroundings = Surroundings {
            online: self.link.online(),
            hello: self.link.hello(),
            mirror: self.watch.mirror(),
        };
        self.sends.pump(&surroundings, now, out);
        if self.sends.want_a_link() {
            self.link.hurry(now, out);
        }
    }
}

/// Reads the id of an answer whose rest is not readable.
fn answered_id(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Bare {
        id: String,
    }
    let bare: Bare = serde_json::from_str(text).ok()?;
    Some(bare.id)
}
