//! Links: from bytes of a socket to actions and back.
//!
//! `listener` accepts connections, `http` upgrades them, `link` serves one of them, `hub` hands
//! events to those that watch, and `wire` alone knows both the protocol and the domain.

mod access;
mod actions;
mod duplex;
mod frames;
mod gate;
mod http;
mod hub;
mod lanes;
mod link;
mod links;
mod listener;
mod live;
mod news;
mod ring;
mod server;
mod sink;
mod tls;
mod welcome;
pub mod wire;

pub use access::Access;
pub use frames::{Told, told};
pub use hub::{Hub, Missed, Watched};
pub use links::LinkBounds;
pub use listener::{ListenAddress, Listeners};
pub use news::News;
pub use ring::Broadcast;
pub use server::{Server, ServerParts};
pub use sink::Sink;
pub use tls::{Tls, TlsError, TlsFiles};
