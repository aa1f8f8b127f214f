//! The draft with its caret, and what is said directly above it.

use ratatui::buffer::Buffer;
use ratatui::layout::Position;

use super::clean::Clean;
use super::{paint, rows};
use crate::app::{Areas, CardFocus, Focus, State, inset, last_rows};

pub(super) fn draw(state: &State, areas: &Areas, buffer: &mut Buffer) -> Option<Position> {
    let theme = state.theme;
    let notices = inset(areas.notices, 2, 1);
    let said = state.notice_rows(usize::from(notices.width));
    rows::draw(&last_rows(said, notices.height), theme, notices, buffer);

    let has_focus = state.focus == Focus::Chat && state.card_focus() != CardFocus::Focused;
    let sign = Clean::line(theme.signs.prompt);
    let style = if has_focus { theme.accent() } else { theme.quiet() };
    let area = areas.composer;
    paint::put(buffer, (area.x + 1, area.y), 1, &sign, style);

    let text = areas.composer_text();
    let layout = state.composer_layout();
    let caret = layout.place(state.composer.buffer().caret());
    let height = usize::from(text.height);
    // The caret's row is in sight; as much as possible of what is above it too.
    let first = (caret.row + 1).saturating_sub(height);
    let shown = layout.rows(first..layout.height().min(first + height));
    for (row, y) in shown.zip(text.top()..text.bottom()) {
        paint::put(buffer, (text.x, y), text.width, &row, theme.text());
    }
    if state.composer.buffer().is_empty() {
        let hint = state.text("tui-composer-hint");
        paint::put(buffer, (text.x, text.y), text.width, &hint, theme.quiet());
    }
    has_focus.then(|| Position {
        x: text.x + u16::try_from(caret.column).unwrap_or(0).min(text.width.saturating_sub(1)),
        y: text.y + u16::try_from(caret.row - first).unwrap_or(0),
    })
}
