//! Databases with a long past, written at once instead of prompt by prompt.

use rusqlite::{Connection, Transaction, params};
use uuid::Uuid;

use crate::chat::Chat;
use crate::server::Launch;

/// Bytes of a made-up prompt.
const PROMPT_BYTES: usize = 300;

/// Gives sessions receipts of admissions whose entries are gone, `count` in all. The server is not
/// running. Admission IDs are random, as those of most clients.
pub fn receipts(launch: &Launch, chats: &[Chat], count: usize) {
    in_transaction(launch, |fill| {
        let text = "x".repeat(PROMPT_BYTES);
        let shares = chats.len();
        for (place, chat) in chats.iter().enumerate() {
            // The first ones take what cannot be shared evenly.
            let share = count / shares + usize::from(place < count % shares);
            fill.execute(
                "WITH RECURSIVE n (i) AS \
                 (SELECT 1 WHERE ?2 > 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) \
                 INSERT INTO queue_admission_receipts (incarnation_key, client_queue_id, \
                  fingerprint, entry_id, outcome, queue_revision, position, content, \
                  content_truncated, plan_mode, accepted_at, sender_kind, sender_id, sender_name, \
                  entry_revision) \
                 SELECT s.incarnation_key, lower(hex(randomblob(18))), randomblob(32), \
                  randomblob(16), 'admitted', 1, 1, ?3, 0, 0, 1, 'user', 'u', 'anna', 1 \
                 FROM n, sessions s WHERE s.id = ?1",
                params![key(chat), share as i64, text],
            )?;
            fill.execute(
                "UPDATE sessions SET queue_revision = MAX(queue_revision, 1) WHERE id = ?1",
                [key(chat)],
            )?;
        }
        Ok(())
    });
}

/// Gives a session with an empty queue `count` entries that wait. The server is not running.
pub fn entries(launch: &Launch, chat: &Chat, count: usize) {
    in_transaction(launch, |fill| {
        fill.execute(
            "WITH RECURSIVE n (i) AS \
             (SELECT 1 WHERE ?2 > 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) \
             INSERT INTO queue_entries (id, session_key, position, content, plan_mode, queued_at, \
              sender_kind, sender_id, sender_name, revision) \
             SELECT randomblob(16), s.key, s.next_position + i - 1, ?3, 0, 1, 'user', 'u', 'anna', \
              1 FROM n, sessions s WHERE s.id = ?1 ORDER BY i",
            params![key(chat), count as i64, "x".repeat(PROMPT_BYTES)],
        )?;
        let counted = "UPDATE sessions SET queue_stored = queue_stored + ?2, \
                       next_position = next_position + ?2 WHERE id = ?1";
        fill.execute(counted, params![key(chat), count as i64]).map(drop)
    });
}

fn key(chat: &Chat) -> [u8; 16] {
    Uuid::parse_str(&chat.session_id).expect("session ids are UUIDs").into_bytes()
}

fn in_transaction(launch: &Launch, fill: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>) {
    let filled = (|| {
        let mut conn = Connection::open(launch.data_dir().join("usher.db"))?;
        conn.pragma_update(None, "synchronous", "OFF")?;
        conn.pragma_update(None, "cache_size", -262_144)?;
        let transaction = conn.transaction()?;
        fill(&transaction)?;
        transaction.commit()?;
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    })();
    filled.expect("a stopped server's database takes rows");
}

/// Gives the owner of a session `count` tasks with one session each, and its task `count` sessions
/// more, all with this title. The server is not running.
pub fn tasks(launch: &Launch, chat: &Chat, count: usize, title: &str) {
    in_transaction(launch, |fill| {
        fill.execute_batch("CREATE TEMP TABLE made (n INTEGER PRIMARY KEY, task_key INTEGER)")?;
        let numbers =
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)";
        fill.execute(
            &format!(
                "{numbers} INSERT INTO tasks (id, owner_key, title, kind, agent, created_at) \
                 SELECT randomblob(16), t.owner_key, ?3, 'task', t.agent, i FROM n, sessions s \
                 JOIN tasks t ON t.key = s.task_key WHERE s.id = ?1"
            ),
            params![key(chat), count as i64, title],
        )?;
        fill.execute(
            &format!(
                "{numbers} INSERT INTO made (task_key) SELECT s.task_key FROM n, sessions s \
                 WHERE s.id = ?1"
            ),
            params![key(chat), count as i64],
        )?;
        fill.execute(
            "INSERT INTO made (task_key) SELECT key FROM tasks WHERE title = ?1",
            [title],
        )?;
        fill.execute_batch(
            "INSERT INTO session_incarnations (id, session_key) SELECT randomblob(16), -n FROM made",
        )?;
        fill.execute(
            "INSERT INTO sessions (id, task_key, incarnation_key, agent, title, created_at) \
             SELECT randomblob(16), m.task_key, i.key, 'demo', ?1, m.n FROM made m \
             JOIN session_incarnations i ON i.session_key = -m.n ORDER BY m.n",
            [title],
        )?;
        fill.execute_batch(
            "UPDATE session_incarnations SET session_key = (SELECT s.key FROM sessions s \
             WHERE s.incarnation_key = session_incarnations.key) WHERE session_key < 0",
        )
    });
}
