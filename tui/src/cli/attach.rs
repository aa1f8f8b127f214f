//! Files that go with a prompt of `usher send`.
//!
//! Small files travel inside the request, so that the same command with the same `--id` is the same
//! request and is answered from the receipt. Larger ones go up first, in pieces, over as many links as
//! it takes; their request names an upload that the next run would not have, so `--id` does without
//! them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout_at};
use usher_shared::client::{Event, IdOrigin, LinkState, UploadEnd, UploadId};
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::AttachmentId;
use usher_shared::limits::{ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX, INLINE_BYTES_MAX};
use usher_shared::protocol::attachment::AttachmentBeginParams;
use usher_shared::protocol::entry::{AttachmentKind, AttachmentParams};
use usher_shared::protocol::session::Session;

use super::client::{Client, OFFLINE_PATIENCE, Problem};
use super::output::Output;
use crate::i18n::Value;
use crate::view::clean::Clean;

/// Files of more bytes in all go up first: a request of a MiB takes a slow link ten seconds.
const INLINE_WANTED_BYTES_MAX: u64 = 1_048_576;

/// Bytes that one read takes.
const PIECE_BYTES: usize = 65_536;

/// MIME types by the end of a file's name. What a server or an agent does with others is no worse
/// than what it would do with a guess.
const MIME_TYPES: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("pdf", "application/pdf"),
    ("json", "application/json"),
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("csv", "text/csv"),
    ("html", "text/html"),
];

/// Why files cannot go with a prompt.
#[derive(Debug)]
pub(super) enum AttachError {
    /// This one cannot be read.
    Unreadable(PathBuf, io::Error),
    /// This one is no file with bytes of its own: a folder, a pipe, a device.
    NoFile(PathBuf),
    /// This one changed while it was read.
    Changed(PathBuf),
    /// They are too many.
    TooMany,
    /// They are too large in all, bytes.
    TooLarge(usize),
}

impl AttachError {
    /// Returns what people read about it.
    pub(super) fn text(&self, output: &Output) -> String {
        match self {
            Self::Unreadable(path, error) => {
                let reason = Clean::line(&error.to_string());
                let [file] = file_named(path);
                let arguments = [file, ("reason", reason.as_str().to_owned().into())];
                output.text("cli-attach-unreadable", &arguments)
            }
            Self::NoFile(path) => output.text("cli-attach-no-file", &file_named(path)),
            Self::Changed(path) => output.text("cli-attach-changed", &file_named(path)),
            Self::TooMany => {
                output.text("cli-attach-too-many", &[("max", Value::from(ATTACHMENTS_MAX))])
            }
            Self::TooLarge(limit) => {
                let id = match *limit {
                    INLINE_BYTES_MAX => "cli-attach-too-large-with-id",
                    _ => "cli-attach-too-large",
                };
                output.text(id, &[("mib", Value::from(limit / (1024 * 1024)))])
            }
        }
    }
}

/// A file that was looked at.
pub(super) struct Attached {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    sha256: String,
}

/// Looks at the files that are to go with a prompt.
///
/// # Errors
/// If one cannot be read, or they are more than a prompt carries.
pub(super) fn look_at(paths: &[PathBuf], origin: IdOrigin) -> Result<Vec<Attached>, AttachError> {
    if paths.len() > ATTACHMENTS_MAX {
        return Err(AttachError::TooMany);
    }
    let max = match origin {
        IdOrigin::Given => INLINE_BYTES_MAX,
        IdOrigin::Minted => ATTACHMENT_BYTES_MAX,
    };
    let mut files = Vec::new();
    for path in paths {
        files.push(Attached::open(path)?);
        if total(&files) > max as u64 {
            return Err(AttachError::TooLarge(max));
        }
    }
    Ok(files)
}

fn file_named(path: &Path) -> [(&'static str, Value<'static>); 1] {
    let name = Clean::line(&path.display().to_string());
    [("file", name.as_str().to_owned().into())]
}

fn total(files: &[Attached]) -> u64 {
    files.iter().map(|file| file.size_bytes).sum()
}

/// Makes what a request says of the files, and uploads them first if they are large.
pub(super) async fn attach(
    client: &mut Client,
    session: &Session,
    files: Vec<Attached>,
    origin: IdOrigin,
) -> Result<Vec<AttachmentParams>, AttachProblem> {
    let is_small = total(&files) <= INLINE_WANTED_BYTES_MAX || origin == IdOrigin::Given;
    let mut attachments = Vec::new();
    for (file, number) in files.into_iter().zip(0..) {
        attachments.push(if is_small {
            file.inline().map_err(AttachProblem::File)?
        } else {
            let attachment_id = upload(client, session, file, UploadId::new(number)).await?;
            AttachmentParams { attachment_id: Some(attachment_id), ..AttachmentParams::default() }
        });
    }
    Ok(attachments)
}

/// Why files did not go up.
#[derive(Debug)]
pub(super) enum AttachProblem {
    /// It is their own fault.
    File(AttachError),
    /// It is not.
    Server(Problem),
}

async fn upload(
    client: &mut Client,
    session: &Session,
    file: Attached,
    id: UploadId,
) -> Result<AttachmentId, AttachProblem> {
    let params = AttachmentBeginParams {
        task_id: session.task_id,
        session_id: session.id,
        name: file.name(),
        mime_type: file.mime_type().to_owned(),
        kind: file.kind(),
        size_bytes: file.size_bytes,
        sha256: file.sha256,
    };
    let path = file.path;
    client.driver.upload(id, file.file, params);
    let mut online_at = Instant::now();
    loop {
        if let LinkState::Online { .. } = client.driver.engine().link() {
            online_at = Instant::now();
        }
        let event = timeout_at(online_at + OFFLINE_PATIENCE, client.next_event()).await;
        match event {
            Ok(Event::UploadEnded { id: ended, end }) if ended == id => {
                return match end {
                    UploadEnd::Finished(attachment_id) => Ok(attachment_id),
                    UploadEnd::Refused(error) if is_of_other_bytes(&error) => {
                        Err(AttachProblem::File(AttachError::Changed(path)))
                    }
                    UploadEnd::Refused(error) => {
                        Err(AttachProblem::Server(Problem::Rejected(error)))
                    }
                    UploadEnd::Unreadable => Err(AttachProblem::File(AttachError::Changed(path))),
                };
            }
            Ok(_) => {}
            Err(_) if matches!(client.driver.engine().link(), LinkState::Online { .. }) => {}
            Err(_) => return Err(AttachProblem::Server(Problem::NoServer)),
        }
    }
}

/// Tells whether the bytes that came up were not the ones that were announced.
fn is_of_other_bytes(error: &WireError) -> bool {
    let field = error.details.get("field").and_then(|field| field.as_str());
    error.code == ErrorCode::Validation && field == Some("sha256")
}

fn in_hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A pipe is not opened by `open` alone before somebody writes into it.
fn open_without_waiting(path: &Path) -> io::Result<File> {
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(nonblock).open(path)
}

impl Attached {
    fn open(path: &Path) -> Result<Self, AttachError> {
        let unreadable = |error| AttachError::Unreadable(path.to_owned(), error);
        let file = open_without_waiting(path).map_err(unreadable)?;
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(AttachError::NoFile(path.to_owned()));
        }
        Self::read(path, file).map_err(unreadable)
    }

    fn read(path: &Path, mut file: File) -> io::Result<Self> {
        let mut digest = Sha256::new();
        let mut size_bytes = 0;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = file.read(&mut piece)?;
            size_bytes += read as u64;
            // One that grows while it is read is too large in the end.
            if read == 0 || size_bytes > ATTACHMENT_BYTES_MAX as u64 {
                break;
            }
            digest.update(&piece[..read]);
        }
        file.rewind()?;
        Ok(Self { path: path.to_owned(), file, size_bytes, sha256: in_hex(digest) })
    }

    fn inline(mut self) -> Result<AttachmentParams, AttachError> {
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(self.size_bytes).read_to_end(&mut bytes);
        read.map_err(|error| AttachError::Unreadable(self.path.clone(), error))?;
        Ok(AttachmentParams {
            kind: Some(self.kind()),
            name: Some(self.name()),
            mime_type: Some(self.mime_type().to_owned()),
            data: Some(STANDARD.encode(bytes)),
            ..AttachmentParams::default()
        })
    }

    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn mime_type(&self) -> &'static str {
        let end = self.path.extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase);
        let known = MIME_TYPES.iter().find(|(known, _)| Some(*known) == end.as_deref());
        known.map_or("application/octet-stream", |(_, mime_type)| mime_type)
    }

    fn kind(&self) -> AttachmentKind {
        match self.mime_type().split('/').next() {
            Some("image") => AttachmentKind::Image,
            Some("audio") => AttachmentKind::Audio,
            _ => AttachmentKind::Resource,
        }
    }
}
