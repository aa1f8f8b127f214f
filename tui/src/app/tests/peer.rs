//! A screen whose server is a script: it answers what a server answers, holds its tongue where a
//! test wants it to, and remembers what it was asked.

use std::collections::VecDeque;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::{Value, json};
use usher_shared::client::{
    EngineConfig, Input, JournalOrder, JournalStage, Journaled, Journaling, LeftRow,
};
use usher_shared::counter::{EventSeq, MessageSeq, Position, QueueRevision, TargetRevision};
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::{
    AdmissionId, ClientInstance, EntryId, Epoch, IncarnationId, MessageId, PermissionId, SessionId,
    StoreId, TaskId, TurnId, UndoId, UserId,
};
use usher_shared::limits::Limits;
use usher_shared::protocol::entry::{EntryMetadata, QueuedBy, QueuedMessage, StatusEntry};
use usher_shared::protocol::frame::{FrameKind, RequestFrame, write_frame};
use usher_shared::protocol::hello::{ClientInfo, HelloReply, ServerInfo, User, capability};
use usher_shared::protocol::queue::{Admission, QueueAddParams, QueueAddReply, QueueStatus};
use usher_shared::protocol::session::{
    OpenTurn, Permission, PermissionKind, PermissionOption, Session, SessionListReply,
    SessionState, SubscribeReply,
};
use usher_shared::protocol::task::{Task, TaskCreateReply, TaskKind, TaskListReply};
use usher_shared::protocol::transcript::{
    Message as Spoken, MessageMetadata, MessageStatus, Notice, Role, TranscriptPageReply,
};
use usher_shared::protocol::turn::{
    SessionChanged, StatusChanged, TranscriptMessage, notification,
};
use usher_shared::time::{MonoMillis, UnixMillis};
use usher_shared::vocabulary::{AdmissionOutcome, SenderKind};
use uuid::Uuid;

use crate::app::{Clock, Effect, Message, Options, State, update};
use crate::driver::Trouble;
use crate::i18n::Localizer;
use crate::journal::{Draft, JournalJob};
use crate::start::Files;
use crate::theme::{Charset, Colours, Theme};

/// 2026-11-30T14:02:00Z.
pub(crate) const NOON: i64 = 1_796_047_320_000;

/// What the script does with prompts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Admit {
    /// Puts them into the queue.
    Accept,
    /// Says nothing.
    Silence,
    /// Refuses them.
    Refuse(WireError),
}

/// A request that the script got.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) action: String,
    pub(crate) payload: Value,
}

/// See the module.
pub(crate) struct Peer {
    pub(crate) state: State,
    pub(crate) now: u64,
    pub(crate) session: Session,
    pub(crate) queue: QueueStatus,
    pub(crate) messages: Vec<Spoken>,
    pub(crate) sessions: Vec<Session>,
    /// None: the task of the session.
    pub(crate) tasks: Option<Vec<Task>>,
    pub(crate) admit: Admit,
    /// Actions that are refused.
    pub(crate) refuse: Vec<(&'static str, WireError)>,
    pub(crate) asked: Vec<Asked>,
    /// Effects other than those of the link.
    pub(crate) effects: Vec<Effect>,
    /// What was handed to the journal, a batch for each message.
    pub(crate) batches: Vec<Vec<JournalJob>>,
    /// What becomes of rows that are to be on disk.
    pub(crate) disk: Journaled,
    /// What dead clients left.
    pub(crate) left: Vec<LeftRow>,
    /// The drafts that they left.
    pub(crate) drafts: Vec<Draft>,
    event_seq: u64,
    next: u128,
}

fn id<T>(make: impl Fn(Uuid) -> T, number: u128) -> T {
    make(Uuid::from_u128(number))
}

pub(crate) fn me() -> User {
    User { id: id(UserId::from_uuid, 7), name: "sam".to_owned() }
}

impl Peer {
    /// A screen whose server may run on another machine.
    pub(crate) fn with_files(mut self, files: Files) -> Self {
        let directory = Some("/src/payments-api".to_owned());
        self.state.sessions = crate::app::sessions::Sessions::new(None, directory, files);
        self
    }

    /// A screen of this size before its start; the server has one session.
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        Self::journaling(columns, rows, Journaling::Off)
    }

    /// The same with a journal whose disk is quick.
    pub(crate) fn journaling(columns: u16, rows: u16, journaling: Journaling) -> Self {
        let session = Session {
            id: id(SessionId::from_uuid, 2),
            task_id: id(TaskId::from_uuid, 1),
            incarnation_id: id(IncarnationId::from_uuid, 3),
            agent: "demo".to_owned(),
            model: None,
            mode: None,
            state: SessionState::Idle,
            turn: None,
            permission: None,
            title: "fix flaky retry test".to_owned(),
            created_at: UnixMillis::new(NOON),
            last_seq: MessageSeq::new(0),
        };
        let queue = QueueStatus {
            task_id: session.task_id,
            session_id: session.id,
            session_incarnation_id: session.incarnation_id,
            queue_revision: QueueRevision::new(1),
            event_seq: EventSeq::new(1),
            entries: Vec::new(),
            count: 0,
            max: 10,
            auto_run: true,
            auto_run_reason: None,
            blocked: None,
            merge_enabled: true,
            auto_merge_enabled: false,
        };
        let state = State::new(Options {
            engine: EngineConfig {
                client: ClientInfo { name: "usher".to_owned(), version: "0".to_owned() },
                client_instance: ClientInstance::from_uuid(Uuid::from_u128(9)),
                token: None,
                spread_seed: 1,
                journaling,
            },
            id_prefix: "test".to_owned(),
            session: None,
            workspace_dir: Some("/src/payments-api".to_owned()),
            files: Files::Shared,
            localizer: Localizer::english(),
            theme: Theme::new(Colours::Palette, Charset::Unicode),
            clock: Clock {
                started: (MonoMillis::new(1_000_000), UnixMillis::new(NOON)),
                zone: TimeZone::UTC,
            },
            size: (columns, rows),
        });
        Self {
            state,
            now: 1_000_000,
            sessions: vec![session.clone()],
            session,
            queue,
            messages: Vec::new(),
            tasks: None,
            admit: Admit::Accept,
            refuse: Vec::new(),
            asked: Vec::new(),
            effects: Vec::new(),
            batches: Vec::new(),
            disk: Journaled::OnDisk,
            left: Vec::new(),
            drafts: Vec::new(),
            event_seq: 1,
            next: 1_000,
        }
    }

    /// A screen that has its session open.
    pub(crate) fn online(columns: u16, rows: u16) -> Self {
        let mut peer = Self::new(columns, rows);
        peer.connect();
        peer
    }

    /// Starts, and answers until nothing more is asked.
    pub(crate) fn connect(&mut self) {
        self.link(Input::Start);
        self.link(Input::LinkOpened);
    }

    pub(crate) fn link(&mut self, input: Input) {
        self.take(Message::Link(Box::new(input)));
    }

    pub(crate) fn disconnect(&mut self) {
        self.link(Input::LinkClosed { code: None });
    }

    /// An attempt to connect comes to nothing, and this is why.
    pub(crate) fn fail_to_connect(&mut self, trouble: Trouble) {
        self.take(Message::Trouble(Some(trouble)));
        self.disconnect();
    }

    /// Hands one message in and answers what it makes the screen ask.
    pub(crate) fn take(&mut self, message: Message) {
        let mut messages = VecDeque::from([message]);
        while let Some(message) = messages.pop_front() {
            for effect in update(&mut self.state, message, MonoMillis::new(self.now)) {
                match effect {
                    Effect::Send(frame) => {
                        let answer = self.answer(&frame).map(Input::Frame).map(Box::new);
                        messages.extend(answer.map(Message::Link));
                    }
                    Effect::Connect | Effect::Disconnect => {}
                    effect => self.effects.push(effect),
                }
            }
            messages.extend(self.write_down());
        }
    }

    /// Does what is to be done in the journal, and answers.
    fn write_down(&mut self) -> Vec<Message> {
        let batch = self.state.take_journal_jobs();
        let disk = self.disk;
        let written = |id: &AdmissionId| {
            let (id, outcome) = (id.clone(), disk);
            Some(Message::Link(Box::new(Input::Journaled { id, outcome })))
        };
        let mut answers = Vec::new();
        for job in &batch {
            answers.extend(match job {
                JournalJob::Order(JournalOrder::Keep(row)) => written(&row.admission_id),
                JournalJob::Order(JournalOrder::Mark(id, JournalStage::Sent, _)) => written(id),
                JournalJob::Order(JournalOrder::Adopt { .. }) => {
                    let left = std::mem::take(&mut self.left);
                    Some(Message::Link(Box::new(Input::Adopted(left))))
                }
                JournalJob::TakeDrafts { store_id, .. } => {
                    let drafts = std::mem::take(&mut self.drafts).into_iter();
                    let (theirs, others) = drafts.partition(|draft| draft.store_id == *store_id);
                    self.drafts = others;
                    Some(Message::Drafts(theirs))
                }
                JournalJob::Order(JournalOrder::Mark(..) | JournalOrder::Drop(_))
                | JournalJob::PutDraft(_) => None,
            });
        }
        if !batch.is_empty() {
            self.batches.push(batch);
        }
        answers
    }

    /// Lets time pass and wakes the screen whenever it wants to be woken.
    pub(crate) fn pass(&mut self, millis: u64) {
        let end = self.now + millis;
        while let Some(due) = self.state.next_deadline().filter(|due| due.get() <= end) {
            self.now = due.get().max(self.now + 1);
            self.take(Message::Tick);
        }
        self.now = self.now.max(end);
        self.take(Message::Tick);
    }

    pub(crate) fn key(&mut self, code: KeyCode) {
        self.press(KeyModifiers::NONE, code);
    }

    pub(crate) fn alt(&mut self, c: char) {
        self.press(KeyModifiers::ALT, KeyCode::Char(c));
    }

    pub(crate) fn ctrl(&mut self, c: char) {
        self.press(KeyModifiers::CONTROL, KeyCode::Char(c));
    }

    /// Presses a key a moment after the last one, as a person does.
    pub(crate) fn press(&mut self, modifiers: KeyModifiers, code: KeyCode) {
        self.now += 100;
        self.take(Message::Key(KeyEvent::new(code, modifiers)));
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.key(KeyCode::Char(c));
        }
    }

    /// Types a prompt and sends it.
    pub(crate) fn send(&mut self, text: &str) {
        self.type_text(text);
        self.key(KeyCode::Enter);
    }

    /// Returns the payloads of the requests for `action`.
    pub(crate) fn asked_for(&self, action: &str) -> Vec<Value> {
        let matching = self.asked.iter().filter(|asked| asked.action == action);
        matching.map(|asked| asked.payload.clone()).collect()
    }

    pub(crate) fn draft(&self) -> &str {
        self.state.composer.buffer().text()
    }

    /// Opens another session.
    pub(crate) fn open(&mut self, session: &Session) {
        self.session = session.clone();
        self.queue.session_id = session.id;
        self.state.open_session(session.id);
        self.take(Message::Tick);
    }

    fn answer(&mut self, frame: &str) -> Option<String> {
        let request = RequestFrame::parse(frame).unwrap();
        let payload: Value = serde_json::from_str(request.payload).unwrap();
        self.asked.push(Asked { action: request.action.to_string(), payload: payload.clone() });
        let respond = |kind, reply: Value| {
            Some(write_frame(kind, Some(&request.id), Some(&request.action), reply).unwrap())
        };
        let refusal = self.refuse.iter().find(|(action, _)| *action == request.action);
        if let Some((_, error)) = refusal {
            return respond(FrameKind::Error, json!(error));
        }
        let reply = match &*request.action {
            "hello" => json!(hello()),
            "ping" => json!({"server_time": UnixMillis::new(NOON)}),
            "task.list" => {
                let tasks = self.tasks.clone().unwrap_or_else(|| vec![self.task()]);
                json!(TaskListReply { tasks })
            }
            "task.create" => {
                json!(TaskCreateReply { task: self.task(), session: self.session.clone() })
            }
            "session.list" => json!(SessionListReply { sessions: self.sessions.clone() }),
            "session.subscribe" => json!(SubscribeReply {
                session: self.session.clone(),
                queue: Some(self.queue.clone()),
                messages: Some(self.messages.clone()),
                has_more: false,
                event_seq: EventSeq::new(self.event_seq),
                epoch: epoch(),
                resumed: false,
            }),
            "session.unsubscribe" => json!({"session_id": self.session.id}),
            "transcript.page" => {
                json!(TranscriptPageReply { messages: self.messages.clone(), has_more: false })
            }
            "message.queue.get" => json!(self.queue),
            "message.queue.add" => match self.admit.clone() {
                Admit::Silence => return None,
                Admit::Refuse(error) => return respond(FrameKind::Error, json!(error)),
                Admit::Accept => json!(self.admitted(serde_json::from_value(payload).unwrap())),
            },
            "message.queue.remove" => {
                json!({"entry_id": payload["entry_id"], "undo_id": self.undo_id()})
            }
            "message.queue.cancel" => json!({
                "session_id": self.session.id,
                "removed": self.queue.entries.len(),
                "undo_id": self.undo_id(),
            }),
            "message.queue.restore" => json!({"restored": 1}),
            "message.queue.auto_run.set" => json!({
                "session_id": self.session.id,
                "auto_run": payload["enabled"],
                "dispatched": false,
            }),
            "turn.cancel" => json!({"cancelled": true}),
            "turn.resolve" => json!({"turn_id": payload["turn_id"]}),
            "permission.respond" => json!({"request_id": payload["request_id"]}),
            other => panic!("the script knows no {other}"),
        };
        respond(FrameKind::Response, reply)
    }

    fn admitted(&mut self, params: QueueAddParams) -> QueueAddReply {
        let mut entry = self.entry(&params.content);
        entry.metadata.queue_admission_ids = params.client_queue_id.into_iter().collect();
        QueueAddReply {
            admission: Admission {
                outcome: AdmissionOutcome::Admitted,
                accepted_queue_id: entry.id,
                queue_revision: self.queue.queue_revision,
                replay_safe: true,
            },
            entry,
        }
    }

    fn undo_id(&mut self) -> UndoId {
        id(UndoId::from_uuid, self.mint())
    }

    pub(crate) fn mint(&mut self) -> u128 {
        self.next += 1;
        self.next
    }

    /// Makes an entry of ours.
    pub(crate) fn entry(&mut self, content: &str) -> QueuedMessage {
        let number = self.mint();
        QueuedMessage {
            id: id(EntryId::from_uuid, number),
            task_id: self.session.task_id,
            session_id: self.session.id,
            position: Position::new(u64::try_from(number).unwrap()),
            content: content.to_owned(),
            model: None,
            plan_mode: false,
            attachments: Vec::new(),
            metadata: EntryMetadata::default(),
            queued_at: UnixMillis::new(NOON),
            queued_by: QueuedBy {
                kind: SenderKind::User,
                id: me().id.to_string(),
                name: me().name,
            },
            target_revision: TargetRevision::new(1),
            editing: None,
            content_truncated: false,
        }
    }

    /// Puts entries into the queue and tells the screen.
    pub(crate) fn queue_entries(&mut self, contents: &[&str]) {
        for content in contents {
            let entry = self.entry(content);
            self.queue.entries.push(StatusEntry::Whole(Box::new(entry)));
        }
        self.tell_queue();
    }

    /// Tells the screen of the queue as it is.
    pub(crate) fn tell_queue(&mut self) {
        self.queue.count = self.queue.entries.len() as u64;
        self.queue.queue_revision = self.queue.queue_revision.next();
        self.queue.event_seq = self.next_event();
        let event =
            StatusChanged { status: self.queue.clone(), epoch: epoch(), first_event_seq: None };
        self.notify(notification::QUEUE_STATUS_CHANGED, event);
    }

    /// Tells the screen of the session as it is.
    pub(crate) fn tell_session(&mut self) {
        let seq = self.next_event();
        let changed = SessionChanged { session: self.session.clone() };
        let mut payload = json!(changed);
        payload["session_id"] = json!(self.session.id);
        payload["event_seq"] = json!(seq);
        payload["epoch"] = json!(epoch());
        self.notify(notification::SESSION_CHANGED, payload);
    }

    /// Starts a turn.
    pub(crate) fn run_turn(&mut self) -> TurnId {
        let turn = id(TurnId::from_uuid, self.mint());
        self.session.state = SessionState::Running;
        self.session.turn = Some(OpenTurn { id: turn, started_at: UnixMillis::new(NOON) });
        self.tell_session();
        turn
    }

    pub(crate) fn end_turn(&mut self) {
        self.session.state = SessionState::Idle;
        self.session.turn = None;
        self.session.permission = None;
        self.tell_session();
    }

    /// The agent asks.
    pub(crate) fn ask(&mut self, title: &str) {
        let turn_id = self.run_turn();
        let option = |kind, option_id: &str, name: &str| PermissionOption {
            option_id: option_id.to_owned(),
            name: name.to_owned(),
            kind,
        };
        self.session.state = SessionState::AwaitingPermission;
        self.session.permission = Some(Permission {
            request_id: id(PermissionId::from_uuid, self.mint()),
            turn_id,
            title: title.to_owned(),
            tool: "run".to_owned(),
            options: vec![
                option(PermissionKind::AllowOnce, "once", "allow once"),
                option(PermissionKind::AllowAlways, "always", "always allow this"),
                option(PermissionKind::RejectOnce, "no", "reject"),
            ],
        });
        self.tell_session();
    }

    /// Adds a message to the transcript and tells the screen.
    pub(crate) fn speak(&mut self, role: Role, turn: Option<TurnId>, content: &str) {
        self.speak_as(role, turn, content, MessageStatus::Complete, MessageMetadata::default());
    }

    pub(crate) fn notice(&mut self, turn: TurnId, notice: Notice, content: &str) {
        let metadata = MessageMetadata { notice: Some(notice), ..MessageMetadata::default() };
        self.speak_as(Role::System, Some(turn), content, MessageStatus::Complete, metadata);
    }

    pub(crate) fn speak_as(
        &mut self,
        role: Role,
        turn: Option<TurnId>,
        content: &str,
        status: MessageStatus,
        metadata: MessageMetadata,
    ) {
        let message = Spoken {
            id: id(MessageId::from_uuid, self.mint()),
            session_id: self.session.id,
            session_incarnation_id: self.session.incarnation_id,
            seq: MessageSeq::new(self.messages.len() as u64 + 1),
            turn_id: turn,
            role,
            content: content.to_owned(),
            content_truncated: false,
            status,
            metadata,
            created_at: UnixMillis::new(NOON),
        };
        self.messages.push(message.clone());
        self.tell_message(message);
    }

    /// Tells the screen of a message as it is now.
    pub(crate) fn tell_message(&mut self, message: Spoken) {
        let event = TranscriptMessage {
            message,
            event_seq: self.next_event(),
            epoch: epoch(),
            first_event_seq: None,
        };
        self.notify(notification::TRANSCRIPT_MESSAGE, event);
    }

    fn next_event(&mut self) -> EventSeq {
        self.event_seq += 1;
        EventSeq::new(self.event_seq)
    }

    pub(crate) fn notify(&mut self, action: &str, payload: impl Serialize) {
        let frame = write_frame(FrameKind::Notification, None, Some(action), payload).unwrap();
        self.link(Input::Frame(frame));
    }

    pub(crate) fn task(&self) -> Task {
        Task {
            id: self.session.task_id,
            title: "payments-api".to_owned(),
            kind: TaskKind::Task,
            workspace_dir: Some("/src/payments-api".to_owned()),
            agent: "demo".to_owned(),
            owner: me(),
            archived: false,
            queued_prompt_count: 0,
            created_at: UnixMillis::new(NOON),
        }
    }
}

pub(crate) fn refusal(code: ErrorCode) -> WireError {
    WireError::new(code, "developer text")
}

fn epoch() -> Epoch {
    id(Epoch::from_uuid, 5)
}

fn hello() -> HelloReply {
    HelloReply {
        protocol: 1,
        server: ServerInfo {
            name: "usherd".to_owned(),
            version: "0".to_owned(),
            epoch: epoch(),
            store_id: id(StoreId::from_uuid, 6),
        },
        user: me(),
        capabilities: vec![
            capability::ADMISSION_RECEIPTS.to_owned(),
            capability::AUTO_RUN.to_owned(),
        ],
        limits: Limits::default(),
        heartbeat_ms: 15_000,
    }
}
