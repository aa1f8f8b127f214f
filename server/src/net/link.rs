//! One connection: frames in, frames out, heartbeat, and the events of the sessions it watches.

mod ending;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tracing::warn;
use usher_shared::counter::EventSeq;
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::SessionId;
use usher_shared::limits::{BAD_FRAMES_MAX, IN_FLIGHT_MAX};
use usher_shared::protocol::Request;
use usher_shared::protocol::frame::{BadFrame, FrameKind, RequestFrame, write_frame};
use usher_shared::protocol::hello::HelloParams;
use usher_shared::protocol::turn::{ServerDraining, notification};

use ending::{Ended, Unread};

use super::actions::{self, Context, Done, Watch, error_frame};
use super::duplex::{Duplex, Frame};
use super::frames;
use super::gate::Gate;
use super::hub::Missed;
use super::lanes::Lanes;
use super::links::{EndReason, Registered};
use super::news::Inbox;
use super::server::Server;
use super::welcome::{Credential, Guest};
use super::wire::{self, CommitUnknown};
use crate::service::FindError;

/// Pings of a peer between two heartbeats; no client needs more than one.
const PINGS_MAX: u32 = 1_000;
/// Events taken from a ring at once.
const EVENTS_AT_ONCE: usize = 256;
/// A connection must say hello within this time.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// When a client of a stopping server tries again.
const RECONNECT_AFTER_MS: u64 = 1_000;
/// When a client with too much in flight tries again.
const BUSY_RETRY_MS: u64 = 100;

/// Serves one connection to its end.
pub(super) async fn serve<S>(
    socket: WebSocketStream<Gate<S>>,
    server: Arc<Server>,
    credential: Credential,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let _counted = server.links.count();
    let mut link = Link {
        silence_max: server.silence_max(),
        socket: Duplex::new(socket),
        heard: Instant::now(),
        bad_frames: 0,
        pings: 0,
        asked: None,
        wake: Arc::new(Notify::new()),
        server,
    };
    if link.server.links.are_full() {
        link.close(Ended::WithCode(CloseCode::Again, "too many connections")).await;
        return;
    }
    let ended = match link.greet(credential).await {
        Ok((context, registered)) => link.follow(context, registered).await,
        Err(ended) => ended,
    };
    link.close(ended).await;
}

struct Link<S> {
    socket: Duplex<S>,
    server: Arc<Server>,
    silence_max: Duration,
    heard: Instant,
    bad_frames: u32,
    /// Of the peer, since the last heartbeat.
    pings: u32,
    /// Says when this link shall end; known after the hello.
    asked: Option<watch::Receiver<Option<EndReason>>>,
    /// Notified of events in watched sessions.
    wake: Arc<Notify>,
}

/// What happens next on a link.
enum Next {
    Received(Option<Frame>),
    Done(Result<Done, CommitUnknown>),
    Woken,
    Beat,
    Asked(Option<EndReason>),
    Draining,
}

/// A frame of the peer.
enum Received {
    Text(String),
    /// Nothing to answer: a ping or a pong.
    Control,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Link<S> {
    async fn send(&mut self, frame: String) -> Result<(), Ended> {
        self.send_message(Message::text(frame)).await
    }

    /// Sends within a bounded time. A peer that does not read must not hold up the same client's
    /// next link, which waits for this one to end.
    async fn send_message(&mut self, message: Message) -> Result<(), Ended> {
        let replaced = async {
            if let Some(asked) = &mut self.asked
                && asked.wait_for(Option::is_some).await.is_ok()
            {
                return;
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            sent = timeout(self.silence_max, self.socket.send(message)) => match sent {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => Err(Ended::ByPeer),
                Err(_) => Err(Ended::Dead),
            },
            () = replaced => Err(Ended::Dead),
        }
    }

    /// Sorts what the socket gave; frames that are no text are bad ones.
    async fn sort(&mut self, received: Option<Frame>) -> Result<Received, Ended> {
        self.heard = Instant::now();
        match received {
            None | Some(Ok(Message::Close(_))) => Err(Ended::ByPeer),
            Some(Ok(Message::Text(text))) => Ok(Received::Text(text.as_str().to_owned())),
            Some(Ok(Message::Ping(_))) => {
                self.pings += 1;
                match self.pings > PINGS_MAX {
                    // Each is answered, also to a peer that does not read.
                    true => Err(Ended::WithCode(CloseCode::Policy, "too many pings")),
                    false => Ok(Received::Control),
                }
            }
            Some(Ok(Message::Pong(_) | Message::Frame(_))) => Ok(Received::Control),
            Some(Ok(Message::Binary(_))) => {
                self.refuse(None, "binary frames mean nothing here").await?;
                Ok(Received::Control)
            }
            Some(Err(SocketError::Capacity(_))) => {
                Err(Ended::WithCode(CloseCode::Size, "frame too large"))
            }
            Some(Err(SocketError::Utf8(_))) => {
                Err(Ended::WithCode(CloseCode::Invalid, "not UTF-8"))
            }
            Some(Err(SocketError::Protocol(_))) => {
                Err(Ended::WithCode(CloseCode::Protocol, "not WebSocket"))
            }
            Some(Err(_)) if self.socket.gate().is_overrun() => {
                Err(Ended::WithCode(CloseCode::Size, "too much before the hello"))
            }
            Some(Err(_)) => Err(Ended::ByPeer),
        }
    }

    /// Answers a text frame that is no request.
    async fn refuse_frame(&mut self, bad: &BadFrame) -> Result<(), Ended> {
        self.refuse(bad.id.as_deref(), &bad.error.to_string()).await
    }

    /// Answers a frame that is no request; too many of them end the connection.
    async fn refuse(&mut self, id: Option<&str>, why: &str) -> Result<(), Ended> {
        let error = WireError::new(ErrorCode::BadRequest, why);
        self.send(error_frame(id, None, &error)).await?;
        self.bad_frames += 1;
        if self.bad_frames >= BAD_FRAMES_MAX {
            return Err(Ended::WithCode(CloseCode::Policy, "too many bad frames"));
        }
        Ok(())
    }

    /// Takes the first request, which must be a `hello` that is welcome.
    async fn greet(&mut self, credential: Credential) -> Result<(Context, Registered), Ended> {
        let give_up_at = Instant::now() + HELLO_WITHIN;
        let mut draining = self.server.parts.draining.clone();
        loop {
            let received = tokio::select! {
                received = timeout_at(give_up_at, self.socket.next()) => received,
                _ = draining.wait_for(|draining| *draining) => {
                    return Err(Ended::AtOnce(CloseCode::Away, "server stops"));
                }
            };
            let received = received.map_err(|_| Ended::WithCode(CloseCode::Policy, "no hello"))?;
            let Received::Text(text) = self.sort(received).await? else {
                continue;
            };
            let frame = match RequestFrame::parse(&text) {
                Ok(frame) => frame,
                Err(error) => {
                    self.refuse_frame(&error).await?;
                    continue;
                }
            };
            let (id, action) = (frame.id.to_string(), frame.action.to_string());
            if action != HelloParams::ACTION {
                let error = WireError::new(ErrorCode::Unauthorized, "hello comes first");
                self.send(error_frame(Some(&id), Some(&action), &error)).await?;
                continue;
            }
            match self.server.welcome(&credential, frame.payload).await {
                Ok((hello, guest)) => return self.register(&id, hello, guest).await,
                Err((error, code)) => {
                    self.send(error_frame(Some(&id), Some(&action), &error)).await?;
                    if let Some(code) = code {
                        return Err(Ended::WithCode(code, "not welcome"));
                    }
                }
            }
        }
    }

    async fn register(
        &mut self,
        id: &str,
        hello: HelloParams,
        guest: Guest,
    ) -> Result<(Context, Registered), Ended> {
        self.socket.gate().open();
        let caller = guest.caller.clone();
        let (links, instance) = (&self.server.links, hello.client_instance);
        let registered = links.register(caller.id, guest.token, instance, &self.wake).await;
        let Ok(registered) = registered else {
            let error = wire::too_many("too many connections");
            self.send(error_frame(Some(id), Some(HelloParams::ACTION), &error)).await?;
            return Err(Ended::WithCode(CloseCode::Again, "too many connections"));
        };
        self.asked = Some(registered.asked.clone());
        let greeting = self.server.greeting(&caller);
        let frame = write_frame(FrameKind::Response, Some(id), Some(HelloParams::ACTION), greeting)
            .expect("a greeting is plain JSON");
        let greeted = match self.server.is_still_welcome(guest.token).await {
            Ok(true) => self.send(frame).await,
            Ok(false) => Err(Ended::WithCode(CloseCode::Policy, "token revoked")),
            Err(_) => Err(Ended::WithCode(CloseCode::Again, "the store does not answer")),
        };
        if let Err(ended) = greeted {
            self.server.links.unregister(&registered);
            return Err(ended);
        }
        let context = Context {
            service: self.server.parts.service.clone(),
            hub: Arc::clone(&self.server.parts.hub),
            caller,
            wake: Arc::clone(&self.wake),
            link: registered.id,
            edits: Arc::default(),
        };
        Ok((context, registered))
    }

    /// Serves a link after its hello. Whatever ends it: what it received whole takes effect
    /// before it counts as finished.
    async fn follow(&mut self, context: Context, registered: Registered) -> Ended {
        let mut lanes = Lanes::default();
        let mut watched: HashMap<SessionId, EventSeq> = HashMap::new();
        let mut asked = registered.asked.clone();
        let (ended, unread) =
            self.pump(&context, &registered.inbox, &mut lanes, &mut watched, &mut asked).await;
        self.take_unread(&unread, &context, &mut lanes, &mut watched).await;
        while let Some(watch) = lanes.next_effect().await {
            note(&mut watched, watch);
        }
        for session in watched.keys() {
            context.hub.unwatch(*session, &context.wake);
        }
        if context.edits.load(Ordering::Relaxed)
            && let Err(error) = context.service.hold_edits_of(context.link).await
        {
            warn!(%error, "edit leases of a link that ended live until they expire");
        }
        self.server.links.unregister(&registered);
        ended
    }

    async fn pump(
        &mut self,
        context: &Context,
        inbox: &Inbox,
        lanes: &mut Lanes,
        watched: &mut HashMap<SessionId, EventSeq>,
        asked: &mut watch::Receiver<Option<EndReason>>,
    ) -> (Ended, Unread) {
        let mut draining = self.server.parts.draining.clone();
        let mut beat = interval(self.server.parts.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        loop {
            let next = tokio::select! {
                received = self.socket.next() => Next::Received(received),
                done = lanes.next() => Next::Done(done),
                () = context.wake.notified() => Next::Woken,
                _ = beat.tick() => Next::Beat,
                reason = asked.wait_for(Option::is_some) => {
                    Next::Asked(reason.ok().and_then(|reason| *reason))
                }
                _ = draining.wait_for(|draining| *draining) => Next::Draining,
            };
            let step = match next {
                Next::Received(received) => self.take(received, context, lanes).await,
                Next::Done(done) => self.answer(done, watched).await,
                Next::Woken => self.tell(context, inbox, watched).await,
                Next::Beat => self.beat().await,
                Next::Asked(Some(EndReason::Revoked)) => {
                    Err(Ended::WithCode(CloseCode::Policy, "token revoked"))
                }
                Next::Asked(Some(EndReason::Replaced) | None) => {
                    Err(Ended::WithCode(CloseCode::Library(4001), "replaced by a newer link"))
                }
                // What comes when the server stops takes no effect.
                Next::Draining => return (self.drain(lanes, watched).await, Unread::Dropped),
            };
            if let Err(ended) = step {
                let unread = ended.unread();
                return (ended, unread);
            }
        }
    }

    async fn take(
        &mut self,
        received: Option<Frame>,
        context: &Context,
        lanes: &mut Lanes,
    ) -> Result<(), Ended> {
        let Received::Text(text) = self.sort(received).await? else {
            return Ok(());
        };
        let frame = match RequestFrame::parse(&text) {
            Ok(frame) => frame,
            Err(error) => return self.refuse_frame(&error).await,
        };
        let refusal = if frame.action == HelloParams::ACTION {
            Err(WireError::new(ErrorCode::BadRequest, "hello was said"))
        } else if lanes.in_flight() >= IN_FLIGHT_MAX {
            let error = WireError::new(ErrorCode::RateLimited, "too many requests in flight");
            Err(error.with("retry_after_ms", BUSY_RETRY_MS))
        } else {
            actions::route(context, &frame)
        };
        match refusal {
            Ok(work) => {
                lanes.push(work);
                Ok(())
            }
            Err(error) => {
                self.send(error_frame(Some(&frame.id), Some(&frame.action), &error)).await
            }
        }
    }

    async fn answer(
        &mut self,
        done: Result<Done, CommitUnknown>,
        watched: &mut HashMap<SessionId, EventSeq>,
    ) -> Result<(), Ended> {
        let Ok(done) = done else {
            return Err(Ended::WithCode(CloseCode::Error, "commit result unknown"));
        };
        let sent = self.send(done.frame).await;
        if matches!(done.watch, Watch::Start(..)) {
            // What happened before the session was in the map woke nobody.
            self.wake.notify_one();
        }
        note(watched, done.watch);
        sent
    }

    /// Sends what happened to the user's tasks, and in the sessions that this link watches.
    async fn tell(
        &mut self,
        context: &Context,
        inbox: &Inbox,
        watched: &mut HashMap<SessionId, EventSeq>,
    ) -> Result<(), Ended> {
        let behind = |_| Ended::WithCode(CloseCode::Again, "too far behind");
        for frame in inbox.take().map_err(behind)? {
            self.send(frame.to_string()).await?;
        }
        let mut ended = Vec::new();
        for (session, place) in watched.iter_mut() {
            loop {
                let (first, events) = match context.hub.missed(*session, *place, EVENTS_AT_ONCE) {
                    Missed::Events { events, .. } if events.is_empty() => break,
                    Missed::Events { first, events } => (first, events),
                    Missed::TooFarBehind => {
                        return Err(Ended::WithCode(CloseCode::Again, "too far behind"));
                    }
                    Missed::Ended => {
                        ended.push(*session);
                        break;
                    }
                };
                match frames::frames(context, *session, first, &events).await {
                    Ok(frames) => {
                        for frame in frames {
                            self.send(frame).await?;
                        }
                    }
                    // The hub says so in a moment.
                    Err(FindError::NotFound) => {}
                    // It comes back and goes on where it was.
                    Err(FindError::Store(_)) => {
                        let why = "the store does not answer";
                        return Err(Ended::WithCode(CloseCode::Again, why));
                    }
                }
                *place = EventSeq::new(first.get() + events.len() as u64 - 1);
            }
        }
        for session in ended {
            context.hub.unwatch(session, &context.wake);
            watched.remove(&session);
        }
        Ok(())
    }

    async fn beat(&mut self) -> Result<(), Ended> {
        self.pings = 0;
        if self.heard.elapsed() >= self.silence_max {
            return Err(Ended::Dead);
        }
        self.send_message(Message::Ping(Vec::new().into())).await
    }

    /// Ends the link of a stopping server: what is in flight is finished and answered.
    async fn drain(
        &mut self,
        lanes: &mut Lanes,
        watched: &mut HashMap<SessionId, EventSeq>,
    ) -> Ended {
        let notice = ServerDraining { reconnect_after_ms: RECONNECT_AFTER_MS };
        let frame = frames::notify(notification::SERVER_DRAINING, notice);
        if let Err(ended) = self.send(frame).await {
            return ended;
        }
        while lanes.in_flight() > 0 {
            let step = tokio::select! {
                done = lanes.next() => self.answer(done, watched).await,
                received = self.socket.next() => self.turn_away(received).await,
            };
            if let Err(ended) = step {
                return ended;
            }
        }
        Ended::WithCode(CloseCode::Away, "server stops")
    }

    /// Answers a request that comes when the server stops: nothing of it takes effect.
    async fn turn_away(&mut self, received: Option<Frame>) -> Result<(), Ended> {
        let Received::Text(text) = self.sort(received).await? else {
            return Ok(());
        };
        let frame = match RequestFrame::parse(&text) {
            Ok(frame) => frame,
            Err(error) => return self.refuse_frame(&error).await,
        };
        let error = WireError::new(ErrorCode::ShuttingDown, "the server stops")
            .with("retry_after_ms", RECONNECT_AFTER_MS);
        self.send(error_frame(Some(&frame.id), Some(&frame.action), &error)).await
    }
}

/// Notes what a request changed about the sessions that a link watches.
fn note(watched: &mut HashMap<SessionId, EventSeq>, watch: Watch) {
    match watch {
        Watch::Same => {}
        Watch::Start(session, place) => {
            watched.insert(session, place);
        }
        Watch::Stop(session) => {
            watched.remove(&session);
        }
    }
}
