//! Whole screens as text, and what must hold for every screen.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::app::State;
use crate::view::draw;

mod screens;

/// Text cannot get around [`super::paint`], which takes clean text only.
#[test]
fn only_the_brush_writes_into_the_buffer() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/view");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() || path.ends_with("paint.rs") {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        for way_around in
            ["set_str", "set_symbol", "set_line", "set_span", "set_char", "Span", "Paragraph"]
        {
            assert!(!source.contains(way_around), "{} in {}", way_around, path.display());
        }
    }
}

/// Without colours nothing depends on them; with them only the palette's own are used.
#[test]
fn no_color_means_no_colour_in_any_cell() {
    use crate::app::tests::peer::Peer;
    use crate::theme::{Charset, Colours, Theme};
    let mut peer = Peer::online(120, 40);
    peer.state.theme = Theme::new(Colours::None, Charset::Unicode);
    peer.queue_entries(&["one"]);
    peer.ask("two");
    let (buffer, _) = drawn(&peer.state);
    let plain = ratatui::style::Color::Reset;
    assert!(buffer.content.iter().all(|cell| (cell.fg, cell.bg) == (plain, plain)));
}

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
