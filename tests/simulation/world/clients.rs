//! What clients do: their engines' orders are carried out.

use usher_shared::client::{Input, JournalOrder, Journaled, Output};
use usher_shared::id::AdmissionId;
use usher_shared::protocol::Request;
use usher_shared::protocol::frame::RequestFrame;
use usher_shared::protocol::queue::QueueAddParams;
use usher_shared::time::MonoMillis;

use super::{Happening, World};
use crate::luck::About;
use crate::network::{Cargo, LinkNo, To};
use crate::schedule::{Journal, Then};
use crate::server::sessions;
use crate::tamper::Tampered;

impl World {
    pub(super) fn start_client(&mut self, client: usize) {
        if self.clients[client].engine.is_some() {
            return;
        }
        self.clients[client].start();
        self.feed(client, Input::Start);
        let looks_at = self.clients[client].looks_at.unwrap_or(sessions()[0].1);
        self.clients[client].looks_at = Some(looks_at);
        self.feed(client, Input::Open(looks_at));
    }

    pub(super) fn kill_client(&mut self, client: usize, journal: Journal, down: u64) {
        if self.clients[client].engine.is_some() {
            self.clients[client].die();
            self.ledger.sends.died(client);
            if let Some(link) = self.clients[client].link.take() {
                self.hang_up(link);
            }
        }
        match journal {
            Journal::Kept => {}
            Journal::Old => self.clients[client].journal.grow_old(),
            Journal::Lost => {
                self.clients[client].journal.lose();
                self.ledger.sends.lost_journal(client);
            }
        }
        self.at(self.now + down, Happening::ClientStarts { client });
    }

    /// The client's end of a link is gone: what it sent may still arrive.
    fn hang_up(&mut self, link: LinkNo) {
        self.network.stop_receiving(link, To::Client);
        if self.luck.of(About::InFlight, link as u64, 4) == 0 {
            let heard = self.luck.of(About::InFlight, link as u64 + 1, 2) == 0;
            if let Some(at) = self.network.cut_way(link, To::Server, heard, self.now) {
                self.at(at, Happening::Arrives(link, To::Server));
            }
        } else {
            self.send(link, To::Server, Cargo::End(None));
        }
    }

    pub(super) fn opened(&mut self, link: LinkNo) {
        let client = self.network.client_of(link);
        if self.clients[client].link != Some(link) {
            return;
        }
        if !self.server.is_up() {
            return self.link_closed(link, None);
        }
        self.server.opened(link);
        self.after_server();
        self.feed(client, Input::LinkOpened);
    }

    pub(super) fn client_receives(&mut self, link: LinkNo, cargo: Cargo) {
        let client = self.network.client_of(link);
        if self.clients[client].link != Some(link) {
            return;
        }
        match cargo {
            Cargo::Text(frame, _) => {
                self.see_in(&frame);
                for frame in self.clients[client].tamper.down(frame) {
                    self.feed(client, Input::Frame(frame));
                }
            }
            Cargo::Ping | Cargo::Pong => {
                self.feed(client, Input::Heartbeat);
                self.send(link, To::Server, Cargo::Pong);
            }
            Cargo::End(code) => {
                self.link_closed(link, code);
                self.hang_up(link);
            }
        }
    }

    /// The driver reports that a connection is gone, once.
    pub(super) fn link_closed(&mut self, link: LinkNo, code: Option<u16>) {
        let client = self.network.client_of(link);
        if self.clients[client].link == Some(link) {
            self.clients[client].link = None;
            self.feed(client, Input::LinkClosed { code });
        }
    }

    pub(super) fn awake(&mut self, client: usize) {
        if self.now < self.clients[client].asleep_until {
            return;
        }
        let inbox = std::mem::take(&mut self.clients[client].inbox);
        for input in inbox {
            self.feed(client, input);
        }
        self.feed(client, Input::DeadlineReached);
    }

    /// Gives an engine an input and does what it wants done.
    pub(super) fn feed(&mut self, client: usize, input: Input) {
        if self.clients[client].engine.is_none() || self.ledger.wrong().is_some() {
            return;
        }
        if self.now < self.clients[client].asleep_until {
            return self.clients[client].inbox.push_back(input);
        }
        let now = MonoMillis::new(self.now);
        if let Some(engine) = &mut self.clients[client].engine {
            engine.handle(input, now);
        }
        let life = self.clients[client].life;
        while self.clients[client].life == life
            && let Some(output) = self.clients[client].engine.as_mut().and_then(|e| e.poll_output())
        {
            self.carry_out(client, output);
        }
        self.note_deadline(client);
        self.check_edit(client);
        let step_over = self.ledger.sends.step_over();
        self.must(step_over);
        if let Some(engine) = &self.clients[client].engine {
            let keeps = self.ledger.sends.keeps(client, life, engine);
            self.must(keeps);
        }
    }

    fn note_deadline(&mut self, client: usize) {
        let known = &mut self.clients[client];
        let Some(engine) = &known.engine else { return };
        let Some(due_at) = engine.next_deadline().map(MonoMillis::get) else { return };
        if known.due_at.is_none_or(|at| due_at < at) {
            known.due_at = Some(due_at);
            let life = known.life;
            self.at(due_at, Happening::Deadline { client, life });
        }
    }

    fn check_edit(&mut self, client: usize) {
        let known = &self.clients[client];
        let edit = known.engine.as_ref().and_then(|engine| engine.edit());
        if let (Some(edit), Some(link)) = (edit, known.link) {
            let link = self.server.name_of(link);
            let believes = self.ledger.edits.believes(edit, link, self.server.lease_now());
            self.must(believes);
        }
    }

    pub(super) fn must(&mut self, checked: Result<(), String>) {
        if let Err(wrong) = checked {
            self.ledger.must(false, || wrong);
        }
    }

    fn carry_out(&mut self, client: usize, output: Output) {
        match output {
            Output::Connect => self.connect(client),
            Output::Disconnect => {
                if let Some(link) = self.clients[client].link {
                    self.hang_up(link);
                    let life = self.clients[client].life;
                    let takes = self.luck.of(About::End, link as u64, 30);
                    self.at(self.now + takes, Happening::NotOpened { client, life, link });
                }
            }
            Output::Send(frame) => match self.clients[client].tamper.up(frame) {
                Tampered::On(frame) => self.client_sends(client, frame),
                Tampered::Back(answer) => {
                    let life = self.clients[client].life;
                    let input = Box::new(Input::Frame(answer));
                    self.at(self.now + 5, Happening::Input { client, life, input });
                }
            },
            Output::ReadUpload { .. } => panic!("nobody in the simulation uploads"),
            Output::Journal(order) => self.order(client, order),
            Output::Event(event) => self.told(client, event),
        }
    }

    fn connect(&mut self, client: usize) {
        let (link, opens_at) = self.network.connect(client, self.now);
        self.clients[client].link = Some(link);
        let life = self.clients[client].life;
        if self.server.is_up() && self.network.is_reachable(self.now) {
            self.at(opens_at, Happening::Opened(link));
        } else {
            self.at(opens_at, Happening::NotOpened { client, life, link });
        }
    }

    pub(super) fn client_sends(&mut self, client: usize, frame: String) {
        let Some(link) = self.clients[client].link else { return };
        let request = RequestFrame::parse(&frame).expect("the engine sends requests");
        if request.action == QueueAddParams::ACTION {
            let known = &self.clients[client];
            let has_row = |id: &AdmissionId| known.journal.has(known.life, id);
            let left = self.ledger.sends.left(client, known.life, request.payload, has_row);
            self.must(left);
        }
        let trap = self.clients[client].springs(&request.action);
        let then = trap.map(|trap| trap.then);
        match then {
            Some(Then::CutBefore(heard)) => self.cut(link, heard),
            Some(Then::KillClient(journal)) => {
                self.send(link, To::Server, Cargo::Text(frame, None));
                self.kill_client(client, journal, 800);
            }
            _ => self.send(link, To::Server, Cargo::Text(frame, then)),
        }
    }

    /// Has an order for the journal done in its turn, some time later; unless the client dies before.
    fn order(&mut self, client: usize, order: JournalOrder) {
        let number = self.scheduled;
        let known = &mut self.clients[client];
        let adopts = matches!(order, JournalOrder::Adopt { .. });
        // A disk that hangs holds up no prompt for long. What dead clients left would come too late
        // then to be sent in its turn, so that here the disk hangs only later.
        known.has_adopted |= adopts;
        let takes = match self.luck.of(About::Journal, number, 40) {
            0 if known.has_adopted && !adopts => 4_000,
            other => other % 6,
        };
        known.journal_free_at = known.journal_free_at.max(self.now) + takes;
        let (at, life) = (known.journal_free_at, known.life);
        self.at(at, Happening::Journals { client, life, order: Box::new(order) });
    }

    /// Does what was ordered of the journal.
    pub(super) fn journals(&mut self, client: usize, order: JournalOrder) {
        self.trace.note(self.now, || format!("client {client} journal: {order:?}"));
        let is_full = self.luck.of(About::Journal, self.scheduled + 1_000_000, 50) == 0;
        let known = &mut self.clients[client];
        let answer = match order {
            JournalOrder::Keep(row) if is_full => {
                Some(Input::Journaled { id: row.admission_id, outcome: Journaled::Failed })
            }
            order => known.journal.obey(order, known.life, self.now),
        };
        if let Some(input) = answer {
            self.feed(client, input);
        }
    }
}
