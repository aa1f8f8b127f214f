//! The list of invariants. Statements are of the SQL that both databases share; a rule that SQL
//! alone cannot say is a function over a row.

use usher_shared::id::AdmissionId;
use usher_shared::limits::{
    ADMISSION_IDS_MAX, COMMENT_BODY_BYTES_MAX, CONTENT_BYTES_MAX, ENTRIES_MAX, PLAN_COMMENTS_MAX,
    PLAN_ENTRIES_MAX, PLAN_ENTRY_BYTES_MAX, SELECTED_TEXT_BYTES_MAX, SNAPSHOT_BYTES_MAX,
};
use usher_shared::vocabulary::{
    AdmissionOutcome, AutoRunReason, MessageStatus, Role, SenderKind, TaskKind, TurnOutcome,
    TurnReason,
};

use super::super::conn::Row;
use super::super::error::StoreError;
use super::super::{plans as plan_rows, row};
use super::Rule::{Broken, Each, Walk};
use super::{Invariant, attachments, plans, provenance};

// The statements below spell these bounds out.
const _: () = assert!(ENTRIES_MAX == 1_000);
const _: () = assert!(CONTENT_BYTES_MAX == 262_144);
const _: () = assert!(SNAPSHOT_BYTES_MAX == 65_536);
const _: () = assert!(PLAN_COMMENTS_MAX == 100 && PLAN_ENTRIES_MAX == 100);
const _: () = assert!(COMMENT_BODY_BYTES_MAX == 8_192 && SELECTED_TEXT_BYTES_MAX == 4_096);

macro_rules! invariants {
    ($($name:ident of $table:literal: $holds:literal, $rule:expr;)*) => {
        &[$(Invariant { name: stringify!($name), holds: $holds, table: $table, rule: $rule },)*]
    };
}

/// What SQLite itself can say about its file.
pub(super) const SQLITE: &[Invariant] = invariants! {
    sqlite_file of "the file":
        "every page and index of the file is sound",
        Broken("SELECT 0 FROM pragma_integrity_check WHERE integrity_check <> 'ok'");
    sqlite_references of "any table":
        "every reference names a row",
        Broken("SELECT rowid FROM pragma_foreign_key_check");
};

/// What is true of the rows of any database.
pub(super) const ROWS: &[Invariant] = invariants! {
    // Names.
    user_ids of "users":
        "ids have 16 bytes",
        Broken("SELECT key FROM users WHERE length(id) <> 16");
    user_token_digests of "user_tokens":
        "digests have 32 bytes",
        Broken("SELECT key FROM user_tokens WHERE length(digest) <> 32");
    task_ids of "tasks":
        "ids have 16 bytes",
        Broken("SELECT key FROM tasks WHERE length(id) <> 16");
    session_ids of "sessions":
        "ids have 16 bytes",
        Broken("SELECT key FROM sessions WHERE length(id) <> 16 OR length(operation) <> 16");
    incarnation_ids of "session_incarnations":
        "ids have 16 bytes",
        Broken("SELECT key FROM session_incarnations WHERE length(id) <> 16");
    entry_ids of "queue_entries":
        "ids have 16 bytes",
        Broken("SELECT key FROM queue_entries WHERE length(id) <> 16 OR length(turn_id) <> 16 \
                OR length(undo_id) <> 16 OR length(sender_task) <> 16");
    receipt_ids of "queue_admission_receipts":
        "admission IDs are well-formed, entry ids have 16 bytes, fingerprints 32",
        Each("SELECT key, client_queue_id, length(entry_id), length(fingerprint) \
              FROM queue_admission_receipts",
             |row| Ok(AdmissionId::parse(row.text(1)?).is_ok()
                      && row.int(2)? == 16 && row.int(3)? == 32));
    turn_ids of "turns":
        "ids have 16 bytes",
        Broken("SELECT key FROM turns WHERE length(id) <> 16 OR length(message_id) <> 16 \
                OR length(replaced_by) <> 16 OR length(node_id) <> 16");
    message_ids of "messages":
        "ids have 16 bytes",
        Broken("SELECT key FROM messages WHERE length(id) <> 16 OR length(turn_id) <> 16");
    node_ids of "nodes":
        "ids have 16 bytes",
        Broken("SELECT key FROM nodes WHERE length(id) <> 16");

    // Words.
    task_kinds of "tasks":
        "the kind is a known word",
        Each("SELECT key, kind FROM tasks", |row| known(row, TaskKind::parse));
    auto_run_reasons of "sessions":
        "auto-run is ON, or OFF for a known reason",
        Each("SELECT key, auto_run_off FROM sessions", |row| known(row, AutoRunReason::parse));
    entry_senders of "queue_entries":
        "the sender's kind is a known word",
        Each("SELECT key, sender_kind FROM queue_entries", |row| known(row, SenderKind::parse));
    receipt_senders of "queue_admission_receipts":
        "the sender's kind is a known word",
        Each("SELECT key, sender_kind FROM queue_admission_receipts",
             |row| known(row, SenderKind::parse));
    receipt_outcomes of "queue_admission_receipts":
        "an admission was admitted or folded; a replay leaves no receipt",
        Each("SELECT key, outcome FROM queue_admission_receipts", |row| {
            known(row, |word| AdmissionOutcome::parse(word).filter(|outcome| match outcome {
                AdmissionOutcome::Admitted | AdmissionOutcome::Folded => true,
                AdmissionOutcome::Replayed => false,
            }))
        });
    turn_stages of "turns":
        "the stage is a known word",
        Each("SELECT key, stage FROM turns", |row| known(row, |word| row::stage(word).ok()));
    turn_outcomes of "turns":
        "the outcome is a known word",
        Each("SELECT key, outcome FROM turns", |row| known(row, TurnOutcome::parse));
    turn_reasons of "turns":
        "the reason is a known word",
        Each("SELECT key, reason FROM turns", |row| known(row, TurnReason::parse));
    message_roles of "messages":
        "the role is a known word",
        Each("SELECT key, role FROM messages", |row| known(row, Role::parse));
    message_statuses of "messages":
        "the status is a known word",
        Each("SELECT key, status FROM messages", |row| known(row, MessageStatus::parse));
    task_archived of "tasks":
        "archived is 0 or 1",
        Broken("SELECT key FROM tasks WHERE archived NOT IN (0, 1)");

    // Users, tasks, sessions.
    user_settings of "users":
        "saved settings are within their bounds",
        Broken("SELECT key FROM users WHERE max_per_session NOT BETWEEN 0 AND 1000 \
                OR merge_enabled NOT IN (0, 1) OR auto_merge_enabled NOT IN (0, 1)");
    task_made_once of "tasks":
        "one request makes one task",
        Broken("SELECT MAX(key) FROM tasks WHERE client_request_id IS NOT NULL \
                GROUP BY owner_key, client_request_id HAVING COUNT(*) > 1");
    session_made_once of "sessions":
        "one request makes one session",
        Broken("SELECT MAX(key) FROM sessions WHERE client_request_id IS NOT NULL \
                GROUP BY task_key, client_request_id HAVING COUNT(*) > 1");
    session_incarnation of "sessions":
        "the current incarnation is one of the session's own",
        Broken("SELECT s.key FROM sessions s LEFT JOIN session_incarnations i \
                ON i.key = s.incarnation_key AND i.session_key = s.key WHERE i.key IS NULL");
    incarnation_session of "session_incarnations":
        "an incarnation belongs to a session that exists",
        Broken("SELECT i.key FROM session_incarnations i LEFT JOIN sessions s \
                ON s.key = i.session_key WHERE s.key IS NULL");

    // The queue.
    queue_count of "sessions":
        "the counter of stored entries is their number",
        Broken("SELECT s.key FROM sessions s WHERE s.queue_stored <> (SELECT COUNT(*) \
                FROM queue_entries e WHERE e.session_key = s.key AND e.undo_id IS NULL)");
    queue_bound of "sessions":
        "a queue holds at most 1,000 entries",
        Broken("SELECT s.key FROM sessions s WHERE 1000 < (SELECT COUNT(*) \
                FROM queue_entries e WHERE e.session_key = s.key AND e.undo_id IS NULL)");
    entry_session of "queue_entries":
        "an entry belongs to a session that exists",
        Broken("SELECT e.key FROM queue_entries e LEFT JOIN sessions s ON s.key = e.session_key \
                WHERE s.key IS NULL");
    entry_position of "queue_entries":
        "positions begin at 1 and are below the next one to be given",
        Broken("SELECT e.key FROM queue_entries e JOIN sessions s ON s.key = e.session_key \
                WHERE e.position < 1 OR e.position >= s.next_position");
    entry_order of "queue_entries":
        "no two stored entries of a session have one position",
        Broken("SELECT MAX(key) FROM queue_entries WHERE undo_id IS NULL \
                GROUP BY session_key, position HAVING COUNT(*) > 1");
    entry_values of "queue_entries":
        "revisions begin at 1, plan mode is 0 or 1, content has at most 256 KiB",
        Broken("SELECT key FROM queue_entries WHERE revision < 1 OR plan_mode NOT IN (0, 1) \
                OR octet_length(content) > 262144");
    entry_reservation of "queue_entries":
        "a reserved entry is of an open turn of its session, or of the turn that follows that one",
        Broken("SELECT e.key FROM queue_entries e WHERE e.turn_id IS NOT NULL \
                AND e.undo_id IS NULL AND NOT EXISTS (SELECT 1 FROM turns o \
                WHERE o.session_key = e.session_key AND o.ended_at IS NULL \
                AND (o.id = e.turn_id OR o.replaced_by = e.turn_id))");
    entry_removal of "queue_entries":
        "a removed entry has an undo id and a time and is reserved for nothing; others have none",
        Broken("SELECT key FROM queue_entries WHERE (undo_id IS NULL) <> (removed_at IS NULL) \
                OR (undo_id IS NOT NULL AND turn_id IS NOT NULL)");
    entry_provenance of "queue_entries":
        "an entry names at most 256 well-formed admission IDs",
        Each("SELECT key, provenance FROM queue_entries WHERE provenance IS NOT NULL",
             |row| Ok(row::provenance(row.opt_text(1)?)?.admission_ids.len() <= ADMISSION_IDS_MAX));
    entry_receipts of "queue_entries":
        "every admission that an entry was made from has a receipt of its incarnation",
        Walk(provenance::entries_without_receipt);
    admission_once of "sessions":
        "no admission is in two entries or messages",
        Walk(provenance::sessions_with_a_double);

    // Attachments.
    attachment_ids of "attachments":
        "ids have 16 bytes, digests 32, stage and kind are known words, sizes within their bound",
        Broken("SELECT key FROM attachments WHERE length(id) <> 16 OR length(sha256) <> 32 \
                OR stage NOT IN ('receiving', 'ready', 'claimed') \
                OR kind NOT IN ('image', 'audio', 'resource') \
                OR size_bytes < 0 OR size_bytes > 104857600");
    attachment_owner of "attachments":
        "a claimed attachment has no end, and at most one owner, of its session; others have none",
        Broken("SELECT a.key FROM attachments a LEFT JOIN queue_entries e ON e.key = a.entry_key \
                LEFT JOIN messages m ON m.key = a.message_key \
                WHERE (a.stage = 'claimed') <> (a.expires_at IS NULL) \
                OR (a.entry_key IS NOT NULL AND a.message_key IS NOT NULL) \
                OR (a.stage <> 'claimed' AND (a.entry_key IS NOT NULL OR a.message_key IS NOT NULL)) \
                OR e.session_key <> a.session_key OR m.session_key <> a.session_key \
                OR (a.message_key IS NOT NULL AND m.key IS NULL)");
    attachment_session of "attachments":
        "an attachment belongs to a session that exists",
        Broken("SELECT a.key FROM attachments a LEFT JOIN sessions s ON s.key = a.session_key \
                WHERE s.key IS NULL");
    attachment_parts of "attachments":
        "where the database keeps them, the parts of an attachment are all of its bytes",
        Walk(attachments::rows_without_bytes);
    entry_attachments of "queue_entries":
        "an entry owns the attachments that it says it carries, and no others",
        Walk(attachments::entries_with_others);
    message_attachments of "messages":
        "a message owns the attachments that it says it carries, and no others",
        Walk(attachments::messages_with_others);

    // Edits.
    lease_ids of "edit_leases":
        "ids have 16 bytes, generations and revisions begin at 1, saved is 0 or 1",
        Broken("SELECT entry_key FROM edit_leases WHERE length(lease_id) <> 16 \
                OR length(link_id) <> 16 OR length(node_id) <> 16 OR generation < 1 \
                OR target_revision < 1 OR saved NOT IN (0, 1)");
    lease_entry of "edit_leases":
        "a lease is of a waiting entry of its session that a user sent",
        Broken("SELECT l.entry_key FROM edit_leases l JOIN queue_entries e ON e.key = l.entry_key \
                WHERE l.lease_id IS NOT NULL AND (e.session_key <> l.session_key \
                OR e.turn_id IS NOT NULL OR e.undo_id IS NOT NULL OR e.sender_kind IN ('agent', 'workflow', 'server'))");
    lease_holder of "edit_leases":
        "a connection and its server hold a lease, or nobody does",
        Broken("SELECT entry_key FROM edit_leases WHERE (link_id IS NULL) <> (node_id IS NULL) \
                OR (lease_id IS NULL AND link_id IS NOT NULL) OR expires_at > ends_at");
    edit_operation of "edit_operations":
        "an operation is of a lease under which something was saved, and of a revision there was",
        Broken("SELECT o.entry_key FROM edit_operations o JOIN edit_leases l \
                ON l.entry_key = o.entry_key JOIN queue_entries e ON e.key = o.entry_key \
                WHERE l.lease_id IS NULL OR l.saved = 0 OR length(o.fingerprint) <> 32 \
                OR o.revision < 2 OR o.revision > e.revision");

    // Plans.
    plan_session of "plans":
        "a plan has an id of 16 bytes and belongs to a session that exists",
        Broken("SELECT p.session_key FROM plans p LEFT JOIN sessions s ON s.key = p.session_key \
                WHERE s.key IS NULL OR length(p.id) <> 16");
    plan_entries of "plans":
        "the steps of a plan can be read and are within their bounds",
        Each("SELECT session_key, entries FROM plans", |row| {
            let entries = plan_rows::entries(row.text(1)?)?;
            let fits = entries.iter().all(|entry| entry.text.len() <= PLAN_ENTRY_BYTES_MAX);
            Ok(fits && entries.len() <= PLAN_ENTRIES_MAX)
        });
    comment_ids of "plan_comments":
        "ids have 16 bytes",
        Broken("SELECT key FROM plan_comments WHERE length(id) <> 16 OR length(consumed_by) <> 16");
    comment_session of "plan_comments":
        "a comment belongs to a session that exists; one that waits, to its current life",
        Broken("SELECT c.key FROM plan_comments c LEFT JOIN sessions s ON s.key = c.session_key \
                WHERE s.key IS NULL OR (c.consumed_by IS NULL \
                AND (c.incarnation_key IS NULL OR c.incarnation_key <> s.incarnation_key))");
    comment_values of "plan_comments":
        "versions begin at 1, a step has a place and a text, texts are within their bounds",
        Broken("SELECT key FROM plan_comments WHERE version < 1 \
                OR (entry_index IS NULL) <> (entry_text IS NULL) \
                OR entry_index NOT BETWEEN 0 AND 99 OR octet_length(body) > 8192 \
                OR octet_length(selected_text) > 4096");
    comment_bound of "sessions":
        "at most 100 comments of a session wait",
        Broken("SELECT session_key FROM plan_comments WHERE consumed_by IS NULL \
                GROUP BY session_key HAVING COUNT(*) > 100");
    comment_consumed of "plan_comments":
        "a consumed comment was taken along by an admission of its life that made an entry",
        Broken("SELECT c.key FROM plan_comments c WHERE c.consumed_by IS NOT NULL \
                AND c.incarnation_key IS NOT NULL AND NOT EXISTS \
                (SELECT 1 FROM queue_admission_receipts r WHERE r.incarnation_key = c.incarnation_key \
                AND r.entry_id = c.consumed_by AND r.outcome <> 'folded')");
    entry_comments of "queue_entries":
        "the comments of an entry are of its session and were consumed by it, at that version",
        Walk(plans::entries_without_comment);
    message_comments of "messages":
        "the comments of a prompt are of its session and were consumed, at that version",
        Walk(plans::messages_without_comment);

    // Receipts.
    receipt_incarnation of "queue_admission_receipts":
        "a receipt belongs to an incarnation that exists",
        Broken("SELECT r.key FROM queue_admission_receipts r LEFT JOIN session_incarnations i \
                ON i.key = r.incarnation_key WHERE i.key IS NULL");
    receipt_once of "queue_admission_receipts":
        "an incarnation has one receipt of an admission",
        Broken("SELECT MAX(key) FROM queue_admission_receipts \
                GROUP BY incarnation_key, client_queue_id HAVING COUNT(*) > 1");
    receipt_snapshot of "queue_admission_receipts":
        "a snapshot has at most 64 KiB of content",
        Broken("SELECT key FROM queue_admission_receipts \
                WHERE COALESCE(base_bytes, 0) + octet_length(content) > 65536 \
                OR content_truncated NOT IN (0, 1) OR plan_mode NOT IN (0, 1)");
    receipt_cut of "queue_admission_receipts":
        "a snapshot is marked as cut only if what it holds fills it",
        Walk(provenance::receipts_cut_for_nothing);
    receipt_base of "queue_admission_receipts":
        "a receipt that goes on from another is the next one of the same entry, and says only what \
         it adds",
        Broken("SELECT r.key FROM queue_admission_receipts r LEFT JOIN queue_admission_receipts b \
                ON b.key = r.base_key WHERE (r.base_key IS NULL) <> (r.base_bytes IS NULL) \
                OR (r.base_key IS NOT NULL AND (b.key IS NULL OR b.key >= r.key \
                OR b.incarnation_key <> r.incarnation_key OR b.entry_id <> r.entry_id \
                OR b.entry_revision + 1 <> r.entry_revision OR r.outcome <> 'folded' \
                OR r.provenance IS NOT NULL OR r.base_bytes < 0 \
                OR r.base_bytes > COALESCE(b.base_bytes, 0) + octet_length(b.content)))");
    receipt_revisions of "queue_admission_receipts":
        "revisions and positions begin at 1, and no queue goes back behind a receipt",
        Broken("SELECT r.key FROM queue_admission_receipts r \
                JOIN session_incarnations i ON i.key = r.incarnation_key \
                JOIN sessions s ON s.key = i.session_key WHERE r.entry_revision < 1 \
                OR r.position < 1 OR r.queue_revision < 1 OR r.queue_revision > s.queue_revision");
    receipt_provenance of "queue_admission_receipts":
        "a receipt names its own admission among at most 256",
        Each("SELECT key, client_queue_id, provenance FROM queue_admission_receipts \
              WHERE provenance IS NOT NULL",
             |row| {
                 let ids = row::provenance(row.opt_text(2)?)?.admission_ids;
                 let own = row.text(1)?;
                 Ok(ids.len() <= ADMISSION_IDS_MAX && ids.iter().any(|id| id.as_str() == own))
             });

    // Turns.
    turn_session of "turns":
        "a turn belongs to a session that exists",
        Broken("SELECT o.key FROM turns o LEFT JOIN sessions s ON s.key = o.session_key \
                WHERE s.key IS NULL");
    turn_open_once of "turns":
        "a session has at most one open turn",
        Broken("SELECT MAX(key) FROM turns WHERE ended_at IS NULL \
                GROUP BY session_key HAVING COUNT(*) > 1");
    turn_end of "turns":
        "a turn has an outcome if and only if it has ended, and a reason only then",
        Broken("SELECT key FROM turns WHERE (ended_at IS NULL) <> (outcome IS NULL) \
                OR (ended_at IS NULL AND reason IS NOT NULL) OR stop_asked NOT IN (0, 1)");
    turn_of_archived_task of "turns":
        "an open turn of an archived task shall stop",
        Broken("SELECT o.key FROM turns o JOIN sessions s ON s.key = o.session_key \
                JOIN tasks t ON t.key = s.task_key WHERE o.ended_at IS NULL AND t.archived = 1 \
                AND o.stop_asked = 0");
    turn_prompt of "turns":
        "until an agent has it, the prompt of an open turn is in the queue or in the transcript, \
         not in both",
        Broken("SELECT o.key FROM turns o WHERE o.ended_at IS NULL AND o.stage <> 'running' \
                AND (o.message_id IS NULL) <> EXISTS (SELECT 1 FROM queue_entries e \
                WHERE e.session_key = o.session_key AND e.turn_id = o.id AND e.undo_id IS NULL)");
    turn_accepted of "turns":
        "once an agent has it, the prompt of an open turn is in the transcript only",
        Broken("SELECT o.key FROM turns o WHERE o.ended_at IS NULL AND o.stage = 'running' \
                AND (o.message_id IS NULL OR EXISTS (SELECT 1 FROM queue_entries e \
                WHERE e.session_key = o.session_key AND e.turn_id = o.id AND e.undo_id IS NULL))");
    turn_message of "turns":
        "the message of an open turn is a prompt of its session and belongs to it",
        Broken("SELECT o.key FROM turns o WHERE o.ended_at IS NULL AND o.message_id IS NOT NULL \
                AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = o.message_id \
                AND m.session_key = o.session_key AND m.turn_id = o.id AND m.role = 'user')");
    turn_replacement of "turns":
        "an open turn that is being replaced is so by a prompt that waits reserved",
        Broken("SELECT o.key FROM turns o WHERE o.ended_at IS NULL AND o.replaced_by IS NOT NULL \
                AND NOT EXISTS (SELECT 1 FROM queue_entries e WHERE e.session_key = o.session_key \
                AND e.turn_id = o.replaced_by AND e.undo_id IS NULL)");

    // The transcript.
    message_session of "messages":
        "a message belongs to a session that exists and to a life of it",
        Broken("SELECT m.key FROM messages m LEFT JOIN session_incarnations i \
                ON i.key = m.incarnation_key AND i.session_key = m.session_key \
                LEFT JOIN sessions s ON s.key = m.session_key \
                WHERE i.key IS NULL OR s.key IS NULL");
    message_numbers of "sessions":
        "the messages of a session are numbered 1, 2, 3 and so on",
        Broken("SELECT session_key FROM messages GROUP BY session_key HAVING MIN(seq) <> 1 \
                OR MAX(seq) <> COUNT(*) OR COUNT(DISTINCT seq) <> COUNT(*)");
    message_last of "sessions":
        "the session knows the number of its newest message",
        Broken("SELECT s.key FROM sessions s WHERE s.last_seq <> COALESCE((SELECT MAX(m.seq) \
                FROM messages m WHERE m.session_key = s.key), 0)");
    message_turn of "messages":
        "the turn of a message is one of its session",
        Broken("SELECT m.key FROM messages m WHERE m.turn_id IS NOT NULL AND NOT EXISTS \
                (SELECT 1 FROM turns o WHERE o.id = m.turn_id AND o.session_key = m.session_key)");
    message_streaming of "messages":
        "a message that may still grow is of an open turn",
        Broken("SELECT m.key FROM messages m WHERE m.status = 'streaming' AND NOT EXISTS \
                (SELECT 1 FROM turns o WHERE o.id = m.turn_id AND o.ended_at IS NULL)");
    message_bytes of "messages":
        "the size of a message is that of its own text and its parts",
        Broken("SELECT m.key FROM messages m LEFT JOIN (SELECT message_key, \
                SUM(octet_length(content)) AS bytes FROM message_parts GROUP BY message_key) p \
                ON p.message_key = m.key \
                WHERE m.content_bytes <> octet_length(m.content) + COALESCE(p.bytes, 0)");
    message_parts of "messages":
        "the parts of a message begin where the text before them ends",
        Broken("SELECT x.message_key FROM (SELECT p.message_key, p.start_byte, \
                octet_length(m.content) - octet_length(p.content) + SUM(octet_length(p.content)) \
                OVER (PARTITION BY p.message_key ORDER BY p.start_byte) AS begins \
                FROM message_parts p JOIN messages m ON m.key = p.message_key) x \
                WHERE x.start_byte <> x.begins");
    message_of_parts of "messages":
        "a part belongs to a message that exists",
        Broken("SELECT DISTINCT p.message_key FROM message_parts p LEFT JOIN messages m \
                ON m.key = p.message_key WHERE m.key IS NULL");
    message_details of "messages":
        "the details can be read and name at most 256 admission IDs",
        Each("SELECT key, details FROM messages WHERE details IS NOT NULL", |row| {
            let provenance = row::details(row.opt_text(1)?)?.provenance;
            Ok(provenance.admission_ids.len() <= ADMISSION_IDS_MAX)
        });
    message_receipts of "messages":
        "every admission that a prompt was made from has a receipt of its incarnation",
        Walk(provenance::messages_without_receipt);
};

/// Tells whether the second column is NULL or a word of a list.
fn known<T>(row: &dyn Row, parse: impl Fn(&str) -> Option<T>) -> Result<bool, StoreError> {
    Ok(row.opt_text(1)?.is_none_or(|word| parse(word).is_some()))
}
