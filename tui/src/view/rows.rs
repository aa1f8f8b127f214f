//! Rows of the transcript and of the notices.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::paint;
use crate::app::{Row, RowKind};
use crate::theme::Theme;

/// Draws rows from the top of `area`.
pub(super) fn draw(rows: &[Row], theme: Theme, area: Rect, buffer: &mut Buffer) {
    for (row, y) in rows.iter().zip(area.top()..area.bottom()) {
        let line = Rect { y, height: 1, ..area };
        let free = paint::put_right(buffer, line, &row.right, theme.quiet());
        let text = row.text.cut(usize::from(free), theme.signs.cut);
        paint::put(buffer, (area.x, y), free, &text, style(row.kind, theme));
        for part in &row.strong {
            let before = columns(&row.text.slice(0..part.start));
            let room = free.saturating_sub(before);
            let place = (area.x.saturating_add(before), y);
            paint::put(buffer, place, room, &row.text.slice(part.clone()), theme.strong());
        }
    }
}

fn columns(text: &super::clean::Clean) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

fn style(kind: RowKind, theme: Theme) -> Style {
    match kind {
        RowKind::Speaker => theme.strong(),
        RowKind::Body => theme.text(),
        RowKind::Quiet => theme.quiet(),
        RowKind::Notice => theme.warning(),
        RowKind::Keys => theme.accent(),
    }
}
