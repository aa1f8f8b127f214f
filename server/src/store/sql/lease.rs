//! Statements about edit leases.

macro_rules! entry_key {
    () => {
        "(SELECT key FROM queue_entries WHERE id = ?1)"
    };
}
macro_rules! sessions_of_leases {
    () => {
        "SELECT DISTINCT s.id FROM edit_leases l JOIN sessions s ON s.key = l.session_key \
         WHERE l.lease_id IS NOT NULL AND "
    };
}
/// The connection is one of a server that is gone: not this one (?1), and without a lease at ?2.
macro_rules! lease_left {
    () => {
        "l.link_id IS NOT NULL AND l.node_id <> ?1 AND NOT EXISTS \
         (SELECT 1 FROM nodes n WHERE n.id = l.node_id AND n.expires_at > ?2)"
    };
}

pub(in crate::store) const LEASES: &str = "SELECT e.id, l.lease_id, l.link_id, l.generation, \
    l.target_revision, l.expires_at, l.ends_at, l.saved \
    FROM edit_leases l JOIN queue_entries e ON e.key = l.entry_key \
    WHERE l.session_key = ?1 AND l.lease_id IS NOT NULL ORDER BY l.entry_key";
pub(in crate::store) const LEASES_LEFT: &str = concat!(
    "SELECT l.lease_id FROM edit_leases l WHERE l.session_key = ?3 AND l.lease_id IS NOT NULL AND ",
    lease_left!()
);
pub(in crate::store) const LEASE_GENERATION: &str =
    concat!("SELECT generation FROM edit_leases WHERE entry_key = ", entry_key!());
pub(in crate::store) const SESSIONS_OF_LINK: &str =
    concat!(sessions_of_leases!(), "l.link_id = ?1");
pub(in crate::store) const SESSIONS_WITH_LEASES_OVER: &str =
    concat!(sessions_of_leases!(), "l.expires_at <= ?1");
pub(in crate::store) const SESSIONS_WITH_LEASES_LEFT: &str =
    concat!(sessions_of_leases!(), lease_left!());
pub(in crate::store) const LEASE_PUT: &str = "INSERT INTO edit_leases (entry_key, session_key, \
    generation, lease_id, link_id, node_id, target_revision, expires_at, ends_at, saved) \
    SELECT key, session_key, CAST(?2 AS BIGINT), ?3, ?4, ?5, CAST(?6 AS BIGINT), \
    CAST(?7 AS BIGINT), CAST(?8 AS BIGINT), CAST(?9 AS BIGINT) FROM queue_entries WHERE id = ?1 \
    ON CONFLICT (entry_key) DO UPDATE SET session_key = excluded.session_key, \
    generation = excluded.generation, lease_id = excluded.lease_id, link_id = excluded.link_id, \
    node_id = excluded.node_id, target_revision = excluded.target_revision, \
    expires_at = excluded.expires_at, ends_at = excluded.ends_at, saved = excluded.saved";
pub(in crate::store) const LEASE_END: &str = concat!(
    "UPDATE edit_leases SET lease_id = NULL, link_id = NULL, node_id = NULL WHERE entry_key = ",
    entry_key!()
);
pub(in crate::store) const EDIT_GET: &str = concat!(
    "SELECT fingerprint, revision FROM edit_operations WHERE operation_id = ?2 AND entry_key = ",
    entry_key!()
);
pub(in crate::store) const EDITS_COUNT: &str =
    concat!("SELECT COUNT(*) FROM edit_operations WHERE entry_key = ", entry_key!());
pub(in crate::store) const EDIT_INSERT: &str = concat!(
    "INSERT INTO edit_operations (entry_key, operation_id, fingerprint, revision) VALUES (",
    entry_key!(),
    ", ?2, ?3, ?4)"
);
pub(in crate::store) const EDITS_FORGET: &str =
    concat!("DELETE FROM edit_operations WHERE entry_key = ", entry_key!());
