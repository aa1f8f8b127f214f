//! Plans and their comments: what decisions and readers ask for, and the statements of what changes.

use serde::{Deserialize, Serialize};
use usher_shared::counter::CommentVersion;
use usher_shared::id::{EntryId, PlanCommentId, PlanId};
use usher_shared::limits::CONSUMED_COMMENTS_SHOWN_MAX;
use usher_shared::vocabulary::PlanStatus;

use super::apply::{int, one};
use super::conn::{Conn, Param, Row, query_all, query_one};
use super::error::StoreError;
use super::reads::Reads;
use super::row;
use super::sql::plan as sql;
use crate::domain::plan::{Comment, CommentRef, Plan, PlanEntry, PlanView, Subject};
use crate::domain::session::{IncarnationKey, Session, SessionKey};

impl Reads<'_> {
    /// Returns the plan of a session.
    pub fn plan(&mut self, session: SessionKey) -> Result<Option<Plan>, StoreError> {
        query_one(self.conn, sql::PLAN_GET, &[Param::Int(session.0)], |row| {
            let id = PlanId::from_uuid(row.uuid(0)?);
            Ok(Plan { id, entries: entries(row.text(1)?)? })
        })
    }

    /// Returns the plan of a session with its comments.
    pub fn plan_view(&mut self, session: &Session) -> Result<PlanView, StoreError> {
        let plan = self.plan(session.key)?;
        let [key, life] = place(session.key, session.incarnation_key);
        let params = [key, life, int(CONSUMED_COMMENTS_SHOWN_MAX as u64)];
        let comments = query_all(self.conn, sql::COMMENTS, &params, comment)?;
        Ok(PlanView { plan, comments })
    }

    /// Returns how many comments of a session's current life wait.
    pub fn comments_waiting(&mut self, session: &Session) -> Result<u64, StoreError> {
        let place = place(session.key, session.incarnation_key);
        let count = query_one(self.conn, sql::COMMENTS_WAITING, &place, |row| row.int(0))?;
        Ok(count.unwrap_or(0).unsigned_abs())
    }

    /// Returns comments that prompts of a session took along, in this order.
    pub fn consumed_comments(
        &mut self,
        session: SessionKey,
        refs: &[CommentRef],
    ) -> Result<Vec<Comment>, StoreError> {
        let mut found = Vec::with_capacity(refs.len());
        for one in refs {
            let params = [Param::Int(session.0), Param::Id(one.id.uuid())];
            let comment = query_one(self.conn, sql::COMMENT_CONSUMED, &params, comment)?;
            found.push(comment.ok_or(StoreError::Damaged("a comment of a prompt is gone"))?);
        }
        Ok(found)
    }

    /// Tells whether what is visible in a session took comments along.
    pub fn comments_taken(&mut self, session: SessionKey) -> Result<bool, StoreError> {
        let params = [Param::Int(session.0)];
        Ok(query_one(self.conn, sql::COMMENTS_TAKEN, &params, |_| Ok(()))?.is_some())
    }

    /// Returns a comment of a session's current life.
    pub fn plan_comment(
        &mut self,
        session: &Session,
        id: PlanCommentId,
    ) -> Result<Option<Comment>, StoreError> {
        let [key, life] = place(session.key, session.incarnation_key);
        query_one(self.conn, sql::COMMENT_GET, &[key, life, Param::Id(id.uuid())], comment)
    }
}

pub(super) fn put(conn: &mut dyn Conn, session: SessionKey, plan: &Plan) -> Result<(), StoreError> {
    let entries = entries_text(&plan.entries);
    let params = [Param::Int(session.0), Param::Id(plan.id.uuid()), Param::Text(&entries)];
    one(conn, sql::PLAN_PUT, &params)
}

pub(super) fn forget(conn: &mut dyn Conn, session: SessionKey) -> Result<(), StoreError> {
    [sql::PLAN_DELETE, sql::COMMENTS_FORGET_WAITING]
        .iter()
        .try_for_each(|statement| conn.execute(statement, &[Param::Int(session.0)]).map(drop))
}

pub(super) fn insert_comment(
    conn: &mut dyn Conn,
    session: SessionKey,
    incarnation: IncarnationKey,
    comment: &Comment,
) -> Result<(), StoreError> {
    let [key, life] = place(session, incarnation);
    let Subject { entry_index, entry_text, selected_text } = &comment.subject;
    one(
        conn,
        sql::COMMENT_INSERT,
        &[
            key,
            life,
            Param::Id(comment.id.uuid()),
            int(comment.version.get()),
            entry_index.map_or(Param::Null, int),
            Param::opt_text(entry_text.as_deref()),
            Param::opt_text(selected_text.as_deref()),
            Param::Text(&comment.body),
        ],
    )
}

pub(super) fn rewrite_comment(conn: &mut dyn Conn, comment: &Comment) -> Result<(), StoreError> {
    let version = int(comment.version.get());
    one(
        conn,
        sql::COMMENT_REWRITE,
        &[Param::Id(comment.id.uuid()), version, Param::Text(&comment.body)],
    )
}

pub(super) fn delete_comment(conn: &mut dyn Conn, id: PlanCommentId) -> Result<(), StoreError> {
    one(conn, sql::COMMENT_DELETE, &[Param::Id(id.uuid())])
}

pub(super) fn consume_comment(
    conn: &mut dyn Conn,
    id: PlanCommentId,
    entry: EntryId,
) -> Result<(), StoreError> {
    one(conn, sql::COMMENT_CONSUME, &[Param::Id(id.uuid()), Param::Id(entry.uuid())])
}

pub(super) fn transfer_comments(
    conn: &mut dyn Conn,
    from: SessionKey,
    to: SessionKey,
) -> Result<(), StoreError> {
    conn.execute(sql::COMMENTS_TRANSFER, &[Param::Int(from.0), Param::Int(to.0)]).map(drop)
}

fn place(session: SessionKey, incarnation: IncarnationKey) -> [Param<'static>; 2] {
    [Param::Int(session.0), Param::Int(incarnation.0)]
}

fn comment(row: &dyn Row) -> Result<Comment, StoreError> {
    let owned = |column| Ok::<_, StoreError>(row.opt_text(column)?.map(str::to_owned));
    Ok(Comment {
        id: PlanCommentId::from_uuid(row.uuid(0)?),
        version: CommentVersion::new(row::counter(row.int(1)?)?),
        subject: Subject {
            entry_index: u64::try_from(row.int(2)?).ok(),
            entry_text: owned(3)?,
            selected_text: owned(4)?,
        },
        body: row.text(5)?.to_owned(),
        consumed_by: row.opt_uuid(6)?.map(EntryId::from_uuid),
    })
}

#[derive(Serialize, Deserialize)]
struct StoredEntry {
    text: String,
    status: PlanStatus,
}

/// Reads the steps of a plan.
pub(super) fn entries(text: &str) -> Result<Vec<PlanEntry>, StoreError> {
    let stored: Vec<StoredEntry> =
        serde_json::from_str(text).map_err(|_| StoreError::Damaged("a plan"))?;
    let entry = |StoredEntry { text, status }| PlanEntry { text, status };
    Ok(stored.into_iter().map(entry).collect())
}

fn entries_text(entries: &[PlanEntry]) -> String {
    let stored: Vec<StoredEntry> = entries
        .iter()
        .map(|entry| StoredEntry { text: entry.text.clone(), status: entry.status })
        .collect();
    row::json(&stored)
}
