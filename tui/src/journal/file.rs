//! The file: its tables, and one transaction per batch of jobs.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{
    Connection, ErrorCode as SqliteCode, Row, Transaction, TransactionBehavior, params,
};
use serde_json::value::RawValue;
use usher_shared::client::{
    IdOrigin, Input, JournalOrder, JournalRow, JournalStage, Journaled, LeftRow, Receipts,
};
use usher_shared::error::ErrorCode;
use usher_shared::id::{AdmissionId, SessionId, StoreId, UserId};
use usher_shared::time::UnixMillis;
use uuid::Uuid;

use super::owner::{DeadOwner, Owner};

/// The version of the tables below.
const VERSION: i64 = 1;
/// Rows of all clients together; a person with more than that has another problem.
const ROWS_MAX: i64 = 4_096;
/// Payloads and drafts of all clients together, bytes. Inline attachments are in payloads.
const BYTES_MAX: i64 = 268_435_456;
/// How long a transaction waits for one of another client.
const BUSY_WAIT: Duration = Duration::from_secs(2);

const TABLES: &str = "
CREATE TABLE sends (
    number INTEGER PRIMARY KEY,
    owner BLOB NOT NULL,
    admission_id TEXT NOT NULL,
    id_given INTEGER NOT NULL,
    store_id BLOB NOT NULL,
    user_id BLOB NOT NULL,
    has_receipts INTEGER NOT NULL,
    stage TEXT NOT NULL,
    payload TEXT NOT NULL,
    added_at INTEGER NOT NULL,
    UNIQUE (owner, admission_id)
);
CREATE TABLE drafts (
    owner BLOB NOT NULL,
    store_id BLOB NOT NULL,
    user_id BLOB NOT NULL,
    session_id BLOB NOT NULL,
    text TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (owner, store_id, user_id, session_id)
) WITHOUT ROWID;
";

/// One thing to do.
#[derive(Debug)]
pub enum JournalJob {
    /// What the engine ordered.
    Order(JournalOrder),
    /// Keep this text as the draft of a session, in the place of an earlier one; empty: keep none.
    PutDraft(Draft),
    /// Take over the drafts that dead clients left for this database and user.
    TakeDrafts {
        /// Of this database.
        store_id: StoreId,
        /// Of this user.
        user_id: UserId,
    },
}

/// The unsent text of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The session's database.
    pub store_id: StoreId,
    /// Who typed it.
    pub user_id: UserId,
    /// The session.
    pub session_id: SessionId,
    /// The text.
    pub text: String,
}

impl Draft {
    /// Tells whether one takes the place of the other.
    pub(super) fn is_of_same(&self, other: &Self) -> bool {
        (self.store_id, self.user_id, self.session_id)
            == (other.store_id, other.user_id, other.session_id)
    }
}

/// What comes of a job.
#[derive(Debug)]
pub enum JournalAnswer {
    /// For the engine.
    Input(Box<Input>),
    /// The drafts of dead clients, oldest first; a session can have several.
    Drafts(Vec<Draft>),
}

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The folder or the lock cannot be made.
    #[error("{0}")]
    Folder(#[from] io::Error),
    /// The database fails.
    #[error("{0}")]
    Database(#[from] rusqlite::Error),
    /// A later version of this program made the file.
    #[error("its version is {0}, and this program knows up to {VERSION}")]
    Newer(i64),
}

/// Whether there is room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Left,
    Full,
}

/// An open journal, and the rows of this process in it.
#[derive(Debug)]
pub(super) struct JournalFile {
    connection: Connection,
    owner: Owner,
    owners_dir: PathBuf,
    path: PathBuf,
    /// Device and inode of the file that is open.
    place: (u64, u64),
}

impl JournalFile {
    /// Opens the journal in `folder`, and makes both if they are missing. A file that is no database
    /// is put aside.
    pub(super) fn open(folder: &Path) -> Result<Self, JournalError> {
        let owners_dir = folder.join("owners");
        let owner = Owner::register(&owners_dir)?;
        let path = folder.join("journal.db");
        // Two that find it damaged must not put aside each other's new one.
        let opening = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(folder.join("opening.lock"))?;
        opening.lock()?;
        let connection = match connect(&path) {
            Err(JournalError::Database(error)) if is_damage(&error) => {
                let aside = folder.join(format!("journal.damaged-{}.db", owner.id()));
                fs::rename(&path, aside)?;
                connect(&path)?
            }
            connected => connected?,
        };
        let place = place_of(&path)?;
        let file = Self { connection, owner, owners_dir, path, place };
        file.bury_the_dead();
        Ok(file)
    }

    /// Tells whether the file is still where others look for it: one that was deleted keeps nothing.
    pub(super) fn is_in_place(&self) -> bool {
        place_of(&self.path).is_ok_and(|place| place == self.place)
    }

    /// Does these jobs in one transaction and returns what comes of them, in order.
    pub(super) fn apply(
        &mut self,
        jobs: &[JournalJob],
        now: UnixMillis,
    ) -> Result<Vec<JournalAnswer>, JournalError> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let batch = Batch {
            transaction: &transaction,
            owner: self.owner.id(),
            owners_dir: &self.owners_dir,
            now,
        };
        let mut answers = Vec::new();
        // Nobody else may take over from them before the commit.
        let mut dead = Vec::new();
        for job in jobs {
            answers.extend(batch.run(job, &mut dead)?);
        }
        transaction.commit()?;
        self.bury(dead);
        Ok(answers)
    }

    /// Removes the locks of dead processes that left no rows.
    fn bury_the_dead(&self) {
        let dead = DeadOwner::candidates(&self.owners_dir).into_iter();
        self.bury(dead.filter_map(|id| DeadOwner::find(&self.owners_dir, id)));
    }

    fn bury(&self, dead: impl IntoIterator<Item = DeadOwner>) {
        for dead in dead {
            if !self.has_rows(dead.id) {
                dead.bury();
            }
        }
    }

    fn has_rows(&self, owner: Uuid) -> bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM sends WHERE owner = ?1)
            OR EXISTS (SELECT 1 FROM drafts WHERE owner = ?1)";
        self.connection.query_row(sql, [owner.as_bytes()], |row| row.get(0)).unwrap_or(true)
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        if !self.has_rows(self.owner.id()) {
            self.owner.sign_off();
        }
    }
}

fn connect(path: &Path) -> Result<Connection, JournalError> {
    // SQLite gives the files beside it the mode of this one.
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600).open(path)?;
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match version {
        0 => {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        VERSION => {}
        newer => return Err(JournalError::Newer(newer)),
    }
    transaction.commit()?;
    Ok(connection)
}

fn place_of(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(SqliteCode::NotADatabase | SqliteCode::DatabaseCorrupt))
}

/// One transaction.
struct Batch<'a> {
    transaction: &'a Transaction<'a>,
    owner: Uuid,
    owners_dir: &'a Path,
    now: UnixMillis,
}

impl Batch<'_> {
    fn run(
        &self,
        job: &JournalJob,
        dead: &mut Vec<DeadOwner>,
    ) -> Result<Option<JournalAnswer>, JournalError> {
        Ok(match job {
            JournalJob::Order(JournalOrder::Keep(row)) => Some(match self.keep(row)? {
                Room::Left => on_disk(&row.admission_id),
                Room::Full => failed(&row.admission_id),
            }),
            JournalJob::Order(JournalOrder::Mark(id, stage, receipts)) => {
                let found = self.mark(id, *stage, *receipts)?;
                match (stage, found) {
                    (JournalStage::Sent, true) => Some(on_disk(id)),
                    (JournalStage::Sent, false) => Some(failed(id)),
                    (JournalStage::Unsent | JournalStage::Refused(_), _) => None,
                }
            }
            JournalJob::Order(JournalOrder::Drop(id)) => {
                let sql = "DELETE FROM sends WHERE owner = ?1 AND admission_id = ?2";
                self.transaction.execute(sql, params![self.owner.as_bytes(), id.as_str()])?;
                None
            }
            JournalJob::Order(JournalOrder::Adopt { store_id, user_id, rows_max }) => {
                let rows = self.adopt(*store_id, *user_id, *rows_max, dead)?;
                Some(JournalAnswer::Input(Box::new(Input::Adopted(rows))))
            }
            JournalJob::PutDraft(draft) => {
                self.put_draft(draft)?;
                None
            }
            JournalJob::TakeDrafts { store_id, user_id } => {
                Some(JournalAnswer::Drafts(self.take_drafts(*store_id, *user_id, dead)?))
            }
        })
    }

    fn keep(&self, row: &JournalRow) -> Result<Room, JournalError> {
        if self.room_for(row.payload.get().len())? == Room::Full {
            return Ok(Room::Full);
        }
        let sql = "INSERT INTO sends (owner, admission_id, id_given, store_id, user_id,
                has_receipts, stage, payload, added_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        self.transaction.prepare_cached(sql)?.execute(params![
            self.owner.as_bytes(),
            row.admission_id.as_str(),
            row.id_origin == IdOrigin::Given,
            row.store_id.uuid().as_bytes(),
            row.user_id.uuid().as_bytes(),
            row.receipts == Receipts::Announced,
            stage_word(row.stage),
            row.payload.get(),
            self.now.get(),
        ])?;
        Ok(Room::Left)
    }

    fn room_for(&self, bytes: usize) -> Result<Room, JournalError> {
        let sql = "SELECT (SELECT count(*) FROM sends),
            (SELECT coalesce(sum(octet_length(payload)), 0) FROM sends)
            + (SELECT coalesce(sum(octet_length(text)), 0) FROM drafts)";
        let (rows, stored): (i64, i64) = self
            .transaction
            .prepare_cached(sql)?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let fits =
            i64::try_from(bytes).is_ok_and(|bytes| stored.saturating_add(bytes) <= BYTES_MAX);
        Ok(if rows < ROWS_MAX && fits { Room::Left } else { Room::Full })
    }

    /// Tells whether there is such a row.
    fn mark(
        &self,
        id: &AdmissionId,
        stage: JournalStage,
        receipts: Receipts,
    ) -> Result<bool, JournalError> {
        let sql = "UPDATE sends SET stage = ?3, has_receipts = ?4
            WHERE owner = ?1 AND admission_id = ?2";
        let changed = self.transaction.prepare_cached(sql)?.execute(params![
            self.owner.as_bytes(),
            id.as_str(),
            stage_word(stage),
            receipts == Receipts::Announced,
        ])?;
        Ok(changed == 1)
    }

    fn adopt(
        &self,
        store_id: StoreId,
        user_id: UserId,
        rows_max: usize,
        dead: &mut Vec<DeadOwner>,
    ) -> Result<Vec<LeftRow>, JournalError> {
        let (store, user) = (store_id.uuid(), user_id.uuid());
        let sql = "SELECT DISTINCT owner FROM sends WHERE store_id = ?1 AND user_id = ?2";
        self.find_dead(sql, store, user, dead)?;
        let mut left = Vec::new();
        let select = "SELECT number, owner, admission_id, id_given, has_receipts, stage, payload,
                added_at
            FROM sends WHERE store_id = ?1 AND user_id = ?2 ORDER BY number";
        let mut statement = self.transaction.prepare(select)?;
        let mut rows = statement.query(params![store.as_bytes(), user.as_bytes()])?;
        while let Some(row) = rows.next()? {
            let owner = read_uuid(row, 1)?;
            if left.len() == rows_max || !dead.iter().any(|dead| dead.id == owner) {
                continue;
            }
            let (number, found) = (row.get(0)?, self.read_left(row, store_id, user_id));
            // What cannot be read stays where it is, for another version of this program. So does
            // what has the name of a row that is here.
            if let Ok(found) = found
                && self.take_over(number)?
            {
                left.push(found);
            }
        }
        Ok(left)
    }

    fn read_left(
        &self,
        row: &Row<'_>,
        store_id: StoreId,
        user_id: UserId,
    ) -> Result<LeftRow, rusqlite::Error> {
        let unreadable = |index| {
            rusqlite::Error::FromSqlConversionFailure(
                index,
                Type::Text,
                "not as it was written".into(),
            )
        };
        let id: String = row.get(2)?;
        let stage: String = row.get(5)?;
        let payload: String = row.get(6)?;
        let added_at: i64 = row.get(7)?;
        let age = self.now.get().checked_sub(added_at).and_then(|age| u64::try_from(age).ok());
        Ok(LeftRow {
            row: JournalRow {
                admission_id: AdmissionId::parse(&id).map_err(|_| unreadable(2))?,
                id_origin: if row.get(3)? { IdOrigin::Given } else { IdOrigin::Minted },
                store_id,
                user_id,
                receipts: if row.get(4)? { Receipts::Announced } else { Receipts::Missing },
                payload: RawValue::from_string(payload).map_err(|_| unreadable(6))?,
                stage: read_stage(&stage).ok_or_else(|| unreadable(5))?,
            },
            age_ms: age.unwrap_or(u64::MAX),
        })
    }

    fn take_over(&self, number: i64) -> Result<bool, JournalError> {
        let sql = "UPDATE OR IGNORE sends SET owner = ?1 WHERE number = ?2";
        let taken = params![self.owner.as_bytes(), number];
        Ok(self.transaction.prepare_cached(sql)?.execute(taken)? == 1)
    }

    fn put_draft(&self, draft: &Draft) -> Result<(), JournalError> {
        // Where there is no room, an older text is better than none.
        if draft.text.is_empty() || self.room_for(draft.text.len())? == Room::Left {
            self.replace_draft(draft)?;
        }
        Ok(())
    }

    fn replace_draft(&self, draft: &Draft) -> Result<(), JournalError> {
        let Draft { store_id, user_id, session_id, text } = draft;
        let (store, user, session) = (store_id.uuid(), user_id.uuid(), session_id.uuid());
        let (store, user, session) = (store.as_bytes(), user.as_bytes(), session.as_bytes());
        let sql = "DELETE FROM drafts
            WHERE owner = ?1 AND store_id = ?2 AND user_id = ?3 AND session_id = ?4";
        let key = params![self.owner.as_bytes(), store, user, session];
        self.transaction.prepare_cached(sql)?.execute(key)?;
        if text.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO drafts (owner, store_id, user_id, session_id, text, changed_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let row = params![self.owner.as_bytes(), store, user, session, text, self.now.get()];
        self.transaction.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }

    fn take_drafts(
        &self,
        store_id: StoreId,
        user_id: UserId,
        dead: &mut Vec<DeadOwner>,
    ) -> Result<Vec<Draft>, JournalError> {
        let (store, user) = (store_id.uuid(), user_id.uuid());
        let sql = "SELECT DISTINCT owner FROM drafts WHERE store_id = ?1 AND user_id = ?2";
        self.find_dead(sql, store, user, dead)?;
        let mut drafts = Vec::new();
        let select = "SELECT owner, session_id, text FROM drafts
            WHERE store_id = ?1 AND user_id = ?2 ORDER BY changed_at";
        let mut statement = self.transaction.prepare(select)?;
        let mut rows = statement.query(params![store.as_bytes(), user.as_bytes()])?;
        while let Some(row) = rows.next()? {
            let owner = read_uuid(row, 0)?;
            if dead.iter().any(|dead| dead.id == owner) {
                let session_id = SessionId::from_uuid(read_uuid(row, 1)?);
                drafts.push(Draft { store_id, user_id, session_id, text: row.get(2)? });
            }
        }
        drop(rows);
        let sql = "DELETE FROM drafts WHERE owner = ?1 AND store_id = ?2 AND user_id = ?3";
        for dead in dead.iter() {
            let key = params![dead.id.as_bytes(), store.as_bytes(), user.as_bytes()];
            self.transaction.execute(sql, key)?;
        }
        self.merge_drafts(drafts)
    }

    /// Makes one draft per session of what several clients left, and this client its owner.
    fn merge_drafts(&self, left: Vec<Draft>) -> Result<Vec<Draft>, JournalError> {
        let mut texts: Vec<(Draft, Vec<String>)> = Vec::new();
        for draft in left {
            match texts.iter_mut().find(|(merged, _)| merged.session_id == draft.session_id) {
                Some((_, texts)) if texts.contains(&draft.text) => {}
                Some((_, texts)) => texts.push(draft.text),
                None => texts.push((draft.clone(), vec![draft.text])),
            }
        }
        let mut merged = Vec::new();
        for (draft, texts) in texts {
            // It takes the place of what it is made of, so there is room.
            let draft = Draft { text: texts.join("\n\n"), ..draft };
            self.replace_draft(&draft)?;
            merged.push(draft);
        }
        Ok(merged)
    }

    /// Adds the owners among the rows of `sql` whose processes are gone.
    fn find_dead(
        &self,
        sql: &str,
        store: Uuid,
        user: Uuid,
        dead: &mut Vec<DeadOwner>,
    ) -> Result<(), JournalError> {
        let mut statement = self.transaction.prepare(sql)?;
        let mut rows = statement.query(params![store.as_bytes(), user.as_bytes()])?;
        while let Some(row) = rows.next()? {
            let id = read_uuid(row, 0)?;
            if id != self.owner && !dead.iter().any(|dead| dead.id == id) {
                dead.extend(DeadOwner::find(self.owners_dir, id));
            }
        }
        Ok(())
    }
}

fn on_disk(id: &AdmissionId) -> JournalAnswer {
    let outcome = Journaled::OnDisk;
    JournalAnswer::Input(Box::new(Input::Journaled { id: id.clone(), outcome }))
}

/// What the engine hears of an order that could not be done.
pub(super) fn failed(id: &AdmissionId) -> JournalAnswer {
    let outcome = Journaled::Failed;
    JournalAnswer::Input(Box::new(Input::Journaled { id: id.clone(), outcome }))
}

fn stage_word(stage: JournalStage) -> &'static str {
    match stage {
        JournalStage::Unsent => "unsent",
        JournalStage::Sent => "sent",
        JournalStage::Refused(code) => code.as_str(),
    }
}

fn read_stage(word: &str) -> Option<JournalStage> {
    match word {
        "unsent" => Some(JournalStage::Unsent),
        "sent" => Some(JournalStage::Sent),
        word => {
            let code = ErrorCode::ALL.iter().find(|code| code.as_str() == word);
            code.copied().map(JournalStage::Refused)
        }
    }
}

fn read_uuid(row: &Row<'_>, column: usize) -> Result<Uuid, rusqlite::Error> {
    row.get(column).map(Uuid::from_bytes)
}
