//! The brush: the only code that writes text into the buffer, and it takes clean text only.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::clean::Clean;
use crate::theme::Theme;

/// Writes `text` at a place, at most `columns` of it, and returns the column after it.
pub(super) fn put(
    buffer: &mut Buffer,
    (x, y): (u16, u16),
    columns: u16,
    text: &Clean,
    style: Style,
) -> u16 {
    if !buffer.area.contains((x, y).into()) {
        return x;
    }
    let (next, _) = buffer.set_stringn(x, y, text.as_str(), usize::from(columns), style);
    next
}

/// Writes `text` so that it ends at the right edge of `area`'s first row, and returns the columns
/// left of it.
pub(super) fn put_right(buffer: &mut Buffer, area: Rect, text: &Clean, style: Style) -> u16 {
    let width = u16::try_from(text.width()).unwrap_or(u16::MAX).min(area.width);
    let x = area.right() - width;
    put(buffer, (x, area.y), width, text, style);
    area.width - width
}

/// Draws a hairline through the first row of `area`.
pub(super) fn rule(buffer: &mut Buffer, area: Rect, theme: Theme) {
    let sign = Clean::line(theme.signs.horizontal);
    for x in area.left()..area.right() {
        put(buffer, (x, area.y), 1, &sign, theme.quiet());
    }
}

/// Draws a hairline with a label near its start and `facts` near its end, as many as fit, the
/// first ones last to go.
pub(super) fn labelled_rule(
    buffer: &mut Buffer,
    area: Rect,
    theme: Theme,
    label: (&Clean, Style),
    facts: &[(Clean, Style)],
) {
    if area.height == 0 {
        return;
    }
    rule(buffer, area, theme);
    let (text, style) = label;
    let after = boxed(buffer, area.x + 1, area, text, style);
    let mut fitting = facts.len();
    let width_of = |facts: &[(Clean, Style)]| facts.iter().map(|(fact, _)| fact.width() + 3).sum();
    let room = usize::from(area.right().saturating_sub(after));
    while fitting > 0 && room <= width_of(&facts[..fitting]) {
        fitting -= 1;
    }
    let facts = &facts[..fitting];
    let width: usize = width_of(facts);
    let mut x = area.right() - u16::try_from(width).unwrap_or(0);
    for (fact, style) in facts {
        x = boxed(buffer, x, area, fact, *style) + 1;
    }
}

/// Writes text with a blank on both sides, unless there is none, and returns the column after it.
fn boxed(buffer: &mut Buffer, x: u16, area: Rect, text: &Clean, style: Style) -> u16 {
    if text.is_empty() {
        return x;
    }
    let blank = Clean::line(" ");
    let columns = area.right().saturating_sub(x);
    let x = put(buffer, (x, area.y), columns, &blank, style);
    let columns = area.right().saturating_sub(x);
    let x = put(buffer, (x, area.y), columns, text, style);
    let columns = area.right().saturating_sub(x);
    put(buffer, (x, area.y), columns, &blank, style)
}
