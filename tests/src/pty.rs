//! A terminal for the real `usher`: a pseudo-terminal whose output is read into a virtual screen.

use std::io::{Read, Write};
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::UserHome;
use crate::{PATIENCE, binaries};

/// A running `usher` in a terminal.
pub struct Terminal {
    master: Option<Box<dyn MasterPty + Send>>,
    keyboard: Option<Box<dyn Write + Send>>,
    child: Box<dyn Child + Send + Sync>,
    output: Arc<Output>,
}

/// What a terminal has been sent; outlives it.
pub struct Output {
    state: Mutex<Seen>,
    changed: Condvar,
}

struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    open: bool,
    /// Whether somebody still looks: else the terminal is closed with the next output.
    wanted: bool,
}

impl Terminal {
    /// Opens a terminal of this size and runs `usher` in it.
    pub fn open(user: &UserHome, columns: u16, rows: u16, args: &[&str]) -> Self {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("the system has pseudo-terminals");
        let mut command = CommandBuilder::new(binaries::usher());
        command.args(args);
        command.cwd(user.home().path("work"));
        command.env_clear();
        for (name, value) in user.environment() {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).expect("the built program runs");
        drop(pair.slave);
        let output = Arc::new(Output {
            state: Mutex::new(Seen {
                parser: vt100::Parser::new(cells(rows), cells(columns), 0),
                bytes: Vec::new(),
                open: true,
                wanted: true,
            }),
            changed: Condvar::new(),
        });
        let reader = pair.master.try_clone_reader().expect("a terminal can be read");
        let keyboard = pair.master.take_writer().expect("a terminal can be written");
        let written = Arc::clone(&output);
        thread::spawn(move || written.read_all(reader));
        Self { master: Some(pair.master), keyboard: Some(keyboard), child, output }
    }

    /// Types keys, as bytes of a terminal.
    pub fn type_keys(&mut self, keys: &str) {
        let keyboard = self.keyboard.as_mut().expect("the terminal is open");
        keyboard.write_all(keys.as_bytes()).expect("the terminal takes keys");
        keyboard.flush().expect("the terminal takes keys");
    }

    /// Types more keys than a terminal holds, and waits for nothing; it takes no others after that.
    pub fn type_ahead(&mut self, keys: String) {
        let mut keyboard = self.keyboard.take().expect("the terminal is open");
        // An error: the terminal is gone.
        thread::spawn(move || drop(keyboard.write_all(keys.as_bytes())));
    }

    /// Types a line, presses Enter, and waits until the composer has let go of it.
    pub fn submit(&mut self, text: &str) {
        self.type_keys(text);
        let composed = format!("› {text}");
        self.wait_for(&composed);
        self.type_keys("\r");
        self.wait_until("a submitted prompt", |screen| !screen.contains(&composed));
    }

    /// The same with a prompt that comes back at once.
    pub fn submit_refused(&mut self, text: &str) {
        self.type_keys(text);
        self.wait_for(&format!("› {text}"));
        self.type_keys("\r");
        self.wait_for("Not accepted");
    }

    /// Waits until the screen shows `text`; returns the screen.
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Waits until the first line says that the server answers; returns the screen.
    pub fn wait_online(&self) -> String {
        let is_online = |screen: &str| screen.lines().next().is_some_and(|line| line.contains('●'));
        self.wait_until("a link", is_online)
    }

    /// Waits until the screen is as wanted; returns it.
    pub fn wait_until(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = self.output.lock();
        loop {
            let screen = seen.parser.screen().contents();
            if is(&screen) {
                return screen;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if !seen.open || left.is_zero() {
                drop(seen);
                panic!("the screen never showed {what}:\n{screen}");
            }
            seen = self.output.wait(seen, left);
        }
    }

    /// Gives the terminal another size.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.output.lock().parser.screen_mut().set_size(cells(rows), cells(columns));
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let master = self.master.as_ref().expect("the terminal is open");
        master.resize(size).expect("a terminal can be resized");
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = self.child.process_id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // It may have ended already.
            let _ = kill_process(pid, signal);
        }
    }

    /// Returns the screen now.
    pub fn screen(&self) -> String {
        let seen = self.output.lock();
        seen.parser.screen().contents()
    }

    /// Returns every byte written to the terminal so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.output.bytes()
    }

    /// Returns what it was sent, also for after its end.
    pub fn output(&self) -> Arc<Output> {
        Arc::clone(&self.output)
    }

    /// Waits until the program has ended by itself; returns its exit code.
    pub fn ended(mut self) -> u32 {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = self.output.lock();
        while seen.open {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let screen = seen.parser.screen().contents();
                drop(seen);
                panic!("usher does not end:\n{screen}");
            }
            seen = self.output.wait(seen, left);
        }
        drop(seen);
        let status = self.child.wait().expect("our own child can be waited for");
        status.exit_code()
    }

    /// Closes the terminal as a closed window does (the program gets a hang-up), and waits until
    /// the program is gone.
    pub fn close(mut self) {
        self.hang_up();
        self.child.wait().expect("our own child can be waited for");
    }

    /// Takes the terminal away while the program reads and writes: nobody but the kernel tells it.
    /// Waits until it is gone.
    pub fn take_away(mut self, keys: &str) {
        self.type_keys(keys);
        self.output.lock().wanted = false;
        self.keyboard = None;
        self.master = None;
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().expect("our own child can be waited for").is_none() {
            assert!(Instant::now() < deadline, "usher outlives its terminal");
            thread::yield_now();
        }
    }

    fn hang_up(&mut self) {
        self.keyboard = None;
        self.master = None;
        // The reader thread still holds the terminal: do what the kernel would.
        self.signal(Signal::HUP);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a screen has cells")
}

impl Output {
    /// Returns every byte written to the terminal so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.state.lock().expect("nobody panics while holding it")
    }

    fn wait<'a>(&self, seen: MutexGuard<'a, Seen>, at_most: Duration) -> MutexGuard<'a, Seen> {
        let waited = self.changed.wait_timeout(seen, at_most);
        waited.expect("nobody panics while holding it").0
    }

    fn read_all(&self, mut reader: Box<dyn Read + Send>) {
        let mut buffer = [0; 16_384];
        loop {
            let read = reader.read(&mut buffer).unwrap_or(0);
            let mut seen = self.lock();
            seen.parser.process(&buffer[..read]);
            seen.bytes.extend_from_slice(&buffer[..read]);
            seen.open = read > 0 && seen.wanted;
            let open = seen.open;
            drop(seen);
            self.changed.notify_all();
            if !open {
                return;
            }
        }
    }
}
