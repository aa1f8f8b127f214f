//! Draws the state. Pure: the same state gives the same screen. One file per part of the screen;
//! text reaches it through [`clean::Clean`] and `paint` only.

pub mod clean;
mod composer;
mod header;
mod help;
mod paint;
mod permission;
pub(crate) mod queue;
mod rows;
mod sessions;
mod status;
mod transcript;
pub mod wrap;

#[cfg(test)]
pub(crate) mod tests;

use ratatui::buffer::Buffer;
use ratatui::layout::Position;

use crate::app::{Areas, Focus, Shape, State};

/// Draws the whole screen and returns where the caret is, if it is to be seen.
pub fn draw(state: &State, buffer: &mut Buffer) -> Option<Position> {
    buffer.reset();
    let Some(areas) = Areas::new(state) else {
        too_small(state, buffer);
        return None;
    };
    header::draw(state, &areas, buffer);
    status::draw(state, &areas, buffer);
    if let Some(sidebar) = areas.sidebar {
        sessions::draw(state, sidebar, buffer);
    }
    match (state.focus, areas.shape) {
        (Focus::Help, _) => {
            help::draw(state, &areas, buffer);
            return None;
        }
        (Focus::Sessions, Shape::Narrow) => {
            sessions::draw(state, areas.body(), buffer);
            return None;
        }
        (Focus::Chat | Focus::Queue, _) | (Focus::Sessions, Shape::Wide) => {}
    }
    transcript::draw(state, &areas, buffer);
    permission::draw(state, areas.permission, buffer);
    queue::draw(state, areas.queue, buffer);
    if let Some(sidebar) = areas.sidebar {
        sessions::draw_joints(state, sidebar, &areas, buffer);
    }
    composer::draw(state, &areas, buffer)
}

fn too_small(state: &State, buffer: &mut Buffer) {
    let area = buffer.area;
    let text = state.localizer.text("tui-too-small");
    let rows = wrap::wrap(&text, usize::from(area.width));
    for (row, y) in rows.iter().zip(area.top()..area.bottom()) {
        paint::put(buffer, (area.x, y), area.width, row, state.theme.text());
    }
}
