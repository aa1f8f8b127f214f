//! Nothing that people wrote or agents said is ever in a log: checked after every test, at the
//! most verbose level, for whatever is in the test's databases.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::postgres::{Database, PASSWORD};

/// Shorter texts could be in a log by chance.
const TEXT_BYTES_MIN: i64 = 12;
/// Texts looked for in one test; a load test has thousands alike.
const TEXTS_MAX: i64 = 300;
/// The text of one message that is looked for.
const TEXT_BYTES_MAX: i64 = 200;

/// Returns what must not be in a log and is in one of the logs below `root`.
pub fn leaks(root: &Path, shared: Option<&Database>) -> Vec<String> {
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
        .chain(shared.into_iter().flat_map(shared_texts))
        .chain(files.iter().filter_map(|file| attached(file)))
        .chain(tokens.map(|token| token.trim().to_owned()))
        .chain([PASSWORD.to_owned()]);
    secrets.filter(|secret| logs.iter().any(|log| log.contains(secret))).collect()
}

/// Returns the first line of a file that somebody attached.
fn attached(file: &Path) -> Option<String> {
    let is_object = file.iter().any(|part| part == "objects");
    let bytes = is_object.then(|| fs::read(file).unwrap_or_default())?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().next().unwrap_or_default();
    (line.len() as i64 >= TEXT_BYTES_MIN).then(|| line.chars().take(200).collect())
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

/// Every text that people wrote or agents said.
const TEXTS: &str = "SELECT content AS text FROM messages \
    UNION ALL SELECT content FROM queue_entries \
    UNION ALL SELECT content FROM queue_admission_receipts \
    UNION ALL SELECT name FROM attachments \
    UNION ALL SELECT title FROM tasks";

fn texts(database: &Path) -> rusqlite::Result<Vec<String>> {
    let conn = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut statement = conn.prepare(&format!(
        "SELECT DISTINCT substr(text, 1, ?1) FROM ({TEXTS}) WHERE length(text) >= ?2 LIMIT ?3"
    ))?;
    let rows =
        statement.query_map([TEXT_BYTES_MAX, TEXT_BYTES_MIN, TEXTS_MAX], |row| row.get(0))?;
    rows.collect()
}

/// The same of a PostgreSQL database; nothing of one that no server ever used. Each text up to its
/// first line break, since the answer has a line each.
fn shared_texts(database: &Database) -> Vec<String> {
    if !database.was_used() {
        return Vec::new();
    }
    database.run(&format!(
        "SELECT DISTINCT line FROM (SELECT substr(split_part(text, E'\\n', 1), 1, {TEXT_BYTES_MAX}) \
         AS line FROM ({TEXTS}) texts) lines WHERE length(line) >= {TEXT_BYTES_MIN} LIMIT {TEXTS_MAX}"
    ))
}
