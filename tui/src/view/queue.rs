//! What waits, and whether it will start by itself.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use usher_shared::protocol::entry::{QueuedMessage, StatusEntry};
use usher_shared::protocol::queue::QueueStatus;
use usher_shared::vocabulary::{AutoRunReason, Blocked, SenderKind};

use super::clean::Clean;
use super::paint;
use crate::app::{Focus, State, inset};
use crate::keymap::{Command, Context, key_for};

/// From this many columns on the hairline has room for all that is to be said.
const ROOMY_COLUMNS: u16 = 60;

pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let Some(mirror) = state.mirror() else { return };
    if area.height == 0 {
        return;
    }
    let queue = mirror.queue();
    let mut list = Rect { y: area.y + 1, height: area.height - 1, ..inset(area, 0, 1) };
    if let Some(said) = auto_run_row(state, area.width).filter(|_| list.height > 0) {
        let place = (list.x + 1, list.y);
        paint::put(buffer, place, list.width - 1, &said, auto_run_style(state, queue));
        list = Rect { y: list.y + 1, height: list.height - 1, ..list };
    }
    let hidden = queue.entries.len().saturating_sub(usize::from(list.height));
    draw_rule(state, queue, hidden, area, buffer);
    draw_list(state, queue, list, buffer);
}

fn draw_rule(state: &State, queue: &QueueStatus, hidden: usize, area: Rect, buffer: &mut Buffer) {
    let theme = state.theme;
    let style = match state.focus {
        Focus::Queue => theme.accent(),
        Focus::Chat | Focus::Sessions | Focus::Help => theme.strong(),
    };
    let facts = facts(state, queue, hidden, area.width);
    paint::labelled_rule(buffer, area, theme, (&count(state, queue), style), &facts);
}

fn draw_list(state: &State, queue: &QueueStatus, list: Rect, buffer: &mut Buffer) {
    if queue.entries.is_empty() && list.height > 0 {
        let text = Clean::line("  ").and(&state.text("tui-queue-empty"));
        paint::put(buffer, (list.x, list.y), list.width, &text, state.theme.quiet());
    }
    let selected = match state.focus {
        Focus::Queue => state.queue.selected(),
        Focus::Chat | Focus::Sessions | Focus::Help => None,
    };
    let at = queue.entries.iter().position(|entry| Some(entry.id()) == selected);
    // The selected entry is in sight, the first ones otherwise.
    let first = at.map_or(0, |at| (at + 1).saturating_sub(usize::from(list.height)));
    let digits = queue.entries.len().to_string().len();
    let shown = queue.entries.iter().enumerate().skip(first);
    for ((index, entry), y) in shown.zip(list.top()..list.bottom()) {
        let row = Rect { y, height: 1, ..list };
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

fn facts(state: &State, queue: &QueueStatus, hidden: usize, columns: u16) -> Vec<(Clean, Style)> {
    let theme = state.theme;
    let hidden = (hidden > 0)
        .then(|| (state.text_with("tui-queue-hidden", &[("count", hidden.into())]), theme.quiet()));
    let waits = !queue.entries.is_empty() || !queue.auto_run;
    let has_keys = state.focus != Focus::Queue && waits;
    if columns >= ROOMY_COLUMNS {
        let auto_run = (state.text(auto_run(queue)), auto_run_style(state, queue));
        let keys = if queue.auto_run { "tui-queue-edit" } else { "tui-queue-resume" };
        let keys = has_keys.then(|| (key_path(state, keys), theme.accent()));
        return hidden.into_iter().chain([auto_run]).chain(keys).collect();
    }
    // What matters less has no room. That auto-run is off has a row of its own, which names the
    // keys too if it can.
    let auto_run = (state.text(on_or_off(queue)), auto_run_style(state, queue));
    let auto_run = Some(auto_run).filter(|_| queue.auto_run && (hidden.is_none() || !has_keys));
    let taken = count(state, queue).width() + 3;
    let taken = taken + hidden.as_ref().map_or(0, |(text, _)| text.width() + 3);
    let resume = key_path(state, "tui-queue-resume-narrow");
    let fits = taken + resume.width() + 3 < usize::from(columns);
    let is_named = resume_beside(state, queue, columns).is_some();
    let keys = match queue.auto_run {
        false if fits && !is_named => resume,
        _ => key_path(state, "tui-queue-key"),
    };
    let keys = has_keys.then(|| (keys, theme.accent()));
    hidden.into_iter().chain(auto_run).chain(keys).collect()
}

/// Returns the way into the queue, and to what can be done there.
fn key_path(state: &State, id: &str) -> Clean {
    let name = |context, command| {
        let key = key_for(context, command);
        key.map(|key| key.to_string()).unwrap_or_default()
    };
    let key = name(Context::Chat, Command::FocusQueue);
    let resume = name(Context::Queue, Command::ToggleAutoRun);
    state.text_with(id, &[("key", key.into()), ("resume", resume.into())])
}

/// Returns what is to be said of auto-run where the hairline has no room for it.
pub(crate) fn auto_run_row(state: &State, columns: u16) -> Option<Clean> {
    let queue = state.mirror()?.queue();
    let said = auto_run(queue);
    let is_ordinary = said == "tui-auto-run-on";
    (columns < ROOMY_COLUMNS && !is_ordinary).then(|| {
        let said = state.text(said);
        match resume_beside(state, queue, columns) {
            Some(keys) => said.and(&dot(state)).and(&keys),
            None => said,
        }
    })
}

/// Returns how auto-run is resumed if there is room for it beside why it is off.
fn resume_beside(state: &State, queue: &QueueStatus, columns: u16) -> Option<Clean> {
    let is_wanted = !queue.auto_run && state.focus != Focus::Queue;
    let keys = key_path(state, "tui-queue-resume-narrow");
    let width = state.text(auto_run(queue)).width() + dot(state).width() + keys.width();
    // The list has a blank at both edges.
    (is_wanted && width + 2 <= usize::from(columns)).then_some(keys)
}

fn dot(state: &State) -> Clean {
    Clean::line(&format!(" {} ", state.theme.signs.dot))
}

fn on_or_off(queue: &QueueStatus) -> &'static str {
    if queue.auto_run { "tui-auto-run-on" } else { "tui-auto-run-off" }
}

fn auto_run(queue: &QueueStatus) -> &'static str {
    match (queue.auto_run, queue.auto_run_reason, queue.blocked) {
        (true, _, None) => "tui-auto-run-on",
        (true, _, Some(Blocked::HeadEditing)) => "tui-auto-run-head-editing",
        (true, _, Some(Blocked::HeadHeld)) => "tui-auto-run-head-held",
        (false, None | Some(AutoRunReason::User), _) => "tui-auto-run-off",
        (false, Some(AutoRunReason::Cancelled), _) => "tui-auto-run-off-cancelled",
        (false, Some(AutoRunReason::Failed), _) => "tui-auto-run-off-failed",
        (false, Some(AutoRunReason::Refused), _) => "tui-auto-run-off-refused",
        (false, Some(AutoRunReason::Interrupted), _) => "tui-auto-run-off-interrupted",
        (false, Some(AutoRunReason::UncertainTurn), _) => "tui-auto-run-off-uncertain",
    }
}

fn auto_run_style(state: &State, queue: &QueueStatus) -> Style {
    if queue.auto_run { state.theme.quiet() } else { state.theme.warning() }
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
    let style = if is_selected { theme.accent() } else { theme.text() };
    let sign = if is_selected { theme.signs.selected } else { " " };
    let start = Clean::line(&format!("{sign}{ordinal}  "));
    let x = paint::put(buffer, (row.x, row.y), row.width, &start, style);
    let rest = inset(row, x - row.x, 0);
    let is_narrow = row.width < ROOMY_COLUMNS;
    let (text, right) = match entry {
        StatusEntry::Whole(entry) if is_narrow => {
            let sign = entry.editing.as_ref().map_or("", |_| theme.signs.editing);
            (Clean::line(format!("{sign} {}", entry.content.trim()).trim_start()), Clean::default())
        }
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
        let arguments =
            [("sign", state.theme.signs.editing.into()), ("name", editing.by.name.as_str().into())];
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
