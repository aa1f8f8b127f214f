//! Every database that a test leaves keeps what the design promises: checked after every test, by
//! the real program.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use rusqlite::{Connection, OpenFlags};

use crate::binaries;
use crate::leaks::files_below;
use crate::postgres::Database;

/// Returns what `usherd check` says about the databases below `root` that are not sound.
pub fn damages(root: &Path) -> Vec<String> {
    let databases = files_below(root).into_iter().filter(|file| file.ends_with("usher.db"));
    databases.filter_map(|database| damage(database.parent()?)).collect()
}

/// Returns what is wrong with the database of a data directory. A server that was killed at its very
/// first start leaves none.
pub fn damage(data_dir: &Path) -> Option<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let tables =
        Connection::open_with_flags(data_dir.join("usher.db"), flags).and_then(|database| {
            database.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        });
    if matches!(tables, Ok(0)) {
        return None;
    }
    said_of(["--data-dir".as_ref(), data_dir.as_os_str()])
}

/// Returns what is wrong with a PostgreSQL database that a server has used.
pub fn shared_damage(database: &Database) -> Option<String> {
    said_of(["--database".as_ref(), database.url().as_ref()])
}

fn said_of(arguments: [&OsStr; 2]) -> Option<String> {
    let check = Command::new(binaries::usherd())
        .arg("check")
        .args(arguments)
        .output()
        .expect("the built program runs");
    let said = [check.stdout, check.stderr].concat();
    (!check.status.success()).then(|| String::from_utf8_lossy(&said).into_owned())
}
