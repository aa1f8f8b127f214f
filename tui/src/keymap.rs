//! Which key does what, and where. Help and hints are made from this table, so that they cannot
//! say anything else.
//!
//! No printable key is a command while text is being written: commands there need Ctrl, Alt, or a
//! key without a character.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::app::composer::Edit;

use Context::{Chat, Everywhere, Help, Permission, Queue, Sessions};
use KeyCode::Char;

/// Where a key is pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Anywhere; looked up after the place itself.
    Everywhere,
    /// The composer has the focus.
    Chat,
    /// The queue has the focus.
    Queue,
    /// The list of sessions is open.
    Sessions,
    /// The keys are being shown.
    Help,
    /// A question of the agent has the focus.
    Permission,
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Sends the draft; it queues while a turn runs.
    Submit,
    /// Changes the draft.
    Edit(Edit),
    /// Removes the character after the caret, or leaves if there is no text.
    DeleteOrLeave,
    /// Clears the draft, or asks whether to leave if there is no text.
    ClearOrLeave,
    /// One step back; stops the running turn when pressed twice.
    Back,
    /// Moves the focus into the queue.
    FocusQueue,
    /// Moves the focus to the agent's question.
    FocusPermission,
    /// Opens the list of sessions.
    OpenSessions,
    /// Shows all keys.
    Help,
    /// One row up in a list.
    ListUp,
    /// One row down in a list.
    ListDown,
    /// Opens what is selected.
    Choose,
    /// Makes a new session.
    NewSession,
    /// Removes the selected entry.
    RemoveEntry,
    /// Switches auto-run.
    ToggleAutoRun,
    /// Removes all entries, after a question.
    ClearQueue,
    /// Brings back what was removed last.
    Restore,
    /// Checks an uncertain prompt and resends it safely, or runs an unfinished one again.
    Again,
    /// Sends an uncertain prompt as a new one.
    SendAsNew,
    /// Drops an uncertain, refused or unfinished prompt.
    Drop,
    /// Shows all of what the agent asks about.
    ShowAll,
    /// A page up in the transcript.
    PageUp,
    /// A page down in the transcript.
    PageDown,
    /// A row up in the transcript.
    RowUp,
    /// A row down in the transcript.
    RowDown,
    /// To the start of the transcript.
    ToStart,
    /// To its end, and along with it.
    ToEnd,
    /// Draws the whole screen anew.
    Redraw,
    /// Stops this program until the shell continues it.
    Suspend,
}

/// A key with the modifiers that matter for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    code: KeyCode,
    modifiers: KeyModifiers,
}

/// One row of the table.
#[derive(Debug)]
pub struct Binding {
    /// Where it holds.
    pub context: Context,
    /// The key.
    pub key: Key,
    /// What it does.
    pub command: Command,
    /// The name of the text that says so; None for a second key of the same command.
    pub help: Option<&'static str>,
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

const fn bind(
    context: Context,
    modifiers: KeyModifiers,
    code: KeyCode,
    command: Command,
    help: Option<&'static str>,
) -> Binding {
    Binding { context, key: Key { code, modifiers }, command, help }
}

const fn edit(modifiers: KeyModifiers, code: KeyCode, edit: Edit) -> Binding {
    bind(Chat, modifiers, code, Command::Edit(edit), None)
}

const fn shown(modifiers: KeyModifiers, code: KeyCode, edit: Edit, help: &'static str) -> Binding {
    bind(Chat, modifiers, code, Command::Edit(edit), Some(help))
}

/// The keys in force.
pub static BINDINGS: &[Binding] = &[
    bind(Chat, NONE, KeyCode::Enter, Command::Submit, Some("tui-key-submit")),
    shown(ALT, KeyCode::Enter, Edit::Newline, "tui-key-newline"),
    edit(CTRL, Char('j'), Edit::Newline),
    edit(SHIFT, KeyCode::Enter, Edit::Newline),
    bind(Chat, NONE, KeyCode::Esc, Command::Back, Some("tui-key-stop")),
    bind(Chat, CTRL, Char('c'), Command::ClearOrLeave, Some("tui-key-clear")),
    shown(ALT, Char('u'), Edit::Undo, "tui-key-undo"),
    edit(CTRL, Char('_'), Edit::Undo),
    // How terminals report Ctrl+_.
    edit(CTRL, Char('7'), Edit::Undo),
    edit(CTRL, Char('/'), Edit::Undo),
    bind(Chat, CTRL, Char('d'), Command::DeleteOrLeave, Some("tui-key-leave")),
    shown(NONE, KeyCode::Up, Edit::Up, "tui-key-history"),
    edit(NONE, KeyCode::Down, Edit::Down),
    edit(NONE, KeyCode::Backspace, Edit::Backspace),
    edit(SHIFT, KeyCode::Backspace, Edit::Backspace),
    edit(CTRL, Char('h'), Edit::Backspace),
    edit(NONE, KeyCode::Delete, Edit::Delete),
    edit(NONE, KeyCode::Left, Edit::Left),
    edit(CTRL, Char('b'), Edit::Left),
    edit(NONE, KeyCode::Right, Edit::Right),
    edit(CTRL, Char('f'), Edit::Right),
    shown(ALT, Char('b'), Edit::WordLeft, "tui-key-word-left"),
    edit(CTRL, KeyCode::Left, Edit::WordLeft),
    edit(ALT, KeyCode::Left, Edit::WordLeft),
    shown(ALT, Char('f'), Edit::WordRight, "tui-key-word-right"),
    edit(CTRL, KeyCode::Right, Edit::WordRight),
    edit(ALT, KeyCode::Right, Edit::WordRight),
    shown(CTRL, Char('a'), Edit::LineStart, "tui-key-line-start"),
    edit(NONE, KeyCode::Home, Edit::LineStart),
    shown(CTRL, Char('e'), Edit::LineEnd, "tui-key-line-end"),
    edit(NONE, KeyCode::End, Edit::LineEnd),
    shown(CTRL, Char('k'), Edit::CutToLineEnd, "tui-key-cut-to-line-end"),
    shown(CTRL, Char('u'), Edit::CutToLineStart, "tui-key-cut-to-line-start"),
    shown(CTRL, Char('w'), Edit::CutBlankLeft, "tui-key-cut-word"),
    edit(ALT, KeyCode::Backspace, Edit::CutWordLeft),
    shown(ALT, Char('d'), Edit::CutWordRight, "tui-key-cut-word-right"),
    shown(CTRL, Char('y'), Edit::Paste, "tui-key-paste"),
    bind(Queue, NONE, KeyCode::Up, Command::ListUp, Some("tui-key-select")),
    bind(Queue, NONE, KeyCode::Down, Command::ListDown, Some("tui-key-select-below")),
    bind(Queue, NONE, Char('k'), Command::ListUp, None),
    bind(Queue, NONE, Char('j'), Command::ListDown, None),
    bind(Queue, NONE, Char('d'), Command::RemoveEntry, Some("tui-key-remove")),
    bind(Queue, NONE, KeyCode::Delete, Command::RemoveEntry, None),
    bind(Queue, NONE, Char('z'), Command::Restore, Some("tui-key-restore")),
    bind(Queue, ALT, Char('u'), Command::Restore, None),
    bind(Queue, NONE, Char('p'), Command::ToggleAutoRun, Some("tui-key-auto-run")),
    bind(Queue, NONE, Char('D'), Command::ClearQueue, Some("tui-key-clear-queue")),
    bind(Queue, NONE, KeyCode::Esc, Command::Back, Some("tui-key-back")),
    bind(Queue, ALT, Char('q'), Command::Back, None),
    bind(Queue, CTRL, Char('c'), Command::Back, None),
    bind(Queue, NONE, Char('?'), Command::Help, Some("tui-key-help")),
    bind(Permission, NONE, KeyCode::Tab, Command::ShowAll, Some("tui-key-show-all")),
    bind(Permission, NONE, KeyCode::Esc, Command::Back, Some("tui-key-back")),
    bind(Permission, CTRL, Char('c'), Command::Back, None),
    bind(Sessions, NONE, KeyCode::Up, Command::ListUp, Some("tui-key-select")),
    bind(Sessions, NONE, KeyCode::Down, Command::ListDown, Some("tui-key-select-below")),
    bind(Sessions, NONE, Char('k'), Command::ListUp, None),
    bind(Sessions, NONE, Char('j'), Command::ListDown, None),
    bind(Sessions, NONE, KeyCode::Enter, Command::Choose, Some("tui-key-open")),
    bind(Sessions, NONE, Char('n'), Command::NewSession, Some("tui-key-new-session")),
    bind(Sessions, NONE, KeyCode::Esc, Command::Back, Some("tui-key-back")),
    bind(Sessions, ALT, Char('s'), Command::Back, None),
    bind(Sessions, CTRL, Char('c'), Command::Back, None),
    bind(Help, NONE, KeyCode::Up, Command::ListUp, None),
    bind(Help, NONE, KeyCode::Down, Command::ListDown, None),
    bind(Help, NONE, KeyCode::PageUp, Command::PageUp, None),
    bind(Help, NONE, KeyCode::PageDown, Command::PageDown, None),
    bind(Help, NONE, KeyCode::Esc, Command::Back, Some("tui-key-back")),
    bind(Help, NONE, KeyCode::F(1), Command::Back, None),
    bind(Help, NONE, Char('q'), Command::Back, None),
    bind(Help, CTRL, Char('c'), Command::Back, None),
    bind(Everywhere, ALT, Char('q'), Command::FocusQueue, Some("tui-key-queue")),
    bind(Everywhere, ALT, Char('s'), Command::OpenSessions, Some("tui-key-sessions")),
    bind(Everywhere, ALT, Char('a'), Command::FocusPermission, Some("tui-key-answer")),
    bind(Everywhere, ALT, Char('r'), Command::Again, Some("tui-key-again")),
    bind(Everywhere, ALT, Char('n'), Command::SendAsNew, Some("tui-key-send-as-new")),
    bind(Everywhere, ALT, Char('x'), Command::Drop, Some("tui-key-drop")),
    bind(Everywhere, NONE, KeyCode::PageUp, Command::PageUp, Some("tui-key-page-up")),
    bind(Everywhere, NONE, KeyCode::PageDown, Command::PageDown, Some("tui-key-page-down")),
    bind(Everywhere, SHIFT, KeyCode::Up, Command::RowUp, Some("tui-key-row-up")),
    bind(Everywhere, SHIFT, KeyCode::Down, Command::RowDown, Some("tui-key-row-down")),
    bind(Everywhere, CTRL, KeyCode::Home, Command::ToStart, Some("tui-key-to-start")),
    bind(Everywhere, CTRL, KeyCode::End, Command::ToEnd, Some("tui-key-to-end")),
    bind(Everywhere, NONE, KeyCode::F(1), Command::Help, Some("tui-key-help")),
    bind(Everywhere, CTRL, Char('l'), Command::Redraw, Some("tui-key-redraw")),
    bind(Everywhere, CTRL, Char('z'), Command::Suspend, Some("tui-key-suspend")),
];

/// Returns what `event` does in `context`.
pub fn command(context: Context, event: KeyEvent) -> Option<Command> {
    let key = Key::of(event);
    let find = |context: Context| {
        let mut bindings = BINDINGS.iter();
        bindings.find(|binding| binding.context == context && binding.key == key)
    };
    find(context).or_else(|| find(Everywhere)).map(|binding| binding.command)
}

/// Returns the key that is shown for `command` in `context`.
pub fn key_for(context: Context, command: Command) -> Option<Key> {
    let here = |binding: &&Binding| {
        binding.command == command && (binding.context == context || binding.context == Everywhere)
    };
    BINDINGS.iter().find(here).map(|binding| binding.key)
}

/// Returns the character that `event` writes, if it is no command.
pub fn text_of(event: KeyEvent) -> Option<char> {
    match event.code {
        Char(c) if !event.modifiers.intersects(CTRL | ALT) && !c.is_control() => Some(c),
        KeyCode::Tab if event.modifiers.is_empty() => Some('\t'),
        _ => None,
    }
}

impl Key {
    /// A key without modifiers.
    pub const fn plain(c: char) -> Self {
        Self { code: Char(c), modifiers: NONE }
    }

    fn of(event: KeyEvent) -> Self {
        let relevant = event.modifiers & (CTRL | ALT | SHIFT);
        match event.code {
            // Shift is in the character already; with Ctrl or Alt its case means nothing.
            Char(c) if relevant.intersects(CTRL | ALT) => {
                Self { code: Char(c.to_ascii_lowercase()), modifiers: relevant - SHIFT }
            }
            Char(c) => Self::plain(c),
            code => Self { code, modifiers: relevant },
        }
    }

    /// Tells whether `event` is this key.
    pub fn matches(self, event: KeyEvent) -> bool {
        Self::of(event) == self
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let modified = !self.modifiers.is_empty();
        for (modifier, name) in [(CTRL, "Ctrl+"), (ALT, "Alt+"), (SHIFT, "Shift+")] {
            if self.modifiers.contains(modifier) {
                f.write_str(name)?;
            }
        }
        match self.code {
            Char(c) if modified => write!(f, "{}", c.to_ascii_uppercase()),
            Char(c) => write!(f, "{c}"),
            KeyCode::F(number) => write!(f, "F{number}"),
            KeyCode::PageUp => f.write_str("PgUp"),
            KeyCode::PageDown => f.write_str("PgDn"),
            code => write!(f, "{code:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(modifiers: KeyModifiers, code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, modifiers)
    }

    #[test]
    fn no_key_means_two_things_in_one_place() {
        for (index, binding) in BINDINGS.iter().enumerate() {
            let twin = BINDINGS[..index]
                .iter()
                .find(|other| other.context == binding.context && other.key == binding.key);
            assert!(twin.is_none(), "{binding:?} and {twin:?}");
        }
    }

    #[test]
    fn no_printable_key_is_a_command_while_writing() {
        for c in ('\u{0}'..'\u{3000}').filter(|c| !c.is_control()) {
            for modifiers in [NONE, SHIFT] {
                let event = press(modifiers, Char(c));
                assert_eq!(command(Chat, event), None, "{c:?}");
                assert_eq!(text_of(event), Some(c));
            }
        }
    }

    #[test]
    fn shift_and_case_do_not_hide_a_key() {
        let queue = Some(Command::FocusQueue);
        assert_eq!(command(Chat, press(ALT, Char('q'))), queue);
        assert_eq!(command(Chat, press(ALT | SHIFT, Char('Q'))), queue);
        let clear = Some(Command::ClearQueue);
        assert_eq!(command(Queue, press(SHIFT, Char('D'))), clear);
        assert_eq!(command(Queue, press(NONE, Char('D'))), clear);
        let remove = Some(Command::RemoveEntry);
        assert_eq!(command(Queue, press(NONE, Char('d'))), remove);
    }

    #[test]
    fn keys_are_named_as_people_say_them() {
        let name = |context, command| key_for(context, command).unwrap().to_string();
        assert_eq!(name(Chat, Command::FocusQueue), "Alt+Q");
        assert_eq!(name(Chat, Command::Edit(Edit::Newline)), "Alt+Enter");
        assert_eq!(name(Chat, Command::Help), "F1");
        assert_eq!(name(Chat, Command::PageUp), "PgUp");
        assert_eq!(name(Queue, Command::ClearQueue), "D");
        assert_eq!(name(Queue, Command::RemoveEntry), "d");
    }
}
