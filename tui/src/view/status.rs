//! The last line: the keys that matter now, and how long the turn has been running.

use ratatui::buffer::Buffer;
use usher_shared::protocol::session::SessionState;

use super::clean::Clean;
use super::paint;
use crate::app::{Areas, Shape, State, inset};

pub(super) fn draw(state: &State, areas: &Areas, buffer: &mut Buffer) {
    let theme = state.theme;
    if areas.shape == Shape::Wide {
        paint::rule(buffer, areas.status_rule, theme);
    }
    let area = inset(areas.status, 1, 1);
    let turn = turn(state, areas.shape);
    let free = paint::put_right(buffer, area, &turn, theme.quiet());
    let dot = Clean::line(&format!(" {} ", theme.signs.dot));
    let mut x = area.x;
    let end = area.x + free.saturating_sub(if turn.is_empty() { 0 } else { 1 });
    for (index, (key, label)) in state.hints().into_iter().enumerate() {
        let key = Clean::line(&key);
        let label = Clean::line(" ").and(&label);
        let gap = if index == 0 { 0 } else { dot.width() };
        let width = gap + key.width() + label.width();
        if usize::from(end - x) < width {
            // The rest matters less.
            break;
        }
        if index > 0 {
            x = paint::put(buffer, (x, area.y), end - x, &dot, theme.quiet());
        }
        x = paint::put(buffer, (x, area.y), end - x, &key, theme.strong());
        x = paint::put(buffer, (x, area.y), end - x, &label, theme.quiet());
    }
}

fn turn(state: &State, shape: Shape) -> Clean {
    let (Some(mirror), Some(millis)) = (state.mirror(), state.turn_millis()) else {
        return Clean::default();
    };
    let seconds = millis / 1_000;
    let time = match seconds / 3_600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    };
    let id = match (shape, mirror.session().state) {
        (_, SessionState::Cancelling) => "tui-turn-stops",
        (Shape::Narrow, _) => return Clean::line(&time),
        (Shape::Wide, SessionState::AwaitingPermission) => "tui-turn-asks",
        (Shape::Wide, SessionState::Starting) => "tui-turn-starts",
        (Shape::Wide, SessionState::Running | SessionState::Idle) => "tui-turn-runs",
    };
    state.text_with(id, &[("time", time.into())])
}
