//! WebSocket frames as they are on the wire.
//!
//! Source: RFC 6455, section 5.2.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

const FINAL: u8 = 0x80;
const TEXT: u8 = 1;
const MASKED: u8 = 0x80;
/// The length does not fit into the second byte: two, or eight, bytes of it follow.
const TWO_BYTES: u8 = 126;
const EIGHT_BYTES: u8 = 127;

/// One frame.
pub(super) struct Frame {
    bytes: Vec<u8>,
    payload_at: usize,
    mask: Option<[u8; 4]>,
}

impl Frame {
    /// Reads one whole.
    pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut bytes = vec![0; 2];
        from.read_exact(&mut bytes).await?;
        let length = match bytes[1] & !MASKED {
            TWO_BYTES => u64::from(u16::from_be_bytes(more(from, &mut bytes).await?)),
            EIGHT_BYTES => u64::from_be_bytes(more(from, &mut bytes).await?),
            length => u64::from(length),
        };
        let mask = match bytes[1] & MASKED {
            0 => None,
            _ => Some(more(from, &mut bytes).await?),
        };
        let payload_at = bytes.len();
        let length = usize::try_from(length).map_err(io::Error::other)?;
        bytes.resize(payload_at + length, 0);
        from.read_exact(&mut bytes[payload_at..]).await?;
        Ok(Self { bytes, payload_at, mask })
    }

    /// A text frame from a server: without a mask.
    pub(super) fn of_server(text: &str) -> Self {
        Self::with_mask(text, None)
    }

    /// The same frame with another text.
    pub(super) fn saying(&self, text: &str) -> Self {
        Self::with_mask(text, self.mask)
    }

    fn with_mask(text: &str, mask: Option<[u8; 4]>) -> Self {
        let is_masked = if mask.is_some() { MASKED } else { 0 };
        let mut bytes = vec![FINAL | TEXT];
        match (u8::try_from(text.len()), u16::try_from(text.len())) {
            (Ok(length), _) if length < TWO_BYTES => bytes.push(is_masked | length),
            (_, Ok(length)) => {
                bytes.push(is_masked | TWO_BYTES);
                bytes.extend(length.to_be_bytes());
            }
            (_, Err(_)) => {
                bytes.push(is_masked | EIGHT_BYTES);
                bytes.extend((text.len() as u64).to_be_bytes());
            }
        }
        bytes.extend(mask.into_iter().flatten());
        let payload_at = bytes.len();
        bytes.extend(masked(text.as_bytes(), mask));
        Self { bytes, payload_at, mask }
    }

    /// Returns the text of a text frame that is a whole message; neither side ever splits one.
    pub(super) fn text(&self) -> Option<String> {
        if self.bytes[0] != FINAL | TEXT {
            return None;
        }
        let payload = masked(&self.bytes[self.payload_at..], self.mask).collect();
        String::from_utf8(payload).ok()
    }

    /// Returns it as it is on the wire.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads `N` bytes that belong to a header, and keeps them there.
async fn more<const N: usize>(
    from: &mut (impl AsyncRead + Unpin),
    header: &mut Vec<u8>,
) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).await?;
    header.extend(bytes);
    Ok(bytes)
}

/// Masking and unmasking are the same.
fn masked(payload: &[u8], mask: Option<[u8; 4]>) -> impl Iterator<Item = u8> {
    let mask = mask.unwrap_or_default().into_iter().cycle();
    payload.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_of_every_length_are_read_as_they_were_made() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            let text = "é".repeat(length / 2) + &"x".repeat(length % 2);
            for mask in [None, Some([1, 2, 3, 250])] {
                let made = Frame::with_mask(&text, mask);
                let mut wire = [made.bytes(), b"next"].concat();
                let mut rest = wire.as_slice();
                let read = Frame::read(&mut rest).await.unwrap();
                assert_eq!(read.text().unwrap(), text, "{length}");
                assert_eq!((read.bytes(), rest), (made.bytes(), &b"next"[..]), "{length}");
                // Anything but a whole text has none.
                wire[0] = TEXT;
                assert_eq!(Frame::read(&mut wire.as_slice()).await.unwrap().text(), None);
            }
        }
    }
}
