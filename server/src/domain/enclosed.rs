//! What a prompt carries beside its text: attachments, what it points at, what gives it context, and
//! the plan comments that it answers.

use usher_shared::id::AttachmentId;
use usher_shared::limits::{
    ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX, CONTEXT_FILES_MAX, REFERENCES_MAX,
};
use usher_shared::vocabulary::{AttachmentKind, DeliveryMode, ReferenceKind};

use super::merge::{Bound, Overflow};
use super::plan::CommentRef;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enclosed {
    /// Files that came with it, in their order.
    pub attachments: Vec<Attachment>,
    /// What it points at.
    pub references: Vec<Reference>,
    /// What gives it context.
    pub files: Vec<ContextFile>,
    /// The plan comments that it consumed.
    pub comments: Vec<CommentRef>,
}

/// A file that came with a prompt; its bytes are elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its name on the wire.
    pub id: AttachmentId,
    /// What it is.
    pub kind: AttachmentKind,
    /// For people, and for the file that an agent sees.
    pub name: String,
    /// Its MIME type.
    pub mime_type: String,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// How it reaches the agent.
    pub delivery: DeliveryMode,
}

/// Something that a prompt points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// What it is.
    pub kind: ReferenceKind,
    /// Which one; a path for files.
    pub id: String,
    /// For people.
    pub title: Option<String>,
}

/// A file or directory that gives context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextFile {
    /// Relative to the task's directory.
    pub path: String,
    /// For people.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// The id of a plan comment as text, bytes.
const COMMENT_ID_BYTES: usize = 36;

impl Enclosed {
    /// Returns the size of all of it that a receipt repeats, bytes.
    pub fn bytes(&self) -> usize {
        let Self { attachments, references, files, comments } = self;
        let attachments = attachments.iter().map(|one| one.name.len() + one.mime_type.len());
        let references =
            references.iter().map(|one| one.id.len() + one.title.as_ref().map_or(0, String::len));
        let files = files.iter().map(|one| one.path.len() + one.name.len());
        let comments = comments.len() * COMMENT_ID_BYTES;
        attachments.chain(references).chain(files).sum::<usize>() + comments
    }

    /// Tells whether a prompt without text says something all the same.
    pub fn speaks(&self) -> bool {
        !self.attachments.is_empty() || !self.comments.is_empty()
    }

    /// Joins what two prompts carry: each thing once, in order. What answers plan comments joins
    /// nothing: it is about them alone.
    ///
    /// # Errors
    /// The bound that the result would break.
    pub fn join(&self, below: &Self) -> Result<Self, Overflow> {
        if !self.comments.is_empty() || !below.comments.is_empty() {
            return Err(Overflow(Bound::PlanComments));
        }
        let attachments = [&self.attachments[..], &below.attachments].concat();
        fits_attachments(&attachments)?;
        let references = union(&self.references, &below.references, |one, other| {
            (one.kind, &one.id) == (other.kind, &other.id)
        });
        let files = union(&self.files, &below.files, |one, other| one.path == other.path);
        if references.len() > REFERENCES_MAX {
            return Err(Overflow(Bound::References));
        }
        if files.len() > CONTEXT_FILES_MAX {
            return Err(Overflow(Bound::ContextFiles));
        }
        Ok(Self { attachments, references, files, comments: Vec::new() })
    }
}

/// Checks how many attachments one prompt has, and how large they are together.
///
/// # Errors
/// The bound that they break.
pub fn fits_attachments(attachments: &[Attachment]) -> Result<(), Overflow> {
    if attachments.len() > ATTACHMENTS_MAX {
        return Err(Overflow(Bound::Attachments));
    }
    let sizes = attachments.iter().map(|one| one.size_bytes);
    match sizes.fold(0, u64::saturating_add) > ATTACHMENT_BYTES_MAX as u64 {
        true => Err(Overflow(Bound::AttachmentBytes)),
        false => Ok(()),
    }
}

/// All of both in order, each once: the first of those that are the same stays.
fn union<T: Clone>(above: &[T], below: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut all = above.to_vec();
    for one in below {
        if !all.iter().any(|known| same(known, one)) {
            all.push(one.clone());
        }
    }
    all
}
