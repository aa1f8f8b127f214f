//! A client's journal, looked at from outside.

use std::path::PathBuf;
use std::time::Instant;

use rusqlite::{Connection, OpenFlags};

use crate::PATIENCE;
use crate::cli::UserHome;

/// The journal of a user's clients.
pub struct Journal {
    path: PathBuf,
}

/// A prompt in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its text.
    pub text: String,
    /// `unsent`, `sent`, or the code of a refusal.
    pub stage: String,
}

impl Journal {
    /// Names the journal of a user, who may have none yet.
    pub fn of(user: &UserHome) -> Self {
        Self { path: user.home().path("state/usher/journal/journal.db") }
    }

    /// Returns the folder it is in.
    pub fn folder(&self) -> PathBuf {
        self.path.parent().expect("it is in a folder").to_owned()
    }

    /// Returns the prompts in it, oldest first.
    pub fn prompts(&self) -> Vec<Kept> {
        let sql = "SELECT payload ->> '$.content', stage FROM sends ORDER BY number";
        let kept = self.rows(sql).into_iter().map(|(text, stage)| Kept { text, stage });
        kept.collect()
    }

    /// Returns the drafts in it.
    pub fn drafts(&self) -> Vec<String> {
        let drafts = self.rows("SELECT text, '' FROM drafts ORDER BY changed_at").into_iter();
        drafts.map(|(text, _)| text).collect()
    }

    /// Waits until the journal is as wanted. Its writer is another process, and tells nobody.
    pub fn wait_until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is(self) {
            let (prompts, drafts) = (self.prompts(), self.drafts());
            assert!(Instant::now() < deadline, "never {what}: {prompts:?}, {drafts:?}");
            std::thread::yield_now();
        }
    }

    /// Makes every prompt in it older.
    pub fn age(&self, millis: i64) {
        let connection = Connection::open(&self.path).expect("it is there");
        connection
            .execute("UPDATE sends SET added_at = added_at - ?1", [millis])
            .expect("it has its tables");
    }

    /// Returns two columns of text. Nothing is there before the first client wrote.
    fn rows(&self, sql: &str) -> Vec<(String, String)> {
        let Ok(connection) =
            Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        else {
            return Vec::new();
        };
        let Ok(mut statement) = connection.prepare(sql) else {
            return Vec::new();
        };
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).expect("a journal that is read gives its rows")
    }
}
