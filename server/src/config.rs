//! Settings: flags over environment over the configuration file over defaults. A value that makes
//! no sense is refused at start with its name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use usher_shared::limits::{
    ENTRIES_MAX, HEARTBEAT_MS, LEASE_HOLD_MS, LEASE_TTL_MS, LINKS_MAX, LINKS_PER_USER_MAX,
    NAME_BYTES_MAX, STAGED_TTL_MS,
};
use usher_shared::vocabulary::SettingSource;

use crate::agent::{Abilities, AgentSpec, Agents, CommandSpec, DEMO, demo};
use crate::domain::lease::LeaseTimes;
use crate::domain::settings::{Given, GivenSettings, Switch};
use crate::net::{LinkBounds, TlsFiles};
use crate::store::DatabaseUrl;

/// The environment variable that beats every other source of the queue's cap.
pub const MAX_PER_SESSION_VARIABLE: &str = "USHER_QUEUE_MAX_PER_SESSION";

/// The flags of `usherd`, and of `usher serve`.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// Where the database, the token and the lock live (usherd needs it)
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Where to listen: ADDRESS:PORT (port 0 picks one) or unix:PATH; may be given more than once
    /// (usherd: 127.0.0.1:4317, usher serve: the user's own socket)
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<String>,
    /// A PostgreSQL database, shared by any number of servers, instead of one in the data directory:
    /// postgres://USER:PASSWORD@HOST/NAME, with ?sslmode=require over TLS
    #[arg(long, value_name = "URL", env = "USHER_DATABASE", hide_env_values = true)]
    #[arg(value_parser = DatabaseUrl::any)]
    pub database: Option<DatabaseUrl>,
    /// A configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The agent of new tasks
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// A file with the token that TCP clients must show; made in the data directory if not given
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A certificate (PEM, with those that lead to its authority): TCP then speaks TLS only, and
    /// may listen for other machines; HUP reads it again
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of that certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// How log lines on stderr look (RUST_LOG filters them)
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What queues obey, as far as users cannot choose it.
    pub queue: GivenSettings,
    /// The interval of the server's pings.
    pub heartbeat: Duration,
    /// The interval of the dispatcher's regular pass.
    pub dispatch_pass: Duration,
    /// How long other servers over the same database wait for a silent one.
    pub node_lease: Duration,
    /// How many connections there may be.
    pub link_bounds: LinkBounds,
    /// How long edit leases live.
    pub lease_times: LeaseTimes,
    /// How long an upload stays that nothing claims, milliseconds.
    pub staged_ttl: i64,
    /// Web pages that may connect, by origin.
    pub allowed_origins: Vec<String>,
    /// The certificate to show over TCP; None: nothing is encrypted.
    pub tls: Option<TlsFiles>,
    /// The agents.
    pub agents: Agents,
}

/// A setting that makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("configuration file {path}: {error}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is no configuration.
    #[error("configuration file {path}: {error}")]
    Parse {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        error: Box<toml::de::Error>,
    },
    /// One value is out of bounds.
    #[error("{key} = {value:?}: {why}")]
    Value {
        /// The setting.
        key: String,
        /// The value as written.
        value: String,
        /// What would be right.
        why: &'static str,
    },
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    default_agent: Option<String>,
    max_per_session: Option<i64>,
    merge_enabled: Option<bool>,
    auto_merge_enabled: Option<bool>,
    heartbeat: Option<String>,
    node_lease: Option<String>,
    lease_ttl: Option<String>,
    lease_hold_max: Option<String>,
    staged_ttl: Option<String>,
    connections_max: Option<i64>,
    connections_per_user_max: Option<i64>,
    dispatch_pass: Option<String>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    #[serde(default)]
    allowed_origins: Vec<String>,
    #[serde(default)]
    agents: BTreeMap<String, AgentTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentTable {
    kind: AgentKind,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env_from: Vec<String>,
    cancel_grace: Option<String>,
    models: Option<Vec<String>>,
    plan_mode: Option<bool>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AgentKind {
    Demo,
    Command,
}

const LEASE_TTL: Duration = Duration::from_millis(LEASE_TTL_MS);
const LEASE_HOLD: Duration = Duration::from_millis(LEASE_HOLD_MS);
const STAGED_TTL: Duration = Duration::from_millis(STAGED_TTL_MS);
const HEARTBEAT_MIN: Duration = Duration::from_secs(1);
const CANCEL_GRACE: Duration = Duration::from_secs(5);

impl Settings {
    /// Reads all sources. `variable` reads an environment variable.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(
        args: &ServeArgs,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let file = match &args.config {
            Some(path) => read_file(path)?,
            None => File::default(),
        };
        let queue = given(&file, variable(MAX_PER_SESSION_VARIABLE))?;
        let tls = tls_files(args, &file)?;
        let time = |key: &str, text: &Option<String>, default| match text {
            Some(text) => duration(key, text),
            None => Ok(default),
        };
        let mut agents = BTreeMap::new();
        for (name, table) in file.agents {
            if name.trim().is_empty() {
                return Err(ConfigError::Value {
                    key: "agents".to_owned(),
                    value: name,
                    why: "an agent needs a name",
                });
            }
            agents.insert(name.clone(), agent(&name, table)?);
        }
        let wanted = args.agent.clone().or(file.default_agent).unwrap_or(DEMO.to_owned());
        let agents = Agents::new(agents, wanted).map_err(|value| ConfigError::Value {
            key: "default_agent".to_owned(),
            value,
            why: "no agent of that name is configured",
        })?;
        Ok(Self {
            queue,
            node_lease: time("node_lease", &file.node_lease, Duration::from_secs(15))?,
            link_bounds: LinkBounds {
                per_user: count(
                    "connections_per_user_max",
                    file.connections_per_user_max,
                    LINKS_PER_USER_MAX,
                )?,
                all: count("connections_max", file.connections_max, LINKS_MAX)?,
            },
            lease_times: LeaseTimes {
                ttl: millis(time("lease_ttl", &file.lease_ttl, LEASE_TTL)?),
                hold_max: millis(time("lease_hold_max", &file.lease_hold_max, LEASE_HOLD)?),
            },
            staged_ttl: millis(time("staged_ttl", &file.staged_ttl, STAGED_TTL)?),
            heartbeat: heartbeat(&file.heartbeat)?,
            dispatch_pass: time("dispatch_pass", &file.dispatch_pass, Duration::from_secs(5))?,
            allowed_origins: file.allowed_origins,
            tls,
            agents,
        })
    }
}

/// Returns where certificate and key are. Names in the configuration file count from its folder.
fn tls_files(args: &ServeArgs, file: &File) -> Result<Option<TlsFiles>, ConfigError> {
    let folder = args.config.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let chosen = |flag: &Option<PathBuf>, configured: &Option<PathBuf>| {
        flag.clone().or_else(|| configured.as_deref().map(|name| folder.join(name)))
    };
    let alone = |key: &str, path: &Path, why| {
        let value = path.display().to_string();
        Err(ConfigError::Value { key: key.to_owned(), value, why })
    };
    match (chosen(&args.tls_cert, &file.tls_cert), chosen(&args.tls_key, &file.tls_key)) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
        (Some(cert), None) => alone("tls_cert", &cert, "a certificate needs its key, tls_key"),
        (None, Some(key)) => alone("tls_key", &key, "a key needs its certificate, tls_cert"),
    }
}

/// Returns what users cannot choose; `variable` is the environment's cap.
fn given(file: &File, variable: Option<String>) -> Result<GivenSettings, ConfigError> {
    let configured = |on: Option<bool>| {
        on.map(|on| Given { value: Switch::of(on), source: SettingSource::Configuration })
    };
    let configured_cap = match file.max_per_session {
        Some(value) => Some(cap("max_per_session", &value.to_string())?),
        None => None,
    };
    // Blank is unset.
    let max_per_session = match variable.filter(|text| !text.trim().is_empty()) {
        Some(text) => Some(Given {
            value: cap(MAX_PER_SESSION_VARIABLE, &text)?,
            source: SettingSource::Environment,
        }),
        None => configured_cap.map(|value| Given { value, source: SettingSource::Configuration }),
    };
    Ok(GivenSettings {
        max_per_session,
        merge: configured(file.merge_enabled),
        auto_merge: configured(file.auto_merge_enabled),
    })
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn read_file(path: &Path) -> Result<File, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
    toml::from_str(&text)
        .map_err(|error| ConfigError::Parse { path: path.to_owned(), error: Box::new(error) })
}

fn agent(name: &str, table: AgentTable) -> Result<AgentSpec, ConfigError> {
    let key = |field: &str| format!("agents.{name}.{field}");
    let of_kind = match table.kind {
        AgentKind::Demo => demo::abilities(),
        AgentKind::Command => Abilities::default(),
    };
    let abilities = Abilities {
        models: table.models.unwrap_or(of_kind.models),
        plan_mode: table.plan_mode.unwrap_or(of_kind.plan_mode),
    };
    let is_name = |model: &&String| {
        !model.trim().is_empty() && model.len() <= NAME_BYTES_MAX && !model.contains('\0')
    };
    if let Some(model) = abilities.models.iter().find(|model| !is_name(model)) {
        return Err(ConfigError::Value {
            key: key("models"),
            value: model.clone(),
            why: "a model needs a name that is not too long",
        });
    }
    match (table.kind, table.command) {
        (AgentKind::Demo, None)
            if table.args.is_empty()
                && table.env_from.is_empty()
                && table.cancel_grace.is_none() =>
        {
            Ok(AgentSpec::Demo(abilities))
        }
        (AgentKind::Demo, command) => Err(ConfigError::Value {
            key: format!("agents.{name}"),
            value: command.unwrap_or_else(|| "demo".to_owned()),
            why: "the demo agent has no settings but its kind, its models and its plan mode",
        }),
        (AgentKind::Command, Some(program)) if !program.trim().is_empty() => {
            Ok(AgentSpec::Command(CommandSpec {
                program,
                args: table.args,
                env_from: table.env_from,
                cancel_grace: match &table.cancel_grace {
                    Some(text) => duration(&key("cancel_grace"), text)?,
                    None => CANCEL_GRACE,
                },
                abilities,
            }))
        }
        (AgentKind::Command, command) => Err(ConfigError::Value {
            key: key("command"),
            value: command.unwrap_or_default(),
            why: "an agent of kind \"command\" needs a program",
        }),
    }
}

/// Reads the interval of pings. A shorter one than a second would drop links that are only slow.
fn heartbeat(text: &Option<String>) -> Result<Duration, ConfigError> {
    let Some(text) = text else {
        return Ok(Duration::from_millis(HEARTBEAT_MS));
    };
    match duration("heartbeat", text)? {
        interval if interval >= HEARTBEAT_MIN => Ok(interval),
        _ => Err(ConfigError::Value {
            key: "heartbeat".to_owned(),
            value: text.clone(),
            why: "at least a second",
        }),
    }
}

/// Reads a number of which none would make no sense.
fn count(key: &str, given: Option<i64>, default: usize) -> Result<usize, ConfigError> {
    match given.map(usize::try_from) {
        None => Ok(default),
        Some(Ok(count)) if count > 0 => Ok(count),
        Some(_) => Err(ConfigError::Value {
            key: key.to_owned(),
            value: given.unwrap_or_default().to_string(),
            why: "a whole number from 1",
        }),
    }
}

/// Reads a cap: ASCII digits only, 0 (no cap) to [`ENTRIES_MAX`].
fn cap(key: &str, text: &str) -> Result<u32, ConfigError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = text.parse::<u32>().ok().filter(|cap| digits && *cap as usize <= ENTRIES_MAX);
    value.ok_or_else(|| ConfigError::Value {
        key: key.to_owned(),
        value: text.to_owned(),
        why: "a whole number from 0 (no cap) to 1000",
    })
}

/// Reads a time: ASCII digits and a unit, longer than nothing, at most a day.
fn duration(key: &str, text: &str) -> Result<Duration, ConfigError> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    let parsed = units.iter().find_map(|(unit, millis)| {
        let digits = text.strip_suffix(unit)?;
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then_some(())?;
        digits.parse::<u64>().ok()?.checked_mul(*millis)
    });
    match parsed {
        Some(millis @ 1..=86_400_000) => Ok(Duration::from_millis(millis)),
        Some(_) | None => Err(ConfigError::Value {
            key: key.to_owned(),
            value: text.to_owned(),
            why: "a time such as \"500ms\", \"15s\" or \"2m\", more than nothing and up to a day",
        }),
    }
}

#[cfg(test)]
mod tests {
    use usher_shared::limits::QUEUE_CAP_DEFAULT;

    use super::*;
    use crate::domain::settings::SavedSettings;

    fn args() -> ServeArgs {
        ServeArgs {
            data_dir: None,
            listen: Vec::new(),
            database: None,
            config: None,
            agent: None,
            token_file: None,
            tls_cert: None,
            tls_key: None,
            log_format: LogFormat::Text,
        }
    }

    fn with_cap(text: &str) -> Result<u32, String> {
        Settings::load(&args(), |name| (name == MAX_PER_SESSION_VARIABLE).then(|| text.to_owned()))
            .map(|settings| settings.queue.over(&SavedSettings::default()).max_per_session.value)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_certificate_and_its_key_come_together_and_flags_beat_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        let load = |text: &str, cert: Option<&str>, key: Option<&str>| {
            std::fs::write(&path, text).unwrap();
            let (tls_cert, tls_key) = (cert.map(PathBuf::from), key.map(PathBuf::from));
            let args = ServeArgs { config: Some(path.clone()), tls_cert, tls_key, ..args() };
            Settings::load(&args, |_| None).map(|settings| settings.tls)
        };
        let files = |cert: PathBuf, key: &str| Some(TlsFiles { cert, key: PathBuf::from(key) });
        let both = "tls_cert = \"c.pem\"\ntls_key = \"/k.pem\"";
        assert_eq!(load("", None, None).unwrap(), None);
        assert_eq!(load(both, None, None).unwrap(), files(dir.path().join("c.pem"), "/k.pem"));
        assert_eq!(load(both, Some("x.pem"), None).unwrap(), files("x.pem".into(), "/k.pem"));
        assert!(load("tls_cert = \"c.pem\"", None, None).is_err());
        assert!(load("", None, Some("k.pem")).is_err());
    }

    #[test]
    fn c142_a_bad_cap_is_refused_with_its_name_and_value() {
        assert_eq!(with_cap(""), Ok(QUEUE_CAP_DEFAULT));
        assert_eq!(with_cap("0"), Ok(0));
        assert_eq!(with_cap("1000"), Ok(1000));
        let many = "9".repeat(23);
        for text in [" 10", "10s", "-1", "1e3", "0x10", "1001", "+5", &many, "\u{661}\u{660}"] {
            let error = with_cap(text).unwrap_err();
            assert!(error.contains(MAX_PER_SESSION_VARIABLE), "{error}");
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn what_file_and_environment_say_about_the_queue_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, "max_per_session = 5\nauto_merge_enabled = false").unwrap();
        let load = |cap: Option<&str>| {
            let args = ServeArgs { config: Some(path.clone()), ..args() };
            Settings::load(&args, |_| cap.map(str::to_owned)).unwrap().queue
        };
        let configured = GivenSettings {
            max_per_session: Some(Given { value: 5, source: SettingSource::Configuration }),
            merge: None,
            auto_merge: Some(Given { value: Switch::Off, source: SettingSource::Configuration }),
        };
        assert_eq!(load(None), configured);
        assert_eq!(load(Some(" ")), configured);
        let max_per_session = Some(Given { value: 0, source: SettingSource::Environment });
        assert_eq!(load(Some("0")), GivenSettings { max_per_session, ..configured });
    }

    #[test]
    fn c144_a_time_of_nothing_is_refused() {
        for text in ["0s", "0ms", "", "15", "-1s", "1.5s", "25h", "s", "99999999999999999999s"] {
            assert!(duration("heartbeat", text).is_err(), "{text}");
        }
        assert_eq!(duration("heartbeat", "15s").unwrap(), Duration::from_secs(15));
        assert_eq!(duration("heartbeat", "250ms").unwrap(), Duration::from_millis(250));
    }

    #[test]
    fn an_agent_has_the_models_and_the_plan_mode_that_it_is_given() {
        let abilities = |kind: &str, more: &str| {
            let table = toml::from_str(&format!("kind = \"{kind}\"\n{more}")).unwrap();
            agent("x", table)
                .map(|spec| spec.abilities().clone())
                .map_err(|error| error.to_string())
        };
        let models = |names: &[&str], plan_mode| Abilities {
            models: names.iter().map(|name| (*name).to_owned()).collect(),
            plan_mode,
        };
        let command = "command = \"cat\"\n";
        assert_eq!(abilities("demo", ""), Ok(models(&["demo", "demo-fast"], true)));
        assert_eq!(abilities("demo", "models = []\nplan_mode = false"), Ok(models(&[], false)));
        assert_eq!(abilities("command", command), Ok(models(&[], false)));
        let given = format!("{command}models = [\"a\", \"b\"]\nplan_mode = true");
        assert_eq!(abilities("command", &given), Ok(models(&["a", "b"], true)));
        for model in ["", " ", "a\\u0000", &"x".repeat(NAME_BYTES_MAX + 1)] {
            let refused = abilities("demo", &format!("models = [\"{model}\"]")).unwrap_err();
            assert!(refused.contains("agents.x.models"), "{refused}");
        }
    }

    #[test]
    fn unknown_keys_and_agents_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let load = |text: &str| {
            let path = dir.path().join("config.toml");
            std::fs::write(&path, text).unwrap();
            Settings::load(&ServeArgs { config: Some(path), ..args() }, |_| None)
                .map(|settings| settings.agents.default_name().to_owned())
        };
        assert_eq!(load("default_agent = \"demo\"").unwrap(), "demo");
        assert!(load("hartbeat = \"1s\"").is_err());
        assert!(load("default_agent = \"nobody\"").is_err());
        assert!(load("[agents.x]\nkind = \"command\"").is_err());
        assert!(load("[agents.x]\nkind = \"command\"\ncommand = \" \"").is_err());
        assert!(load("[agents.\"\"]\nkind = \"demo\"").is_err());
        assert!(load("heartbeat = \"999ms\"").is_err());
        assert!(load("heartbeat = \"1s\"").is_ok());
        let cat = "default_agent = \"x\"\n[agents.x]\nkind = \"command\"\ncommand = \"cat\"";
        assert_eq!(load(cat).unwrap(), "x");
    }
}
