//! A WebSocket that goes on reading while it writes: a peer that sends something large before it
//! reads what it was sent would otherwise wait for us as we wait for it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::{FutureExt, Sink, Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::unconstrained;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use usher_shared::limits::{FRAME_BYTES_MAX, IN_FLIGHT_MAX};

use super::gate::Gate;

/// What a peer sends: a frame, or why there is none.
pub(super) type Frame = Result<Message, Error>;

/// See the module.
pub(super) struct Duplex<S> {
    socket: WebSocketStream<Gate<S>>,
    /// Frames that came while one was being written: about as much as one frame may have.
    ahead: VecDeque<Frame>,
    ahead_bytes: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex<S> {
    pub(super) fn new(socket: WebSocketStream<Gate<S>>) -> Self {
        Self { socket, ahead: VecDeque::new(), ahead_bytes: 0 }
    }

    /// Returns the stream below.
    pub(super) fn gate(&mut self) -> &mut Gate<S> {
        self.socket.get_mut()
    }

    /// Waits for the next frame; None after the last one. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        match self.ahead.pop_front() {
            Some(frame) => {
                self.ahead_bytes -= size(&frame);
                Some(frame)
            }
            None => self.socket.next().await,
        }
    }

    /// Returns the next frame if it is here already.
    pub(super) fn next_here(&mut self) -> Option<Frame> {
        // Not held back because the task has done much already.
        unconstrained(self.next()).now_or_never().flatten()
    }

    /// Writes a frame. One that is given up in between leaves a connection that can only end.
    pub(super) async fn send(&mut self, message: Message) -> Result<(), Error> {
        let mut message = Some(message);
        poll_fn(|context| {
            let sent = self.poll_send(&mut message, context);
            if sent.is_pending() {
                self.read_ahead(context);
            }
            sent
        })
        .await?;
        if self.socket.get_ref().is_lost() { Err(Error::ConnectionClosed) } else { Ok(()) }
    }

    /// Says why the connection ends.
    pub(super) async fn close(&mut self, frame: CloseFrame) -> Result<(), Error> {
        self.socket.close(Some(frame)).await
    }

    /// Waits until the peer has hung up, after a [`Duplex::close`]. What it still sends is thrown
    /// away: a connection that ends with bytes that nobody read is reset, and a reset takes with it
    /// what the peer has not read yet.
    pub(super) async fn hung_up(&mut self) -> std::io::Result<()> {
        while let Some(Ok(_)) = self.socket.next().await {}
        // After an error there are no more frames, but there may be more bytes.
        let gate = self.socket.get_mut();
        gate.open();
        gate.shutdown().await?;
        let mut bytes = vec![0; 16 * 1024];
        while gate.read(&mut bytes).await? > 0 {}
        Ok(())
    }

    fn poll_send(
        &mut self,
        message: &mut Option<Message>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        let mut socket = Pin::new(&mut self.socket);
        if message.is_some() {
            match socket.as_mut().poll_ready(context)? {
                Poll::Ready(()) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
        if let Some(message) = message.take() {
            socket.as_mut().start_send(message)?;
        }
        socket.poll_flush(context)
    }

    fn read_ahead(&mut self, context: &mut Context<'_>) {
        while self.ahead.len() < IN_FLIGHT_MAX && self.ahead_bytes < FRAME_BYTES_MAX {
            match Pin::new(&mut self.socket).poll_next(context) {
                Poll::Ready(Some(frame)) => {
                    self.ahead_bytes += size(&frame);
                    self.ahead.push_back(frame);
                }
                // The end shows again when it is waited for.
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
    }
}

fn size(frame: &Frame) -> usize {
    frame.as_ref().map_or(0, Message::len)
}
