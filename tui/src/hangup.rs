//! Notices that the terminal is gone.
//!
//! A hang-up signal says so to the leader of a session only, and it can be ignored. Who reads the keys
//! does not notice: see `keyboard`.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use tokio::sync::oneshot;

/// How long a program may take to end by itself after its terminal is gone.
const END_WITHIN: Duration = Duration::from_secs(5);

/// The terminal that keys come from.
#[derive(Clone, Debug)]
pub struct Line {
    terminal: Arc<OwnedFd>,
}

impl Line {
    /// Finds the terminal that keys are read from.
    ///
    /// # Errors
    /// If there is none.
    pub fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        let terminal = if stdin.is_terminal() {
            stdin.as_fd().try_clone_to_owned()?
        } else {
            File::open("/dev/tty")?.into()
        };
        Ok(Self { terminal: Arc::new(terminal) })
    }

    /// Tells whether the terminal is gone.
    pub fn is_gone(&self) -> bool {
        self.look(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
    }

    /// Starts to wait for its end. The channel gives a value then; a program that does not end after
    /// that is ended.
    pub fn watch(&self) -> oneshot::Receiver<()> {
        let (gone, seen) = oneshot::channel();
        let line = self.clone();
        std::thread::spawn(move || {
            while !line.look(None) {}
            let _ = gone.send(());
            std::thread::sleep(END_WITHIN);
            std::process::exit(128 + Signal::HUP.as_raw());
        });
        seen
    }

    fn look(&self, wait: Option<&Timespec>) -> bool {
        // What makes a poll return without being asked for: the other side is closed, or we are.
        let mut lines = [PollFd::new(&*self.terminal, PollFlags::empty())];
        let _ = poll(&mut lines, wait);
        lines[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_line_is_gone_when_its_other_end_is_closed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let line = Line { terminal: Arc::new(ours.into()) };
        assert!(!line.is_gone());
        drop(theirs);
        assert!(line.is_gone());
    }
}
