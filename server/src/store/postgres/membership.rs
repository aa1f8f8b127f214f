//! One server among others over one database: its lease, and its ear for what others commit.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::{AsyncMessage, Client};
use tracing::{error, info, warn};
use usher_shared::id::{MessageId, SessionId};

use super::errors::store_error;
use super::news::{self, News};
use super::transact::PostgresStore;
use super::url::Endpoint;
use crate::domain::Event;
use crate::store::conn::Param;
use crate::store::error::StoreError;
use crate::store::reads::TextFound;
use crate::store::{node, sql};

/// What was heard and is not told on yet; more waits in the database.
const HEARD_MAX: usize = 1_024;
/// Between two attempts to hear again.
const DEAF_WAIT: Duration = Duration::from_millis(500);

/// What became of an attempt to renew a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    Renewed,
    /// It was over before: others may have settled what this server ran.
    Late,
}

impl PostgresStore {
    /// Takes a lease and begins to listen. Nothing may be decided before.
    pub(in crate::store) async fn join(&self, lease: Duration) -> Result<(), StoreError> {
        let ear = listen(self.endpoint()).await?;
        let asked = Instant::now();
        self.register(lease).await?;
        tokio::spawn(self.clone().keep_lease(lease, asked + lease));
        tokio::spawn(self.clone().hear(ear));
        Ok(())
    }

    /// Gives the lease back: what this server left open can be settled at once.
    pub(in crate::store) async fn leave(&self) {
        let left = self.upkeep(|conn, id| conn.execute(sql::NODE_DELETE, &[id]).map(drop)).await;
        if let Err(error) = left {
            warn!(%error, "the lease could not be given back");
        }
    }

    /// Takes a lease under this server's name. The server of this directory that was before is gone
    /// for sure, whatever its lease says: the directory's lock is ours.
    async fn register(&self, lease: Duration) -> Result<(), StoreError> {
        let ttl = millis(lease);
        if let Some(before) = node::noted(self.lock())? {
            self.upkeep(move |conn, _| conn.execute(sql::NODE_DELETE, &[Param::Id(before)]))
                .await?;
        }
        node::note(self.lock(), self.node().id())?;
        self.upkeep(move |conn, id| {
            conn.execute(sql::NODES_PURGE, &[])?;
            conn.execute(sql::NODE_INSERT, &[id, Param::Int(ttl)]).map(drop)
        })
        .await
    }

    async fn renew(&self, lease: Duration) -> Result<Renewal, StoreError> {
        let ttl = millis(lease);
        let renewed =
            self.upkeep(move |conn, id| conn.execute(sql::NODE_RENEW, &[id, Param::Int(ttl)]));
        Ok(match renewed.await? {
            0 => Renewal::Late,
            _ => Renewal::Renewed,
        })
    }

    /// Renews the lease every third of its time. A server that could not stops its agents before
    /// others may settle their turns, and goes on under another name.
    async fn keep_lease(self, lease: Duration, mut until: Instant) {
        loop {
            sleep(lease / 3).await;
            while Instant::now() < until {
                let asked = Instant::now();
                match timeout_at(until, self.renew(lease)).await {
                    Ok(Ok(Renewal::Renewed)) => {
                        until = asked + lease;
                        break;
                    }
                    Ok(Ok(Renewal::Late)) => until = asked,
                    Ok(Err(error)) => {
                        warn!(%error, "the lease was not renewed");
                        sleep(lease / 10).await;
                    }
                    Err(_) => {}
                }
            }
            if Instant::now() < until {
                continue;
            }
            error!("the lease is over; the agents of this server stop");
            self.node().rename();
            self.sink().lost_lease();
            loop {
                let asked = Instant::now();
                match self.register(lease).await {
                    Ok(()) => {
                        until = asked + lease;
                        break;
                    }
                    Err(_) => sleep(lease / 10).await,
                }
            }
            // Nobody told a server without a lease.
            self.sink().missed_some();
            info!("this server has a lease again");
        }
    }

    /// Tells on what other servers commit.
    async fn hear(self, mut ear: Ear) {
        loop {
            while let Some(payload) = ear.heard.recv().await {
                for news in news::read(self.origin(), &payload) {
                    self.tell_on(news).await;
                }
            }
            warn!("news of other servers are missed");
            ear = loop {
                match listen(self.endpoint()).await {
                    Ok(ear) => break ear,
                    Err(_) => sleep(DEAF_WAIT).await,
                }
            };
            // Whoever watches starts over.
            self.sink().missed_some();
        }
    }

    async fn tell_on(&self, news: News) {
        let told = match news {
            News::Event(session, event) => {
                self.sink().publish(session, event);
                Ok(())
            }
            News::Ended(session, turn, event) => {
                self.sink().publish(session, Event::StopAsked(turn));
                self.sink().publish(session, event);
                Ok(())
            }
            News::Message(session, id) if self.sink().is_watched(session) => {
                self.tell_message(session, id).await
            }
            News::Message(..) => Ok(()),
            News::Grew(id, at) => self.tell_growth(id, at).await,
        };
        if let Err(error) = told {
            warn!(%error, "what another server wrote could not be read");
            self.sink().missed_some();
        }
    }

    async fn tell_message(&self, session: SessionId, id: MessageId) -> Result<(), StoreError> {
        let found = self.read(move |reads| match reads.session(session)? {
            Some(session) => reads.message(&session, id),
            None => Ok(None),
        });
        if let Some(message) = found.await? {
            let event = Event::MessageWritten(Box::new(message));
            self.sink().publish(session, event);
        }
        Ok(())
    }

    async fn tell_growth(&self, id: MessageId, at: u64) -> Result<(), StoreError> {
        let sink = self.sink();
        let found = self.read(move |reads| {
            let Some(session) = reads.session_of_message(id)? else { return Ok(None) };
            if !sink.is_watched(session) {
                return Ok(None);
            }
            let Some(session) = reads.session(session)? else { return Ok(None) };
            let Some(message) = reads.message(&session, id)? else { return Ok(None) };
            let grown = message.content_bytes.saturating_sub(at);
            let Some(TextFound::Range(grown)) = reads.text(&session, id, at, grown)? else {
                return Ok(None);
            };
            Ok::<_, StoreError>(Some((session.id, message.seq, grown.text)))
        });
        if let Some((session, seq, text)) = found.await? {
            self.sink().grew(session, id, seq, at, &text);
        }
        Ok(())
    }
}

/// A connection that only listens.
struct Ear {
    heard: mpsc::Receiver<String>,
    /// The connection ends with it.
    _client: Client,
}

async fn listen(endpoint: &Endpoint) -> Result<Ear, StoreError> {
    let connected = endpoint.connect().await;
    let (client, mut connection) = connected.map_err(|error| store_error(&error))?;
    let (tell, heard) = mpsc::channel(HEARD_MAX);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message
                && tell.send(notification.payload().to_owned()).await.is_err()
            {
                return;
            }
        }
    });
    client.batch_execute(sql::LISTEN).await.map_err(|error| store_error(&error))?;
    Ok(Ear { heard, _client: client })
}

fn millis(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX)
}
