//! Where everything is on the screen.

use ratatui::layout::Rect;

use super::composer::Layout;
use super::message_rows::Row;
use super::state::{Focus, State};
use crate::view::queue::auto_run_row;

/// Below this many columns and rows nothing useful fits.
pub(crate) const SIZE_MIN: (u16, u16) = (40, 10);
/// From this many columns on the sessions are listed beside the chat.
const WIDE_COLUMNS: u16 = 100;
/// Columns of that list.
const SIDEBAR_COLUMNS: u16 = 22;
/// Rows of the transcript that nothing may take.
const TRANSCRIPT_ROWS_MIN: u16 = 2;

/// How the screen is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The sessions beside the chat.
    Wide,
    /// One column.
    Narrow,
}

/// The areas, from top to bottom. What has nothing to show has no rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Areas {
    pub(crate) shape: Shape,
    pub(crate) header: Rect,
    /// The hairline below the header.
    pub(crate) rule: Rect,
    /// Wide only.
    pub(crate) sidebar: Option<Rect>,
    pub(crate) transcript: Rect,
    /// The agent's question, its hairline included.
    pub(crate) permission: Rect,
    /// The queue, its hairline included.
    pub(crate) queue: Rect,
    /// The hairline above the composer.
    pub(crate) composer_rule: Rect,
    pub(crate) notices: Rect,
    pub(crate) composer: Rect,
    /// Wide only: the hairline above the status line.
    pub(crate) status_rule: Rect,
    pub(crate) status: Rect,
}

impl Areas {
    /// Divides the screen; None if it is too small.
    pub(crate) fn new(state: &State) -> Option<Self> {
        let (columns, rows) = state.size;
        if columns < SIZE_MIN.0 || rows < SIZE_MIN.1 {
            return None;
        }
        let shape = if columns >= WIDE_COLUMNS { Shape::Wide } else { Shape::Narrow };
        let (left, status_rule) = match shape {
            Shape::Wide => (SIDEBAR_COLUMNS + 1, 1),
            Shape::Narrow => (0, 0),
        };
        let width = columns - left;
        // Header, its hairline, the composer's hairline, one row of the composer, the status line.
        let fixed = 5 + status_rule + TRANSCRIPT_ROWS_MIN;
        let mut free = rows - fixed;
        let mut take = |wanted: usize| {
            let taken = free.min(u16::try_from(wanted).unwrap_or(u16::MAX));
            free -= taken;
            taken
        };
        let composer_rows_max = usize::from(rows / 3).max(1);
        let composer = 1 + take(state.composer_layout().height().min(composer_rows_max) - 1);
        let permission = take(state.permission_height(width, rows));
        let notices = take(state.notice_rows(usize::from(width) - 3).len());
        let queue = take(state.queue_height(width, rows));
        let transcript = TRANSCRIPT_ROWS_MIN + free;

        let mut y = 0;
        let mut next = |height: u16| {
            let area = Rect::new(left, y, width, height);
            y += height;
            area
        };
        let full = |area: Rect| Rect::new(0, area.y, columns, area.height);
        let header = full(next(1));
        let rule = full(next(1));
        let transcript = next(transcript);
        let permission = next(permission);
        let queue = next(queue);
        let composer_rule = next(1);
        let notices = next(notices);
        let composer = next(composer);
        let status_rule = full(next(status_rule));
        let status = full(next(1));
        let sidebar = Rect::new(0, rule.bottom(), SIDEBAR_COLUMNS, status_rule.y - rule.bottom());
        Some(Self {
            shape,
            header,
            rule,
            sidebar: (shape == Shape::Wide).then_some(sidebar),
            transcript,
            permission,
            queue,
            composer_rule,
            notices,
            composer,
            status_rule,
            status,
        })
    }

    /// Everything between the header and the status line, beside the list of sessions.
    pub(crate) fn body(&self) -> Rect {
        Rect { height: self.composer.bottom() - self.transcript.y, ..self.transcript }
    }

    /// The part of the body that holds text.
    pub(crate) fn body_text(&self) -> Rect {
        inset(self.body(), self.left(), 1)
    }

    /// The part of the transcript that holds text.
    pub(crate) fn transcript_text(&self) -> Rect {
        inset(self.transcript, self.left(), 1)
    }

    fn left(&self) -> u16 {
        match self.shape {
            Shape::Wide => 2,
            Shape::Narrow => 1,
        }
    }

    /// The part of the composer that holds text: the sign is to its left.
    pub(crate) fn composer_text(&self) -> Rect {
        inset(self.composer, COMPOSER_LEFT, 0)
    }
}

/// Columns left of the draft.
const COMPOSER_LEFT: u16 = 3;

/// Cuts columns off both sides.
pub(crate) fn inset(area: Rect, left: u16, right: u16) -> Rect {
    Rect { x: area.x + left, width: area.width.saturating_sub(left + right), ..area }
}

impl State {
    /// Returns the columns and rows of the transcript's text.
    pub(crate) fn transcript_size(&self) -> (usize, usize) {
        let area = Areas::new(self).map_or(Rect::ZERO, |areas| areas.transcript_text());
        (usize::from(area.width), usize::from(area.height))
    }

    /// Returns the columns of the draft.
    pub(crate) fn composer_columns(&self) -> usize {
        let (columns, _) = self.size;
        let left = if columns >= WIDE_COLUMNS { SIDEBAR_COLUMNS + 1 } else { 0 };
        usize::from(columns.saturating_sub(left + COMPOSER_LEFT))
    }

    /// Lays out the draft as it is on the screen.
    pub(crate) fn composer_layout(&self) -> Layout {
        self.composer.layout(self.composer_columns(), |pasted| {
            let lines = pasted.split('\n').count();
            let arguments =
                [("characters", pasted.chars().count().into()), ("lines", lines.into())];
            self.text_with("tui-pasted", &arguments)
        })
    }

    fn permission_height(&self, width: u16, rows: u16) -> usize {
        let call = self.permission_rows(usize::from(width) - 3, usize::from(rows) / 2);
        let options = self.permission_options(usize::from(width) - 3);
        match (call.len(), options.len()) {
            (0, _) => 0,
            (call, options) => 1 + call + options,
        }
    }

    fn queue_height(&self, width: u16, rows: u16) -> usize {
        let Some(mirror) = self.mirror() else {
            return 0;
        };
        let queue = mirror.queue();
        let waiting = queue.entries.len();
        if waiting == 0 && queue.auto_run && self.focus != Focus::Queue {
            return 0;
        }
        let shown_max = match self.focus {
            Focus::Queue => usize::from(rows / 2),
            Focus::Chat | Focus::Sessions | Focus::Help if rows >= 30 => 5,
            Focus::Chat | Focus::Sessions | Focus::Help => 3,
        };
        let said = usize::from(auto_run_row(self, width).is_some());
        // One for the hairline; an empty queue that has the focus says so.
        1 + said + waiting.clamp(usize::from(self.focus == Focus::Queue), shown_max)
    }
}

/// Joins rows that were made for one place.
pub(crate) fn last_rows(mut rows: Vec<Row>, height: u16) -> Vec<Row> {
    let surplus = rows.len().saturating_sub(usize::from(height));
    rows.drain(..surplus);
    rows
}
