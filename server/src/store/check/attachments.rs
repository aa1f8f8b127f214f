//! Invariants that follow attachments: from what an entry or message says that it carries to the
//! rows, and from the rows to the bytes.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use usher_shared::id::AttachmentId;

use super::super::attachments::{is_whole, object_path};
use super::super::conn::{Conn, Param, Row, query_all, query_one};
use super::super::enclosed::enclosed;
use super::super::error::StoreError;
use super::super::row;
use crate::domain::attachment::ContentDigest;
use crate::domain::enclosed::Enclosed;

const ENTRIES: &str = "SELECT key, enclosed FROM queue_entries WHERE enclosed IS NOT NULL";
const OF_ENTRIES: &str =
    "SELECT entry_key, id FROM attachments WHERE entry_key IS NOT NULL AND stage = 'claimed'";
const MESSAGES: &str =
    "SELECT key, details FROM messages WHERE role = 'user' AND details IS NOT NULL";
const OF_MESSAGES: &str =
    "SELECT message_key, id FROM attachments WHERE message_key IS NOT NULL AND stage = 'claimed'";
const WITH_BYTES: &str =
    "SELECT key, size_bytes, sha256 FROM attachments WHERE stage IN ('ready', 'claimed')";
const PARTS: &str = "SELECT start_byte, octet_length(data) FROM attachment_parts \
    WHERE attachment_key = ?1 ORDER BY start_byte";

type Owned = HashMap<i64, HashSet<AttachmentId>>;

/// Entries that say they carry something else than they own.
pub(super) fn entries_with_others(conn: &mut dyn Conn) -> Result<Vec<i64>, StoreError> {
    let said = query_all(conn, ENTRIES, &[], |row| said(row, enclosed))?;
    others(conn, said, OF_ENTRIES)
}

/// Messages that say they carry something else than they own.
pub(super) fn messages_with_others(conn: &mut dyn Conn) -> Result<Vec<i64>, StoreError> {
    let read = |text: Option<&str>| row::details(text).map(|details| details.enclosed);
    let said = query_all(conn, MESSAGES, &[], |row| said(row, read))?;
    let unreadable = said.iter().filter(|(_, ids)| ids.is_none()).map(|(key, _)| *key);
    let unreadable: HashSet<i64> = unreadable.collect();
    let mut broken = others(conn, said, OF_MESSAGES)?;
    // What cannot be read is found by another invariant.
    broken.retain(|key| !unreadable.contains(key));
    Ok(broken)
}

fn said(
    row: &dyn Row,
    read: impl Fn(Option<&str>) -> Result<Enclosed, StoreError>,
) -> Result<(i64, Option<HashSet<AttachmentId>>), StoreError> {
    let ids = read(row.opt_text(1)?).ok();
    Ok((row.int(0)?, ids.map(|read| read.attachments.iter().map(|one| one.id).collect())))
}

fn others(
    conn: &mut dyn Conn,
    said: Vec<(i64, Option<HashSet<AttachmentId>>)>,
    statement: &'static str,
) -> Result<Vec<i64>, StoreError> {
    let mut owned = Owned::new();
    for (key, id) in query_all(conn, statement, &[], |row| Ok((row.int(0)?, row.uuid(1)?)))? {
        owned.entry(key).or_default().insert(AttachmentId::from_uuid(id));
    }
    let mut broken = Vec::new();
    for (key, ids) in said {
        // What cannot be read carries nothing that anybody would know of.
        let Some(ids) = ids else {
            broken.push(key);
            continue;
        };
        if ids != owned.remove(&key).unwrap_or_default() {
            broken.push(key);
        }
    }
    broken.extend(owned.into_keys());
    broken.sort_unstable();
    Ok(broken)
}

/// Attachments whose parts in the database are not all of their bytes.
pub(super) fn rows_without_bytes(conn: &mut dyn Conn) -> Result<Vec<i64>, StoreError> {
    let mut broken = Vec::new();
    for (key, size, _) in with_bytes(conn)? {
        let (mut end, mut count) = (Some(0), 0);
        conn.query(PARTS, &[Param::Int(key)], &mut |row| {
            let (start, len) = (row.int(0)?, row.int(1)?);
            end = end.filter(|end| *end == start).map(|end| end + len);
            count += 1;
            Ok(())
        })?;
        let in_a_file = count == 0 && !conn.keeps_attachments();
        if !in_a_file && end != Some(size) {
            broken.push(key);
        }
    }
    Ok(broken)
}

/// Attachments whose files in this folder are not there, or not what their names say.
pub(super) fn files_without_bytes(
    conn: &mut dyn Conn,
    folder: &Path,
) -> Result<Vec<i64>, StoreError> {
    let mut broken = Vec::new();
    let mut sound = HashMap::new();
    for (key, _, digest) in with_bytes(conn)? {
        // Many rows may speak of one file.
        let is_sound = match sound.get(&digest) {
            Some(known) => *known,
            None => is_whole(&object_path(folder, digest), digest)?,
        };
        sound.insert(digest, is_sound);
        if !is_sound && !is_gone(conn, key)? {
            broken.push(key);
        }
    }
    Ok(broken)
}

/// One that nothing carries may have lost its file already.
fn is_gone(conn: &mut dyn Conn, key: i64) -> Result<bool, StoreError> {
    const SPENT: &str = "SELECT 1 FROM attachments WHERE key = ?1 AND stage = 'claimed' \
        AND entry_key IS NULL AND message_key IS NULL";
    Ok(query_one(conn, SPENT, &[Param::Int(key)], |_| Ok(()))?.is_some())
}

fn with_bytes(conn: &mut dyn Conn) -> Result<Vec<(i64, i64, ContentDigest)>, StoreError> {
    query_all(conn, WITH_BYTES, &[], |row| {
        let digest = row.opt_bytes(2)?.and_then(|bytes| bytes.try_into().ok());
        let digest = digest.ok_or(StoreError::Damaged("the digest of an attachment"))?;
        Ok((row.int(0)?, row.int(1)?, ContentDigest(digest)))
    })
}
