//! The text of a prompt, checked once at the door.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::limits::CONTENT_BYTES_MAX;

/// A prompt's text: at most [`CONTENT_BYTES_MAX`] bytes, no NUL, otherwise byte for byte what the
/// user sent. May be blank; whether that is allowed depends on what comes with it
/// (see [`PromptText::is_blank`]).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PromptText(Arc<str>);

/// Why a string is no prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptTextError {
    /// Longer than the bound.
    #[error("content is longer than {limit} bytes")]
    TooLong {
        /// The bound in force, bytes.
        limit: usize,
    },
    /// Holds U+0000, which neither database nor agents take.
    #[error("content holds a NUL")]
    Nul,
}

impl PromptText {
    /// Checks and wraps `text`.
    pub fn parse(text: impl Into<Arc<str>>) -> Result<Self, PromptTextError> {
        let text = text.into();
        if text.len() > CONTENT_BYTES_MAX {
            Err(PromptTextError::TooLong { limit: CONTENT_BYTES_MAX })
        } else if text.contains('\0') {
            Err(PromptTextError::Nul)
        } else {
            Ok(Self(text))
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether a reader would see nothing: white space and zero-width characters only.
    /// Such a prompt is only dispatched together with an attachment or a plan comment.
    pub fn is_blank(&self) -> bool {
        is_blank(&self.0)
    }
}

/// See [`PromptText::is_blank`].
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| {
        c.is_whitespace()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
    })
}

impl fmt::Debug for PromptText {
    /// Shows the size only: prompts never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PromptText({} bytes)", self.0.len())
    }
}

impl Serialize for PromptText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Returns the longest start of `text` that has at most `bytes_max` bytes and ends at a character.
pub fn cut_at_char(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_exact() {
        assert!(PromptText::parse("x".repeat(CONTENT_BYTES_MAX)).is_ok());
        assert_eq!(
            PromptText::parse("x".repeat(CONTENT_BYTES_MAX + 1)),
            Err(PromptTextError::TooLong { limit: CONTENT_BYTES_MAX })
        );
        assert_eq!(PromptText::parse("a\0b"), Err(PromptTextError::Nul));
    }

    #[test]
    fn c053_what_shows_nothing_is_blank() {
        for blank in ["", "  \n\t", "\u{200b}", "\u{3000}\u{feff}"] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for text in ["x", " . ", "\u{1f468}\u{200d}\u{1f469}"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }

    #[test]
    fn cuts_only_at_characters() {
        assert_eq!(cut_at_char("aé", 2), "a");
        assert_eq!(cut_at_char("aé", 3), "aé");
        assert_eq!(cut_at_char("aé", 99), "aé");
    }

    #[test]
    fn debug_output_has_no_content() {
        let text = PromptText::parse("secret").unwrap();
        assert_eq!(format!("{text:?}"), "PromptText(6 bytes)");
    }
}
