//! What a key press does, by where the focus is.

use crossterm::event::{KeyEvent, KeyEventKind};
use usher_shared::id::TurnId;
use usher_shared::protocol::session::SessionState;
use usher_shared::protocol::turn::TurnCancelParams;

use super::ask::Ask;
use super::calls::Asked;
use super::composer::{Edit, Enter};
use super::message::Effect;
use super::permission::CardFocus;
use super::queue::Step;
use super::state::{Focus, State};
use crate::keymap::{self, Command, Context};

impl State {
    /// A key was pressed.
    pub(crate) fn key(&mut self, event: KeyEvent) {
        if event.kind == KeyEventKind::Release {
            return;
        }
        let context = self.context();
        let command = keymap::command(context, event);
        if let Some(open) = self.ask.take()
            && self.confirms(open.ask, command)
        {
            return self.confirmed(open.ask);
        }
        match (command, context) {
            (Some(command), _) => self.command(command),
            (None, Context::Permission) => self.answer(event),
            (None, Context::Chat) => {
                if let Some(c) = keymap::text_of(event) {
                    self.type_char(c);
                }
            }
            (None, Context::Queue | Context::Sessions | Context::Help | Context::Everywhere) => {}
        }
    }

    /// Text was pasted. It always goes into the draft, wherever the focus is.
    pub(crate) fn paste(&mut self, text: &str) {
        self.ask = None;
        self.focus = Focus::Chat;
        self.permission.typed(self.now);
        self.composer.paste(text);
    }

    /// A held Enter is due.
    pub(crate) fn decide_enter(&mut self) {
        if self.composer.decide_enter() == Some(Enter::Submit) {
            self.submit();
        }
    }

    fn context(&self) -> Context {
        match (self.focus, self.card_focus()) {
            (Focus::Help, _) => Context::Help,
            (Focus::Sessions, _) => Context::Sessions,
            (Focus::Queue, _) => Context::Queue,
            (Focus::Chat, CardFocus::Focused) => Context::Permission,
            (
                Focus::Chat,
                CardFocus::None | CardFocus::Guarded | CardFocus::Aside | CardFocus::Answered,
            ) => Context::Chat,
        }
    }

    pub(super) fn type_char(&mut self, c: char) {
        self.permission.typed(self.now);
        if self.composer.type_char(c, self.now) == Some(Enter::Submit) {
            self.submit();
            self.composer.insert_char(c);
        }
    }

    fn command(&mut self, command: Command) {
        if self.context() == Context::Chat && command != Command::Submit {
            self.decide_enter();
            self.permission.typed(self.now);
        }
        match command {
            Command::Submit => {
                self.permission.typed(self.now);
                if self.composer.press_enter(self.now) == Enter::Submit {
                    self.submit();
                }
            }
            Command::Edit(edit) => {
                let columns = self.composer_columns();
                self.composer.apply(edit, columns);
            }
            Command::DeleteOrLeave if self.composer.buffer().is_empty() => self.leave(),
            Command::DeleteOrLeave => self.command(Command::Edit(Edit::Delete)),
            Command::ClearOrLeave if self.composer.buffer().is_empty() => self.ask_to_leave(),
            Command::ClearOrLeave => self.command(Command::Edit(Edit::Clear)),
            Command::Back => self.back(),
            Command::FocusQueue => self.focus_queue(),
            Command::FocusPermission => {
                self.focus = Focus::Chat;
                self.permission.come_back();
            }
            Command::OpenSessions => self.open_list(),
            Command::Help => self.open_help(),
            Command::ListUp => self.step(Step::Up, 1),
            Command::ListDown => self.step(Step::Down, 1),
            Command::Choose => self.choose_session(),
            Command::NewSession => {
                self.focus = Focus::Chat;
                self.new_session();
            }
            Command::RemoveEntry => self.remove_selected(),
            Command::ToggleAutoRun => self.toggle_auto_run(),
            Command::ClearQueue => self.ask_to_clear(),
            Command::Restore => self.restore(),
            Command::Again => self.again(),
            Command::SendAsNew => self.send_as_new(),
            Command::Drop => self.drop_undecided(),
            Command::ShowAll => self.permission.toggle_detail(),
            Command::PageUp => self.page(Step::Up),
            Command::PageDown => self.page(Step::Down),
            Command::RowUp => self.scroll(Step::Up, 1),
            Command::RowDown => self.scroll(Step::Down, 1),
            Command::ToStart => self.scroll_to_start(),
            Command::ToEnd => self.transcript.follow(),
            Command::Redraw => self.effects.push(Effect::Redraw),
            Command::Suspend => self.effects.push(Effect::Suspend),
        }
    }

    fn step(&mut self, step: Step, rows: usize) {
        match self.focus {
            Focus::Chat => {}
            Focus::Queue => self.step_in_queue(step),
            Focus::Sessions => self.step_in_list(step),
            Focus::Help => self.scroll_help(step, rows),
        }
    }

    fn page(&mut self, step: Step) {
        let (_, height) = self.transcript_size();
        match self.focus {
            Focus::Help => self.step(step, height.max(1)),
            // Two rows stay, to read on from.
            Focus::Chat | Focus::Queue | Focus::Sessions => {
                self.scroll(step, height.saturating_sub(2).max(1));
            }
        }
    }

    /// One step back; nothing is destroyed.
    fn back(&mut self) {
        match self.focus {
            Focus::Help => return self.close_help(),
            Focus::Queue | Focus::Sessions => {
                self.focus = Focus::Chat;
                return;
            }
            Focus::Chat => {}
        }
        if self.card_focus() == CardFocus::Focused {
            return self.permission.step_aside();
        }
        let turn = self.stoppable_turn();
        if self.take_back_waiting() {
        } else if let Some(turn) = turn {
            self.ask(Ask::StopTurn(turn));
        } else if self.toast.take().is_none() {
            self.transcript.follow();
        }
    }

    /// Returns the open turn, unless it is being stopped already.
    pub(crate) fn stoppable_turn(&self) -> Option<TurnId> {
        let session = self.mirror()?.session();
        let turn = session.turn.filter(|_| session.state != SessionState::Cancelling)?;
        Some(turn.id)
    }

    /// Tells whether `command` is the one that asked.
    fn confirms(&self, ask: Ask, command: Option<Command>) -> bool {
        let asked_by: &[Command] = match ask {
            Ask::StopTurn(_) => &[Command::Back],
            Ask::ClearQueue { .. } => &[Command::ClearQueue],
            Ask::Leave { .. } => &[Command::ClearOrLeave, Command::DeleteOrLeave],
        };
        command.is_some_and(|command| asked_by.contains(&command))
    }

    fn confirmed(&mut self, ask: Ask) {
        match ask {
            Ask::StopTurn(turn_id) => {
                if let Some(mirror) = self.mirror() {
                    let request = TurnCancelParams {
                        identity: mirror.session().identity(),
                        expected_turn_id: Some(turn_id),
                    };
                    self.call(Asked::StopTurn, &request);
                }
            }
            Ask::ClearQueue { .. } => self.clear_queue(ask),
            Ask::Leave { .. } => self.effects.push(Effect::Quit),
        }
    }

    fn leave(&mut self) {
        if self.engine.deliveries().len() == 0 {
            self.effects.push(Effect::Quit);
        } else {
            self.ask_to_leave();
        }
    }

    fn ask_to_leave(&mut self) {
        let undelivered = self.engine.deliveries().len();
        self.ask(Ask::Leave { undelivered, lost: self.engine.unprotected_count() });
    }
}
