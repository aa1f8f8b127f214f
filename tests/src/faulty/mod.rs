//! A link that fails as it is told to: an in-process proxy between a real client and a real server.
//!
//! It passes WebSocket frames on as they are, byte for byte and in order, keeps a record of every
//! text frame, and does harm in one of two ways: at once ([`FaultyLink::act`]), or when a frame comes
//! by that a [`Rule`] waits for. It runs on a thread of its own, so that a test may block. Everything
//! is waited for by the record; times are only ever part of a fault ("the link is back after 2 s").

mod frame;
mod link;
mod record;
mod rule;
mod state;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};

use crate::server::Server;
use link::{Listener, Upstream};
use state::Shared;

pub use record::{Record, Seen, Way};
pub use rule::{Do, Fate, Matching, RAW_TEXT, Rule};

/// See the module.
pub struct FaultyLink {
    shared: Arc<Shared>,
    address: String,
    runtime: Option<Runtime>,
}

impl fmt::Debug for FaultyLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyLink")
    }
}

impl FaultyLink {
    /// Stands before the server's Unix socket, also when the server is started again.
    pub fn before(server: &Server) -> Self {
        Self::named(server, "faulty")
    }

    /// The same for a test that has several: each has a name.
    pub fn named(server: &Server, name: &str) -> Self {
        let place = server.launch().home().path(&format!("run/{name}.sock"));
        let upstream = Upstream::Unix(server.launch().socket());
        Self::start(|| Listener::Unix(bind(&place)), format!("unix:{}", place.display()), upstream)
    }

    /// Stands before the TCP address of a server.
    pub fn over_tcp(server: &Server) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.set_nonblocking(true).expect("a socket has modes");
        let address = listener.local_addr().expect("a bound socket has an address");
        let listen = || Listener::Tcp(TcpListener::from_std(listener).expect("it listens"));
        Self::start(listen, format!("ws://{address}"), Upstream::Tcp(server.tcp_address()))
    }

    fn start(listen: impl FnOnce() -> Listener, address: String, upstream: Upstream) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a thread can be started");
        let shared = Arc::new(Shared::new(runtime.handle().clone()));
        let listener = {
            let _context = runtime.enter();
            listen()
        };
        runtime.spawn(link::accept(listener, upstream, Arc::clone(&shared)));
        Self { shared, address, runtime: Some(runtime) }
    }

    /// Returns the address that a client is given instead of the server's.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits for frames from now on. Rules are asked in the order they came; the first one that
    /// wants a frame has it.
    pub fn rule(&self, rule: Rule) {
        self.shared.add_rule(rule);
    }

    /// Does these things now, in order, those behind an [`Do::After`] later.
    pub fn act(&self, steps: &[Do]) {
        self.shared.carry_out(steps);
    }

    /// Puts a mark into the record, to tell what came before it from what came after.
    pub fn mark(&self, name: &'static str) {
        self.shared.see(Seen::Marked(name));
    }

    /// Returns what happened so far.
    pub fn record(&self) -> Record {
        self.shared.record()
    }

    /// Waits until the record is as wanted; returns it.
    pub fn until(&self, what: &str, is: impl Fn(&Record) -> bool) -> Record {
        self.shared.until(what, is)
    }

    /// Waits until so many frames of a kind came by, whatever became of them.
    pub fn until_seen(&self, matching: &Matching, count: usize) -> Record {
        let what = format!("{count} of {matching:?}");
        self.until(&what, |record| record.frames(matching).len() >= count)
    }
}

fn bind(place: &PathBuf) -> UnixListener {
    UnixListener::bind(place).expect("a home is short and writable, and the name is free")
}

impl Drop for FaultyLink {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A test may be inside of a runtime of its own, where waiting for this one is forbidden.
            runtime.shutdown_background();
        }
    }
}
