//! Invariants that follow admission IDs through a session: from its receipts to the one place
//! where the prompt is.

use std::collections::HashSet;

use usher_shared::id::AdmissionId;
use usher_shared::limits::SNAPSHOT_BYTES_MAX;

use super::super::conn::{Conn, Param, Row, query_all, query_one};
use super::super::error::StoreError;
use super::super::reads::Reads;
use super::super::reads_receipts::Snapshot;
use super::super::row;

const SESSIONS: &str = "SELECT key, incarnation_key FROM sessions ORDER BY key";
const ENTRIES: &str = "SELECT key, provenance FROM queue_entries \
    WHERE session_key = ?1 AND undo_id IS NULL AND provenance IS NOT NULL";
const MESSAGES: &str = "SELECT key, details FROM messages \
    WHERE session_key = ?1 AND incarnation_key = ?2 AND role = 'user' AND details IS NOT NULL";
const RECEIPT: &str = "SELECT 1 FROM queue_admission_receipts \
    WHERE incarnation_key = ?1 AND client_queue_id = ?2";

const CUT: &str = "SELECT key FROM queue_admission_receipts WHERE content_truncated = 1";

/// A cut that falls inside a character leaves fewer bytes out than this.
const CHARACTER_BYTES_MAX: usize = 4;

/// Receipts that say they were cut, and had room for more.
pub(super) fn receipts_cut_for_nothing(conn: &mut dyn Conn) -> Result<Vec<i64>, StoreError> {
    let mut broken = Vec::new();
    for key in query_all(conn, CUT, &[], |row| row.int(0))? {
        match Reads::new(conn).snapshot(key) {
            Ok(Snapshot { content, provenance, enclosed })
                if content.len() + provenance.bytes() + enclosed.bytes() + CHARACTER_BYTES_MAX
                    <= SNAPSHOT_BYTES_MAX =>
            {
                broken.push(key);
            }
            // What cannot be read is found by another invariant.
            Ok(_) | Err(StoreError::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(broken)
}

/// Entries that name an admission which was never accepted.
pub(super) fn entries_without_receipt(conn: &mut dyn Conn) -> Result<Vec<i64>, StoreError> {
    let mut broken = Vec::new();
    for session in sessions(conn)? {
        let entries = entries(conn, session)?;
        broken.extend(without_receipt(conn, session, entries)?);
    }
    Ok(broken)
}

/// Messages that name an admission which was never accepted.
pub(super) fn messages_without_receipt(conn: &mut dyn Conn) -> Result<Vec<i64>, StoreError> {
    let mut broken = Vec::new();
    for session in sessions(conn)? {
        let messages = messages(conn, session)?;
        broken.extend(without_receipt(conn, session, messages)?);
    }
    Ok(broken)
}

/// Sessions in which one admission is in two places.
pub(super) fn sessions_with_a_double(conn: &mut dyn Conn) -> Result<Vec<i64>, StoreError> {
    let mut broken = Vec::new();
    for session in sessions(conn)? {
        let mut places = entries(conn, session)?;
        places.extend(messages(conn, session)?);
        let mut seen = HashSet::new();
        if !places.iter().flat_map(|place| &place.ids).all(|id| seen.insert(id)) {
            broken.push(session.key);
        }
    }
    Ok(broken)
}

#[derive(Clone, Copy)]
struct Session {
    key: i64,
    incarnation_key: i64,
}

/// A row with the admissions of the session's current life that it was made from.
struct Place {
    key: i64,
    ids: Vec<AdmissionId>,
}

fn sessions(conn: &mut dyn Conn) -> Result<Vec<Session>, StoreError> {
    query_all(conn, SESSIONS, &[], |row| {
        Ok(Session { key: row.int(0)?, incarnation_key: row.int(1)? })
    })
}

fn entries(conn: &mut dyn Conn, session: Session) -> Result<Vec<Place>, StoreError> {
    query_all(conn, ENTRIES, &[Param::Int(session.key)], |row| place(row, row::provenance))
}

fn messages(conn: &mut dyn Conn, session: Session) -> Result<Vec<Place>, StoreError> {
    let params = [Param::Int(session.key), Param::Int(session.incarnation_key)];
    query_all(conn, MESSAGES, &params, |row| {
        place(row, |text| row::details(text).map(|details| details.provenance))
    })
}

/// What cannot be read is found by another invariant.
fn place(
    row: &dyn Row,
    read: impl Fn(Option<&str>) -> Result<crate::domain::entry::Provenance, StoreError>,
) -> Result<Place, StoreError> {
    let ids = match read(row.opt_text(1)?) {
        Ok(provenance) => provenance.admission_ids,
        Err(_) => Vec::new(),
    };
    Ok(Place { key: row.int(0)?, ids })
}

fn without_receipt(
    conn: &mut dyn Conn,
    session: Session,
    places: Vec<Place>,
) -> Result<Vec<i64>, StoreError> {
    let mut broken = Vec::new();
    for place in places {
        for id in &place.ids {
            let params = [Param::Int(session.incarnation_key), Param::Text(id.as_str())];
            if query_one(conn, RECEIPT, &params, |_| Ok(()))?.is_none() {
                broken.push(place.key);
                break;
            }
        }
    }
    Ok(broken)
}
