//! The process of an agent and everything it starts: a process group that never outlives its
//! owner.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use super::orphans::{MARK, Owner};

/// Variables that every agent gets from the server's environment. `TERM` is always `dumb`: an
/// agent writes to a pipe.
const ENV_KEPT: [&str; 4] = ["PATH", "HOME", "LANG", "USER"];
/// Settings of the server itself, secrets among them, start with this and are never handed on.
const ENV_OWN_PREFIX: &str = "USHER_";

/// Returns a command that runs `program` in `directory`, in a process group of its own, with
/// pipes for all three streams and an environment that holds nothing but what agents may see and
/// the mark of their owner.
pub(super) fn command(
    program: &str,
    args: &[String],
    env_from: &[String],
    directory: &Path,
    owner: Option<&Owner>,
) -> Command {
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(directory)
        .env_clear()
        .envs(environment(env_from, |name| std::env::var_os(name)))
        .envs(owner.map(|owner| (MARK, owner.as_str())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command
}

/// Picks the variables an agent gets out of those that `lookup` knows.
fn environment(
    env_from: &[String],
    lookup: impl Fn(&str) -> Option<OsString>,
) -> Vec<(&str, OsString)> {
    let named = env_from
        .iter()
        .map(String::as_str)
        .filter(|name| !name.is_empty() && !name.contains(['=', '\0']))
        .filter(|name| !name.starts_with(ENV_OWN_PREFIX));
    ENV_KEPT
        .into_iter()
        .chain(named)
        .filter_map(|name| Some((name, lookup(name)?)))
        .chain([("TERM", OsString::from("dumb"))])
        .collect()
}

/// A process group; killed when dropped.
pub(super) struct ProcessGroup {
    leader: Pid,
}

impl ProcessGroup {
    /// Takes charge of the group that `child` leads.
    pub(super) fn of(child: &Child) -> io::Result<Self> {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        match pid.and_then(Pid::from_raw) {
            Some(leader) => Ok(Self { leader }),
            None => Err(io::Error::other("process has no id")),
        }
    }

    /// Asks every process of the group to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends every process of the group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// The number of a group is not given to another one while a member lives. Once all are gone
    /// it is free, in theory, but numbers are handed out in a circle of at least 32,768: the owner
    /// drops the group in the same step in which it learns that the leader has ended.
    fn signal(&self, signal: Signal) {
        // Nothing to report: the only answers are "sent" and "nobody there any more".
        let _ = kill_process_group(self.leader, signal);
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_see_what_they_need_and_what_the_configuration_names_but_never_our_settings() {
        let known = [
            ("PATH", "/bin"),
            ("HOME", "/home/anna"),
            ("API_KEY", "k"),
            ("OTHER", "o"),
            ("USHER_TOKEN", "t"),
            ("TERM", "xterm"),
        ];
        let env_from = ["API_KEY", "UNSET", "USHER_TOKEN", "", "A=B", "A\0B"].map(str::to_owned);
        let environment = environment(&env_from, |name| {
            let (_, value) = known.into_iter().find(|(known, _)| *known == name)?;
            Some(OsString::from(value))
        });
        assert_eq!(
            environment,
            [("PATH", "/bin"), ("HOME", "/home/anna"), ("API_KEY", "k"), ("TERM", "dumb"),]
                .map(|(name, value)| (name, OsString::from(value)))
        );
    }
}
