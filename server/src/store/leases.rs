//! Edit leases: what decisions ask for, and the statements of what they change.

use std::collections::HashSet;

use usher_shared::counter::{LeaseGeneration, TargetRevision};
use usher_shared::id::{EntryId, LeaseId, OperationId, SessionId};
use usher_shared::rules::fingerprint::Fingerprint;

use super::apply::{int, one};
use super::conn::{Conn, Param, Row, query_all, query_one};
use super::error::StoreError;
use super::reads::Reads;
use super::row;
use super::sql::lease as sql;
use crate::domain::edit::Operations;
use crate::domain::lease::{Lease, LeaseInstant, Leases, LinkId, Saved};
use crate::domain::session::SessionKey;
use crate::stop;

impl Reads<'_> {
    /// Returns the leases of a session, now.
    pub fn leases(&mut self, session: SessionKey) -> Result<Leases, StoreError> {
        let stored = query_all(self.conn, sql::LEASES, &[Param::Int(session.0)], lease)?;
        Ok(Leases { now: LeaseInstant(self.edit_clock()?), stored })
    }

    /// Returns the instant that edit leases are compared with; those of servers are not.
    fn edit_clock(&mut self) -> Result<i64, StoreError> {
        Ok(stop::lease_clock(self.conn.lease_clock()?))
    }

    /// Returns the generation of an entry's last lease.
    pub fn lease_generation(&mut self, entry: EntryId) -> Result<LeaseGeneration, StoreError> {
        let found =
            query_one(self.conn, sql::LEASE_GENERATION, &[Param::Id(entry.uuid())], |row| {
                Ok(LeaseGeneration::new(row::counter(row.int(0)?)?))
            })?;
        Ok(found.unwrap_or(LeaseGeneration::ZERO))
    }

    /// Returns what was saved under the lease of an entry.
    pub fn edits(
        &mut self,
        entry: EntryId,
        operation: &OperationId,
    ) -> Result<Operations, StoreError> {
        let entry = Param::Id(entry.uuid());
        let params = [entry, Param::Text(operation.as_str())];
        let same = query_one(self.conn, sql::EDIT_GET, &params, |row| {
            let revision = TargetRevision::new(row::counter(row.int(1)?)?);
            Ok((row::fingerprint(row, 0)?, revision))
        })?;
        let count = query_one(self.conn, sql::EDITS_COUNT, &[entry], |row| row.int(0))?;
        Ok(Operations { same, count: count.unwrap_or(0).unsigned_abs() })
    }

    /// Returns the sessions in which a connection holds leases.
    pub fn sessions_of_link(&mut self, link: LinkId) -> Result<Vec<SessionId>, StoreError> {
        query_all(self.conn, sql::SESSIONS_OF_LINK, &[Param::Id(link.0)], session_id)
    }

    /// Returns the sessions with leases that are over.
    pub fn sessions_with_leases_over(&mut self) -> Result<Vec<SessionId>, StoreError> {
        let now = Param::Int(self.edit_clock()?);
        query_all(self.conn, sql::SESSIONS_WITH_LEASES_OVER, &[now], session_id)
    }

    /// Returns the sessions with leases of servers that are gone.
    pub fn sessions_with_leases_left(&mut self) -> Result<Vec<SessionId>, StoreError> {
        let params = [Param::Id(self.conn.node()), Param::Int(self.conn.lease_clock()?)];
        query_all(self.conn, sql::SESSIONS_WITH_LEASES_LEFT, &params, session_id)
    }

    /// Returns the leases of a session whose servers are gone.
    pub fn leases_left(&mut self, session: SessionKey) -> Result<HashSet<LeaseId>, StoreError> {
        let (node, now) = (Param::Id(self.conn.node()), Param::Int(self.conn.lease_clock()?));
        let params = [node, now, Param::Int(session.0)];
        let left = query_all(self.conn, sql::LEASES_LEFT, &params, |row| {
            Ok(LeaseId::from_uuid(row.uuid(0)?))
        })?;
        Ok(left.into_iter().collect())
    }
}

fn session_id(row: &dyn Row) -> Result<SessionId, StoreError> {
    Ok(SessionId::from_uuid(row.uuid(0)?))
}

fn lease(row: &dyn Row) -> Result<Lease, StoreError> {
    Ok(Lease {
        entry_id: EntryId::from_uuid(row.uuid(0)?),
        id: LeaseId::from_uuid(row.uuid(1)?),
        link: row.opt_uuid(2)?.map(LinkId),
        generation: LeaseGeneration::new(row::counter(row.int(3)?)?),
        target_revision: TargetRevision::new(row::counter(row.int(4)?)?),
        expires_at: LeaseInstant(row.int(5)?),
        until: LeaseInstant(row.int(6)?),
        saved: if row.int(7)? == 0 { Saved::No } else { Saved::Yes },
    })
}

/// A lease of a connection is one of this server.
pub(super) fn put(conn: &mut dyn Conn, lease: &Lease) -> Result<(), StoreError> {
    let link = lease.link.map_or(Param::Null, |link| Param::Id(link.0));
    let node = lease.link.map_or(Param::Null, |_| Param::Id(conn.node()));
    one(
        conn,
        sql::LEASE_PUT,
        &[
            Param::Id(lease.entry_id.uuid()),
            int(lease.generation.get()),
            Param::Id(lease.id.uuid()),
            link,
            node,
            int(lease.target_revision.get()),
            Param::Int(lease.expires_at.0),
            Param::Int(lease.until.0),
            Param::Int(i64::from(lease.saved == Saved::Yes)),
        ],
    )
}

pub(super) fn end(conn: &mut dyn Conn, entry: EntryId) -> Result<(), StoreError> {
    let entry = [Param::Id(entry.uuid())];
    conn.execute(sql::EDITS_FORGET, &entry)?;
    one(conn, sql::LEASE_END, &entry)
}

pub(super) fn record(
    conn: &mut dyn Conn,
    entry: EntryId,
    operation: &OperationId,
    fingerprint: &Fingerprint,
    revision: TargetRevision,
) -> Result<(), StoreError> {
    one(
        conn,
        sql::EDIT_INSERT,
        &[
            Param::Id(entry.uuid()),
            Param::Text(operation.as_str()),
            Param::Bytes(fingerprint.as_bytes()),
            int(revision.get()),
        ],
    )
}
