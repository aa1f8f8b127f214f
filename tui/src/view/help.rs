//! All keys, from the keymap.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::clean::Clean;
use super::paint;
use crate::app::{State, help_parts, inset};

/// Columns of the keys.
const KEY_COLUMNS: u16 = 13;

pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let theme = state.theme;
    let text = inset(area, 2, 1);
    let mut rows = Vec::new();
    for part in help_parts() {
        rows.push((None, state.text(part.title)));
        for binding in part.bindings {
            let label = binding.help.map(|id| state.text(id)).unwrap_or_default();
            rows.push((Some(Clean::line(&binding.key.to_string())), label));
        }
        rows.push((None, Clean::default()));
    }
    let first = state.help.first_row(rows.len(), usize::from(area.height));
    for ((key, label), y) in rows.iter().skip(first).zip(text.top()..text.bottom()) {
        match key {
            None => {
                paint::put(buffer, (text.x, y), text.width, label, theme.strong());
            }
            Some(key) => {
                paint::put(buffer, (text.x, y), KEY_COLUMNS, key, theme.accent());
                let rest = inset(text, KEY_COLUMNS, 0);
                let label = label.cut(usize::from(rest.width), theme.signs.cut);
                paint::put(buffer, (rest.x, y), rest.width, &label, theme.text());
            }
        }
    }
}
