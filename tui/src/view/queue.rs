//! What waits, and whether it will start by itself.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use usher_shared::protocol::queue::{
    AutoRunReason, Blocked, QueueStatus, QueuedMessage, SenderKind, StatusEntry,
};

use super::clean::Clean;
use super::paint;
use crate::app::{Focus, State, inset};
use crate::keymap::{Command, Context, key_for};

pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let Some(mirror) = state.mirror() else { return };
    if area.height == 0 {
        return;
    }
    let queue = mirror.queue();
    let theme = state.theme;
    let label_style = match state.focus {
        Focus::Queue => theme.accent(),
        Focus::Chat | Focus::Sessions | Focus::Help => theme.strong(),
    };
    let rows = usize::from(area.height - 1);
    let hidden = queue.entries.len().saturating_sub(rows);
    let facts = facts(state, queue, hidden);
    paint::labelled_rule(
        buffer,
        area,
        theme,
        (&count(state, queue), label_style),
        &facts,
    );
    let list = Rect {
        y: area.y + 1,
        height: area.height - 1,
        ..inset(area, 0, 1)
    };
    if queue.entries.is_empty() {
        let text = Clean::line("  ").and(&state.text("tui-queue-empty"));
        paint::put(buffer, (list.x, list.y), list.width, &text, theme.quiet());
        return;
    }
    let selected = match state.focus {
        Focus::Queue => state.queue.selected(),
        Focus::Chat | Focus::Sessions | Focus::Help => None,
    };
    let at = queue
        .entries
        .iter()
        .position(|entry| Some(entry.id()) == selected);
    // The selected entry is in sight, the first ones otherwise.
    let first = at.map_or(0, |at| (at + 1).saturating_sub(rows));
    let digits = queue.entries.len().to_string().len();
    let shown = queue.entries.iter().enumerate().skip(first);
    for ((index, entry), y) in shown.zip(list.top()..list.bottom()) {
        let row = Rect {
            y,
            height: 1,
            ..list
        };
        let is_selected = Some(entry.id()) == selected;
        let ordinal = format!("{:>digits$}", index + 1);
        draw_entry(state, entry, &ordinal, is_selected, row, buffer);
    }
}

fn count(state: &State, queue: &QueueStatus) -> Clean {
    let arguments = [("count", queue.count.into()), ("max", queue.max.into())];
    match queue.max {
        0 => state.text_with("tui-queue-count", &arguments),
        _ => state.text_with("tui-queue-count-of", &arguments),
    }
}

fn facts(state: &State, queue: &QueueStatus, hidden: usize) -> Vec<(Clean, Style)> {
    let theme = state.theme;
    let mut facts = vec![auto_run(state, queue)];
    if state.focus != Focus::Queue
        && !queue.entries.is_empty()
        && let Some(key) = key_for(Context::Chat, Command::FocusQueue)
    {
        let text = state.text_with("tui-queue-edit", &[("key", key.to_string().into())]);
        facts.push((text, theme.accent()));
    }
    if hidden > 0 {
        let text = state.text_with("tui-queue-hidden", &[("count", hidden.into())]);
        facts.insert(1, (text, theme.quiet()));
    }
    facts
}

fn auto_run(state: &State, queue: &QueueStatus) -> (Clean, Style) {
    let id = match (queue.auto_run, queue.auto_run_reason, queue.blocked) {
        (true, _, None) => "tui-auto-run-on",
        (true, _, Some(Blocked::HeadEditing)) => "tui-auto-run-head-editing",
        (true, _, Some(Blocked::HeadHeld)) => "tui-auto-run-head-held",
        (false, None, _) => "tui-auto-run-off",
        (false, Some(AutoRunReason::User), _) => "tui-auto-run-off-user",
        (false, Some(AutoRunReason::Cancelled), _) => "tui-auto-run-off-cancelled",
        (false, Some(AutoRunReason::Failed), _) => "tui-auto-run-off-failed",
        (false, Some(AutoRunReason::Refused), _) => "tui-auto-run-off-refused",
        (false, Some(AutoRunReason::Interrupted), _) => "tui-auto-run-off-interrupted",
        (false, Some(AutoRunReason::UncertainTurn), _) => "tui-auto-run-off-uncertain",
    };
    let style = if queue.auto_run {
        state.theme.quiet()
    } else {
        state.theme.warning()
    };
    (state.text(id), style)
}

fn draw_entry(
    state: &State,
    entry: &StatusEntry,
    ordinal: &str,
    is_selected: bool,
    row: Rect,
    buffer: &mut Buffer,
) {
    let theme = state.theme;
    let style = if is_selected {
        theme.accent()
    } else {
        theme.text()
    };
    let sign = if is_selected {
        theme.signs.selected
    } else {
        " "
    };
    let start = Clean::line(&format!("{sign}{ordinal}  "));
    let x = paint::put(buffer, (row.x, row.y), row.width, &start, style);
    let rest = inset(row, x - row.x, 0);
    let (text, right) = match entry {
        StatusEntry::Whole(entry) => (Clean::line(entry.content.trim()), whole_right(state, entry)),
        StatusEntry::Stub { .. } => (state.text("tui-queue-stub"), Clean::default()),
    };
    let free = paint::put_right(buffer, rest, &right, theme.quiet());
    let free = free.saturating_sub(if right.is_empty() { 0 } else { 2 });
    let text = text.cut(usize::from(free), theme.signs.cut);
    paint::put(buffer, (rest.x, row.y), free, &text, style);
}

/// Who edits an entry, what is attached to it, and who sent it.
fn whole_right(state: &State, entry: &QueuedMessage) -> Clean {
    let mut parts = Vec::new();
    if let Some(editing) = &entry.editing {
        let arguments = [
            ("sign", state.theme.signs.editing.into()),
            ("name", editing.by.name.as_str().into()),
        ];
        parts.push(state.text_with("tui-queue-editing", &arguments));
    }
    if !entry.attachments.is_empty() {
        let arguments = [("count", entry.attachments.len().into())];
        parts.push(state.text_with("tui-queue-files", &arguments));
    }
    let me = state.engine.hello().map(|hello| hello.user.id.to_string());
    let is_me =
        entry.queued_by.kind == SenderKind::User && Some(&entry.queued_by.id) == me.as_ref();
    if !is_me {
        parts.push(Clean::line(&entry.queued_by.name));
    }
    let gap = Clean::line("  ");
    let join = |all: Clean, part: &Clean| match all.is_empty() {
        true => part.clone(),
        false => all.and(&gap).and(part),
    };
    parts.iter().fold(Clean::default(), join)
}
