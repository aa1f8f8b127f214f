//! Edit leases: who edits a waiting entry and until when. A live lease keeps the entry from being
//! taken by anything automatic; everything that somebody asks for wins over it and ends it.

use usher_shared::counter::{LeaseGeneration, TargetRevision};
use usher_shared::id::{EntryId, LeaseId, TaskId};
use usher_shared::vocabulary::{Blocked, EditLost, SenderKind};
use uuid::Uuid;

use super::change::{Change, Decision};
use super::entry::Entry;
use super::event::Event;
use super::session::{AutoRun, Caller, Session};

/// An instant of a clock that nobody can set, milliseconds: the boot-time clock of this machine, or
/// the clock of the database that several servers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseInstant(pub i64);

impl LeaseInstant {
    /// Returns the instant `millis` later.
    #[must_use]
    pub const fn after(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

/// The server's name of a connection. Never taken from a payload, never shown in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkId(pub Uuid);

/// The times of leases, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// Without a renewal a lease lives this long.
    pub ttl: i64,
    /// With renewals this long.
    pub hold_max: i64,
}

/// Whether an edit was saved under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// Not yet.
    No,
    /// At least once.
    Yes,
}

/// The right of one connection to edit one entry, or what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Which entry.
    pub entry_id: EntryId,
    /// Its name.
    pub id: LeaseId,
    /// Who edits. None: the connection is gone; until the lease would have expired nothing
    /// automatic takes the entry, so that its editor can come back.
    pub link: Option<LinkId>,
    /// Grows with every begin and renewal for this entry, for ever.
    pub generation: LeaseGeneration,
    /// The revision of the entry when it began.
    pub target_revision: TargetRevision,
    /// From this instant on it is gone.
    pub expires_at: LeaseInstant,
    /// No renewal makes it last longer than this.
    pub until: LeaseInstant,
    /// Whether an edit was saved under it.
    pub saved: Saved,
}

/// The leases of a session at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leases {
    /// The instant.
    pub now: LeaseInstant,
    /// All that are stored, those that are over by now, too.
    pub stored: Vec<Lease>,
}

impl Leases {
    /// Returns what is stored for an entry.
    fn stored_for(&self, entry_id: EntryId) -> Option<&Lease> {
        self.stored.iter().find(|lease| lease.entry_id == entry_id)
    }

    /// Returns the lease under which somebody edits an entry right now.
    pub fn live(&self, entry_id: EntryId) -> Option<&Lease> {
        self.stored_for(entry_id)
            .filter(|lease| lease.link.is_some() && self.now < lease.expires_at)
    }

    /// Tells what keeps an entry from everything automatic.
    pub fn blocks(&self, entry_id: EntryId) -> Option<Blocked> {
        let lease = self.stored_for(entry_id).filter(|lease| self.now < lease.expires_at)?;
        Some(match lease.link {
            Some(_) => Blocked::HeadEditing,
            None => Blocked::HeadHeld,
        })
    }

    /// Returns for how long a lease lasts, milliseconds, unless it is renewed.
    pub fn lasts(&self, lease: &Lease) -> i64 {
        lease.expires_at.0.saturating_sub(self.now.0)
    }

    /// Returns the live lease if it is the one that its holder speaks of.
    pub(super) fn held(
        &self,
        entry_id: EntryId,
        lease_id: LeaseId,
        link: LinkId,
    ) -> Result<&Lease, NotHeld> {
        self.live(entry_id)
            .filter(|lease| lease.id == lease_id && lease.link == Some(link))
            .ok_or(NotHeld)
    }
}

/// An unknown, foreign, expired or replaced lease: one answer, without a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such lease")]
pub struct NotHeld;

/// Tells a connection that its lease is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostLease {
    /// The connection.
    pub link: LinkId,
    /// The session's task.
    pub task_id: TaskId,
    /// Which entry.
    pub entry_id: EntryId,
    /// Which lease.
    pub lease_id: LeaseId,
    /// Why.
    pub reason: EditLost,
}

/// Why nobody may edit an entry now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeginRefusal {
    /// Missing, reserved, another user's, not a user's: one answer for all.
    #[error("no such entry to edit")]
    EntryNotFound,
    /// Somebody edits it.
    #[error("somebody edits this entry")]
    Conflict {
        /// Whether it is the same connection.
        holder_is_you: bool,
        /// For how long, milliseconds, unless it is renewed.
        lasts: i64,
    },
}

/// A lease as of an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The lease.
    pub lease: Lease,
    /// The entry's revision now.
    pub revision: TargetRevision,
    /// For how long, milliseconds, unless it is renewed.
    pub lasts: i64,
}

/// What a new lease is made from.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// Its name.
    pub id: LeaseId,
    /// Who asks for it.
    pub link: LinkId,
    /// The generation of the entry's last lease.
    pub last_generation: LeaseGeneration,
}

/// Begins a lease on a visible entry of the caller's own.
pub fn begin(
    session: &Session,
    entry: Option<&Entry>,
    leases: &Leases,
    caller: &Caller,
    fresh: Fresh,
    times: LeaseTimes,
) -> Result<Decision<Granted>, BeginRefusal> {
    let entry = entry.filter(|entry| may_edit(entry, caller)).ok_or(BeginRefusal::EntryNotFound)?;
    if let Some(lease) = leases.live(entry.id) {
        return Err(BeginRefusal::Conflict {
            holder_is_you: lease.link == Some(fresh.link),
            lasts: leases.lasts(lease),
        });
    }
    let lease = Lease {
        entry_id: entry.id,
        id: fresh.id,
        link: Some(fresh.link),
        generation: fresh.last_generation.next(),
        target_revision: entry.revision,
        expires_at: leases.now.after(times.ttl.min(times.hold_max)),
        until: leases.now.after(times.hold_max),
        saved: Saved::No,
    };
    // One that is over and was not swept yet gives way.
    let mut ended = ending(session, leases, &[entry.id], EditLost::Expired);
    ended.changes.push(Change::PutLease(Box::new(lease)));
    ended.events.push((session.id, Event::QueueChanged));
    let granted = Granted { lease, revision: entry.revision, lasts: leases.lasts(&lease) };
    Ok(ended.replying(granted))
}

/// Tells whether a caller may edit an entry at all.
fn may_edit(entry: &Entry, caller: &Caller) -> bool {
    entry.reserved_for.is_none()
        && entry.queued_by.kind == SenderKind::User
        && entry.queued_by.id == caller.id.to_string()
}

/// Makes a lease last longer; never shorter, never for longer than anybody may hold one.
pub fn renew(
    session: &Session,
    entry: &Entry,
    leases: &Leases,
    lease_id: LeaseId,
    link: LinkId,
    times: LeaseTimes,
) -> Result<Decision<Granted>, NotHeld> {
    let lease = *leases.held(entry.id, lease_id, link)?;
    let wanted = leases.now.after(times.ttl).min(lease.until);
    let lease = Lease {
        generation: lease.generation.next(),
        expires_at: lease.expires_at.max(wanted),
        ..lease
    };
    Ok(Decision {
        changes: vec![Change::PutLease(Box::new(lease))],
        events: vec![(session.id, Event::QueueChanged)],
        reply: Granted { lease, revision: entry.revision, lasts: leases.lasts(&lease) },
    })
}

/// What the end of an edit asks of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Nothing.
    Nothing,
    /// After a save: the head may start, if auto-run is ON and the session can.
    Dispatch,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing was asked for, or nothing was saved.
    Nothing,
    /// The head is looked at now.
    Dispatched,
    /// Not now: auto-run is OFF, or a turn is open.
    Deferred,
}

/// Ends a lease at its holder's wish. What is asked for counts only if an edit was saved.
pub fn end(
    session: &Session,
    leases: &Leases,
    entry_id: EntryId,
    lease_id: LeaseId,
    link: LinkId,
    ask: Ask,
) -> Result<Decision<Asked>, NotHeld> {
    let lease = leases.held(entry_id, lease_id, link)?;
    let starts = session.is_promptable() && session.queue.auto_run == AutoRun::On;
    let asked = match (ask, lease.saved, starts) {
        (Ask::Nothing, ..) | (_, Saved::No, _) => Asked::Nothing,
        (Ask::Dispatch, Saved::Yes, true) => Asked::Dispatched,
        (Ask::Dispatch, Saved::Yes, false) => Asked::Deferred,
    };
    let mut events = vec![(session.id, Event::QueueChanged)];
    if asked == Asked::Dispatched {
        events.push((session.id, Event::MayStart));
    }
    Ok(Decision { changes: vec![Change::EndLease(entry_id)], events, reply: asked })
}

/// Ends what is stored for these entries because of something that somebody did to them.
pub fn ended(
    session: &Session,
    leases: &Leases,
    entries: &[EntryId],
    reason: EditLost,
) -> Decision<()> {
    let mut decision = ending(session, leases, entries, reason);
    if !decision.changes.is_empty() {
        decision.events.push((session.id, Event::QueueChanged));
    }
    decision
}

/// Ends everything that is stored of a session's leases.
pub fn all_ended(session: &Session, leases: &Leases, reason: EditLost) -> Decision<()> {
    let entries: Vec<EntryId> = leases.stored.iter().map(|lease| lease.entry_id).collect();
    ended(session, leases, &entries, reason)
}

/// Ends what is over by now, and says so to whoever held it.
pub fn sweep(session: &Session, leases: &Leases) -> Decision<()> {
    let over: Vec<EntryId> = leases
        .stored
        .iter()
        .filter(|lease| leases.now >= lease.expires_at)
        .map(|lease| lease.entry_id)
        .collect();
    ended(session, leases, &over, EditLost::Expired)
}

/// Ends the leases of connections that are gone. Until they would have expired, nothing automatic
/// takes their entries.
pub fn hold(
    session: &Session,
    leases: &Leases,
    is_gone: impl Fn(&Lease) -> bool,
    times: LeaseTimes,
) -> Decision<()> {
    let longest = leases.now.after(times.ttl);
    let held: Vec<Lease> = leases
        .stored
        .iter()
        .filter(|lease| lease.link.is_some() && is_gone(lease))
        // The clock may have begun anew with the machine.
        .map(|lease| Lease { link: None, expires_at: lease.expires_at.min(longest), ..*lease })
        .collect();
    if held.is_empty() {
        return Decision::unchanged(());
    }
    let put = |lease| Change::PutLease(Box::new(lease));
    Decision {
        changes: held.into_iter().map(put).collect(),
        events: vec![(session.id, Event::QueueChanged)],
        reply: (),
    }
}

fn ending(
    session: &Session,
    leases: &Leases,
    entries: &[EntryId],
    reason: EditLost,
) -> Decision<()> {
    let mut decision = Decision::unchanged(());
    for lease in leases.stored.iter().filter(|lease| entries.contains(&lease.entry_id)) {
        decision.changes.push(Change::EndLease(lease.entry_id));
        if let Some(link) = lease.link {
            let reason = match leases.now < lease.expires_at {
                true => reason,
                false if lease.expires_at >= lease.until => EditLost::HeldTooLong,
                false => EditLost::Expired,
            };
            let lost = LostLease {
                link,
                task_id: session.task_id,
                entry_id: lease.entry_id,
                lease_id: lease.id,
                reason,
            };
            decision.events.push((session.id, Event::EditLost(lost)));
        }
    }
    decision
}
