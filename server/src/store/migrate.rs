//! Brings a database's schema up to date: numbered files, forward only, all in one transaction.

use uuid::Uuid;

use super::conn::{Conn, Param, query_one};
use super::error::StoreError;
use super::sql;

/// The migrations in order; a database remembers how many it has.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_main.sql"),
    include_str!("migrations/0002_whole_queue.sql"),
    include_str!("migrations/0003_editing.sql"),
    include_str!("migrations/0004_attachments.sql"),
    include_str!("migrations/0005_plans.sql"),
];

/// How a database spells the words that the two spell differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

/// Returns the schema of this version.
pub(super) const fn newest() -> i64 {
    MIGRATIONS.len() as i64
}

impl Dialect {
    fn spell(self, migration: &str) -> String {
        let (key, bytes) = match self {
            Self::Sqlite => ("INTEGER PRIMARY KEY", "BLOB"),
            Self::Postgres => ("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "BYTEA"),
        };
        migration.replace("@KEY", key).replace("@BYTES", bytes)
    }
}

/// Runs what is missing, inside the caller's transaction, which keeps every other server out.
/// Refuses a database of a newer program.
pub(super) fn migrate(conn: &mut dyn Conn, dialect: Dialect) -> Result<(), StoreError> {
    conn.batch(sql::META_CREATE)?;
    let store_id = Uuid::new_v4().to_string();
    for (name, value) in [("schema", "0"), ("store_id", store_id.as_str())] {
        conn.execute(sql::META_SET, &[Param::Text(name), Param::Text(value)])?;
    }
    let found = query_one(conn, sql::META_GET, &[Param::Text("schema")], |row| {
        row.text(0)?.parse::<i64>().map_err(|_| StoreError::Damaged("the schema number"))
    })?
    .ok_or(StoreError::Damaged("the schema number"))?;
    let known = newest();
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    if found == known {
        return Ok(());
    }
    let missing = usize::try_from(found).map_err(|_| StoreError::Damaged("the schema number"))?;
    for migration in &MIGRATIONS[missing..] {
        conn.batch(&dialect.spell(migration))?;
    }
    let known = known.to_string();
    conn.execute(sql::META_REPLACE, &[Param::Text("schema"), Param::Text(&known)]).map(drop)
}
