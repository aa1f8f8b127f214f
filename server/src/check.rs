//! `usherd check`: from its flags to its exit code.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use crate::store::{self, CheckReport, DatabaseUrl, StoreFiles, Violation};

/// Nothing is wrong.
const SOUND: u8 = 0;
/// Something is.
const BROKEN: u8 = 1;
/// Nobody knows: the database cannot be read, or the answer not be written.
const UNKNOWN: u8 = 2;

/// The flags of `usherd check`.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckArgs {
    /// Where the database lives; a server may be using it
    #[arg(long, value_name = "DIR", required_unless_present = "database")]
    pub data_dir: Option<PathBuf>,
    /// A PostgreSQL database instead: postgres://USER:PASSWORD@HOST/NAME
    #[arg(
        long,
        value_name = "URL",
        env = "USHER_DATABASE",
        hide_env_values = true,
        value_parser = DatabaseUrl::any
    )]
    pub database: Option<DatabaseUrl>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct ReportJson<'a> {
    sound: bool,
    checked: usize,
    violations: Vec<ViolationJson<'a>>,
}

#[derive(Serialize)]
struct ViolationJson<'a> {
    invariant: &'static str,
    holds: &'static str,
    table: &'static str,
    count: u64,
    keys: &'a [i64],
}

/// Checks a database and prints what is wrong with it, one line each;
/// returns the process's exit code: 0 nothing, 1 something, 2 it cannot be told.
pub fn check(args: &CheckArgs) -> ExitCode {
    let report = match look(args) {
        Ok(report) => report,
        Err(why) => return unknown(&why),
    };
    let text = if args.json { json(&report) } else { lines(&report) };
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        return unknown(&error.to_string());
    }
    ExitCode::from(if report.violations.is_empty() { SOUND } else { BROKEN })
}

fn look(args: &CheckArgs) -> Result<CheckReport, String> {
    match (&args.database, &args.data_dir) {
        (Some(url), _) => store::check_database(url).map_err(|error| format!("database: {error}")),
        (None, Some(data_dir)) => {
            let files = StoreFiles::of(data_dir);
            store::check(&files).map_err(|error| format!("{}: {error}", files.database.display()))
        }
        (None, None) => Err("neither --data-dir nor --database".to_owned()),
    }
}

fn unknown(why: &str) -> ExitCode {
    drop(writeln!(std::io::stderr(), "usherd check: {why}"));
    ExitCode::from(UNKNOWN)
}

fn lines(report: &CheckReport) -> String {
    if report.violations.is_empty() {
        return format!("sound: {} invariants hold\n", report.checked);
    }
    report.violations.iter().map(line).collect()
}

fn line(violation: &Violation) -> String {
    let Violation { invariant, holds, table, count, keys } = violation;
    let keys: Vec<String> = keys.iter().map(i64::to_string).collect();
    let keys = match (keys.len() as u64, keys.join(", ")) {
        (0, _) => String::new(),
        (named, keys) if named < *count => format!(" (keys {keys}, …)"),
        (_, keys) => format!(" (keys {keys})"),
    };
    format!("{invariant}: {count} of {table}{keys}: not true that {holds}\n")
}

fn json(report: &CheckReport) -> String {
    let violations = report.violations.iter().map(|violation| ViolationJson {
        invariant: violation.invariant,
        holds: violation.holds,
        table: violation.table,
        count: violation.count,
        keys: &violation.keys,
    });
    let report = ReportJson {
        sound: report.violations.is_empty(),
        checked: report.checked,
        violations: violations.collect(),
    };
    let json = serde_json::to_string(&report).expect("a report has string keys only");
    json + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> CheckReport {
        let violation = |invariant, count, keys: &[i64]| Violation {
            invariant,
            holds: "all is well",
            table: "turns",
            count,
            keys: keys.to_vec(),
        };
        CheckReport {
            checked: 40,
            violations: vec![
                violation("one", 1, &[7]),
                violation("many", 9, &[1, 2, 3, 4, 5]),
                violation("file", 2, &[]),
            ],
        }
    }

    #[test]
    fn every_violation_is_a_line_with_its_name_count_and_keys() {
        assert_eq!(
            lines(&report()),
            "one: 1 of turns (keys 7): not true that all is well\n\
             many: 9 of turns (keys 1, 2, 3, 4, 5, …): not true that all is well\n\
             file: 2 of turns: not true that all is well\n"
        );
        let sound = CheckReport { checked: 40, violations: Vec::new() };
        assert_eq!(lines(&sound), "sound: 40 invariants hold\n");
        assert_eq!(json(&sound), "{\"sound\":true,\"checked\":40,\"violations\":[]}\n");
        let json: serde_json::Value = serde_json::from_str(&json(&report())).unwrap();
        assert_eq!(json["violations"][1]["keys"], serde_json::json!([1, 2, 3, 4, 5]));
        assert_eq!((&json["sound"], &json["checked"]), (&false.into(), &40.into()));
    }
}
