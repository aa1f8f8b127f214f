//! Processes of agents whose server is gone.
//!
//! A server that is killed cannot end its agents. So every process of an agent carries a mark in
//! its environment, which all it starts inherit, even what leaves its process group. The mark
//! names the lock of the data directory: who holds that lock is the only server that may have
//! such processes, and whatever it finds at its start is left over.

use std::io;
use std::path::Path;

/// The variable that carries the mark.
pub(super) const MARK: &str = "USHER_AGENT_OF";

/// Names the server that agents belong to, over its restarts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner(String);

impl Owner {
    /// Names the server that holds the lock on this file.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn of(lock_file: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let file = std::fs::metadata(lock_file)?;
        Ok(Self(format!("{}-{}", file.dev(), file.ino())))
    }

    /// Returns the mark.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether an environment, as the system shows it, carries this mark.
    fn marks(&self, environment: &[u8]) -> bool {
        environment.split(|byte| *byte == 0).any(|variable| {
            let value = variable.strip_prefix(MARK.as_bytes());
            value.and_then(|value| value.strip_prefix(b"=")) == Some(self.0.as_bytes())
        })
    }
}

/// Ends every process that an earlier server of this owner left behind; returns how many. Call it
/// only while holding the lock. Systems that do not show environments have none to end.
pub fn end_orphans(owner: &Owner) -> usize {
    #[cfg(target_os = "linux")]
    return linux::end_orphans(owner);
    #[cfg(not(target_os = "linux"))]
    return 0;
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashSet;
    use std::fs;

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    use super::Owner;

    /// A process may start others while it is being found: look again, but not for ever.
    const PASSES_MAX: usize = 16;

    pub(super) fn end_orphans(owner: &Owner) -> usize {
        let mut ended = HashSet::new();
        for _ in 0..PASSES_MAX {
            let before = ended.len();
            ended.extend(processes().filter(|pid| end_if_marked(*pid, owner)));
            if ended.len() == before {
                break;
            }
        }
        ended.len()
    }

    fn processes() -> impl Iterator<Item = i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// The process is opened before it is looked at, so that its number cannot have passed to
    /// another one when the signal is sent.
    fn end_if_marked(number: i32, owner: &Owner) -> bool {
        let Some(process) =
            Pid::from_raw(number).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            return false;
        };
        // Those of other users cannot be read, and are not ours.
        let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
        owner.marks(&environment) && pidfd_send_signal(process, Signal::KILL).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_mark_of_the_same_owner_counts() {
        let owner = Owner("1-23".to_owned());
        for environment in ["USHER_AGENT_OF=1-23", "A=b\0USHER_AGENT_OF=1-23\0C=d\0"] {
            assert!(owner.marks(environment.as_bytes()), "{environment:?}");
        }
        for environment in [
            "",
            "USHER_AGENT_OF=1-2",
            "USHER_AGENT_OF=1-234",
            "USHER_AGENT_OF",
            "X=USHER_AGENT_OF=1-23",
            "XUSHER_AGENT_OF=1-23",
            "USHER_AGENT_OFX=1-23",
        ] {
            assert!(!owner.marks(environment.as_bytes()), "{environment:?}");
        }
    }

    #[test]
    fn the_same_file_is_the_same_owner_and_a_copy_is_another() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        std::fs::write(&one, "").unwrap();
        std::fs::copy(&one, &two).unwrap();
        assert_eq!(Owner::of(&one).unwrap(), Owner::of(&one).unwrap());
        assert_ne!(Owner::of(&one).unwrap(), Owner::of(&two).unwrap());
        assert!(Owner::of(&directory.path().join("three")).is_err());
    }
}
