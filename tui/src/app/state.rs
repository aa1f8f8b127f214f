//! Everything the screen shows.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use usher_shared::client::{CallId, Engine, EngineConfig, Freshness, Journaling, Mirror};
use usher_shared::id::{AdmissionId, SessionId};
use usher_shared::time::{MonoMillis, UnixMillis};

use super::ask::{Ask, OpenAsk, Stays, Toast};
use super::calls::Asked;
use super::composer::Composer;
use super::drafts::Drafts;
use super::help::Help;
use super::message::{Attention, Effect};
use super::permission::Card;
use super::queue::QueuePanel;
use super::sessions::Sessions;
use super::transcript::Transcript;
use super::undo::Undos;
use crate::driver::Trouble;
use crate::i18n::{Localizer, Value};
use crate::journal::JournalJob;
use crate::start::Files;
use crate::theme::Theme;
use crate::view::clean::Clean;

/// What a screen is made with.
pub struct Options {
    /// For the engine.
    pub engine: EngineConfig,
    /// Unique over all clients; what is minted here begins with it.
    pub id_prefix: String,
    /// The session to open; None: the one of the directory, or a new one.
    pub session: Option<SessionId>,
    /// The directory of a new task.
    pub workspace_dir: Option<String>,
    /// Whether the server sees that directory.
    pub files: Files,
    /// The language.
    pub localizer: Localizer,
    /// The look.
    pub theme: Theme,
    /// The time.
    pub clock: Clock,
    /// The terminal's columns and rows.
    pub size: (u16, u16),
}

/// Turns readings of the monotonic clock into times of day.
#[derive(Clone, Debug)]
pub struct Clock {
    /// A reading of both clocks at the same moment.
    pub started: (MonoMillis, UnixMillis),
    /// Where the person is.
    pub zone: TimeZone,
}

/// Where keys go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Focus {
    /// Into the composer.
    #[default]
    Chat,
    /// To the queue.
    Queue,
    /// To the list of sessions.
    Sessions,
    /// To the list of keys.
    Help,
}

/// See the module.
pub struct State {
    pub(crate) engine: Engine,
    pub(crate) localizer: Localizer,
    pub(crate) theme: Theme,
    pub(crate) clock: Clock,
    pub(crate) now: MonoMillis,
    pub(crate) size: (u16, u16),
    pub(crate) attention: Attention,
    pub(crate) focus: Focus,
    /// The draft of the open session, or the first one's while none is open yet.
    pub(crate) composer: Composer,
    /// Whose draft that is.
    pub(crate) composer_of: Option<SessionId>,
    /// The drafts of the other sessions.
    pub(crate) put_away: BTreeMap<SessionId, Composer>,
    pub(crate) queue: QueuePanel,
    pub(crate) undos: Undos,
    pub(crate) transcript: Transcript,
    pub(crate) permission: Card,
    pub(crate) sessions: Sessions,
    pub(crate) help: Help,
    pub(crate) ask: Option<OpenAsk>,
    pub(crate) toast: Option<Toast>,
    /// What keeps the link from coming up.
    pub(crate) trouble: Option<Trouble>,
    pub(crate) calls: BTreeMap<CallId, Asked>,
    /// Which drafts are on disk.
    pub(crate) drafts: Drafts,
    /// What [`super::update`] will say is to be done.
    pub(crate) effects: Vec<Effect>,
    /// What is to be done in the journal, together.
    pub(crate) journal_jobs: Vec<JournalJob>,
    journaling: Journaling,
    id_prefix: String,
    next_id: u64,
}

impl State {
    /// Makes a screen that waits for [`usher_shared::client::Input::Start`].
    pub fn new(options: Options) -> Self {
        let journaling = options.engine.journaling;
        Self {
            engine: Engine::new(options.engine),
            localizer: options.localizer,
            theme: options.theme,
            now: options.clock.started.0,
            clock: options.clock,
            size: options.size,
            attention: Attention::Here,
            focus: Focus::default(),
            composer: Composer::default(),
            composer_of: None,
            put_away: BTreeMap::new(),
            queue: QueuePanel::default(),
            undos: Undos::default(),
            transcript: Transcript::default(),
            permission: Card::default(),
            sessions: Sessions::new(options.session, options.workspace_dir, options.files),
            help: Help::default(),
            ask: None,
            toast: None,
            trouble: None,
            calls: BTreeMap::new(),
            drafts: Drafts::default(),
            effects: Vec::new(),
            journal_jobs: Vec::new(),
            journaling,
            id_prefix: options.id_prefix,
            next_id: 0,
        }
    }

    /// When [`super::Message::Tick`] is due, if nothing else happens before.
    pub fn next_deadline(&self) -> Option<MonoMillis> {
        [
            self.engine.next_deadline(),
            self.composer.deadline(),
            self.ask.map(|ask| ask.until),
            self.toast.as_ref().and_then(Toast::until),
            self.permission.deadline(self.now),
            self.sending_shown_at(),
            self.drafts.deadline(),
            self.next_second_of_turn(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Takes out what is to be done in the journal, together.
    pub fn take_journal_jobs(&mut self) -> Vec<JournalJob> {
        std::mem::take(&mut self.journal_jobs)
    }

    /// Tells whether there is a journal.
    pub(crate) fn journals(&self) -> bool {
        self.journaling != Journaling::Off
    }

    pub(crate) fn mirror(&self) -> Option<&Mirror> {
        self.engine.mirror()
    }

    /// Returns how long the open turn has been running. While there is no link nobody knows.
    pub(crate) fn turn_millis(&self) -> Option<u64> {
        let mirror = self.mirror().filter(|mirror| mirror.freshness() == Freshness::Live)?;
        let turn = mirror.session().turn?;
        let running = self.clock.unix(self.now).get() - turn.started_at.get();
        // The server's clock may be ahead of ours.
        Some(u64::try_from(running).unwrap_or(0))
    }

    fn next_second_of_turn(&self) -> Option<MonoMillis> {
        let running = self.turn_millis()?;
        Some(self.now.plus(1_000 - running % 1_000))
    }

    pub(crate) fn mint_admission_id(&mut self) -> AdmissionId {
        let text = self.mint();
        AdmissionId::parse(&text).expect("a prefix and a number are a valid id")
    }

    pub(crate) fn mint_call_id(&mut self) -> CallId {
        self.next_id += 1;
        CallId::new(self.next_id)
    }

    pub(crate) fn mint(&mut self) -> String {
        self.next_id += 1;
        format!("{}.{}", self.id_prefix, self.next_id)
    }

    pub(crate) fn text(&self, id: &str) -> Clean {
        Clean::line(&self.localizer.text(id))
    }

    pub(crate) fn text_with(&self, id: &str, arguments: &[(&str, Value<'_>)]) -> Clean {
        Clean::line(&self.localizer.text_with(id, arguments))
    }

    pub(crate) fn say(&mut self, id: &str) {
        self.toast = Some(Toast::passing(self.localizer.text(id), self.now));
    }

    /// A notice about the draft goes with it.
    pub(crate) fn drop_notice_of_no_draft(&mut self) {
        if self.composer.buffer().is_empty() {
            self.toast.take_if(|toast| toast.stays == Stays::WithDraft);
        }
    }

    pub(crate) fn ask(&mut self, ask: Ask) {
        self.ask = Some(OpenAsk::new(ask, self.now));
    }
}

impl Clock {
    /// Returns the time of day at a reading.
    pub fn unix(&self, now: MonoMillis) -> UnixMillis {
        let (mono, unix) = self.started;
        let passed = i64::try_from(now.since(mono)).unwrap_or(i64::MAX);
        UnixMillis::new(unix.get().saturating_add(passed))
    }

    /// Returns hours and minutes where the person is.
    pub(crate) fn hours_and_minutes(&self, time: UnixMillis) -> String {
        let Ok(timestamp) = jiff::Timestamp::from_millisecond(time.get()) else {
            return String::new();
        };
        let local = self.zone.to_datetime(timestamp);
        format!("{:02}:{:02}", local.hour(), local.minute())
    }
}
