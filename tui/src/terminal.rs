//! The terminal: its modes, and frames on their way to it.
//!
//! Owns standard output while a screen is shown. Whatever is switched on is switched off again on
//! every way out: [`Terminal`] does so when it is dropped, [`restore_on_panic`] before a panic is
//! reported. A frame goes out in one write, between marks that keep it from being seen half done,
//! and only if something changed.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{MoveTo, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange,
};
use crossterm::style::ResetColor;
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::backend::{Backend as _, CrosstermBackend};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect};
use unicode_width::UnicodeWidthStr as _;

/// Whether the modes are on: they are switched off once, whoever comes first.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// A terminal that shows a screen.
pub struct Terminal {
    shown: Shown,
    next: Buffer,
}

/// What the terminal shows now.
struct Shown {
    buffer: Buffer,
    caret: Option<Position>,
    /// Whether something else may be there.
    trust: Trust,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    Known,
    Unknown,
}

impl Terminal {
    /// Switches the modes on.
    ///
    /// # Errors
    /// If standard output is no terminal, or is gone.
    pub fn enter() -> io::Result<Self> {
        switch_on()?;
        let (columns, rows) = crossterm::terminal::size()?;
        let area = Rect::new(0, 0, columns, rows);
        Ok(Self {
            shown: Shown { buffer: Buffer::empty(area), caret: None, trust: Trust::Unknown },
            next: Buffer::empty(area),
        })
    }

    /// Returns the columns and rows.
    pub fn size(&self) -> (u16, u16) {
        (self.next.area.width, self.next.area.height)
    }

    /// Takes another size; everything is drawn anew.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        let area = Rect::new(0, 0, columns, rows);
        self.next.resize(area);
        self.shown.buffer = Buffer::empty(area);
        self.shown.trust = Trust::Unknown;
    }

    /// Draws everything anew with the next frame.
    pub fn invalidate(&mut self) {
        self.shown.trust = Trust::Unknown;
    }

    /// Shows what `draw` makes; nothing is written if it is there already.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Buffer) -> Option<Position>) -> io::Result<()> {
        let caret = draw(&mut self.next);
        let bytes = frame(&self.shown, &self.next, caret)?;
        std::mem::swap(&mut self.shown.buffer, &mut self.next);
        self.shown.caret = caret;
        self.shown.trust = Trust::Known;
        send(&bytes)
    }

    /// Rings the bell.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn ring(&self) -> io::Result<()> {
        send(b"\x07")
    }

    /// Gives the terminal back for a while.
    pub fn step_back(&mut self) {
        switch_off();
    }

    /// Takes it again. Its size and what it shows may be others.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn come_back(&mut self) -> io::Result<()> {
        switch_on()?;
        let (columns, rows) = crossterm::terminal::size()?;
        self.resize(columns, rows);
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        switch_off();
    }
}

/// Makes a panic give the terminal back before it is reported.
pub fn restore_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        switch_off();
        report(panic);
    }));
}

fn switch_on() -> io::Result<()> {
    enable_raw_mode()?;
    IS_ON.store(true, Ordering::SeqCst);
    write_modes_on(io::stdout())
}

fn write_modes_on(mut output: impl Write) -> io::Result<()> {
    execute!(output, EnterAlternateScreen, EnableBracketedPaste, EnableFocusChange)
}

fn write_modes_off(mut output: impl Write) -> io::Result<()> {
    execute!(
        output,
        EndSynchronizedUpdate,
        DisableFocusChange,
        DisableBracketedPaste,
        ResetColor,
        LeaveAlternateScreen,
        Show
    )
}

/// Nothing here may fail loudly: the terminal may be gone, and there is nobody to tell.
fn switch_off() {
    if IS_ON.swap(false, Ordering::SeqCst) {
        let _ = write_modes_off(io::stdout());
        let _ = disable_raw_mode();
    }
}

fn send(bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut output = io::stdout().lock();
    output.write_all(bytes)?;
    output.flush()
}

/// Returns what turns the shown screen into the next one.
fn frame(shown: &Shown, next: &Buffer, caret: Option<Position>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let blank;
    let before = match shown.trust {
        Trust::Known => &shown.buffer,
        Trust::Unknown => {
            blank = Buffer::empty(next.area);
            &blank
        }
    };
    let doubtful = doubtful_rows(before, next);
    let cleared;
    let before = if doubtful.is_empty() {
        before
    } else {
        cleared = without_rows(before, &doubtful);
        &cleared
    };
    let updates = before.diff(next);
    if updates.is_empty()
        && doubtful.is_empty()
        && caret == shown.caret
        && shown.trust == Trust::Known
    {
        return Ok(bytes);
    }
    queue!(bytes, BeginSynchronizedUpdate)?;
    if shown.trust == Trust::Unknown {
        queue!(bytes, ResetColor, Clear(ClearType::All))?;
    }
    for y in doubtful {
        queue!(bytes, ResetColor, MoveTo(0, y), Clear(ClearType::UntilNewLine))?;
    }
    let mut backend = CrosstermBackend::new(&mut bytes);
    if !updates.is_empty() {
        backend.draw(updates.into_iter())?;
    }
    match caret {
        Some(position) => {
            backend.set_cursor_position(position)?;
            if shown.caret.is_none() || shown.trust == Trust::Unknown {
                backend.show_cursor()?;
            }
        }
        None if shown.caret.is_some() || shown.trust == Trust::Unknown => backend.hide_cursor()?,
        None => {}
    }
    queue!(bytes, EndSynchronizedUpdate)?;
    Ok(bytes)
}

/// Returns the rows that change and hold, or held, graphemes that terminals disagree about: emoji
/// of several scalars may take more columns there than we count, and their ends would stay.
fn doubtful_rows(before: &Buffer, next: &Buffer) -> Vec<u16> {
    let width = usize::from(next.area.width).max(1);
    let rows = before.content.chunks(width).zip(next.content.chunks(width));
    let is_doubtful = |cell: &Cell| {
        let symbol = cell.symbol();
        symbol.chars().nth(1).is_some() && symbol.width() > 1
    };
    rows.zip(0..)
        .filter(|((old, new), _)| old != new && old.iter().chain(*new).any(is_doubtful))
        .map(|(_, y)| y)
        .collect()
}

fn without_rows(buffer: &Buffer, rows: &[u16]) -> Buffer {
    let mut cleared = buffer.clone();
    for y in rows {
        for x in 0..cleared.area.width {
            cleared[(x, *y)].reset();
        }
    }
    cleared
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    const AREA: Rect = Rect::new(0, 0, 20, 3);

    fn buffer(text: &str) -> Buffer {
        let mut buffer = Buffer::empty(AREA);
        for (line, y) in text.lines().zip(0..) {
            buffer.set_string(0, y, line, Style::new());
        }
        buffer
    }

    fn shown(text: &str, caret: Option<Position>, trust: Trust) -> Shown {
        Shown { buffer: buffer(text), caret, trust }
    }

    fn caret(x: u16, y: u16) -> Option<Position> {
        Some(Position { x, y })
    }

    #[test]
    fn every_mode_that_is_switched_on_is_switched_off() {
        let mut on = Vec::new();
        write_modes_on(&mut on).unwrap();
        let first = shown("", caret(0, 0), Trust::Unknown);
        on.extend(frame(&first, &buffer("x"), None).unwrap());
        let mut off = Vec::new();
        write_modes_off(&mut off).unwrap();
        let (on, off) = (String::from_utf8(on).unwrap(), String::from_utf8(off).unwrap());
        let set: Vec<_> = on
            .split("\x1b[?")
            .filter_map(|part| part.split_once('h'))
            .map(|(mode, _)| mode)
            .filter(|mode| !mode.is_empty() && mode.bytes().all(|byte| byte.is_ascii_digit()))
            .collect();
        assert_eq!(set, ["1049", "2004", "1004", "2026"]);
        for mode in set {
            assert!(off.contains(&format!("\x1b[?{mode}l")), "{mode}");
        }
        assert!(off.ends_with("\x1b[?25h"));
    }

    #[test]
    fn nothing_changed_writes_nothing() {
        let shown = shown("hello", caret(5, 0), Trust::Known);
        let bytes = frame(&shown, &buffer("hello"), caret(5, 0)).unwrap();
        assert_eq!(bytes, b"");
    }

    #[test]
    fn a_typed_character_costs_a_few_bytes_and_no_clear() {
        let shown = shown("hello", caret(5, 0), Trust::Known);
        let bytes = frame(&shown, &buffer("hello!"), caret(6, 0)).unwrap();
        assert!(bytes.len() <= 64, "{}", bytes.escape_ascii());
        assert!(!bytes.windows(3).any(|part| part == b"\x1b[2"));
        assert!(bytes.starts_with(b"\x1b[?2026h") && bytes.ends_with(b"\x1b[?2026l"));
    }

    #[test]
    fn a_row_with_an_emoji_family_is_cleared_when_it_changes() {
        let shown = shown("👨‍👩‍👧‍👦 a\nb", caret(0, 0), Trust::Known);
        let bytes = frame(&shown, &buffer("x\nb"), caret(0, 0)).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("\x1b[1;1H\x1b[K"), "{text:?}");
        assert_eq!(text.matches("\x1b[K").count(), 1);
    }

    #[test]
    fn a_terminal_shows_what_was_drawn_and_the_caret() {
        let mut parser =
            vt100::Parser::new(AREA.height.try_into().unwrap(), AREA.width.try_into().unwrap(), 0);
        parser.process(b"something else was here");
        let first = shown("", None, Trust::Unknown);
        parser.process(&frame(&first, &buffer("漢字 a\n\nlast"), caret(6, 0)).unwrap());
        assert_eq!(parser.screen().contents(), "漢字 a\n\nlast");
        assert_eq!(parser.screen().cursor_position(), (0, 6));
        let second = shown("漢字 a\n\nlast", caret(6, 0), Trust::Known);
        parser.process(&frame(&second, &buffer("x漢字\n\nlast"), None).unwrap());
        assert_eq!(parser.screen().contents().replace(" \n", "\n"), "x漢字\n\nlast");
        assert!(parser.screen().hide_cursor());
    }
}
