//! The rules of the house that a program can check. See ARCHITECTURE.md for why they are rules.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use usher_shared::error::ErrorCode;
use usher_tests::binaries::repository;

/// Every file of the repository that is under version control or could be.
fn files_under(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![repository().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && name != ".git" {
                    folders.push(path);
                }
            } else if name != ".git" {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn rust_files(folder: &str) -> Vec<PathBuf> {
    let mut files = files_under(folder);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    assert!(!files.is_empty(), "{folder} has code");
    files
}

fn is_test_code(path: &Path) -> bool {
    path.to_string_lossy().ends_with("_tests.rs")
        || path.components().any(|c| c.as_os_str() == "tests")
}

/// Returns the code of a file: without comments, and without what only tests compile.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the files of a folder whose code names any of these words, with the word.
fn naming(folder: &str, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for path in rust_files(folder) {
        if is_test_code(&path) {
            continue;
        }
        let code = code(&path);
        for word in words {
            if code.contains(word) {
                let path = path.strip_prefix(repository()).unwrap();
                found.push(format!("{}: {word}", path.display()));
            }
        }
    }
    found
}

const NOTHING: Vec<String> = Vec::new();

/// Returns the names of a manifest's dependencies, those of tests aside.
fn dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(repository().join(folder).join("Cargo.toml")).unwrap();
    let mut section = "";
    let mut names = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]"
            && let Some(name) = line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty())
        {
            names.insert(name.to_owned());
        }
    }
    names
}

#[test]
fn shared_depends_on_nothing_that_can_touch_the_world() {
    let allowed = ["base64", "jiff", "serde", "serde_json", "sha2", "thiserror", "uuid"];
    let found = dependencies("shared");
    let more: Vec<_> = found.iter().filter(|name| !allowed.contains(&name.as_str())).collect();
    assert_eq!(more, Vec::<&String>::new());
    assert_eq!(
        naming(
            "shared",
            &[
                "std::net",
                "std::fs",
                "std::env",
                "std::process",
                "SystemTime::now",
                "Instant::now",
                "async fn",
                "now_v7",
                "new_v4"
            ]
        ),
        NOTHING
    );
}

#[test]
fn the_server_knows_no_terminal_and_the_client_no_database_but_its_journal() {
    let server = dependencies("server");
    for name in ["ratatui", "crossterm", "usher-tui"] {
        assert!(!server.contains(name), "{name}");
    }
    assert_eq!(naming("tui", &["usher_server::store", "usher_server::domain"]), NOTHING);
}

#[test]
fn the_domain_only_decides() {
    assert_eq!(
        naming(
            "server/src/domain",
            &[
                "rusqlite",
                "SELECT",
                "INSERT",
                "tokio",
                "async fn",
                "serde",
                "usher_shared::protocol",
                "crate::store",
                "crate::net",
                "crate::service",
                "crate::dispatch",
                "SystemTime",
                "Instant::now",
                "std::fs",
                "now_v7",
                "new_v4",
                "getrandom",
            ]
        ),
        NOTHING
    );
}

#[test]
fn sql_is_written_in_the_store_and_the_journal_only() {
    let statements =
        ["SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM", "CREATE TABLE", "PRAGMA ", "rusqlite"];
    let elsewhere: Vec<String> = ["server/src", "tui/src", "shared/src"]
        .into_iter()
        .flat_map(|folder| naming(folder, &statements))
        .filter(|found| !found.starts_with("server/src/store/"))
        .filter(|found| !found.starts_with("tui/src/journal/"))
        .collect();
    assert_eq!(elsewhere, NOTHING);
}

#[test]
fn the_store_decides_nothing_and_knows_no_wire() {
    assert_eq!(
        naming(
            "server/src/store",
            &["usher_shared::protocol", "crate::net", "crate::dispatch", "tungstenite"]
        ),
        NOTHING
    );
}

#[test]
fn only_the_network_side_of_the_server_knows_the_wire() {
    let elsewhere: Vec<String> = naming("server/src", &["usher_shared::protocol"])
        .into_iter()
        .filter(|found| !found.starts_with("server/src/net/"))
        .collect();
    assert_eq!(elsewhere, NOTHING);
}

#[test]
fn every_error_code_has_a_text_in_every_language() {
    let mut languages = 0;
    for entry in fs::read_dir(repository().join("locales")).unwrap() {
        let folder = entry.unwrap().path();
        let file = folder.join("errors.ftl");
        if !folder.is_dir() || folder.ends_with("pseudo") {
            continue;
        }
        languages += 1;
        let text =
            fs::read_to_string(&file).unwrap_or_else(|_| panic!("{} is missing", file.display()));
        let known: BTreeSet<&str> = text
            .lines()
            .filter(|line| !line.starts_with([' ', '#', '.', '}']))
            .filter_map(|line| line.split_once('=').map(|(name, _)| name.trim()))
            .collect();
        for code in ErrorCode::ALL {
            let code = code.as_str();
            let dashed = code.replace('_', "-");
            let has = known.iter().any(|name| {
                *name == code || *name == dashed || name.strip_prefix("error-") == Some(&dashed)
            });
            assert!(has, "{}: {code}", file.display());
        }
    }
    assert!(languages > 0);
}

#[test]
fn every_error_code_is_reached_by_a_test_of_the_real_server() {
    let tests: Vec<String> =
        rust_files("tests/e2e").iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let reached = |code: &ErrorCode| {
        let quoted = format!("\"{}\"", code.as_str());
        tests.iter().any(|text| text.contains(&quoted))
    };
    let (reached, missed): (Vec<ErrorCode>, Vec<ErrorCode>) =
        ErrorCode::ALL.iter().copied().partition(|code| reached(code));
    assert_eq!(missed, [], "reached: {reached:?}");
}

#[test]
fn the_top_level_is_tidy() {
    let mut folders = Vec::new();
    let mut files = Vec::new();
    for entry in fs::read_dir(repository()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            folders.push(name);
        } else {
            files.push(name);
        }
    }
    let known = [".ci", ".git", "locales", "server", "shared", "target", "tests", "tui"];
    folders.retain(|name| !known.contains(&name.as_str()));
    assert_eq!(folders, NOTHING, "unknown folders");
    let known = [
        ".git",
        ".gitignore",
        ".gitattributes",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Cargo.lock",
        "Cargo.toml",
        "DECISIONS.md",
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "clippy.toml",
        "deny.toml",
        "rust-toolchain.toml",
        "rustfmt.toml",
        "typos.toml",
        "_typos.toml",
    ];
    files.retain(|name| !known.contains(&name.as_str()));
    assert_eq!(files, NOTHING, "unknown files");
}

/// Text files that are not code are checked too: a path of one machine helps nobody else.
#[test]
fn nothing_of_one_machine_is_in_the_repository() {
    // Homes of people, and wherever this checkout happens to be.
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is in a checkout");
    let homes = ["home", "root", "Users"].map(|folder| format!("/{folder}/"));
    let machine: Vec<String> = homes.into_iter().chain([checkout.display().to_string()]).collect();
    let mut found = Vec::new();
    for path in files_under("") {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        if path.ends_with("tests/house/main.rs") || path.ends_with("Cargo.lock") {
            continue;
        }
        for word in &machine {
            if text.contains(word.as_str()) && !text.contains(&format!("{word}anna")) {
                found.push(format!("{}: {word}", path.display()));
            }
        }
    }
    assert_eq!(found, NOTHING);
}

#[test]
fn no_unfinished_marks_are_left() {
    let marks = [
        ["TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["todo", "!("].concat(),
        ["unimplemented", "!("].concat(),
    ];
    let mut found = Vec::new();
    for folder in ["server", "shared", "tui", "tests", "locales"] {
        for path in files_under(folder) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            for mark in marks.iter().filter(|mark| text.contains(mark.as_str())) {
                found.push(format!("{}: {mark}", path.display()));
            }
        }
    }
    assert_eq!(found, NOTHING);
}

/// A file that nothing names is never compiled: its tests do not fail, they do not exist.
#[test]
fn every_file_of_code_belongs_to_something_that_is_built() {
    let mut lost = Vec::new();
    for folder in ["shared", "server", "tui", "tests"] {
        let files = rust_files(folder);
        let manifest = fs::read_to_string(repository().join(folder).join("Cargo.toml")).unwrap();
        for path in &files {
            let name = path.file_name().unwrap().to_str().unwrap();
            let in_crate = path.strip_prefix(repository().join(folder)).unwrap();
            let (module, place) = match name {
                "lib.rs" | "main.rs" => continue,
                "mod.rs" => (path.parent().unwrap(), path.parent().unwrap().parent().unwrap()),
                _ => (path.as_path(), path.parent().unwrap()),
            };
            let module = module.file_stem().unwrap().to_str().unwrap();
            // Declared beside it, or in the module that its folder belongs to.
            let owner = place.with_extension("rs");
            let is_named = files.iter().filter(|other| *other != path).any(|other| {
                let near = other.parent() == Some(place) || *other == owner;
                let text = if near { fs::read_to_string(other).unwrap() } else { String::new() };
                let words = [format!("mod {module};"), format!("\"{name}\"")];
                words.iter().any(|word| text.contains(word.as_str()))
            });
            if !is_named && !manifest.contains(in_crate.to_str().unwrap()) {
                lost.push(in_crate.display().to_string());
            }
        }
    }
    assert_eq!(lost, NOTHING);
}
