//! All keys, from the keymap.

use ratatui::buffer::Buffer;

use super::paint;
use crate::app::{Areas, HelpRow, KEY_COLUMNS, State, inset};

pub(super) fn draw(state: &State, areas: &Areas, buffer: &mut Buffer) {
    let theme = state.theme;
    let area = areas.body_text();
    let rows = state.help_rows(area.width);
    let first = state.help.first_row.min(rows.len().saturating_sub(usize::from(area.height)));
    for (row, y) in rows.iter().skip(first).zip(area.top()..area.bottom()) {
        match row {
            HelpRow::Title(title) => {
                paint::put(buffer, (area.x, y), area.width, title, theme.strong());
            }
            HelpRow::Key(key, text) => {
                paint::put(buffer, (area.x, y), KEY_COLUMNS, key, theme.accent());
                let rest = inset(area, KEY_COLUMNS, 0);
                paint::put(buffer, (rest.x, y), rest.width, text, theme.text());
            }
            HelpRow::Gap => {}
        }
    }
}
