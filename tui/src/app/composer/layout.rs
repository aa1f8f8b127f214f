//! Where every unit of a draft is drawn.

use std::borrow::Cow;
use std::ops::Range;

use unicode_width::UnicodeWidthStr;

use super::buffer::Buffer;
use crate::view::clean::{Clean, shown};

/// The rows of a draft at some width.
#[derive(Debug)]
pub struct Layout {
    rows: Vec<Row>,
}

/// One row.
#[derive(Debug, Default)]
struct Row {
    cells: Vec<Cell>,
    /// Where the caret stands at the end of the row, bytes.
    end: usize,
    /// Whether its line goes on in the next row: then its end is drawn there.
    goes_on: bool,
}

/// One unit as it is drawn.
#[derive(Debug)]
struct Cell {
    at: usize,
    column: usize,
    shown: String,
    /// Whether a row may end after it.
    breakable: bool,
}

/// Where the caret is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Counted from the first row of the draft.
    pub row: usize,
    /// Counted from the left edge.
    pub column: usize,
}

impl Layout {
    /// Lays `buffer` out in `columns`, of which the last is left free for the caret. `label` is
    /// shown for a folded part.
    pub fn new(buffer: &Buffer, columns: usize, label: impl Fn(&str) -> Clean) -> Self {
        let columns = columns.saturating_sub(1).max(2);
        let mut rows = vec![Row::default()];
        for unit in buffer.units() {
            let text = &buffer.text()[unit.range.clone()];
            let row = rows.last_mut().expect("there is always a row");
            if text == "\n" && !unit.folded {
                row.end = unit.range.start;
                rows.push(Row { end: unit.range.end, ..Row::default() });
                continue;
            }
            let column = row.width();
            let shown = if unit.folded {
                Cow::Owned(label(text).cut(columns, "").to_string())
            } else {
                shown(text, column)
            };
            if column + shown.width() > columns && !row.cells.is_empty() {
                let rest = row.split_at_word();
                rows.push(rest);
            }
            let row = rows.last_mut().expect("there is always a row");
            row.cells.push(Cell {
                at: unit.range.start,
                column: row.width(),
                breakable: unit.folded || text.ends_with(' ') || shown.width() == 2,
                shown: shown.into_owned(),
            });
            row.end = unit.range.end;
        }
        Self { rows }
    }

    /// Returns how many rows there are, at least one.
    pub fn height(&self) -> usize {
        self.rows.len()
    }

    /// Returns the text of the rows in `range`.
    pub fn rows(&self, range: Range<usize>) -> impl Iterator<Item = Clean> {
        let rows = self.rows.get(range).unwrap_or_default();
        rows.iter().map(|row| {
            let text: String = row.cells.iter().map(|cell| &*cell.shown).collect();
            Clean::line(&text)
        })
    }

    /// Returns where a caret at byte `at` is drawn.
    pub fn place(&self, at: usize) -> Place {
        let starts_after = |row: &Row| row.start() > at;
        let row = self.rows.partition_point(|row| !starts_after(row));
        let row = row.saturating_sub(1);
        let cells = &self.rows[row].cells;
        let cell = cells.iter().find(|cell| cell.at >= at);
        Place { row, column: cell.map_or_else(|| self.rows[row].width(), |cell| cell.column) }
    }

    /// Returns the byte where a caret stands that is drawn in `row` at or before `column`.
    pub fn at(&self, row: usize, column: usize) -> usize {
        let row = &self.rows[row.min(self.rows.len() - 1)];
        let inside = |cell: &&Cell| column < cell.column + cell.shown.width();
        match row.cells.iter().find(inside).or(row.cells.last()) {
            Some(cell) if row.goes_on || column < row.width() => cell.at,
            Some(_) | None => row.end,
        }
    }
}

impl Row {
    fn width(&self) -> usize {
        let last = self.cells.last();
        last.map_or(0, |cell| cell.column + cell.shown.width())
    }

    fn start(&self) -> usize {
        self.cells.first().map_or(self.end, |cell| cell.at)
    }

    /// Takes the unfinished word at the end off this row, unless that is all there is.
    fn split_at_word(&mut self) -> Self {
        let word = self.cells.iter().rposition(|cell| cell.breakable);
        let keep = word.map_or(self.cells.len(), |index| index + 1);
        let mut rest: Vec<Cell> = self.cells.split_off(keep);
        let end = self.end;
        let left = rest.first().map_or(0, |cell| cell.column);
        for cell in &mut rest {
            cell.column -= left;
        }
        self.end = rest.first().map_or(end, |cell| cell.at);
        self.goes_on = true;
        Self { cells: rest, end, goes_on: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lay_out(buffer: &Buffer, columns: usize) -> Layout {
        Layout::new(buffer, columns, |text| {
            Clean::line(&format!("[{} characters]", text.chars().count()))
        })
    }

    fn rows(layout: &Layout) -> Vec<String> {
        let rows = layout.rows(0..layout.height());
        rows.map(|row| row.to_string()).collect()
    }

    #[test]
    fn c110_wide_characters_take_two_columns_and_left_moves_over_one() {
        let layout = lay_out(&Buffer::new("测试123"), 20);
        let columns: Vec<usize> = layout.rows[0].cells.iter().map(|cell| cell.column).collect();
        assert_eq!(columns, [0, 2, 4, 5, 6]);
        assert_eq!(layout.place(9), Place { row: 0, column: 7 });

        let mut buffer = Buffer::new("你好世界你");
        let layout = lay_out(&buffer, 10);
        assert_eq!(rows(&layout), ["你好世界", "你"]);
        let mut places = Vec::new();
        for _ in 0..6 {
            let place = layout.place(buffer.caret());
            places.push((place.row, place.column));
            buffer.set_caret(buffer.before(buffer.caret()));
        }
        assert_eq!(places, [(1, 2), (1, 0), (0, 6), (0, 4), (0, 2), (0, 0)]);
    }

    #[test]
    fn words_move_to_the_next_row_and_spaces_stay() {
        let layout = lay_out(&Buffer::new("also check the timeout"), 12);
        assert_eq!(rows(&layout), ["also check ", "the timeout"]);
        let layout = lay_out(&Buffer::new("abcdefghijk"), 6);
        assert_eq!(rows(&layout), ["abcde", "fghij", "k"]);
    }

    #[test]
    fn a_line_end_begins_a_row_and_so_does_the_last_one() {
        let layout = lay_out(&Buffer::new("a\n\nb\n"), 12);
        assert_eq!(rows(&layout), ["a", "", "b", ""]);
        let places: Vec<_> = (0..=5).map(|at| layout.place(at).row).collect();
        assert_eq!(places, [0, 0, 1, 2, 2, 3]);
    }

    #[test]
    fn every_place_leads_back_to_its_byte() {
        let mut buffer = Buffer::new("e\u{301}x 漢字 word\tand 👨‍👩‍👧‍👦🇩🇪 more\n\nlast");
        buffer.insert_folded(&"long\n".repeat(300));
        buffer.insert(" end");
        for columns in 4..40 {
            let layout = lay_out(&buffer, columns);
            let ends = buffer.units().map(|unit| unit.range.end);
            for at in std::iter::once(0).chain(ends) {
                let place = layout.place(at);
                assert_eq!(layout.at(place.row, place.column), at, "{columns}");
                assert!(place.column < columns, "{columns}");
            }
        }
    }

    #[test]
    fn control_characters_are_shown_as_marks() {
        let layout = lay_out(&Buffer::new("a\x1b[201~b\u{202e}"), 40);
        assert_eq!(rows(&layout), ["a^[[201~b<202E>"]);
    }
}
