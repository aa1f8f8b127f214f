//! Nothing that people wrote or agents said is ever in a log: checked after every test, at the
//! most verbose level, for whatever is in the test's databases.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

/// Shorter texts could be in a log by chance.
const TEXT_BYTES_MIN: i64 = 12;
/// Texts looked for in one test; a load test has thousands alike.
const TEXTS_MAX: i64 = 300;
/// The text of one message that is looked for.
const TEXT_BYTES_MAX: i64 = 200;

/// Returns what must not be in a log and is in one of the logs below `root`.
pub fn leaks(root: &Path) -> Vec<String> {
    let files = files_below(root);
    let named = |name: &'static str| files.iter().filter(move |file| file.ends_with(name));
    let logs: Vec<String> = files
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "log"))
        .map(|file| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned())
        .collect();
    let tokens = named("token").filter_map(|file| fs::read_to_string(file).ok());
    let secrets = named("usher.db")
        .flat_map(|database| texts(database).unwrap_or_default())
        .chain(tokens.map(|token| token.trim().to_owned()));
    secrets.filter(|secret| logs.iter().any(|log| log.contains(secret))).collect()
}

/// Returns every plain file below `root`.
pub(crate) fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect(root, &mut files);
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            Ok(_) | Err(_) => {}
        }
    }
}

fn texts(database: &Path) -> rusqlite::Result<Vec<String>> {
    let conn = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut statement = conn.prepare(
        "SELECT DISTINCT substr(text, 1, ?1) FROM (SELECT content AS text FROM messages \
         UNION ALL SELECT content FROM queue_entries \
         UNION ALL SELECT content FROM queue_admission_receipts \
         UNION ALL SELECT title FROM tasks) WHERE length(text) >= ?2 LIMIT ?3",
    )?;
    let rows =
        statement.query_map([TEXT_BYTES_MAX, TEXT_BYTES_MIN, TEXTS_MAX], |row| row.get(0))?;
    rows.collect()
}
