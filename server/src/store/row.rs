//! Rows to domain values and back. The only file that knows how they are written down; the order
//! of columns is that of the column lists in `sql`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use usher_shared::counter::{MessageSeq, Position, QueueRevision, TargetRevision};
use usher_shared::id::{
    AdmissionId, EntryId, IncarnationId, MessageId, SessionId, TaskId, TurnId, UserId,
};
use usher_shared::rules::fingerprint::Fingerprint;
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::{
    AdmissionOutcome, AutoRunReason, MessageStatus, Notice, Resolution, Role, SenderKind, TaskKind,
};

use super::conn::Row;
use super::enclosed::{StoredEnclosed, enclosed};
use super::error::StoreError;
use crate::domain::admission::{Identified, Receipt};
use crate::domain::entry::{Entry, Provenance, Sender};
use crate::domain::message::{Message, MessageDetails, RunOptions};
use crate::domain::session::{
    AutoRun, Caller, IncarnationKey, OpenTurn, QueueHead, Session, SessionKey, Standing, Stop,
    Task, TaskKey, TurnPrompt, TurnStage,
};
use crate::domain::settings::{SavedSettings, Switch};

pub(super) fn counter(value: i64) -> Result<u64, StoreError> {
    u64::try_from(value).map_err(|_| StoreError::Damaged("a negative counter"))
}

fn word<T>(parsed: Option<T>) -> Result<T, StoreError> {
    parsed.ok_or(StoreError::Damaged("an unknown word"))
}

fn time(value: i64) -> UnixMillis {
    UnixMillis::new(value)
}

pub(super) fn session(row: &dyn Row) -> Result<Session, StoreError> {
    let turn = match row.opt_uuid(18)? {
        None => None,
        Some(id) => Some(OpenTurn {
            id: TurnId::from_uuid(id),
            stage: stage(row.text(19)?)?,
            stop: match (row.int(20)?, row.opt_uuid(21)?) {
                (0, None) => Stop::NotAsked,
                (_, None) => Stop::Asked,
                (_, Some(turn)) => Stop::Replaced(TurnId::from_uuid(turn)),
            },
            prompt: match row.opt_uuid(22)? {
                None => TurnPrompt::Entries,
                Some(message) => TurnPrompt::Message(MessageId::from_uuid(message)),
            },
            started_at: time(row.int(23)?),
        }),
    };
    Ok(Session {
        key: SessionKey(row.int(0)?),
        id: SessionId::from_uuid(row.uuid(1)?),
        task_id: TaskId::from_uuid(row.uuid(2)?),
        incarnation_id: IncarnationId::from_uuid(row.uuid(3)?),
        incarnation_key: IncarnationKey(row.int(4)?),
        owner: UserId::from_uuid(row.uuid(5)?),
        standing: standing(row.int(6)?)?,
        workspace_dir: row.opt_text(7)?.map(str::to_owned),
        agent: row.text(8)?.to_owned(),
        model: row.opt_text(9)?.map(str::to_owned),
        mode: row.opt_text(10)?.map(str::to_owned),
        title: row.text(11)?.to_owned(),
        created_at: time(row.int(12)?),
        last_seq: MessageSeq::new(counter(row.int(13)?)?),
        queue: QueueHead {
            revision: QueueRevision::new(counter(row.int(14)?)?),
            stored: counter(row.int(15)?)?,
            next_position: Position::new(counter(row.int(16)?)?),
            auto_run: match row.opt_text(17)? {
                None => AutoRun::On,
                Some(reason) => AutoRun::Off(word(AutoRunReason::parse(reason))?),
            },
        },
        turn,
        saved: saved_settings(row, 24)?,
    })
}

fn standing(number: i64) -> Result<Standing, StoreError> {
    match number {
        0 => Ok(Standing::Open),
        1 => Ok(Standing::Archived),
        2 => Ok(Standing::Gone),
        _ => Err(StoreError::Damaged("an unknown standing")),
    }
}

/// What a user saved, in three columns; -1: not saved.
pub(super) fn saved_settings(row: &dyn Row, first: usize) -> Result<SavedSettings, StoreError> {
    let switch = |value: i64| (value >= 0).then_some(Switch::of(value != 0));
    Ok(SavedSettings {
        max_per_session: u32::try_from(row.int(first)?).ok(),
        merge: switch(row.int(first + 1)?),
        auto_merge: switch(row.int(first + 2)?),
    })
}

pub(super) const fn stage_word(stage: TurnStage) -> &'static str {
    match stage {
        TurnStage::Reserved => "reserved",
        TurnStage::HandedOver => "handed_over",
        TurnStage::Running => "running",
    }
}

pub(super) fn stage(text: &str) -> Result<TurnStage, StoreError> {
    match text {
        "reserved" => Ok(TurnStage::Reserved),
        "handed_over" => Ok(TurnStage::HandedOver),
        "running" => Ok(TurnStage::Running),
        _ => Err(StoreError::Damaged("an unknown turn stage")),
    }
}

pub(super) fn task(row: &dyn Row) -> Result<Task, StoreError> {
    Ok(Task {
        key: TaskKey(row.int(0)?),
        id: TaskId::from_uuid(row.uuid(1)?),
        owner: Caller { id: UserId::from_uuid(row.uuid(2)?), name: row.text(3)?.to_owned() },
        title: row.text(4)?.to_owned(),
        kind: word(TaskKind::parse(row.text(5)?))?,
        workspace_dir: row.opt_text(6)?.map(str::to_owned),
        agent: row.text(7)?.to_owned(),
        archived: row.int(8)? != 0,
        created_at: time(row.int(9)?),
        queued_count: counter(row.int(10)?)?,
    })
}

pub(super) fn entry(row: &dyn Row) -> Result<Entry, StoreError> {
    Ok(Entry {
        id: EntryId::from_uuid(row.uuid(0)?),
        position: Position::new(counter(row.int(1)?)?),
        content: Arc::from(row.text(2)?),
        model: row.opt_text(3)?.map(str::to_owned),
        plan_mode: row.int(4)? != 0,
        provenance: provenance(row.opt_text(5)?)?,
        queued_at: time(row.int(6)?),
        queued_by: Sender { task: row.opt_uuid(10)?.map(TaskId::from_uuid), ..sender(row, 7)? },
        revision: TargetRevision::new(counter(row.int(11)?)?),
        reserved_for: row.opt_uuid(12)?.map(TurnId::from_uuid),
        enclosed: enclosed(row.opt_text(13)?)?,
    })
}

fn sender(row: &dyn Row, first: usize) -> Result<Sender, StoreError> {
    Ok(Sender {
        kind: word(SenderKind::parse(row.text(first)?))?,
        id: row.text(first + 1)?.to_owned(),
        name: row.text(first + 2)?.to_owned(),
        task: None,
    })
}

pub(super) fn fingerprint(row: &dyn Row, column: usize) -> Result<Fingerprint, StoreError> {
    row.opt_bytes(column)?
        .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
        .map(Fingerprint::from_bytes)
        .ok_or(StoreError::Damaged("a fingerprint"))
}

pub(super) fn receipt(row: &dyn Row, id: &AdmissionId) -> Result<Receipt, StoreError> {
    Ok(Receipt {
        identified: Identified { id: id.clone(), fingerprint: fingerprint(row, 0)? },
        outcome: word(AdmissionOutcome::parse(row.text(2)?))?,
        queue_revision: QueueRevision::new(counter(row.int(3)?)?),
        content_truncated: row.int(6)? != 0,
        entry: Entry {
            id: EntryId::from_uuid(row.uuid(1)?),
            position: Position::new(counter(row.int(4)?)?),
            content: Arc::from(row.text(5)?),
            model: row.opt_text(7)?.map(str::to_owned),
            plan_mode: row.int(8)? != 0,
            enclosed: enclosed(row.opt_text(17)?)?,
            provenance: receipt_provenance(row.opt_text(9)?, id)?,
            queued_at: time(row.int(10)?),
            queued_by: sender(row, 11)?,
            revision: TargetRevision::new(counter(row.int(14)?)?),
            reserved_for: None,
        },
    })
}

/// The usual provenance of a receipt that goes on from none is its own ID alone: stored as NULL.
pub(super) fn receipt_provenance(
    text: Option<&str>,
    id: &AdmissionId,
) -> Result<Provenance, StoreError> {
    match text {
        None => Ok(Provenance { admission_ids: vec![id.clone()], past: Vec::new() }),
        Some(_) => provenance(text),
    }
}

pub(super) fn receipt_provenance_text(receipt: &Receipt) -> Option<String> {
    let own = Provenance { admission_ids: vec![receipt.identified.id.clone()], past: Vec::new() };
    (receipt.entry.provenance != own)
        .then(|| provenance_text(&receipt.entry.provenance).unwrap_or_else(|| "{}".to_owned()))
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredProvenance {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ids: Vec<AdmissionId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    past: Vec<AdmissionId>,
}

impl From<StoredProvenance> for Provenance {
    fn from(stored: StoredProvenance) -> Self {
        Self { admission_ids: stored.ids, past: stored.past }
    }
}

impl From<&Provenance> for StoredProvenance {
    fn from(provenance: &Provenance) -> Self {
        Self { ids: provenance.admission_ids.clone(), past: provenance.past.clone() }
    }
}

pub(super) fn provenance(text: Option<&str>) -> Result<Provenance, StoreError> {
    let Some(text) = text else {
        return Ok(Provenance::default());
    };
    let stored: StoredProvenance =
        serde_json::from_str(text).map_err(|_| StoreError::Damaged("a provenance"))?;
    Ok(stored.into())
}

/// An empty provenance is stored as NULL.
pub(super) fn provenance_text(provenance: &Provenance) -> Option<String> {
    (*provenance != Provenance::default()).then(|| json(&StoredProvenance::from(provenance)))
}

pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("stored structs have string keys and no failing fields")
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredDetails {
    #[serde(flatten)]
    provenance: StoredProvenance,
    #[serde(flatten)]
    enclosed: StoredEnclosed,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    plan_mode: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution: Option<Resolution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<Notice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
}

pub(super) fn details(text: Option<&str>) -> Result<MessageDetails, StoreError> {
    let Some(text) = text else {
        return Ok(MessageDetails::default());
    };
    let stored: StoredDetails =
        serde_json::from_str(text).map_err(|_| StoreError::Damaged("message details"))?;
    Ok(MessageDetails {
        provenance: stored.provenance.into(),
        enclosed: stored.enclosed.into(),
        sender: stored.sender,
        run: RunOptions { model: stored.model, plan_mode: stored.plan_mode },
        resolution: stored.resolution,
        notice: stored.notice,
        tool: stored.tool,
    })
}

/// Details that say nothing are stored as NULL.
pub(super) fn details_text(details: &MessageDetails) -> Option<String> {
    (*details != MessageDetails::default()).then(|| {
        json(&StoredDetails {
            provenance: StoredProvenance::from(&details.provenance),
            enclosed: StoredEnclosed::from(&details.enclosed),
            sender: details.sender.clone(),
            model: details.run.model.clone(),
            plan_mode: details.run.plan_mode,
            resolution: details.resolution,
            notice: details.notice,
            tool: details.tool.clone(),
        })
    })
}

/// A message with what its own row holds of its text, and the row's key, by which parts are found.
pub(super) fn message(row: &dyn Row, session_id: SessionId) -> Result<(i64, Message), StoreError> {
    let message = Message {
        id: MessageId::from_uuid(row.uuid(0)?),
        session_id,
        incarnation_id: IncarnationId::from_uuid(row.uuid(1)?),
        seq: MessageSeq::new(counter(row.int(2)?)?),
        turn_id: row.opt_uuid(3)?.map(TurnId::from_uuid),
        role: word(Role::parse(row.text(4)?))?,
        content: Arc::from(row.text(5)?),
        content_bytes: counter(row.int(6)?)?,
        status: word(MessageStatus::parse(row.text(7)?))?,
        details: details(row.opt_text(8)?)?,
        created_at: time(row.int(9)?),
    };
    Ok((row.int(10)?, message))
}
