//! A PostgreSQL of the tests' own: made from the installed programs in a temporary folder, one per
//! test process, with one database per test. Gone when the process is gone, however it ended.
//!
//! Uses nothing but the standard library and PostgreSQL's own programs, so that the server's unit
//! tests can include this file, too.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Starts a server, says so, and waits for the end of its input: the test process holds the other
/// end, so that even a killed one leaves nothing behind. Nothing in here is worth a sync.
const SUPERVISE: &str = r#"
set -e
trap '' INT TERM HUP
"$BIN/initdb" -D "$ROOT/data" -U usher --auth=trust -E UTF8 --locale=C --no-sync >"$ROOT/initdb.log" 2>&1 </dev/null
"$BIN/pg_ctl" -D "$ROOT/data" -l "$ROOT/server.log" -w -t 120 -o "-k '$ROOT' -c listen_addresses='' -c fsync=off -c full_page_writes=off -c max_connections=400 -c shared_buffers=32MB" start >"$ROOT/start.log" 2>&1 </dev/null
echo ready
read -r _ || true
"$BIN/pg_ctl" -D "$ROOT/data" -m immediate -w stop >/dev/null 2>&1 </dev/null || true
rm -rf "$ROOT"
"#;

/// Every URL has it; the server asks for none. No log may ever show it.
pub const PASSWORD: &str = "planted-password-of-the-database";

/// A database of one test; dropped with this value.
pub struct Database {
    cluster: &'static Cluster,
    name: String,
}

impl Database {
    /// Makes an empty one, and the server first if this is the process's first.
    pub fn new() -> Self {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        Self::on(CLUSTER.get_or_init(Cluster::start))
    }

    /// Makes one with a server of its own, which can be stopped and set up as a test likes.
    pub fn with_own_server() -> Self {
        Self::on(Box::leak(Box::new(Cluster::start())))
    }

    fn on(cluster: &'static Cluster) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let name = format!("test{}", MADE.fetch_add(1, Ordering::SeqCst));
        cluster.psql("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0"));
        Self { cluster, name }
    }

    /// Returns its server.
    pub fn server(&self) -> &'static Cluster {
        self.cluster
    }

    /// Returns where it is, with [`PASSWORD`].
    pub fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    /// Runs statements and returns their rows, a line each, columns separated by tabs.
    pub fn run(&self, sql: &str) -> Vec<String> {
        self.cluster.psql(&self.name, sql)
    }

    /// Tells whether a server has made its tables in it.
    pub fn was_used(&self) -> bool {
        self.run("SELECT to_regclass('messages') IS NOT NULL") == ["t"]
    }

    /// Starts `psql` on it, for statements that are to wait; its input is a pipe.
    pub fn session(&self) -> Command {
        self.cluster.psql_command(&self.name)
    }
}

impl Default for Database {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.cluster
            .psql("postgres", &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// A server; it ends with the test process.
pub struct Cluster {
    bin: PathBuf,
    root: PathBuf,
    user: Option<(u32, u32)>,
    /// Its input's other end is ours.
    _supervisor: Child,
}

impl Cluster {
    /// Makes one and starts it.
    fn start() -> Self {
        let bin = programs();
        let root = make_root();
        let user = other_user(&root);
        let mut command = Command::new("sh");
        command.args(["-c", SUPERVISE]).env("BIN", &bin).env("ROOT", &root).current_dir("/");
        become_user(&mut command, user);
        let mut supervisor = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell can be started");
        let stdout = supervisor.stdout.take().expect("stdout is piped");
        let said = BufReader::new(stdout).lines().next().and_then(Result::ok);
        assert_eq!(
            said.as_deref(),
            Some("ready"),
            "PostgreSQL does not start; see the logs in {}",
            root.display()
        );
        Self { bin, root, user, _supervisor: supervisor }
    }

    fn url(&self, database: &str) -> String {
        let socket = self.root.display().to_string().replace('/', "%2F");
        format!("postgres://usher:{PASSWORD}@{socket}/{database}")
    }

    /// Stops it at once and waits until it has ended.
    pub fn go_away(&self) {
        self.control(&["-m", "immediate", "-w", "stop"]);
    }

    /// Starts it again and waits until it serves.
    pub fn come_back(&self) {
        self.come_back_with("-c listen_addresses=''");
    }

    /// Starts it again so that it also listens on an address of this machine, which is returned, and
    /// speaks TLS there with this certificate and key (PEM).
    pub fn come_back_with_tls(&self, cert: &str, key: &str) -> Ipv4Addr {
        self.go_away();
        for (name, pem) in [("server.crt", cert), ("server.key", key)] {
            let file = self.root.join(name);
            let mut options = File::options();
            let made = options.write(true).create_new(true).mode(0o600).open(&file);
            made.and_then(|mut made| made.write_all(pem.as_bytes())).expect("the folder is ours");
            if let Some((user, group)) = self.user {
                chown(&file, Some(user), Some(group)).expect("root may give files away");
            }
        }
        // This machine has 2^24 addresses of its own; nobody else takes these.
        static TAKEN: AtomicU8 = AtomicU8::new(1);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, TAKEN.fetch_add(1, Ordering::SeqCst), high, low | 1);
        let folder = self.root.display();
        self.come_back_with(&format!(
            "-c listen_addresses={address} -c ssl=on -c ssl_cert_file='{folder}/server.crt' \
             -c ssl_key_file='{folder}/server.key'"
        ));
        address
    }

    fn come_back_with(&self, doors: &str) {
        let log = self.root.join("server.log");
        let options = format!(
            "-k '{}' {doors} -c max_connections=100 -c shared_buffers=32MB",
            self.root.display()
        );
        let log = log.to_string_lossy().into_owned();
        self.control(&["-w", "-t", "120", "-l", &log, "-o", &options, "start"]);
    }

    fn control(&self, words: &[&str]) {
        let mut command = Command::new(self.bin.join("pg_ctl"));
        command.arg("-D").arg(self.root.join("data")).args(words).current_dir("/");
        become_user(&mut command, self.user);
        let status = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("pg_ctl can be started");
        assert!(status.success(), "pg_ctl {words:?} failed");
    }

    fn psql_command(&self, database: &str) -> Command {
        let mut command = Command::new(self.bin.join("psql"));
        command
            .args(["-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-U", "usher"])
            .args(["-d", database, "-h"])
            .arg(&self.root);
        command
    }

    fn psql(&self, database: &str, sql: &str) -> Vec<String> {
        let mut command = self.psql_command(database);
        let output = command.args(["-c", sql]).stdin(Stdio::null()).output().expect("psql runs");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }
}

/// Finds PostgreSQL's programs: beside `initdb` in the PATH, else the newest of the system's.
fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let real = |folder: PathBuf| {
        // Programs find their files from where they really are.
        let initdb = fs::canonicalize(folder.join("initdb")).ok()?;
        let folder = initdb.parent()?.to_owned();
        folder.join("pg_ctl").exists().then_some(folder)
    };
    let system = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = system
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    std::env::split_paths(&path)
        .chain(versions.into_iter().rev().map(|(_, bin)| bin))
        .find_map(real)
        .expect(
            "PostgreSQL is needed (package `postgresql`): no initdb in PATH or /usr/lib/postgresql",
        )
}

fn make_root() -> PathBuf {
    let root = tempfile::Builder::new().prefix("usher-pg-").tempdir();
    root.expect("a temporary directory can be made").keep()
}

/// PostgreSQL refuses to run as root: then the folder and the server get another user.
fn other_user(root: &Path) -> Option<(u32, u32)> {
    let owner = fs::metadata(root).expect("it was just made").uid();
    if owner != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |wanted: &str| {
        let mut fields = users.lines().find(|line| line.starts_with(wanted))?.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let (user, group) = ids("postgres:").or_else(|| ids("nobody:")).unwrap_or((65_534, 65_534));
    chown(root, Some(user), Some(group)).expect("root may give files away");
    Some((user, group))
}

fn become_user(command: &mut Command, user: Option<(u32, u32)>) {
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
}
