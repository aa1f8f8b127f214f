//! The socket, as a task with two channels.
//!
//! Promises one [`Input::LinkClosed`] per [`LinkCommand::Connect`], after at most one
//! [`Input::LinkOpened`]. Commands are always taken at once: neither a peer that does not read nor
//! a program that does not listen can hold up a [`LinkCommand::Disconnect`]. A program that does
//! not take inputs stops the reading, and so the peer.

use std::io;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use usher_shared::client::Input;
use usher_shared::limits::{FRAME_BYTES_MAX, IN_FLIGHT_MAX};

use super::address::{Authority, ServerAddress};
use super::own::ensure_server;
use super::tls::{Handshakes, Trust};
use super::trouble::{Trouble, TroubleKind, of_plain_upgrade, of_upgrade};
use crate::paths::Paths;
use crate::start::Files;

/// Commands that the task did not take yet. The engine has at most [`IN_FLIGHT_MAX`] requests
/// open, and asks for one connection at a time.
pub const COMMANDS_MAX: usize = 2 * IN_FLIGHT_MAX;
/// Inputs that the program did not take yet; then the socket is not read.
pub const INPUTS_MAX: usize = 64;
/// Bytes that one read of the socket takes: a terminal client has one connection, and most frames
/// are small.
const READ_BUFFER_BYTES: usize = 4_096;

/// The close code of a server that stops on purpose (RFC 6455, "going away").
const GOING_AWAY: u16 = 1001;

/// Which server to talk to.
#[derive(Clone, Debug)]
pub enum Server {
    /// The user's own: started when nobody answers, unless it was stopped on purpose.
    Own(Paths),
    /// One that somebody else runs.
    Named {
        /// Where it is.
        address: ServerAddress,
        /// Who vouches for it, if it has a certificate.
        trust: Trust,
    },
}

impl Server {
    /// Tells whether it sees our files: a Unix socket does not leave the machine.
    pub fn files(&self) -> Files {
        match self {
            Self::Own(_) | Self::Named { address: ServerAddress::Unix(_), .. } => Files::Shared,
            Self::Named {
                address: ServerAddress::Tcp { .. } | ServerAddress::Tls { .. }, ..
            } => Files::Apart,
        }
    }
}

impl Server {
    fn trust(&self) -> Trust {
        match self {
            Self::Own(_) => Trust::System,
            Self::Named { trust, .. } => trust.clone(),
        }
    }

    /// Says with whom there is trouble. There is none of these kinds with one's own server.
    fn trouble(&self, kind: TroubleKind) -> Option<Trouble> {
        match self {
            Self::Own(_) => None,
            Self::Named { address, .. } => Some(Trouble::new(address, kind)),
        }
    }
}

/// What the task is told.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkCommand {
    /// Open a connection.
    Connect,
    /// End the connection or the attempt.
    Disconnect,
    /// Send a text frame; dropped if there is no connection.
    Send(String),
}

/// A running task. Dropping it ends the task and the connection.
#[derive(Debug)]
pub struct Link {
    /// The way in.
    pub commands: mpsc::Sender<LinkCommand>,
    /// The way out.
    pub inputs: mpsc::Receiver<Input>,
    trouble: watch::Receiver<Option<Trouble>>,
    task: JoinHandle<()>,
}

impl Link {
    /// Starts a task that connects to `server` when it is told to. Needs a running tokio.
    pub fn spawn(server: Server) -> Self {
        let (commands, commands_out) = mpsc::channel(COMMANDS_MAX);
        let (inputs_in, inputs) = mpsc::channel(INPUTS_MAX);
        let (trouble_in, trouble) = watch::channel(None);
        let program = Program { inputs: inputs_in, trouble: trouble_in };
        let task = tokio::spawn(run(server, commands_out, program));
        Self { commands, inputs, trouble, task }
    }

    /// Returns what kept the last attempt from becoming a connection, if its person can do something
    /// about it. None while there is one. It is there before the [`Input::LinkClosed`] of that attempt.
    pub fn trouble(&self) -> Option<Trouble> {
        self.trouble.borrow().clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether the own server may be started by this task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Starting {
    Allowed,
    /// Somebody stopped it: that is not undone behind their back.
    Unwanted,
}

impl Starting {
    fn after(code: Option<u16>) -> Self {
        if code == Some(GOING_AWAY) { Self::Unwanted } else { Self::Allowed }
    }
}

/// The way to the program.
struct Program {
    inputs: mpsc::Sender<Input>,
    trouble: watch::Sender<Option<Trouble>>,
}

/// How a connection ended.
#[derive(Debug)]
enum End {
    /// It was not wanted any more before it was made.
    NeverOpen,
    /// It could not be made.
    Failed(Option<TroubleKind>),
    /// With the code of the server's close frame, if one came.
    Closed(Option<u16>),
}

async fn run(server: Server, mut commands: mpsc::Receiver<LinkCommand>, program: Program) {
    let mut starting = Starting::Allowed;
    let mut handshakes = Handshakes::new(server.trust());
    while let Some(command) = commands.recv().await {
        match command {
            LinkCommand::Connect => {
                let connection = Connection { server: &server, program: &program };
                let end = connection.live(starting, &mut handshakes, &mut commands).await;
                let (code, kind) = match end {
                    End::NeverOpen => (None, None),
                    End::Failed(kind) => (None, kind),
                    End::Closed(code) => {
                        starting = Starting::after(code);
                        (code, None)
                    }
                };
                program.trouble.send_replace(kind.and_then(|kind| server.trouble(kind)));
                if program.inputs.send(Input::LinkClosed { code }).await.is_err() {
                    return;
                }
            }
            // Meant for a connection that is gone by now.
            LinkCommand::Disconnect | LinkCommand::Send(_) => {}
        }
    }
}

/// One connection of a task.
struct Connection<'a> {
    server: &'a Server,
    program: &'a Program,
}

/// Why there is no connection, if its person can do something about it.
struct Failed(Option<TroubleKind>);

impl From<io::Error> for Failed {
    fn from(_: io::Error) -> Self {
        Self(None)
    }
}

impl Connection<'_> {
    /// Connects, and lives as long as the connection.
    async fn live(
        &self,
        starting: Starting,
        handshakes: &mut Handshakes,
        commands: &mut mpsc::Receiver<LinkCommand>,
    ) -> End {
        match self.server {
            Server::Own(paths) => {
                let socket = async {
                    if starting == Starting::Allowed {
                        ensure_server(paths).await.map_err(io::Error::other)?;
                    }
                    let stream = UnixStream::connect(&paths.socket).await?;
                    upgrade(stream, "localhost", of_upgrade).await
                };
                self.converse(socket, commands).await
            }
            Server::Named { address: ServerAddress::Unix(path), .. } => {
                let socket = async {
                    upgrade(UnixStream::connect(path).await?, "localhost", of_upgrade).await
                };
                self.converse(socket, commands).await
            }
            Server::Named { address: ServerAddress::Tcp { host, port }, .. } => {
                let socket = async {
                    let authority = Authority(host, *port).to_string();
                    upgrade(tcp(host, *port).await?, &authority, of_plain_upgrade).await
                };
                self.converse(socket, commands).await
            }
            Server::Named { address: ServerAddress::Tls { host, port }, .. } => {
                let socket = async {
                    let authority = Authority(host, *port).to_string();
                    let stream = tcp(host, *port).await?;
                    let stream = handshakes.shake(host, stream).await.map_err(Failed)?;
                    upgrade(stream, &authority, of_upgrade).await
                };
                self.converse(socket, commands).await
            }
        }
    }

    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        connecting: impl Future<Output = Result<WebSocketStream<S>, Failed>>,
        commands: &mut mpsc::Receiver<LinkCommand>,
    ) -> End {
        let socket = tokio::select! {
            socket = connecting => socket,
            () = until_told_to_end(commands) => return End::NeverOpen,
        };
        let socket = match socket {
            Ok(socket) => socket,
            Err(Failed(kind)) => return End::Failed(kind),
        };
        self.program.trouble.send_replace(None);
        let (sink, stream) = socket.split();
        let (outgoing, outgoing_out) = mpsc::channel(COMMANDS_MAX);
        tokio::select! {
            code = read(stream, &self.program.inputs) => End::Closed(code),
            () = write(sink, outgoing_out) => End::Closed(None),
            () = pass_on(commands, outgoing) => End::Closed(None),
        }
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn upgrade<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    authority: &str,
    explain: impl Fn(&tungstenite::Error) -> Option<TroubleKind>,
) -> Result<WebSocketStream<S>, Failed> {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(Some(FRAME_BYTES_MAX))
        .max_frame_size(Some(FRAME_BYTES_MAX));
    // Encrypted or not: that is beneath.
    let request = format!("ws://{authority}/ws");
    let upgraded = client_async_with_config(request, stream, Some(config)).await;
    let (socket, _) = upgraded.map_err(|error| Failed(explain(&error)))?;
    Ok(socket)
}

/// Ends when the attempt is no longer wanted.
async fn until_told_to_end(commands: &mut mpsc::Receiver<LinkCommand>) {
    while let Some(command) = commands.recv().await {
        match command {
            LinkCommand::Disconnect => return,
            LinkCommand::Connect | LinkCommand::Send(_) => {}
        }
    }
}

/// Ends when the connection is no longer wanted, or when its peer takes nothing any more.
async fn pass_on(commands: &mut mpsc::Receiver<LinkCommand>, outgoing: mpsc::Sender<String>) {
    while let Some(command) = commands.recv().await {
        match command {
            LinkCommand::Send(text) => {
                if outgoing.try_send(text).is_err() {
                    return;
                }
            }
            LinkCommand::Disconnect => return,
            LinkCommand::Connect => {}
        }
    }
}

/// Ends when the connection ends; returns its close code.
async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: SplitStream<WebSocketStream<S>>,
    inputs: &mpsc::Sender<Input>,
) -> Option<u16> {
    if inputs.send(Input::LinkOpened).await.is_err() {
        return None;
    }
    while let Some(message) = stream.next().await {
        let input = match message {
            Ok(Message::Text(text)) => Input::Frame(text.as_str().to_owned()),
            Ok(Message::Ping(_) | Message::Pong(_)) => Input::Heartbeat,
            Ok(Message::Close(frame)) => return frame.map(|frame| frame.code.into()),
            // The protocol has no binary frames; raw ones do not come out of a read.
            Ok(Message::Binary(_) | Message::Frame(_)) => continue,
            Err(_) => return None,
        };
        if inputs.send(input).await.is_err() {
            return None;
        }
    }
    None
}

/// Ends when nothing can be written any more.
async fn write<S: AsyncRead + AsyncWrite + Unpin>(
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    mut outgoing: mpsc::Receiver<String>,
) {
    while let Some(text) = outgoing.recv().await {
        let sent: Result<(), tungstenite::Error> = sink.send(Message::text(text)).await;
        if sent.is_err() {
            return;
        }
    }
    // Whoever sends decides when the connection ends.
    std::future::pending::<()>().await;
}
