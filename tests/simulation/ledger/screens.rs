//! What screens show: nothing that never was, nothing older than before, and in the end what is.

use usher_shared::client::{Engine, Freshness, LinkState, Mirror};
use usher_shared::counter::QueueRevision;
use usher_shared::protocol::entry::StatusEntry;
use usher_shared::protocol::queue::QueueStatus;

use super::Ledger;
use super::rows::Shown;
use crate::server::Server;

fn shown(status: &QueueStatus) -> Vec<Shown> {
    let whole = status.entries.iter().map(|entry| match entry {
        StatusEntry::Whole(entry) => Shown {
            id: entry.id,
            content: entry.content.clone(),
            revision: entry.target_revision,
            admission_ids: entry.metadata.queue_admission_ids.clone(),
        },
        StatusEntry::Stub { .. } => panic!("no queue here is too large for a status"),
    });
    whole.collect()
}

impl Ledger {
    /// A screen changed. Returns the revision that it shows.
    pub(crate) fn queue_shown(&mut self, mirror: &Mirror) -> QueueRevision {
        let status = mirror.queue();
        let revision = status.queue_revision;
        let now = (status.session_incarnation_id, shown(status));
        let was = self.rows.visible_at(status.session_id, revision).cloned();
        self.must(was.as_ref() == Some(&now), || {
            format!("a screen shows {now:?} as revision {revision}, which was {was:?}")
        });
        revision
    }

    /// A screen shows other messages than before.
    pub(crate) fn messages_shown(&mut self, mirror: &Mirror, server: &Server) {
        for message in mirror.messages() {
            let most = server.shown.get(&message.id);
            let is_part = most.is_some_and(|text| text.starts_with(&message.content));
            self.must(is_part, || {
                format!("a screen shows {:?} of a message that was {most:?}", message.content)
            });
            let row = server.store.row(message.session_id);
            let stored = row.and_then(|row| row.message_by_id(message.id));
            let ids = stored.map(|stored| stored.details.provenance.admission_ids);
            let is_so = ids.as_ref() == Some(&message.metadata.queue_admission_ids);
            self.must(is_so, || {
                let shown = &message.metadata.queue_admission_ids;
                format!("a screen shows a message made from {shown:?}, which is {ids:?}")
            });
        }
    }

    /// Everything is quiet: the client is online, nothing of it is open, and its screen shows what
    /// the server has.
    pub(crate) fn settled(&mut self, client: usize, engine: &Engine, server: &Server) {
        let link = engine.link();
        self.must(matches!(link, LinkState::Online { .. }), || {
            format!("client {client} is {link:?} when everything works")
        });
        let Some(mirror) = engine.mirror() else {
            return self.must(false, || format!("client {client} shows nothing"));
        };
        let freshness = mirror.freshness();
        self.must(freshness == Freshness::Live, || format!("client {client} shows what was"));
        let Some(row) = server.store.row(mirror.session().id) else { return };
        let (session, queue) = (&row.session, &row.session.queue);
        let status = mirror.queue();
        let on_screen = (status.queue_revision, status.count, mirror.session().incarnation_id);
        let is = (queue.revision, queue.stored, session.incarnation_id);
        self.must(on_screen == is, || {
            format!("client {client} shows (revision, count, life) {on_screen:?}, and it is {is:?}")
        });
        let state = (mirror.session().state, mirror.session().turn.as_ref().map(|turn| turn.id));
        let is = (session.state(), session.turn.map(|turn| turn.id));
        self.must(state == is, || format!("client {client} shows {state:?}, and it is {is:?}"));
        let seen = mirror.messages().iter().map(|one| (one.id, one.content.as_str(), one.status));
        let stored = row.messages.iter().map(|one| (one.id, &*one.content, one.status));
        let (seen, stored): (Vec<_>, Vec<_>) = (seen.collect(), stored.collect());
        self.must(seen == stored, || {
            format!("client {client} shows the messages {seen:?}, and they are {stored:?}")
        });
        let editing: Vec<_> = status
            .entries
            .iter()
            .filter(|entry| match entry {
                StatusEntry::Whole(entry) => entry.editing.is_some(),
                StatusEntry::Stub { .. } => false,
            })
            .map(StatusEntry::id)
            .collect();
        let leases = row.leases(server.lease_now());
        let held: Vec<_> = row
            .visible()
            .iter()
            .map(|entry| entry.id)
            .filter(|id| leases.live(*id).is_some())
            .collect();
        self.must(editing == held, || {
            format!("client {client} shows {editing:?} as edited, and it is {held:?}")
        });
    }
}
