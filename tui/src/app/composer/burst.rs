//! Tells typed keys from pasted ones in terminals that do not mark pastes.
//!
//! Keys of a paste come faster than anyone types. An Enter right after such a key is held back
//! for a moment: if more text follows, it was a line end of a paste. Once a terminal has marked a
//! paste, it always does, and nothing is held back any more.

use usher_shared::time::MonoMillis;

/// Keys closer than this were not typed by hand, milliseconds.
const GAP_MS: u64 = 20;
/// How long an Enter waits for text that follows it, milliseconds.
const HOLD_MS: u64 = 40;
/// How long after the last key of a paste an Enter still belongs to it, milliseconds.
const TAIL_MS: u64 = 120;
/// An Enter at the end of a burst of this many keys ends a paste; of fewer, it may be the end of
/// what was typed while the link was slow, or of what a script typed.
const LONG_BURST_KEYS: u32 = 800;

/// What an Enter means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enter {
    /// Submit.
    Submit,
    /// A line end of a paste.
    Newline,
    /// Not known yet: ask again at `Burst::deadline`.
    Held,
}

/// The keys of the last moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Burst {
    last_key: Option<MonoMillis>,
    keys: u32,
    mode: Mode,
    held_until: Option<MonoMillis>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Nothing was pasted lately.
    #[default]
    Typing,
    /// A line end came between keys that were not typed.
    Pasting,
    /// The terminal marks pastes.
    Marked,
}

impl Burst {
    /// When a held Enter is decided.
    pub(super) fn deadline(&self) -> Option<MonoMillis> {
        self.held_until
    }

    /// Tells whether the last keys came faster than anyone types.
    pub(super) fn is_fast(&self) -> bool {
        self.keys > 2
    }

    /// The terminal marked a paste.
    pub(super) fn marked_paste(&mut self) {
        self.mode = Mode::Marked;
        self.held_until = None;
    }

    /// Text came. Returns [`Enter::Newline`] if an Enter before it was a line end.
    pub(super) fn text(&mut self, now: MonoMillis) -> Option<Enter> {
        if self.mode == Mode::Pasting && self.quiet_for(now) > TAIL_MS {
            self.mode = Mode::Typing;
        }
        let close = self.quiet_for(now) <= GAP_MS;
        self.keys = if close { self.keys + 1 } else { 1 };
        self.last_key = Some(now);
        let held = self.held_until.take()?;
        if now <= held {
            self.mode = Mode::Pasting;
            Some(Enter::Newline)
        } else {
            Some(Enter::Submit)
        }
    }

    /// Enter came.
    pub(super) fn enter(&mut self, now: MonoMillis) -> Enter {
        let quiet_for = self.quiet_for(now);
        let verdict = match self.mode {
            Mode::Marked => return Enter::Submit,
            Mode::Pasting if quiet_for <= TAIL_MS => Enter::Newline,
            Mode::Pasting | Mode::Typing if self.held_until.is_some() => {
                // Two in a row: the first was a line end, this one is open.
                self.mode = Mode::Pasting;
                Enter::Newline
            }
            Mode::Pasting | Mode::Typing if quiet_for <= GAP_MS => {
                self.held_until = Some(now.plus(HOLD_MS));
                Enter::Held
            }
            Mode::Pasting | Mode::Typing => {
                self.mode = Mode::Typing;
                return Enter::Submit;
            }
        };
        self.last_key = Some(now);
        verdict
    }

    /// Decides a held Enter if nothing followed it in time, or if another key did.
    pub(super) fn decide(&mut self) -> Option<Enter> {
        self.held_until.take()?;
        if self.keys >= LONG_BURST_KEYS {
            self.mode = Mode::Pasting;
            Some(Enter::Newline)
        } else {
            Some(Enter::Submit)
        }
    }

    fn quiet_for(&self, now: MonoMillis) -> u64 {
        self.last_key.map_or(u64::MAX, |last| now.since(last))
    }
}
