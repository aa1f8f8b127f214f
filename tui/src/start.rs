//! Which session is meant by a client that names none: at the start of the screen, and in the
//! one-shot commands. Pure.

use std::path::Path;

use usher_shared::protocol::session::Session;
use usher_shared::protocol::task::Task;

/// Whether a client and its server see the same files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// A directory has the same name on both sides.
    Shared,
    /// The server may run on another machine, where our directory means nothing.
    Apart,
}

impl Files {
    /// Returns the directory if the server sees it as well.
    pub fn seen<T>(self, directory: Option<T>) -> Option<T> {
        match self {
            Self::Shared => directory,
            Self::Apart => None,
        }
    }
}

/// Returns the session that is meant: the first one whose task works in `directory`, an absolute
/// path without symbolic links; without a directory simply the first one. `sessions` are in the
/// order of `session.list`: the one that was used last comes first.
pub fn meant_session<'a>(
    sessions: &'a [Session],
    tasks: &[Task],
    directory: Option<&str>,
) -> Option<&'a Session> {
    let Some(directory) = directory.map(Path::new) else {
        return sessions.first();
    };
    let works_here = |task: &Task| task.workspace_dir.as_deref().map(Path::new) == Some(directory);
    sessions
        .iter()
        .find(|session| tasks.iter().any(|task| task.id == session.task_id && works_here(task)))
}

/// Returns the directory where this program runs, without symbolic links; None if it is gone or
/// its name is no text.
pub fn current_directory() -> Option<String> {
    let directory = std::env::current_dir().and_then(std::fs::canonicalize).ok()?;
    directory.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use usher_shared::id::{SessionId, TaskId};
    use uuid::Uuid;

    use super::*;
    use crate::app::tests::peer::Peer;

    /// Sessions 1, 2, … in this order, each of a task in its directory.
    fn known(directories: &[Option<&str>]) -> (Vec<Session>, Vec<Task>) {
        let peer = Peer::new(80, 24);
        let numbered = (1..).zip(directories);
        numbered
            .map(|(number, directory)| {
                let task_id = TaskId::from_uuid(Uuid::from_u128(number));
                let session = Session {
                    id: SessionId::from_uuid(Uuid::from_u128(number)),
                    task_id,
                    ..peer.session.clone()
                };
                let task = Task {
                    id: task_id,
                    workspace_dir: directory.map(str::to_owned),
                    ..peer.task()
                };
                (session, task)
            })
            .unzip()
    }

    #[test]
    fn the_first_session_of_this_directory_is_meant() {
        let (sessions, tasks) =
            known(&[None, Some("/src/web"), Some("/src/api/"), Some("/src/api")]);
        for (directory, expected) in [
            (Some("/src/api"), Some(&sessions[2])),
            (Some("/src/web"), Some(&sessions[1])),
            (Some("/work"), None),
            (Some("/src/ap"), None),
            (None, Some(&sessions[0])),
        ] {
            assert_eq!(meant_session(&sessions, &tasks, directory), expected, "{directory:?}");
        }
        // A task that is not listed, such as an archived one.
        assert_eq!(meant_session(&sessions, &tasks[..2], Some("/src/api")), None);
        assert_eq!(meant_session(&[], &tasks, None), None);
    }

    #[test]
    fn a_directory_means_something_only_where_it_is_seen() {
        assert_eq!(Files::Shared.seen(Some("/work")), Some("/work"));
        assert_eq!(Files::Apart.seen(Some("/work")), None);
    }
}
