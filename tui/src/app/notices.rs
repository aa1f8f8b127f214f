//! What is said directly above the composer: questions, notices, prompts on their way.

use usher_shared::client::{Delivery, DeliveryState, LinkState};

use super::ask::Ask;
use super::message_rows::{Row, RowKind};
use super::permission::CardFocus;
use super::state::{Focus, State};
use crate::i18n::Value;
use crate::keymap::{Command, Context, key_for};
use crate::unaccepted::Unaccepted;
use crate::view::clean::Clean;
use crate::view::wrap::wrap_line;

/// Rows of one prompt's text.
const CONTENT_ROWS_MAX: usize = 2;

/// What can be done with a prompt that never left.
const TAKE_BACK: &[(Command, &str)] = &[(Command::Back, "tui-do-take-back")];

/// What can be done with a prompt that the server does not have.
const REFUSED_OR_RETURNED: &[(Command, &str)] = &[
    (Command::Again, "tui-do-take-back"),
    (Command::SendAsNew, "tui-do-send-again"),
    (Command::Drop, "tui-do-drop"),
];

impl State {
    /// Returns the rows of everything that is to be said, the most urgent last.
    pub(crate) fn notice_rows(&self, columns: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        if let LinkState::Refused(error) = self.engine.link() {
            let text = self.localizer.error(error);
            push(RowKind::Notice, &Clean::line(&text), columns, &mut rows);
        }
        if let Some(trouble) = &self.trouble {
            let text = trouble.text(&self.localizer);
            push(RowKind::Notice, &Clean::line(&text), columns, &mut rows);
        }
        for delivery in self.shown_deliveries() {
            self.push_delivery(delivery, columns, &mut rows);
        }
        if let Some(toast) = &self.toast {
            push(RowKind::Notice, &Clean::line(&toast.text), columns, &mut rows);
        }
        if let Some(open) = self.ask {
            push(RowKind::Notice, &self.ask_text(open.ask), columns, &mut rows);
        }
        rows
    }

    fn push_delivery(&self, delivery: &Delivery, columns: usize, rows: &mut Vec<Row>) {
        let (kind, state, choices): (_, _, &[(Command, &str)]) = match &delivery.state {
            DeliveryState::WaitingForLink => {
                (RowKind::Quiet, self.text("tui-delivery-waiting"), TAKE_BACK)
            }
            DeliveryState::Queued => (RowKind::Quiet, self.text("tui-delivery-behind"), TAKE_BACK),
            DeliveryState::Saving => (RowKind::Quiet, self.text("tui-delivery-sending"), TAKE_BACK),
            DeliveryState::AwaitingReply { .. } => {
                (RowKind::Quiet, self.text("tui-delivery-sending"), &[])
            }
            DeliveryState::Reconciling { .. } => {
                (RowKind::Quiet, self.text("tui-delivery-checking"), &[])
            }
            DeliveryState::Rejected(error) => {
                let reason = [("reason", self.refusal_text(error).into())];
                let state = self.text_with("tui-delivery-rejected", &reason);
                (RowKind::Notice, state, REFUSED_OR_RETURNED)
            }
            DeliveryState::Returned => (
                RowKind::Notice,
                Clean::line(&self.unaccepted_text(Unaccepted::Returned)),
                REFUSED_OR_RETURNED,
            ),
            DeliveryState::Uncertain { can_check } => {
                let choices: &[_] = &[
                    (Command::Again, "tui-do-check"),
                    (Command::SendAsNew, "tui-do-send-as-new"),
                    (Command::Drop, "tui-do-drop"),
                ];
                let choices = if *can_check { choices } else { &choices[1..] };
                (
                    RowKind::Notice,
                    Clean::line(&self.unaccepted_text(Unaccepted::Uncertain)),
                    choices,
                )
            }
            DeliveryState::Accepted(_) => return,
        };
        push(kind, &state, columns, rows);
        self.push_content(&delivery.params.content, columns, rows);
        // Keys are shown on the prompt that they act on.
        let acted_on = [self.undecided(), self.can_be_taken_back()];
        let is_acted_on = |other: &&Delivery| other.admission_id == delivery.admission_id;
        if acted_on.iter().flatten().any(is_acted_on) {
            rows.extend(self.key_rows(choices, columns));
        }
    }

    fn push_content(&self, content: &str, columns: usize, rows: &mut Vec<Row>) {
        let mut content_rows = Vec::new();
        wrap_line(&Clean::line(content), columns.saturating_sub(2), &mut content_rows);
        let is_cut = content_rows.len() > CONTENT_ROWS_MAX;
        let indent = Clean::line("  ");
        for text in content_rows.into_iter().take(CONTENT_ROWS_MAX) {
            rows.push(Row::new(RowKind::Body, indent.clone().and(&text)));
        }
        if is_cut && let Some(last) = rows.last_mut() {
            let mark = Clean::line(self.theme.signs.cut);
            last.text = last.text.cut(columns.saturating_sub(1), "").and(&mark);
        }
    }

    fn ask_text(&self, ask: Ask) -> Clean {
        let key = |context, command| -> Value<'static> {
            let key = key_for(context, command);
            key.map_or_else(String::new, |key| key.to_string()).into()
        };
        match ask {
            Ask::StopTurn(_) => {
                self.text_with("tui-ask-stop", &[("key", key(Context::Chat, Command::Back))])
            }
            Ask::ClearQueue { count, .. } => self.text_with(
                "tui-ask-clear",
                &[("key", key(Context::Queue, Command::ClearQueue)), ("count", count.into())],
            ),
            Ask::Leave { undelivered: 0, .. } => self
                .text_with("tui-ask-leave", &[("key", key(Context::Chat, Command::ClearOrLeave))]),
            Ask::Leave { undelivered, lost } => {
                let (id, count) = match lost {
                    0 => ("tui-ask-leave-undelivered", undelivered),
                    lost => ("tui-ask-leave-unprotected", lost),
                };
                let key = key(Context::Chat, Command::ClearOrLeave);
                self.text_with(id, &[("key", key), ("count", count.into())])
            }
        }
    }

    /// Returns what the keys do that matter now, the most important first.
    pub(crate) fn hints(&self) -> Vec<(String, Clean)> {
        let runs = self.mirror().is_some_and(|mirror| mirror.session().turn.is_some());
        let queues = runs || self.mirror().is_some_and(|mirror| !mirror.queue().auto_run);
        let pauses = self.mirror().is_none_or(|mirror| mirror.queue().auto_run);
        let waits = self.mirror().is_some_and(|mirror| !mirror.queue().entries.is_empty());
        let has_sessions = self.sessions.list().len() > 1;
        let hint = |context, command, id: &str| {
            key_for(context, command).map(|key| (key.to_string(), self.text(id)))
        };
        let hints = match self.focus {
            Focus::Chat if self.card_focus() == CardFocus::Focused => vec![
                hint(Context::Permission, Command::Back, "tui-hint-chat"),
                hint(Context::Permission, Command::ShowAll, "tui-hint-whole-call"),
                hint(Context::Permission, Command::Help, "tui-hint-help"),
            ],
            Focus::Chat => vec![
                hint(
                    Context::Chat,
                    Command::Submit,
                    if queues { "tui-hint-queue-it" } else { "tui-hint-send" },
                ),
                hint(Context::Chat, Command::Back, "tui-hint-stop")
                    .filter(|_| self.stoppable_turn().is_some()),
                hint(Context::Chat, Command::Help, "tui-hint-help"),
                hint(Context::Chat, Command::FocusQueue, "tui-hint-queue"),
                hint(
                    Context::Chat,
                    Command::Edit(super::composer::Edit::Newline),
                    "tui-hint-newline",
                ),
                hint(Context::Chat, Command::OpenSessions, "tui-hint-sessions")
                    .filter(|_| has_sessions),
            ],
            Focus::Queue => {
                let pause = hint(Context::Queue, Command::ToggleAutoRun, "tui-hint-pause");
                let resume = hint(Context::Queue, Command::ToggleAutoRun, "tui-hint-resume");
                vec![
                    hint(Context::Queue, Command::Back, "tui-hint-chat"),
                    // Nothing happens here until it is resumed.
                    resume.filter(|_| !pauses),
                    hint(Context::Queue, Command::Restore, "tui-hint-restore")
                        .filter(|_| self.can_restore()),
                    hint(Context::Queue, Command::RemoveEntry, "tui-hint-remove").filter(|_| waits),
                    pause.filter(|_| pauses),
                    hint(Context::Queue, Command::ClearQueue, "tui-hint-clear").filter(|_| waits),
                    hint(Context::Queue, Command::ListUp, "tui-hint-select").filter(|_| waits),
                    hint(Context::Queue, Command::Help, "tui-hint-help"),
                ]
            }
            Focus::Sessions => vec![
                hint(Context::Sessions, Command::Choose, "tui-hint-open"),
                hint(Context::Sessions, Command::Back, "tui-hint-chat"),
                hint(Context::Sessions, Command::NewSession, "tui-hint-new"),
                hint(Context::Sessions, Command::ListUp, "tui-hint-select"),
            ],
            Focus::Help => vec![
                hint(Context::Help, Command::Back, "tui-hint-chat"),
                hint(Context::Help, Command::PageDown, "tui-hint-more")
                    .filter(|_| self.has_more_help()),
            ],
        };
        hints.into_iter().flatten().collect()
    }
}

fn push(kind: RowKind, text: &Clean, columns: usize, rows: &mut Vec<Row>) {
    let mut wrapped = Vec::new();
    wrap_line(text, columns, &mut wrapped);
    rows.extend(wrapped.into_iter().map(|text| Row::new(kind, text)));
}
