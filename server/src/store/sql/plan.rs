//! Statements about plans and their comments.

macro_rules! comment_columns {
    () => {
        "c.id, c.version, COALESCE(c.entry_index, -1), c.entry_text, c.selected_text, c.body, \
         c.consumed_by"
    };
}

pub(in crate::store) const PLAN_GET: &str = "SELECT id, entries FROM plans WHERE session_key = ?1";
pub(in crate::store) const PLAN_PUT: &str = "INSERT INTO plans (session_key, id, entries) \
    VALUES (?1, ?2, ?3) ON CONFLICT (session_key) \
    DO UPDATE SET id = excluded.id, entries = excluded.entries";
pub(in crate::store) const PLAN_DELETE: &str = "DELETE FROM plans WHERE session_key = ?1";

/// Those of a life that wait, and the newest of the others.
pub(in crate::store) const COMMENTS: &str = concat!(
    "SELECT ",
    comment_columns!(),
    " FROM (SELECT * FROM plan_comments WHERE session_key = ?1 AND incarnation_key = ?2 \
     AND consumed_by IS NULL UNION ALL SELECT * FROM (SELECT * FROM plan_comments \
     WHERE session_key = ?1 AND incarnation_key = ?2 AND consumed_by IS NOT NULL \
     ORDER BY key DESC LIMIT ?3) n) c ORDER BY c.key"
);
pub(in crate::store) const COMMENTS_WAITING: &str = "SELECT COUNT(*) FROM plan_comments \
    WHERE session_key = ?1 AND incarnation_key = ?2 AND consumed_by IS NULL";
pub(in crate::store) const COMMENT_GET: &str = concat!(
    "SELECT ",
    comment_columns!(),
    " FROM plan_comments c WHERE c.id = ?3 AND c.session_key = ?1 AND c.incarnation_key = ?2"
);
pub(in crate::store) const COMMENT_CONSUMED: &str = concat!(
    "SELECT ",
    comment_columns!(),
    " FROM plan_comments c WHERE c.id = ?2 AND c.session_key = ?1 AND c.consumed_by IS NOT NULL"
);
pub(in crate::store) const COMMENT_CONSUME: &str =
    "UPDATE plan_comments SET consumed_by = ?2 WHERE id = ?1 AND consumed_by IS NULL";
/// Consumed by what is visible in the session.
macro_rules! taken {
    () => {
        "WHERE session_key = ?1 AND consumed_by IN (SELECT e.id FROM queue_entries e \
         WHERE e.session_key = ?1 AND e.enclosed IS NOT NULL AND e.undo_id IS NULL \
         AND e.turn_id IS NULL)"
    };
}
pub(in crate::store) const COMMENTS_TAKEN: &str =
    concat!("SELECT 1 FROM plan_comments ", taken!(), " LIMIT 1");
pub(in crate::store) const COMMENTS_TRANSFER: &str =
    concat!("UPDATE plan_comments SET session_key = ?2, incarnation_key = NULL ", taken!());
pub(in crate::store) const COMMENT_INSERT: &str = "INSERT INTO plan_comments \
    (session_key, incarnation_key, id, version, entry_index, entry_text, selected_text, body) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
pub(in crate::store) const COMMENT_REWRITE: &str =
    "UPDATE plan_comments SET version = ?2, body = ?3 WHERE id = ?1 AND consumed_by IS NULL";
pub(in crate::store) const COMMENT_DELETE: &str =
    "DELETE FROM plan_comments WHERE id = ?1 AND consumed_by IS NULL";
pub(in crate::store) const COMMENTS_FORGET_WAITING: &str =
    "DELETE FROM plan_comments WHERE session_key = ?1 AND consumed_by IS NULL";
pub(in crate::store) const COMMENTS_DELETE: &str =
    "DELETE FROM plan_comments WHERE session_key = ?1";
