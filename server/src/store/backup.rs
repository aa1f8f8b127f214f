//! Copies the database of a running server into one file, without holding the server up, and the
//! files of its attachments, if there are any, into a folder beside it.
//!
//! The copy is of one committed state: a read transaction is open from before the first page to
//! after the last. So commits go on meanwhile and the copy need not begin anew when one happens,
//! as it would without: under load it would never end. Pages are copied as they are, a MiB at a
//! time, and synced as they come, so that no commit waits behind one large write. Under its final
//! name the file is whole or not there.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

use super::StoreFiles;
use super::attachments::copy_objects;
use super::error::StoreError;
use super::reads::Reads;
use super::sqlite::{self, Sqlite, store_error};

/// Pages of one step: 1 MiB.
const STEP_PAGES: i32 = 256;
/// What the machine's other work gets between two steps.
const PAUSE: Duration = Duration::from_millis(1);
/// The copy is synced every so many steps.
const SYNC_STEPS: u32 = 8;
/// Steps that may find the copy locked, one after the other, before it counts as somebody else's.
const LOCKED_MAX: u32 = 1_000;

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// Nothing is ever overwritten.
    #[error("{0} exists")]
    Exists(PathBuf),
    /// Another backup writes the same file.
    #[error("another backup to {0} is under way")]
    UnderWay(PathBuf),
    /// The database cannot be read or copied.
    #[error("{path}: {error}")]
    Store {
        /// The database or its copy.
        path: PathBuf,
        /// What happened.
        error: StoreError,
    },
    /// The copy cannot be written.
    #[error("{path}: {error}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
}

/// Copies the database of a data directory to `target`, readable to its user alone; returns the
/// copy's size in bytes.
///
/// # Errors
/// See [`BackupError`]; `target` is not there then.
pub fn backup(files: &StoreFiles, target: &Path) -> Result<u64, BackupError> {
    let exists = || BackupError::Exists(target.to_owned());
    if target.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let folder = with_ending(target, ".attachments");
    if folder.symlink_metadata().is_ok() {
        return Err(BackupError::Exists(folder));
    }
    let partial = with_ending(target, ".partial");
    let file = open_partial(&partial)?;
    let written = copy_all(files, target, &folder, &partial, &file);
    if written.is_err() {
        // What is left of it would be overwritten by the next try anyway.
        drop(fs::remove_file(&partial));
        drop(fs::remove_dir_all(&folder));
    }
    written
}

fn copy_all(
    files: &StoreFiles,
    target: &Path,
    folder: &Path,
    partial: &Path,
    file: &File,
) -> Result<u64, BackupError> {
    let exists = || BackupError::Exists(target.to_owned());
    let of_database = |error| BackupError::Store { path: files.database.clone(), error };
    let of_copy = |error| BackupError::Write { path: partial.to_owned(), error };
    let of_folder = |error| BackupError::Write { path: folder.to_owned(), error };
    // What is deleted after the state that is copied was there before it; what is new in it comes
    // with the second look.
    copy_objects(&files.attachments, folder).map_err(of_folder)?;
    let source = open_source(files).map_err(of_database)?;
    copy_objects(&files.attachments, folder).map_err(of_folder)?;
    let copied = copy(&source, partial, file);
    copied.and_then(|()| {
        let bytes = file.sync_all().and_then(|()| file.metadata()).map_err(of_copy)?.len();
        match publish(partial, target) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists()),
            Err(error) => Err(of_copy(error)),
        }
    })
}

/// Opens the database and fixes the state that is copied.
fn open_source(files: &StoreFiles) -> Result<Sqlite, StoreError> {
    let mut source = sqlite::open_from_outside(&files.database)?;
    Reads::new(&mut source).store_id()?;
    Ok(source)
}

fn with_ending(target: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(target);
    name.push(ending);
    PathBuf::from(name)
}

/// Opens the file under its first name, empty and ours: one that a killed backup left is used
/// again, one that another backup writes is not.
fn open_partial(partial: &Path) -> Result<File, BackupError> {
    let of_copy = |error| BackupError::Write { path: partial.to_owned(), error };
    let under_way = || BackupError::UnderWay(partial.to_owned());
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let file = options.open(partial).map_err(of_copy)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(under_way()),
        Err(TryLockError::Error(error)) => return Err(of_copy(error)),
    }
    // Another backup may have given this very file its final name just now.
    let opened = file.metadata().map_err(of_copy)?;
    let named = partial.symlink_metadata().map_err(of_copy)?;
    if (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
        return Err(under_way());
    }
    file.set_len(0).map_err(of_copy)?;
    file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(of_copy)?;
    Ok(file)
}

fn copy(source: &Sqlite, partial: &Path, file: &File) -> Result<(), BackupError> {
    let of_copy = |error| BackupError::Write { path: partial.to_owned(), error };
    let failed = |error| BackupError::Store { path: partial.to_owned(), error };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let open = || {
        let conn = Connection::open_with_flags(partial, flags)?;
        // Nobody goes back to an unfinished copy, and syncing it is up to us.
        conn.pragma_update(None, "journal_mode", "OFF")?;
        conn.pragma_update(None, "synchronous", "OFF")?;
        Ok(conn)
    };
    let mut conn = open().map_err(|error| failed(store_error(error)))?;
    let backup =
        Backup::new(&source.conn, &mut conn).map_err(|error| failed(store_error(error)))?;
    let (mut steps, mut locked) = (0, 0);
    loop {
        match backup.step(STEP_PAGES).map_err(|error| failed(store_error(error)))? {
            StepResult::Done => return Ok(()),
            StepResult::More => (steps, locked) = (steps + 1, 0),
            _ if locked < LOCKED_MAX => locked += 1,
            _ => return Err(BackupError::UnderWay(partial.to_owned())),
        }
        if steps % SYNC_STEPS == 0 {
            file.sync_data().map_err(of_copy)?;
        }
        thread::sleep(PAUSE);
    }
}

/// Gives the file its final name, unless another has it, for good.
fn publish(partial: &Path, target: &Path) -> io::Result<()> {
    match renameat_with(CWD, partial, CWD, target, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // Not on every file system: a second name does not replace either.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            fs::hard_link(partial, target)?;
            fs::remove_file(partial)?;
        }
        Err(error) => return Err(error.into()),
    }
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::super::check::check;
    use super::super::{Sync, sqlite::open_writer};
    use super::*;

    fn files(dir: &Path) -> StoreFiles {
        let files = StoreFiles::of(dir);
        open_writer(&files.database, Sync::Full).unwrap();
        files
    }

    #[test]
    fn a_copy_is_private_whole_and_all_that_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let to = tempfile::tempdir().unwrap();
        let target = to.path().join("usher.db");
        let bytes = backup(&files, &target).unwrap();
        let metadata = target.metadata().unwrap();
        assert_eq!((metadata.len(), metadata.mode() & 0o777), (bytes, 0o600));
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
        assert_eq!(check(&StoreFiles::of(to.path())).unwrap().violations, Vec::new());
    }

    #[test]
    fn what_is_there_is_not_overwritten_and_what_another_backup_writes_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let target = dir.path().join("copy");
        fs::write(&target, "precious").unwrap();
        assert!(matches!(backup(&files, &target), Err(BackupError::Exists(_))));
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        fs::remove_file(&target).unwrap();

        let other = open_partial(&with_ending(&target, ".partial")).unwrap();
        assert!(matches!(backup(&files, &target), Err(BackupError::UnderWay(_))));
        drop(other);
        let folder = with_ending(&target, ".attachments");
        fs::create_dir(&folder).unwrap();
        assert!(
            matches!(backup(&files, &target), Err(BackupError::Exists(path)) if path == folder)
        );
        fs::remove_dir(&folder).unwrap();
        // What a killed one left is used again, and so is nothing that a link points to.
        fs::write(with_ending(&target, ".partial"), [7; 10_000]).unwrap();
        backup(&files, &target).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::write(&elsewhere, "precious").unwrap();
        let second = dir.path().join("second");
        std::os::unix::fs::symlink(&elsewhere, with_ending(&second, ".partial")).unwrap();
        assert!(matches!(backup(&files, &second), Err(BackupError::Write { .. })));
        assert_eq!(fs::read(&elsewhere).unwrap(), b"precious");
    }

    #[test]
    fn a_copy_that_fails_leaves_nothing_and_nothing_is_copied_from_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("copy");
        let nothing = StoreFiles::of(dir.path());
        assert!(matches!(backup(&nothing, &target), Err(BackupError::Store { .. })));
        let files = files(dir.path());
        let nowhere = dir.path().join("no/such/folder");
        assert!(matches!(backup(&files, &nowhere), Err(BackupError::Write { .. })));
        let other = tempfile::tempdir().unwrap();
        let garbage = StoreFiles::of(other.path());
        fs::write(&garbage.database, "not a database, whatever its name may be").unwrap();
        assert!(matches!(backup(&garbage, &target), Err(BackupError::Store { .. })));
        assert!(!target.exists() && !with_ending(&target, ".partial").exists());
    }
}
