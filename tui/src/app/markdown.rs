//! The little Markdown that reads well in a terminal: headings and `**words**` become bold, fenced
//! code stands behind a line. Everything else, inline code included, is shown as it was written,
//! so that nothing an agent says is hidden.

use std::ops::Range;

use super::message_rows::{Row, RowKind};
use crate::theme::Signs;
use crate::view::clean::{Clean, split_lines};
use crate::view::wrap::{Marked, wrap_marked};

/// Pushes the rows of an agent's text.
pub(crate) fn push_rows(text: &str, columns: usize, signs: &Signs, rows: &mut Vec<Row>) {
    let bar = Clean::line(&format!("{} ", signs.vertical));
    let mut fence: Option<&str> = None;
    for line in split_lines(text) {
        let opens = fence_of(line);
        match (fence, opens) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if closes(line, open, mark) => fence = None,
            (Some(_), _) => {
                let code = Marked { text: Clean::line(line), strong: Vec::new() };
                for row in wrap_marked(&code, columns.saturating_sub(bar.width())) {
                    rows.push(Row::new(RowKind::Body, bar.clone().and(&row.text)));
                }
            }
            (None, None) => {
                let line = marked(line);
                for row in wrap_marked(&line, columns) {
                    rows.push(Row { strong: row.strong, ..Row::new(RowKind::Body, row.text) });
                }
            }
        }
    }
}

/// Returns the mark of a line that opens or closes a fence.
fn fence_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let sign = line.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let bytes = line.len() - line.trim_start_matches(sign).len();
    (bytes >= 3).then(|| &line[..bytes])
}

/// A fence ends with the same sign, at least as many of them, and nothing after.
fn closes(line: &str, open: &str, mark: &str) -> bool {
    mark.starts_with(open) && line.trim() == mark
}

/// Finds what is bold in a line and takes the marks away.
fn marked(line: &str) -> Marked {
    let line = Clean::line(line);
    if let Some(start) = heading(line.as_str()) {
        let text = line.slice(start..line.as_str().len());
        let whole = 0..text.as_str().len();
        return Marked { text, strong: vec![whole] };
    }
    let mut result = Marked { text: Clean::default(), strong: Vec::new() };
    let mut at = 0;
    for bold in bold_parts(line.as_str()) {
        result.text = result.text.and(&line.slice(at..bold.start - 2));
        let start = result.text.as_str().len();
        result.text = result.text.and(&line.slice(bold.clone()));
        result.strong.push(start..result.text.as_str().len());
        at = bold.end + 2;
    }
    result.text = result.text.and(&line.slice(at..line.as_str().len()));
    result
}

/// Returns where the text of a heading begins.
fn heading(line: &str) -> Option<usize> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let is_heading = (1..=6).contains(&level) && text.starts_with(' ') && !text.trim().is_empty();
    is_heading.then(|| line.len() - text.trim_start().len())
}

/// Returns the parts between pairs of `**`, outside inline code.
fn bold_parts(line: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut open = None;
    let mut in_code = false;
    let mut at = 0;
    while at < line.len() {
        let rest = &line[at..];
        if rest.starts_with('`') {
            in_code = !in_code;
        } else if !in_code && rest.starts_with("**") {
            match open {
                Some(start) if start < at && !line[..at].ends_with(' ') => {
                    parts.push(start..at);
                    open = None;
                }
                Some(_) | None if !rest[2..].starts_with([' ', '*']) => open = Some(at + 2),
                Some(_) | None => {}
            }
            at += 2;
            continue;
        }
        at += rest.chars().next().map_or(1, char::len_utf8);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{Charset, Colours, Theme};

    /// The rows, with `[` and `]` around what is bold.
    fn rows(text: &str, columns: usize) -> Vec<String> {
        let mut rows = Vec::new();
        let theme = Theme::new(Colours::None, Charset::Unicode);
        push_rows(text, columns, theme.signs, &mut rows);
        let shown = |row: &Row| {
            let mut text = row.text.to_string();
            for part in row.strong.iter().rev() {
                text.insert(part.end, ']');
                text.insert(part.start, '[');
            }
            text
        };
        rows.iter().map(shown).collect()
    }

    #[test]
    fn headings_and_pairs_of_stars_are_bold() {
        assert_eq!(rows("## Two ways", 40), ["[Two ways]"]);
        assert_eq!(rows("do **this** or **that one**", 40), ["do [this] or [that one]"]);
        assert_eq!(rows("**漢字** x", 40), ["[漢字] x"]);
    }

    #[test]
    fn bold_goes_on_in_the_next_row() {
        assert_eq!(
            rows("a **bold part that is long** b", 12),
            ["a [bold part]", "[that is long]", "b"]
        );
    }

    #[test]
    fn what_is_no_mark_stays_as_it_is() {
        for text in [
            "#include <stdio.h>",
            "#",
            "2 ** 3 ** 4",
            "a ** b",
            "`**not bold**`",
            "**open",
            "****",
            "snake_case and *stars*",
        ] {
            assert_eq!(rows(text, 40), [text], "{text}");
        }
    }

    #[test]
    fn fenced_code_stands_behind_a_line_until_its_fence_closes() {
        assert_eq!(
            rows("so:\n```rust\n# fn **x**\n\n    y\n```\nend", 40),
            ["so:", "│ # fn **x**", "│ ", "│     y", "end"]
        );
        assert_eq!(rows("~~~~\n```\n~~~\n~~~~\nend", 40), ["│ ```", "│ ~~~", "end"]);
        assert_eq!(rows("```\nstill open", 40), ["│ still open"]);
    }
}
