//! Every statement, once, in the SQL that SQLite and PostgreSQL share. Placeholders are `?1`, `?2`
//! and so on.

pub(super) mod attachment;
pub(super) mod lease;
pub(super) mod plan;

macro_rules! session_columns {
    () => {
        "s.key, s.id, t.id, i.id, s.incarnation_key, u.id, CASE WHEN s.deleted_at IS NOT NULL \
         OR t.deleted_at IS NOT NULL OR u.removed_at IS NOT NULL THEN 2 ELSE t.archived END, \
         t.workspace_dir, s.agent, s.model, s.mode, s.title, s.created_at, s.last_seq, s.queue_revision, s.queue_stored, \
         s.next_position, s.auto_run_off, \
         o.id, o.stage, o.stop_asked, o.replaced_by, o.message_id, o.started_at, \
         COALESCE(u.max_per_session, -1), COALESCE(u.merge_enabled, -1), \
         COALESCE(u.auto_merge_enabled, -1)"
    };
}
macro_rules! from_sessions {
    () => {
        " FROM sessions s JOIN tasks t ON t.key = s.task_key JOIN users u ON u.key = t.owner_key \
         JOIN session_incarnations i ON i.key = s.incarnation_key \
         LEFT JOIN turns o ON o.session_key = s.key AND o.ended_at IS NULL "
    };
}
macro_rules! task_columns {
    () => {
        "t.key, t.id, u.id, u.name, t.title, t.kind, t.workspace_dir, t.agent, t.archived, \
         t.created_at, \
         (SELECT CAST(COALESCE(SUM(q.queue_stored), 0) AS BIGINT) FROM sessions q \
         WHERE q.task_key = t.key) \
         FROM tasks t JOIN users u ON u.key = t.owner_key "
    };
}
/// Not being deleted, and its owner is there.
macro_rules! task_seen {
    () => {
        "t.deleted_at IS NULL AND u.removed_at IS NULL"
    };
}
macro_rules! entry_columns {
    () => {
        "id, position, content, model, plan_mode, provenance, queued_at, sender_kind, sender_id, \
         sender_name, sender_task, revision, turn_id, enclosed"
    };
}
macro_rules! stored {
    () => {
        " FROM queue_entries WHERE session_key = ?1 AND undo_id IS NULL "
    };
}
macro_rules! visible {
    () => {
        concat!(stored!(), "AND turn_id IS NULL ")
    };
}
macro_rules! message_columns {
    () => {
        "m.id, i.id, m.seq, m.turn_id, m.role, m.content, m.content_bytes, m.status, m.details, \
         m.created_at, m.key \
         FROM messages m JOIN session_incarnations i ON i.key = m.incarnation_key "
    };
}

pub(super) const META_CREATE: &str =
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)";
pub(super) const META_GET: &str = "SELECT value FROM meta WHERE name = ?1";
pub(super) const META_SET: &str =
    "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING";
pub(super) const META_REPLACE: &str = "UPDATE meta SET value = ?2 WHERE name = ?1";

pub(super) const USER_FIRST: &str = "SELECT id, name FROM users ORDER BY key LIMIT 1";
pub(super) const USER_INSERT: &str =
    "INSERT INTO users (id, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING";

pub(super) const META_PUT: &str = "INSERT INTO meta (name, value) VALUES (?1, ?2) \
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
/// The first user is the owner.
pub(super) const USERS: &str = "SELECT u.id, u.name, \
    (SELECT COUNT(*) FROM user_tokens k WHERE k.user_key = u.key), \
    CASE WHEN u.key = (SELECT MIN(key) FROM users) THEN 1 ELSE 0 END \
    FROM users u WHERE u.removed_at IS NULL ORDER BY u.key";
pub(super) const USER_BY_TOKEN: &str = "SELECT u.id, u.name FROM user_tokens k \
    JOIN users u ON u.key = k.user_key WHERE k.digest = ?1 AND u.removed_at IS NULL";
pub(super) const USER_REMOVE: &str =
    "UPDATE users SET name = ?2, removed_at = ?3 WHERE id = ?1 AND removed_at IS NULL";
pub(super) const TOKEN_INSERT: &str = "INSERT INTO user_tokens (user_key, digest, created_at) \
    VALUES ((SELECT key FROM users WHERE id = ?1), ?2, ?3)";
pub(super) const TOKEN_DELETE: &str = "DELETE FROM user_tokens WHERE digest = ?1";
pub(super) const TOKENS_DELETE: &str =
    "DELETE FROM user_tokens WHERE user_key = (SELECT key FROM users WHERE id = ?1)";

pub(super) const TASK_BY_ID: &str =
    concat!("SELECT ", task_columns!(), "WHERE t.id = ?1 AND ", task_seen!());
pub(super) const TASK_BY_REQUEST: &str = concat!(
    "SELECT ",
    task_columns!(),
    "WHERE u.id = ?1 AND t.client_request_id = ?2 AND ",
    task_seen!()
);
pub(super) const TASKS_OF_USER: &str = concat!(
    "SELECT ",
    task_columns!(),
    "WHERE u.id = ?1 AND (t.archived = 0 OR ?2 = 1) AND ",
    task_seen!(),
    " ORDER BY t.key DESC LIMIT ?3"
);
pub(super) const TASK_INSERT: &str = "INSERT INTO tasks \
    (id, owner_key, title, kind, workspace_dir, agent, client_request_id, created_at) \
    VALUES (?1, (SELECT key FROM users WHERE id = ?2), ?3, ?4, ?5, ?6, ?7, ?8)";

pub(super) const SESSION_BY_ID: &str =
    concat!("SELECT ", session_columns!(), from_sessions!(), "WHERE s.id = ?1");
pub(super) const SESSION_BY_REQUEST: &str = concat!(
    "SELECT ",
    session_columns!(),
    from_sessions!(),
    "WHERE s.task_key = ?1 AND s.client_request_id = ?2"
);
pub(super) const SESSIONS_OF_TASK: &str =
    concat!("SELECT ", session_columns!(), from_sessions!(), "WHERE t.id = ?1 ORDER BY s.key");
macro_rules! seen_of_task {
    () => {
        "WHERE t.id = ?1 AND s.deleted_at IS NULL ORDER BY s.key"
    };
}
pub(super) const SESSIONS_OF_TASK_NEWEST: &str =
    concat!("SELECT ", session_columns!(), from_sessions!(), seen_of_task!(), " DESC LIMIT ?2");
pub(super) const SESSION_OF_TASK_FIRST: &str =
    concat!("SELECT ", session_columns!(), from_sessions!(), seen_of_task!(), " LIMIT 1");
pub(super) const SESSIONS_OF_USER: &str = concat!(
    "SELECT ",
    session_columns!(),
    from_sessions!(),
    "WHERE u.id = ?1 AND t.archived = 0 AND s.deleted_at IS NULL AND ",
    task_seen!(),
    " ORDER BY COALESCE((SELECT m.created_at FROM messages m \
     WHERE m.session_key = s.key ORDER BY m.seq DESC LIMIT 1), s.created_at) DESC, s.key DESC \
     LIMIT ?2"
);
/// An open turn whose server is gone: not this one (?1), and without a lease at ?2.
macro_rules! turn_left {
    () => {
        "o.ended_at IS NULL AND (o.node_id IS NULL OR (o.node_id <> ?1 AND NOT EXISTS \
         (SELECT 1 FROM nodes n WHERE n.id = o.node_id AND n.expires_at > ?2)))"
    };
}
pub(super) const SESSIONS_LEFT: &str = concat!(
    "SELECT s.id FROM turns o JOIN sessions s ON s.key = o.session_key WHERE ",
    turn_left!(),
    " ORDER BY s.key"
);
pub(super) const TURN_LEFT: &str =
    concat!("SELECT 1 FROM turns o WHERE o.id = ?3 AND ", turn_left!());
/// Sessions that may have a head to start: the regular pass tries each.
pub(super) const SESSIONS_WAITING: &str = "SELECT s.id FROM sessions s \
    JOIN tasks t ON t.key = s.task_key JOIN users u ON u.key = t.owner_key \
    WHERE s.queue_stored > 0 AND s.auto_run_off IS NULL AND s.deleted_at IS NULL \
    AND t.archived = 0 AND t.deleted_at IS NULL AND u.removed_at IS NULL AND NOT EXISTS \
    (SELECT 1 FROM turns o WHERE o.session_key = s.key AND o.ended_at IS NULL) ORDER BY s.key";
pub(super) const INCARNATION_INSERT: &str =
    "INSERT INTO session_incarnations (id, session_key) VALUES (?1, 0)";
pub(super) const SESSION_INSERT: &str = "INSERT INTO sessions \
    (id, task_key, incarnation_key, agent, model, title, client_request_id, created_at) VALUES \
    (?1, (SELECT key FROM tasks WHERE id = ?2), \
     (SELECT key FROM session_incarnations WHERE id = ?3), ?4, ?5, ?6, ?7, ?8)";
pub(super) const INCARNATION_ATTACH: &str = "UPDATE session_incarnations \
    SET session_key = (SELECT key FROM sessions WHERE id = ?2) WHERE id = ?1";
pub(super) const QUEUE_SET: &str = "UPDATE sessions SET queue_revision = ?2, queue_stored = ?3, \
    next_position = ?4, auto_run_off = ?5, operation = ?6 WHERE key = ?1";

pub(super) const ENTRY_INSERT: &str = "INSERT INTO queue_entries \
    (session_key, id, position, content, model, plan_mode, provenance, queued_at, sender_kind, \
     sender_id, sender_name, sender_task, revision, enclosed) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
pub(super) const ENTRIES_VISIBLE: &str =
    concat!("SELECT ", entry_columns!(), visible!(), "ORDER BY position");
pub(super) const ENTRY_HEAD: &str =
    concat!("SELECT ", entry_columns!(), visible!(), "ORDER BY position LIMIT 1");
pub(super) const ENTRY_PLACES_VISIBLE: &str =
    concat!("SELECT id, position", visible!(), "ORDER BY position");
pub(super) const ENTRY_LAST: &str =
    concat!("SELECT ", entry_columns!(), stored!(), "ORDER BY position DESC LIMIT 1");
pub(super) const ENTRY_ABOVE: &str = concat!(
    "SELECT ",
    entry_columns!(),
    stored!(),
    "AND position < ?2 ORDER BY position DESC LIMIT 1"
);
pub(super) const ENTRIES_OF_TURN: &str =
    concat!("SELECT ", entry_columns!(), stored!(), "AND turn_id = ?2 ORDER BY position");
pub(super) const ENTRY_BY_ID: &str = concat!(
    "SELECT ",
    entry_columns!(),
    " FROM queue_entries WHERE id = ?2 AND session_key = ?1 AND undo_id IS NULL"
);
pub(super) const ENTRY_RESERVE: &str = "UPDATE queue_entries SET turn_id = ?2 WHERE id = ?1";
pub(super) const ENTRIES_RELEASE: &str =
    "UPDATE queue_entries SET turn_id = NULL WHERE turn_id = ?1";
pub(super) const ENTRIES_DELETE: &str = "DELETE FROM queue_entries WHERE turn_id = ?1";
pub(super) const ENTRY_REWRITE: &str = "UPDATE queue_entries \
    SET content = ?2, provenance = ?3, queued_at = ?4, revision = ?5, enclosed = ?6 WHERE id = ?1";
/// In two steps, because no two entries may have one position in between.
pub(super) const ENTRY_MOVE_AWAY: &str = "UPDATE queue_entries SET position = ?3 \
    WHERE session_key = ?1 AND id = ?2";
pub(super) const ENTRIES_MOVE_BACK: &str = "UPDATE queue_entries SET position = -position \
    WHERE session_key = ?1 AND undo_id IS NULL AND position < 0";
pub(super) const ENTRY_DELETE: &str = "DELETE FROM queue_entries WHERE id = ?1";
pub(super) const ENTRY_REMOVE: &str =
    "UPDATE queue_entries SET undo_id = ?2, removed_at = ?3 WHERE id = ?1";
pub(super) const ENTRY_RESTORE: &str =
    "UPDATE queue_entries SET undo_id = NULL, removed_at = NULL WHERE id = ?1";
pub(super) const ENTRIES_REMOVED: &str = "SELECT id FROM queue_entries \
    WHERE undo_id = ?2 AND session_key = ?1 AND removed_at >= ?3 ORDER BY position";
pub(super) const ENTRIES_PURGE: &str =
    "DELETE FROM queue_entries WHERE undo_id IS NOT NULL AND removed_at < ?1";

pub(super) const RECEIPT_GET: &str = "SELECT fingerprint, entry_id, outcome, queue_revision, \
    position, content, content_truncated, model, plan_mode, provenance, accepted_at, sender_kind, \
    sender_id, sender_name, entry_revision, COALESCE(base_key, 0), COALESCE(base_bytes, 0), \
    enclosed FROM queue_admission_receipts WHERE incarnation_key = ?1 AND client_queue_id = ?2";
pub(super) const RECEIPT_END: &str = "SELECT key, entry_id, entry_revision, \
    COALESCE(base_bytes, 0) + octet_length(content) FROM queue_admission_receipts \
    WHERE incarnation_key = ?1 AND client_queue_id = ?2";
/// A receipt and those that it goes on from, the first one first.
pub(super) const RECEIPT_CHAIN: &str = "WITH RECURSIVE chain \
    (depth, key, base_key, base_bytes, client_queue_id, content, provenance, enclosed) AS \
    (SELECT 0, r.key, r.base_key, r.base_bytes, r.client_queue_id, r.content, r.provenance, \
     r.enclosed \
     FROM queue_admission_receipts r WHERE r.key = ?1 \
     UNION ALL SELECT c.depth + 1, b.key, b.base_key, b.base_bytes, b.client_queue_id, b.content, \
     b.provenance, b.enclosed FROM chain c JOIN queue_admission_receipts b \
     ON b.key = c.base_key AND b.key < c.key) \
    SELECT client_queue_id, COALESCE(base_bytes, 0), content, provenance, enclosed \
    FROM chain ORDER BY depth DESC";
pub(super) const RECEIPT_INSERT: &str = "INSERT INTO queue_admission_receipts \
    (incarnation_key, client_queue_id, fingerprint, entry_id, outcome, queue_revision, position, \
     content, content_truncated, model, plan_mode, provenance, accepted_at, sender_kind, \
     sender_id, sender_name, entry_revision, base_key, base_bytes, enclosed) VALUES \
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)";

pub(super) const TURN_INSERT: &str = "INSERT INTO turns \
    (session_key, id, stage, stop_asked, replaced_by, message_id, started_at, node_id) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
pub(super) const TURN_SET: &str = "UPDATE turns SET stage = ?2, stop_asked = ?3, \
    replaced_by = ?4, message_id = ?5 WHERE id = ?1 AND ended_at IS NULL";
pub(super) const TURN_END: &str = "UPDATE turns SET outcome = ?2, reason = ?3, ended_at = ?4 \
    WHERE id = ?1 AND ended_at IS NULL";

pub(super) const MESSAGE_INSERT: &str = "INSERT INTO messages \
    (session_key, incarnation_key, id, seq, turn_id, role, content, content_bytes, status, details, \
     created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
pub(super) const SESSION_LAST_SEQ: &str =
    "UPDATE sessions SET last_seq = ?2, operation = ?3 WHERE key = ?1";
pub(super) const MESSAGE_BY_ID: &str =
    concat!("SELECT ", message_columns!(), "WHERE m.session_key = ?1 AND m.id = ?2");
pub(super) const MESSAGE_PROMPT_OF_TURN: &str = concat!(
    "SELECT ",
    message_columns!(),
    "WHERE m.session_key = ?1 AND m.turn_id = ?2 AND m.role = 'user'"
);
pub(super) const MESSAGES_STREAMING: &str = concat!(
    "SELECT ",
    message_columns!(),
    "WHERE m.session_key = ?1 AND m.turn_id = ?2 AND m.status = 'streaming' ORDER BY m.seq"
);
pub(super) const MESSAGES_BEFORE: &str = concat!(
    "SELECT ",
    message_columns!(),
    "WHERE m.session_key = ?1 AND m.seq < ?2 ORDER BY m.seq DESC LIMIT ?3"
);
pub(super) const MESSAGES_AFTER: &str = concat!(
    "SELECT ",
    message_columns!(),
    "WHERE m.session_key = ?1 AND m.seq > ?2 ORDER BY m.seq LIMIT ?3"
);
/// A message's own text, if it is short.
macro_rules! short_text {
    () => {
        "CASE WHEN octet_length(m.content) <= 16384 THEN m.content END"
    };
}
pub(super) const MESSAGE_KEY_MAX: &str = "SELECT COALESCE(MAX(key), 0) FROM messages";
/// The rows of a range of keys, whoever's they are, bound what one of these passes over: messages
/// come first, which CROSS JOIN says to SQLite.
pub(super) const MESSAGES_TO_SEARCH: &str = concat!(
    "SELECT m.key, m.seq, ",
    short_text!(),
    ", m.content_bytes, s.id FROM messages m \
     CROSS JOIN sessions s CROSS JOIN tasks t CROSS JOIN users u \
     WHERE s.key = m.session_key AND t.key = s.task_key AND u.key = t.owner_key \
     AND u.id = ?1 AND m.key >= ?2 AND m.key < ?3 AND s.deleted_at IS NULL AND t.archived = 0 AND ",
    task_seen!(),
    " ORDER BY m.key DESC LIMIT ?4"
);
pub(super) const MESSAGES_TO_SEARCH_IN: &str = concat!(
    "SELECT m.key, m.seq, ",
    short_text!(),
    ", m.content_bytes FROM messages m \
     WHERE m.session_key = ?1 AND m.seq < ?2 ORDER BY m.seq DESC LIMIT ?3"
);
pub(super) const MESSAGE_OWN_TEXT: &str = "SELECT content FROM messages WHERE key = ?1";
pub(super) const SESSION_OF_MESSAGE: &str =
    "SELECT s.id FROM messages m JOIN sessions s ON s.key = m.session_key WHERE m.id = ?1";
pub(super) const MESSAGE_SIZE: &str = "SELECT key, content_bytes FROM messages WHERE id = ?1";
pub(super) const MESSAGE_APPEND: &str = "UPDATE messages \
    SET content = content || ?2, content_bytes = content_bytes + ?3 WHERE key = ?1";
pub(super) const MESSAGE_GROW: &str =
    "UPDATE messages SET content_bytes = content_bytes + ?2 WHERE key = ?1";
pub(super) const MESSAGE_REPLACE: &str =
    "UPDATE messages SET content = ?2, content_bytes = ?3 WHERE key = ?1";
pub(super) const PART_INSERT: &str =
    "INSERT INTO message_parts (message_key, start_byte, content) VALUES (?1, ?2, ?3)";
pub(super) const PARTS_DELETE: &str = "DELETE FROM message_parts WHERE message_key = ?1";
/// A message's own text and its parts, each with where it starts; those that touch a range.
pub(super) const TEXT_RANGE: &str = "SELECT x.start_byte, x.content FROM \
    (SELECT 0 AS start_byte, content FROM messages WHERE session_key = ?1 AND id = ?2 \
     UNION ALL SELECT p.start_byte, p.content FROM message_parts p JOIN messages m \
     ON m.key = p.message_key WHERE m.session_key = ?1 AND m.id = ?2) x \
    WHERE x.start_byte < ?4 AND x.start_byte + octet_length(x.content) > ?3 \
    ORDER BY x.start_byte";
pub(super) const PARTS_FROM: &str = "SELECT start_byte, content FROM message_parts \
    WHERE message_key = ?1 AND start_byte < ?2 ORDER BY start_byte";
pub(super) const PARTS_NEXT: &str = "SELECT start_byte, content FROM message_parts \
    WHERE message_key = ?1 AND start_byte >= ?2 ORDER BY start_byte LIMIT ?3";
pub(super) const MESSAGE_STATUS: &str = "UPDATE messages SET status = ?2 WHERE id = ?1";
pub(super) const MESSAGE_TURN: &str = "UPDATE messages SET turn_id = ?2 WHERE id = ?1";
pub(super) const MESSAGES_SETTLE: &str =
    "UPDATE messages SET status = ?2 WHERE turn_id = ?1 AND status = 'streaming'";
pub(super) const MESSAGE_DETAILS: &str = "UPDATE messages SET details = ?2 WHERE id = ?1";

// What only SQLite needs: commits that are found again.
pub(super) const SESSION_OPERATION: &str = "SELECT operation FROM sessions WHERE key = ?1";
/// A write that means nothing. A value that is there already would not be written.
pub(super) const TOUCH: &str = "INSERT INTO meta (name, value) VALUES ('lost_commit', ?1) \
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";

// What only PostgreSQL needs: rows that decisions own, and commits that are found again.
pub(super) const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(8319104478125777000)";
pub(super) const SERVER_FACTS: &str = "SELECT CAST(current_setting('server_version_num') AS BIGINT), \
    current_setting('server_encoding')";
pub(super) const TASK_LOCK: &str = "SELECT key FROM tasks WHERE id = ?1 FOR UPDATE";
pub(super) const SESSION_LOCK: &str = "SELECT key FROM sessions WHERE id = ?1 FOR UPDATE";
pub(super) const SESSION_IDS_OF_TASK: &str = "SELECT s.id FROM sessions s \
    JOIN tasks t ON t.key = s.task_key WHERE t.id = ?1 ORDER BY s.id";
pub(super) const SESSIONS_OF_TASK_LOCK: &str = "SELECT s.key FROM sessions s \
    JOIN tasks t ON t.key = s.task_key WHERE t.id = ?1 ORDER BY s.id FOR UPDATE OF s";
macro_rules! lease_clock {
    () => {
        "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    };
}
pub(super) const LEASE_CLOCK: &str = concat!("SELECT ", lease_clock!());
pub(super) const NODE_INSERT: &str =
    concat!("INSERT INTO nodes (id, expires_at) VALUES (?1, ", lease_clock!(), " + ?2)");
pub(super) const NODE_RENEW: &str = concat!(
    "UPDATE nodes SET expires_at = ",
    lease_clock!(),
    " + ?2 WHERE id = ?1 AND expires_at > ",
    lease_clock!()
);
pub(super) const NODE_DELETE: &str = "DELETE FROM nodes WHERE id = ?1";
/// Leases that are over for a day; one more or less tells nothing.
pub(super) const NODES_PURGE: &str =
    concat!("DELETE FROM nodes WHERE expires_at < ", lease_clock!(), " - 86400000");
pub(super) const LISTEN: &str = "LISTEN usher";
/// Tells the other servers, if there is one.
pub(super) const TELL_OTHERS: &str = concat!(
    "SELECT pg_notify('usher', ?1) WHERE EXISTS \
     (SELECT 1 FROM nodes WHERE id <> ?2 AND expires_at > ",
    lease_clock!(),
    ")"
);
pub(super) const TRANSACTION_ID: &str = "SELECT CAST(pg_current_xact_id() AS TEXT)";
pub(super) const TRANSACTION_STATUS: &str = "SELECT pg_xact_status(CAST(?1 AS xid8))";
/// Of a user who is there.
pub(super) const SETTINGS_SAVED: &str = "SELECT COALESCE(max_per_session, -1), \
    COALESCE(merge_enabled, -1), COALESCE(auto_merge_enabled, -1) \
    FROM users WHERE id = ?1 AND removed_at IS NULL";
pub(super) const SETTINGS_SAVE: &str = "UPDATE users SET \
    max_per_session = COALESCE(CAST(?2 AS BIGINT), max_per_session), \
    merge_enabled = COALESCE(CAST(?3 AS BIGINT), merge_enabled), \
    auto_merge_enabled = COALESCE(CAST(?4 AS BIGINT), auto_merge_enabled) WHERE id = ?1";
pub(super) const SESSION_IDS_OF_USER: &str = "SELECT s.id FROM sessions s \
    JOIN tasks t ON t.key = s.task_key JOIN users u ON u.key = t.owner_key WHERE u.id = ?1";
pub(super) const TASK_ARCHIVED: &str = "UPDATE tasks SET archived = ?2 WHERE key = ?1";
/// What is hidden gives the name of the request that made it free.
pub(super) const TASK_HIDE: &str = "UPDATE tasks SET deleted_at = ?2, client_request_id = NULL \
    WHERE key = ?1 AND deleted_at IS NULL";
pub(super) const TASK_DELETE: &str = "DELETE FROM tasks WHERE key = ?1";
pub(super) const TASK_HIDDEN_BY_ID: &str = concat!("SELECT ", task_columns!(), "WHERE t.id = ?1");
pub(super) const TASKS_HIDDEN: &str =
    "SELECT id FROM tasks WHERE deleted_at IS NOT NULL ORDER BY key";
pub(super) const SESSIONS_HIDDEN: &str =
    "SELECT id FROM sessions WHERE deleted_at IS NOT NULL ORDER BY key";
pub(super) const SESSIONS_UNSEEN_RUNNING: &str = "SELECT s.id FROM turns o \
    JOIN sessions s ON s.key = o.session_key JOIN tasks t ON t.key = s.task_key \
    JOIN users u ON u.key = t.owner_key \
    WHERE o.ended_at IS NULL AND o.stop_asked = 0 AND u.removed_at IS NOT NULL";
pub(super) const SESSION_SET: &str =
    "UPDATE sessions SET model = ?2, mode = ?3, title = ?4 WHERE key = ?1";
pub(super) const SESSION_HIDE: &str = "UPDATE sessions \
    SET deleted_at = ?2, client_request_id = NULL WHERE key = ?1 AND deleted_at IS NULL";
pub(super) const SESSION_INCARNATION: &str = "UPDATE sessions SET incarnation_key = \
    (SELECT key FROM session_incarnations WHERE id = ?2) WHERE key = ?1";
pub(super) const INCARNATION_OF: &str =
    "INSERT INTO session_incarnations (session_key, id) VALUES (?1, ?2)";
/// Everything that a session ever held, and the session itself at last.
pub(super) const SESSION_PURGE: [&str; 11] = [
    plan::COMMENTS_DELETE,
    plan::PLAN_DELETE,
    "DELETE FROM attachments WHERE session_key = ?1",
    "DELETE FROM message_parts WHERE message_key IN \
     (SELECT key FROM messages WHERE session_key = ?1)",
    "DELETE FROM messages WHERE session_key = ?1",
    "DELETE FROM turns WHERE session_key = ?1",
    "DELETE FROM queue_entries WHERE session_key = ?1 AND undo_id IS NULL",
    ENTRIES_FORGET_REMOVED,
    "DELETE FROM queue_admission_receipts WHERE incarnation_key IN \
     (SELECT key FROM session_incarnations WHERE session_key = ?1)",
    "DELETE FROM session_incarnations WHERE session_key = ?1",
    "DELETE FROM sessions WHERE key = ?1",
];
pub(super) const ENTRIES_FORGET_REMOVED: &str =
    "DELETE FROM queue_entries WHERE session_key = ?1 AND undo_id IS NOT NULL";
pub(super) const ENTRIES_FORGET_WAITING: &str = concat!("DELETE", visible!());
pub(super) const ENTRY_PROVENANCE: &str = "UPDATE queue_entries SET provenance = ?2 WHERE id = ?1";
pub(super) const ENTRY_TRANSFER: &str = "UPDATE queue_entries \
    SET session_key = ?2, position = ?3, provenance = ?4 WHERE id = ?1";
pub(super) const ENTRY_PROVENANCES_VISIBLE: &str =
    concat!("SELECT id, provenance", visible!(), "ORDER BY position");
pub(super) const ENTRIES_RESERVED: &str =
    concat!("SELECT COUNT(*)", stored!(), "AND turn_id IS NOT NULL");
