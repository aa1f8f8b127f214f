//! How things look: colours, weights, and the signs.
//!
//! One accent colour and one for warnings, both from the terminal's own palette, so that light
//! and dark terminals show what their owner chose. Everything is also said in words or signs.

use ratatui::style::{Color, Modifier, Style};

/// Whether colours may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// The terminal's palette.
    Palette,
    /// None at all: `NO_COLOR` is set, or the terminal has none.
    None,
}

/// Which characters the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// All of Unicode.
    Unicode,
    /// ASCII only.
    Ascii,
}

/// The look in force.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    colours: Colours,
    /// The signs in force.
    pub signs: &'static Signs,
}

/// Signs and hairlines; each has a twin in ASCII of the same width.
#[derive(Debug)]
pub struct Signs {
    /// The link works.
    pub online: &'static str,
    /// The link is gone.
    pub offline: &'static str,
    /// The link is being made.
    pub connecting: &'static str,
    /// Something folded, or the current row of a list.
    pub folded: &'static str,
    /// Somebody edits it.
    pub editing: &'static str,
    /// The selected row.
    pub selected: &'static str,
    /// Before the caret's text.
    pub prompt: &'static str,
    /// Text follows here.
    pub streaming: &'static str,
    /// Where text was cut.
    pub cut: &'static str,
    /// Between two facts.
    pub dot: &'static str,
    /// A hairline.
    pub horizontal: &'static str,
    /// A hairline between columns.
    pub vertical: &'static str,
    /// A hairline that meets one below it.
    pub tee_down: &'static str,
    /// A hairline that meets one above it.
    pub tee_up: &'static str,
    /// A hairline that starts at a column's edge.
    pub tee_right: &'static str,
}

static UNICODE: Signs = Signs {
    online: "●",
    offline: "○",
    connecting: "◌",
    folded: "▸",
    editing: "✎",
    selected: "▌",
    prompt: "›",
    streaming: "▍",
    cut: "…",
    dot: "·",
    horizontal: "─",
    vertical: "│",
    tee_down: "┬",
    tee_up: "┴",
    tee_right: "├",
};

static ASCII: Signs = Signs {
    online: "*",
    offline: "o",
    connecting: "~",
    folded: ">",
    editing: "e",
    selected: "|",
    prompt: ">",
    streaming: "_",
    cut: "~",
    dot: "-",
    horizontal: "-",
    vertical: "|",
    tee_down: "+",
    tee_up: "+",
    tee_right: "+",
};

impl Theme {
    /// Makes the look for a terminal.
    pub fn new(colours: Colours, charset: Charset) -> Self {
        Self {
            colours,
            signs: match charset {
                Charset::Unicode => &UNICODE,
                Charset::Ascii => &ASCII,
            },
        }
    }

    /// Reads `NO_COLOR`, `TERM` and the locale variables, as `environment` knows them.
    pub fn from_environment(environment: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let colours = match (set("NO_COLOR"), set("TERM").as_deref()) {
            (Some(_), _) | (_, Some("dumb")) => Colours::None,
            (None, _) => Colours::Palette,
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        // Without any locale, as in most containers, the terminal is still a modern one.
        let charset = match locale.map(|locale| locale.to_ascii_lowercase()) {
            Some(locale) if !locale.contains("utf-8") && !locale.contains("utf8") => Charset::Ascii,
            Some(_) | None => Charset::Unicode,
        };
        Self::new(colours, charset)
    }

    /// Ordinary text.
    pub fn text(self) -> Style {
        Style::new()
    }

    /// Hairlines, times, hints: what may recede.
    pub fn quiet(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Names and headings.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Where the focus is.
    pub fn accent(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// What needs attention.
    pub fn warning(self) -> Style {
        self.coloured(Color::Yellow)
    }

    fn coloured(self, colour: Color) -> Style {
        match self.colours {
            Colours::Palette => Style::new().fg(colour),
            Colours::None => Style::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn theme(set: &[(&str, &str)]) -> (Colours, &'static str) {
        let theme = Theme::from_environment(|name| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        (theme.colours, theme.signs.online)
    }

    #[test]
    fn the_environment_decides_colours_and_signs() {
        assert_eq!(theme(&[]), (Colours::Palette, "●"));
        assert_eq!(theme(&[("LANG", "C")]), (Colours::Palette, "*"));
        assert_eq!(theme(&[("LANG", "en_US.UTF-8")]), (Colours::Palette, "●"));
        assert_eq!(theme(&[("LC_CTYPE", "C.utf8")]), (Colours::Palette, "●"));
        assert_eq!(theme(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]), (Colours::Palette, "*"));
        assert_eq!(theme(&[("NO_COLOR", "1")]), (Colours::None, "●"));
        assert_eq!(theme(&[("NO_COLOR", "")]), (Colours::Palette, "●"));
        assert_eq!(theme(&[("TERM", "dumb")]), (Colours::None, "●"));
    }

    #[test]
    fn without_colours_no_style_has_one() {
        let theme = Theme::new(Colours::None, Charset::Unicode);
        for style in [theme.text(), theme.quiet(), theme.strong(), theme.accent(), theme.warning()]
        {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }

    #[test]
    fn twins_are_ascii_and_one_column_wide() {
        for (sign, twin) in pairs() {
            assert_eq!((sign.width(), twin.width()), (1, 1), "{sign} {twin}");
            assert!(twin.is_ascii());
        }
    }

    fn pairs() -> Vec<(&'static str, &'static str)> {
        let all = |signs: &'static Signs| {
            [
                signs.online,
                signs.offline,
                signs.connecting,
                signs.folded,
                signs.editing,
                signs.selected,
                signs.prompt,
                signs.streaming,
                signs.cut,
                signs.dot,
                signs.horizontal,
                signs.vertical,
                signs.tee_down,
                signs.tee_up,
                signs.tee_right,
            ]
        };
        all(&UNICODE).into_iter().zip(all(&ASCII)).collect()
    }
}
