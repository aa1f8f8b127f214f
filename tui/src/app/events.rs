//! What the engine tells.

use usher_shared::client::{Event, Input, Output};

use super::ask::Toast;
use super::message::{Attention, Effect};
use super::state::{Focus, State};

impl State {
    /// Does what the engine says until it has nothing more to say.
    pub(crate) fn pump(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Connect => self.effects.push(Effect::Connect),
                Output::Disconnect => self.effects.push(Effect::Disconnect),
                Output::Send(frame) => self.effects.push(Effect::Send(frame)),
                Output::Journal(order) => self.journal_order(order),
                // The chat attaches nothing yet.
                Output::ReadUpload { id, .. } => {
                    self.engine.handle(Input::UploadRead { id, bytes: None }, self.now);
                }
                Output::Event(event) => self.event(event),
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::LinkChanged => self.link_changed(),
            Event::SessionOpened => {
                self.transcript.reset();
                self.take_out_draft();
                self.toast = None;
                self.come_back_to_prompts();
                self.session_changed();
                self.queue_changed();
            }
            Event::SessionRefused(error) => self.session_refused(&error),
            Event::QueueChanged => self.queue_changed(),
            Event::SessionChanged => self.session_changed(),
            // The chat has no editor for what waits, and attaches nothing, yet.
            Event::EditBegan(_)
            | Event::EditChanged
            | Event::SaveRefused(_)
            | Event::EditEnded { .. }
            | Event::UploadProgress { .. }
            | Event::UploadEnded { .. }
            | Event::TranscriptChanged
            | Event::TurnStarted(_) => {}
            Event::TurnEnded(_) => self.ring_if_away(),
            Event::DeliveryChanged(delivery) => self.delivery_changed(&delivery),
            Event::Unprotected(_) => self.went_unprotected(),
            Event::Called { id, outcome } => self.called(id, outcome),
            Event::TaskChanged(task) => self.sessions.task_changed(task),
            Event::TaskDeleted(id) => self.sessions.task_deleted(id),
            Event::SessionDeleted(id) => self.sessions.forget(|session| session.id == id),
            Event::Draining { .. } => {
                self.toast = Some(Toast::passing(self.localizer.text("tui-draining"), self.now));
            }
        }
    }

    /// Every session has a draft of its own. What was written before any was open goes with the
    /// first one.
    fn take_out_draft(&mut self) {
        let open = self.engine.mirror().map(|mirror| mirror.session().id);
        match (self.composer_of, open) {
            (Some(left), Some(opened)) if left != opened => {
                let draft = self.put_away.remove(&opened).unwrap_or_default();
                let draft = std::mem::replace(&mut self.composer, draft);
                self.put_away.insert(left, draft);
            }
            (None, Some(opened)) => {
                if let Some(draft) = self.put_away.remove(&opened) {
                    self.composer.put_before(draft.buffer().text());
                }
            }
            (Some(_), _) | (None, None) => {}
        }
        self.composer_of = open;
    }

    fn link_changed(&mut self) {
        if self.sessions.is_wanting() {
            self.ask_for_sessions();
        }
    }

    fn queue_changed(&mut self) {
        if let Some(mirror) = self.engine.mirror() {
            self.queue.sync(&mirror.queue().entries);
        }
    }

    fn session_changed(&mut self) {
        let Some(mirror) = self.engine.mirror() else {
            return;
        };
        let session = mirror.session();
        self.sessions.session_changed(session);
        let is_new = self.permission.sync(session.permission.as_ref(), self.now);
        if is_new {
            // The only thing that takes the focus by itself.
            self.focus = Focus::Chat;
            self.ring_if_away();
        }
    }

    fn ring_if_away(&mut self) {
        if self.attention == Attention::Elsewhere {
            self.effects.push(Effect::Bell);
        }
    }
}
