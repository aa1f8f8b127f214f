//! The links of this server, so that a client's new link can end its old one and a stopping
//! server can end all.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use usher_shared::id::{ClientInstance, UserId};

use super::news::{About, Inbox};
use crate::clock::fresh_uuid;
use crate::domain::lease::LinkId;
use crate::domain::users::TokenDigest;

/// Why a link is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    /// The same client came back on another link.
    Replaced,
    /// The token that the link came with is good for nothing any more.
    Revoked,
}

/// The link's side of its registration.
pub(super) struct Registered {
    /// The server's name of the connection.
    pub(super) id: LinkId,
    key: (UserId, ClientInstance),
    /// Says when somebody asks this link to end.
    pub(super) asked: watch::Receiver<Option<EndReason>>,
    finished: watch::Sender<bool>,
    ask: Arc<watch::Sender<Option<EndReason>>>,
    /// What this link is told about the user's tasks.
    pub(super) inbox: Arc<Inbox>,
}

struct Other {
    id: LinkId,
    ask: Arc<watch::Sender<Option<EndReason>>>,
    finished: watch::Receiver<bool>,
    inbox: Arc<Inbox>,
    /// The user's token that the link came with; None: it is the owner's.
    token: Option<TokenDigest>,
}

/// This user, or all together, have as many links as there may be.
pub(super) struct TooManyLinks;

/// How many links there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkBounds {
    /// Of one user.
    pub per_user: usize,
    /// Of all.
    pub all: usize,
}

/// See the module.
pub(super) struct Links {
    bounds: LinkBounds,
    by_instance: Mutex<BTreeMap<(UserId, ClientInstance), Other>>,
    open: watch::Sender<usize>,
}

/// One open connection, greeted or not; counted until it is dropped.
pub(super) struct Counted(watch::Sender<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl Links {
    pub(super) fn new(bounds: LinkBounds) -> Self {
        Self { bounds, by_instance: Mutex::default(), open: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(UserId, ClientInstance), Other>> {
        self.by_instance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection as open.
    pub(super) fn count(&self) -> Counted {
        self.open.send_modify(|open| *open += 1);
        Counted(self.open.clone())
    }

    /// Tells whether so many connections are open that a further one is not even heard: as many
    /// again as there may be links.
    pub(super) fn are_full(&self) -> bool {
        *self.open.borrow() > self.bounds.all.saturating_mul(2)
    }

    /// Waits until no connection is open.
    pub(super) async fn all_ended(&self) {
        let mut open = self.open.subscribe();
        if open.wait_for(|open| *open == 0).await.is_err() {
            // The sender lives in self.
        }
    }

    /// Registers a link. An older one of the same client is ended first: what it had received
    /// whole is finished before this returns. `wake` is notified of news.
    ///
    /// # Errors
    /// There are too many links; one in the place of an older one is none more.
    pub(super) async fn register(
        &self,
        user: UserId,
        token: Option<TokenDigest>,
        instance: ClientInstance,
        wake: &Arc<Notify>,
    ) -> Result<Registered, TooManyLinks> {
        let (ask, asked) = watch::channel(None);
        let (finished, other_finished) = watch::channel(false);
        let ask = Arc::new(ask);
        let key = (user, instance);
        let inbox = Arc::new(Inbox::new(Arc::clone(wake)));
        let id = LinkId(fresh_uuid());
        let other = Other {
            id,
            ask: Arc::clone(&ask),
            finished: other_finished,
            inbox: Arc::clone(&inbox),
            token,
        };
        let old = {
            let mut links = self.lock();
            let first = (user, ClientInstance::from_uuid(uuid::Uuid::nil()));
            let own = links.range(first..).take_while(|((owner, _), _)| *owner == user);
            if !links.contains_key(&key)
                && (links.len() >= self.bounds.all || own.count() >= self.bounds.per_user)
            {
                return Err(TooManyLinks);
            }
            links.insert(key, other)
        };
        if let Some(mut old) = old {
            old.ask.send_replace(Some(EndReason::Replaced));
            // An error means that the link is gone without a word: finished, too.
            if old.finished.wait_for(|finished| *finished).await.is_err() {}
        }
        Ok(Registered { id, key, asked, finished, ask, inbox })
    }

    /// Returns the tokens that links came with.
    pub(super) fn tokens(&self) -> HashSet<TokenDigest> {
        self.lock().values().filter_map(|link| link.token).collect()
    }

    /// Ends the links that came with a token.
    pub(super) fn revoke(&self, token: &TokenDigest) {
        for link in self.lock().values().filter(|link| link.token.as_ref() == Some(token)) {
            link.ask.send_replace(Some(EndReason::Revoked));
        }
    }

    /// Leaves news for every link of a user.
    pub(super) fn tell(&self, user: UserId, about: About, frame: &Arc<str>) {
        let first = (user, ClientInstance::from_uuid(uuid::Uuid::nil()));
        let links = self.lock();
        for (_, link) in links.range(first..).take_while(|((owner, _), _)| *owner == user) {
            link.inbox.put(about, frame);
        }
    }

    /// Leaves a frame for one link, if it is here.
    pub(super) fn tell_link(&self, id: LinkId, about: About, frame: &Arc<str>) {
        if let Some(link) = self.lock().values().find(|link| link.id == id) {
            link.inbox.put(about, frame);
        }
    }

    /// Notes that a link has finished everything.
    pub(super) fn unregister(&self, registered: &Registered) {
        registered.finished.send_replace(true);
        let mut links = self.lock();
        if links.get(&registered.key).is_some_and(|other| Arc::ptr_eq(&other.ask, &registered.ask))
        {
            links.remove(&registered.key);
        }
    }
}
