//! Subscriptions: what a link that watches a session is told, from the real rings.

use std::sync::Arc;

use usher_server::domain::lease::LostLease;
use usher_server::net::wire::{self, PageEnd};
use usher_server::net::{Missed, Told, told};
use usher_server::store::PageBounds;
use usher_shared::counter::EventSeq;
use usher_shared::id::SessionId;
use usher_shared::protocol::edit::EditLostNotice;
use usher_shared::protocol::frame::{FrameKind, write_frame};
use usher_shared::protocol::session::{
    SubscribeParams, SubscribeReply, UnsubscribeParams, UnsubscribeReply,
};
use usher_shared::protocol::turn::notification;

use super::links::{Answer, Request};
use super::requests::{not_found, replied};
use super::{Due, Server, Stop};
use crate::broken::Broken;
use crate::luck::About;
use crate::network::LinkNo;

/// Messages of a snapshot.
const SNAPSHOT_MESSAGES: usize = 100;
/// Events taken from a ring at once.
const EVENTS_AT_ONCE: usize = 256;
/// The close code of a link that cannot be told what it missed.
const TOO_FAR_BEHIND: u16 = 1_013;

/// Writes the notice that a lease is over.
pub(super) fn edit_lost(session_id: SessionId, lost: LostLease) -> String {
    let LostLease { task_id, entry_id, lease_id, reason, .. } = lost;
    let notice = EditLostNotice { task_id, session_id, entry_id, lease_id, reason };
    let frame = write_frame(FrameKind::Notification, None, Some(notification::EDIT_LOST), notice);
    frame.expect("a notification is plain JSON")
}

impl Server {
    pub(super) fn newest(&self, session: SessionId) -> EventSeq {
        self.up.as_ref().map_or(EventSeq::ZERO, |up| up.hub.newest(session))
    }

    /// Watches first and reads second, as the server does.
    pub(super) fn subscribe(
        &mut self,
        link: LinkNo,
        request: &Request,
        params: &SubscribeParams,
    ) -> Result<Answer, Stop> {
        let id = params.session_id;
        let skips = self.rules.are(Broken::ResumeSkips);
        let Some(up) = self.up.as_ref() else { return Err(Stop::Crash) };
        let wake = up.links.all.get(&link).map(|known| Arc::clone(&known.wake));
        let wake = wake.ok_or_else(not_found)?;
        let epoch = up.hub.epoch();
        self.store.row(id).ok_or_else(not_found)?;
        let (newest, live, _) = up.hub.watch(id, &wake);
        let resumes_after = params.after_event_seq.filter(|place| {
            params.epoch == Some(epoch)
                && matches!(up.hub.missed(id, *place, 0), Missed::Events { .. })
        });
        let row = self.store.row(id).cloned().ok_or_else(not_found)?;
        let session = wire::session(&row.session, None);
        let (queue, messages, has_more) = match resumes_after {
            Some(_) => (None, None, false),
            None => {
                let view = self.deciding().view(&row);
                let status = self.viewed(link, |viewer| wire::status(view, newest, viewer));
                let page = row.page(PageBounds::Newest, SNAPSHOT_MESSAGES);
                let page = wire::page(&page, PageEnd::Newest, live.as_ref());
                (Some(status), Some(page.messages), page.has_more)
            }
        };
        let event_seq = resumes_after.unwrap_or(newest);
        let resumed = resumes_after.is_some();
        let reply =
            SubscribeReply { session, queue, messages, has_more, event_seq, epoch, resumed };
        let answer = replied::<SubscribeParams>(request, &reply)?;
        let place = if skips { newest } else { event_seq };
        Ok(Answer { watch: Some((id, Some(place))), ..answer })
    }

    pub(super) fn unsubscribe(
        &mut self,
        link: LinkNo,
        request: &Request,
        params: &UnsubscribeParams,
    ) -> Result<Answer, Stop> {
        let id = params.session_id;
        if let Some(up) = &self.up
            && let Some(known) = up.links.all.get(&link)
        {
            up.hub.unwatch(id, &known.wake);
        }
        let answer = replied::<UnsubscribeParams>(request, &UnsubscribeReply { session_id: id })?;
        Ok(Answer { watch: Some((id, None)), ..answer })
    }

    /// Lets every link that watches a session look at its ring in a moment.
    pub(super) fn wake_watchers(&mut self, session: SessionId) {
        let Some(up) = &self.up else { return };
        let links = up.links.all.iter().filter(|(_, link)| link.watched.contains_key(&session));
        let links: Vec<LinkNo> = links.map(|(number, _)| *number).collect();
        links.into_iter().for_each(|link| self.wake(link));
    }

    pub(super) fn wake(&mut self, link: LinkNo) {
        self.works += 1;
        let millis = self.luck.of(About::Tell, self.works, 15);
        let Some(known) = self.link_mut(link) else { return };
        if !known.tell_is_due && !known.watched.is_empty() {
            known.tell_is_due = true;
            self.later(millis, Due::Tell(link));
        }
    }

    /// Tells every watcher at once.
    pub(super) fn tell_everybody(&mut self) {
        let links: Vec<LinkNo> =
            self.up.iter().flat_map(|up| up.links.all.keys().copied()).collect();
        links.into_iter().for_each(|link| self.tell(link));
    }

    /// Sends a link what happened in the sessions that it watches.
    pub(super) fn tell(&mut self, link: LinkNo) {
        let Some(known) = self.link_mut(link).filter(|known| !known.is_ending) else { return };
        known.tell_is_due = false;
        let watched = known.watched.clone();
        for (session, place) in watched {
            let Some(up) = &self.up else { return };
            let (first, events) = match up.hub.missed(session, place, EVENTS_AT_ONCE) {
                Missed::Events { events, .. } if events.is_empty() => continue,
                Missed::Events { first, events } => (first, events),
                Missed::TooFarBehind => return self.end_link(link, Some(TOO_FAR_BEHIND)),
                Missed::Ended => panic!("nobody in the simulation deletes a session"),
            };
            let all = told(session, up.hub.epoch(), first, &events);
            for one in all {
                let frame = self.told_frame(link, session, one);
                self.send(link, frame);
            }
            let place = EventSeq::new(first.get() + events.len() as u64 - 1);
            if let Some(known) = self.link_mut(link) {
                known.watched.insert(session, place);
            }
        }
    }

    fn told_frame(&mut self, link: LinkNo, session: SessionId, told: Told) -> String {
        match told {
            Told::Frame(frame) => frame,
            Told::Queue(place) => {
                let row = self.store.row(session).cloned().expect("a watched session exists");
                let view = self.deciding().view(&row);
                let newest = place.event_seq();
                place.queue(self.viewed(link, |viewer| wire::status(view, newest, viewer)))
            }
            Told::Session(place) => {
                place.session(self.wire_session(session).expect("a watched session exists"))
            }
            Told::Plan(_) => panic!("nobody in the simulation makes plans"),
        }
    }
}
