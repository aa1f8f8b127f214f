//! Prompts on their way: from the draft to the proof that the server has them.
//!
//! A draft leaves the composer only into a delivery, which holds its text. It comes back when it
//! is refused, beside what was typed since, never over it.

use usher_shared::client::{Delivery, DeliveryState, Input, Submission};
use usher_shared::error::WireError;
use usher_shared::id::{AdmissionId, MessageId, SessionId, TurnId};
use usher_shared::prompt::{PromptText, PromptTextError, is_blank};
use usher_shared::protocol::queue::QueueAddParams;
use usher_shared::protocol::transcript::{Message, MessageStatus, Notice, Resolution, Role};
use usher_shared::protocol::turn::TurnResolveParams;
use usher_shared::time::MonoMillis;

use super::ask::Toast;
use super::calls::Asked;
use super::state::State;
use crate::keymap::{Command, Context, key_for};
use crate::unaccepted::{Place, Unaccepted};

/// A reply that comes sooner is not announced, milliseconds.
const SENDING_SHOWN_AFTER_MS: u64 = 300;
/// Messages looked through for a prompt that can be run again.
const UNRESOLVED_MESSAGES_MAX: usize = 1_000;

impl State {
    /// Sends the draft. It stays where it is if it cannot be sent.
    pub(crate) fn submit(&mut self) {
        let text = self.composer.buffer().text();
        if is_blank(text) {
            return;
        }
        match PromptText::parse(text) {
            Ok(_) => {}
            Err(PromptTextError::TooLong { limit }) => {
                let text = self
                    .localizer
                    .text_with("tui-prompt-too-long", &[("kib", (limit / 1024).into())]);
                self.toast = Some(Toast::passing(text, self.now));
                return;
            }
            Err(PromptTextError::Nul) => return self.say("tui-prompt-nul"),
        }
        let Some(mirror) = self.engine.mirror() else {
            return self.say("tui-no-session-yet");
        };
        let identity = mirror.session().identity();
        let params = QueueAddParams {
            task_id: identity.task_id,
            session_id: identity.session_id,
            session_incarnation_id: Some(identity.session_incarnation_id),
            content: self.composer.take(),
            ..QueueAddParams::default()
        };
        self.toast = None;
        self.send(params);
        self.transcript.follow();
    }

    fn send(&mut self, params: QueueAddParams) {
        let submission = Submission::minted(self.mint_admission_id(), params);
        self.engine.handle(Input::Submit(submission), self.now);
    }

    /// Returns the deliveries of the open session.
    pub(crate) fn deliveries(&self) -> impl Iterator<Item = &Delivery> {
        let open = self.mirror().map(|mirror| mirror.session().id);
        let deliveries = self.engine.deliveries();
        deliveries.filter(move |delivery| Some(delivery.params.session_id) == open)
    }

    /// Returns the deliveries that have something to say now.
    pub(crate) fn shown_deliveries(&self) -> impl Iterator<Item = &Delivery> {
        let now = self.now;
        self.deliveries().filter(move |delivery| is_shown(delivery, now))
    }

    /// When the next delivery will have something to say.
    pub(crate) fn sending_shown_at(&self) -> Option<MonoMillis> {
        self.deliveries()
            .filter(|delivery| !is_shown(delivery, self.now))
            .map(|delivery| delivery.since.plus(SENDING_SHOWN_AFTER_MS))
            .min()
    }

    /// Returns the delivery that waits for a decision, the oldest first.
    pub(crate) fn undecided(&self) -> Option<&Delivery> {
        self.deliveries().find(|delivery| delivery.state.is_undecided())
    }

    /// A delivery came to another state.
    pub(crate) fn delivery_changed(&mut self, delivery: &Delivery) {
        let open = self.mirror().map(|mirror| mirror.session().id);
        if open == Some(delivery.params.session_id) {
            self.bring_back(delivery);
        }
    }

    /// A session was opened: what came back to it while it was not open is there now, and what
    /// waits for a decision elsewhere is named.
    pub(crate) fn come_back_to_prompts(&mut self) {
        if let Some(delivery) = self.undecided().cloned() {
            self.bring_back(&delivery);
        }
        let open = self.mirror().map(|mirror| mirror.session().id);
        let elsewhere = self.engine.deliveries().filter(|delivery| {
            delivery.state.is_undecided() && Some(delivery.params.session_id) != open
        });
        let count = elsewhere.count();
        if count > 0 {
            let key = key_for(Context::Chat, Command::OpenSessions);
            let key = key.map(|key| key.to_string()).unwrap_or_default();
            let arguments = [("count", count.into()), ("key", key.into())];
            let text = self.localizer.text_with("tui-undecided-elsewhere", &arguments);
            self.toast = Some(Toast::lasting(text));
        }
    }

    /// Puts a prompt that the server does not have back where it was written, if there is room.
    fn bring_back(&mut self, delivery: &Delivery) {
        let text = match &delivery.state {
            DeliveryState::Rejected(error) => self.localizer.text_with(
                "tui-not-accepted-text-below",
                &[("reason", self.refusal_text(error).into())],
            ),
            DeliveryState::Returned => self.localizer.text("tui-returned-text-below"),
            DeliveryState::WaitingForLink
            | DeliveryState::Queued
            | DeliveryState::Saving
            | DeliveryState::AwaitingReply { .. }
            | DeliveryState::Reconciling { .. }
            | DeliveryState::Accepted(_)
            | DeliveryState::Uncertain { .. } => return,
        };
        if self.composer.buffer().is_empty() {
            self.toast = Some(Toast::with_draft(text));
            self.take_back(delivery.admission_id.clone(), &delivery.params.content);
        }
    }

    /// A prompt is sent without having been written down.
    pub(crate) fn went_unprotected(&mut self) {
        self.toast = Some(Toast::passing(self.unaccepted_text(Unaccepted::Unprotected), self.now));
    }

    /// Returns how many sends of a session are open or wait for a decision.
    pub(crate) fn undelivered_in(&self, id: SessionId) -> usize {
        self.engine.deliveries().filter(|delivery| delivery.params.session_id == id).count()
    }

    /// Returns what is said of a prompt that was not simply accepted.
    pub(crate) fn unaccepted_text(&self, unaccepted: Unaccepted<'_>) -> String {
        let name = |context, command| {
            let key = key_for(context, command).map(|key| key.to_string());
            key.unwrap_or_default()
        };
        let (queue_key, resume_key) = (
            name(Context::Chat, Command::FocusQueue),
            name(Context::Queue, Command::ToggleAutoRun),
        );
        let place = Place::Chat { queue_key: &queue_key, resume_key: &resume_key };
        unaccepted.text(place, &self.localizer)
    }

    /// Returns why a prompt was refused.
    pub(crate) fn refusal_text(&self, error: &WireError) -> String {
        let queue = self.mirror().map(|mirror| mirror.queue());
        self.unaccepted_text(Unaccepted::Rejected { error, queue })
    }

    fn take_back(&mut self, id: AdmissionId, content: &str) {
        self.composer.bring_back(content);
        self.engine.handle(Input::Dismiss(id), self.now);
        // It leaves the sends: in the same transaction it must come to the drafts.
        self.write_drafts();
    }

    /// Returns the prompt that can be taken back now: the newest that never left, if there is room
    /// for it.
    pub(crate) fn can_be_taken_back(&self) -> Option<&Delivery> {
        let waiting = self.deliveries().filter(|delivery| has_not_left(&delivery.state)).last();
        waiting.filter(|_| self.composer.buffer().is_empty())
    }

    /// Takes that prompt back. Tells whether there was one.
    pub(crate) fn take_back_waiting(&mut self) -> bool {
        let Some(waiting) = self.can_be_taken_back() else {
            return false;
        };
        let (id, params) = (waiting.admission_id.clone(), waiting.params.clone());
        self.take_back(id, &params.content);
        true
    }

    /// Checks an uncertain prompt and resends it, takes a refused one back, or runs the last one
    /// again that did not end well.
    pub(crate) fn again(&mut self) {
        let Some(delivery) = self.undecided() else {
            return self.resolve(Resolution::Resend);
        };
        let id = delivery.admission_id.clone();
        match &delivery.state {
            DeliveryState::Uncertain { can_check: true } => {
                self.engine.handle(Input::CheckAndResend(id), self.now);
            }
            DeliveryState::Uncertain { can_check: false } => self.say("tui-cannot-check"),
            DeliveryState::Rejected(_) | DeliveryState::Returned => {
                // What was typed since goes into undo.
                let params = delivery.params.clone();
                self.take_back(id, &params.content);
            }
            DeliveryState::WaitingForLink
            | DeliveryState::Queued
            | DeliveryState::Saving
            | DeliveryState::AwaitingReply { .. }
            | DeliveryState::Reconciling { .. }
            | DeliveryState::Accepted(_) => {}
        }
    }

    /// Sends an uncertain or refused prompt under a new id: it may run twice.
    pub(crate) fn send_as_new(&mut self) {
        let Some(delivery) = self.undecided() else {
            return;
        };
        let id = delivery.admission_id.clone();
        let mut params = (*delivery.params).clone();
        params.client_queue_id = None;
        self.engine.handle(Input::Dismiss(id), self.now);
        if let Some(mirror) = self.engine.mirror() {
            // The session may have another life by now.
            params.session_incarnation_id = Some(mirror.session().incarnation_id);
        }
        self.send(params);
    }

    /// Drops an uncertain or refused prompt, or the last one that did not end well.
    pub(crate) fn drop_undecided(&mut self) {
        match self.undecided() {
            Some(delivery) => {
                let (id, params) = (delivery.admission_id.clone(), delivery.params.clone());
                let text = match &delivery.state {
                    DeliveryState::Uncertain { .. } => "tui-dropped-here-uncertain",
                    _ => "tui-dropped-here",
                };
                self.composer.keep_in_history(&params.content);
                self.engine.handle(Input::Dismiss(id), self.now);
                self.say(text);
            }
            None => self.resolve(Resolution::Drop),
        }
    }

    fn resolve(&mut self, resolution: Resolution) {
        let Some(mirror) = self.mirror() else { return };
        if let Some(unresolved) = unresolved(mirror.messages()) {
            let request = TurnResolveParams {
                identity: mirror.session().identity(),
                turn_id: unresolved.turn_id,
                resolution,
            };
            self.call(Asked::Change, &request);
        }
    }

    /// Returns the newest turn of the open session that did not end well and waits for a
    /// decision, if one can be taken now.
    pub(crate) fn unresolved(&self) -> Option<Unresolved> {
        let mirror = self.mirror()?;
        let promptable = mirror.session().turn.is_none() && self.undecided().is_none();
        unresolved(mirror.messages()).filter(|_| promptable)
    }
}

/// Tells whether it can still be taken back.
fn has_not_left(state: &DeliveryState) -> bool {
    match state {
        DeliveryState::WaitingForLink | DeliveryState::Queued | DeliveryState::Saving => true,
        DeliveryState::AwaitingReply { .. }
        | DeliveryState::Reconciling { .. }
        | DeliveryState::Accepted(_)
        | DeliveryState::Rejected(_)
        | DeliveryState::Returned
        | DeliveryState::Uncertain { .. } => false,
    }
}

fn is_shown(delivery: &Delivery, now: MonoMillis) -> bool {
    match delivery.state {
        DeliveryState::Queued
        | DeliveryState::Saving
        | DeliveryState::AwaitingReply { .. }
        | DeliveryState::Reconciling { .. } => now.since(delivery.since) >= SENDING_SHOWN_AFTER_MS,
        DeliveryState::WaitingForLink
        | DeliveryState::Rejected(_)
        | DeliveryState::Returned
        | DeliveryState::Uncertain { .. } => true,
        DeliveryState::Accepted(_) => false,
    }
}

/// A turn that did not end well and waits for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unresolved {
    pub(crate) turn_id: TurnId,
    /// The message that says so: its keys are shown there.
    pub(crate) shown_at: MessageId,
}

/// Returns the newest turn whose prompt failed, was interrupted or is uncertain, and has not been
/// run again or dropped.
fn unresolved(messages: &[Message]) -> Option<Unresolved> {
    let mut noticed: Vec<Unresolved> = Vec::new();
    let newest = messages.iter().rev().take(UNRESOLVED_MESSAGES_MAX);
    for message in newest {
        let Some(turn_id) = message.turn_id else {
            continue;
        };
        let here = Unresolved { turn_id, shown_at: message.id };
        match message.role {
            Role::User if message.metadata.resolution.is_none() => {
                let notice = noticed.iter().find(|notice| notice.turn_id == turn_id);
                let ended_badly = match message.status {
                    MessageStatus::Failed
                    | MessageStatus::Interrupted
                    | MessageStatus::Uncertain => true,
                    MessageStatus::Streaming | MessageStatus::Complete => notice.is_some(),
                };
                if ended_badly {
                    return Some(notice.copied().unwrap_or(here));
                }
            }
            Role::System if message.metadata.notice.is_some_and(can_be_resolved) => {
                noticed.push(here);
            }
            Role::User | Role::System | Role::Agent | Role::Thought | Role::Tool | Role::Plan => {}
        }
    }
    None
}

/// Tells whether the prompt of a turn with this notice can be run again or dropped.
fn can_be_resolved(notice: Notice) -> bool {
    match notice {
        Notice::TurnFailed | Notice::TurnInterrupted | Notice::TurnUncertain => true,
        Notice::StartFailed
        | Notice::ModelUnavailable
        | Notice::PlanModeUnavailable
        | Notice::TurnCancelled
        | Notice::TurnRefused
        | Notice::TurnCutShort
        | Notice::SessionReset => false,
    }
}
