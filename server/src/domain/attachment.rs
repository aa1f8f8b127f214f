//! Attachments: uploads, and how a prompt comes to own what it carries.
//!
//! An upload is claimed once, by the decision that accepts or saves its prompt; one that owned it
//! and let it go does not free it again.

use std::ops::Range;
use std::sync::Arc;

use usher_shared::id::{AttachmentId, EntryId, SessionId, UserId};
use usher_shared::limits::{ATTACHMENT_BYTES_MAX, STAGED_BYTES_MAX, STAGED_MAX};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::{AttachmentKind, DeliveryMode};

use super::change::{Change, Decision};
use super::enclosed::{Attachment, fits_attachments};
use super::session::{Session, SessionKey};

/// SHA-256 of an attachment's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentDigest(pub [u8; 32]);

impl ContentDigest {
    /// Reads 64 lower-case hex digits.
    pub fn parse(hex: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if hex.len() != 64 || !hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&hex[at..at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl std::fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What is said of an attachment's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// What it is.
    pub kind: AttachmentKind,
    /// A clean name.
    pub name: String,
    /// Its MIME type.
    pub mime_type: String,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// What its bytes are.
    pub sha256: ContentDigest,
}

/// How far an attachment has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Bytes are still to come.
    Receiving,
    /// All bytes are there and are what was announced; a prompt may claim it.
    Ready,
    /// A prompt claimed it.
    Claimed,
}

/// An attachment as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Its name on the wire.
    pub id: AttachmentId,
    /// The session it belongs to.
    pub session: SessionKey,
    /// The name of that session.
    pub session_id: SessionId,
    /// Whose session that is.
    pub owner: UserId,
    /// What it is.
    pub about: Described,
    /// How far it has come.
    pub stage: Stage,
    /// When it is deleted; None once it is claimed.
    pub expires_at: Option<UnixMillis>,
}

/// Missing, foreign, expired or spent: one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such upload for this caller")]
pub struct UploadGone;

impl Upload {
    fn is_over(&self, now: UnixMillis) -> bool {
        self.expires_at.is_some_and(|end| now >= end)
    }

    /// Returns it to its owner, unless it is over.
    ///
    /// # Errors
    /// See [`UploadGone`].
    pub fn of(found: Option<Self>, owner: UserId, now: UnixMillis) -> Result<Self, UploadGone> {
        found.filter(|upload| upload.owner == owner && !upload.is_over(now)).ok_or(UploadGone)
    }
}

/// What a user has of uploads that nothing claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staged {
    /// How many.
    pub count: u64,
    /// Their announced sizes together, bytes.
    pub bytes: u64,
}

/// A user has too many uploads that nothing claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many uploads that nothing claimed")]
pub struct TooManyStaged;

/// Begins an upload for a session.
///
/// # Errors
/// See [`TooManyStaged`].
pub fn begin(
    session: &Session,
    staged: Staged,
    id: AttachmentId,
    about: Described,
    expires_at: UnixMillis,
) -> Result<Decision<()>, TooManyStaged> {
    let bytes = staged.bytes.saturating_add(about.size_bytes);
    if staged.count >= STAGED_MAX || bytes > STAGED_BYTES_MAX {
        return Err(TooManyStaged);
    }
    let change = Change::InsertUpload(session.key, id, Box::new(about), expires_at);
    Ok(Decision { changes: vec![change], events: Vec::new(), reply: () })
}

/// Why bytes were not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendRefusal {
    /// They begin behind what is there.
    #[error("{received} bytes are there")]
    Gap {
        /// What is there.
        received: u64,
    },
    /// They go on behind the announced end.
    #[error("more than the announced {size} bytes")]
    TooLong {
        /// The announced size.
        size: u64,
    },
}

/// Returns which of `len` bytes that begin at `offset` are new where `received` are there.
///
/// # Errors
/// See [`AppendRefusal`].
pub fn new_part(
    size: u64,
    received: u64,
    offset: u64,
    len: usize,
) -> Result<Range<usize>, AppendRefusal> {
    let end = offset.saturating_add(len as u64);
    if end > size {
        return Err(AppendRefusal::TooLong { size });
    }
    let known = received.checked_sub(offset).ok_or(AppendRefusal::Gap { received })?;
    let known = usize::try_from(known).map_or(len, |known| known.min(len));
    Ok(known..len)
}

/// An attachment that came inside its request.
#[derive(Clone, PartialEq, Eq)]
pub struct Inline {
    /// Its name from now on.
    pub id: AttachmentId,
    /// What it is.
    pub about: Described,
    /// Its bytes.
    pub data: Arc<[u8]>,
    /// How it reaches the agent.
    pub delivery: DeliveryMode,
}

impl std::fmt::Debug for Inline {
    /// Leaves name and bytes out: they never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inline").field("id", &self.id).finish_non_exhaustive()
    }
}

/// An attachment as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It is in the request.
    Inline(Box<Inline>),
    /// It is an upload, or (in an edit) what the prompt carries already.
    Named {
        /// Which.
        id: AttachmentId,
        /// How it reaches the agent from now on.
        delivery: DeliveryMode,
    },
}

impl Offered {
    /// Returns the id of what is not in the request.
    pub const fn named(&self) -> Option<AttachmentId> {
        match self {
            Self::Inline(_) => None,
            Self::Named { id, .. } => Some(*id),
        }
    }
}

/// Why a prompt does not get its attachments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeRefusal {
    /// See [`UploadGone`].
    #[error("no such upload for this caller")]
    Unavailable {
        /// Which attachment of the request, from 0.
        index: usize,
    },
    /// Those up to this one are larger together than a message may be.
    #[error("attachments are larger than {ATTACHMENT_BYTES_MAX} bytes together")]
    TooLarge {
        /// Which attachment of the request, from 0.
        index: usize,
    },
}

/// The attachments of a prompt, and what has to be written for it to own them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// All of them, in order.
    pub attachments: Vec<Attachment>,
    claims: Vec<Claim>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Claim {
    Inline(Box<Inline>),
    Upload(AttachmentId),
}

impl Taken {
    /// What a prompt carries already.
    pub fn keeping(attachments: &[Attachment]) -> Self {
        Self { attachments: attachments.to_vec(), claims: Vec::new() }
    }

    /// Gives them to an entry of this session.
    pub fn by(self, session: SessionKey, entry: EntryId) -> Vec<Change> {
        let claims = self.claims.into_iter();
        let changes = claims.map(|claim| match claim {
            Claim::Inline(inline) => Change::InsertAttachment(session, entry, inline),
            Claim::Upload(id) => Change::ClaimUpload(id, entry),
        });
        changes.collect()
    }
}

/// Finds what a request offers. `uploads` are those of its ids that exist, `kept` what the prompt
/// carries already.
///
/// # Errors
/// See [`TakeRefusal`].
pub fn take(
    session: &Session,
    offered: &[Offered],
    uploads: &[Upload],
    kept: &[Attachment],
    now: UnixMillis,
) -> Result<Taken, TakeRefusal> {
    let mut taken = Taken::default();
    for (index, one) in offered.iter().enumerate() {
        let (attachment, claim) = match one {
            Offered::Inline(inline) => (
                carried(inline.id, &inline.about, inline.delivery),
                Some(Claim::Inline(inline.clone())),
            ),
            Offered::Named { id, delivery } => match kept.iter().find(|known| known.id == *id) {
                Some(known) => (Attachment { delivery: *delivery, ..known.clone() }, None),
                None => {
                    let upload = uploads.iter().find(|upload| upload.id == *id);
                    let upload = upload
                        .filter(|upload| {
                            upload.session == session.key
                                && upload.stage == Stage::Ready
                                && !upload.is_over(now)
                        })
                        .ok_or(TakeRefusal::Unavailable { index })?;
                    (carried(*id, &upload.about, *delivery), Some(Claim::Upload(*id)))
                }
            },
        };
        // The second of two that are the same finds it spent.
        if taken.attachments.iter().any(|known| known.id == attachment.id) {
            return Err(TakeRefusal::Unavailable { index });
        }
        taken.attachments.push(attachment);
        taken.claims.extend(claim);
        fits_attachments(&taken.attachments).map_err(|_| TakeRefusal::TooLarge { index })?;
    }
    Ok(taken)
}

fn carried(id: AttachmentId, about: &Described, delivery: DeliveryMode) -> Attachment {
    Attachment {
        id,
        kind: about.kind,
        name: about.name.clone(),
        mime_type: about.mime_type.clone(),
        size_bytes: about.size_bytes,
        delivery,
    }
}

/// What a prompt carried and does not carry any more.
pub fn released(before: &[Attachment], after: &[Attachment]) -> Vec<Change> {
    let stays = |one: &&Attachment| !after.iter().any(|kept| kept.id == one.id);
    before.iter().filter(stays).map(|one| Change::ReleaseAttachment(one.id)).collect()
}

#[cfg(test)]
#[path = "attachment_tests.rs"]
mod tests;
