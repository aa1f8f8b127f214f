//! Brings a database's schema up to date: numbered files, forward only, all in one transaction.

use rusqlite::Connection;
use uuid::Uuid;

use super::error::StoreError;
use super::sql;
use super::sqlite::store_error;

/// The migrations in order; a database remembers how many it has.
const MIGRATIONS: &[&str] =
    &[include_str!("migrations/0001_main.sql"), include_str!("migrations/0002_whole_queue.sql")];

const META_CREATE: &str =
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)";

/// Returns the schema of this version.
pub(super) const fn newest() -> i64 {
    MIGRATIONS.len() as i64
}

/// Runs what is missing. Refuses a database of a newer program.
pub(super) fn migrate(conn: &Connection) -> Result<(), StoreError> {
    conn.execute(META_CREATE, []).map_err(store_error)?;
    conn.execute(sql::META_SET, ("schema", "0")).map_err(store_error)?;
    conn.execute(sql::META_SET, ("store_id", Uuid::new_v4().to_string())).map_err(store_error)?;
    let found: i64 = conn
        .query_row(sql::META_GET, ["schema"], |row| row.get::<_, String>(0))
        .map_err(store_error)?
        .parse()
        .map_err(|_| StoreError::Damaged("the schema number"))?;
    let known = newest();
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    if found == known {
        return Ok(());
    }
    let missing = usize::try_from(found).map_err(|_| StoreError::Damaged("the schema number"))?;
    for migration in &MIGRATIONS[missing..] {
        conn.execute_batch(&dialect(migration)).map_err(store_error)?;
    }
    conn.execute(sql::META_REPLACE, ("schema", known.to_string())).map_err(store_error)?;
    Ok(())
}

/// Spells the words that the databases spell differently.
fn dialect(migration: &str) -> String {
    migration.replace("@KEY", "INTEGER PRIMARY KEY").replace("@BYTES", "BLOB")
}
