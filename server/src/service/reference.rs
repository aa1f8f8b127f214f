//! What prompts point at: files of the task's directory, sessions and tasks of the caller.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use usher_shared::id::{SessionId, TaskId};
use usher_shared::vocabulary::ReferenceKind;

use super::Service;
use crate::domain::edit::Pointing;
use crate::domain::enclosed::{ContextFile, Reference};
use crate::domain::session::{Caller, Standing, Target, authorize};
use crate::store::{Reads, StoreError};

impl Service {
    /// Tells whether everything that a prompt points at is there: sessions and tasks of the caller, and
    /// files that an agent can read in the directory of the task, whatever links lead to them. Looked
    /// at before the decision, which must not wait for a file system.
    pub(super) async fn pointing(
        &self,
        caller: &Caller,
        target: Target,
        references: &[Reference],
        files: &[ContextFile],
    ) -> Result<Pointing, StoreError> {
        if references.is_empty() && files.is_empty() {
            return Ok(Pointing::There);
        }
        let named = references.iter().filter(|one| one.kind == ReferenceKind::File);
        let paths = named.map(|one| &one.id).chain(files.iter().map(|file| &file.path));
        let paths: Vec<PathBuf> = paths.map(PathBuf::from).collect();
        let (references, caller) = (references.to_vec(), caller.clone());
        let found = self.store.read(move |reads| {
            // Whoever may not see the session is refused for that.
            let session = authorize(reads.session(target.session_id)?, &target, &caller).ok();
            let owned = owned(reads, &caller, &references)?;
            Ok::<_, StoreError>((session.and_then(|session| session.workspace_dir), owned))
        });
        let directory = match found.await? {
            (_, Pointing::Nowhere) => return Ok(Pointing::Nowhere),
            (_, Pointing::There) if paths.is_empty() => return Ok(Pointing::There),
            (None, Pointing::There) => return Ok(Pointing::Nowhere),
            (Some(directory), Pointing::There) => directory,
        };
        let looked = tokio::task::spawn_blocking(move || all_inside(Path::new(&directory), &paths));
        looked.await.map_err(|_| StoreError::Closed)
    }
}

/// Tells whether the sessions and tasks that are named are the caller's.
fn owned(
    reads: &mut Reads<'_>,
    caller: &Caller,
    references: &[Reference],
) -> Result<Pointing, StoreError> {
    for reference in references {
        let is_there = match reference.kind {
            // Looked at in the file system.
            ReferenceKind::File => true,
            ReferenceKind::Session => {
                let id = SessionId::parse_or_nil(&reference.id);
                reads.session(id)?.is_some_and(|session| {
                    session.owner == caller.id && session.standing != Standing::Gone
                })
            }
            ReferenceKind::Task => {
                let task = reads.task(TaskId::parse_or_nil(&reference.id))?;
                task.is_some_and(|task| task.owner.id == caller.id)
            }
        };
        if !is_there {
            return Ok(Pointing::Nowhere);
        }
    }
    Ok(Pointing::There)
}

fn all_inside(directory: &Path, paths: &[PathBuf]) -> Pointing {
    let Ok(directory) = directory.canonicalize() else {
        return Pointing::Nowhere;
    };
    let is_inside = |path: &PathBuf| {
        directory.join(path).canonicalize().is_ok_and(|found| {
            found.starts_with(&directory)
                && (found.is_file() || found.is_dir())
                && access(&found, Access::READ_OK).is_ok()
        })
    };
    match paths.iter().all(is_inside) {
        true => Pointing::There,
        false => Pointing::Nowhere,
    }
}
