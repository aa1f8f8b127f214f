//! The list of keys, made from the keymap.

use super::queue::Step;
use super::screen::Areas;
use super::state::State;
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

/// How far the list is scrolled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Help {
    pub(crate) first_row: usize,
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
                let mut key = Clean::line(&binding.key.to_string());
                let mut texts = Vec::new();
                wrap_line(&self.text(help), columns, &mut texts);
                for text in texts {
                    rows.push(HelpRow::Key(std::mem::take(&mut key), text));
                }
            }
        }
        rows
    }

    /// Scrolls by `rows`.
    pub(crate) fn scroll_help(&mut self, step: Step, rows: usize) {
        let Some(area) = Areas::new(self).map(|areas| areas.body_text()) else {
            return;
        };
        let first_max = self.help_rows(area.width).len().saturating_sub(usize::from(area.height));
        let first = self.help.first_row.min(first_max);
        self.help.first_row = match step {
            Step::Up => first.saturating_sub(rows),
            Step::Down => (first + rows).min(first_max),
        };
    }
}
