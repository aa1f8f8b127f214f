//! What goes into the engine and what comes out of it.

use super::call::{Call, CallId, CallOutcome};
use super::delivery::{Delivery, Submission};
use super::edit::{EditEnd, EditSave, EditTarget};
use super::journal::{JournalOrder, Journaled, Journaling, LeftRow};
use super::upload::{UploadEnd, UploadId};
use crate::error::WireError;
use crate::id::{AdmissionId, ClientInstance, SessionId, TaskId, TurnId};
use crate::protocol::attachment::AttachmentBeginParams;
use crate::protocol::entry::QueuedMessage;
use crate::protocol::hello::ClientInfo;
use crate::protocol::task::Task;
use crate::protocol::turn::TurnEnded;

/// What an engine is told once.
#[derive(Clone)]
pub struct EngineConfig {
    /// Which program this is, for the server's log.
    pub client: ClientInfo,
    /// Minted once per running client; the same in every `hello`.
    pub client_instance: ClientInstance,
    /// The token to send in `hello`; None over a Unix socket of the same user.
    pub token: Option<String>,
    /// Random; spreads the reconnects of many clients.
    pub spread_seed: u64,
    /// Whether what is sent is written down first.
    pub journaling: Journaling,
}

/// One thing that happened outside the engine.
#[derive(Debug)]
pub enum Input {
    /// Begin: connect.
    Start,
    /// The connection that [`Output::Connect`] asked for is open.
    LinkOpened,
    /// The connection ended or could not be made. Exactly one follows every [`Output::Connect`].
    LinkClosed {
        /// The WebSocket close code, if there was one.
        code: Option<u16>,
    },
    /// A text frame came.
    Frame(String),
    /// A ping or pong of the WebSocket came: the other side lives.
    Heartbeat,
    /// The time of [`super::Engine::next_deadline`] is here.
    DeadlineReached,
    /// Show this session from now on, instead of the one that is open.
    Open(SessionId),
    /// Show no session.
    Close,
    /// Page older messages into the mirror.
    LoadOlder,
    /// Send this prompt.
    Submit(Submission),
    /// Send an uncertain prompt again with its ID and payload: cannot duplicate. Does nothing
    /// unless the delivery is [`super::DeliveryState::Uncertain`] and can be checked.
    CheckAndResend(AdmissionId),
    /// Drop a rejected, returned or uncertain delivery, or take back one that never left. Does
    /// nothing to one that is under way.
    Dismiss(AdmissionId),
    /// What became of the [`JournalOrder`] to keep this row, or to mark it as sent.
    Journaled {
        /// Which row.
        id: AdmissionId,
        /// Whether it is on disk.
        outcome: Journaled,
    },
    /// The rows that [`JournalOrder::Adopt`] took over, oldest first.
    Adopted(Vec<LeftRow>),
    /// Edit this entry: asks for its lease. Another edit that is open is left.
    BeginEdit(EditTarget),
    /// Save the edit. Does nothing unless it is [`super::EditState::Editing`].
    SaveEdit(EditSave),
    /// Leave the edit without saving it.
    LeaveEdit,
    /// Upload a file of the size and digest that this says; [`Output::ReadUpload`] asks for its bytes.
    Upload {
        /// A new name.
        id: UploadId,
        /// What it is.
        params: AttachmentBeginParams,
    },
    /// The bytes that [`Output::ReadUpload`] asked for, all of them; None: they cannot be read.
    UploadRead {
        /// Which upload.
        id: UploadId,
        /// The bytes.
        bytes: Option<Vec<u8>>,
    },
    /// Give an upload up.
    AbortUpload(UploadId),
    /// Ask the server for something; never repeated by the engine.
    Call(Call),
    /// Connect now, if the engine waits for its next attempt or was refused.
    Reconnect,
}

/// One thing to do, in order.
#[derive(Debug)]
pub enum Output {
    /// Open a connection: answered by at most one [`Input::LinkOpened`] and exactly one
    /// [`Input::LinkClosed`].
    Connect,
    /// End the connection (or the attempt) now, without waiting for the other side. Frames that
    /// were not sent yet may be dropped.
    Disconnect,
    /// Send a text frame over the open connection.
    Send(String),
    /// Do this in the journal.
    Journal(JournalOrder),
    /// Read a piece of a file, and answer with [`Input::UploadRead`].
    ReadUpload {
        /// Which upload.
        id: UploadId,
        /// Where it begins, bytes.
        offset: u64,
        /// Its size, bytes.
        length: usize,
    },
    /// Tell the program.
    Event(Event),
}

/// What the program is told; the engine's accessors give the new state.
#[derive(Clone, Debug)]
pub enum Event {
    /// [`super::Engine::link`] changed.
    LinkChanged,
    /// The session that was asked for is there: [`super::Engine::mirror`]. Comes once per
    /// [`Input::Open`]; later snapshots come as changes.
    SessionOpened,
    /// The session cannot be shown (any more); none is open now.
    SessionRefused(WireError),
    /// The mirror's queue changed.
    QueueChanged,
    /// The mirror's session changed: its state, turn, question, model or title; or the mirror
    /// shows the present again after it was stale.
    SessionChanged,
    /// The mirror's messages changed.
    TranscriptChanged,
    /// A turn of the open session started.
    TurnStarted(TurnId),
    /// A turn of the open session ended.
    TurnEnded(TurnEnded),
    /// A send came to another state; this is it now. An accepted or dropped one is no longer in
    /// [`super::Engine::deliveries`].
    DeliveryChanged(Delivery),
    /// This prompt is sent although it could not be written to the journal: if this client is killed
    /// before the answer, nobody will look for it.
    Unprotected(AdmissionId),
    /// The lease was given; this is the entry as it is. [`super::Engine::edit`] has the state.
    EditBegan(Box<QueuedMessage>),
    /// [`super::Engine::edit`] came to another state.
    EditChanged,
    /// This save was refused; the lease is still held.
    SaveRefused(WireError),
    /// An edit is over.
    EditEnded {
        /// Of what.
        target: EditTarget,
        /// How.
        end: EditEnd,
    },
    /// The server has so much of an upload.
    UploadProgress {
        /// Which.
        id: UploadId,
        /// Bytes.
        received_bytes: u64,
    },
    /// An upload is over.
    UploadEnded {
        /// Which.
        id: UploadId,
        /// How.
        end: UploadEnd,
    },
    /// A call is over.
    Called {
        /// Which.
        id: CallId,
        /// How it went.
        outcome: CallOutcome,
    },
    /// A task of the user changed.
    TaskChanged(Task),
    /// A task of the user is gone, with its sessions.
    TaskDeleted(TaskId),
    /// A session of the user is gone.
    SessionDeleted(SessionId),
    /// The server will close the connection.
    Draining {
        /// When a reconnect makes sense; the engine waits that long by itself.
        reconnect_after_ms: u64,
    },
}
