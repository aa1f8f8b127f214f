//! The bytes of attachments as files of the data directory.
//!
//! `incoming` holds what is on its way, each file named after its upload; `objects` what is whole,
//! each named after its SHA-256, so that it is there once however many prompts carry it. A file gets
//! its name in `objects` only when its bytes are on disk, and before the commit that speaks of it.
//! What no row speaks of any more is deleted by `Reads::tidy_attachments`.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use usher_shared::id::AttachmentId;

use super::super::error::StoreError;
use super::{Held, Whole};
use crate::domain::attachment::{AppendRefusal, ContentDigest, Described, new_part};

/// What is read at once, bytes.
const CHUNK_BYTES: usize = 65_536;
/// The folder of what is whole.
pub(super) const OBJECTS: &str = "objects";
/// What an inline attachment is called until it is whole.
const UNFINISHED: &str = "new";

/// See the module.
#[derive(Debug)]
pub(in crate::store) struct AttachmentFiles {
    incoming: PathBuf,
    objects: PathBuf,
    pins: Mutex<Pins>,
}

/// Which objects must stay although no row may speak of them yet.
#[derive(Debug, Default)]
struct Pins {
    held: HashMap<ContentDigest, usize>,
    /// While somebody tidies: all that were held since the rows were looked at.
    since: Option<HashSet<ContentDigest>>,
}

/// Keeps an object from being tidied away until the row that speaks of it is committed.
#[derive(Debug)]
pub(in crate::store) struct Pin {
    files: Arc<AttachmentFiles>,
    digest: ContentDigest,
}

impl Pin {
    /// Returns what it keeps.
    pub(super) const fn digest(&self) -> ContentDigest {
        self.digest
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.files.pins();
        if let Some(count) = pins.held.get_mut(&self.digest) {
            *count -= 1;
            if *count == 0 {
                pins.held.remove(&self.digest);
            }
        }
    }
}

impl AttachmentFiles {
    /// Makes the folders, readable to their user alone, and forgets what a killed server was about to
    /// write.
    pub(in crate::store) fn open(root: &Path) -> Result<Self, StoreError> {
        let files = Self {
            incoming: root.join("incoming"),
            objects: root.join(OBJECTS),
            pins: Mutex::default(),
        };
        make_folder(&files.incoming)?;
        make_folder(&files.objects)?;
        for path in entries(&files.incoming)? {
            if path.extension().is_some_and(|ending| ending == UNFINISHED) {
                remove(&path)?;
            }
        }
        Ok(files)
    }

    fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pin(self: &Arc<Self>, digest: ContentDigest) -> Pin {
        let mut pins = self.pins();
        *pins.held.entry(digest).or_default() += 1;
        if let Some(since) = &mut pins.since {
            since.insert(digest);
        }
        Pin { files: Arc::clone(self), digest }
    }

    fn arriving(&self, id: AttachmentId) -> PathBuf {
        self.incoming.join(id.to_string())
    }

    fn object(&self, digest: ContentDigest) -> PathBuf {
        object_in(&self.objects, digest)
    }

    /// Adds bytes to an upload; returns how many there are now.
    pub(in crate::store) fn append(
        &self,
        id: AttachmentId,
        size: u64,
        offset: u64,
        data: &[u8],
    ) -> Result<Result<u64, AppendRefusal>, StoreError> {
        let mut options = File::options();
        options.read(true).write(true).create(offset == 0).truncate(false).mode(0o600);
        let file = match options.open(self.arriving(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(new_part(size, 0, offset, data.len()).map(|_| 0));
            }
            opened => opened.map_err(failed)?,
        };
        // Until it is closed: two links may send the same part.
        file.lock().map_err(failed)?;
        let received = file.metadata().map_err(failed)?.len();
        let new = match new_part(size, received, offset, data.len()) {
            Ok(new) => &data[new],
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Err(error) = file.write_all_at(new, received) {
            // What is there is what was answered.
            drop(file.set_len(received));
            return Err(failed(error));
        }
        Ok(Ok(received + new.len() as u64))
    }

    /// Looks whether an upload is whole, and makes an object of it.
    pub(in crate::store) fn settle(
        self: &Arc<Self>,
        id: AttachmentId,
        about: &Described,
    ) -> Result<Whole, StoreError> {
        let path = self.arriving(id);
        let file = match File::open(&path) {
            // Of nothing, nothing was sent.
            Err(error) if error.kind() == io::ErrorKind::NotFound && about.size_bytes == 0 => {
                let mut options = File::options();
                let file = options.read(true).write(true).create(true).truncate(false).mode(0o600);
                file.open(&path).map_err(failed)?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Whole::Short { received: 0 });
            }
            opened => opened.map_err(failed)?,
        };
        let received = file.metadata().map_err(failed)?.len();
        if received < about.size_bytes {
            return Ok(Whole::Short { received });
        }
        if digest_of(&file).map_err(failed)? != about.sha256 || received != about.size_bytes {
            return Ok(Whole::Others);
        }
        file.sync_all().map_err(failed)?;
        let pin = self.pin(about.sha256);
        self.publish(&path, about)?;
        Ok(Whole::Yes(Held(vec![pin])))
    }

    /// Makes an object of bytes that came inside a request.
    pub(in crate::store) fn put(
        self: &Arc<Self>,
        id: AttachmentId,
        about: &Described,
        data: &[u8],
    ) -> Result<Pin, StoreError> {
        let pin = self.pin(about.sha256);
        if self.has(about)? {
            return Ok(pin);
        }
        let path = self.arriving(id).with_extension(UNFINISHED);
        let write = || {
            let file =
                File::options().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
            file.write_all_at(data, 0)?;
            file.sync_all()
        };
        let written = write().map_err(failed).and_then(|()| self.publish(&path, about));
        let removed = remove(&path);
        written.and(removed).map(|()| pin)
    }

    /// Tells whether an object is there, and still what its name says.
    fn has(&self, about: &Described) -> Result<bool, StoreError> {
        is_whole(&self.object(about.sha256), about.sha256)
    }

    /// Gives a synced file a second name, for good. The first one goes when the row is committed.
    fn publish(&self, path: &Path, about: &Described) -> Result<(), StoreError> {
        let object = self.object(about.sha256);
        let folder = object.parent().unwrap_or(&self.objects);
        if !folder.is_dir() {
            make_folder(folder)?;
            sync_folder(&self.objects)?;
        }
        match fs::hard_link(path, &object) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if self.has(about)? {
                    return Ok(());
                }
                // Somebody damaged it: these bytes were looked at just now.
                fs::rename(path, &object).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        sync_folder(folder)
    }

    /// Forgets the bytes of an upload that is finished or given up.
    pub(in crate::store) fn forget_arriving(&self, id: AttachmentId) -> Result<(), StoreError> {
        remove(&self.arriving(id))
    }

    /// Reads bytes of an object.
    pub(in crate::store) fn read(
        &self,
        digest: ContentDigest,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, StoreError> {
        let file = open_object(&self.object(digest)).map_err(missing)?;
        let mut data = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match file.read_at(&mut data[filled..], offset + filled as u64).map_err(failed)? {
                0 => break,
                read => filled += read,
            }
        }
        data.truncate(filled);
        Ok(data)
    }

    /// Copies an object to a file of its own, and looks whether the copy is what its name says.
    pub(in crate::store) fn copy(&self, about: &Described, to: &Path) -> Result<(), StoreError> {
        let mut object = open_object(&self.object(about.sha256)).map_err(missing)?;
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(to)
            .map_err(failed)?;
        io::copy(&mut object, &mut file).map_err(failed)?;
        file.rewind().map_err(failed)?;
        match digest_of(&file).map_err(failed)? == about.sha256 {
            true => Ok(()),
            false => Err(StoreError::Damaged("an attachment is not what it was")),
        }
    }

    /// Names what is on its way: to be asked for before the rows are looked at.
    pub(in crate::store) fn all_arriving(&self) -> Result<Vec<AttachmentId>, StoreError> {
        let paths = entries(&self.incoming)?;
        let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
        let ids = names.map(AttachmentId::parse_or_nil);
        Ok(ids.filter(|id| *id != AttachmentId::default()).collect())
    }

    /// From here on [`Self::remove_object`] keeps what is held meanwhile. To be called before the rows
    /// are looked at.
    pub(in crate::store) fn begin_tidying(&self) {
        let mut pins = self.pins();
        pins.since = Some(pins.held.keys().copied().collect());
    }

    /// Names every object.
    pub(in crate::store) fn all_objects(&self) -> Result<Vec<ContentDigest>, StoreError> {
        let mut found = Vec::new();
        for folder in entries(&self.objects)? {
            let Some(start) = folder.file_name().and_then(|name| name.to_str()) else { continue };
            for path in entries(&folder)? {
                let rest = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                found.extend(ContentDigest::parse(&[start, rest].concat()));
            }
        }
        Ok(found)
    }

    /// Deletes an object that no row spoke of, unless it was held since tidying began.
    pub(in crate::store) fn remove_object(&self, digest: ContentDigest) -> Result<(), StoreError> {
        let pins = self.pins();
        let is_held = pins.since.as_ref().is_none_or(|since| since.contains(&digest));
        // Nobody can begin to hold it while it goes.
        if is_held { Ok(()) } else { remove(&self.object(digest)) }
    }
}

/// Returns where an object is below the folder of a data directory's attachments.
pub(in crate::store) fn object_path(root: &Path, digest: ContentDigest) -> PathBuf {
    object_in(&root.join(OBJECTS), digest)
}

/// Tells whether a file is there, and is what an object of this name has to be.
pub(in crate::store) fn is_whole(object: &Path, digest: ContentDigest) -> Result<bool, StoreError> {
    match open_object(object).and_then(|file| digest_of(&file)) {
        Ok(found) => Ok(found == digest),
        Err(error) => match missing(error) {
            StoreError::Damaged(_) => Ok(false),
            error => Err(error),
        },
    }
}

/// Opens what must be a plain file: nothing that leads elsewhere, and nothing that waits.
fn open_object(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

/// What is not there, or is no plain file, is a damage; the rest is a failure.
fn missing(error: io::Error) -> StoreError {
    let is_other = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            StoreError::Damaged("an attachment is missing")
        }
        _ if is_other => StoreError::Damaged("an attachment is missing"),
        _ => failed(error),
    }
}

fn object_in(objects: &Path, digest: ContentDigest) -> PathBuf {
    let name = digest.to_string();
    objects.join(&name[..2]).join(&name[2..])
}

fn digest_of(mut file: &File) -> io::Result<ContentDigest> {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(ContentDigest(hash.finalize().into())),
            read => hash.update(&chunk[..read]),
        }
    }
}

pub(super) fn make_folder(path: &Path) -> Result<(), StoreError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)
}

/// Removes a folder with all that is in it, also where somebody made it read-only.
pub(super) fn remove_all(folder: &Path) -> Result<(), StoreError> {
    let removed = fs::remove_dir_all(folder).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => {
            make_writable(folder)?;
            fs::remove_dir_all(folder)
        }
    });
    removed.map_err(failed)
}

fn make_writable(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

fn sync_folder(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(failed)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let listed = fs::read_dir(folder).map_err(failed)?;
    listed.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

/// What is gone already is removed.
fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(failed),
    }
}

/// What a failed file operation means. Its path is not told: it may hold a user's file name.
pub(super) fn failed(error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full,
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => StoreError::ReadOnly,
        kind => StoreError::Io(kind.to_string()),
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
