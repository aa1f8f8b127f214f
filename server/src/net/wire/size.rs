//! How large an answer becomes, measured by writing it.

use std::io::{self, Write};

use serde::Serialize;

/// Returns the size of a value as JSON, bytes: exactly what a frame has of it.
pub(in crate::net) fn json_bytes(value: &impl Serialize) -> usize {
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("wire types are plain JSON");
    count.0
}

/// Takes items in order up to the first with which a JSON list of them would have more than
/// `bytes_max`.
pub(in crate::net) fn fitting<T: Serialize>(
    items: impl IntoIterator<Item = T>,
    bytes_max: usize,
) -> Vec<T> {
    // The brackets; every item comes with a comma.
    let mut room = bytes_max.saturating_sub(2);
    let fits = |item: T| {
        room = room.checked_sub(json_bytes(&item) + 1)?;
        Some(item)
    };
    items.into_iter().map_while(fits).collect()
}

struct Count(usize);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_what_is_written() {
        for text in ["", "plain é", "\"\\\n\r\t\u{8}\u{c}", "\u{1}\u{1f}\u{7f}\u{85}\u{2028}"] {
            assert_eq!(json_bytes(&text), serde_json::to_string(text).unwrap().len(), "{text:?}");
        }
    }

    #[test]
    fn a_list_takes_what_fits_and_nothing_behind_it() {
        let items = ["aa", "\u{1}", "b"];
        let sizes = [6, 7, 15, 16, 19, 20];
        let taken = sizes.map(|bytes| fitting(items, bytes).len());
        assert_eq!(taken, [0, 1, 1, 2, 2, 3]);
    }
}
