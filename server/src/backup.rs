//! `usherd backup`: from its flags to its exit code.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::store::{self, BackupError, StoreFiles};

/// Nothing was copied, or what was cannot be told.
const FAILED: u8 = 1;
/// There is no database that could be copied.
const NO_DATABASE: u8 = 2;

/// The flags of `usherd backup`.
#[derive(Clone, Debug, clap::Args)]
pub struct BackupArgs {
    /// The file to make; it must not exist yet
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where the database lives; a server may be using it
    #[arg(long, value_name = "DIR", required_unless_present = "database")]
    pub data_dir: Option<PathBuf>,
    /// A PostgreSQL database (refused: pg_dump is its backup)
    #[arg(long, value_name = "URL", hide = true)]
    pub database: Option<String>,
}

/// Copies the database of a data directory into a file; returns the process's exit code.
pub fn backup(args: &BackupArgs) -> ExitCode {
    let made = match (&args.database, &args.data_dir) {
        (None, Some(data_dir)) => {
            let files = StoreFiles::of(data_dir);
            store::backup(&files, &args.file).map_err(|error| {
                let is_source =
                    matches!(&error, BackupError::Store { path, .. } if *path == files.database);
                (if is_source { NO_DATABASE } else { FAILED }, error.to_string())
            })
        }
        (Some(_), _) => {
            Err((FAILED, "a PostgreSQL database is backed up by its own pg_dump".to_owned()))
        }
        (None, None) => Err((FAILED, "--data-dir names no directory".to_owned())),
    };
    let told = made.and_then(|bytes| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{bytes} bytes in {}", args.file.display())
            .and_then(|()| out.flush())
            .map_err(|error| (FAILED, error.to_string()))
    });
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, why)) => {
            drop(writeln!(std::io::stderr(), "usherd backup: {why}"));
            ExitCode::from(code)
        }
    }
}
