//! The lock by which a process owns its rows.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// How often a lock file is made anew if somebody else takes it for that of a dead process.
const ATTEMPTS_MAX: u32 = 16;

/// A running client, as the owner of rows. Dropping it ends the ownership.
#[derive(Debug)]
pub(super) struct Owner {
    id: Uuid,
    path: PathBuf,
    _lock: File,
}

impl Owner {
    /// Makes a lock of this process in `folder`, which is made if it is missing.
    pub(super) fn register(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        for _ in 0..ATTEMPTS_MAX {
            let id = Uuid::new_v4();
            let path = lock_file(folder, id);
            let mut options = OpenOptions::new();
            let lock = options.write(true).create_new(true).mode(0o600).open(&path)?;
            lock.lock()?;
            // Between the two lines above somebody may have found it unlocked and removed it.
            if is_at(&lock, &path) {
                return Ok(Self { id, path, _lock: lock });
            }
        }
        Err(io::Error::from(io::ErrorKind::WouldBlock))
    }

    pub(super) const fn id(&self) -> Uuid {
        self.id
    }

    /// Removes the lock file: nothing in the journal belongs to this process any more.
    pub(super) fn sign_off(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// An owner whose process is gone. As long as this lives, nobody else takes over from it.
#[derive(Debug)]
pub(super) struct DeadOwner {
    pub(super) id: Uuid,
    path: PathBuf,
    /// None: the file was gone already.
    _lock: Option<File>,
}

impl DeadOwner {
    /// Returns the owner if its process is gone and nobody else is taking over from it.
    pub(super) fn find(folder: &Path, id: Uuid) -> Option<Self> {
        let path = lock_file(folder, id);
        match File::open(&path) {
            Ok(lock) => match lock.try_lock() {
                Ok(()) => Some(Self { id, path, _lock: Some(lock) }),
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Some(Self { id, path, _lock: None })
            }
            Err(_) => None,
        }
    }

    /// Returns the owners that have a lock file, dead or alive.
    pub(super) fn candidates(folder: &Path) -> Vec<Uuid> {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        names.filter_map(|name| name.strip_suffix(".lock")?.parse().ok()).collect()
    }

    /// Removes its lock file: it has no rows left.
    pub(super) fn bury(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn lock_file(folder: &Path, id: Uuid) -> PathBuf {
    folder.join(format!("{id}.lock"))
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(held), Ok(there)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    (held.dev(), held.ino()) == (there.dev(), there.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_dead_only_when_its_lock_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let owner = Owner::register(folder.path()).unwrap();
        let id = owner.id();
        assert_eq!(DeadOwner::candidates(folder.path()), [id]);
        assert!(DeadOwner::find(folder.path(), id).is_none(), "it lives");
        drop(owner);
        let dead = DeadOwner::find(folder.path(), id).expect("it is gone");
        assert!(DeadOwner::find(folder.path(), id).is_none(), "one heir at a time");
        dead.bury();
        drop(dead);
        assert!(DeadOwner::candidates(folder.path()).is_empty());
        assert!(DeadOwner::find(folder.path(), id).is_some(), "without a file nobody holds it");
    }

    #[test]
    fn other_files_in_the_folder_are_no_owners() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x.lock", "notes", ".lock"] {
            File::create(folder.path().join(name)).unwrap();
        }
        assert!(DeadOwner::candidates(folder.path()).is_empty());
    }
}
