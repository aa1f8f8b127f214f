//! A server process: from its flags to its exit code.

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use crate::agent::{Owner, end_orphans};
use crate::config::{LogFormat, ServeArgs, Settings};
use crate::dispatch::{DispatchSettings, Dispatcher, Questions, TurnEnds};
use crate::net::{Access, ListenAddress, Listeners, News, Server, ServerParts};
use crate::net::{Hub, Sink, Tls};
use crate::service::Service;
use crate::store::{DatabaseUrl, Store, StoreError, StoreFiles, Sync};

/// What is in flight when the server is told to stop may take this long.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// The one line on stdout: the server serves.
#[derive(Serialize)]
struct Listening {
    event: &'static str,
    urls: Vec<String>,
    pid: u32,
    version: &'static str,
}

/// Runs a server until it is told to stop; returns the process's exit code.
///
/// Prints one JSON line to stdout when it serves; everything else goes to stderr.
pub fn serve(args: ServeArgs) -> ExitCode {
    start_log(args.log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let served = runtime
        .map_err(|error| format!("no runtime: {error}"))
        .and_then(|runtime| runtime.block_on(run(args)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

/// Tells the operator why the server did not start, if anybody listens.
fn report(error: &str) {
    drop(writeln!(std::io::stderr(), "usherd: {error}"));
}

/// Log lines on stderr. Where they cannot be written they are lost: a full disk or a closed pipe
/// behind stderr must not stop the server.
#[derive(Clone, Copy)]
struct Log;

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        drop(std::io::stderr().write_all(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Log)
        .log_internal_errors(false)
        .with_ansi(false);
    let started = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    if let Err(error) = started {
        report(&format!("no log: {error}"));
    }
}

async fn run(args: ServeArgs) -> Result<(), String> {
    let settings = Settings::load(&args, |name| std::env::var(name).ok())
        .map_err(|error| error.to_string())?;
    let data_dir = args.data_dir.as_deref().ok_or("--data-dir names no directory")?;
    let tls = settings.tls.clone().map(Tls::load).transpose();
    let tls = tls.map_err(|error| error.to_string())?.map(Arc::new);
    let addresses = addresses(&args.listen, tls.is_some())?;
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;

    make_private_folder(data_dir)?;
    let hub = Arc::new(Hub::new());
    let dispatcher = Arc::new(Dispatcher::default());
    let news = Arc::new(News::default());
    let ends = Arc::new(TurnEnds::default());
    let sink = Sink {
        hub: Arc::clone(&hub),
        dispatcher: Arc::clone(&dispatcher),
        news: Arc::clone(&news),
        ends: Arc::clone(&ends),
    };
    let files = StoreFiles::of(data_dir);
    let store = open_store(args.database.clone(), files.clone(), Arc::new(sink))
        .await
        .map_err(|error| format!("{}: {error}", data_dir.display()))?;
    store.join(settings.node_lease).await.map_err(|error| error.to_string())?;
    let access = access(args.token_file.as_deref(), data_dir)?;
    write_pid(&data_dir.join("usherd.pid"))?;

    // The lock is held: agents of this directory that still run have lost their server.
    let agent_owner = Owner::of(&files.lock).map_err(|error| error.to_string())?;
    let orphans = end_orphans(&agent_owner);
    if orphans > 0 {
        info!(processes = orphans, "ended agents that a killed server left running");
    }
    let agents = Arc::new(settings.agents.owned_by(agent_owner));

    let dispatch = DispatchSettings { pass: settings.dispatch_pass };
    let questions = Arc::new(Questions::default());
    let service = Service::new(
        store,
        settings.queue,
        settings.lease_times,
        settings.staged_ttl,
        agents,
        questions,
        ends,
    );
    let recovered = service.recover().await.map_err(|error| error.to_string())?;
    if recovered > 0 {
        info!(turns = recovered, "settled turns that a stopped server left open");
    }
    service.finish_deletes().await.map_err(|error| error.to_string())?;
    service.sweep_edits().await.map_err(|error| error.to_string())?;
    service.sweep_attachments().await.map_err(|error| error.to_string())?;
    let (store_id, owner) = service.whoami().await.map_err(|error| error.to_string())?;
    // Nothing starts before it is clear that this server can serve.
    let listeners = Listeners::bind(&addresses, tls.clone()).await?;
    if let Some(tls) = tls {
        renew_when_told(tls)?;
    }
    let (drain, draining) = watch::channel(false);
    let running = tokio::spawn(Arc::clone(&dispatcher).run(
        service.clone(),
        Arc::clone(&hub),
        dispatch,
        draining.clone(),
    ));
    let server = Arc::new(Server::new(ServerParts {
        service: service.clone(),
        hub,
        access,
        news,
        store_id,
        owner,
        lease_ttl_ms: settings.lease_times.ttl.unsigned_abs(),
        link_bounds: settings.link_bounds,
        heartbeat: settings.heartbeat,
        allowed_origins: settings.allowed_origins,
        draining,
    }));
    let urls = listeners.urls();
    let socket_files = listeners.serve(&server);
    tokio::spawn({
        let server = Arc::clone(&server);
        async move { tokio::join!(server.tell_news(), server.watch_users(), server.forget_events()) }
    });
    announce(urls)?;

    tokio::select! {
        _ = terminate.recv() => info!("told to stop"),
        _ = interrupt.recv() => info!("told to stop"),
    }
    drain.send_replace(true);
    drop(socket_files);
    let ended = async { tokio::join!(server.all_links_ended(), running) };
    if tokio::time::timeout(DRAIN_MAX, ended).await.is_err() {
        warn!("some links or agents did not end in time");
    }
    service.settle().await;
    Ok(())
}

/// Reads where to listen.
fn addresses(texts: &[String], has_tls: bool) -> Result<Vec<ListenAddress>, String> {
    let read = |text: &String| match ListenAddress::parse(text) {
        Ok(address) if address.needs_tls() && !has_tls => Err(format!(
            "--listen {text}: other machines can connect to this address; that needs TLS: \
             --tls-cert FILE and --tls-key FILE"
        )),
        Ok(address) => Ok(address),
        Err(why) => Err(format!("--listen {text}: {why}")),
    };
    texts.iter().map(read).collect()
}

/// Reads the certificate again at each HUP.
fn renew_when_told(tls: Arc<Tls>) -> Result<(), String> {
    let mut hangup = signal(SignalKind::hangup()).map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let tls = Arc::clone(&tls);
            // Its files may be on a disk that takes its time.
            drop(spawn_blocking(move || tls.reload()).await);
        }
    });
    Ok(())
}

/// Reads the owner's token. Only the data directory's own one is made: a name that was given and
/// leads nowhere is a mistake.
fn access(given: Option<&Path>, data_dir: &Path) -> Result<Access, String> {
    let own = data_dir.join("token");
    let file = given.unwrap_or(&own);
    let loaded = if given.is_some() { Access::load(file) } else { Access::load_or_make(file) };
    loaded.map_err(|error| format!("token file {}: {error}", file.display()))
}

async fn open_store(
    database: Option<DatabaseUrl>,
    files: StoreFiles,
    sink: Arc<Sink>,
) -> Result<Store, StoreError> {
    let opened = spawn_blocking(move || match database {
        Some(url) => Store::connect(&url, &files, &user_name(), sink),
        None => Store::open(&files, &user_name(), sync(), sink),
    });
    opened.await.unwrap_or(Err(StoreError::Closed))
}

#[cfg(not(feature = "stop-points"))]
const fn sync() -> Sync {
    Sync::Full
}

/// The durability tests show that they would notice a server that does not sync.
#[cfg(feature = "stop-points")]
fn sync() -> Sync {
    if std::env::var("USHER_TEST_SYNC").is_ok_and(|value| value == "off") {
        Sync::Off
    } else {
        Sync::Full
    }
}

/// The first user of a new database is named after the system's user.
fn user_name() -> String {
    let mut names = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    names.find(|name| !name.trim().is_empty()).unwrap_or_else(|| "user".to_owned())
}

fn make_private_folder(path: &Path) -> Result<(), String> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| format!("{}: {error}", path.display()))
}

fn write_pid(path: &Path) -> Result<(), String> {
    std::fs::write(path, format!("{}\n", std::process::id()))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn announce(urls: Vec<String>) -> Result<(), String> {
    let line = Listening {
        event: "listening",
        urls,
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION"),
    };
    let line = serde_json::to_string(&line).map_err(|error| error.to_string())?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| error.to_string())
}
