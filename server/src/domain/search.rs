//! Finding text in messages: without regard to case, whatever the script.
//!
//! Text and query are folded alike, character by character: to lower case, to upper case and back,
//! so that `ẞ`, `ß` and `SS` are the same, and `Σ` and `ς`. Places are those of the text itself,
//! never of its folded copy, which can be longer or shorter.

use usher_shared::limits::SNIPPET_BYTES_MAX;
use usher_shared::prompt::cut_at_char;

/// What a snippet shows before the match, bytes at most.
const BEFORE_BYTES_MAX: usize = 60;
/// The text of one folded byte, bytes at most: `K` (Kelvin) takes three and folds to one.
const BYTES_PER_FOLDED_MAX: usize = 4;

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needle(String);

impl Needle {
    /// Makes one of a query; None if a reader could not see anything of it.
    pub fn parse(query: &str) -> Option<Self> {
        (!query.trim().is_empty()).then(|| Self(query.chars().flat_map(folded).collect()))
    }
}

fn folded(c: char) -> impl Iterator<Item = char> {
    let upper = |c: char| c.to_lowercase().flat_map(char::to_uppercase);
    let (ascii, other) = if c.is_ascii() {
        (Some(c.to_ascii_lowercase()), None)
    } else {
        (None, Some(upper(c).flat_map(char::to_lowercase)))
    };
    ascii.into_iter().chain(other.into_iter().flatten())
}

/// Looks for the first match in a text that comes in pieces.
#[derive(Debug)]
pub struct Finder<'a> {
    needle: &'a Needle,
    /// The end of what came before: a match may have begun there.
    text: String,
}

impl<'a> Finder<'a> {
    /// Starts with an empty text.
    pub const fn new(needle: &'a Needle) -> Self {
        Self { needle, text: String::new() }
    }

    /// Goes on behind what another finder has seen.
    pub const fn behind(needle: &'a Needle, seen: String) -> Self {
        Self { needle, text: seen }
    }

    /// Returns the end of what was seen, for another finder that goes on.
    pub fn seen(self) -> String {
        self.text
    }

    /// Takes the next piece; returns the text around the first match, once it is there.
    pub fn push(&mut self, piece: &str) -> Option<String> {
        self.text.push_str(piece);
        if let Some(at) = self.find() {
            return Some(snippet(&self.text, at));
        }
        let keep = self.needle.0.len() * BYTES_PER_FOLDED_MAX + BEFORE_BYTES_MAX;
        let from = self.text.len().saturating_sub(keep);
        let from = (from..).find(|at| self.text.is_char_boundary(*at)).unwrap_or(from);
        self.text.drain(..from);
        None
    }

    /// Returns where in the text the first match begins.
    fn find(&self) -> Option<usize> {
        let haystack: String = self.text.chars().flat_map(folded).collect();
        let at = haystack.find(&self.needle.0)?;
        let mut passed = 0;
        self.text.char_indices().find_map(|(place, c)| {
            passed += folded(c).map(char::len_utf8).sum::<usize>();
            (passed > at).then_some(place)
        })
    }
}

fn snippet(text: &str, at: usize) -> String {
    let from = at.saturating_sub(BEFORE_BYTES_MAX);
    let from = (from..=at).find(|place| text.is_char_boundary(*place)).unwrap_or(at);
    cut_at_char(&text[from..], SNIPPET_BYTES_MAX).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(query: &str, pieces: &[&str]) -> Option<String> {
        let needle = Needle::parse(query).unwrap();
        let mut finder = Finder::new(&needle);
        pieces.iter().find_map(|piece| finder.push(piece))
    }

    #[test]
    fn c118_case_does_not_matter_in_any_script_and_places_are_the_texts_own() {
        let text = "\u{130}stanbul \u{1e9e} stra\u{df}e \u{fb01}n";
        for query in ["i", "ss", "SS", "\u{df}", "STRASSE", "fin", "FIN", "\u{130}STANBUL"] {
            assert_eq!(find(query, &[text]).as_deref(), Some(text), "{query}");
        }
        assert_eq!(find("οδος", &["ΟΔΟΣ"]).as_deref(), Some("ΟΔΟΣ"));
        assert_eq!(find("ПРИВЕТ", &["привет"]).as_deref(), Some("привет"));
        assert_eq!(find("x", &[text]), None);
        assert_eq!(Needle::parse(" \t\u{3000}"), None);
    }

    #[test]
    fn a_snippet_is_short_whole_characters_around_the_match() {
        let text = format!("{}Needle{}", "é".repeat(500), "ü".repeat(500));
        let snippet = find("nEEDLE", &[&text]).unwrap();
        assert!(snippet.contains("éNeedleü"));
        assert!((SNIPPET_BYTES_MAX - 4..=SNIPPET_BYTES_MAX).contains(&snippet.len()));
        let long = "a".repeat(1_000);
        assert_eq!(find(&long, &[&long]).unwrap().len(), SNIPPET_BYTES_MAX);
    }

    #[test]
    fn a_match_that_two_pieces_share_is_found_and_little_is_kept() {
        assert!(find("needle", &["a nee", "dle"]).is_some());
        assert!(find("kkkk", &["\u{212a}", "\u{212a}", "\u{212a}", "\u{212a}"]).is_some());
        let needle = Needle::parse("needle").unwrap();
        let mut finder = Finder::new(&needle);
        for _ in 0..1_000 {
            assert_eq!(finder.push("né\u{1e9e}dl"), None);
        }
        assert!(finder.text.len() < 200);
    }
}
