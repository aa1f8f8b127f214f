//! The first line: what is open, which agent answers, and how the link is.

use ratatui::buffer::Buffer;
use ratatui::style::Style;
use usher_shared::client::LinkState;

use super::clean::Clean;
use super::paint;
use crate::app::{Areas, Shape, State};
use crate::driver::Trouble;

/// Round trips below this are all the same to a person, milliseconds.
const ROUND_TRIP_SHOWN_MS: u64 = 5;

pub(super) fn draw(state: &State, areas: &Areas, buffer: &mut Buffer) {
    let theme = state.theme;
    let area = crate::app::inset(areas.header, 1, 1);
    let (link, link_style) = link(state);
    let right = match (areas.shape, state.mirror()) {
        (Shape::Wide, Some(mirror)) => {
            let agent = Clean::line(&mirror.session().agent);
            let arguments = [("agent", agent.as_str().into()), ("dot", theme.signs.dot.into())];
            state.text_with("tui-header-agent", &arguments)
        }
        (Shape::Wide, None) | (Shape::Narrow, _) => Clean::default(),
    };
    let free = paint::put_right(buffer, area, &link, link_style);
    let rest = ratatui::layout::Rect { width: free, ..area };
    let free = paint::put_right(buffer, rest, &right, theme.quiet());
    let title = title(state, areas.shape).cut(usize::from(free.saturating_sub(1)), theme.signs.cut);
    paint::put(buffer, (area.x, area.y), free, &title, theme.strong());
    paint::rule(buffer, areas.rule, theme);
}

fn title(state: &State, shape: Shape) -> Clean {
    let Some(mirror) = state.mirror() else {
        return state.text("tui-name");
    };
    let session = mirror.session();
    let title = state.sessions.title_of(session);
    let task = state.sessions.task(session.task_id);
    match (shape, task.map(|task| task.title.as_str())) {
        (Shape::Wide, Some(task)) if task != title && !task.is_empty() => state.text_with(
            "tui-header-task-and-session",
            &[
                ("task", task.into()),
                ("session", title.into()),
                ("dot", state.theme.signs.dot.into()),
            ],
        ),
        (Shape::Wide, _) => state.text_with("tui-header-session", &[("session", title.into())]),
        (Shape::Narrow, _) => Clean::line(title),
    }
}

fn link(state: &State) -> (Clean, Style) {
    let theme = state.theme;
    let with_sign = |id: &str, sign: &str| state.text_with(id, &[("sign", sign.into())]);
    match state.engine.link() {
        LinkState::Connecting | LinkState::Greeting => {
            (with_sign("tui-link-connecting", theme.signs.connecting), theme.warning())
        }
        LinkState::Online { round_trip_ms: Some(millis) } if *millis >= ROUND_TRIP_SHOWN_MS => {
            let arguments =
                [("sign", theme.signs.online.into()), ("millis", two_digits(*millis).into())];
            (state.text_with("tui-link-round-trip", &arguments), theme.quiet())
        }
        LinkState::Online { .. } => {
            (with_sign("tui-link-online", theme.signs.online), theme.quiet())
        }
        LinkState::Waiting { .. } => {
            let id = state.trouble.as_ref().map_or("tui-link-offline", Trouble::brief);
            (with_sign(id, theme.signs.offline), theme.warning())
        }
        LinkState::Refused(_) => {
            (with_sign("tui-link-refused", theme.signs.offline), theme.warning())
        }
    }
}

/// Rounds so that small changes do not show.
fn two_digits(millis: u64) -> u64 {
    let mut step = 1;
    while millis / step >= 100 {
        step *= 10;
    }
    (millis + step / 2) / step * step
}
