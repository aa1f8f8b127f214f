//! The stream under a link's WebSocket.
//!
//! It gives little until its peer has been greeted: who shows no token must not make the server hold
//! large frames. And writing to it never fails: a peer that hung up may have sent requests before,
//! and a WebSocket whose answer to a ping could not be written reads no further.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a peer may send up to the end of its hello, bytes.
const BEFORE_HELLO_BYTES_MAX: usize = 64 * 1024;

/// See the module.
pub(super) struct Gate<S> {
    stream: S,
    /// What may still be read; None once the peer was greeted.
    left: Option<usize>,
    /// A write failed: nothing that is written arrives any more.
    lost: bool,
}

impl<S> Gate<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, left: Some(BEFORE_HELLO_BYTES_MAX), lost: false }
    }

    /// Lets everything through from here on.
    pub(super) fn open(&mut self) {
        self.left = None;
    }

    /// Tells whether the peer sent too much before its hello.
    pub(super) fn is_overrun(&self) -> bool {
        self.left == Some(0)
    }

    /// Tells whether something that was written did not arrive.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Notes a failed write, after which all seem to work.
    fn note<T>(&mut self, written: io::Result<T>, seems: T) -> io::Result<T> {
        Ok(written.unwrap_or_else(|_| {
            self.lost = true;
            seems
        }))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gate<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(left) = self.left else {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        };
        if left == 0 {
            return Poll::Ready(Err(io::Error::other("too much before the hello")));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.left = Some(left.saturating_sub(buffer.filled().len() - before));
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gate<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.lost {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        written.map(|written| self.note(written, bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lost {
            return Poll::Ready(Ok(()));
        }
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        flushed.map(|flushed| self.note(flushed, ()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn lets_little_through_before_it_is_opened_and_everything_after() {
        let (mut peer, stream) = tokio::io::duplex(1024);
        let writer = tokio::spawn(async move {
            let written = peer.write_all(&vec![7; 4 * BEFORE_HELLO_BYTES_MAX]).await;
            (written.is_ok(), peer)
        });
        let mut gate = Gate::new(stream);
        let mut read = Vec::new();
        assert!(gate.read_to_end(&mut read).await.is_err());
        assert!((BEFORE_HELLO_BYTES_MAX..BEFORE_HELLO_BYTES_MAX + 64 * 1024).contains(&read.len()));
        gate.open();
        let mut rest = vec![0; 4 * BEFORE_HELLO_BYTES_MAX - read.len()];
        gate.read_exact(&mut rest).await.unwrap();
        assert!(writer.await.unwrap().0);
    }

    #[tokio::test]
    async fn what_a_peer_sent_before_it_hung_up_can_be_read_after_a_write_failed() {
        let (mut peer, stream) = tokio::net::UnixStream::pair().unwrap();
        let mut gate = Gate::new(stream);
        gate.write_all(b"arrives").await.unwrap();
        assert!(!gate.is_lost());
        peer.write_all(b"sent before").await.unwrap();
        drop(peer);
        for _ in 0..2 {
            gate.write_all(b"does not").await.unwrap();
            gate.flush().await.unwrap();
            assert!(gate.is_lost());
        }
        let mut read = [0; 11];
        gate.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"sent before");
    }
}
