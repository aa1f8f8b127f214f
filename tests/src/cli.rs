//! One-shot runs of the `usher` program.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::binaries;
use crate::home::Home;

/// What a run of `usher` gave.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Ran {
    /// Returns the lines it printed, each a JSON value.
    pub fn json(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).expect("--json prints JSON lines");
        self.stdout.lines().map(parse).collect()
    }
}

/// A user's home in which `usher` starts its own server; stopped when dropped.
#[derive(Default)]
pub struct UserHome {
    home: Home,
    env: Vec<(OsString, OsString)>,
}

impl UserHome {
    /// Makes a home without any server.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with more variables for every program that runs in it.
    pub fn with_env(variables: &[(&str, &str)]) -> Self {
        let env = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { home: Home::new(), env }
    }

    /// Returns the environment of its programs.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment = self.home.environment();
        environment.extend(self.env.iter().cloned());
        environment
    }

    /// Returns its files.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Runs `usher` without a terminal.
    pub fn usher(&self, args: &[&str]) -> Ran {
        self.usher_with_input(args, "")
    }

    /// The same with something on its standard input.
    pub fn usher_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut child = Command::new(binaries::usher())
            .args(args)
            .current_dir(self.home.path("work"))
            .env_clear()
            .envs(self.environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the built program runs");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // It may not want any input.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        ran(child.wait_with_output().expect("our own child can be waited for"))
    }
}

impl Drop for UserHome {
    fn drop(&mut self) {
        // No server to stop is fine.
        let _ = self.usher(&["stop"]);
    }
}

fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
