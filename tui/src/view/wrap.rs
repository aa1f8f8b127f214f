//! Breaks clean text into rows of a given width.
//!
//! First fit at spaces and beside wide characters; a word that is longer than a row is broken
//! between graphemes. The rows of a line that begins with spaces begin with the same spaces.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::clean::Clean;

/// Breaks every line of `outside` into rows of at most `columns`.
pub fn wrap(outside: &str, columns: usize) -> Vec<Clean> {
    let mut rows = Vec::new();
    for line in Clean::lines(outside) {
        wrap_line(&line, columns, &mut rows);
    }
    rows
}

/// Breaks one line and appends its rows; an empty line is one empty row.
pub fn wrap_line(line: &Clean, columns: usize, rows: &mut Vec<Clean>) {
    if line.width() <= columns {
        rows.push(line.clone());
        return;
    }
    let marked = Marked { text: line.clone(), strong: Vec::new() };
    rows.extend(wrap_marked(&marked, columns).into_iter().map(|row| row.text));
}

/// A line or row of which some parts are bold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// All of it.
    pub text: Clean,
    /// The bold parts, bytes, ascending.
    pub strong: Vec<Range<usize>>,
}

/// Breaks one line, and the marks of its parts with it.
pub fn wrap_marked(line: &Marked, columns: usize) -> Vec<Marked> {
    let text = line.text.as_str();
    if line.text.width() <= columns {
        return vec![line.clone()];
    }
    let indent_bytes = text.len() - text.trim_start_matches(' ').len();
    let indent = line.text.slice(0..indent_bytes.min(columns / 2));
    let rows = break_points(text, indent_bytes, indent.width(), columns).into_iter();
    rows.enumerate()
        .map(|(index, range)| {
            let indent = if index == 0 { Clean::default() } else { indent.clone() };
            let shift = indent.as_str().len();
            let strong = line
                .strong
                .iter()
                .map(|part| part.start.max(range.start)..part.end.min(range.end))
                .filter(|part| part.start < part.end)
                .map(|part| part.start - range.start + shift..part.end - range.start + shift)
                .collect();
            Marked { text: indent.and(&line.text.slice(range)), strong }
        })
        .collect()
}

/// Puts items with `sign` between them into rows; an item is never broken apart, but cut if it is
/// longer than a row.
pub fn pack(items: &[Clean], columns: usize, sign: &str, cut: &str) -> Vec<Clean> {
    let between = Clean::line(&format!(" {sign} "));
    let mut rows: Vec<Clean> = Vec::new();
    for item in items {
        let item = item.cut(columns, cut);
        match rows.last_mut() {
            Some(row) if row.width() + between.width() + item.width() <= columns => {
                *row = std::mem::take(row).and(&between).and(&item);
            }
            Some(_) | None => rows.push(item),
        }
    }
    rows
}

/// Returns the bytes of every row; rows after the first have `indent` columns less.
fn break_points(text: &str, first: usize, indent: usize, columns: usize) -> Vec<Range<usize>> {
    let mut rows = Vec::new();
    let mut start = 0;
    let mut width = 0;
    // Where the row could end, and where the next one would begin.
    let mut chance: Option<(usize, usize)> = None;
    let mut before = "";
    for (at, grapheme) in text.grapheme_indices(true) {
        let columns_needed = grapheme.width();
        let is_space = grapheme == " ";
        if columns_needed > 1 || before.width() > 1 {
            chance = Some((at, at)).filter(|_| !is_space).or(chance);
        }
        if width + columns_needed > columns && !is_space {
            let (end, next) = chance.take().unwrap_or((at, at));
            if end > start {
                rows.push(start..start + text[start..end].trim_end_matches(' ').len());
                start = next;
                width = indent + text[next..at].width();
            }
        }
        width += columns_needed;
        if is_space && at >= first {
            let end = match chance {
                Some((end, _)) if before == " " => end,
                Some(_) | None => at,
            };
            chance = Some((end, at + 1));
        }
        before = grapheme;
    }
    // Spaces that stick out at the end of a line are not worth a row.
    let rest = text[start..].trim_end_matches(' ');
    rows.push(start..start + rest.len());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, columns: usize) -> Vec<String> {
        let rows = wrap(text, columns);
        rows.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn breaks_at_spaces_and_drops_them() {
        assert_eq!(rows("the test races", 9), ["the test", "races"]);
        assert_eq!(rows("the test   races", 9), ["the test", "races"]);
        assert_eq!(rows("the test races", 8), ["the test", "races"]);
        assert_eq!(rows("", 9), [""]);
        assert_eq!(rows("a\n\nb", 9), ["a", "", "b"]);
    }

    #[test]
    fn long_words_are_broken_between_graphemes() {
        assert_eq!(rows("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(rows("x abcdefgh", 4), ["x", "abcd", "efgh"]);
        assert_eq!(rows("👨‍👩‍👧‍👦👨‍👩‍👧‍👦", 3), ["👨‍👩‍👧‍👦", "👨‍👩‍👧‍👦"]);
    }

    #[test]
    fn c110_wide_characters_break_by_two_columns() {
        assert_eq!(rows("你好世界你", 5), ["你好", "世界", "你"]);
        assert_eq!(rows("ab漢字cd", 4), ["ab漢", "字cd"]);
        assert_eq!(rows("ab 漢字cd", 6), ["ab 漢", "字cd"]);
    }

    #[test]
    fn indented_lines_stay_indented() {
        assert_eq!(rows("  1. install the clock", 14), ["  1. install", "  the clock"]);
    }

    #[test]
    fn packed_items_stay_whole() {
        let items = ["Alt+R run it again", "Alt+X drop it", "x"].map(Clean::line);
        let rows = |columns| {
            let rows = pack(&items, columns, "·", "…");
            rows.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(rows(40), ["Alt+R run it again · Alt+X drop it · x"]);
        assert_eq!(rows(30), ["Alt+R run it again", "Alt+X drop it · x"]);
        assert_eq!(rows(9), ["Alt+R ru…", "Alt+X dr…", "x"]);
    }

    #[test]
    fn rows_hold_all_text_and_fit() {
        let text = "Why does retry_after_timeout fail? 漢字テスト  two  spaces 🇩🇪🇫🇷 end   ";
        let solid = |text: &str| text.replace(' ', "");
        for columns in 2..60 {
            let rows = rows(text, columns);
            assert_eq!(solid(&rows.concat()), solid(text), "{columns}");
            for row in rows {
                assert!(row.width() <= columns, "{columns}: {row:?}");
            }
        }
    }
}
