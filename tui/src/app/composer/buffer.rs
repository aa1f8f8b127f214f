//! Text with a caret that stands between graphemes, and long pastes folded to one cell.

use std::ops::Range;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// A draft: what is typed, where the caret is, and which parts are folded.
///
/// A fold is a range of the text that is shown as a placeholder and moved over and deleted as one
/// unit; the text in it is all there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    text: String,
    caret: usize,
    /// Ascending, apart from each other.
    folds: Vec<Range<usize>>,
}

/// One unit that the caret moves over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its bytes.
    pub range: Range<usize>,
    /// Whether it is a folded paste.
    pub folded: bool,
}

impl Buffer {
    /// Makes a draft of `text` with the caret at its end.
    pub fn new(text: &str) -> Self {
        Self { caret: text.len(), text: text.to_owned(), folds: Vec::new() }
    }

    /// Returns all of the text, folded parts included.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns where the caret is, bytes.
    pub fn caret(&self) -> usize {
        self.caret
    }

    /// Tells whether there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Puts the caret at `at`, or at the next place after it where a caret can stand.
    pub fn set_caret(&mut self, at: usize) {
        self.caret = self.standing_place(at);
    }

    /// Puts `text` at the caret and the caret after it.
    pub fn insert(&mut self, text: &str) {
        let at = self.caret;
        self.text.insert_str(at, text);
        for fold in &mut self.folds {
            if fold.start >= at {
                *fold = fold.start + text.len()..fold.end + text.len();
            }
        }
        self.set_caret(at + text.len());
    }

    /// Like [`Buffer::insert`], but folded.
    pub fn insert_folded(&mut self, text: &str) {
        let start = self.caret;
        self.insert(text);
        let end = start + text.len();
        let index = self.folds.partition_point(|fold| fold.start < start);
        self.folds.insert(index, start..end);
        self.caret = end;
    }

    /// Removes `range`, widened to whole folds, and returns what it held.
    pub fn remove(&mut self, range: Range<usize>) -> String {
        let mut range = range;
        for fold in &self.folds {
            if fold.start < range.end && range.start < fold.end {
                range = range.start.min(fold.start)..range.end.max(fold.end);
            }
        }
        self.folds.retain(|fold| fold.end <= range.start || fold.start >= range.end);
        for fold in &mut self.folds {
            if fold.start >= range.end {
                *fold = fold.start - range.len()..fold.end - range.len();
            }
        }
        let removed = self.text.drain(range.clone()).collect();
        if self.caret >= range.end {
            self.caret -= range.len();
        } else {
            self.caret = self.caret.min(range.start);
        }
        // What is left may have grown together to one grapheme.
        self.caret = self.standing_place(self.caret);
        removed
    }

    /// Returns the unit that begins at `at`.
    pub fn unit_at(&self, at: usize) -> Option<Unit> {
        if let Some(fold) = self.folds.iter().find(|fold| fold.start == at) {
            return Some(Unit { range: fold.clone(), folded: true });
        }
        let segment = self.segment_from(at);
        let grapheme = self.text[segment].graphemes(true).next()?;
        Some(Unit { range: at..at + grapheme.len(), folded: false })
    }

    /// Returns all units in order.
    pub fn units(&self) -> impl Iterator<Item = Unit> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let unit = self.unit_at(at)?;
            at = unit.range.end;
            Some(unit)
        })
    }

    /// Returns the next place of the caret after `at`.
    pub fn after(&self, at: usize) -> usize {
        self.unit_at(at).map_or(at, |unit| unit.range.end)
    }

    /// Returns the next place of the caret before `at`.
    pub fn before(&self, at: usize) -> usize {
        if let Some(fold) = self.folds.iter().find(|fold| fold.end == at) {
            return fold.start;
        }
        let segment = self.segment_around(at);
        let text = &self.text[segment.clone()];
        let mut cursor = GraphemeCursor::new(at - segment.start, text.len(), true);
        match cursor.prev_boundary(text, 0) {
            Ok(Some(boundary)) => segment.start + boundary,
            Ok(None) | Err(_) => at,
        }
    }

    /// Returns where the line of `at` begins.
    pub fn line_start(&self, at: usize) -> usize {
        let outside = |index: &usize| !self.folds.iter().any(|fold| fold.contains(index));
        let breaks = self.text[..at].rmatch_indices('\n');
        let found = breaks.map(|(index, _)| index).find(outside);
        found.map_or(0, |index| index + 1)
    }

    /// Returns where the line of `at` ends.
    pub fn line_end(&self, at: usize) -> usize {
        let outside = |index: &usize| !self.folds.iter().any(|fold| fold.contains(index));
        let breaks = self.text[at..].match_indices('\n');
        let found = breaks.map(|(index, _)| at + index).find(outside);
        found.unwrap_or(self.text.len())
    }

    /// Returns the end of the word after `at`: letters and digits, or one fold.
    pub fn word_after(&self, at: usize) -> usize {
        let mut at = at;
        while at < self.text.len() && !self.is_word(at) {
            at = self.after(at);
        }
        let mut started_in_fold = false;
        while at < self.text.len() && self.is_word(at) && !started_in_fold {
            started_in_fold = self.unit_at(at).is_some_and(|unit| unit.folded);
            at = self.after(at);
        }
        at
    }

    /// Returns the start of the word before `at`: letters and digits, or one fold.
    pub fn word_before(&self, at: usize) -> usize {
        self.start_before(at, |buffer, at| buffer.is_word(at))
    }

    /// Returns the start of what is before `at` up to white space.
    pub fn blank_before(&self, at: usize) -> usize {
        self.start_before(at, |buffer, at| !buffer.is_blank(at))
    }

    fn start_before(&self, at: usize, belongs: impl Fn(&Self, usize) -> bool) -> usize {
        let mut at = at;
        while at > 0 && !belongs(self, self.before(at)) {
            at = self.before(at);
        }
        let mut in_fold = false;
        while at > 0 && belongs(self, self.before(at)) && !in_fold {
            at = self.before(at);
            in_fold = self.folds.iter().any(|fold| fold.start == at);
        }
        at
    }

    fn is_word(&self, at: usize) -> bool {
        self.unit_at(at).is_some_and(|unit| {
            unit.folded || self.text[unit.range].chars().any(char::is_alphanumeric)
        })
    }

    fn is_blank(&self, at: usize) -> bool {
        self.unit_at(at).is_some_and(|unit| {
            !unit.folded && self.text[unit.range].chars().all(char::is_whitespace)
        })
    }

    /// Returns `at` if a caret can stand there, else the next place where it can.
    fn standing_place(&self, at: usize) -> usize {
        let at = self.text.ceil_char_boundary(at.min(self.text.len()));
        let inside = |fold: &&Range<usize>| fold.start < at && at < fold.end;
        if let Some(fold) = self.folds.iter().find(inside) {
            return fold.end;
        }
        let segment = self.segment_around(at);
        let text = &self.text[segment.clone()];
        let mut cursor = GraphemeCursor::new(at - segment.start, text.len(), true);
        match cursor.is_boundary(text, 0) {
            Ok(true) | Err(_) => at,
            Ok(false) => match cursor.next_boundary(text, 0) {
                Ok(Some(boundary)) => segment.start + boundary,
                Ok(None) | Err(_) => segment.end,
            },
        }
    }

    /// The unfolded text from `at` on: graphemes never reach into a fold.
    fn segment_from(&self, at: usize) -> Range<usize> {
        let next = self.folds.iter().map(|fold| fold.start);
        let end = next.filter(|start| *start > at).min();
        at..end.unwrap_or(self.text.len())
    }

    /// The unfolded text on both sides of `at`.
    fn segment_around(&self, at: usize) -> Range<usize> {
        let start = self.folds.iter().map(|fold| fold.end);
        let start = start.filter(|end| *end <= at).max().unwrap_or(0);
        let end = self.folds.iter().map(|fold| fold.start);
        let end = end.filter(|start| *start >= at).min();
        start..end.unwrap_or(self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: &str = "👨‍👩‍👧‍👦";

    #[test]
    fn the_caret_moves_by_what_a_reader_sees() {
        let buffer = Buffer::new("e\u{301}漢🇩🇪🇫🇷👨‍👩‍👧‍👦x");
        let mut at = buffer.caret();
        let mut places = vec![at];
        while at > 0 {
            at = buffer.before(at);
            places.push(at);
        }
        places.reverse();
        let forward: Vec<usize> =
            std::iter::once(0).chain(buffer.units().map(|unit| unit.range.end)).collect();
        assert_eq!(places, forward);
        assert_eq!(places.len(), 7);
    }

    #[test]
    fn a_fold_is_one_unit_and_its_twin_stays_when_it_goes() {
        let mut buffer = Buffer::new("a");
        buffer.insert_folded("one\ntwo");
        buffer.insert_folded("one\ntwo");
        buffer.insert("z");
        assert_eq!(buffer.text(), "aone\ntwoone\ntwoz");
        assert_eq!(buffer.units().count(), 4);
        buffer.set_caret(buffer.before(buffer.caret()));
        let first = buffer.before(buffer.caret());
        assert_eq!(buffer.remove(first..buffer.caret()), "one\ntwo");
        assert_eq!(buffer.text(), "aone\ntwoz");
        assert_eq!(buffer.units().count(), 3);
        assert_eq!(buffer.caret(), buffer.text().len() - 1);
    }

    #[test]
    fn text_before_and_after_a_fold_does_not_join_it() {
        let mut buffer = Buffer::default();
        buffer.insert_folded("\u{301}x");
        buffer.set_caret(0);
        buffer.insert("e");
        assert_eq!((buffer.caret(), buffer.units().count()), (1, 2));
        assert_eq!(buffer.remove(0..2), "e\u{301}x");
        assert!(buffer.is_empty());
    }

    #[test]
    fn lines_end_at_line_ends_outside_folds() {
        let mut buffer = Buffer::new("ab\ncd");
        buffer.insert_folded("x\ny");
        buffer.insert("ef\ng");
        assert_eq!(buffer.line_start(buffer.text().len()), 11);
        assert_eq!(buffer.line_start(9), 3);
        assert_eq!(buffer.line_end(3), 10);
        assert_eq!(buffer.line_end(0), 2);
    }

    #[test]
    fn words_are_letters_and_digits_and_blanks_end_at_spaces() {
        let buffer = Buffer::new("cd /tmp/x-1  ");
        let end = buffer.text().len();
        assert_eq!(buffer.word_before(end), 10);
        assert_eq!(buffer.blank_before(end), 3);
        assert_eq!(buffer.word_after(0), 2);
        assert_eq!(buffer.word_after(2), 7);
    }

    #[test]
    fn removing_between_flag_halves_leaves_the_caret_at_a_grapheme() {
        let mut buffer = Buffer::new("🇩x🇪");
        buffer.remove(4..5);
        assert_eq!(buffer.text(), "🇩🇪");
        assert_eq!(buffer.caret(), 8);
        buffer.set_caret(4);
        assert_eq!(buffer.caret(), 8);
        buffer.insert(FAMILY);
        assert_eq!(buffer.units().count(), 2);
    }
}
