//! The end of a link: why, what becomes of what was sent before, and how the peer is told.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tracing::info;
use usher_shared::counter::EventSeq;
use usher_shared::id::SessionId;
use usher_shared::limits::{FRAME_BYTES_MAX, IN_FLIGHT_MAX};
use usher_shared::protocol::frame::RequestFrame;

use super::{Link, note};
use crate::net::actions::{self, Context};
use crate::net::lanes::Lanes;

/// What a peer that sent requests before its link ended may take to send the rest of them.
const UNREAD_WITHIN: Duration = Duration::from_secs(2);
/// The rest of them, bytes.
const UNREAD_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;
/// A peer may take this long to hang up when it was told why.
const HANG_UP_WITHIN: Duration = Duration::from_secs(2);

/// Why a connection ends.
pub(super) enum Ended {
    /// The peer closed, or is gone.
    ByPeer,
    /// The peer was silent, or does not read.
    Dead,
    /// With this code.
    WithCode(CloseCode, &'static str),
    /// With this code, and nobody waits for a peer that is owed nothing.
    AtOnce(CloseCode, &'static str),
}

impl Ended {
    /// Returns what becomes of frames that nobody has looked at yet.
    pub(super) fn unread(&self) -> Unread {
        match self {
            Self::ByPeer => Unread::ToTheEnd,
            Self::Dead
            | Self::WithCode(CloseCode::Library(4001) | CloseCode::Again | CloseCode::Error, _) => {
                Unread::Here
            }
            // The peer lost its right to be heard, or cannot speak.
            Self::WithCode(..) | Self::AtOnce(..) => Unread::Dropped,
        }
    }
}

/// Frames that were sent before a link ended and that nobody has looked at yet: a request that was
/// received whole takes effect.
pub(super) enum Unread {
    /// All up to the end of the stream: the peer sends no more.
    ToTheEnd,
    /// Those that are here: the peer may go on sending.
    Here,
    /// None.
    Dropped,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Link<S> {
    /// Takes in what was received whole and nobody has looked at yet, without answering it.
    pub(super) async fn take_unread(
        &mut self,
        unread: &Unread,
        context: &Context,
        lanes: &mut Lanes,
        watched: &mut HashMap<SessionId, EventSeq>,
    ) {
        let give_up_at = Instant::now() + UNREAD_WITHIN;
        let mut bytes_left = UNREAD_BYTES_MAX;
        while bytes_left > 0 {
            let frame = match unread {
                Unread::Dropped => None,
                Unread::Here => self.socket.next_here(),
                Unread::ToTheEnd => loop {
                    tokio::select! {
                        frame = timeout_at(give_up_at, self.socket.next()) => {
                            break frame.ok().flatten();
                        }
                        Some(watch) = lanes.next_effect() => note(watched, watch),
                    }
                },
            };
            let Some(Ok(message)) = frame else {
                return;
            };
            bytes_left = bytes_left.saturating_sub(message.len());
            let Message::Text(text) = message else {
                continue;
            };
            // What would have been refused has no effect.
            let Some(work) = RequestFrame::parse(&text)
                .ok()
                .and_then(|frame| actions::route(context, &frame).ok())
            else {
                continue;
            };
            while lanes.in_flight() >= IN_FLIGHT_MAX
                && let Some(watch) = lanes.next_effect().await
            {
                note(watched, watch);
            }
            lanes.push(work);
        }
    }

    pub(super) async fn close(mut self, ended: Ended) {
        match ended {
            Ended::ByPeer => {}
            Ended::Dead => info!("a dead link was dropped"),
            Ended::WithCode(code, reason) => {
                let closing = async {
                    self.socket.close(CloseFrame { code, reason: reason.into() }).await.ok()?;
                    self.socket.hung_up().await.ok()
                };
                drop(timeout(HANG_UP_WITHIN, closing).await);
            }
            Ended::AtOnce(code, reason) => {
                let frame = CloseFrame { code, reason: reason.into() };
                drop(self.socket.close(frame).now_or_never());
            }
        }
    }
}
