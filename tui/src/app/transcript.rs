//! The transcript on the screen: which part is shown, and the rows of its messages.
//!
//! Only messages in sight are broken into rows, and their rows are kept, so that it costs the
//! same with a hundred messages and with a hundred thousand.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use usher_shared::client::{Input, Mirror};
use usher_shared::counter::MessageSeq;
use usher_shared::id::MessageId;
use usher_shared::protocol::transcript::Message;

use super::message_rows::{Facts, Row};
use super::queue::Step;
use super::state::State;

/// Messages whose rows are kept.
const KEPT_MESSAGES_MAX: usize = 1_024;

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

/// The number of a message in the list, and of one of its rows.
type At = (usize, usize);

/// The part that is shown.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) rows: Vec<Row>,
    /// Where its first row is.
    top: At,
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
        let reader = self.reader(columns, height);
        let from_top = match self.transcript.place {
            Place::Tail => None,
            Place::Row { seq, row } => {
                reader.index_of(seq).and_then(|index| reader.window_from((index, row)))
            }
        };
        from_top.unwrap_or_else(|| reader.window_to_end())
    }

    /// Scrolls by `rows`; at the top, asks for older messages.
    pub(crate) fn scroll(&mut self, step: Step, rows: usize) {
        let (columns, height) = self.transcript_size();
        let window = self.transcript_window(columns, height);
        let reader = self.reader(columns, height);
        let (index, row) = match step {
            Step::Up => reader.up(window.top, rows),
            Step::Down if window.more_below => reader.down(window.top, rows),
            Step::Down => return self.transcript.follow(),
        };
        let Some(message) = reader.messages.get(index) else {
            return;
        };
        let place = match reader.window_from((index, row)) {
            Some(_) => Place::Row { seq: message.seq, row },
            None => Place::Tail,
        };
        self.transcript.place = place;
        let at_top = (index, row) == (0, 0);
        if at_top && self.mirror().is_some_and(Mirror::has_more) {
            self.engine.handle(Input::LoadOlder, self.now);
        }
    }

    /// Shows the oldest message that is known.
    pub(crate) fn scroll_to_start(&mut self) {
        self.scroll(Step::Up, usize::MAX);
    }

    fn reader(&self, columns: usize, height: usize) -> Reader<'_> {
        Reader {
            state: self,
            messages: self.mirror().map_or(&[], Mirror::messages),
            keys_at: self.unresolved().map(|unresolved| unresolved.shown_at),
            columns,
            height,
        }
    }
}

/// The messages of the open session, as rows.
struct Reader<'a> {
    state: &'a State,
    messages: &'a [Message],
    /// The message that shows the keys for what can be done.
    keys_at: Option<MessageId>,
    columns: usize,
    height: usize,
}

impl Reader<'_> {
    fn index_of(&self, seq: MessageSeq) -> Option<usize> {
        self.messages.binary_search_by_key(&seq, |message| message.seq).ok()
    }

    fn up(&self, from: At, rows: usize) -> At {
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
            row = self.rows(index).len();
        }
        (index, row - left)
    }

    fn down(&self, from: At, rows: usize) -> At {
        let (mut index, row) = from;
        let mut left = row.saturating_add(rows);
        loop {
            let count = self.rows(index).len();
            if left < count || index + 1 >= self.messages.len() {
                return (index, left.min(count));
            }
            left -= count;
            index += 1;
        }
    }

    /// Fills the height downwards from a row; None if there is nothing below it then.
    fn window_from(&self, top: At) -> Option<Window> {
        let mut rows = Vec::new();
        for index in top.0..self.messages.len() {
            let skip = if index == top.0 { top.1 } else { 0 };
            rows.extend(self.rows(index).iter().skip(skip).cloned());
            let is_last = index + 1 == self.messages.len();
            if rows.len() > self.height || (rows.len() == self.height && !is_last) {
                rows.truncate(self.height);
                return Some(Window { rows, top, more_below: true });
            }
        }
        None
    }

    /// Fills the height upwards from the last row.
    fn window_to_end(&self) -> Window {
        let mut rows: Vec<Row> = Vec::new();
        let mut top = (0, 0);
        for index in (0..self.messages.len()).rev() {
            let made = self.rows(index);
            let skip = made.len().saturating_sub(self.height - rows.len());
            rows.splice(0..0, made.iter().skip(skip).cloned());
            top = (index, skip);
            if rows.len() == self.height {
                break;
            }
        }
        Window { rows, top, more_below: false }
    }

    fn rows(&self, index: usize) -> Rc<[Row]> {
        let message = &self.messages[index];
        let before = index.checked_sub(1).map(|index| &self.messages[index]);
        let facts = Facts::new(message, before, self.columns, self.keys_at);
        let mut kept = self.state.transcript.kept.borrow_mut();
        if let Some(known) = kept.get(&message.id)
            && known.facts == facts
        {
            return Rc::clone(&known.rows);
        }
        let rows: Rc<[Row]> = self.state.make_rows(message, facts).into();
        if kept.len() >= KEPT_MESSAGES_MAX {
            kept.clear();
        }
        kept.insert(message.id, Kept { facts, rows: Rc::clone(&rows) });
        rows
    }
}
