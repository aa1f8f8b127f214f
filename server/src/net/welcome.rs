//! Who may come in, and as whom.

use std::net::IpAddr;

use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::protocol::PROTOCOL_VERSION;
use usher_shared::protocol::hello::{HelloParams, Versions};

use super::access::Wrong;
use super::server::Server;
use super::wire;
use crate::domain::session::Caller;
use crate::domain::users::TokenDigest;
use crate::store::StoreError;

/// How a connection came, and what it showed before its first frame.
pub(super) struct Credential {
    /// The bearer token of its request; `hello` may bring one, too.
    pub(super) bearer: Option<String>,
    /// The address it came from; None: over the Unix socket, which lets in only who is us.
    pub(super) peer: Option<IpAddr>,
}

/// Who came.
pub(super) struct Guest {
    /// As whom it acts.
    pub(super) caller: Caller,
    /// The user's token; the owner needs none of these.
    pub(super) token: Option<TokenDigest>,
}

/// The error that a hello is answered with, and the code to close with if that is final.
pub(super) type Refusal = (WireError, Option<CloseCode>);

fn no_valid_token() -> Refusal {
    let error = WireError::new(ErrorCode::Unauthorized, "no valid token");
    (error, Some(CloseCode::Policy))
}

impl Server {
    /// Judges a `hello`: first whether both sides speak one version, since another version's hello
    /// may be of another shape.
    pub(super) async fn welcome(
        &self,
        credential: &Credential,
        payload: &str,
    ) -> Result<(HelloParams, Guest), Refusal> {
        let malformed = |error| (error, None);
        let versions: Versions = wire::parse(payload).map_err(malformed)?;
        if !versions.protocol.contains(&PROTOCOL_VERSION) {
            let why = "this server speaks version 1";
            let error = WireError::new(ErrorCode::ProtocolUnsupported, why);
            return Err((error, Some(CloseCode::Protocol)));
        }
        let hello: HelloParams = wire::parse(payload).map_err(malformed)?;
        let guest = self.guest(credential, hello.token.as_deref()).await?;
        Ok((hello, guest))
    }

    fn owner(&self) -> Guest {
        Guest { caller: self.parts.owner.clone(), token: None }
    }

    /// Finds out who came. One right token is enough, wherever it was shown.
    async fn guest(
        &self,
        credential: &Credential,
        in_hello: Option<&str>,
    ) -> Result<Guest, Refusal> {
        let shown = [credential.bearer.as_deref(), in_hello];
        for token in shown.into_iter().flatten() {
            if let Some(guest) = self.holder(token).await? {
                return Ok(guest);
            }
        }
        match (credential.peer, shown) {
            (None, [None, None]) => Ok(self.owner()),
            (None, _) | (Some(_), [None, None]) => Err(no_valid_token()),
            (Some(peer), _) => Err(match self.parts.access.note_wrong(peer) {
                Wrong::Few => no_valid_token(),
                Wrong::TooMany => {
                    let error = WireError::new(ErrorCode::RateLimited, "too many wrong tokens");
                    (error.with("retry_after_ms", 60_000), Some(CloseCode::Policy))
                }
            }),
        }
    }

    /// Returns whose token this is; None if it is nobody's.
    async fn holder(&self, token: &str) -> Result<Option<Guest>, Refusal> {
        let digest = TokenDigest::of(token);
        if self.parts.access.is_owners(&digest) {
            return Ok(Some(self.owner()));
        }
        let found = self.parts.service.user_by_token(digest).await;
        let caller = found.map_err(|error| (wire::find_error(error.into()), None))?;
        Ok(caller.map(|caller| Guest { caller, token: Some(digest) }))
    }

    /// Looks at a guest's token once more, when its link is among those that are ended when their
    /// token is taken away.
    pub(super) async fn is_still_welcome(
        &self,
        token: Option<TokenDigest>,
    ) -> Result<bool, StoreError> {
        match token {
            Some(digest) => Ok(self.parts.service.user_by_token(digest).await?.is_some()),
            None => Ok(true),
        }
    }
}
