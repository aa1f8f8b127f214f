//! Scripted frames against the engine: a server of lines, and a clock that the test moves.

mod edit;
mod journal;
mod late;
mod link;
mod mirror;
mod recovery;
mod sends;
mod storm;
mod table;
mod upload;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    DeliveryState, Engine, EngineConfig, Event, IdOrigin, Input, JournalOrder, Journaling,
    LinkState, Output, Submission, UploadId,
};
use crate::counter::{EventSeq, MessageSeq, Position, QueueRevision, TargetRevision};
use crate::error::{ErrorCode, WireError};
use crate::id::{
    AdmissionId, ClientInstance, EntryId, Epoch, IncarnationId, MessageId, SessionId, StoreId,
    TaskId, TurnId, UserId,
};
use crate::limits::Limits;
use crate::protocol::entry::{EntryMetadata, QueuedBy, QueuedMessage, StatusEntry};
use crate::protocol::frame::{FrameKind, write_frame};
use crate::protocol::hello::{ClientInfo, HelloReply, ServerInfo, User, capability};
use crate::protocol::queue::{Admission, QueueAddParams, QueueAddReply, QueueStatus};
use crate::protocol::session::{Session, SessionState, SubscribeReply};
use crate::protocol::transcript::{
    Message, MessageMetadata, MessageStatus, Role, TranscriptPageReply,
};
use crate::time::{MonoMillis, UnixMillis};
use crate::vocabulary::{AdmissionOutcome, SenderKind};

/// A request as it left.
#[derive(Clone, Debug, PartialEq)]
struct Sent {
    id: String,
    action: String,
    payload: Value,
    /// The payload as it was written, byte for byte.
    raw: String,
}

/// An engine with what it said so far.
struct Rig {
    engine: Engine,
    now: u64,
    sent: Vec<Sent>,
    events: Vec<Event>,
    /// `Connect` and `Disconnect`, in order.
    link_outputs: Vec<&'static str>,
    journal: Vec<JournalOrder>,
    reads: Vec<(UploadId, u64, usize)>,
}

impl Rig {
    fn new() -> Self {
        Self::journaling(Journaling::Off)
    }

    fn journaling(journaling: Journaling) -> Self {
        Self::with(EngineConfig { journaling, ..config() })
    }

    fn with(config: EngineConfig) -> Self {
        Self {
            engine: Engine::new(config),
            now: 1_000,
            sent: Vec::new(),
            events: Vec::new(),
            link_outputs: Vec::new(),
            journal: Vec::new(),
            reads: Vec::new(),
        }
    }

    /// An engine that is online.
    fn online() -> Self {
        let mut rig = Self::new();
        rig.input(Input::Start);
        rig.come_online();
        rig.forget();
        rig
    }

    /// An engine that is online with session 1 open.
    fn with_session() -> Self {
        let mut rig = Self::online();
        rig.input(Input::Open(session_id(1)));
        let subscribe = rig.take("session.subscribe");
        rig.reply(&subscribe, &snapshot(1, 10, vec![message(1, "hi")]));
        rig.forget();
        rig
    }

    /// Opens the link that was asked for and answers `hello`.
    fn come_online(&mut self) {
        self.input(Input::LinkOpened);
        let hello = self.take("hello");
        self.reply(&hello, &hello_reply());
    }

    /// The link breaks, and the next one is up as soon as the engine asks for it.
    fn blink(&mut self) {
        self.input(Input::LinkClosed { code: None });
        self.wait_for_connect();
        self.come_online();
    }

    fn wait_for_connect(&mut self) {
        let LinkState::Waiting { until, .. } = *self.engine.link() else {
            panic!("waits for the next attempt: {:?}", self.engine.link());
        };
        self.wait(until.since(MonoMillis::new(self.now)));
        assert_eq!(self.engine.link(), &LinkState::Connecting);
    }

    fn input(&mut self, input: Input) {
        self.engine.handle(input, MonoMillis::new(self.now));
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Connect => self.link_outputs.push("connect"),
                Output::Disconnect => self.link_outputs.push("disconnect"),
                Output::Send(frame) => self.sent.push(read_request(&frame)),
                Output::Journal(order) => self.journal.push(order),
                Output::ReadUpload { id, offset, length } => {
                    self.reads.push((id, offset, length));
                }
                Output::Event(event) => self.events.push(event),
            }
        }
    }

    /// Moves the clock, stopping at every deadline on the way.
    fn wait(&mut self, millis: u64) {
        let end = self.now + millis;
        while let Some(due) = self.engine.next_deadline() {
            if due.get() > end {
                break;
            }
            assert!(due.get() > self.now, "a deadline that stays is a busy loop");
            self.now = due.get();
            self.input(Input::DeadlineReached);
        }
        self.now = end;
    }

    /// The same on a link that lives but does not answer.
    fn wait_alive(&mut self, millis: u64) {
        for _ in 0..millis / 1_000 {
            self.wait(1_000);
            self.input(Input::Heartbeat);
        }
        self.wait(millis % 1_000);
    }

    fn reply(&mut self, to: &Sent, payload: &impl serde::Serialize) {
        let action = Some(to.action.as_str());
        let frame = write_frame(FrameKind::Response, Some(&to.id), action, payload).unwrap();
        self.input(Input::Frame(frame));
    }

    fn refuse(&mut self, to: &Sent, error: &WireError) {
        let action = Some(to.action.as_str());
        let frame = write_frame(FrameKind::Error, Some(&to.id), action, error).unwrap();
        self.input(Input::Frame(frame));
    }

    fn notify(&mut self, action: &str, payload: &impl serde::Serialize) {
        let frame = write_frame(FrameKind::Notification, None, Some(action), payload).unwrap();
        self.input(Input::Frame(frame));
    }

    /// Takes the only request of this action that was sent since.
    fn take(&mut self, action: &str) -> Sent {
        let found: Vec<usize> =
            (0..self.sent.len()).filter(|&index| self.sent[index].action == action).collect();
        assert_eq!(found.len(), 1, "{action} among {:?}", self.actions());
        self.sent.remove(found[0])
    }

    /// The actions that were sent since, pings apart.
    fn actions(&self) -> Vec<&str> {
        let actions = self.sent.iter().map(|sent| sent.action.as_str());
        actions.filter(|action| *action != "ping").collect()
    }

    fn forget(&mut self) {
        self.sent.clear();
        self.events.clear();
        self.link_outputs.clear();
    }

    /// The states that a delivery went through since.
    fn states(&mut self, id: &str) -> Vec<DeliveryState> {
        let events = std::mem::take(&mut self.events);
        let states = events.into_iter().filter_map(|event| match event {
            Event::DeliveryChanged(delivery) if delivery.admission_id.as_str() == id => {
                Some(delivery.state)
            }
            _ => None,
        });
        states.collect()
    }

    fn last_state(&mut self, id: &str) -> DeliveryState {
        self.states(id).pop().expect("the delivery changed")
    }

    fn submit(&mut self, session: u128, id: &str, content: &str) {
        self.input(Input::Submit(submission(session, id, content)));
    }

    /// The names of the events that came since, deliveries and links apart.
    fn event_names(&mut self) -> Vec<String> {
        let events = std::mem::take(&mut self.events);
        let names = events.iter().map(|event| {
            let shown = format!("{event:?}");
            let end = shown.find(['(', ' ', '{']).unwrap_or(shown.len());
            shown[..end].to_owned()
        });
        names.filter(|name| name != "DeliveryChanged" && name != "LinkChanged").collect()
    }
}

fn read_request(frame: &str) -> Sent {
    #[derive(serde::Deserialize)]
    struct Frame<'a> {
        id: String,
        r#type: String,
        action: String,
        #[serde(borrow)]
        payload: &'a serde_json::value::RawValue,
    }
    let frame: Frame<'_> = serde_json::from_str(frame).expect("the engine sends valid frames");
    assert_eq!(frame.r#type, "request");
    Sent {
        id: frame.id,
        action: frame.action,
        payload: serde_json::from_str(frame.payload.get()).unwrap(),
        raw: frame.payload.get().to_owned(),
    }
}

fn config() -> EngineConfig {
    EngineConfig {
        client: ClientInfo { name: "test".to_owned(), version: "1".to_owned() },
        client_instance: ClientInstance::from_uuid(Uuid::from_u128(77)),
        token: Some("t0ken".to_owned()),
        spread_seed: 7,
        journaling: Journaling::Off,
    }
}

fn hello_reply() -> HelloReply {
    HelloReply {
        protocol: 1,
        server: ServerInfo {
            name: "usherd".to_owned(),
            version: "1".to_owned(),
            epoch: epoch(1),
            store_id: StoreId::from_uuid(Uuid::from_u128(3)),
        },
        user: user(),
        capabilities: vec![capability::ADMISSION_RECEIPTS.to_owned()],
        limits: Limits::default(),
        heartbeat_ms: 15_000,
    }
}

fn user() -> User {
    User { id: UserId::from_uuid(Uuid::from_u128(4)), name: "anna".to_owned() }
}

fn epoch(number: u128) -> Epoch {
    Epoch::from_uuid(Uuid::from_u128(1_000 + number))
}

fn session_id(number: u128) -> SessionId {
    SessionId::from_uuid(Uuid::from_u128(2_000 + number))
}

fn task_id() -> TaskId {
    TaskId::from_uuid(Uuid::from_u128(3_000))
}

fn incarnation(number: u128) -> IncarnationId {
    IncarnationId::from_uuid(Uuid::from_u128(4_000 + number))
}

fn entry_id(number: u128) -> EntryId {
    EntryId::from_uuid(Uuid::from_u128(5_000 + number))
}

fn message_id(number: u64) -> MessageId {
    MessageId::from_uuid(Uuid::from_u128(6_000 + u128::from(number)))
}

fn turn_id(number: u128) -> TurnId {
    TurnId::from_uuid(Uuid::from_u128(7_000 + number))
}

fn admission_id(id: &str) -> AdmissionId {
    AdmissionId::parse(id).unwrap()
}

fn submission(session: u128, id: &str, content: &str) -> Submission {
    Submission {
        admission_id: admission_id(id),
        id_origin: IdOrigin::Minted,
        params: QueueAddParams {
            task_id: task_id(),
            session_id: session_id(session),
            session_incarnation_id: Some(incarnation(session)),
            content: content.to_owned(),
            ..QueueAddParams::default()
        },
    }
}

fn session(number: u128) -> Session {
    Session {
        id: session_id(number),
        task_id: task_id(),
        incarnation_id: incarnation(number),
        agent: "demo".to_owned(),
        model: None,
        mode: None,
        state: SessionState::Idle,
        turn: None,
        permission: None,
        title: "t".to_owned(),
        created_at: UnixMillis::new(0),
        last_seq: MessageSeq::new(1),
    }
}

fn status(session: u128, revision: u64, event_seq: u64, ids: &[&str]) -> QueueStatus {
    let entries = ids.iter().zip(1..).map(|(id, number)| {
        let entry = entry(session, number, &[id]);
        StatusEntry::Whole(Box::new(entry))
    });
    QueueStatus {
        task_id: task_id(),
        session_id: session_id(session),
        session_incarnation_id: incarnation(session),
        queue_revision: QueueRevision::new(revision),
        event_seq: EventSeq::new(event_seq),
        count: ids.len() as u64,
        entries: entries.collect(),
        max: 10,
        auto_run: true,
        auto_run_reason: None,
        blocked: None,
        merge_enabled: true,
        auto_merge_enabled: true,
    }
}

fn entry(session: u128, number: u128, ids: &[&str]) -> QueuedMessage {
    QueuedMessage {
        id: entry_id(number),
        task_id: task_id(),
        session_id: session_id(session),
        position: Position::new(number as u64),
        content: "x".to_owned(),
        model: None,
        plan_mode: false,
        attachments: Vec::new(),
        metadata: EntryMetadata {
            queue_admission_ids: ids.iter().map(|id| admission_id(id)).collect(),
            ..EntryMetadata::default()
        },
        queued_at: UnixMillis::new(0),
        queued_by: QueuedBy { kind: SenderKind::User, id: "u".to_owned(), name: "anna".to_owned() },
        target_revision: TargetRevision::new(1),
        editing: None,
        content_truncated: false,
    }
}

fn message(seq: u64, content: &str) -> Message {
    Message {
        id: message_id(seq),
        session_id: session_id(1),
        session_incarnation_id: incarnation(1),
        seq: MessageSeq::new(seq),
        turn_id: Some(turn_id(1)),
        role: Role::Agent,
        content: content.to_owned(),
        content_truncated: false,
        status: MessageStatus::Complete,
        metadata: MessageMetadata::default(),
        created_at: UnixMillis::new(0),
    }
}

fn message_from(seq: u64, id: &str) -> Message {
    Message {
        role: Role::User,
        metadata: MessageMetadata {
            queue_admission_ids: vec![admission_id(id)],
            ..MessageMetadata::default()
        },
        ..message(seq, "x")
    }
}

fn snapshot(session_number: u128, event_seq: u64, messages: Vec<Message>) -> SubscribeReply {
    SubscribeReply {
        session: session(session_number),
        queue: Some(status(session_number, 1, event_seq, &[])),
        messages: Some(messages),
        has_more: false,
        event_seq: EventSeq::new(event_seq),
        epoch: epoch(1),
        resumed: false,
    }
}

fn page(messages: Vec<Message>) -> TranscriptPageReply {
    TranscriptPageReply { messages, has_more: false }
}

fn admitted(number: u128, outcome: AdmissionOutcome) -> Admission {
    Admission {
        outcome,
        accepted_queue_id: entry_id(number),
        queue_revision: QueueRevision::new(2),
        replay_safe: true,
    }
}

fn add_reply(id: &str, outcome: AdmissionOutcome) -> QueueAddReply {
    QueueAddReply { entry: entry(1, 1, &[id]), admission: admitted(1, outcome) }
}

fn error(code: ErrorCode) -> WireError {
    WireError::new(code, "for developers")
}

/// Adds a stamp to an event's payload.
fn stamped(session_number: u128, event_seq: u64, event: Value) -> Value {
    let mut stamped = event;
    stamped["session_id"] = json!(session_id(session_number));
    stamped["event_seq"] = json!(event_seq);
    stamped["epoch"] = json!(epoch(1));
    stamped
}

fn set(values: &[&str]) -> BTreeSet<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}
