//! What the tests of decisions start from.

use std::sync::Arc;

use usher_shared::counter::{MessageSeq, Position, QueueRevision, TargetRevision};
use usher_shared::id::{AdmissionId, EntryId, IncarnationId, SessionId, TaskId, UserId};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::SenderKind;
use uuid::Uuid;

use super::enclosed::Enclosed;
use super::entry::{Entry, Provenance, Sender};
use super::session::{AutoRun, IncarnationKey, OpenTurn, QueueHead, Session, SessionKey, Standing};
use super::settings::SavedSettings;

pub(crate) fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

pub(crate) const NOW: UnixMillis = UnixMillis::new(1_000);

pub(crate) fn entry() -> Entry {
    Entry {
        id: EntryId::from_uuid(uuid(7)),
        position: Position::new(3),
        content: Arc::from("do it"),
        model: None,
        plan_mode: false,
        enclosed: Enclosed::default(),
        provenance: Provenance {
            admission_ids: vec![AdmissionId::parse("k1").unwrap()],
            past: Vec::new(),
        },
        queued_at: NOW,
        queued_by: Sender {
            kind: SenderKind::User,
            id: "u".to_owned(),
            name: "anna".to_owned(),
            task: None,
        },
        revision: TargetRevision::new(1),
        reserved_for: None,
    }
}

pub(crate) fn session(turn: Option<OpenTurn>) -> Session {
    Session {
        key: SessionKey(1),
        id: SessionId::from_uuid(uuid(1)),
        task_id: TaskId::from_uuid(uuid(2)),
        incarnation_id: IncarnationId::from_uuid(uuid(3)),
        incarnation_key: IncarnationKey(1),
        owner: UserId::from_uuid(uuid(4)),
        standing: Standing::Open,
        workspace_dir: None,
        agent: "demo".to_owned(),
        model: None,
        mode: None,
        title: "t".to_owned(),
        created_at: NOW,
        last_seq: MessageSeq::new(10),
        queue: QueueHead {
            revision: QueueRevision::new(5),
            stored: 2,
            next_position: Position::new(5),
            auto_run: AutoRun::On,
        },
        turn,
        saved: SavedSettings::default(),
    }
}
