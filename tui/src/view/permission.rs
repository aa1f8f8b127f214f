//! The agent's question, with the keys that answer it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::paint;
use crate::app::{CardFocus, State, inset};

pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let Some(mirror) = state.mirror() else { return };
    if area.height == 0 {
        return;
    }
    let theme = state.theme;
    let agent = mirror.session().agent.as_str();
    let label = state.text_with("tui-permission-title", &[("agent", agent.into())]);
    let focus = state.card_focus();
    let style = match focus {
        CardFocus::Focused => theme.accent(),
        CardFocus::None | CardFocus::Guarded | CardFocus::Aside | CardFocus::Answered => {
            theme.warning()
        }
    };
    let mut facts = Vec::new();
    let waiting = mirror.queue().entries.len();
    if waiting > 0 {
        let text = state.text_with("tui-permission-behind", &[("count", waiting.into())]);
        facts.push((text, theme.quiet()));
    }
    paint::labelled_rule(buffer, area, theme, (&label, style), &facts);
    let text = inset(area, 2, 1);
    let columns = usize::from(text.width);
    let call = state.permission_rows(columns, usize::from(state.size.1) / 2);
    let options = state.permission_options(columns);
    let styled =
        call.iter().map(|row| (row, theme.text())).chain(options.iter().map(|row| (row, style)));
    for ((row, style), y) in styled.zip(text.top() + 1..text.bottom()) {
        paint::put(buffer, (text.x, y), text.width, row, style);
    }
}
