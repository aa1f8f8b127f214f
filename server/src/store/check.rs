//! Looks whether a database keeps what the design promises about it, and changes nothing.
//!
//! An invariant is data: a name that never changes, one sentence, and how to find the rows that
//! break it. All are checked over one consistent committed state, also beside a server that
//! writes, and they hold for every committed state: a killed server leaves nothing for them to
//! find. Reports name rows by key and never carry what is in them.

mod attachments;
mod invariants;
mod plans;
mod provenance;
#[cfg(test)]
mod tests;

use super::conn::{Conn, Param, Row, query_one};
use super::error::StoreError;
use super::{DatabaseUrl, StoreFiles};
use super::{migrate, postgres, sql, sqlite};

/// Keys that a report names of one invariant.
const KEYS_MAX: usize = 5;

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// How many invariants were looked at.
    pub checked: usize,
    /// Those that do not hold.
    pub violations: Vec<Violation>,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name.
    pub invariant: &'static str,
    /// What should be true.
    pub holds: &'static str,
    /// The table that `keys` are of.
    pub table: &'static str,
    /// How many rows break it.
    pub count: u64,
    /// The keys of the first of them; empty if no single row is to blame.
    pub keys: Vec<i64>,
}

/// Checks the database of a data directory.
///
/// # Errors
/// If it cannot be read, or is not of this version's schema.
pub fn check(files: &StoreFiles) -> Result<CheckReport, StoreError> {
    let mut reader = sqlite::open_from_outside(&files.database)?;
    let file = violations(&mut reader, invariants::SQLITE)?;
    let mut report = CheckReport { checked: invariants::SQLITE.len(), violations: file };
    // What a damaged file says about its rows means little.
    if report.violations.is_empty() {
        let rows = check_rows(&mut reader)?;
        report.checked += rows.checked + 1;
        report.violations = rows.violations;
        report.violations.extend(check_files(&mut reader, files)?);
    }
    Ok(report)
}

/// Checks that the files that rows speak of are there.
fn check_files(conn: &mut dyn Conn, files: &StoreFiles) -> Result<Option<Violation>, StoreError> {
    let mut keys = attachments::files_without_bytes(conn, &files.attachments)?;
    if !keys.is_empty() {
        // A server may have deleted both, rows and files, since the rows were read.
        let mut now = sqlite::open_from_outside(&files.database)?;
        let still = attachments::files_without_bytes(&mut now, &files.attachments)?;
        keys.retain(|key| still.contains(key));
    }
    let count = keys.len() as u64;
    keys.truncate(KEYS_MAX);
    Ok((count > 0).then_some(Violation {
        invariant: "attachment_files",
        holds: "the bytes of every attachment are in a file of the data directory",
        table: "attachments",
        count,
        keys,
    }))
}

/// Checks a PostgreSQL database. Waits for the network.
///
/// # Errors
/// If it cannot be read, or is not of this version's schema.
pub fn check_database(url: &DatabaseUrl) -> Result<CheckReport, StoreError> {
    check_rows(&mut postgres::open_reader(url)?)
}

/// Checks what is stored, on any database. The connection is inside a transaction.
pub(super) fn check_rows(conn: &mut dyn Conn) -> Result<CheckReport, StoreError> {
    of_this_version(conn)?;
    let violations = violations(conn, invariants::ROWS)?;
    Ok(CheckReport { checked: invariants::ROWS.len(), violations })
}

/// Refuses a database whose schema is not this version's.
pub(super) fn of_this_version(conn: &mut dyn Conn) -> Result<(), StoreError> {
    let known = migrate::newest();
    let found = query_one(conn, sql::META_GET, &[Param::Text("schema")], |row| {
        row.text(0)?.parse().map_err(|_| StoreError::Damaged("the schema number"))
    });
    let found: i64 = match found {
        Ok(found) => found.ok_or(StoreError::Damaged("no schema number"))?,
        // Another program's database has no such table.
        Err(StoreError::Database(_)) => return Err(StoreError::Damaged("no schema number")),
        Err(error) => return Err(error),
    };
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    if found < known {
        let why = format!("it has schema {found}; a start of usherd brings it to {known}");
        return Err(StoreError::Database(why));
    }
    Ok(())
}

/// A promise about what is stored.
struct Invariant {
    name: &'static str,
    holds: &'static str,
    table: &'static str,
    rule: Rule,
}

/// How to find the rows that break an invariant.
enum Rule {
    /// The statement answers with their keys. Key 0 is no row's: no single one is to blame.
    Broken(&'static str),
    /// The statement answers with the key of every row and more of it, which must be sound.
    Each(&'static str, fn(&dyn Row) -> Result<bool, StoreError>),
    /// More than one statement is needed. Returns their keys.
    Walk(fn(&mut dyn Conn) -> Result<Vec<i64>, StoreError>),
}

fn violations(conn: &mut dyn Conn, invariants: &[Invariant]) -> Result<Vec<Violation>, StoreError> {
    let mut violations = Vec::new();
    for Invariant { name, holds, table, rule } in invariants {
        let mut broken = Broken::default();
        match rule {
            Rule::Broken(statement) => conn.query(statement, &[], &mut |row| {
                broken.add(row.int(0)?);
                Ok(())
            })?,
            Rule::Each(statement, sound) => conn.query(statement, &[], &mut |row| {
                match sound(row) {
                    Ok(true) => {}
                    Ok(false) | Err(StoreError::Damaged(_)) => broken.add(row.int(0)?),
                    Err(error) => return Err(error),
                }
                Ok(())
            })?,
            Rule::Walk(walk) => walk(conn)?.into_iter().for_each(|key| broken.add(key)),
        }
        if broken.count > 0 {
            let Broken { count, keys } = broken;
            violations.push(Violation { invariant: name, holds, table, count, keys });
        }
    }
    Ok(violations)
}

#[derive(Default)]
struct Broken {
    count: u64,
    keys: Vec<i64>,
}

impl Broken {
    fn add(&mut self, key: i64) {
        self.count += 1;
        if key != 0 && self.keys.len() < KEYS_MAX {
            self.keys.push(key);
        }
    }
}
