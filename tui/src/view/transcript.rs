//! The conversation, or a welcome while there is none.

use ratatui::buffer::Buffer;
use usher_shared::client::LinkState;

use super::clean::Clean;
use super::wrap::wrap;
use super::{paint, rows};
use crate::app::{Areas, Row, RowKind, State};
use crate::keymap::{Command, Context, key_for};

pub(super) fn draw(state: &State, areas: &Areas, buffer: &mut Buffer) {
    let theme = state.theme;
    let area = areas.transcript_text();
    let (columns, height) = (usize::from(area.width), usize::from(area.height));
    let is_empty = state.mirror().is_none_or(|mirror| mirror.messages().is_empty());
    if is_empty {
        rows::draw(&welcome(state, columns), theme, area, buffer);
    } else {
        let window = state.transcript_window(columns, height);
        rows::draw(&window.rows, theme, area, buffer);
    }
    composer_rule(state, areas, buffer);
}

/// The hairline below the conversation, which says when there is more below.
fn composer_rule(state: &State, areas: &Areas, buffer: &mut Buffer) {
    let theme = state.theme;
    let mut facts = Vec::new();
    if !state.transcript.follows()
        && let Some(key) = key_for(Context::Chat, Command::PageDown)
    {
        let text = state.text_with("tui-more-below", &[("key", key.to_string().into())]);
        facts.push((text, theme.accent()));
    }
    let label = (&Clean::default(), theme.quiet());
    paint::labelled_rule(buffer, areas.composer_rule, theme, label, &facts);
}

fn welcome(state: &State, columns: usize) -> Vec<Row> {
    let mut text = String::from("\n");
    match state.mirror() {
        Some(mirror) => {
            let key = |command| key_for(Context::Chat, command).map(|key| key.to_string());
            let arguments = [
                ("agent", mirror.session().agent.as_str().into()),
                ("queue", key(Command::FocusQueue).unwrap_or_default().into()),
                ("help", key(Command::Help).unwrap_or_default().into()),
            ];
            text.push_str(&state.localizer.text_with("tui-welcome", &arguments));
        }
        None => text.push_str(&state.localizer.text(match state.engine.link() {
            LinkState::Online { .. } => "tui-opening",
            LinkState::Connecting | LinkState::Greeting | LinkState::Waiting { .. } => {
                "tui-waiting-for-server"
            }
            LinkState::Refused(_) => "tui-refused",
        })),
    }
    wrap(&text, columns).into_iter().map(|row| Row::new(RowKind::Body, row)).collect()
}
