//! One connection through a faulty link: two sockets, and a way in each direction.

use std::net::Shutdown;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::frame::Frame;
use super::record::{Seen, Way};
use super::rule::Fate;
use super::state::{Door, Flow, Shared, Verdict};

/// Where clients come in.
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Where the server is.
#[derive(Clone)]
pub(super) enum Upstream {
    Unix(PathBuf),
    Tcp(String),
}

/// What the end of one side does to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// It ends, too.
    Joined,
    /// It is not told: we have hung up on the one that sends this way.
    Apart(Way),
    /// It is not told, and nothing passes either.
    Dead,
}

/// What the others know of a connection.
pub(super) struct Carrier {
    pub(super) number: usize,
    pub(super) ends: Ends,
    client: Handle,
    server: Handle,
    to_client: mpsc::UnboundedSender<Item>,
    to_server: mpsc::UnboundedSender<Item>,
}

impl Carrier {
    /// Puts a frame behind those that wait; no rule sees it.
    pub(super) fn send(&self, way: Way, frame: Frame, fate: Fate) {
        let queue = match way {
            Way::ToServer => &self.to_server,
            Way::ToClient => &self.to_client,
        };
        // Nobody to send it to: then it is lost, as a frame is.
        let _ = queue.send(Item::ByHand(frame, fate));
    }

    pub(super) fn cut(self) {
        self.client.hang_up();
        self.server.hang_up();
    }

    pub(super) fn cut_client(&mut self) {
        self.ends = Ends::Apart(Way::ToServer);
        self.client.hang_up();
    }

    pub(super) fn cut_server(&mut self) {
        self.ends = Ends::Apart(Way::ToClient);
        self.server.hang_up();
    }
}

/// What waits to be passed on.
enum Item {
    Frame { frame: Frame, due: Instant },
    ByHand(Frame, Fate),
    End,
}

/// A second hold on a socket, to hang up with.
enum Handle {
    Unix(std::os::unix::net::UnixStream),
    Tcp(std::net::TcpStream),
}

impl Handle {
    fn hang_up(&self) {
        // It may be over already.
        let _ = match self {
            Self::Unix(socket) => socket.shutdown(Shutdown::Both),
            Self::Tcp(socket) => socket.shutdown(Shutdown::Both),
        };
    }
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

type Socket = (Box<dyn Duplex>, Handle);

/// Takes connections for as long as the link is there.
pub(super) async fn accept(listener: Listener, upstream: Upstream, shared: Arc<Shared>) {
    loop {
        let client = match &listener {
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| unix(stream)),
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| tcp(stream)),
        };
        let client = client.expect("a test has few connections").expect("a socket can be held");
        if *shared.door.borrow() == Door::Shut {
            shared.see(Seen::Refused);
            continue;
        }
        tokio::spawn(connect(client, upstream.clone(), Arc::clone(&shared)));
    }
}

fn unix(stream: UnixStream) -> std::io::Result<Socket> {
    let stream = stream.into_std()?;
    let handle = Handle::Unix(stream.try_clone()?);
    Ok((Box::new(UnixStream::from_std(stream)?), handle))
}

fn tcp(stream: TcpStream) -> std::io::Result<Socket> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let handle = Handle::Tcp(stream.try_clone()?);
    Ok((Box::new(TcpStream::from_std(stream)?), handle))
}

/// Waits until the connection may be made, and makes it.
async fn connect(client: Socket, upstream: Upstream, shared: Arc<Shared>) {
    let (mut door, mut flow) = (shared.door.subscribe(), shared.flow.subscribe());
    let passable = async {
        door.wait_for(|door| *door == Door::Open).await.is_ok()
            && flow.wait_for(|flow| *flow == Flow::Free).await.is_ok()
    };
    if !passable.await {
        return;
    }
    let server = match upstream {
        Upstream::Unix(path) => UnixStream::connect(path).await.and_then(unix),
        Upstream::Tcp(address) => TcpStream::connect(address).await.and_then(tcp),
    };
    // Without a server, the client meets what it would have met there: a connection that ends.
    let Ok((mut server, server_handle)) = server else {
        return shared.see(Seen::Refused);
    };
    let (mut client, client_handle) = client;
    if pass_head(&mut client, &mut server).await.is_err()
        || pass_head(&mut server, &mut client).await.is_err()
    {
        return;
    }
    let (to_server, to_server_out) = mpsc::unbounded_channel();
    let (to_client, to_client_out) = mpsc::unbounded_channel();
    let number = shared.opened(|number| Carrier {
        number,
        ends: Ends::Joined,
        client: client_handle,
        server: server_handle,
        to_client: to_client.clone(),
        to_server: to_server.clone(),
    });
    let (from_client, into_client) = tokio::io::split(client);
    let (from_server, into_server) = tokio::io::split(server);
    let passage = |way| Passage { number, way, shared: Arc::clone(&shared) };
    let (up, down) = (passage(Way::ToServer), passage(Way::ToClient));
    tokio::select! {
        () = up.take(from_client, to_server) => {}
        () = down.take(from_server, to_client) => {}
        () = up.give(into_server, to_server_out) => {}
        () = down.give(into_client, to_client_out) => {}
    }
    shared.forget(number);
}

/// Passes the HTTP part of a connection on, one way.
async fn pass_head(
    from: &mut (impl AsyncRead + Unpin),
    into: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(from.read_u8().await?);
    }
    into.write_all(&head).await?;
    into.flush().await
}

/// One direction of one connection.
struct Passage {
    number: usize,
    way: Way,
    shared: Arc<Shared>,
}

impl Passage {
    /// Reads for as long as something comes. Never ends: what ends a connection is the end of its
    /// frames, in their order.
    async fn take(&self, mut from: impl AsyncRead + Unpin, queue: mpsc::UnboundedSender<Item>) {
        while let Ok(frame) = Frame::read(&mut from).await {
            let (delay, _) = self.shared.pace();
            let due = Instant::now() + delay;
            if queue.send(Item::Frame { frame, due }).is_err() {
                break;
            }
        }
        let _ = queue.send(Item::End);
        std::future::pending().await
    }

    /// Passes on until one side has hung up and the other is to know.
    async fn give(
        &self,
        mut into: impl AsyncWrite + Unpin,
        mut queue: mpsc::UnboundedReceiver<Item>,
    ) {
        let mut flow = self.shared.flow.subscribe();
        while let Some(item) = queue.recv().await {
            if let Item::Frame { due, .. } = item {
                sleep_until(due).await;
            }
            if flow.wait_for(|flow| *flow == Flow::Free).await.is_err() {
                return;
            }
            match item {
                Item::Frame { frame, .. } => self.pass(frame, &mut into).await,
                Item::ByHand(frame, fate) => {
                    self.see(fate, frame.text());
                    self.write(frame.bytes(), &mut into).await;
                }
                Item::End => {
                    if self.shared.ended(self.number, self.way) == Ends::Joined {
                        return;
                    }
                }
            }
        }
    }

    async fn pass(&self, frame: Frame, into: &mut (impl AsyncWrite + Unpin)) {
        let text = frame.text();
        let Verdict { fate, then } = self.shared.meet(self.number, self.way, text.as_deref());
        // Before anybody can answer it: the record has causes before effects.
        self.see(fate.clone(), text.clone());
        match &fate {
            Fate::Pass | Fate::Released | Fate::Forged => self.write(frame.bytes(), into).await,
            Fate::Part(bytes) => self.write(&frame.bytes()[..*bytes], into).await,
            Fate::Rewrite(change) => {
                let mut json = serde_json::from_str(text.as_deref().unwrap_or_default())
                    .expect("rules are about JSON");
                change(&mut json);
                self.write(frame.saying(&json.to_string()).bytes(), into).await;
            }
            Fate::Hold => self.shared.hold(self.number, self.way, frame),
            Fate::Refuse { .. } => {
                self.shared.forge(self.number, text.as_deref().unwrap_or_default(), &fate);
            }
            Fate::Swallow => {}
        }
        self.shared.carry_out(&then);
    }

    fn see(&self, fate: Fate, text: Option<String>) {
        if let Some(text) = text {
            self.shared.see(Seen::Frame { link: self.number, way: self.way, fate, text });
        }
    }

    /// Writes at the pace that is set now. A peer that is gone takes nothing, and its end comes on
    /// the other way.
    async fn write(&self, bytes: &[u8], into: &mut (impl AsyncWrite + Unpin)) {
        let (_, bytes_per_second) = self.shared.pace();
        let tick = Duration::from_millis(50);
        let piece = bytes_per_second.map_or(usize::MAX, |rate| (rate as usize / 20).max(1));
        for piece in bytes.chunks(piece) {
            let _ = into.write_all(piece).await;
            let _ = into.flush().await;
            if bytes_per_second.is_some() {
                sleep(tick).await;
            }
        }
    }
}
