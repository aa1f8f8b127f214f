//! Copies the files of attachments beside the copy of a database.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use super::files::OBJECTS;

/// Gives `to` every file that is whole in the folder of a data directory's attachments, laid out as
/// there, and for good; what it has already is not copied again. A file is never changed once it is
/// whole, so on one file system both folders name the same one. Without any, `to` is not made.
pub(in crate::store) fn copy_objects(root: &Path, to: &Path) -> io::Result<()> {
    let objects = match fs::read_dir(root.join(OBJECTS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        objects => objects?,
    };
    for folder in objects {
        let folder = folder?;
        let copy = to.join(folder.file_name());
        let mut is_new = false;
        for file in fs::read_dir(folder.path())? {
            let file = file?;
            let target = copy.join(file.file_name());
            if !target.exists() {
                DirBuilder::new().recursive(true).mode(0o700).create(&copy)?;
                copy_file(&file.path(), &target)?;
                is_new = true;
            }
        }
        if is_new {
            File::open(&copy)?.sync_all()?;
            File::open(to)?.sync_all()?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        // Nothing carried it any more, and the server deleted it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(()) => Ok(()),
        // Another file system, or one without second names.
        Err(_) => {
            fs::copy(from, to)?;
            File::open(to)?.sync_all()
        }
    }
}
