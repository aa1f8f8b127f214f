//! Whole screens as text, and what must hold for every screen.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use usher_shared::protocol::transcript::{MessageMetadata, MessageStatus, Role};

use crate::app::State;
use crate::app::tests::peer::Peer;
use crate::view::draw;

mod screens;

/// Draws the screen.
pub(crate) fn drawn(state: &State) -> (Buffer, Option<Position>) {
    let (columns, rows) = state.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    let caret = draw(state, &mut buffer);
    (buffer, caret)
}

/// Returns the screen as text, without blanks at the ends of rows; the caret is a `█`.
pub(crate) fn screen(state: &State) -> String {
    let (mut buffer, caret) = drawn(state);
    if let Some(caret) = caret {
        buffer[caret].set_symbol("█");
    }
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut row = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            row.push_str(symbol);
            x += u16::try_from(unicode_width::UnicodeWidthStr::width(symbol)).unwrap().max(1);
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}
