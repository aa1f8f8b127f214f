//! Turns the changes of a decision into statements.

use usher_shared::counter::Position;
use usher_shared::id::{EntryId, MessageId};
use uuid::Uuid;

use super::conn::{Conn, Param, query_one};
use super::enclosed::enclosed_text;
use super::error::StoreError;
use super::{apply_lifecycle as lifecycle, attachments, leases, plans, row, sql, users};
use crate::domain::admission::{Carries, Follows, Receipt};
use crate::domain::change::{Change, NewSession, NewTask};
use crate::domain::entry::Entry;
use crate::domain::message::Message;
use crate::domain::session::{
    AutoRun, IncarnationKey, OpenTurn, QueueHead, SessionKey, Stop, TurnPrompt,
};
use crate::stop;

/// Writes the changes of one decision, in order.
pub(super) fn apply_all(conn: &mut dyn Conn, changes: &[Change]) -> Result<(), StoreError> {
    for (index, change) in changes.iter().enumerate() {
        if index > 0 {
            stop::point("between_writes");
        }
        apply(conn, change)?;
    }
    Ok(())
}

/// Writes one change.
fn apply(conn: &mut dyn Conn, change: &Change) -> Result<(), StoreError> {
    match change {
        Change::InsertTask(task) => insert_task(conn, task),
        Change::InsertSession(session) => insert_session(conn, session),
        Change::SetQueue(session, queue) => set_queue(conn, *session, queue),
        Change::InsertEntry(session, entry) => insert_entry(conn, *session, entry),
        Change::ReserveEntry(id, turn) => {
            one(conn, sql::ENTRY_RESERVE, &[Param::Id(id.uuid()), Param::Id(turn.uuid())])
        }
        Change::ReleaseEntries(turn) => some(conn, sql::ENTRIES_RELEASE, &[Param::Id(turn.uuid())]),
        Change::DeleteEntries(turn) => some(conn, sql::ENTRIES_DELETE, &[Param::Id(turn.uuid())]),
        Change::RewriteEntry(entry) => rewrite_entry(conn, entry),
        Change::MoveEntries(session, moves) => move_entries(conn, *session, moves),
        Change::DeleteEntry(id) => one(conn, sql::ENTRY_DELETE, &[Param::Id(id.uuid())]),
        Change::RemoveEntry(id, undo, at) => one(
            conn,
            sql::ENTRY_REMOVE,
            &[Param::Id(id.uuid()), Param::Id(undo.uuid()), Param::Int(at.get())],
        ),
        Change::RestoreEntry(id) => one(conn, sql::ENTRY_RESTORE, &[Param::Id(id.uuid())]),
        Change::PurgeRemoved { before } => {
            conn.execute(sql::ENTRIES_PURGE, &[Param::Int(before.get())]).map(drop)
        }
        Change::SetProvenance(id, provenance) => lifecycle::set_provenance(conn, *id, provenance),
        Change::TransferEntry { id, to, place, provenance } => {
            lifecycle::transfer_entry(conn, *id, *to, *place, provenance)
        }
        Change::ForgetRemoved(session) => {
            conn.execute(sql::ENTRIES_FORGET_REMOVED, &[Param::Int(session.0)]).map(drop)
        }
        Change::ForgetWaiting(session) => {
            conn.execute(sql::ENTRIES_FORGET_WAITING, &[Param::Int(session.0)]).map(drop)
        }
        Change::PutLease(lease) => leases::put(conn, lease),
        Change::EndLease(entry) => leases::end(conn, *entry),
        Change::RecordEdit { entry, operation, fingerprint, revision } => {
            leases::record(conn, *entry, operation, fingerprint, *revision)
        }
        Change::InsertUpload(session, id, about, expires_at) => {
            attachments::begin(conn, *session, *id, about, *expires_at)
        }
        Change::AppendUpload { id, at, data } => attachments::append(conn, *id, *at, data),
        Change::FinishUpload(id) => attachments::ready(conn, *id),
        Change::DeleteUpload(id) => attachments::delete(conn, *id),
        Change::ClaimUpload(id, entry) => attachments::claim(conn, *id, *entry),
        Change::InsertAttachment(session, entry, inline) => {
            attachments::insert(conn, *session, *entry, inline)
        }
        Change::ReleaseAttachment(id) => attachments::release(conn, *id),
        Change::JoinAttachments { from, to } => attachments::join(conn, *from, *to),
        Change::PassAttachments(turn, message) => attachments::to_message(conn, *turn, *message),
        Change::PurgeAttachments { now } => attachments::purge(conn, *now),
        Change::InsertReceipt(incarnation, receipt, follows) => {
            insert_receipt(conn, *incarnation, receipt, *follows)
        }
        Change::InsertTurn(session, turn) => insert_turn(conn, *session, turn),
        Change::SetTurn(turn) => set_turn(conn, turn),
        Change::EndTurn { turn_id, outcome, reason, ended_at } => one(
            conn,
            sql::TURN_END,
            &[
                Param::Id(turn_id.uuid()),
                Param::Text(outcome.as_str()),
                Param::opt_text(reason.map(|reason| reason.as_str())),
                Param::Int(ended_at.get()),
            ],
        ),
        Change::InsertMessage(session, incarnation, message) => {
            insert_message(conn, *session, *incarnation, message)
        }
        Change::AppendMessage { id, at, text } => append_message(conn, *id, *at, text),
        Change::ReplaceMessage(id, text) => replace_message(conn, *id, text),
        Change::SetMessageStatus(id, status) => {
            one(conn, sql::MESSAGE_STATUS, &[Param::Id(id.uuid()), Param::Text(status.as_str())])
        }
        Change::SetMessageTurn(id, turn) => {
            one(conn, sql::MESSAGE_TURN, &[Param::Id(id.uuid()), Param::Id(turn.uuid())])
        }
        Change::SettleMessages(turn, status) => conn
            .execute(sql::MESSAGES_SETTLE, &[Param::Id(turn.uuid()), Param::Text(status.as_str())])
            .map(drop),
        Change::SetMessageDetails(id, details) => {
            let text = row::details_text(details);
            one(
                conn,
                sql::MESSAGE_DETAILS,
                &[Param::Id(id.uuid()), Param::opt_text(text.as_deref())],
            )
        }
        Change::PutPlan(session, plan) => plans::put(conn, *session, plan),
        Change::InsertComment(session, incarnation, comment) => {
            plans::insert_comment(conn, *session, *incarnation, comment)
        }
        Change::RewriteComment(comment) => plans::rewrite_comment(conn, comment),
        Change::DeleteComment(id) => plans::delete_comment(conn, *id),
        Change::ConsumeComment(id, entry) => plans::consume_comment(conn, *id, *entry),
        Change::TransferComments { from, to } => plans::transfer_comments(conn, *from, *to),
        Change::ForgetPlan(session) => plans::forget(conn, *session),
        Change::AddUser(id, name) => users::add_user(conn, *id, name),
        Change::AddToken(user, digest, at) => users::add_token(conn, *user, digest, *at),
        Change::RevokeToken(digest) => users::revoke_token(conn, digest),
        Change::RevokeTokens(user) => users::revoke_tokens(conn, *user),
        Change::RemoveUser(user, at) => users::remove_user(conn, *user, *at),
        Change::SaveSettings(user, patch) => lifecycle::save_settings(conn, *user, patch),
        Change::ArchiveTask(task) => {
            one(conn, sql::TASK_ARCHIVED, &[Param::Int(task.0), Param::Int(1)])
        }
        Change::UnarchiveTask(task) => {
            one(conn, sql::TASK_ARCHIVED, &[Param::Int(task.0), Param::Int(0)])
        }
        Change::HideTask(task, at) => {
            one(conn, sql::TASK_HIDE, &[Param::Int(task.0), Param::Int(at.get())])
        }
        Change::PurgeTask(task) => one(conn, sql::TASK_DELETE, &[Param::Int(task.0)]),
        Change::SetSession { session, model, mode, title } => {
            lifecycle::set_session(conn, *session, model.as_deref(), mode.as_deref(), title)
        }
        Change::BeginIncarnation(session, incarnation) => {
            lifecycle::begin_incarnation(conn, *session, *incarnation)
        }
        Change::HideSession(session, at) => {
            one(conn, sql::SESSION_HIDE, &[Param::Int(session.0), Param::Int(at.get())])
        }
        Change::PurgeSession(session) => lifecycle::purge_session(conn, *session),
    }
}

pub(super) fn int(value: u64) -> Param<'static> {
    Param::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Runs a statement that must change exactly the one row that the decision was shown.
pub(super) fn one(
    conn: &mut dyn Conn,
    sql: &'static str,
    params: &[Param<'_>],
) -> Result<(), StoreError> {
    conn.change_one(sql, params)
}

/// Runs a statement that must change at least one of the rows that the decision was shown.
fn some(conn: &mut dyn Conn, sql: &'static str, params: &[Param<'_>]) -> Result<(), StoreError> {
    match conn.execute(sql, params)? {
        0 => Err(StoreError::Damaged("rows that were just read are gone")),
        _ => Ok(()),
    }
}

fn insert_task(conn: &mut dyn Conn, task: &NewTask) -> Result<(), StoreError> {
    one(
        conn,
        sql::TASK_INSERT,
        &[
            Param::Id(task.id.uuid()),
            Param::Id(task.owner.uuid()),
            Param::Text(&task.title),
            Param::Text(task.kind.as_str()),
            Param::opt_text(task.workspace_dir.as_deref()),
            Param::Text(&task.agent),
            Param::opt_text(task.client_request_id.as_deref()),
            Param::Int(task.created_at.get()),
        ],
    )
}

fn insert_session(conn: &mut dyn Conn, session: &NewSession) -> Result<(), StoreError> {
    let incarnation = session.incarnation_id.uuid();
    one(conn, sql::INCARNATION_INSERT, &[Param::Id(incarnation)])?;
    one(
        conn,
        sql::SESSION_INSERT,
        &[
            Param::Id(session.id.uuid()),
            Param::Id(session.task_id.uuid()),
            Param::Id(incarnation),
            Param::Text(&session.agent),
            Param::opt_text(session.model.as_deref()),
            Param::Text(&session.title),
            Param::opt_text(session.client_request_id.as_deref()),
            Param::Int(session.created_at.get()),
        ],
    )?;
    one(conn, sql::INCARNATION_ATTACH, &[Param::Id(incarnation), Param::Id(session.id.uuid())])
}

fn set_queue(
    conn: &mut dyn Conn,
    session: SessionKey,
    queue: &QueueHead,
) -> Result<(), StoreError> {
    let off = match queue.auto_run {
        AutoRun::On => None,
        AutoRun::Off(reason) => Some(reason.as_str()),
    };
    let operation = conn.operation(session);
    one(
        conn,
        sql::QUEUE_SET,
        &[
            Param::Int(session.0),
            int(queue.revision.get()),
            int(queue.stored),
            int(queue.next_position.get()),
            Param::opt_text(off),
            operation,
        ],
    )
}

fn insert_entry(conn: &mut dyn Conn, session: SessionKey, entry: &Entry) -> Result<(), StoreError> {
    let provenance = row::provenance_text(&entry.provenance);
    let enclosed = enclosed_text(&entry.enclosed);
    one(
        conn,
        sql::ENTRY_INSERT,
        &[
            Param::Int(session.0),
            Param::Id(entry.id.uuid()),
            int(entry.position.get()),
            Param::Text(&entry.content),
            Param::opt_text(entry.model.as_deref()),
            Param::Int(i64::from(entry.plan_mode)),
            Param::opt_text(provenance.as_deref()),
            Param::Int(entry.queued_at.get()),
            Param::Text(entry.queued_by.kind.as_str()),
            Param::Text(&entry.queued_by.id),
            Param::Text(&entry.queued_by.name),
            opt_id(entry.queued_by.task.map(|task| task.uuid())),
            int(entry.revision.get()),
            Param::opt_text(enclosed.as_deref()),
        ],
    )
}

fn rewrite_entry(conn: &mut dyn Conn, entry: &Entry) -> Result<(), StoreError> {
    let provenance = row::provenance_text(&entry.provenance);
    let enclosed = enclosed_text(&entry.enclosed);
    one(
        conn,
        sql::ENTRY_REWRITE,
        &[
            Param::Id(entry.id.uuid()),
            Param::Text(&entry.content),
            Param::opt_text(provenance.as_deref()),
            Param::Int(entry.queued_at.get()),
            int(entry.revision.get()),
            Param::opt_text(enclosed.as_deref()),
        ],
    )
}

fn move_entries(
    conn: &mut dyn Conn,
    session: SessionKey,
    moves: &[(EntryId, Position)],
) -> Result<(), StoreError> {
    for (id, place) in moves {
        let away = i64::try_from(place.get()).map_or(i64::MIN, |place| -place);
        let params = [Param::Int(session.0), Param::Id(id.uuid()), Param::Int(away)];
        one(conn, sql::ENTRY_MOVE_AWAY, &params)?;
    }
    some(conn, sql::ENTRIES_MOVE_BACK, &[Param::Int(session.0)])
}

fn insert_receipt(
    conn: &mut dyn Conn,
    incarnation: IncarnationKey,
    receipt: &Receipt,
    follows: Option<Follows>,
) -> Result<(), StoreError> {
    let entry = &receipt.entry;
    // What an earlier receipt says is not said again.
    let (content, provenance, base_key, base_bytes, enclosed) = match follows {
        None => {
            let provenance = row::receipt_provenance_text(receipt);
            let enclosed = enclosed_text(&entry.enclosed);
            (&*entry.content, provenance, Param::Null, Param::Null, enclosed)
        }
        Some(Follows { receipt, content_bytes, enclosed }) => {
            let rest = entry.content.get(content_bytes..);
            let rest = rest.ok_or(StoreError::Damaged("a receipt does not go on from another"))?;
            let enclosed = match enclosed {
                Carries::Same => None,
                Carries::More => enclosed_text(&entry.enclosed),
            };
            (rest, None, Param::Int(receipt.0), int(content_bytes as u64), enclosed)
        }
    };
    one(
        conn,
        sql::RECEIPT_INSERT,
        &[
            Param::Int(incarnation.0),
            Param::Text(receipt.identified.id.as_str()),
            Param::Bytes(receipt.identified.fingerprint.as_bytes()),
            Param::Id(entry.id.uuid()),
            Param::Text(receipt.outcome.as_str()),
            int(receipt.queue_revision.get()),
            int(entry.position.get()),
            Param::Text(content),
            Param::Int(i64::from(receipt.content_truncated)),
            Param::opt_text(entry.model.as_deref()),
            Param::Int(i64::from(entry.plan_mode)),
            Param::opt_text(provenance.as_deref()),
            Param::Int(entry.queued_at.get()),
            Param::Text(entry.queued_by.kind.as_str()),
            Param::Text(&entry.queued_by.id),
            Param::Text(&entry.queued_by.name),
            int(entry.revision.get()),
            base_key,
            base_bytes,
            Param::opt_text(enclosed.as_deref()),
        ],
    )
}

/// The columns `stop_asked`, `replaced_by` and `message_id`.
fn turn_params(turn: &OpenTurn) -> [Param<'static>; 3] {
    let (asked, replaced_by) = match turn.stop {
        Stop::NotAsked => (0, None),
        Stop::Asked => (1, None),
        Stop::Replaced(by) => (1, Some(by.uuid())),
    };
    let message = match turn.prompt {
        TurnPrompt::Entries => None,
        TurnPrompt::Message(id) => Some(id.uuid()),
    };
    [Param::Int(asked), opt_id(replaced_by), opt_id(message)]
}

fn opt_id(uuid: Option<Uuid>) -> Param<'static> {
    uuid.map_or(Param::Null, Param::Id)
}

fn insert_turn(
    conn: &mut dyn Conn,
    session: SessionKey,
    turn: &OpenTurn,
) -> Result<(), StoreError> {
    let [asked, replaced_by, message] = turn_params(turn);
    let node = Param::Id(conn.node());
    one(
        conn,
        sql::TURN_INSERT,
        &[
            Param::Int(session.0),
            Param::Id(turn.id.uuid()),
            Param::Text(row::stage_word(turn.stage)),
            asked,
            replaced_by,
            message,
            Param::Int(turn.started_at.get()),
            node,
        ],
    )
}

fn set_turn(conn: &mut dyn Conn, turn: &OpenTurn) -> Result<(), StoreError> {
    let [asked, replaced_by, message] = turn_params(turn);
    let stage = Param::Text(row::stage_word(turn.stage));
    one(conn, sql::TURN_SET, &[Param::Id(turn.id.uuid()), stage, asked, replaced_by, message])
}

fn insert_message(
    conn: &mut dyn Conn,
    session: SessionKey,
    incarnation: IncarnationKey,
    message: &Message,
) -> Result<(), StoreError> {
    let details = row::details_text(&message.details);
    let turn = message.turn_id.map(|turn| turn.uuid());
    one(
        conn,
        sql::MESSAGE_INSERT,
        &[
            Param::Int(session.0),
            Param::Int(incarnation.0),
            Param::Id(message.id.uuid()),
            int(message.seq.get()),
            opt_id(turn),
            Param::Text(message.role.as_str()),
            Param::Text(&message.content),
            int(message.content_bytes),
            Param::Text(message.status.as_str()),
            Param::opt_text(details.as_deref()),
            Param::Int(message.created_at.get()),
        ],
    )?;
    let operation = conn.operation(session);
    let params = [Param::Int(session.0), int(message.seq.get()), operation];
    one(conn, sql::SESSION_LAST_SEQ, &params)
}

/// Text of a message that is kept in its own row; the rest goes into parts.
const MESSAGE_ROW_BYTES_MAX: usize = 32 * 1024;

fn message_size(conn: &mut dyn Conn, id: MessageId) -> Result<(i64, i64), StoreError> {
    query_one(conn, sql::MESSAGE_SIZE, &[Param::Id(id.uuid())], |row| {
        Ok((row.int(0)?, row.int(1)?))
    })?
    .ok_or(StoreError::Damaged("a message that was just read is gone"))
}

fn append_message(
    conn: &mut dyn Conn,
    id: MessageId,
    at: u64,
    text: &str,
) -> Result<(), StoreError> {
    let (key, size) = message_size(conn, id)?;
    let key = Param::Int(key);
    match u64::try_from(size) {
        Ok(size) if size == at => {}
        // A commit that gave no answer was stored after all.
        Ok(size) if size >= at + text.len() as u64 => return Ok(()),
        _ => return Err(StoreError::Damaged("a gap in a message")),
    }
    if usize::try_from(size).is_ok_and(|size| size + text.len() <= MESSAGE_ROW_BYTES_MAX) {
        let params = [key, Param::Text(text), int(text.len() as u64)];
        return one(conn, sql::MESSAGE_APPEND, &params);
    }
    one(conn, sql::PART_INSERT, &[key, Param::Int(size), Param::Text(text)])?;
    one(conn, sql::MESSAGE_GROW, &[key, int(text.len() as u64)])
}

fn replace_message(conn: &mut dyn Conn, id: MessageId, text: &str) -> Result<(), StoreError> {
    let (key, _) = message_size(conn, id)?;
    let key = Param::Int(key);
    conn.execute(sql::PARTS_DELETE, &[key])?;
    one(conn, sql::MESSAGE_REPLACE, &[key, Param::Text(text), int(text.len() as u64)])
}
