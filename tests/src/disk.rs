//! A real disk of a few MiB for one server.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A file system in memory, in a mount namespace of its own that outlives the servers in it. Gone
/// when dropped.
pub struct SmallDisk {
    holder: Child,
    place: PathBuf,
}

impl SmallDisk {
    /// Makes one of `mib` MiB at `place`.
    ///
    /// # Panics
    /// If this system lets nobody mount anything: there is no other way to see a real full disk.
    pub fn at(place: &Path, mib: u32) -> Self {
        fs::create_dir_all(place).expect("the home is writable");
        let script = format!(
            "mount -t tmpfs -o size={mib}m,mode=700 none \"$0\" && echo mounted && exec sleep 1000000"
        );
        let mut holder = Command::new("unshare")
            .args(["-Urm", "sh", "-c", &script])
            .arg(place)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare (util-linux) is installed");
        let said = holder.stdout.take().expect("stdout is piped");
        let mut line = String::new();
        let read = BufReader::new(said).read_line(&mut line);
        assert!(
            read.is_ok() && line == "mounted\n",
            "no small disk: this test needs to mount a tmpfs in a user and mount namespace \
             (unshare -Urm), which is not permitted here"
        );
        Self { holder, place: place.to_owned() }
    }

    /// Returns the words that run a program where the disk is seen.
    pub fn seen(&self) -> Vec<OsString> {
        let holder = self.holder.id().to_string();
        ["nsenter", "--preserve-credentials", "-U", "-m", "-t", &holder]
            .map(OsString::from)
            .to_vec()
    }

    /// Runs a program where the disk is seen.
    pub fn run(&self, program: impl Into<OsString>, args: &[&str]) -> Output {
        let words = self.seen();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program.into()).args(args);
        command.output().expect("nsenter (util-linux) is installed")
    }

    /// Returns how this process, which does not see the disk, names a file on it.
    pub fn path(&self, name: &str) -> PathBuf {
        let inside = self.place.strip_prefix("/").expect("homes have absolute paths");
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(inside).join(name)
    }

    /// Fills it, down to less than a page, with a file of this name.
    pub fn fill(&self, name: &str) {
        let zeros = [0; 4_096];
        let mut file = fs::File::create(self.path(name)).expect("a name takes no room");
        while std::io::Write::write_all(&mut file, &zeros).is_ok() {}
    }

    /// Removes a file, for its room.
    pub fn free(&self, name: &str) {
        fs::remove_file(self.path(name)).expect("the file is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The last process in its namespace, unless a server still runs.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
