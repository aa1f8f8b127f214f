//! A real `usherd` in a process of its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::certificates::Issued;
use crate::home::Home;
use crate::{PATIENCE, binaries};

/// How to start a server. The same launch can be started again: that is a restart.
#[derive(Clone)]
pub struct Launch {
    home: Arc<Home>,
    binary: PathBuf,
    wrapper: Vec<OsString>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    config: Option<String>,
    folding: bool,
}

impl Launch {
    /// A server on an empty data directory, on a Unix socket and a free TCP port, without a cap
    /// on its queues, that does not fold admissions into the tail.
    pub fn new() -> Self {
        Self::with_home(Home::new())
    }

    /// The same in a prepared home.
    pub fn with_home(home: Home) -> Self {
        let socket = home.path("run/test.sock");
        let mut unix = OsString::from("unix:");
        unix.push(&socket);
        Self {
            binary: binaries::usherd().to_owned(),
            wrapper: Vec::new(),
            args: vec!["--listen".into(), unix, "--listen".into(), "127.0.0.1:0".into()],
            env: Vec::new(),
            config: None,
            folding: false,
            home: Arc::new(home),
        }
        .env("USHER_QUEUE_MAX_PER_SESSION", "0")
    }

    /// The same with a home of its own, over the same PostgreSQL database.
    #[must_use]
    pub fn beside(&self) -> Self {
        let other = Self::with_home(self.home.beside());
        Self { home: other.home, args: other.args, ..self.clone() }
    }

    /// Uses another program.
    #[must_use]
    pub fn binary(mut self, binary: &Path) -> Self {
        self.binary = binary.to_owned();
        self
    }

    /// Runs the server under another program, `strace` for one.
    #[must_use]
    pub fn under<A: Into<OsString>>(mut self, wrapper: impl IntoIterator<Item = A>) -> Self {
        self.wrapper = wrapper.into_iter().map(Into::into).collect();
        self
    }

    /// Listens on these addresses instead of the usual ones.
    #[must_use]
    pub fn listen_on(mut self, addresses: &[&str]) -> Self {
        self.args = addresses
            .iter()
            .flat_map(|address| [OsString::from("--listen"), OsString::from(address)])
            .collect();
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Gives it a certificate and its key: TCP speaks TLS.
    #[must_use]
    pub fn tls(self, issued: &Issued) -> Self {
        self.write_tls(issued);
        let [cert, key] = self.tls_files();
        self.args([OsString::from("--tls-cert"), cert.into(), "--tls-key".into(), key.into()])
    }

    /// Replaces the files of the certificate and its key.
    pub fn write_tls(&self, issued: &Issued) {
        for (file, pem) in self.tls_files().iter().zip([&issued.cert, &issued.key]) {
            fs::write(file, pem).expect("the home is writable");
        }
    }

    /// Returns where certificate and key are.
    pub fn tls_files(&self) -> [PathBuf; 2] {
        ["config/cert.pem", "config/key.pem"].map(|name| self.home.path(name))
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.into(), value.into()));
        self
    }

    /// Leaves a variable unset.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        self
    }

    /// Gives it this configuration file.
    #[must_use]
    pub fn config(mut self, toml: &str) -> Self {
        self.config = Some(toml.to_owned());
        self
    }

    /// Lets it fold admissions into the tail unless somebody says otherwise, as outside of tests.
    #[must_use]
    pub fn folding(mut self) -> Self {
        self.folding = true;
        self
    }

    /// Writes the configuration file that it is started with; returns where.
    fn write_config(&self) -> PathBuf {
        let mut text = self.config.clone().unwrap_or_default();
        if !self.folding && !text.contains("auto_merge_enabled") {
            text.insert_str(0, "auto_merge_enabled = false\n");
        }
        let file = self.home.path("config/server.toml");
        fs::write(&file, text).expect("the home is writable");
        file
    }

    /// Returns the files of the server.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Starts it and waits until it serves.
    pub fn start(&self) -> Server {
        match self.try_start() {
            Ok(server) => server,
            Err(failed) => panic!("usherd does not start: {failed:?}"),
        }
    }

    /// Starts it; an error if it ended instead of serving.
    pub fn try_start(&self) -> Result<Server, FailedStart> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.home.path("server.log"))
            .expect("the home is writable");
        let mut child = self
            .command()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the built program runs");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let Ok(line) = lines.recv_timeout(PATIENCE) else {
            child.kill().expect("our own child can be killed");
            let status = child.wait().expect("our own child can be waited for");
            return Err(FailedStart { status, log: self.home.read("server.log") });
        };
        let listening: Value = serde_json::from_str(&line).expect("stdout starts with JSON");
        assert_eq!(listening["event"], "listening", "{line}");
        Ok(Server { launch: self.clone(), child: Some(child), lines, listening })
    }

    /// Returns the command that starts it, for tests that want to see it fail.
    pub fn command(&self) -> Command {
        let mut words = self.wrapper.iter().cloned();
        let mut command = match words.next() {
            Some(wrapper) => {
                let mut command = Command::new(wrapper);
                command.args(words).arg(&self.binary);
                command
            }
            None => Command::new(&self.binary),
        };
        command
            .arg("--data-dir")
            .arg(self.data_dir())
            .arg("--config")
            .arg(self.write_config())
            .args(self.home.database().into_iter().flat_map(|database| {
                [OsString::from("--database"), OsString::from(database.url())]
            }))
            .args(&self.args)
            .current_dir(self.home.path(""))
            .env_clear()
            .envs(self.home.environment())
            .envs(self.env.iter().cloned());
        command
    }

    /// Runs `usherd user` on this server's database, also while it runs.
    pub fn user(&self, words: &[&str]) -> Output {
        self.user_command(words).output().expect("the built program runs")
    }

    /// Returns the command that [`Launch::user`] runs.
    pub fn user_command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("user").args(words);
        match self.home.database() {
            Some(database) => command.arg("--database").arg(database.url()),
            None => command.arg("--data-dir").arg(self.data_dir()),
        };
        command.current_dir(self.home.path("")).env_clear().envs(self.home.environment());
        command
    }

    /// Adds a user, or gives one a further token; returns the token.
    pub fn add_user(&self, name: &str) -> String {
        let added = self.user(&["add", name]);
        assert!(added.status.success(), "{added:?}");
        let token = String::from_utf8(added.stdout).expect("tokens are text");
        token.strip_suffix('\n').expect("a line ends").to_owned()
    }

    /// Returns the data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.home.path("data/server")
    }

    /// Returns the path of the Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.home.path("run/test.sock")
    }

    /// Returns the token that the server made for itself.
    pub fn token(&self) -> String {
        let token = fs::read_to_string(self.data_dir().join("token")).expect("a token was made");
        token.trim().to_owned()
    }
}

impl Default for Launch {
    fn default() -> Self {
        Self::new()
    }
}

/// A server that ended before it served.
#[derive(Debug)]
pub struct FailedStart {
    /// How it ended.
    pub status: ExitStatus,
    /// What it said.
    pub log: String,
}

/// A running server; killed when dropped.
pub struct Server {
    launch: Launch,
    child: Option<Child>,
    lines: Receiver<String>,
    listening: Value,
}

impl Server {
    /// Starts one as [`Launch::new`] describes.
    pub fn start() -> Self {
        Launch::new().start()
    }

    /// Returns how it was started.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Returns the line that it announced itself with.
    pub fn listening(&self) -> &Value {
        &self.listening
    }

    /// Returns the address and port of its TCP listener.
    pub fn tcp_address(&self) -> String {
        self.address("ws://")
    }

    /// Returns the address and port of its TCP listener that speaks TLS.
    pub fn tls_address(&self) -> SocketAddr {
        self.address("wss://").parse().expect("it announces addresses")
    }

    fn address(&self, scheme: &str) -> String {
        let urls = self.listening["urls"].as_array().expect("urls are a list");
        urls.iter()
            .filter_map(Value::as_str)
            .find_map(|url| url.strip_prefix(scheme)?.strip_suffix("/ws"))
            .expect("it listens like this")
            .to_owned()
    }

    /// Ends it at once, as a power cut does.
    pub fn kill(self) -> Launch {
        self.signal(Signal::KILL);
        self.ended().1
    }

    /// Asks it to end and waits until it has.
    pub fn terminate(self) -> (ExitStatus, Launch) {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Waits until it has ended by itself.
    pub fn ended(mut self) -> (ExitStatus, Launch) {
        // Its end of stdout closes with it, which bounds this wait.
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("usherd does not end"),
            }
        }
        let mut child = self.child.take().expect("nobody has waited yet");
        let status = child.wait().expect("our own child can be waited for");
        (status, self.launch.clone())
    }

    /// Sends a signal to the server itself (not to what it runs under).
    pub fn signal(&self, signal: Signal) {
        // It may have ended by itself already.
        let _ = kill_process(self.pid(), signal);
    }

    /// Returns its process id.
    pub fn pid(&self) -> Pid {
        let pid = self.listening["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        pid.and_then(Pid::from_raw).expect("it announced its process id")
    }

    /// Returns everything it has logged so far.
    pub fn log(&self) -> String {
        self.launch.home.read("server.log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        self.signal(Signal::KILL);
        let _ = child.wait();
    }
}
