//! Where prompts are written.
//!
//! Owns the draft, its undo, what was cut, and what was sent before. It moves by graphemes, never
//! loses text, and never decides what happens to a prompt: [`Composer::take`] hands it out.

mod buffer;
mod burst;
mod history;
mod layout;

pub use buffer::Buffer;
pub use burst::Enter;
pub use layout::{Layout, Place};

use std::ops::Range;

use usher_shared::time::MonoMillis;

use crate::view::clean::Clean;
use burst::Burst;
use history::History;

/// Pastes of more characters are folded.
pub const PASTE_SHOWN_CHARS_MAX: usize = 1_000;
/// States that can be gone back to.
const UNDO_STEPS_MAX: usize = 200;
/// Text kept for undo beyond the newest step, bytes.
const UNDO_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A change of the draft or of its caret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A line end at the caret.
    Newline,
    /// Removes the grapheme before the caret.
    Backspace,
    /// Removes the grapheme after the caret.
    Delete,
    /// One grapheme back.
    Left,
    /// One grapheme on.
    Right,
    /// To the start of the word.
    WordLeft,
    /// To the end of the word.
    WordRight,
    /// To the start of the line.
    LineStart,
    /// To the end of the line.
    LineEnd,
    /// One row up, or to what was sent before.
    Up,
    /// One row down, or to what was sent after.
    Down,
    /// Cuts to the end of the line.
    CutToLineEnd,
    /// Cuts to the start of the line.
    CutToLineStart,
    /// Cuts back to white space.
    CutBlankLeft,
    /// Cuts to the start of the word.
    CutWordLeft,
    /// Cuts to the end of the word.
    CutWordRight,
    /// Puts back what was cut last.
    Paste,
    /// Goes one step back.
    Undo,
    /// Removes everything.
    Clear,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Composer {
    buffer: Buffer,
    history: History,
    undo: Vec<Buffer>,
    cut: String,
    burst: Burst,
    /// The column that Up and Down keep to.
    goal_column: Option<usize>,
    /// What the last change was: characters typed in a row are undone together.
    last_change: Change,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Change {
    #[default]
    Other,
    Typing,
}

impl Composer {
    /// Returns the draft.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// When [`Composer::decide_enter`] is due.
    pub fn deadline(&self) -> Option<MonoMillis> {
        self.burst.deadline()
    }

    /// A character was typed.
    pub fn type_char(&mut self, c: char, now: MonoMillis) -> Option<Enter> {
        let earlier = self.burst.text(now);
        if earlier == Some(Enter::Newline) {
            self.insert_char('\n');
        }
        if earlier != Some(Enter::Submit) {
            self.insert_char(c);
        }
        earlier.filter(|enter| *enter == Enter::Submit)
    }

    /// Puts a character at the caret.
    pub fn insert_char(&mut self, c: char) {
        // Typed words are undone one by one, a burst as a whole.
        let ends_word = c.is_whitespace() && !self.burst.is_fast();
        self.remember(if ends_word { Change::Other } else { Change::Typing });
        self.buffer.insert(c.encode_utf8(&mut [0; 4]));
        self.goal_column = None;
    }

    /// Enter was pressed. [`Enter::Newline`] has been inserted already.
    pub fn press_enter(&mut self, now: MonoMillis) -> Enter {
        let enter = self.burst.enter(now);
        if enter == Enter::Newline {
            self.insert_char('\n');
        }
        enter
    }

    /// Decides a held Enter; [`Enter::Newline`] has been inserted already.
    pub fn decide_enter(&mut self) -> Option<Enter> {
        let enter = self.burst.decide();
        if enter == Some(Enter::Newline) {
            self.insert_char('\n');
        }
        enter
    }

    /// A paste came, marked as one by the terminal. Line ends become `\n`; long pastes are folded.
    pub fn paste(&mut self, pasted: &str) {
        self.burst.marked_paste();
        let text = pasted.replace("\r\n", "\n").replace('\r', "\n");
        if text.is_empty() {
            return;
        }
        self.remember(Change::Other);
        if text.chars().count() > PASTE_SHOWN_CHARS_MAX {
            self.buffer.insert_folded(&text);
        } else {
            self.buffer.insert(&text);
        }
        self.goal_column = None;
    }

    /// Applies one edit; `columns` is the width that the draft is laid out in.
    pub fn apply(&mut self, edit: Edit, columns: usize) {
        let goal_column = self.goal_column.take();
        let caret = self.buffer.caret();
        let buffer = &self.buffer;
        match edit {
            Edit::Newline => {
                self.remember(Change::Other);
                self.buffer.insert("\n");
            }
            Edit::Backspace => self.remove(buffer.before(caret)..caret),
            Edit::Delete => self.remove(caret..buffer.after(caret)),
            Edit::Left => self.buffer.set_caret(buffer.before(caret)),
            Edit::Right => self.buffer.set_caret(buffer.after(caret)),
            Edit::WordLeft => self.buffer.set_caret(buffer.word_before(caret)),
            Edit::WordRight => self.buffer.set_caret(buffer.word_after(caret)),
            Edit::LineStart => self.buffer.set_caret(buffer.line_start(caret)),
            Edit::LineEnd => self.buffer.set_caret(buffer.line_end(caret)),
            Edit::Up => self.move_row(Direction::Up, goal_column, columns),
            Edit::Down => self.move_row(Direction::Down, goal_column, columns),
            Edit::CutToLineEnd => {
                let end = buffer.line_end(caret);
                // At the end of a line, the line end itself goes.
                let end = if end == caret { buffer.after(caret) } else { end };
                self.cut(caret..end);
            }
            Edit::CutToLineStart => {
                let start = buffer.line_start(caret);
                let start = if start == caret { buffer.before(caret) } else { start };
                self.cut(start..caret);
            }
            Edit::CutBlankLeft => self.cut(buffer.blank_before(caret)..caret),
            Edit::CutWordLeft => self.cut(buffer.word_before(caret)..caret),
            Edit::CutWordRight => self.cut(caret..buffer.word_after(caret)),
            Edit::Paste => {
                let text = self.cut.clone();
                self.remember(Change::Other);
                self.buffer.insert(&text);
            }
            Edit::Undo => {
                if let Some(before) = self.undo.pop() {
                    self.buffer = before;
                }
                self.last_change = Change::Other;
            }
            Edit::Clear => self.replace(Buffer::default()),
        }
    }

    /// Takes the draft out, to be sent; the composer is empty then.
    pub fn take(&mut self) -> String {
        let sent = std::mem::take(&mut self.buffer);
        let text = sent.text().to_owned();
        self.history.push(sent);
        self.undo.clear();
        self.last_change = Change::Other;
        self.goal_column = None;
        text
    }

    /// Puts `text`, folded as it was when it was sent, in place of the draft, which undo brings
    /// back.
    pub fn bring_back(&mut self, text: &str) {
        let sent = self.history.recall(text);
        self.replace(sent.unwrap_or_else(|| Buffer::new(text)));
    }

    /// Keeps a text that was sent where Up finds it.
    pub fn keep_in_history(&mut self, text: &str) {
        if self.history.recall(text).is_none() {
            self.history.push(Buffer::new(text));
        }
    }

    /// Puts an earlier draft before what is there.
    pub fn put_before(&mut self, earlier: &str) {
        let now = std::mem::take(&mut self.buffer);
        self.paste(earlier);
        if !now.is_empty() {
            self.buffer.insert("\n");
            self.buffer.insert(now.text());
        }
        self.undo.clear();
    }

    /// Lays the draft out; `label` is shown for folded pastes.
    pub fn layout(&self, columns: usize, label: impl Fn(&str) -> Clean) -> Layout {
        Layout::new(&self.buffer, columns, label)
    }

    fn move_row(&mut self, direction: Direction, goal_column: Option<usize>, columns: usize) {
        // Where folds lie does not depend on the words of their label.
        let layout = Layout::new(&self.buffer, columns, |_| Clean::line("[…]"));
        let place = layout.place(self.buffer.caret());
        let column = goal_column.unwrap_or(place.column);
        let to = match direction {
            Direction::Up => place.row.checked_sub(1),
            Direction::Down => Some(place.row + 1).filter(|row| *row < layout.height()),
        };
        let draft = match (to, direction) {
            (Some(row), _) => {
                self.buffer.set_caret(layout.at(row, column));
                self.goal_column = Some(column);
                return;
            }
            (None, Direction::Up) => self.history.older(&self.buffer),
            (None, Direction::Down) => self.history.newer(&self.buffer),
        };
        if let Some(draft) = draft {
            self.buffer = draft;
            self.undo.clear();
            self.last_change = Change::Other;
        }
    }

    fn remove(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.remember(Change::Other);
            self.buffer.remove(range);
        }
    }

    fn cut(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.remember(Change::Other);
            self.cut = self.buffer.remove(range);
        }
    }

    fn replace(&mut self, buffer: Buffer) {
        if !self.buffer.is_empty() {
            self.remember(Change::Other);
        }
        self.buffer = buffer;
        self.goal_column = None;
    }

    /// Keeps the draft for undo, unless `change` goes on with the last one.
    fn remember(&mut self, change: Change) {
        let goes_on = change == Change::Typing && self.last_change == Change::Typing;
        self.last_change = change;
        if goes_on {
            return;
        }
        self.undo.push(self.buffer.clone());
        let mut bytes = 0;
        let kept = self.undo.iter().rev().take(UNDO_STEPS_MAX).take_while(|step| {
            let first = bytes == 0;
            bytes += step.text().len() + 1;
            first || bytes <= UNDO_BYTES_MAX
        });
        let kept = kept.count();
        self.undo.drain(..self.undo.len() - kept);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

#[cfg(test)]
mod tests;
