//! The programs under test. `cargo test` does not build binaries of another package, so the
//! harness does, once per test process, into the target directory it was itself built in.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock};

/// Returns the server.
pub fn usherd() -> &'static Path {
    &built().usherd
}

/// Returns the client.
pub fn usher() -> &'static Path {
    &built().usher
}

/// Returns a server with stop points: it can be made to die at a chosen place.
pub fn usherd_with_stop_points() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Target::of_this_test();
        let lock = target.lock();
        target.build(&["--features", "usher-server/stop-points"]);
        let copy = target.directory().join("usherd-stop-points");
        replace(&target.directory().join("usherd"), &copy);
        // The plain one again, so that nobody meets stop points under its name.
        target.build(&[]);
        drop(lock);
        copy
    })
}

/// Returns the repository's root.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests are a folder of the repository")
}

struct Built {
    usherd: PathBuf,
    usher: PathBuf,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Target::of_this_test();
        let lock = target.lock();
        target.build(&[]);
        drop(lock);
        Built { usherd: target.directory().join("usherd"), usher: target.directory().join("usher") }
    })
}

/// Puts a copy in place in one step: another process may be running the old one.
fn replace(from: &Path, to: &Path) {
    let new = to.with_extension("new");
    fs::copy(from, &new).expect("the build made the program");
    fs::rename(&new, to).expect("the target directory can be written");
}

/// Where this test was built: `TARGET/PROFILE/deps/NAME`.
struct Target {
    root: PathBuf,
    profile: String,
}

impl Target {
    fn of_this_test() -> Self {
        let program = env::current_exe().expect("a running program has a path");
        let directory =
            program.ancestors().nth(2).expect("cargo puts tests into TARGET/PROFILE/deps");
        let profile = directory.file_name().expect("a profile has a name");
        Self { root: directory.with_file_name(""), profile: profile.to_string_lossy().into_owned() }
    }

    fn directory(&self) -> PathBuf {
        self.root.join(&self.profile)
    }

    /// Held while programs change places: two test processes may run at once.
    fn lock(&self) -> File {
        let lock = File::create(self.root.join(".usher-tests.lock")).expect("target is writable");
        flock(&lock, FlockOperation::LockExclusive).expect("a local file can be locked");
        lock
    }

    fn build(&self, extra: &[&str]) {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let profile = match self.profile.as_str() {
            "debug" => "dev",
            other => other,
        };
        let output = Command::new(cargo)
            .current_dir(repository())
            .args(["build", "--quiet", "-p", "usher-server", "-p", "usher-tui"])
            .args(["--bins", "--profile", profile])
            .args(extra)
            .env("CARGO_TARGET_DIR", &self.root)
            .output()
            .expect("cargo runs");
        assert!(
            output.status.success(),
            "the programs under test do not build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
