//! The only door through which text reaches the terminal.
//!
//! Owns [`Clean`]: text in which nothing can drive a terminal. Control characters, escape
//! sequences, bidirectional overrides and line separators are shown as marks, tabs are spaces, and
//! no grapheme is higher than a line. Views take `Clean` only, so that cleaning cannot be forgotten.

use std::borrow::Cow;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The distance of two tab stops, columns.
pub const TAB_COLUMNS: usize = 4;
/// Scalars of one grapheme that are shown. Families and flags need up to ten; hundreds of
/// combining marks on one letter draw over the lines above.
const GRAPHEME_SCALARS_MAX: usize = 16;

/// One line of text that cannot drive a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clean(String);

impl Clean {
    /// Cleans `outside`; line ends become a space, so that the result is one line.
    pub fn line(outside: &str) -> Self {
        let mut text = String::with_capacity(outside.len());
        let mut column = 0;
        for grapheme in outside.graphemes(true) {
            let shown =
                if is_line_end(grapheme) { Cow::Borrowed(" ") } else { shown(grapheme, column) };
            column += shown.width();
            text.push_str(&shown);
        }
        Self(text)
    }

    /// Cleans every line of `outside`.
    pub fn lines(outside: &str) -> impl Iterator<Item = Self> {
        split_lines(outside).map(Self::line)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the columns it takes.
    pub fn width(&self) -> usize {
        self.0.width()
    }

    /// Returns the start of the text that fits into `columns`, with `mark` in place of the rest.
    #[must_use]
    pub fn cut(&self, columns: usize, mark: &str) -> Self {
        if self.width() <= columns {
            return self.clone();
        }
        let room = columns.saturating_sub(mark.width());
        let mut text = String::new();
        let mut used = 0;
        for grapheme in self.0.graphemes(true) {
            used += grapheme.width();
            if used > room {
                break;
            }
            text.push_str(grapheme);
        }
        if mark.width() <= columns {
            text.push_str(mark);
        }
        Self(text)
    }

    /// Returns the part in `range`, which lies on characters' bounds.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        Self(self.0.get(range).unwrap_or_default().to_owned())
    }

    /// Returns this text with `more` after it.
    #[must_use]
    pub fn and(mut self, more: &Self) -> Self {
        self.0.push_str(&more.0);
        self
    }
}

impl std::fmt::Display for Clean {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns what a terminal gets for `grapheme` when it is drawn at `column`.
pub fn shown(grapheme: &str, column: usize) -> Cow<'_, str> {
    if grapheme == "\t" {
        let columns = TAB_COLUMNS - column % TAB_COLUMNS;
        return Cow::Borrowed(&"    "[..columns]);
    }
    if grapheme.chars().any(is_unsafe) {
        return Cow::Owned(grapheme.chars().map(mark).collect());
    }
    match grapheme.char_indices().nth(GRAPHEME_SCALARS_MAX) {
        Some((end, _)) => Cow::Borrowed(&grapheme[..end]),
        None => Cow::Borrowed(grapheme),
    }
}

/// Splits at `\n`, `\r\n` and `\r`.
pub fn split_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        line.split('\r')
    })
}

fn is_line_end(grapheme: &str) -> bool {
    matches!(grapheme, "\n" | "\r" | "\r\n")
}

/// Control characters, separators that some terminals obey, marks that reorder their neighbours,
/// and the invisible tags.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}'
        )
}

/// Shows an unsafe character as a mark of plain ASCII.
fn mark(c: char) -> String {
    match c {
        '\0'..='\x1f' => format!("^{}", char::from(c as u8 + b'@')),
        '\x7f' => "^?".to_owned(),
        c if is_unsafe(c) => format!("<{:02X}>", u32::from(c)),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        Clean::line(text).to_string()
    }

    #[test]
    fn c112_controls_become_marks_and_tabs_become_spaces() {
        for (outside, clean) in [
            ("a\tb", "a   b"),
            ("\tb", "    b"),
            ("漢字\tb", "漢字    b"),
            ("x\r\ny", "x y"),
            ("p\x08q\x07", "p^Hq^G"),
            ("\x1b[31mred", "^[[31mred"),
            ("\x1b]0;title\x07", "^[]0;title^G"),
            ("\u{85}\u{2028}z", "<85><2028>z"),
            ("\u{9b}31m", "<9B>31m"),
            ("\x7f", "^?"),
            ("harmless\u{202e}txt.exe", "harmless<202E>txt.exe"),
            ("\u{2066}a\u{2069}", "<2066>a<2069>"),
        ] {
            assert_eq!(line(outside), clean, "{outside:?}");
        }
    }

    #[test]
    fn c112_a_tower_of_combining_marks_is_cut() {
        let tower = format!("a{}b", "\u{301}".repeat(300));
        let clean = line(&tower);
        assert_eq!(clean.chars().count(), GRAPHEME_SCALARS_MAX + 1);
        assert!(clean.ends_with('b'));
    }

    #[test]
    fn c115_ordinary_right_to_left_text_stays_as_it_is() {
        for text in ["مرحبا gpt-5", "שלום", "این README.md است"] {
            assert_eq!(line(text), text);
        }
    }

    #[test]
    fn families_and_flags_stay_whole() {
        let text = "👨‍👩‍👧‍👦 🇩🇪 🏴󠁧󠁢󠁥󠁮󠁧󠁿 e\u{301}";
        assert_eq!(line(text), text);
    }

    #[test]
    fn cleaning_twice_changes_nothing() {
        for c in ('\0'..'\u{3000}').chain(['\u{fff9}', '\u{e0001}', '\u{10ffff}']) {
            let mut text = String::from("a");
            text.push(c);
            let once = line(&text);
            assert!(!once.chars().any(is_unsafe), "{c:?}");
            assert_eq!(line(&once), once, "{c:?}");
        }
    }

    #[test]
    fn cuts_at_graphemes_and_says_so() {
        let text = Clean::line("漢字テスト");
        for (columns, cut) in
            [(10, "漢字テスト"), (9, "漢字テス…"), (8, "漢字テ…"), (2, "…"), (1, "…"), (0, "")]
        {
            assert_eq!(text.cut(columns, "…").as_str(), cut, "{columns}");
        }
    }

    #[test]
    fn splits_at_every_kind_of_line_end() {
        let lines: Vec<_> = split_lines("a\nb\r\nc\rd\n").collect();
        assert_eq!(lines, ["a", "b", "c", "d", ""]);
    }
}
