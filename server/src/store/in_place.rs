//! Whether the files that an SQLite server has open are still those at their place. Somebody who
//! deletes or replaces them leaves a server that writes where nobody will ever look.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tracing::{error, info};

/// A file by its device and number.
type FileId = (u64, u64);

/// The database and its log, as they were when they were opened.
pub(super) struct OpenFiles {
    files: Vec<(PathBuf, FileId)>,
    in_place: bool,
}

impl OpenFiles {
    /// Notes which files are at the place of a database that is open.
    pub(super) fn of(database: &Path) -> Self {
        let mut log = OsString::from(database);
        log.push("-wal");
        let paths = [database.to_owned(), PathBuf::from(log)];
        let files = paths.into_iter().filter_map(|path| Some((file_id(&path)?, path)));
        Self { files: files.map(|(id, path)| (path, id)).collect(), in_place: true }
    }

    /// Tells whether they are still there. Says so once when they go or come back.
    pub(super) fn are_in_place(&mut self) -> bool {
        let in_place = self.files.iter().all(|(path, id)| file_id(path) == Some(*id));
        if in_place != self.in_place {
            match in_place {
                true => info!("the database is back at its place"),
                false => error!("the database was deleted or replaced: nothing is accepted"),
            }
        }
        self.in_place = in_place;
        in_place
    }
}

fn file_id(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}
