//! Why an attempt to connect came to nothing, where its person can do something about it.
//!
//! It changes no decision of the engine, which tries again either way: it goes beside it to whoever
//! tells people.

use std::io;

use tokio_rustls::rustls::{CertificateError, Error as TlsError};
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::error::ProtocolError;

use super::tls::Trust;
use crate::i18n::{Localizer, Value};
use crate::view::clean::Clean;

/// What went wrong with which address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    address: String,
    kind: TroubleKind,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TroubleKind {
    /// No authority of this machine has signed the certificate.
    Untrusted,
    /// The authority that was named has not signed it.
    UntrustedByNamed,
    /// The certificate is made out to others.
    OtherName,
    /// It is too old.
    Expired,
    /// It is of a time to come.
    NotYetValid,
    /// It is an authority's own.
    OfAuthority,
    /// Something else is wrong with it.
    BadCertificate(String),
    /// The handshake failed for another reason.
    NoHandshake(String),
    /// What answers speaks no TLS.
    NotEncrypted,
    /// What answers speaks something else than HTTP, most likely TLS.
    NotPlain,
    /// What answers speaks HTTP and will not upgrade.
    NotUpgraded(u16),
    /// This machine trusts no authority at all.
    NoAuthorities,
}

impl Trouble {
    pub(super) fn new(address: &impl ToString, kind: TroubleKind) -> Self {
        Self { address: address.to_string(), kind }
    }

    /// One to show: nobody that this machine knows vouches for the server.
    #[cfg(test)]
    pub(crate) fn not_trusted(address: &str) -> Self {
        Self::new(&address, TroubleKind::Untrusted)
    }

    /// Tells whether it stays like this until somebody changes something.
    pub fn is_lasting(&self) -> bool {
        match self.kind {
            TroubleKind::Untrusted
            | TroubleKind::UntrustedByNamed
            | TroubleKind::OtherName
            | TroubleKind::Expired
            | TroubleKind::NotYetValid
            | TroubleKind::OfAuthority
            | TroubleKind::BadCertificate(_)
            | TroubleKind::NotEncrypted
            | TroubleKind::NotPlain
            | TroubleKind::NoAuthorities => true,
            // A proxy says so while the server behind it starts, a server while it stops.
            TroubleKind::NoHandshake(_) | TroubleKind::NotUpgraded(_) => false,
        }
    }

    /// Returns what people read about it.
    pub fn text(&self, localizer: &Localizer) -> String {
        let id = match &self.kind {
            TroubleKind::Untrusted => "link-untrusted",
            TroubleKind::UntrustedByNamed => "link-untrusted-by-named",
            TroubleKind::OtherName => "link-other-name",
            TroubleKind::Expired => "link-expired",
            TroubleKind::NotYetValid => "link-not-yet-valid",
            TroubleKind::OfAuthority => "link-of-authority",
            TroubleKind::BadCertificate(_) => "link-bad-certificate",
            TroubleKind::NoHandshake(_) => "link-no-handshake",
            TroubleKind::NotEncrypted => "link-not-encrypted",
            TroubleKind::NotPlain => "link-not-plain",
            TroubleKind::NotUpgraded(_) => "link-not-upgraded",
            TroubleKind::NoAuthorities => "link-no-authorities",
        };
        let detail = match &self.kind {
            TroubleKind::BadCertificate(reason) | TroubleKind::NoHandshake(reason) => {
                Clean::line(reason).as_str().to_owned()
            }
            TroubleKind::NotUpgraded(status) => status.to_string(),
            _ => String::new(),
        };
        let address = Clean::line(&self.address);
        let arguments =
            [("address", Value::from(address.as_str())), ("detail", Value::from(detail))];
        localizer.text_with(id, &arguments)
    }

    /// Names the text that says it in a few words.
    pub fn brief(&self) -> &'static str {
        match self.kind {
            TroubleKind::Untrusted | TroubleKind::UntrustedByNamed => "link-brief-untrusted",
            TroubleKind::OtherName => "link-brief-other-name",
            TroubleKind::Expired => "link-brief-expired",
            TroubleKind::NotYetValid
            | TroubleKind::OfAuthority
            | TroubleKind::BadCertificate(_) => "link-brief-bad-certificate",
            TroubleKind::NoHandshake(_) | TroubleKind::NoAuthorities => "link-brief-no-handshake",
            TroubleKind::NotEncrypted | TroubleKind::NotPlain | TroubleKind::NotUpgraded(_) => {
                "link-brief-not-usher"
            }
        }
    }
}

/// Says what a failed handshake means; None: the other side was not there, or went away.
pub(super) fn of_handshake(error: &io::Error, trust: &Trust) -> Option<TroubleKind> {
    let error = error.get_ref()?.downcast_ref::<TlsError>()?;
    Some(match error {
        TlsError::InvalidMessage(_) => TroubleKind::NotEncrypted,
        TlsError::InvalidCertificate(error) => of_certificate(error, trust),
        error => TroubleKind::NoHandshake(error.to_string()),
    })
}

fn of_certificate(error: &CertificateError, trust: &Trust) -> TroubleKind {
    match error {
        // An authority of the same name with another key has signed it: one made anew, most likely.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => match trust {
            Trust::System => TroubleKind::Untrusted,
            Trust::Only(_) => TroubleKind::UntrustedByNamed,
        },
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TroubleKind::OtherName
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TroubleKind::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            TroubleKind::NotYetValid
        }
        // The library has this one only as a text.
        CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
            TroubleKind::OfAuthority
        }
        error => TroubleKind::BadCertificate(error.to_string()),
    }
}

/// Says what a failed upgrade means; None: the other side went away.
pub(super) fn of_upgrade(error: &tungstenite::Error) -> Option<TroubleKind> {
    match error {
        tungstenite::Error::Http(response) => {
            Some(TroubleKind::NotUpgraded(response.status().as_u16()))
        }
        _ => None,
    }
}

/// The same where nothing is encrypted.
pub(super) fn of_plain_upgrade(error: &tungstenite::Error) -> Option<TroubleKind> {
    match error {
        tungstenite::Error::Protocol(ProtocolError::HttparseError(_)) => {
            Some(TroubleKind::NotPlain)
        }
        error => of_upgrade(error),
    }
}
