//! Runs a screen: waits for one thing, hands it to [`update`], does what that says, and draws
//! when something may have changed. Decides nothing.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use crossterm::event::Event as TerminalEvent;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use usher_shared::client::{Input, Journaling};
use usher_shared::id::SessionId;
use usher_shared::time::{MonoMillis, UnixMillis};
use uuid::Uuid;

use crate::app::{Attention, Clock, Effect, Message, Options, State, update};
use crate::driver::{Link, LinkCommand, Server, engine_config, mono_now};
use crate::hangup::Line;
use crate::i18n::Localizer;
use crate::journal::{Journal, JournalAnswer};
use crate::keyboard;
use crate::start::current_directory;
use crate::terminal::{Terminal, restore_on_panic};
use crate::theme::Theme;
use crate::view;

/// The shortest time between two frames, milliseconds.
const FRAME_MS: u64 = 16;
/// The same where every byte goes through a network or a multiplexer.
const SLOW_FRAME_MS: u64 = 33;
/// The longest sleep: timers do not run while the machine sleeps, our clock does.
const LONGEST_SLEEP_MS: u64 = 5_000;
/// Things that are handled before the next frame, at most.
const BATCH_MAX: usize = 512;
/// What shells call the end of a terminal.
const HANG_UP: i32 = rustix::process::Signal::HUP.as_raw();
/// How long a shell may take to stop us. Without job control nothing does.
const SUSPEND_WAIT: Duration = Duration::from_millis(250);

/// What a screen is run with.
#[derive(Debug)]
pub struct RunOptions {
    /// The server to talk to.
    pub server: Server,
    /// The token for it, if it needs one.
    pub token: Option<String>,
    /// Where prompts and drafts are written down; None: nowhere.
    pub journal_dir: Option<PathBuf>,
    /// The session to open; None: the one of the current directory, or a new one.
    pub session: Option<SessionId>,
    /// The language.
    pub localizer: Localizer,
}

/// Why the screen is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The person left.
    Left,
    /// This signal came; shells expect the exit code 128 + its number.
    Signal(i32),
}

/// Why there could be no screen, or why it broke.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Standard output is no terminal.
    #[error("standard output is not a terminal")]
    NotATerminal,
    /// The terminal failed.
    #[error("the terminal failed: {0}")]
    Terminal(#[from] io::Error),
}

/// Shows a screen until its person leaves or a signal ends it. The terminal is as it was then.
///
/// # Errors
/// If there is no terminal, or it fails.
pub async fn run(options: RunOptions) -> Result<Ended, RunError> {
    if !io::stdout().is_terminal() {
        return Err(RunError::NotATerminal);
    }
    let environment = |name: &str| std::env::var(name).ok();
    let frame_ms =
        match ["SSH_TTY", "SSH_CONNECTION", "TMUX", "STY"].into_iter().find_map(environment) {
            Some(_) => SLOW_FRAME_MS,
            None => FRAME_MS,
        };
    restore_on_panic();
    let mut signals = Signals::new()?;
    let line = Line::open()?;
    let terminal = Terminal::enter()?;
    let journaling = match options.journal_dir {
        Some(_) => Journaling::Adopting,
        None => Journaling::Off,
    };
    let state = State::new(Options {
        engine: engine_config(options.token, journaling),
        id_prefix: Uuid::now_v7().to_string(),
        session: options.session,
        workspace_dir: current_directory(),
        files: options.server.files(),
        localizer: options.localizer,
        theme: Theme::from_environment(environment),
        clock: Clock { started: (mono_now(), unix_now()), zone: jiff::tz::TimeZone::system() },
        size: terminal.size(),
    });
    let mut screen = Running {
        state,
        terminal,
        link: Link::spawn(options.server),
        journal: options.journal_dir.map(Journal::spawn),
        hung_up: line.watch(),
        events: keyboard::read(),
        frame: Frame::Due,
        frame_ms,
        drawn_at: MonoMillis::default(),
    };
    let ended = match screen.run(&mut signals).await {
        Err(_) if line.is_gone() => Ok(Ended::Signal(HANG_UP)),
        ended => ended,
    };
    if line.is_gone() {
        screen.take_last_keys();
    }
    screen.write_down_the_rest();
    ended
}

/// A screen that is shown.
struct Running {
    state: State,
    terminal: Terminal,
    link: Link,
    journal: Option<Journal>,
    events: mpsc::Receiver<io::Result<TerminalEvent>>,
    hung_up: oneshot::Receiver<()>,
    frame: Frame,
    frame_ms: u64,
    drawn_at: MonoMillis,
}

/// Whether what is shown may be old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Due,
    Fresh,
}

/// One thing to handle.
enum Wake {
    Terminal(Option<io::Result<TerminalEvent>>),
    Link(Option<Box<Input>>),
    Journal(JournalAnswer),
    Signal(Signalled),
    Time,
}

/// What follows from it.
enum Next {
    GoOn,
    Suspend,
    End(Ended),
}

impl Running {
    async fn run(&mut self, signals: &mut Signals) -> Result<Ended, RunError> {
        let mut next = self.take(Message::Link(Box::new(Input::Start)))?;
        loop {
            match next {
                Next::GoOn => {}
                Next::Suspend => self.suspend(signals).await?,
                Next::End(ended) => return Ok(ended),
            }
            self.draw_if_due()?;
            let deadline = self.next_deadline();
            let wake = tokio::select! {
                event = self.events.recv() => Wake::Terminal(event),
                _ = &mut self.hung_up => Wake::Signal(Signalled::End(HANG_UP)),
                input = self.link.inputs.recv() => Wake::Link(input.map(Box::new)),
                answer = Journal::next_answer(&mut self.journal) => Wake::Journal(answer),
                signal = signals.next() => Wake::Signal(signal),
                () = sleep(deadline) => Wake::Time,
            };
            next = self.handle(wake)?;
        }
    }

    fn handle(&mut self, wake: Wake) -> Result<Next, RunError> {
        match wake {
            Wake::Terminal(first) => self.handle_terminal(first),
            Wake::Link(Some(input)) => self.handle_link(input),
            // The link's task ends before us only if it panicked.
            Wake::Link(None) => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
            Wake::Journal(JournalAnswer::Input(input)) => self.take(Message::Link(input)),
            Wake::Journal(JournalAnswer::Drafts(drafts)) => self.take(Message::Drafts(drafts)),
            Wake::Signal(Signalled::End(number)) => Ok(Next::End(Ended::Signal(number))),
            Wake::Signal(Signalled::Continued) => self.come_back(),
            Wake::Time => self.take(Message::Tick),
        }
    }

    /// Takes all keys that are there: those of one paste must not be drawn one by one.
    fn handle_terminal(
        &mut self,
        first: Option<io::Result<TerminalEvent>>,
    ) -> Result<Next, RunError> {
        let mut event = first;
        for _ in 0..BATCH_MAX {
            let Some(event_now) = event else {
                return Ok(Next::End(Ended::Signal(HANG_UP)));
            };
            let Some(message) = message_of(event_now?) else {
                return Ok(Next::GoOn);
            };
            if let Message::Resize(columns, rows) = message {
                self.terminal.resize(columns, rows);
            }
            match self.take(message)? {
                Next::GoOn => {}
                other @ (Next::Suspend | Next::End(_)) => return Ok(other),
            }
            match self.events.try_recv() {
                Ok(ready) => event = Some(ready),
                Err(_) => break,
            }
        }
        Ok(Next::GoOn)
    }

    fn handle_link(&mut self, first: Box<Input>) -> Result<Next, RunError> {
        let mut next = self.take_input(first)?;
        for _ in 1..BATCH_MAX {
            let (Next::GoOn, Ok(input)) = (&next, self.link.inputs.try_recv()) else {
                break;
            };
            next = self.take_input(Box::new(input))?;
        }
        Ok(next)
    }

    fn take_input(&mut self, input: Box<Input>) -> Result<Next, RunError> {
        if let Input::LinkClosed { .. } = *input {
            self.take(Message::Trouble(self.link.trouble()))?;
        }
        self.take(Message::Link(input))
    }

    fn take(&mut self, message: Message) -> Result<Next, RunError> {
        self.frame = Frame::Due;
        let mut next = Next::GoOn;
        for effect in update(&mut self.state, message, mono_now()) {
            // The channel holds all that an engine can have under way. If it should not, the
            // frame counts as lost, which the engine recovers from.
            match effect {
                Effect::Connect => drop(self.link.commands.try_send(LinkCommand::Connect)),
                Effect::Disconnect => drop(self.link.commands.try_send(LinkCommand::Disconnect)),
                Effect::Send(text) => drop(self.link.commands.try_send(LinkCommand::Send(text))),
                Effect::Bell => self.terminal.ring()?,
                Effect::Redraw => self.terminal.invalidate(),
                Effect::Suspend => next = Next::Suspend,
                Effect::Quit => next = Next::End(Ended::Left),
            }
        }
        self.hand_over();
        Ok(next)
    }

    fn hand_over(&mut self) {
        let jobs = self.state.take_journal_jobs();
        if let Some(journal) = &self.journal {
            journal.hand_over(jobs);
        }
    }

    /// What was typed before the terminal went away belongs to the draft.
    fn take_last_keys(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            // There is nothing left to draw on.
            let _ = self.handle_terminal(Some(event));
        }
    }

    /// The drafts as they are at the end. The journal is done with them before it is dropped.
    fn write_down_the_rest(&mut self) {
        self.state.write_drafts();
        self.hand_over();
    }

    fn draw_if_due(&mut self) -> Result<(), RunError> {
        let now = mono_now();
        if self.frame == Frame::Due && now.since(self.drawn_at) >= self.frame_ms {
            let state = &self.state;
            self.terminal.draw(|buffer| view::draw(state, buffer))?;
            self.drawn_at = now;
            self.frame = Frame::Fresh;
        }
        Ok(())
    }

    fn next_deadline(&self) -> Option<MonoMillis> {
        let frame_due = match self.frame {
            Frame::Due => Some(self.drawn_at.plus(self.frame_ms)),
            Frame::Fresh => None,
        };
        self.state.next_deadline().into_iter().chain(frame_due).min()
    }

    async fn suspend(&mut self, signals: &mut Signals) -> Result<(), RunError> {
        self.terminal.step_back();
        // Like the Ctrl+Z of a terminal that is not in raw mode: the whole job stops.
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        let _ = tokio::time::timeout(SUSPEND_WAIT, signals.continued.recv()).await;
        self.come_back()?;
        Ok(())
    }

    fn come_back(&mut self) -> Result<Next, RunError> {
        self.terminal.come_back()?;
        let (columns, rows) = self.terminal.size();
        self.take(Message::Resize(columns, rows))
    }
}

fn message_of(event: TerminalEvent) -> Option<Message> {
    Some(match event {
        TerminalEvent::Key(key) => Message::Key(key),
        TerminalEvent::Paste(text) => Message::Paste(text),
        TerminalEvent::Resize(columns, rows) => Message::Resize(columns, rows),
        TerminalEvent::FocusGained => Message::Attention(Attention::Here),
        TerminalEvent::FocusLost => Message::Attention(Attention::Elsewhere),
        TerminalEvent::Mouse(_) => return None,
    })
}

/// The signals that end us or wake us.
struct Signals {
    ending: [(Signal, i32); 4],
    continued: Signal,
}

enum Signalled {
    End(i32),
    Continued,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let listen = |kind: SignalKind| Ok::<_, io::Error>((signal(kind)?, kind.as_raw_value()));
        Ok(Self {
            ending: [
                listen(SignalKind::terminate())?,
                listen(SignalKind::hangup())?,
                listen(SignalKind::quit())?,
                listen(SignalKind::interrupt())?,
            ],
            // SIGCONT has no name in tokio.
            continued: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }

    async fn next(&mut self) -> Signalled {
        let [terminate, hangup, quit, interrupt] = &mut self.ending;
        tokio::select! {
            _ = terminate.0.recv() => Signalled::End(terminate.1),
            _ = hangup.0.recv() => Signalled::End(hangup.1),
            _ = quit.0.recv() => Signalled::End(quit.1),
            _ = interrupt.0.recv() => Signalled::End(interrupt.1),
            _ = self.continued.recv() => Signalled::Continued,
        }
    }
}

async fn sleep(until: Option<MonoMillis>) {
    let wait = until.map_or(LONGEST_SLEEP_MS, |until| until.since(mono_now()));
    tokio::time::sleep(Duration::from_millis(wait.min(LONGEST_SLEEP_MS))).await;
}

fn unix_now() -> UnixMillis {
    UnixMillis::new(jiff::Timestamp::now().as_millisecond())
}
