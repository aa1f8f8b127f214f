//! The list of keys, made from the keymap.

use super::queue::Step;
use crate::keymap::{BINDINGS, Binding, Context};

/// How far the list is scrolled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Help {
    first_row: usize,
}

/// One part of the list: its title and its keys.
pub(crate) struct Part {
    /// The name of its title's text.
    pub(crate) title: &'static str,
    /// Its keys, those with a text only.
    pub(crate) bindings: Vec<&'static Binding>,
}

impl Help {
    /// Returns the first row that is shown of a list of `rows` in `height`.
    pub(crate) fn first_row(&self, rows: usize, height: usize) -> usize {
        self.first_row.min(rows.saturating_sub(height))
    }

    /// Scrolls by `rows`.
    pub(crate) fn scroll(&mut self, step: Step, rows: usize, height: usize) {
        let rows_max = row_count().saturating_sub(height);
        self.first_row = match step {
            Step::Up => self.first_row.min(rows_max).saturating_sub(rows),
            Step::Down => (self.first_row + rows).min(rows_max),
        };
    }
}

/// Returns the parts of the list.
pub(crate) fn parts() -> Vec<Part> {
    [
        (Context::Chat, "tui-help-chat"),
        (Context::Everywhere, "tui-help-everywhere"),
        (Context::Queue, "tui-help-queue"),
        (Context::Permission, "tui-help-permission"),
        (Context::Sessions, "tui-help-sessions"),
    ]
    .into_iter()
    .map(|(context, title)| Part {
        title,
        bindings: BINDINGS
            .iter()
            .filter(|binding| binding.context == context && binding.help.is_some())
            .collect(),
    })
    .collect()
}

/// Returns how many rows the list has: each part has a title and a blank row after it.
pub(crate) fn row_count() -> usize {
    parts().iter().map(|part| part.bindings.len() + 2).sum()
}
