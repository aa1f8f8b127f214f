//! Attachments: what is stored of them, and where their bytes are. Beside an SQLite database they are
//! files of the data directory (see [`files`]); a PostgreSQL database, which several machines share,
//! keeps them itself, in parts.

mod copy;
mod files;
mod tidy;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sha2::{Digest as _, Sha256};
use tracing::warn;
use usher_shared::id::{AttachmentId, EntryId, MessageId, SessionId, TurnId, UserId};
use usher_shared::limits::APPEND_BYTES_MAX;
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::AttachmentKind;

pub(super) use self::copy::copy_objects;
pub(super) use self::files::{AttachmentFiles, Pin, is_whole, object_path};
pub use self::tidy::Suspects;
use super::apply::{int, one};
use super::conn::{Conn, Param, Row, query_one};
use super::error::StoreError;
use super::reads::Reads;
use super::row;
use super::sql::attachment as sql;
use crate::domain::attachment::{
    AppendRefusal, ContentDigest, Described, Inline, Stage, Staged, Upload,
};
use crate::domain::session::SessionKey;

/// Where the bytes of attachments are, and the files that agents are given. Cheap to clone.
#[derive(Clone)]
pub struct AttachmentBytes {
    /// None: in the database.
    files: Option<Arc<AttachmentFiles>>,
    /// One folder a running turn.
    turns: PathBuf,
    /// Files that maybe no row speaks of.
    suspects: Arc<Mutex<Suspects>>,
    /// Held by the one who tidies.
    tidying: Arc<tokio::sync::Mutex<()>>,
}

/// What became of the bytes of an upload.
pub enum Whole {
    /// They are what was announced. Until this is dropped they stay, whatever the rows say.
    Yes(Held),
    /// Some are missing.
    Short {
        /// What is there, bytes.
        received: u64,
    },
    /// They are other bytes than announced.
    Others,
}

/// Keeps bytes until the row that speaks of them is committed.
#[derive(Default)]
pub struct Held(Vec<Pin>);

impl Held {
    /// Tells whether it keeps nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The folder of a turn's files; goes with them when it is dropped.
pub struct TurnFolder(Option<PathBuf>);

impl Drop for TurnFolder {
    fn drop(&mut self) {
        if let Some(folder) = &self.0
            && let Err(error) = files::remove_all(folder)
        {
            warn!(%error, "the files of a turn stay until the next start");
        }
    }
}

impl AttachmentBytes {
    /// Makes the folders, and removes what agents of a stopped server were given.
    pub(super) fn in_files(root: &Path) -> Result<Self, StoreError> {
        let files = AttachmentFiles::open(root)?;
        Ok(Self { files: Some(Arc::new(files)), ..Self::in_rows(root)? })
    }

    /// The same where the database keeps the bytes.
    pub(super) fn in_rows(root: &Path) -> Result<Self, StoreError> {
        let turns = root.join("turns");
        files::remove_all(&turns)?;
        Ok(Self {
            files: None,
            turns,
            suspects: Arc::new(Mutex::new(Suspects::All)),
            tidying: Arc::default(),
        })
    }

    /// Tells whether the database keeps them.
    pub fn are_rows(&self) -> bool {
        self.files.is_none()
    }

    /// Adds bytes to an upload whose bytes are in a file; returns how many there are now.
    pub async fn append(
        &self,
        upload: Upload,
        offset: u64,
        data: Arc<[u8]>,
    ) -> Result<Result<u64, AppendRefusal>, StoreError> {
        let files = self.files.clone().ok_or(StoreError::Closed)?;
        let size = upload.about.size_bytes;
        blocking(move || files.append(upload.id, size, offset, &data)).await
    }

    /// Looks whether an upload whose bytes are in a file is whole, and makes them stay.
    pub async fn settle(&self, upload: Upload) -> Result<Whole, StoreError> {
        let files = self.files.clone().ok_or(StoreError::Closed)?;
        blocking(move || files.settle(upload.id, &upload.about)).await
    }

    /// Puts bytes that came inside a request where they stay, before the row that speaks of them.
    pub async fn put(&self, inline: Vec<Inline>) -> Result<Held, StoreError> {
        let Some(files) = self.files.clone().filter(|_| !inline.is_empty()) else {
            return Ok(Held::default());
        };
        let pins = blocking(move || {
            inline.iter().map(|one| files.put(one.id, &one.about, &one.data)).collect()
        });
        Ok(Held(pins.await?))
    }

    /// Forgets the file of an upload that is finished, spent or given up.
    pub async fn forget_arriving(&self, id: AttachmentId) -> Result<(), StoreError> {
        match self.files.clone() {
            Some(files) => blocking(move || files.forget_arriving(id)).await,
            None => Ok(()),
        }
    }

    /// Reads bytes that are in a file.
    pub async fn read(
        &self,
        digest: ContentDigest,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, StoreError> {
        let files = self.files.clone().ok_or(StoreError::Closed)?;
        blocking(move || files.read(digest, offset, len)).await
    }

    /// Makes the folder of a turn.
    pub fn turn_folder(&self, turn: TurnId) -> TurnFolder {
        TurnFolder(Some(self.turns.join(turn.to_string())))
    }
}

impl TurnFolder {
    /// Of a turn that brings no files.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Makes the place of one file, alone in a folder so that it can have its own name.
    fn place(&self, index: usize, name: &str) -> Result<PathBuf, StoreError> {
        let folder = self.0.as_ref().ok_or(StoreError::Closed)?.join((index + 1).to_string());
        files::make_folder(&folder)?;
        Ok(folder.join(name))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(StoreError::Closed))
}

impl Reads<'_> {
    /// Returns an attachment of a session that somebody can see.
    pub fn upload(&mut self, id: AttachmentId) -> Result<Option<Upload>, StoreError> {
        query_one(self.conn, sql::UPLOAD_GET, &[Param::Id(id.uuid())], upload)
    }

    /// Returns what a user has of uploads that nothing claimed.
    pub fn staged(&mut self, user: UserId) -> Result<Staged, StoreError> {
        let found = query_one(self.conn, sql::STAGED_OF_USER, &[Param::Id(user.uuid())], |row| {
            Ok(Staged { count: row::counter(row.int(0)?)?, bytes: row::counter(row.int(1)?)? })
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Tells whether there are attachments that nothing will carry.
    pub fn has_spent_attachments(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        let params = [Param::Int(now.get())];
        Ok(query_one(self.conn, sql::ATTACHMENTS_SPENT, &params, |_| Ok(()))?.is_some())
    }

    /// Returns how many bytes of an attachment the database has.
    pub fn received(&mut self, id: AttachmentId) -> Result<u64, StoreError> {
        let end = query_one(self.conn, sql::PARTS_END, &[Param::Id(id.uuid())], |row| row.int(0))?;
        row::counter(end.unwrap_or(0))
    }

    /// Looks whether the bytes that the database has are what was announced.
    pub fn settled(&mut self, upload: &Upload) -> Result<Whole, StoreError> {
        let mut hash = Sha256::new();
        let mut received = 0;
        while let Some(part) = self.part(upload.id, received)? {
            received += part.len() as u64;
            hash.update(part);
        }
        let whole = hash.finalize()[..] == upload.about.sha256.0;
        Ok(match received < upload.about.size_bytes {
            true => Whole::Short { received },
            false if whole => Whole::Yes(Held::default()),
            false => Whole::Others,
        })
    }

    /// Returns bytes that the database has, from a byte on: as many as one part holds.
    pub fn part(&mut self, id: AttachmentId, offset: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let at = int(offset);
        let found = query_one(self.conn, sql::PART_AT, &[Param::Id(id.uuid()), at], |row| {
            let start = row::counter(row.int(0)?)?;
            let data = row.opt_bytes(1)?.unwrap_or_default();
            let skip = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
            Ok(data.get(skip..).unwrap_or_default().to_vec())
        })?;
        Ok(found.filter(|data| !data.is_empty()))
    }

    /// Copies an attachment into the folder of a turn; returns the file.
    ///
    /// # Errors
    /// If its bytes are not there any more, or there is no room.
    pub fn lay_out(
        &mut self,
        bytes: &AttachmentBytes,
        folder: &TurnFolder,
        index: usize,
        id: AttachmentId,
    ) -> Result<PathBuf, StoreError> {
        let upload = self.upload(id)?.ok_or(StoreError::Damaged("an attachment is missing"))?;
        let path = folder.place(index, &upload.about.name)?;
        match &bytes.files {
            Some(files) => files.copy(&upload.about, &path)?,
            None => {
                let mut file = File::create(&path).map_err(files::failed)?;
                let mut written = 0;
                while let Some(part) = self.part(id, written)? {
                    file.write_all(&part).map_err(files::failed)?;
                    written += part.len() as u64;
                }
                if written != upload.about.size_bytes {
                    return Err(StoreError::Damaged("an attachment has another size"));
                }
            }
        }
        Ok(path)
    }
}

const STAGES: [(Stage, &str); 3] =
    [(Stage::Receiving, "receiving"), (Stage::Ready, "ready"), (Stage::Claimed, "claimed")];

fn upload(row: &dyn Row) -> Result<Upload, StoreError> {
    let stage = row.text(9)?;
    let stage = STAGES.iter().find(|(_, word)| *word == stage).map(|(stage, _)| *stage);
    let expires_at = row.int(10)?;
    Ok(Upload {
        id: AttachmentId::from_uuid(row.uuid(0)?),
        session: SessionKey(row.int(1)?),
        session_id: SessionId::from_uuid(row.uuid(2)?),
        owner: UserId::from_uuid(row.uuid(3)?),
        about: Described {
            kind: AttachmentKind::parse(row.text(4)?)
                .ok_or(StoreError::Damaged("an unknown word"))?,
            name: row.text(5)?.to_owned(),
            mime_type: row.text(6)?.to_owned(),
            size_bytes: row::counter(row.int(7)?)?,
            sha256: row
                .opt_bytes(8)?
                .and_then(|bytes| bytes.try_into().ok())
                .map(ContentDigest)
                .ok_or(StoreError::Damaged("the digest of an attachment"))?,
        },
        stage: stage.ok_or(StoreError::Damaged("an unknown word"))?,
        expires_at: (expires_at >= 0).then_some(UnixMillis::new(expires_at)),
    })
}

fn described<'a>(
    session: SessionKey,
    id: AttachmentId,
    about: &'a Described,
    last: Param<'a>,
) -> [Param<'a>; 8] {
    [
        Param::Int(session.0),
        Param::Id(id.uuid()),
        Param::Text(about.kind.as_str()),
        Param::Text(&about.name),
        Param::Text(&about.mime_type),
        int(about.size_bytes),
        Param::Bytes(&about.sha256.0),
        last,
    ]
}

pub(super) fn begin(
    conn: &mut dyn Conn,
    session: SessionKey,
    id: AttachmentId,
    about: &Described,
    expires_at: UnixMillis,
) -> Result<(), StoreError> {
    one(conn, sql::UPLOAD_INSERT, &described(session, id, about, Param::Int(expires_at.get())))
}

pub(super) fn append(
    conn: &mut dyn Conn,
    id: AttachmentId,
    at: u64,
    data: &[u8],
) -> Result<(), StoreError> {
    one(conn, sql::PART_INSERT, &[Param::Id(id.uuid()), int(at), Param::Bytes(data)])
}

pub(super) fn ready(conn: &mut dyn Conn, id: AttachmentId) -> Result<(), StoreError> {
    one(conn, sql::UPLOAD_READY, &[Param::Id(id.uuid())])
}

pub(super) fn delete(conn: &mut dyn Conn, id: AttachmentId) -> Result<(), StoreError> {
    one(conn, sql::UPLOAD_DELETE, &[Param::Id(id.uuid())])
}

pub(super) fn insert(
    conn: &mut dyn Conn,
    session: SessionKey,
    entry: EntryId,
    inline: &Inline,
) -> Result<(), StoreError> {
    let params = described(session, inline.id, &inline.about, Param::Id(entry.uuid()));
    one(conn, sql::ATTACHMENT_INSERT, &params)?;
    if conn.keeps_attachments() {
        for (index, part) in inline.data.chunks(APPEND_BYTES_MAX).enumerate() {
            append(conn, inline.id, (index * APPEND_BYTES_MAX) as u64, part)?;
        }
    }
    Ok(())
}

pub(super) fn claim(
    conn: &mut dyn Conn,
    id: AttachmentId,
    entry: EntryId,
) -> Result<(), StoreError> {
    one(conn, sql::UPLOAD_CLAIM, &[Param::Id(id.uuid()), Param::Id(entry.uuid())])
}

pub(super) fn release(conn: &mut dyn Conn, id: AttachmentId) -> Result<(), StoreError> {
    one(conn, sql::ATTACHMENT_RELEASE, &[Param::Id(id.uuid())])
}

pub(super) fn join(conn: &mut dyn Conn, from: EntryId, to: EntryId) -> Result<(), StoreError> {
    let params = [Param::Id(from.uuid()), Param::Id(to.uuid())];
    conn.execute(sql::ATTACHMENTS_JOIN, &params).map(drop)
}

pub(super) fn transfer(
    conn: &mut dyn Conn,
    entry: EntryId,
    to: SessionKey,
) -> Result<(), StoreError> {
    let params = [Param::Id(entry.uuid()), Param::Int(to.0)];
    conn.execute(sql::ATTACHMENTS_TRANSFER, &params).map(drop)
}

pub(super) fn to_message(
    conn: &mut dyn Conn,
    turn: TurnId,
    message: MessageId,
) -> Result<(), StoreError> {
    let params = [Param::Id(turn.uuid()), Param::Id(message.uuid())];
    conn.execute(sql::ATTACHMENTS_TO_MESSAGE, &params).map(drop)
}

pub(super) fn purge(conn: &mut dyn Conn, now: UnixMillis) -> Result<(), StoreError> {
    conn.execute(sql::ATTACHMENTS_PURGE, &[Param::Int(now.get())]).map(drop)
}
