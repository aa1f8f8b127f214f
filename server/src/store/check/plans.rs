//! Invariants that follow plan comments to the prompts that took them along.

use super::super::conn::{Conn, Param, Row, query_all, query_one};
use super::super::enclosed::enclosed;
use super::super::error::StoreError;
use super::super::row;
use crate::domain::enclosed::Enclosed;
use crate::domain::plan::CommentRef;

const ENTRIES: &str = "SELECT key, session_key, enclosed FROM queue_entries \
    WHERE enclosed IS NOT NULL ORDER BY key";
const MESSAGES: &str = "SELECT key, session_key, details FROM messages \
    WHERE role = 'user' AND details LIKE '%comments%' ORDER BY key";
const CONSUMED_BY: &str = "SELECT c.version FROM plan_comments c \
    JOIN queue_entries e ON e.id = c.consumed_by \
    WHERE c.session_key = ?1 AND c.id = ?2 AND e.key = ?3";
const CONSUMED: &str = "SELECT c.version FROM plan_comments c \
    WHERE c.session_key = ?1 AND c.id = ?2 AND c.consumed_by IS NOT NULL";

/// A row with the comments that it took along.
struct Taker {
    key: i64,
    session_key: i64,
    comments: Vec<CommentRef>,
}

/// Entries with a comment that they did not consume.
pub(super) fn entries_without_comment(conn: &mut dyn Conn) -> Result<Vec<i64>, StoreError> {
    let takers = query_all(conn, ENTRIES, &[], |row| taker(row, enclosed(row.opt_text(2)?)))?;
    without_comment(takers, |taker, id| {
        let params = [Param::Int(taker.session_key), id, Param::Int(taker.key)];
        version(conn, CONSUMED_BY, &params)
    })
}

/// Messages with a comment that nothing consumed.
pub(super) fn messages_without_comment(conn: &mut dyn Conn) -> Result<Vec<i64>, StoreError> {
    let takers = query_all(conn, MESSAGES, &[], |row| {
        taker(row, row::details(row.opt_text(2)?).map(|details| details.enclosed))
    })?;
    without_comment(takers, |taker, id| {
        version(conn, CONSUMED, &[Param::Int(taker.session_key), id])
    })
}

/// What cannot be read is found by another invariant.
fn taker(row: &dyn Row, read: Result<Enclosed, StoreError>) -> Result<Taker, StoreError> {
    let comments = match read {
        Ok(enclosed) => enclosed.comments,
        Err(StoreError::Damaged(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    Ok(Taker { key: row.int(0)?, session_key: row.int(1)?, comments })
}

fn version(
    conn: &mut dyn Conn,
    statement: &'static str,
    params: &[Param<'_>],
) -> Result<Option<u64>, StoreError> {
    query_one(conn, statement, params, |row| row::counter(row.int(0)?))
}

fn without_comment(
    takers: Vec<Taker>,
    mut version: impl FnMut(&Taker, Param<'_>) -> Result<Option<u64>, StoreError>,
) -> Result<Vec<i64>, StoreError> {
    let mut broken = Vec::new();
    for taker in takers {
        for comment in &taker.comments {
            if version(&taker, Param::Id(comment.id.uuid()))? != Some(comment.version.get()) {
                broken.push(taker.key);
                break;
            }
        }
    }
    Ok(broken)
}
