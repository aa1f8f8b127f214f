//! The transcript on the screen: which part is shown, and the rows of its messages.
//!
//! Only messages in sight are broken into rows, and their rows are kept, so that it costs the
//! same with a hundred messages and with a hundred thousand.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use usher_shared::client::Input;
use usher_shared::counter::MessageSeq;
use usher_shared::id::MessageId;
use usher_shared::protocol::transcript::{Message, MessageStatus, Notice, Resolution, Role};

use super::queue::Step;
use super::state::State;
use crate::keymap::{Command, Context, key_for};
use crate::view::clean::Clean;
use crate::view::wrap::{pack, wrap};

/// Messages whose rows are kept.
const KEPT_MESSAGES_MAX: usize = 1_024;
/// Rows of reasoning and of error output that are shown.
const ASIDE_ROWS_MAX: usize = 4;

/// Which part is shown, and the rows that were made.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    place: Place,
    /// Only spares work: what is drawn is the same without it.
    kept: RefCell<HashMap<MessageId, Kept>>,
}

/// The rows of one message, and what they were made from.
#[derive(Debug)]
struct Kept {
    facts: Facts,
    rows: Rc<[Row]>,
}

/// Which row is at the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Whatever makes the last row the last one on the screen.
    #[default]
    Tail,
    /// This row of this message.
    Row { seq: MessageSeq, row: usize },
}

/// One row of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: RowKind,
    pub(crate) text: Clean,
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
        Self { kind, text, right: Clean::default() }
    }

    fn blank() -> Self {
        Self::new(RowKind::Body, Clean::default())
    }
}

/// What the rows of a message depend on beside the language and the signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
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

/// The part that is shown.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) rows: Vec<Row>,
    /// Where its first row is.
    top: (usize, usize),
    /// Whether there is more below.
    pub(crate) more_below: bool,
}

impl Transcript {
    /// Shows the end, and what is added to it.
    pub(crate) fn follow(&mut self) {
        self.place = Place::Tail;
    }

    /// Tells whether the end is shown.
    pub(crate) fn follows(&self) -> bool {
        self.place == Place::Tail
    }

    /// Returns how many messages' rows are kept.
    #[cfg(test)]
    pub(crate) fn kept_count(&self) -> usize {
        self.kept.borrow().len()
    }

    /// Forgets everything: another session is shown.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

impl State {
    /// Returns the rows that fit into `height`.
    pub(crate) fn transcript_window(&self, columns: usize, height: usize) -> Window {
        let messages = self.mirror().map_or(&[][..], |mirror| mirror.messages());
        let from_top = match self.transcript.place {
            Place::Tail => None,
            Place::Row { seq, row } => index_of(messages, seq)
                .and_then(|index| self.window_from(messages, (index, row), columns, height)),
        };
        from_top.unwrap_or_else(|| self.window_to_end(messages, columns, height))
    }

    /// Scrolls by `rows`; at the top, asks for older messages.
    pub(crate) fn scroll(&mut self, step: Step, rows: usize) {
        let (columns, height) = self.transcript_size();
        let window = self.transcript_window(columns, height);
        let messages = self.mirror().map_or(&[][..], |mirror| mirror.messages());
        if messages.is_empty() {
            return;
        }
        let (index, row) = match step {
            Step::Up => self.rows_up(messages, window.top, columns, rows),
            Step::Down if window.more_below => self.rows_down(messages, window.top, columns, rows),
            Step::Down => return self.transcript.follow(),
        };
        let at_top = (index, row) == (0, 0);
        let seq = messages[index].seq;
        let stays = self.window_from(messages, (index, row), columns, height);
        let wants_older = at_top && self.mirror().is_some_and(|mirror| mirror.has_more());
        self.transcript.place = match stays {
            Some(window) if window.more_below => Place::Row { seq, row },
            Some(_) | None => Place::Tail,
        };
        if wants_older {
            self.engine.handle(Input::LoadOlder, self.now);
        }
    }

    /// Shows the oldest message that is known.
    pub(crate) fn scroll_to_start(&mut self) {
        self.scroll(Step::Up, usize::MAX);
    }

    fn rows_up(
        &self,
        messages: &[Message],
        from: (usize, usize),
        columns: usize,
        rows: usize,
    ) -> (usize, usize) {
        if rows == usize::MAX {
            return (0, 0);
        }
        let (mut index, mut row) = from;
        let mut left = rows;
        while left > row {
            left -= row;
            let Some(before) = index.checked_sub(1) else {
                return (0, 0);
            };
            index = before;
            row = self.message_rows(messages, index, columns).len();
        }
        (index, row - left)
    }

    fn rows_down(
        &self,
        messages: &[Message],
        from: (usize, usize),
        columns: usize,
        rows: usize,
    ) -> (usize, usize) {
        let (mut index, row) = from;
        let mut left = row.saturating_add(rows);
        loop {
            let count = self.message_rows(messages, index, columns).len();
            if left < count || index + 1 == messages.len() {
                return (index, left.min(count));
            }
            left -= count;
            index += 1;
        }
    }

    /// Fills `height` downwards from a row; None if the messages end before.
    fn window_from(
        &self,
        messages: &[Message],
        top: (usize, usize),
        columns: usize,
        height: usize,
    ) -> Option<Window> {
        let mut rows = Vec::new();
        for index in top.0..messages.len() {
            let skip = if index == top.0 { top.1 } else { 0 };
            let made = self.message_rows(messages, index, columns);
            rows.extend(made.iter().skip(skip).cloned());
            let is_last = index + 1 == messages.len();
            if rows.len() > height || (rows.len() == height && !is_last) {
                rows.truncate(height);
                return Some(Window { rows, top, more_below: true });
            }
        }
        None
    }

    /// Fills `height` upwards from the last row.
    fn window_to_end(&self, messages: &[Message], columns: usize, height: usize) -> Window {
        let mut rows: Vec<Row> = Vec::new();
        let mut top = (0, 0);
        for index in (0..messages.len()).rev() {
            let made = self.message_rows(messages, index, columns);
            let room = height - rows.len();
            let skip = made.len().saturating_sub(room);
            rows.splice(0..0, made.iter().skip(skip).cloned());
            top = (index, skip);
            if rows.len() == height {
                break;
            }
        }
        Window { rows, top, more_below: false }
    }

    fn message_rows(&self, messages: &[Message], index: usize, columns: usize) -> Rc<[Row]> {
        let message = &messages[index];
        let before = index.checked_sub(1).map(|index| &messages[index]);
        let unresolved = self.unresolved();
        let facts = Facts {
            columns,
            content_bytes: message.content.len(),
            status: message.status,
            resolution: message.metadata.resolution,
            opening: opening(before, message),
            keys: match unresolved {
                Some(unresolved) if unresolved.shown_at == message.id => Keys::Shown,
                Some(_) | None => Keys::None,
            },
        };
        let mut kept = self.transcript.kept.borrow_mut();
        if let Some(known) = kept.get(&message.id)
            && known.facts == facts
        {
            return Rc::clone(&known.rows);
        }
        let rows: Rc<[Row]> = self.make_rows(message, facts).into();
        if kept.len() >= KEPT_MESSAGES_MAX {
            kept.clear();
        }
        let made = Kept { facts, rows: Rc::clone(&rows) };
        kept.insert(message.id, made);
        rows
    }

    fn make_rows(&self, message: &Message, facts: Facts) -> Vec<Row> {
        let mut rows = Vec::new();
        match facts.opening {
            Opening::First | Opening::Speaker => {
                if facts.opening == Opening::Speaker {
                    rows.push(Row::blank());
                }
                rows.push(Row {
                    kind: RowKind::Speaker,
                    text: self.speaker(message),
                    right: Clean::line(&self.clock.hours_and_minutes(message.created_at)),
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
        if !content.is_empty() {
            push(RowKind::Body, content, columns, rows);
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

fn index_of(messages: &[Message], seq: MessageSeq) -> Option<usize> {
    messages.binary_search_by_key(&seq, |message| message.seq).ok()
}

fn notice_text(notice: Notice) -> &'static str {
    match notice {
        Notice::TurnFailed => "tui-notice-turn-failed",
        Notice::StartFailed => "tui-notice-start-failed",
        Notice::TurnCancelled => "tui-notice-turn-cancelled",
        Notice::TurnInterrupted => "tui-notice-turn-interrupted",
        Notice::TurnUncertain => "tui-notice-turn-uncertain",
        Notice::TurnRefused => "tui-notice-turn-refused",
        Notice::TurnCutShort => "tui-notice-turn-cut-short",
    }
}
