//! The engine and its socket against a peer that does as it is told.

use std::path::{Path, PathBuf};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::Request;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_async};
use usher_shared::client::{Acceptance, DeliveryState, Event, Input, LinkState, Submission};
use usher_shared::id::{AdmissionId, IncarnationId, SessionId, TaskId};
use usher_shared::protocol::queue::QueueAddParams;
use usher_shared::vocabulary::AdmissionOutcome;
use uuid::Uuid;

use super::*;

/// A server of one connection at a time.
struct Peer {
    listener: UnixListener,
    address: Server,
    folder: tempfile::TempDir,
}

impl Peer {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("s");
        Self { listener: UnixListener::bind(&path).unwrap(), address: named(&path), folder }
    }

    async fn accept(&self) -> Conversation {
        let (stream, _) = self.listener.accept().await.unwrap();
        Conversation(accept_async(stream).await.unwrap())
    }

    /// Accepts a connection and answers its `hello`.
    async fn greet(&self) -> Conversation {
        let mut conversation = self.accept().await;
        let hello = conversation.read().await;
        assert_eq!(hello["action"], "hello");
        conversation.reply(&hello, hello_reply()).await;
        conversation
    }
}

fn named(path: &Path) -> Server {
    Server::Named { address: ServerAddress::Unix(path.to_owned()), trust: Trust::System }
}

struct Conversation(WebSocketStream<UnixStream>);

impl Conversation {
    /// Reads the next request.
    async fn read(&mut self) -> Value {
        loop {
            match self.0.next().await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(text.as_str()).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("a request: {other:?}"),
            }
        }
    }

    async fn reply(&mut self, to: &Value, payload: Value) {
        let frame = json!({
            "id": to["id"], "type": "response", "action": to["action"], "payload": payload,
        });
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }
}

fn hello_reply() -> Value {
    json!({
        "protocol": 1,
        "server": {
            "name": "usherd", "version": "1",
            "epoch": Uuid::from_u128(1), "store_id": Uuid::from_u128(2),
        },
        "user": {"id": Uuid::from_u128(3), "name": "anna"},
        "capabilities": ["queue.admission_receipts"],
        "limits": usher_shared::limits::Limits::default(),
        "heartbeat_ms": 15_000,
    })
}

fn submission() -> Submission {
    let params = QueueAddParams {
        task_id: TaskId::from_uuid(Uuid::from_u128(4)),
        session_id: SessionId::from_uuid(Uuid::from_u128(5)),
        session_incarnation_id: Some(IncarnationId::from_uuid(Uuid::from_u128(6))),
        content: "hello".to_owned(),
        ..QueueAddParams::default()
    };
    Submission::minted(AdmissionId::parse("k1").unwrap(), params)
}

fn add_reply() -> Value {
    json!({
        "id": Uuid::from_u128(7), "task_id": Uuid::from_u128(4), "session_id": Uuid::from_u128(5),
        "position": 1, "content": "hello", "model": null, "plan_mode": false, "attachments": [],
        "metadata": {"queue_admission_ids": ["k1"]}, "queued_at": "2026-01-01T00:00:00.000Z",
        "queued_by": {"kind": "user", "id": "u", "name": "anna"}, "target_revision": 1,
        "editing": null, "content_truncated": false,
        "admission": {
            "outcome": "replayed", "accepted_queue_id": Uuid::from_u128(7),
            "queue_revision": 1, "replay_safe": true,
        },
    })
}

/// Waits until the delivery is settled.
async fn settled(driver: &mut Driver) -> DeliveryState {
    loop {
        if let Event::DeliveryChanged(delivery) = driver.next_event().await {
            match delivery.state {
                DeliveryState::Accepted(_)
                | DeliveryState::Rejected(_)
                | DeliveryState::Uncertain { .. } => return delivery.state,
                DeliveryState::WaitingForLink
                | DeliveryState::Queued
                | DeliveryState::Saving
                | DeliveryState::Returned
                | DeliveryState::AwaitingReply { .. }
                | DeliveryState::Reconciling { .. } => {}
            }
        }
    }
}

#[tokio::test]
async fn a_reply_that_was_lost_with_its_link_is_replayed_over_the_next_one() {
    let peer = Peer::new();
    let journal_dir = peer.folder.path().join("journal");
    let mut driver = Driver::start(peer.address.clone(), None, Some(journal_dir));
    driver.handle(Input::Submit(submission()));
    let script = async {
        let mut first = peer.greet().await;
        let add = first.read().await;
        drop(first);
        let mut second = peer.greet().await;
        for action in ["message.queue.get", "transcript.page"] {
            let read = second.read().await;
            assert_eq!(read["action"], action);
            second.reply(&read, json!({"not": "readable"})).await;
        }
        let retry = second.read().await;
        assert_eq!(retry["payload"], add["payload"]);
        second.reply(&retry, add_reply()).await;
        second
    };
    let (state, _second) = tokio::join!(settled(&mut driver), script);
    let DeliveryState::Accepted(Acceptance::Replied(admission)) = state else {
        panic!("accepted: {state:?}");
    };
    assert_eq!(admission.outcome, AdmissionOutcome::Replayed);
}

#[tokio::test]
async fn a_server_over_tcp_is_reached_at_its_path() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("ws://{}", listener.local_addr().unwrap());
    let server = Server::Named { address: address.parse().unwrap(), trust: Trust::System };
    let mut driver = Driver::start(server, Some("t0ken".to_owned()), None);
    let script = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut path = String::new();
        #[expect(clippy::result_large_err, reason = "the library's type")]
        let look = |request: &Request, response| {
            path = request.uri().to_string();
            Ok(response)
        };
        let mut socket = tokio_tungstenite::accept_hdr_async(stream, look).await.unwrap();
        let hello = socket.next().await.unwrap().unwrap().into_text().unwrap();
        let hello: Value = serde_json::from_str(hello.as_str()).unwrap();
        let reply = json!({"id": hello["id"], "type": "response", "payload": hello_reply()});
        socket.send(Message::text(reply.to_string())).await.unwrap();
        (path, hello["payload"]["token"].clone(), socket)
    };
    let online = async {
        while !matches!(driver.engine().link(), LinkState::Online { .. }) {
            driver.next_event().await;
        }
    };
    let ((path, token, _socket), ()) = tokio::join!(script, online);
    assert_eq!((path.as_str(), token), ("/ws", json!("t0ken")));
}

/// Starts a bare link and connects it.
async fn connected(peer: &Peer) -> (Link, Conversation) {
    let mut link = Link::spawn(peer.address.clone());
    link.commands.send(LinkCommand::Connect).await.unwrap();
    let conversation = peer.accept().await;
    assert!(matches!(link.inputs.recv().await, Some(Input::LinkOpened)));
    (link, conversation)
}

#[tokio::test]
async fn a_close_code_is_reported_once() {
    let peer = Peer::new();
    let (mut link, mut conversation) = connected(&peer).await;
    let frame = CloseFrame { code: 1013.into(), reason: "slow".into() };
    conversation.0.close(Some(frame)).await.unwrap();
    assert!(matches!(link.inputs.recv().await, Some(Input::LinkClosed { code: Some(1013) })));
    // What comes late is for a connection that is gone; the next one opens.
    link.commands.send(LinkCommand::Send("late".to_owned())).await.unwrap();
    link.commands.send(LinkCommand::Disconnect).await.unwrap();
    link.commands.send(LinkCommand::Connect).await.unwrap();
    let _conversation = peer.accept().await;
    assert!(matches!(link.inputs.recv().await, Some(Input::LinkOpened)));
}

#[tokio::test]
async fn control_frames_count_as_signs_of_life_and_binary_ones_as_nothing() {
    let peer = Peer::new();
    let (mut link, mut conversation) = connected(&peer).await;
    conversation.0.send(Message::binary(vec![1, 2])).await.unwrap();
    conversation.0.send(Message::Ping("x".into())).await.unwrap();
    conversation.0.send(Message::text("{}")).await.unwrap();
    assert!(matches!(link.inputs.recv().await, Some(Input::Heartbeat)));
    assert!(matches!(link.inputs.recv().await, Some(Input::Frame(text)) if text == "{}"));
    assert_eq!(conversation.0.next().await.unwrap().unwrap(), Message::Pong("x".into()));
}

#[tokio::test]
async fn a_peer_that_reads_nothing_cannot_hold_up_a_disconnect() {
    let peer = Peer::new();
    let (mut link, _conversation) = connected(&peer).await;
    for _ in 0..COMMANDS_MAX / 2 {
        let long = LinkCommand::Send("x".repeat(1_000_000));
        link.commands.send(long).await.unwrap();
    }
    link.commands.send(LinkCommand::Disconnect).await.unwrap();
    assert!(matches!(link.inputs.recv().await, Some(Input::LinkClosed { code: None })));
}

#[tokio::test]
async fn a_program_that_listens_to_nothing_stops_the_reading_but_not_the_commands() {
    let peer = Peer::new();
    let (mut link, mut conversation) = connected(&peer).await;
    for number in 0..INPUTS_MAX {
        conversation.0.send(Message::text(number.to_string())).await.unwrap();
    }
    conversation.0.send(Message::text("one too many")).await.unwrap();
    link.commands.send(LinkCommand::Send("heard".to_owned())).await.unwrap();
    let heard = conversation.0.next().await.unwrap().unwrap();
    assert_eq!(heard, Message::text("heard"));
    link.commands.send(LinkCommand::Disconnect).await.unwrap();
    let mut closed = 0;
    while closed == 0 {
        match link.inputs.recv().await {
            Some(Input::LinkClosed { .. }) => closed += 1,
            Some(_) => {}
            None => panic!("the task lives"),
        }
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_a_closed_link_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut link = Link::spawn(named(&folder.path().join("nobody")));
    for _ in 0..2 {
        link.commands.send(LinkCommand::Connect).await.unwrap();
        assert!(matches!(link.inputs.recv().await, Some(Input::LinkClosed { code: None })));
    }
}

#[tokio::test]
async fn an_attempt_that_is_not_wanted_any_more_ends() {
    let peer = Peer::new();
    let mut link = Link::spawn(peer.address.clone());
    link.commands.send(LinkCommand::Connect).await.unwrap();
    // Taken, and never answered.
    let (_stream, _) = peer.listener.accept().await.unwrap();
    link.commands.send(LinkCommand::Disconnect).await.unwrap();
    assert!(matches!(link.inputs.recv().await, Some(Input::LinkClosed { code: None })));
}

#[tokio::test]
async fn a_frame_over_the_bound_ends_the_link() {
    let peer = Peer::new();
    let (mut link, mut conversation) = connected(&peer).await;
    let long = "x".repeat(usher_shared::limits::FRAME_BYTES_MAX + 1);
    let sent = conversation.0.send(Message::text(long));
    let (_, closed) = tokio::join!(sent, link.inputs.recv());
    assert!(matches!(closed, Some(Input::LinkClosed { .. })), "{closed:?}");
}
