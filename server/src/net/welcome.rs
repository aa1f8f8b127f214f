//! Who may come in, and as whom.

use std::net::IpAddr;

use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::protocol::PROTOCOL_VERSION;
use usher_shared::protocol::hello::HelloParams;

use super::access::Wrong;
use super::server::Server;
use super::wire;
use crate::domain::session::Caller;
use crate::domain::users::TokenDigest;
use crate::store::StoreError;

/// What a connection showed before its first frame.
pub(super) enum Credential {
    /// The Unix socket let it in.
    SameUser,
    /// A bearer token.
    Token {
        /// As shown.
        token: String,
        /// Who showed it.
        peer: IpAddr,
    },
    /// Nothing yet: `hello` must bring the token.
    None {
        /// Who connects.
        peer: IpAddr,
    },
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
    /// Judges a `hello`.
    pub(super) async fn welcome(
        &self,
        credential: &Credential,
        payload: &str,
    ) -> Result<(HelloParams, Guest), Refusal> {
        let hello: HelloParams = wire::parse(payload).map_err(|error| (error, None))?;
        let guest = match (credential, &hello.token) {
            (Credential::SameUser, _) => self.owner(),
            (Credential::Token { token, peer }, _) | (Credential::None { peer }, Some(token)) => {
                self.guest(token, *peer).await?
            }
            (Credential::None { .. }, None) => return Err(no_valid_token()),
        };
        if !hello.protocol.contains(&PROTOCOL_VERSION) {
            let why = "this server speaks version 1";
            let error = WireError::new(ErrorCode::ProtocolUnsupported, why);
            return Err((error, Some(CloseCode::Protocol)));
        }
        Ok((hello, guest))
    }

    fn owner(&self) -> Guest {
        Guest { caller: self.parts.owner.clone(), token: None }
    }

    /// Finds out who shows a token. A right one always gets in.
    async fn guest(&self, token: &str, peer: IpAddr) -> Result<Guest, Refusal> {
        let digest = TokenDigest::of(token);
        if self.parts.access.is_owners(&digest) {
            return Ok(self.owner());
        }
        let found = self.parts.service.user_by_token(digest).await;
        match found.map_err(|error| (wire::find_error(error.into()), None))? {
            Some(caller) => Ok(Guest { caller, token: Some(digest) }),
            None => Err(match self.parts.access.note_wrong(peer) {
                Wrong::Few => no_valid_token(),
                Wrong::TooMany => {
                    let error = WireError::new(ErrorCode::RateLimited, "too many wrong tokens");
                    (error.with("retry_after_ms", 60_000), Some(CloseCode::Policy))
                }
            }),
        }
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
