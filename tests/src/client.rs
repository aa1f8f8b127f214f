//! A small WebSocket client for tests. It speaks the protocol by hand, as JSON values: it shares
//! no types with the server, so that a change of the wire shows.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use uuid::Uuid;

use crate::PATIENCE;
use crate::server::Server;

/// What a request is answered with.
pub type Answer = Result<Value, Refusal>;

/// An error frame, without its message, which is for developers.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Its code.
    pub code: String,
    /// Its details.
    pub details: Value,
}

impl Refusal {
    /// The refusal with this code and these details.
    pub fn new(code: &str, details: Value) -> Self {
        Self { code: code.to_owned(), details }
    }
}

/// The link is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The code of the server's close frame; None if it just vanished.
    pub code: Option<u16>,
}

/// Why there is no link.
#[derive(Debug)]
pub enum ConnectError {
    /// Nobody listens, or not in a way that a connection can be made.
    NoConnection(std::io::Error),
    /// The upgrade was refused with this HTTP status.
    Refused(u16),
    /// Anything else.
    Other(SocketError),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// One link.
pub struct Client {
    socket: WebSocketStream<Box<dyn Stream>>,
    requests: u64,
    answers: HashMap<String, Answer>,
    notifications: VecDeque<Value>,
    refusals: VecDeque<Refusal>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    /// Connects over the Unix socket and says hello.
    pub async fn connect(server: &Server) -> Self {
        let mut client = Self::dial(server).await.expect("the server accepts a link");
        client.hello(json!({})).await.expect("hello is answered");
        client
    }

    /// Connects over TCP and says hello as the user whose token this is.
    pub async fn connect_as(server: &Server, token: &str) -> Self {
        let mut client = Self::dial_tcp(server, &[]).await.expect("the server accepts a link");
        client.hello(json!({"token": token})).await.expect("hello is answered");
        client
    }

    /// Connects over the Unix socket and says nothing.
    pub async fn dial(server: &Server) -> Result<Self, ConnectError> {
        Self::dial_unix(server, &[]).await
    }

    /// The same with more headers.
    pub async fn dial_unix(
        server: &Server,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, ConnectError> {
        let stream = UnixStream::connect(server.launch().socket())
            .await
            .map_err(ConnectError::NoConnection)?;
        Self::upgrade(Box::new(stream), "ws://localhost/ws", headers).await
    }

    /// Connects to an address as `usher` is given it, and says hello.
    pub async fn connect_to(address: &str) -> Self {
        let mut client = Self::dial_to(address).await.expect("the server accepts a link");
        client.hello(json!({})).await.expect("hello is answered");
        client
    }

    /// Connects to such an address and says nothing.
    pub async fn dial_to(address: &str) -> Result<Self, ConnectError> {
        if let Some(path) = address.strip_prefix("unix:") {
            let stream = UnixStream::connect(path).await.map_err(ConnectError::NoConnection)?;
            return Self::upgrade(Box::new(stream), "ws://localhost/ws", &[]).await;
        }
        let host = address.strip_prefix("ws://").expect("a known kind of address");
        let stream = TcpStream::connect(host).await.map_err(ConnectError::NoConnection)?;
        Self::upgrade(Box::new(stream), &format!("{address}/ws"), &[]).await
    }

    /// Connects over TCP and says nothing.
    pub async fn dial_tcp(
        server: &Server,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, ConnectError> {
        let address = server.tcp_address();
        let stream = TcpStream::connect(&address).await.map_err(ConnectError::NoConnection)?;
        stream.set_nodelay(true).map_err(ConnectError::NoConnection)?;
        Self::upgrade(Box::new(stream), &format!("ws://{address}/ws"), headers).await
    }

    /// Connects over TLS and says nothing. The server is called by `name`, whose certificate it has
    /// to show.
    pub async fn dial_tls(
        server: &Server,
        name: &str,
        config: ClientConfig,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, ConnectError> {
        let stream = Self::shake_hands(server, name, config).await;
        let stream = stream.map_err(ConnectError::NoConnection)?;
        Self::upgrade(Box::new(stream), &format!("wss://{name}/ws"), headers).await
    }

    /// Shakes hands with a server and says nothing.
    pub async fn shake_hands(
        server: &Server,
        name: &str,
        config: ClientConfig,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let port = server.tls_address().port();
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(name.to_owned()).expect("tests use valid names");
        timed(TlsConnector::from(Arc::new(config)).connect(name, stream)).await
    }

    async fn upgrade(
        stream: Box<dyn Stream>,
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, ConnectError> {
        let mut request = url.into_client_request().expect("a fixed address is valid");
        for (name, value) in headers {
            let value = value.parse().expect("tests send valid headers");
            request.headers_mut().insert(*name, value);
        }
        let config = WebSocketConfig::default()
            .read_buffer_size(4_096)
            .max_message_size(None)
            .max_frame_size(None);
        match timed(client_async_with_config(request, stream, Some(config))).await {
            Ok((socket, _)) => Ok(Self {
                socket,
                requests: 0,
                answers: HashMap::new(),
                notifications: VecDeque::new(),
                refusals: VecDeque::new(),
            }),
            Err(SocketError::Http(response)) => {
                Err(ConnectError::Refused(response.status().as_u16()))
            }
            Err(error) => Err(ConnectError::Other(error)),
        }
    }

    /// Says hello as a new client; `changes` replace fields of the payload.
    pub async fn hello(&mut self, changes: Value) -> Answer {
        let mut payload = json!({
            "protocol": [1],
            "client": {"name": "tests", "version": "0"},
            "client_instance": Uuid::new_v4().to_string(),
        });
        merge(&mut payload, changes);
        self.request("hello", payload).await
    }

    /// Sends a request and waits for its answer.
    pub async fn request(&mut self, action: &str, payload: Value) -> Answer {
        let answer = self.try_request(action, payload).await;
        answer.unwrap_or_else(|closed| panic!("link lost during {action}: {closed:?}"))
    }

    /// The same on a link that may end.
    pub async fn try_request(&mut self, action: &str, payload: Value) -> Result<Answer, Closed> {
        let id = self.send(action, payload).await?;
        self.answer(&id).await
    }

    /// Sends a request that has to work.
    pub async fn ok(&mut self, action: &str, payload: Value) -> Value {
        let answer = self.request(action, payload).await;
        answer.unwrap_or_else(|refusal| panic!("{action} was refused: {refusal:?}"))
    }

    /// Sends a request without waiting; returns its id.
    pub async fn send(&mut self, action: &str, payload: Value) -> Result<String, Closed> {
        self.requests += 1;
        let id = self.requests.to_string();
        let frame = json!({"id": id, "type": "request", "action": action, "payload": payload});
        self.send_raw(Message::text(frame.to_string())).await?;
        Ok(id)
    }

    /// Sends any frame.
    pub async fn send_raw(&mut self, message: Message) -> Result<(), Closed> {
        timed(self.socket.send(message)).await.map_err(|_| Closed { code: None })
    }

    /// Waits for the next text frame; returns it as it came.
    pub async fn text(&mut self) -> Result<String, Closed> {
        timed(async {
            loop {
                if let Some(text) = self.read_text().await? {
                    return Ok(text);
                }
            }
        })
        .await
    }

    /// Waits for the answer to the request `id`.
    pub async fn answer(&mut self, id: &str) -> Result<Answer, Closed> {
        self.read_until(|client| client.answers.remove(id)).await
    }

    /// Waits for an error frame that answers no request.
    pub async fn refusal(&mut self) -> Result<Refusal, Closed> {
        self.read_until(|client| client.refusals.pop_front()).await
    }

    /// Waits for the refusal of the request `id`, whether or not the server could read its id.
    pub async fn refusal_or_answer(&mut self, id: &str) -> Refusal {
        let refusal = self.read_until(|client| {
            let answer = client.answers.remove(id);
            let answer = answer.map(|answer| answer.expect_err("the request is refused"));
            answer.or_else(|| client.refusals.pop_front())
        });
        refusal.await.expect("the link is open")
    }

    /// Waits for the next notification; returns its action and payload.
    pub async fn notification(&mut self) -> (String, Value) {
        self.notified_of(|_, _| true).await
    }

    /// Waits for a notification of this kind, and drops those before it.
    pub async fn notified(&mut self, action: &str, matches: impl Fn(&Value) -> bool) -> Value {
        self.notified_of(|got, payload| got == action && matches(payload)).await.1
    }

    async fn notified_of(&mut self, matches: impl Fn(&str, &Value) -> bool) -> (String, Value) {
        let notification = self.read_until(|client| {
            while let Some(mut frame) = client.notifications.pop_front() {
                let payload = frame["payload"].take();
                let action = frame["action"].as_str().unwrap_or_default();
                if matches(action, &payload) {
                    return Some((action.to_owned(), payload));
                }
            }
            None
        });
        notification.await.expect("the link is open")
    }

    /// Waits until a notification is there; none is dropped.
    ///
    /// # Errors
    /// The link ended before.
    pub async fn until_notified(&mut self) -> Result<(), Closed> {
        while self.notifications.is_empty() {
            self.read().await?;
        }
        Ok(())
    }

    /// Takes the notifications that have arrived: action and payload.
    pub fn take_notifications(&mut self) -> Vec<(String, Value)> {
        let taken = self.notifications.drain(..).map(|mut frame| {
            let payload = frame["payload"].take();
            (frame["action"].as_str().unwrap_or_default().to_owned(), payload)
        });
        taken.collect()
    }

    /// Forgets the notifications that have arrived.
    pub fn forget_notifications(&mut self) {
        self.notifications.clear();
    }

    /// Waits until the server closes the link.
    pub async fn closed(&mut self) -> Closed {
        let Err(closed) = self.read_until(|_| None::<Infallible>).await;
        closed
    }

    /// Returns the bare connection, for tests that do not want to speak WebSocket on it.
    pub fn into_stream(self) -> impl AsyncRead + AsyncWrite + Unpin {
        self.socket.into_inner()
    }

    /// Cuts the link without a word.
    pub fn cut(self) {
        drop(self);
    }

    /// Reads frames until `found` gives something.
    async fn read_until<T>(
        &mut self,
        mut found: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, Closed> {
        timed(async {
            loop {
                if let Some(found) = found(self) {
                    return Ok(found);
                }
                self.read().await?;
            }
        })
        .await
    }

    /// Reads one frame; None if it has no text.
    async fn read_text(&mut self) -> Result<Option<String>, Closed> {
        match self.socket.next().await {
            Some(Ok(Message::Text(text))) => Ok(Some(text.as_str().to_owned())),
            Some(Ok(Message::Close(frame))) => {
                let code = frame.map(|frame| frame.code.into());
                Err(Closed { code })
            }
            Some(Ok(Message::Binary(_))) => panic!("the server sent a binary frame"),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
            Some(Err(_)) | None => Err(Closed { code: None }),
        }
    }

    /// Reads one frame into its place.
    async fn read(&mut self) -> Result<(), Closed> {
        let Some(text) = self.read_text().await? else {
            return Ok(());
        };
        let mut frame: Value = serde_json::from_str(&text).expect("the server sends JSON");
        let id = frame["id"].as_str().map(str::to_owned);
        match (frame["type"].as_str(), id) {
            (Some("response"), Some(id)) => {
                self.answers.insert(id, Ok(frame["payload"].take()));
            }
            (Some("error"), id) => {
                let payload = &mut frame["payload"];
                let refusal = Refusal {
                    code: payload["code"].as_str().expect("errors have a code").to_owned(),
                    details: payload["details"].take(),
                };
                match id {
                    Some(id) => drop(self.answers.insert(id, Err(refusal))),
                    None => self.refusals.push_back(refusal),
                }
            }
            (Some("notification"), None) => self.notifications.push_back(frame),
            _ => panic!("the server sent a frame of no kind: {frame}"),
        }
        Ok(())
    }
}

/// Puts the fields of `changes` over those of `object`.
pub fn merge(object: &mut Value, changes: Value) {
    if let (Value::Object(object), Value::Object(changes)) = (object, changes) {
        object.extend(changes);
    }
}

/// Bounds the wait for something that has to happen.
pub async fn timed<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("the server reacts in time")
}
