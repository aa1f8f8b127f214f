//! Bytes that a process printed, as text.

use std::collections::VecDeque;

/// What stands where bytes are no text.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Decodes UTF-8 that arrives in pieces cut at any byte. Invalid bytes, and NUL, which the store
/// does not take, become U+FFFD.
#[derive(Debug, Default)]
pub(super) struct TextDecoder {
    /// The start of a character whose end has not arrived: at most three bytes.
    pending: Vec<u8>,
}

impl TextDecoder {
    /// Returns the text that `bytes` completes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        let mut input = std::mem::take(&mut self.pending);
        input.extend_from_slice(bytes);
        let mut text = String::with_capacity(input.len());
        let mut rest = input.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(invalid) = error.error_len() else {
                        self.pending = after.to_vec();
                        break;
                    };
                    text.push(REPLACEMENT);
                    rest = &after[invalid..];
                }
            }
        }
        without_nul(text)
    }

    /// Returns what is left when nothing more comes.
    pub(super) fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.pending);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

fn without_nul(text: String) -> String {
    if text.contains('\0') {
        text.replace('\0', REPLACEMENT.encode_utf8(&mut [0; 4]))
    } else {
        text
    }
}

/// The last bytes of an output of any length.
#[derive(Debug)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    bytes_max: usize,
}

impl Tail {
    /// Keeps at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: VecDeque::new(), bytes_max }
    }

    /// Adds what was printed.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.bytes_max)..];
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(self.bytes_max);
        self.bytes.drain(..excess);
        self.bytes.extend(bytes);
    }

    /// Returns the tail as text of at most the same size, starting at a character.
    pub(super) fn into_text(mut self) -> String {
        let bytes = self.bytes.make_contiguous();
        let continuation =
            bytes.iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
        let text = without_nul(String::from_utf8_lossy(&bytes[continuation..]).into_owned());
        // Replacing an invalid byte takes three: cut again.
        let start = text.len().saturating_sub(self.bytes_max);
        text[text.ceil_char_boundary(start)..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_in_pieces_of(size: usize, bytes: &[u8]) -> String {
        let mut decoder = TextDecoder::default();
        let mut text: String = bytes.chunks(size).map(|piece| decoder.push(piece)).collect();
        text.push_str(&decoder.finish());
        text
    }

    #[test]
    fn text_cut_at_any_byte_comes_out_whole() {
        let text = "aé漢👨\u{200d}👩 end";
        for size in 1..=text.len() {
            assert_eq!(decode_in_pieces_of(size, text.as_bytes()), text, "{size}");
        }
    }

    #[test]
    fn invalid_bytes_become_replacement_characters_wherever_they_are_cut() {
        let bytes = b"a\xff\xc3(\xe2\x82b\0c\xf0\x9f";
        let whole = "a\u{fffd}\u{fffd}(\u{fffd}b\u{fffd}c\u{fffd}";
        for size in 1..=bytes.len() {
            assert_eq!(decode_in_pieces_of(size, bytes), whole, "{size}");
        }
    }

    #[test]
    fn a_whole_character_is_not_held_back() {
        let mut decoder = TextDecoder::default();
        assert_eq!(decoder.push("é".as_bytes()), "é");
        assert_eq!(decoder.push(&[0xc3]), "");
        assert_eq!(decoder.push(&[0xa9]), "é");
    }

    #[test]
    fn the_tail_is_the_end_of_what_was_printed() {
        let tail = |pieces: &[&str]| {
            let mut tail = Tail::new(4);
            for piece in pieces {
                tail.push(piece.as_bytes());
            }
            tail.into_text()
        };
        assert_eq!(tail(&[]), "");
        assert_eq!(tail(&["ab"]), "ab");
        assert_eq!(tail(&["ab", "cd", "ef"]), "cdef");
        assert_eq!(tail(&["abcdefgh"]), "efgh");
        assert_eq!(tail(&["ab", "cdefghij"]), "ghij");
        assert_eq!(tail(&["xé漢"]), "漢");
    }

    #[test]
    fn a_tail_of_invalid_bytes_stays_within_its_bound() {
        let mut tail = Tail::new(8);
        tail.push(&[0xff; 100]);
        assert_eq!(tail.into_text(), "\u{fffd}\u{fffd}");
    }
}
