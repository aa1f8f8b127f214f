//! A user's home for one test: every file the programs write is in here.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use tempfile::TempDir;

use crate::leaks::leaks;
use crate::postgres::Database;
use crate::soundness::{damages, shared_damage};

/// A throw-away home directory. Kept, and named, when the test fails.
pub struct Home {
    directory: Option<TempDir>,
    root: PathBuf,
    database: Option<Arc<Database>>,
}

/// Tells whether this is a test binary whose servers share a PostgreSQL database each home: its
/// name says so. The same modules are in a binary of another name, which uses SQLite.
pub fn wants_postgres() -> bool {
    let program = std::env::current_exe().expect("a running program has a path");
    program.file_stem().is_some_and(|name| name.to_string_lossy().starts_with("e2e_postgres"))
}

impl Home {
    /// Makes an empty one.
    pub fn new() -> Self {
        Self::over(wants_postgres().then(|| Arc::new(Database::new())))
    }

    /// Makes an empty one for a server over the same PostgreSQL database as the servers of this
    /// home.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self::over(self.database.clone())
    }

    /// Makes an empty one for servers over this database, or over SQLite.
    pub fn over(database: Option<Arc<Database>>) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("usher-")
            .tempdir()
            .expect("a temporary directory can be made");
        let root = directory.path().to_owned();
        for name in ["data", "run", "config", "state", "work"] {
            fs::create_dir(root.join(name)).expect("an empty directory takes folders");
        }
        Self { directory: Some(directory), root, database }
    }

    /// Returns the PostgreSQL database of the servers that live here; none if they use SQLite.
    pub fn database(&self) -> Option<&Database> {
        self.database.as_deref()
    }

    /// Returns the path of `name` in here.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the environment of a program that lives here: nothing of the developer's own.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut environment: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), path),
            ("LANG".into(), "C.UTF-8".into()),
            ("USER".into(), "tester".into()),
            ("TERM".into(), "xterm-256color".into()),
            // The most verbose log there is: it is searched when the test is over.
            ("RUST_LOG".into(), "trace".into()),
        ];
        for (name, place) in [
            ("HOME", ""),
            ("XDG_DATA_HOME", "data"),
            ("XDG_RUNTIME_DIR", "run"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
        ] {
            environment.push((name.into(), self.path(place).into_os_string()));
        }
        environment
    }

    /// Returns what a file in here holds; empty if there is none.
    pub fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let mut wrong = Vec::new();
        if !thread::panicking() {
            let database = self.database.as_deref();
            let leaks = leaks(&self.root, database);
            wrong.extend(leaks.into_iter().map(|leak| format!("in a log: {leak}")));
            let shared = database.filter(|database| database.was_used()).and_then(shared_damage);
            let damages = damages(&self.root).into_iter().chain(shared);
            wrong.extend(damages.map(|damage| format!("broken: {damage}")));
        }
        if (thread::panicking() || !wrong.is_empty())
            && let Some(directory) = self.directory.take()
        {
            report_kept(&directory.keep());
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

#[expect(clippy::print_stderr, reason = "test output is where a failure is explained")]
fn report_kept(root: &Path) {
    eprintln!("files of the failed test are kept in {}", root.display());
}
