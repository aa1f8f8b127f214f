//! What happens to the screen, and what it asks for.

use crossterm::event::KeyEvent;
use usher_shared::client::Input;

use crate::driver::Trouble;
use crate::journal::Draft;

/// One thing that happened.
#[derive(Debug)]
pub enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted, and the terminal said so.
    Paste(String),
    /// The terminal has this many columns and rows.
    Resize(u16, u16),
    /// Whether the terminal is in front changed.
    Attention(Attention),
    /// Something for the engine.
    Link(Box<Input>),
    /// Why the attempt to connect that is about to be reported as closed came to nothing, if its
    /// person can do something about it.
    Trouble(Option<Trouble>),
    /// The drafts that an earlier run left, oldest first.
    Drafts(Vec<Draft>),
    /// The time of [`super::State::next_deadline`] is here.
    Tick,
}

/// Whether the person looks at this terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// It is in front, or cannot tell.
    Here,
    /// Another window is in front.
    Elsewhere,
}

/// One thing to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open a connection.
    Connect,
    /// End the connection.
    Disconnect,
    /// Send a text frame.
    Send(String),
    /// Ring the bell.
    Bell,
    /// Draw everything anew: the terminal may show something else.
    Redraw,
    /// Give the terminal back and stop until continued.
    Suspend,
    /// Leave.
    Quit,
}
