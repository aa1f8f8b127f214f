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
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use usher_shared::client::Input;
use usher_shared::limits::{FRAME_BYTES_MAX, IN_FLIGHT_MAX};

use super::address::ServerAddress;
use super::own::ensure_server;
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
    Named(ServerAddress),
}

impl Server {
    /// Tells whether it sees our files: a Unix socket does not leave the machine.
    pub fn files(&self) -> Files {
        match self {
            Self::Own(_) | Self::Named(ServerAddress::Unix(_)) => Files::Shared,
            Self::Named(ServerAddress::Tcp { .. }) => Files::Apart,
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
    task: JoinHandle<()>,
}

impl Link {
    /// Starts a task that connects to `server` when it is told to. Needs a running tokio.
    pub fn spawn(server: Server) -> Self {
        let (commands, commands_out) = mpsc::channel(COMMANDS_MAX);
        let (inputs_in, inputs) = mpsc::channel(INPUTS_MAX);
        let task = tokio::spawn(run(server, commands_out, inputs_in));
        Self { commands, inputs, task }
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

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It could not be made, or was not wanted any more before it was.
    NeverOpen,
    /// With the code of the server's close frame, if one came.
    Closed(Option<u16>),
}

async fn run(
    server: Server,
    mut commands: mpsc::Receiver<LinkCommand>,
    inputs: mpsc::Sender<Input>,
) {
    let mut starting = Starting::Allowed;
    while let Some(command) = commands.recv().await {
        match command {
            LinkCommand::Connect => {
                let end = one_connection(&server, starting, &mut commands, &inputs).await;
                let code = match end {
                    End::NeverOpen => None,
                    End::Closed(code) => {
                        starting = Starting::after(code);
                        code
                    }
                };
                if inputs.send(Input::LinkClosed { code }).await.is_err() {
                    return;
                }
            }
            // Meant for a connection that is gone by now.
            LinkCommand::Disconnect | LinkCommand::Send(_) => {}
        }
    }
}

/// Lives as long as one connection.
async fn one_connection(
    server: &Server,
    starting: Starting,
    commands: &mut mpsc::Receiver<LinkCommand>,
    inputs: &mpsc::Sender<Input>,
) -> End {
    match server {
        Server::Own(paths) => {
            let socket = async {
                if starting == Starting::Allowed {
                    ensure_server(paths).await.map_err(io::Error::other)?;
                }
                upgrade(UnixStream::connect(&paths.socket).await?, "localhost").await
            };
            converse(socket, commands, inputs).await
        }
        Server::Named(ServerAddress::Unix(path)) => {
            let socket = async { upgrade(UnixStream::connect(path).await?, "localhost").await };
            converse(socket, commands, inputs).await
        }
        Server::Named(address @ ServerAddress::Tcp { host, port }) => {
            let socket = async {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                let address = address.to_string();
                upgrade(stream, address.trim_start_matches("ws://")).await
            };
            converse(socket, commands, inputs).await
        }
    }
}

async fn upgrade<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    authority: &str,
) -> io::Result<WebSocketStream<S>> {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(Some(FRAME_BYTES_MAX))
        .max_frame_size(Some(FRAME_BYTES_MAX));
    let request = format!("ws://{authority}/ws");
    let upgraded = client_async_with_config(request, stream, Some(config)).await;
    let (socket, _) = upgraded.map_err(io::Error::other)?;
    Ok(socket)
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    connecting: impl Future<Output = io::Result<WebSocketStream<S>>>,
    commands: &mut mpsc::Receiver<LinkCommand>,
    inputs: &mpsc::Sender<Input>,
) -> End {
    let socket = tokio::select! {
        socket = connecting => socket,
        () = until_told_to_end(commands) => return End::NeverOpen,
    };
    let Ok(socket) = socket else {
        return End::NeverOpen;
    };
    let (sink, stream) = socket.split();
    let (outgoing, outgoing_out) = mpsc::channel(COMMANDS_MAX);
    tokio::select! {
        code = read(stream, inputs) => End::Closed(code),
        () = write(sink, outgoing_out) => End::Closed(None),
        () = pass_on(commands, outgoing) => End::Closed(None),
    }
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
