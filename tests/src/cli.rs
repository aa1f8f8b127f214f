//! One-shot runs of the `usher` program.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::home::Home;
use crate::{PATIENCE, binaries};

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
pub struct UserHome {
    home: Home,
    env: Vec<(OsString, OsString)>,
}

impl UserHome {
    /// Makes a home without any server. Its server will keep every prompt an entry of its own.
    pub fn new() -> Self {
        let user = Self { home: Home::new(), env: Vec::new() };
        user.configure("");
        user
    }

    /// The same, with more variables for every program that runs in it.
    pub fn with_env(variables: &[(&str, &str)]) -> Self {
        let env = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let mut user = Self::new();
        user.env = env;
        user
    }

    /// A home without any configuration: new prompts fold into the tail.
    pub fn folding() -> Self {
        Self { home: Home::new(), env: Vec::new() }
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
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().expect("usher runs");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // It may not want any input.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let stdout = read_in_background(child.stdout.take().expect("stdout is piped"));
        finish(child, args, stdout)
    }

    /// Runs `usher` while nobody reads what it prints; returns what it complained about.
    pub fn usher_into_a_closed_pipe(&self, args: &[&str]) -> String {
        let mut child = self.command(args).stdin(Stdio::null()).spawn().expect("usher runs");
        drop(child.stdout.take());
        let (send, nothing) = channel();
        send.send(String::new()).expect("the other end is here");
        finish(child, args, nothing).stderr
    }

    /// Starts `usher` without a terminal, and without waiting for its end.
    pub fn start_usher(&self, args: &[&str]) -> Child {
        self.command(args).stdin(Stdio::null()).spawn().expect("usher runs")
    }

    /// The same, with its output kept for `wait_with_output`.
    pub fn start_usher_piped(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("usher runs")
    }

    /// Sends the user's own server a signal.
    pub fn signal_server(&self, signal: Signal) {
        let path = self.home.path("data/usher/usherd.pid");
        let pid = fs::read_to_string(path).expect("a server runs").trim().parse().ok();
        let pid = pid.and_then(Pid::from_raw).expect("it wrote its process id");
        kill_process(pid, signal).expect("it lives");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binaries::usher());
        command
            .args(args)
            .current_dir(self.home.path("work"))
            .env_clear()
            .envs(self.environment())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Writes the user's configuration file; prompts stay entries of their own.
    pub fn configure(&self, toml: &str) {
        let toml = format!("auto_merge_enabled = false\n{toml}");
        let folder = self.home.path("config/usher");
        fs::create_dir_all(&folder).expect("the home is writable");
        fs::write(folder.join("config.toml"), toml).expect("the home is writable");
    }
}

impl Default for UserHome {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for UserHome {
    fn drop(&mut self) {
        // No server to stop is fine.
        let _ = self.usher(&["stop"]);
    }
}

/// Waits for the end of a program, with a bound.
fn finish(mut child: Child, args: &[&str], stdout: Receiver<String>) -> Ran {
    let stderr = read_in_background(child.stderr.take().expect("stderr is piped"));
    let Ok(stdout) = stdout.recv_timeout(PATIENCE) else {
        child.kill().expect("our own child can be killed");
        panic!("usher {args:?} does not end");
    };
    let stderr = stderr.recv_timeout(PATIENCE).unwrap_or_default();
    let status = child.wait().expect("our own child can be waited for");
    Ran { code: status.code().unwrap_or(-1), stdout, stderr }
}

fn read_in_background(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, read) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is still worth showing.
        let _ = from.read_to_end(&mut bytes);
        let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    read
}
