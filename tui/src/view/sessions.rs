//! The caller's sessions: beside the chat on wide screens, in its place on narrow ones.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::clean::Clean;
use super::paint;
use crate::app::{Areas, Focus, Shape, State, inset};

pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let theme = state.theme;
    if Areas::new(state).is_some_and(|areas| areas.shape == Shape::Wide) {
        draw_edge(state, area, buffer);
    }
    let has_focus = state.focus == Focus::Sessions;
    let title_style = if has_focus { theme.accent() } else { theme.quiet() };
    let title = state.text("tui-sessions");
    let text = inset(area, 1, 0);
    paint::put(buffer, (text.x, text.y), text.width, &title, title_style);

    let sessions = state.sessions.list();
    let open = state.mirror().map(|mirror| mirror.session().id);
    let selected = state.sessions.selected().filter(|_| has_focus);
    let list = Rect { y: text.y + 1, height: text.height.saturating_sub(1), ..text };
    let rows = usize::from(list.height);
    let at = sessions.iter().position(|session| Some(session.id) == selected);
    let first = at.map_or(0, |at| (at + 1).saturating_sub(rows));
    for (session, y) in sessions.iter().skip(first).zip(list.top()..list.bottom()) {
        let is_selected = Some(session.id) == selected;
        let is_open = Some(session.id) == open;
        let sign = match (is_selected, is_open) {
            (true, _) => theme.signs.selected,
            (false, true) => theme.signs.folded,
            (false, false) => " ",
        };
        let style = match (is_selected, is_open) {
            (true, _) => theme.accent(),
            (false, true) => theme.strong(),
            (false, false) => theme.text(),
        };
        let row = Rect { y, height: 1, ..list };
        let waiting = match state.mirror() {
            Some(mirror) if is_open => mirror.queue().count,
            Some(_) | None => state.sessions.waiting(session),
        };
        let right = match waiting {
            // What was not delivered is more urgent than what waits.
            _ if !is_open && state.undelivered_in(session.id) > 0 => Clean::line(" ! "),
            0 if state.sessions.is_ambiguous(session) => {
                Clean::line(&state.clock.hours_and_minutes(session.created_at))
            }
            0 => Clean::default(),
            count => Clean::line(&format!(" {count} ")),
        };
        let free = paint::put_right(buffer, row, &right, theme.quiet());
        let title = Clean::line(&format!("{sign} {}", state.sessions.title_of(session)));
        let title = title.cut(usize::from(free), theme.signs.cut);
        paint::put(buffer, (row.x, y), free, &title, style);
    }
}

/// The hairline between the list and the chat.
fn draw_edge(state: &State, area: Rect, buffer: &mut Buffer) {
    let signs = state.theme.signs;
    let quiet = state.theme.quiet();
    let edge = Clean::line(signs.vertical);
    let x = area.right();
    for y in area.top()..area.bottom() {
        paint::put(buffer, (x, y), 1, &edge, quiet);
    }
    let meets = [(area.top() - 1, signs.tee_down), (area.bottom(), signs.tee_up)];
    for (y, sign) in meets {
        paint::put(buffer, (x, y), 1, &Clean::line(sign), quiet);
    }
}

/// Where the hairlines of the chat meet that edge.
pub(super) fn draw_joints(state: &State, area: Rect, areas: &Areas, buffer: &mut Buffer) {
    let joint = Clean::line(state.theme.signs.tee_right);
    for part in [areas.permission, areas.queue, areas.composer_rule] {
        if part.height > 0 {
            paint::put(buffer, (area.right(), part.y), 1, &joint, state.theme.quiet());
        }
    }
}
