//! Reads what comes from the terminal, on a thread of its own.
//!
//! A terminal that is gone keeps the reader busy for ever: it takes the end of the input for keys
//! that are still to come. Whoever reads must therefore not be who handles the hang-up, or the
//! program would neither end nor let go of its rows in the journal.

use std::io;
use std::thread;
use std::time::Duration;

use crossterm::event::{self, Event};
use tokio::sync::mpsc::{self, Receiver};

/// Events that are read ahead: as many as are handled before a frame. Beyond, the terminal waits.
const AHEAD_MAX: usize = 512;

/// Starts to read; the thread ends with the program, or when nobody wants its events any more.
pub(crate) fn read() -> Receiver<io::Result<Event>> {
    let (events_in, events) = mpsc::channel(AHEAD_MAX);
    // From here on no change of the size is missed. An error comes again with the first event.
    let _ = event::poll(Duration::ZERO);
    thread::spawn(move || {
        loop {
            let event = event::read();
            let is_last = event.is_err();
            if events_in.blocking_send(event).is_err() || is_last {
                return;
            }
        }
    });
    events
}
