//! Uploads, the bytes of attachments, and what admissions and edits need of them.

use std::path::PathBuf;
use std::sync::Arc;

use tracing::{debug, warn};
use usher_shared::id::{AttachmentId, SessionId, TaskId, TurnId};
use usher_shared::time::UnixMillis;

use super::{Service, UploadError};
use crate::clock::{now, secret_uuid};
use crate::domain::attachment::{
    self, Described, Inline, Offered, Stage, Upload, UploadGone, new_part,
};
use crate::domain::enclosed::Attachment;
use crate::domain::session::{Caller, Standing};
use crate::domain::{Change, Decision};
use crate::store::{Held, Reads, StoreError, TransactError, TurnFolder, Whole};

type Transacted<T> = Result<T, TransactError<UploadError>>;

/// An upload that was begun.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// Its name.
    pub id: AttachmentId,
    /// When it is deleted unless something claims it.
    pub expires_at: UnixMillis,
}

/// Bytes of an attachment.
#[derive(Clone, Debug)]
pub struct BytesFound {
    /// The bytes.
    pub data: Vec<u8>,
    /// Whether nothing comes after them.
    pub eof: bool,
}

/// Files of a turn, until this is dropped.
pub struct LaidOut {
    /// One for each of its attachments, in order.
    pub paths: Vec<PathBuf>,
    _folder: TurnFolder,
}

impl Service {
    /// Begins an upload for a session of the caller's own.
    ///
    /// # Errors
    /// See [`UploadError`].
    pub async fn begin_upload(
        &self,
        caller: Caller,
        task_id: TaskId,
        session_id: SessionId,
        about: Described,
    ) -> Transacted<Begun> {
        let id = AttachmentId::from_uuid(secret_uuid());
        let expires_at = UnixMillis::new(now().get().saturating_add(self.staged_ttl));
        self.store
            .transact(move |reads| {
                let session = reads.session(session_id)?.filter(|session| {
                    session.owner == caller.id
                        && session.task_id == task_id
                        && session.standing == Standing::Open
                });
                let session = session.ok_or(UploadError::NotFound)?;
                let staged = reads.staged(caller.id)?;
                let begun = attachment::begin(&session, staged, id, about.clone(), expires_at)?;
                Ok(begun.replying(Begun { id, expires_at }))
            })
            .await
    }

    /// Adds bytes to an upload; returns how many there are now.
    ///
    /// # Errors
    /// See [`UploadError`].
    pub async fn append_upload(
        &self,
        caller: Caller,
        id: AttachmentId,
        offset: u64,
        data: Arc<[u8]>,
    ) -> Transacted<u64> {
        let bytes = self.store.attachments();
        if bytes.are_rows() {
            return self
                .store
                .transact(move |reads| {
                    let upload = owned(reads, &caller, id)?;
                    let size = upload.about.size_bytes;
                    let received = match upload.stage {
                        Stage::Receiving => reads.received(id)?,
                        Stage::Ready => size,
                        Stage::Claimed => return Err(UploadGone.into()),
                    };
                    let new = new_part(size, received, offset, data.len())?;
                    if new.is_empty() {
                        return Ok(Decision::unchanged(received));
                    }
                    let total = received + new.len() as u64;
                    let data = Arc::from(&data[new]);
                    let change = Change::AppendUpload { id, at: received, data };
                    Ok(Decision { changes: vec![change], events: Vec::new(), reply: total })
                })
                .await;
        }
        let upload = self.upload(&caller, id).await?;
        let size = upload.about.size_bytes;
        let appended = match upload.stage {
            Stage::Receiving => {
                let appended = bytes.append(upload, offset, data).await.map_err(not_stored)?;
                // The first bytes make a file: not for an upload that ended meanwhile.
                if offset == 0 && self.upload(&caller, id).await?.stage != Stage::Receiving {
                    self.forget_arriving(id).await;
                }
                appended
            }
            Stage::Ready => new_part(size, size, offset, data.len()).map(|_| size),
            Stage::Claimed => return Err(TransactError::Refused(UploadGone.into())),
        };
        appended.map_err(|refusal| TransactError::Refused(refusal.into()))
    }

    /// Looks whether all bytes of an upload are there and are what was announced; then a prompt may
    /// claim it. The same again is answered the same. Returns its size.
    ///
    /// # Errors
    /// See [`UploadError`]. One of other bytes than announced is given up.
    pub async fn finish_upload(&self, caller: Caller, id: AttachmentId) -> Transacted<u64> {
        let upload = self.upload(&caller, id).await?;
        let size = upload.about.size_bytes;
        match upload.stage {
            Stage::Receiving => {}
            Stage::Ready => return Ok(size),
            Stage::Claimed => return Err(TransactError::Refused(UploadGone.into())),
        }
        let bytes = self.store.attachments();
        let whole = match bytes.are_rows() {
            true => self.store.read_aside(move |reads| reads.settled(&upload)).await,
            false => bytes.settle(upload).await,
        };
        let held = match whole {
            Ok(Whole::Yes(held)) => held,
            failed => {
                // Another link may have finished it, or given it up.
                let still = self.upload(&caller, id).await?;
                if still.stage != Stage::Receiving {
                    return Ok(size);
                }
                let refusal = match failed.map_err(not_stored)? {
                    Whole::Short { received } => UploadError::Short { received },
                    Whole::Yes(_) | Whole::Others => {
                        self.abort_upload(caller, id).await?;
                        UploadError::OtherBytes
                    }
                };
                return Err(TransactError::Refused(refusal));
            }
        };
        let finished = self
            .store
            .transact(move |reads| {
                let upload = owned(reads, &caller, id)?;
                Ok::<_, UploadError>(match upload.stage {
                    Stage::Receiving => Decision {
                        changes: vec![Change::FinishUpload(id)],
                        events: Vec::new(),
                        reply: (),
                    },
                    Stage::Ready => Decision::unchanged(()),
                    Stage::Claimed => return Err(UploadGone.into()),
                })
            })
            .await;
        if finished.is_err() {
            bytes.suspect(&held);
        }
        drop(held);
        finished?;
        self.forget_arriving(id).await;
        Ok(size)
    }

    /// Deletes an upload that nothing claimed.
    ///
    /// # Errors
    /// See [`UploadError`].
    pub async fn abort_upload(&self, caller: Caller, id: AttachmentId) -> Transacted<()> {
        self.store
            .transact(move |reads| {
                let upload = owned(reads, &caller, id)?;
                match upload.stage {
                    Stage::Receiving | Stage::Ready => {}
                    Stage::Claimed => return Err(UploadGone.into()),
                }
                let changes = vec![Change::DeleteUpload(id)];
                Ok::<_, UploadError>(Decision { changes, events: Vec::new(), reply: () })
            })
            .await?;
        self.forget_arriving(id).await;
        // It may have been whole, and another link may have sent more of it just now.
        self.store.attachments().suspect_all();
        Ok(())
    }

    /// Reads bytes of a finished upload, or of what a prompt carries.
    ///
    /// # Errors
    /// See [`UploadError`].
    pub async fn read_attachment(
        &self,
        caller: Caller,
        id: AttachmentId,
        offset: u64,
        length: usize,
    ) -> Transacted<BytesFound> {
        let upload = self.upload(&caller, id).await?;
        if upload.stage == Stage::Receiving {
            return Err(TransactError::Refused(UploadGone.into()));
        }
        let left = upload.about.size_bytes.saturating_sub(offset);
        let wanted = usize::try_from(left).map_or(length, |left| left.min(length));
        let bytes = self.store.attachments();
        let data = match bytes.are_rows() {
            false => bytes.read(upload.about.sha256, offset, wanted).await,
            true => self.store.read(move |reads| parts(reads, id, offset, wanted)).await,
        };
        // Its bytes may be gone with its row since that was looked at, or without it.
        let data = match data {
            Ok(data) if data.len() == wanted => data,
            Ok(_) | Err(StoreError::Damaged(_)) => {
                return Err(TransactError::Refused(UploadGone.into()));
            }
            Err(error) => return Err(not_stored(error)),
        };
        Ok(BytesFound { eof: left == wanted as u64, data })
    }

    async fn upload(&self, caller: &Caller, id: AttachmentId) -> Transacted<Upload> {
        let owner = caller.id;
        let found = self.store.read(move |reads| reads.upload(id)).await.map_err(not_stored)?;
        let upload = Upload::of(found, owner, now());
        upload.map_err(|gone| TransactError::Refused(gone.into()))
    }

    /// What stays of it is found by the next pass.
    async fn forget_arriving(&self, id: AttachmentId) {
        let bytes = self.store.attachments();
        if let Err(error) = bytes.forget_arriving(id).await {
            bytes.suspect_all();
            warn!(upload = %id, %error, "the file of an upload was not removed yet");
        }
    }

    /// Puts bytes that came inside a request where they stay, if the request is accepted.
    pub(super) async fn hold(&self, offered: &[Offered]) -> Result<Held, StoreError> {
        let inline = offered.iter().filter_map(|one| match one {
            Offered::Inline(inline) => Some(Inline::clone(inline)),
            Offered::Named { .. } => None,
        });
        self.store.attachments().put(inline.collect()).await
    }

    /// The request that brought these was refused, or may have been a replay: what only it brought is
    /// carried by nothing.
    pub(super) fn let_go(&self, held: Held) {
        self.store.attachments().suspect(&held);
    }

    /// Takes back at once what a refused request brought. What fails is left to the next pass.
    pub(super) async fn take_back(&self, held: Held) -> Result<(), StoreError> {
        if held.is_empty() {
            return Ok(());
        }
        self.let_go(held);
        self.tidy_attachments().await
    }

    /// Sessions were deleted with all that they held: files may be left that no row speaks of.
    pub fn attachments_were_purged(&self) {
        self.store.attachments().suspect_all();
    }

    /// Gives an agent the files of a turn.
    ///
    /// # Errors
    /// If the bytes of one are not there any more, or there is no room.
    pub async fn lay_out(
        &self,
        turn: TurnId,
        attachments: &[Attachment],
    ) -> Result<LaidOut, StoreError> {
        if attachments.is_empty() {
            return Ok(LaidOut { paths: Vec::new(), _folder: TurnFolder::none() });
        }
        let bytes = self.store.attachments().clone();
        let ids: Vec<AttachmentId> = attachments.iter().map(|one| one.id).collect();
        self.store
            .read_aside(move |reads| {
                let folder = bytes.turn_folder(turn);
                let laid = ids.iter().enumerate();
                let laid = laid.map(|(index, id)| reads.lay_out(&bytes, &folder, index, *id));
                Ok(LaidOut { paths: laid.collect::<Result<_, StoreError>>()?, _folder: folder })
            })
            .await
    }

    /// Deletes uploads that nothing claimed in their time, what no prompt carries any more, and files
    /// that no row speaks of.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sweep_attachments(&self) -> Result<(), TransactError<StoreError>> {
        let now = now();
        let spent = self.store.read(move |reads| reads.has_spent_attachments(now)).await;
        let bytes = self.store.attachments();
        if spent.map_err(TransactError::<StoreError>::NotStored)? {
            self.store
                .transact(move |_| {
                    let changes = vec![Change::PurgeAttachments { now }];
                    Ok::<_, StoreError>(Decision { changes, events: Vec::new(), reply: () })
                })
                .await?;
            bytes.suspect_all();
            debug!("attachments that nothing carries were deleted");
        }
        self.tidy_attachments().await.map_err(TransactError::NotStored)
    }

    async fn tidy_attachments(&self) -> Result<(), StoreError> {
        let bytes = self.store.attachments();
        let Some(suspects) = bytes.take_suspects() else { return Ok(()) };
        let tidied = async {
            let tidying = bytes.begin_tidying().await?;
            let bytes = bytes.clone();
            let tidy =
                move |reads: &mut Reads<'_>| reads.tidy_attachments(&bytes, suspects, &tidying);
            self.store.read_aside(tidy).await
        };
        let tidied = tidied.await;
        if tidied.is_err() {
            bytes.suspect_all();
        }
        tidied
    }
}

/// Reads what there is of the uploads that a request names.
pub(super) fn named(reads: &mut Reads<'_>, offered: &[Offered]) -> Result<Vec<Upload>, StoreError> {
    let mut uploads = Vec::new();
    for id in offered.iter().filter_map(Offered::named) {
        uploads.extend(reads.upload(id)?);
    }
    Ok(uploads)
}

/// Reads an upload of the caller's own, for a decision about it.
fn owned(reads: &mut Reads<'_>, caller: &Caller, id: AttachmentId) -> Result<Upload, UploadError> {
    let session = Upload::of(reads.upload(id)?, caller.id, now())?.session_id;
    // Owns its session: what is decided about the upload is decided once.
    reads.session(session)?;
    Ok(Upload::of(reads.upload(id)?, caller.id, now())?)
}

fn parts(
    reads: &mut Reads<'_>,
    id: AttachmentId,
    offset: u64,
    wanted: usize,
) -> Result<Vec<u8>, StoreError> {
    let mut data = Vec::with_capacity(wanted);
    while data.len() < wanted
        && let Some(part) = reads.part(id, offset + data.len() as u64)?
    {
        let missing = wanted - data.len();
        data.extend_from_slice(&part[..part.len().min(missing)]);
    }
    Ok(data)
}

fn not_stored(error: StoreError) -> TransactError<UploadError> {
    TransactError::NotStored(error)
}
