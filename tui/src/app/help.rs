//! The list of keys, made from the keymap.

use super::permission::ANSWER_KEYS;
use super::queue::Step;
use super::screen::Areas;
use super::state::{Focus, State};
use crate::keymap::{BINDINGS, Context};
use crate::view::clean::Clean;
use crate::view::wrap::wrap_line;

/// Columns of the keys.
pub(crate) const KEY_COLUMNS: u16 = 13;

/// The parts of the list: where keys hold, and the name of its title.
const PARTS: &[(Context, &str)] = &[
    (Context::Chat, "tui-help-chat"),
    (Context::Everywhere, "tui-help-everywhere"),
    (Context::Queue, "tui-help-queue"),
    (Context::Permission, "tui-help-permission"),
    (Context::Sessions, "tui-help-sessions"),
];

/// Where the list is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Help {
    /// How far it is scrolled.
    pub(crate) first_row: usize,
    /// Where it was opened, and where the way back leads.
    opened_from: Focus,
}

/// One row of the list.
#[derive(Debug)]
pub(crate) enum HelpRow {
    /// The title of a part.
    Title(Clean),
    /// A key, which is empty where its text goes on, and what it does.
    Key(Clean, Clean),
    /// Nothing.
    Gap,
}

impl State {
    /// Returns the rows of the list in this many columns.
    pub(crate) fn help_rows(&self, columns: u16) -> Vec<HelpRow> {
        let columns = usize::from(columns.saturating_sub(KEY_COLUMNS));
        let mut rows = Vec::new();
        for (context, title) in PARTS {
            if !rows.is_empty() {
                rows.push(HelpRow::Gap);
            }
            rows.push(HelpRow::Title(self.text(title)));
            for binding in BINDINGS.iter().filter(|binding| binding.context == *context) {
                let Some(help) = binding.help else { continue };
                self.push_key(&binding.key.to_string(), help, columns, &mut rows);
            }
            if *context == Context::Permission {
                for (key, help) in ANSWER_KEYS {
                    self.push_key(key, help, columns, &mut rows);
                }
            }
        }
        rows
    }

    fn push_key(&self, key: &str, help: &str, columns: usize, rows: &mut Vec<HelpRow>) {
        let mut key = Clean::line(key);
        let mut texts = Vec::new();
        wrap_line(&self.text(help), columns, &mut texts);
        for text in texts {
            rows.push(HelpRow::Key(std::mem::take(&mut key), text));
        }
    }

    /// Shows the list from its beginning.
    pub(crate) fn open_help(&mut self) {
        if self.focus != Focus::Help {
            self.help = Help { first_row: 0, opened_from: self.focus };
            self.focus = Focus::Help;
        }
    }

    /// Goes back to where the list was opened.
    pub(crate) fn close_help(&mut self) {
        self.focus = self.help.opened_from;
    }

    /// Tells whether there is more of the list below.
    pub(crate) fn has_more_help(&self) -> bool {
        self.help_first_max().is_some_and(|first_max| self.help.first_row < first_max)
    }

    /// Returns the first row of the last page.
    fn help_first_max(&self) -> Option<usize> {
        let area = Areas::new(self)?.body_text();
        Some(self.help_rows(area.width).len().saturating_sub(usize::from(area.height)))
    }

    /// Scrolls by `rows`.
    pub(crate) fn scroll_help(&mut self, step: Step, rows: usize) {
        let Some(first_max) = self.help_first_max() else {
            return;
        };
        let first = self.help.first_row.min(first_max);
        self.help.first_row = match step {
            Step::Up => first.saturating_sub(rows),
            Step::Down => (first + rows).min(first_max),
        };
    }
}
