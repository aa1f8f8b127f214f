//! The name of an attachment: for people, and of the file that an agent sees.

use crate::limits::ATTACHMENT_NAME_BYTES_MAX;
use crate::prompt::{cut_at_char, is_blank};

/// What a name without anything to show becomes.
const NAMELESS: &str = "file";
/// The longest ending that a cut leaves alone, bytes with its dot.
const ENDING_BYTES_MAX: usize = 16;

/// Makes a name safe to show and to give to a file: the last part of a path, without control
/// characters and without those that change the direction of text, at most
/// [`ATTACHMENT_NAME_BYTES_MAX`] long. Spaces inside it and everything else stays.
pub fn clean_file_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let shown: String = last.chars().filter(|c| !c.is_control() && !turns_text(*c)).collect();
    let shown = shown.trim();
    match shown {
        "." | ".." => NAMELESS.to_owned(),
        _ if is_blank(shown) => NAMELESS.to_owned(),
        _ if shown.len() <= ATTACHMENT_NAME_BYTES_MAX => shown.to_owned(),
        _ => cut(shown),
    }
}

/// Shortens a name and leaves its ending, by which programs know what it is.
fn cut(name: &str) -> String {
    let ending = name.rfind('.').map_or("", |dot| &name[dot..]);
    let ending = if ending.len() <= ENDING_BYTES_MAX { ending } else { "" };
    let stem = cut_at_char(name, ATTACHMENT_NAME_BYTES_MAX - ending.len());
    [stem.trim_end(), ending].concat()
}

/// Marks, embeddings, overrides and isolates of text direction (Unicode Standard Annex 9), and the
/// separators of lines and paragraphs.
const fn turns_text(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_and_hides_nothing() {
        for (name, clean) in [
            ("My Report.pdf", "My Report.pdf"),
            ("b c.txt", "b c.txt"),
            ("/etc/passwd", "passwd"),
            ("..\\..\\boot.ini", "boot.ini"),
            ("a/..", "file"),
            ("dir/", "file"),
            ("", "file"),
            (" \t", "file"),
            ("\u{200b}\u{feff}", "file"),
            (".bashrc", ".bashrc"),
            ("a\u{1b}[31mb\n.png", "a[31mb.png"),
            ("exe.\u{202e}gnp.sh", "exe.gnp.sh"),
            ("фото 1.jpg", "фото 1.jpg"),
        ] {
            assert_eq!(clean_file_name(name), clean, "{name:?}");
        }
    }

    #[test]
    fn a_long_name_keeps_its_ending() {
        let long = clean_file_name(&format!("{}.tar.gz", "ж".repeat(300)));
        assert!(long.len() <= ATTACHMENT_NAME_BYTES_MAX && long.ends_with("ж.gz"), "{long}");
        let endless = clean_file_name(&format!("a.{}", "x".repeat(400)));
        assert_eq!(endless.len(), ATTACHMENT_NAME_BYTES_MAX);
    }
}
