//! Every database that a test leaves keeps what the design promises: checked after every test, by
//! the real program.

use std::path::Path;
use std::process::Command;

use crate::binaries;
use crate::leaks::files_below;

/// Returns what `usherd check` says about the databases below `root` that are not sound.
pub fn damages(root: &Path) -> Vec<String> {
    let databases = files_below(root).into_iter().filter(|file| file.ends_with("usher.db"));
    databases.filter_map(|database| damage(database.parent()?)).collect()
}

/// Returns what is wrong with the database of a data directory.
pub fn damage(data_dir: &Path) -> Option<String> {
    let check = Command::new(binaries::usherd())
        .args(["check", "--data-dir"])
        .arg(data_dir)
        .output()
        .expect("the built program runs");
    let said = [check.stdout, check.stderr].concat();
    (!check.status.success()).then(|| String::from_utf8_lossy(&said).into_owned())
}
