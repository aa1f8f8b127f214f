//! Where usher keeps its things, by the XDG base directories.
//!
//! Every folder that is made here is private to the user. One that exists and is not is refused:
//! on a shared machine somebody else could have put it there.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use etcetera::base_strategy::{BaseStrategy, Xdg};

/// The places of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The socket of the user's own server.
    pub socket: PathBuf,
    /// The own server's database, token and lock.
    pub data_dir: PathBuf,
    /// Logs.
    pub log_dir: PathBuf,
    /// What clients are about to send, and drafts.
    pub journal_dir: PathBuf,
    /// The configuration, which may not exist.
    pub config_file: PathBuf,
}

/// Why there are no paths, or why one cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// Neither `HOME` nor the user database names a home directory.
    #[error("no home directory")]
    NoHome,
    /// The folder cannot be made or looked at.
    #[error("{0}: {1}")]
    Unusable(PathBuf, #[source] io::Error),
    /// The folder belongs to somebody else, or others may write or read in it.
    #[error("{0} is not private to this user")]
    NotPrivate(PathBuf),
}

impl Paths {
    /// Finds the places of the user that runs this process.
    ///
    /// # Errors
    /// If there is no home directory.
    pub fn of_user() -> Result<Self, PathsError> {
        let xdg = Xdg::new().map_err(|_| PathsError::NoHome)?;
        let runtime_dir = match xdg.runtime_dir() {
            Some(runtime_dir) => runtime_dir.join("usher"),
            None => {
                let uid = rustix::process::geteuid().as_raw();
                std::env::temp_dir().join(format!("usher-{uid}"))
            }
        };
        let state_dir = xdg.state_dir().unwrap_or_else(|| xdg.data_dir());
        Ok(Self {
            socket: runtime_dir.join("usher.sock"),
            data_dir: xdg.data_dir().join("usher"),
            log_dir: state_dir.join("usher"),
            journal_dir: state_dir.join("usher").join("journal"),
            config_file: xdg.config_dir().join("usher").join("config.toml"),
        })
    }

    /// Makes the folders of the own server where they are missing.
    ///
    /// # Errors
    /// If one cannot be made, or is not private.
    pub fn prepare(&self) -> Result<(), PathsError> {
        for folder in [self.socket_dir(), &self.data_dir, &self.log_dir] {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700);
            let made = builder.create(folder);
            made.map_err(|error| PathsError::Unusable(folder.to_owned(), error))?;
        }
        self.check_socket_dir()
    }

    /// Looks whether the socket's folder, if it exists, is the user's alone: nobody else can have
    /// put a socket there.
    ///
    /// # Errors
    /// If it is not, or cannot be looked at.
    pub fn check_socket_dir(&self) -> Result<(), PathsError> {
        let folder = self.socket_dir();
        let found = match std::fs::symlink_metadata(folder) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(PathsError::Unusable(folder.to_owned(), error)),
        };
        let ours = found.uid() == rustix::process::geteuid().as_raw();
        let others_in = found.mode() & 0o077 != 0;
        if found.is_dir() && ours && !others_in {
            Ok(())
        } else {
            Err(PathsError::NotPrivate(folder.to_owned()))
        }
    }

    fn socket_dir(&self) -> &Path {
        self.socket.parent().unwrap_or(Path::new("/"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn paths_in(root: &Path) -> Paths {
        Paths {
            socket: root.join("run").join("usher.sock"),
            data_dir: root.join("data"),
            log_dir: root.join("state"),
            journal_dir: root.join("state").join("journal"),
            config_file: root.join("config.toml"),
        }
    }

    #[test]
    fn folders_are_made_private_and_stay_usable() {
        let root = tempfile::tempdir().unwrap();
        let paths = paths_in(root.path());
        assert!(paths.check_socket_dir().is_ok());
        paths.prepare().unwrap();
        paths.prepare().unwrap();
        for folder in ["run", "data", "state"] {
            let mode = fs::metadata(root.path().join(folder)).unwrap().mode();
            assert_eq!(mode & 0o777, 0o700, "{folder}");
        }
    }

    #[test]
    fn a_socket_folder_that_others_can_enter_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let paths = paths_in(root.path());
        paths.prepare().unwrap();
        let run = root.path().join("run");
        fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(
            paths.check_socket_dir(),
            Err(PathsError::NotPrivate(folder)) if folder == run
        ));
    }

    #[test]
    fn a_link_in_the_place_of_the_socket_folder_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), root.path().join("run")).unwrap();
        let refused = paths_in(root.path()).check_socket_dir();
        assert!(matches!(refused, Err(PathsError::NotPrivate(_))));
    }
}
