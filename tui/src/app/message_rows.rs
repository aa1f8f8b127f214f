//! The rows of one message.

use std::ops::Range;

use usher_shared::id::MessageId;
use usher_shared::protocol::transcript::{Message, MessageStatus, Notice, Resolution, Role};

use super::markdown;
use super::state::State;
use crate::keymap::{Command, Context, key_for};
use crate::view::clean::Clean;
use crate::view::wrap::{pack, wrap};

/// Rows of reasoning and of error output that are shown.
const ASIDE_ROWS_MAX: usize = 4;

/// One row of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: RowKind,
    pub(crate) text: Clean,
    /// Its bold parts, bytes.
    pub(crate) strong: Vec<Range<usize>>,
    /// At the right edge.
    pub(crate) right: Clean,
}

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// Who speaks, and when.
    Speaker,
    /// What they say.
    Body,
    /// What may recede.
    Quiet,
    /// What went wrong.
    Notice,
    /// What can be done about it.
    Keys,
}

impl Row {
    pub(crate) fn new(kind: RowKind, text: Clean) -> Self {
        Self { kind, text, strong: Vec::new(), right: Clean::default() }
    }

    fn blank() -> Self {
        Self::new(RowKind::Body, Clean::default())
    }
}

/// What the rows of a message depend on beside the language and the signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    columns: usize,
    content_bytes: usize,
    status: MessageStatus,
    resolution: Option<Resolution>,
    opening: Opening,
    keys: Keys,
}

/// What comes before a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// Nothing at all; a row says who speaks.
    First,
    /// Somebody else; a row says who speaks.
    Speaker,
    /// A blank row.
    Gap,
    /// Nothing: it goes on.
    None,
}

/// Whether a message shows the keys for what can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    Shown,
    None,
}

impl Facts {
    /// Looks at a message and the one before it; `keys_at` is where the keys are shown.
    pub(crate) fn new(
        message: &Message,
        before: Option<&Message>,
        columns: usize,
        keys_at: Option<MessageId>,
    ) -> Self {
        Self {
            columns,
            content_bytes: message.content.len(),
            status: message.status,
            resolution: message.metadata.resolution,
            opening: opening(before, message),
            keys: if keys_at == Some(message.id) { Keys::Shown } else { Keys::None },
        }
    }
}

impl State {
    /// Makes the rows of a message.
    pub(crate) fn make_rows(&self, message: &Message, facts: Facts) -> Vec<Row> {
        let mut rows = Vec::new();
        match facts.opening {
            Opening::First | Opening::Speaker => {
                if facts.opening == Opening::Speaker {
                    rows.push(Row::blank());
                }
                rows.push(Row {
                    right: Clean::line(&self.clock.hours_and_minutes(message.created_at)),
                    ..Row::new(RowKind::Speaker, self.speaker(message))
                });
            }
            Opening::Gap => rows.push(Row::blank()),
            Opening::None => {}
        }
        let columns = facts.columns;
        match message.role {
            Role::User | Role::Agent => self.push_body(message, columns, &mut rows),
            Role::Thought => push_aside(&message.content, columns, self.theme.signs.cut, &mut rows),
            Role::Tool => rows.push(Row::new(RowKind::Quiet, self.tool_line(message, columns))),
            Role::Plan => {
                let plan = wrap(message.content.trim_end(), columns.saturating_sub(2));
                let item = |row: &Clean| Row::new(RowKind::Body, Clean::line("- ").and(row));
                rows.extend(plan.iter().map(item));
            }
            Role::System => {
                let notice = message.metadata.notice.map(notice_text);
                let text = notice.map(|id| self.localizer.text(id)).unwrap_or_default();
                push(RowKind::Notice, &text, columns, &mut rows);
                push_aside(&message.content, columns, self.theme.signs.cut, &mut rows);
            }
        }
        if message.content_truncated {
            push(RowKind::Quiet, &self.localizer.text("tui-message-cut"), columns, &mut rows);
        }
        match message.metadata.resolution {
            Some(Resolution::Resend) => {
                push(RowKind::Quiet, &self.localizer.text("tui-resent"), columns, &mut rows);
            }
            Some(Resolution::Drop) => {
                push(RowKind::Quiet, &self.localizer.text("tui-dropped"), columns, &mut rows);
            }
            None => {}
        }
        if facts.keys == Keys::Shown {
            rows.extend(self.key_rows(
                &[(Command::Again, "tui-do-run-again"), (Command::Drop, "tui-do-drop")],
                columns,
            ));
        }
        rows
    }

    fn push_body(&self, message: &Message, columns: usize, rows: &mut Vec<Row>) {
        let content = message.content.trim_end();
        let first = rows.len();
        match message.role {
            _ if content.is_empty() => {}
            Role::Agent => markdown::push_rows(content, columns, self.theme.signs, rows),
            Role::User | Role::Thought | Role::Tool | Role::Plan | Role::System => {
                push(RowKind::Body, content, columns, rows);
            }
        }
        if message.status == MessageStatus::Streaming {
            let sign = Clean::line(self.theme.signs.streaming);
            match rows[first..].last_mut() {
                Some(last) if last.text.width() < columns => {
                    last.text = std::mem::take(&mut last.text).and(&sign);
                }
                Some(_) | None => rows.push(Row::new(RowKind::Body, sign)),
            }
        }
    }

    fn tool_line(&self, message: &Message, columns: usize) -> Clean {
        let name = message.metadata.tool.as_deref().unwrap_or_default();
        let lines = message.content.lines().count();
        let id = match (message.status, lines) {
            (MessageStatus::Streaming, _) => "tui-tool-runs",
            (_, 0) => "tui-tool-silent",
            (_, 1) => "tui-tool-one-line",
            (_, _) => "tui-tool-lines",
        };
        let arguments = [
            ("sign", self.theme.signs.folded.into()),
            ("tool", name.into()),
            ("line", message.content.trim().into()),
            ("count", lines.into()),
        ];
        self.text_with(id, &arguments).cut(columns, self.theme.signs.cut)
    }

    /// Returns rows that say what can be done with which key.
    pub(crate) fn key_rows(&self, choices: &[(Command, &str)], columns: usize) -> Vec<Row> {
        let items: Vec<Clean> = choices
            .iter()
            .map(|(command, id)| {
                let key = key_for(Context::Chat, *command).map(|key| key.to_string());
                self.text_with(id, &[("key", key.unwrap_or_default().into())])
            })
            .collect();
        pack(&items, columns, self.theme.signs.dot, self.theme.signs.cut)
            .into_iter()
            .map(|row| Row::new(RowKind::Keys, row))
            .collect()
    }

    fn speaker(&self, message: &Message) -> Clean {
        let me = self.engine.hello().map(|hello| hello.user.name.as_str());
        match message.role {
            Role::User => match message.metadata.sender.as_deref() {
                Some(sender) if Some(sender) != me => Clean::line(sender),
                Some(_) | None => self.text("tui-you"),
            },
            Role::Agent | Role::Thought | Role::Tool | Role::Plan | Role::System => {
                let agent = self.mirror().map(|mirror| mirror.session().agent.as_str());
                Clean::line(agent.unwrap_or_default())
            }
        }
    }
}

fn push(kind: RowKind, text: &str, columns: usize, rows: &mut Vec<Row>) {
    let wrapped = wrap(text, columns);
    rows.extend(wrapped.into_iter().map(|text| Row::new(kind, text)));
}

/// Pushes the first rows of something that is not the answer.
fn push_aside(text: &str, columns: usize, cut: &str, rows: &mut Vec<Row>) {
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    let wrapped = wrap(text, columns);
    let is_cut = wrapped.len() > ASIDE_ROWS_MAX;
    let shown = wrapped.into_iter().take(ASIDE_ROWS_MAX);
    rows.extend(shown.map(|text| Row::new(RowKind::Quiet, text)));
    if is_cut {
        rows.push(Row::new(RowKind::Quiet, Clean::line(cut)));
    }
}

fn opening(before: Option<&Message>, message: &Message) -> Opening {
    let speaks = |message: &Message| match message.role {
        Role::User => Some(Role::User),
        Role::Agent | Role::Thought | Role::Tool | Role::Plan => Some(Role::Agent),
        Role::System => None,
    };
    let Some(speaker) = speaks(message) else {
        return Opening::Gap;
    };
    match before {
        Some(before) if speaks(before) == Some(speaker) && before.turn_id == message.turn_id => {
            let flows = |role| matches!(role, Role::Tool);
            if flows(before.role) && flows(message.role) { Opening::None } else { Opening::Gap }
        }
        Some(_) => Opening::Speaker,
        None => Opening::First,
    }
}

fn notice_text(notice: Notice) -> &'static str {
    match notice {
        Notice::TurnFailed => "tui-notice-turn-failed",
        Notice::StartFailed => "tui-notice-start-failed",
        Notice::ModelUnavailable => "tui-notice-model-unavailable",
        Notice::PlanModeUnavailable => "tui-notice-plan-mode-unavailable",
        Notice::TurnCancelled => "tui-notice-turn-cancelled",
        Notice::TurnInterrupted => "tui-notice-turn-interrupted",
        Notice::TurnUncertain => "tui-notice-turn-uncertain",
        Notice::TurnRefused => "tui-notice-turn-refused",
        Notice::TurnCutShort => "tui-notice-turn-cut-short",
        Notice::SessionReset => "tui-notice-session-reset",
    }
}
