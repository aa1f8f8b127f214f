//! What clients tell their people, taken down and checked.

use usher_shared::client::{Delivery, DeliveryState, EditEnd, Event};

use super::{Happening, World, first_word};

/// What frames of the server show, by a part of them.
const SHOWN: [(&str, &str); 5] = [
    ("\"resumed\":true", "a subscription goes on"),
    ("\"resumed\":false", "a subscription begins anew"),
    ("\"first_event_seq\"", "a frame stands for several events"),
    ("\"outcome\":\"replayed\"", "an admission is replayed"),
    ("\"outcome\":\"folded\"", "an admission is folded"),
];

impl World {
    /// Notes what a frame of the server shows.
    pub(super) fn see_in(&mut self, frame: &str) {
        for (part, what) in SHOWN {
            if frame.contains(part) {
                self.see(what);
            }
        }
    }

    pub(super) fn told(&mut self, client: usize, event: Event) {
        self.trace.note(self.now, || {
            let text = format!("client {client} is told: {event:?}");
            text.chars().take(400).collect()
        });
        match event {
            Event::DeliveryChanged(delivery) => self.delivery_changed(client, &delivery),
            Event::SessionOpened | Event::QueueChanged | Event::SessionChanged => {
                self.clients[client].look();
                self.look_at_queue(client);
            }
            Event::TranscriptChanged => self.look_at_transcript(client),
            Event::Unprotected(id) => self.ledger.sends.unprotected(client, &id),
            Event::Called { id, outcome } => self.clients[client].called(id, &outcome),
            Event::EditEnded { end, .. } => self.edit_ended(client, &end),
            Event::SaveRefused(error) => {
                self.see("a save is refused");
                let save = self.clients[client].last_save();
                let refused = self.ledger.edits.refused(save, error.code);
                self.must(refused);
            }
            Event::SessionRefused(error) => {
                self.ledger.must(false, || format!("client {client} may not look: {error:?}"));
            }
            Event::LinkChanged
            | Event::TurnStarted(_)
            | Event::TurnEnded(_)
            | Event::EditBegan(_)
            | Event::EditChanged
            | Event::UploadProgress { .. }
            | Event::UploadEnded { .. }
            | Event::TaskChanged(_)
            | Event::TaskDeleted(_)
            | Event::SessionDeleted(_)
            | Event::Draining { .. } => {}
        }
    }

    fn delivery_changed(&mut self, client: usize, delivery: &Delivery) {
        self.see(match &delivery.state {
            DeliveryState::Accepted(proof) => format!("accepted: {}", first_word(proof)),
            DeliveryState::Rejected(error) => format!("rejected: {}", error.code),
            DeliveryState::Uncertain { can_check } => format!("uncertain: {can_check}"),
            other => first_word(other),
        });
        let life = self.clients[client].life;
        let said = self.ledger.sends.said(client, life, delivery, &self.server.store);
        self.must(said);
        let is_queued = delivery.state == DeliveryState::Queued;
        if is_queued && let Some(frame) = self.clients[client].tamper.queued(delivery) {
            self.at(self.now + 10, Happening::Sends { client, life, frame });
        }
    }

    fn edit_ended(&mut self, client: usize, end: &EditEnd) {
        self.see(match end {
            EditEnd::Lost(loss) => format!("edit lost: {}", first_word(loss)),
            other => format!("edit: {}", first_word(other)),
        });
        let ended = self.ledger.edits.ended(self.clients[client].last_save(), end);
        self.must(ended);
    }

    fn look_at_queue(&mut self, client: usize) {
        let known = &mut self.clients[client];
        let Some(mirror) = known.engine.as_ref().and_then(|engine| engine.mirror()) else {
            return;
        };
        let session = mirror.session().id;
        let revision = self.ledger.queue_shown(mirror);
        let goes_back = known.shows(session, revision);
        self.ledger.must(!goes_back, || {
            format!("client {client} shows revision {revision} behind a newer one")
        });
    }

    fn look_at_transcript(&mut self, client: usize) {
        let engine = self.clients[client].engine.as_ref();
        if let Some(mirror) = engine.and_then(|engine| engine.mirror()) {
            self.ledger.messages_shown(mirror, &self.server);
        }
    }
}
