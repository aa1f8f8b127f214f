//! Statements about attachments.

macro_rules! entry_key {
    ($id:literal) => {
        concat!("(SELECT key FROM queue_entries WHERE id = ", $id, ")")
    };
}
/// Nothing will claim it, or nothing carries it any more.
macro_rules! spent {
    () => {
        "((expires_at IS NOT NULL AND expires_at <= ?1) OR (stage = 'claimed' \
         AND entry_key IS NULL AND message_key IS NULL))"
    };
}

pub(in crate::store) const UPLOAD_GET: &str = "SELECT a.id, a.session_key, s.id, u.id, a.kind, \
    a.name, a.mime_type, a.size_bytes, a.sha256, a.stage, COALESCE(a.expires_at, -1) \
    FROM attachments a JOIN sessions s ON s.key = a.session_key \
    JOIN tasks t ON t.key = s.task_key JOIN users u ON u.key = t.owner_key \
    WHERE a.id = ?1 AND s.deleted_at IS NULL AND t.deleted_at IS NULL AND u.removed_at IS NULL";
pub(in crate::store) const STAGED_OF_USER: &str = "SELECT COUNT(*), \
    CAST(COALESCE(SUM(a.size_bytes), 0) AS BIGINT) FROM attachments a \
    JOIN sessions s ON s.key = a.session_key JOIN tasks t ON t.key = s.task_key \
    JOIN users u ON u.key = t.owner_key WHERE a.expires_at IS NOT NULL AND u.id = ?1";
pub(in crate::store) const UPLOAD_INSERT: &str = "INSERT INTO attachments (session_key, id, kind, \
    name, mime_type, size_bytes, sha256, stage, expires_at) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'receiving', ?8)";
pub(in crate::store) const UPLOAD_READY: &str =
    "UPDATE attachments SET stage = 'ready' WHERE id = ?1 AND stage = 'receiving'";
pub(in crate::store) const UPLOAD_CLAIM: &str = concat!(
    "UPDATE attachments SET stage = 'claimed', expires_at = NULL, entry_key = ",
    entry_key!("?2"),
    " WHERE id = ?1 AND stage = 'ready'"
);
pub(in crate::store) const UPLOAD_DELETE: &str =
    "DELETE FROM attachments WHERE id = ?1 AND expires_at IS NOT NULL";
pub(in crate::store) const ATTACHMENT_INSERT: &str = concat!(
    "INSERT INTO attachments (session_key, id, kind, name, mime_type, size_bytes, sha256, stage, \
     entry_key) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'claimed', ",
    entry_key!("?8"),
    ")"
);
pub(in crate::store) const ATTACHMENT_RELEASE: &str =
    "UPDATE attachments SET entry_key = NULL WHERE id = ?1 AND entry_key IS NOT NULL";
pub(in crate::store) const ATTACHMENTS_JOIN: &str = concat!(
    "UPDATE attachments SET entry_key = ",
    entry_key!("?2"),
    " WHERE entry_key = ",
    entry_key!("?1")
);
pub(in crate::store) const ATTACHMENTS_TRANSFER: &str =
    concat!("UPDATE attachments SET session_key = ?2 WHERE entry_key = ", entry_key!("?1"));
pub(in crate::store) const ATTACHMENTS_TO_MESSAGE: &str = "UPDATE attachments \
    SET entry_key = NULL, message_key = (SELECT key FROM messages WHERE id = ?2) \
    WHERE entry_key IN (SELECT key FROM queue_entries WHERE turn_id = ?1)";
pub(in crate::store) const ATTACHMENTS_SPENT: &str =
    concat!("SELECT 1 FROM attachments WHERE ", spent!(), " LIMIT 1");
pub(in crate::store) const ATTACHMENTS_PURGE: &str =
    concat!("DELETE FROM attachments WHERE ", spent!());
pub(in crate::store) const CONTENT_KNOWN: &str =
    "SELECT 1 FROM attachments WHERE sha256 = ?1 AND stage IN ('ready', 'claimed') LIMIT 1";
pub(in crate::store) const UPLOAD_ARRIVING: &str =
    "SELECT 1 FROM attachments WHERE id = ?1 AND stage = 'receiving'";

/// What the bytes in the database are parts of.
macro_rules! parts {
    () => {
        "FROM attachment_parts p JOIN attachments a ON a.key = p.attachment_key WHERE a.id = ?1 "
    };
}
pub(in crate::store) const PART_INSERT: &str = "INSERT INTO attachment_parts \
    (attachment_key, start_byte, data) \
    VALUES ((SELECT key FROM attachments WHERE id = ?1), ?2, ?3)";
pub(in crate::store) const PARTS_END: &str = concat!(
    "SELECT p.start_byte + octet_length(p.data) ",
    parts!(),
    "ORDER BY p.start_byte DESC LIMIT 1"
);
/// The last part that begins at or before a byte: it holds that byte, if any part does.
pub(in crate::store) const PART_AT: &str = concat!(
    "SELECT p.start_byte, p.data ",
    parts!(),
    "AND p.start_byte <= ?2 ORDER BY p.start_byte DESC LIMIT 1"
);
