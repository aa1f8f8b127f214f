//! The simulated server: the real decisions, the real conversions between protocol and domain, and
//! the real rings of events, over a store of plain rows and in virtual time.
//!
//! Frames go in, and what is to happen comes out as [`Out`]s. A commit is one step that a crash can
//! come before or after; answers and events leave behind it.

mod agent;
mod commits;
mod decide;
mod lifecycle;
mod links;
mod requests;
mod watching;

use std::collections::BTreeMap;

use usher_server::domain::lease::{Lease, LeaseInstant, LeaseTimes, LinkId, LostLease};
use usher_server::domain::session::{
    AutoRun, Caller, IncarnationKey, QueueHead, Session, SessionKey, Standing,
};
use usher_server::domain::settings::{Given, GivenSettings, SavedSettings, Switch};
use usher_server::net::Hub;
use usher_shared::counter::{MessageSeq, Position, QueueRevision, TargetRevision};
use usher_shared::error::WireError;
use usher_shared::id::{
    ClientInstance, EntryId, Epoch, IncarnationId, LeaseId, MessageId, OperationId, SessionId,
    StoreId, TaskId, TurnId, UserId,
};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::SettingSource;

use crate::broken::Broken;
use crate::ids::Ids;
use crate::luck::Luck;
use crate::network::LinkNo;
use crate::schedule::{Schedule, Then};
use crate::store::Store;
pub(crate) use agent::AgentStep;
use agent::Run;
use decide::{Deciding, Rules};
pub(crate) use links::Answer;
use links::Links;

/// 2026-01-01 on the server's wall clock.
const EPOCH_MS: i64 = 1_767_225_600_000;
/// How often the server looks for what nobody did.
const PASS_MS: u64 = 5_000;
/// A lease lives this long, so that one can expire in a short history.
const LEASE_TTL_MS: i64 = 20_000;

/// What the server wants done.
#[derive(Debug)]
pub(crate) enum Out {
    Send(LinkNo, String),
    Ping(LinkNo),
    /// End the link; what was sent before still arrives.
    Close(LinkNo, Option<u16>),
    /// Come back with this after so many milliseconds, unless the server crashed by then.
    Later(u64, Due),
    /// The process dies now.
    Crash,
}

/// What the server does later.
#[derive(Clone, Debug)]
pub(crate) enum Due {
    /// The first request of a lane, if it does not run yet.
    Work(LinkNo, SessionId),
    /// The answer to the request that runs in a lane leaves.
    Leaves(LinkNo, SessionId, Box<Answer>),
    /// A link that watches is told what happened.
    Tell(LinkNo),
    Beat(LinkNo),
    StartHead(SessionId),
    Agent(SessionId, TurnId, AgentStep),
    Pass,
}

/// What the server did, for those who check it.
#[derive(Debug)]
pub(crate) enum Fact {
    /// A link of a client was answered its hello.
    Greeted(ClientInstance, LinkNo),
    /// A request of a link begins to take effect.
    Works(ClientInstance, LinkNo),
    /// An admission was answered as accepted: for which life, and which life it was.
    Added {
        asked: Option<IncarnationId>,
        current: Option<IncarnationId>,
    },
    Granted(Lease),
    Renewed(Lease),
    Ended(EntryId),
    /// An edit was refused because somebody edits.
    Taken(EntryId),
    Saved {
        entry_id: EntryId,
        lease_id: LeaseId,
        link: LinkId,
        operation: OperationId,
        revision: TargetRevision,
    },
    /// A lease is over because of what somebody did.
    Lost(LostLease),
    /// A link has finished everything.
    LinkGone(LinkId),
    /// The server starts: nobody holds anything.
    Started,
}

/// What ends a request without an answer or with a refusal.
pub(crate) enum Stop {
    Refused(WireError),
    Crash,
}

/// What a start of the server has in memory.
struct Up {
    hub: Hub,
    links: Links,
    runs: BTreeMap<TurnId, Run>,
    /// It stops: what comes now takes no effect.
    draining: bool,
    /// What the work under way will meet at its commit.
    trap: Option<Then>,
}

/// See the module.
pub(crate) struct Server {
    pub(crate) store: Store,
    /// As of before the newest commit, for the variant whose crash forgets it.
    before: Option<Box<Store>>,
    rules: Rules,
    ids: Ids,
    luck: Luck,
    up: Option<Up>,
    starts: u64,
    works: u64,
    turns: u64,
    pub(crate) now: u64,
    wall_shift: i64,
    /// Whether it says that it answers replays from receipts.
    says_receipts: bool,
    /// Agents that begin now are quick.
    is_healed: bool,
    full_until: u64,
    away_until: u64,
    out: Vec<Out>,
    facts: Vec<Fact>,
    /// The most of each message that anybody was shown.
    pub(crate) shown: BTreeMap<MessageId, String>,
    pub(crate) commits: u64,
}

/// The sessions of every history: their names and first lives.
pub(crate) fn sessions() -> Vec<(TaskId, SessionId, IncarnationId)> {
    let mut ids = Ids::new(1);
    let task = TaskId::from_uuid(ids.next());
    (0..2)
        .map(|_| (task, SessionId::from_uuid(ids.next()), IncarnationId::from_uuid(ids.next())))
        .collect()
}

pub(crate) fn user() -> UserId {
    UserId::from_uuid(Ids::new(2).next())
}

fn store_id() -> StoreId {
    StoreId::from_uuid(Ids::new(3).next())
}

impl Server {
    pub(crate) fn new(schedule: &Schedule, luck: Luck, broken: Option<Broken>) -> Self {
        let caller = Caller { id: user(), name: "somebody".to_owned() };
        let rows = (1..).zip(sessions()).map(|(key, (task_id, id, incarnation_id))| Session {
            key: SessionKey(key),
            id,
            task_id,
            incarnation_id,
            incarnation_key: IncarnationKey(key),
            owner: caller.id,
            standing: Standing::Open,
            workspace_dir: None,
            agent: "demo".to_owned(),
            model: None,
            mode: None,
            title: "a session".to_owned(),
            created_at: UnixMillis::new(EPOCH_MS),
            last_seq: MessageSeq::ZERO,
            queue: QueueHead {
                revision: QueueRevision::ZERO,
                stored: 0,
                next_position: Position::new(1),
                auto_run: AutoRun::On,
            },
            turn: None,
            saved: SavedSettings::default(),
        });
        let given = |value| Some(Given { value, source: SettingSource::Configuration });
        let fixed = |value| Some(Given { value, source: SettingSource::Configuration });
        let mut server = Self {
            store: Store::new(rows.collect()),
            before: None,
            rules: Rules {
                given: GivenSettings {
                    max_per_session: given(schedule.cap),
                    merge: fixed(Switch::On),
                    auto_merge: fixed(Switch::of(schedule.folding)),
                },
                times: LeaseTimes { ttl: LEASE_TTL_MS, hold_max: 4 * LEASE_TTL_MS },
                caller,
                broken,
            },
            ids: Ids::new(4),
            luck,
            up: None,
            starts: 0,
            works: 0,
            turns: 0,
            now: 0,
            wall_shift: 0,
            says_receipts: schedule.receipts,
            is_healed: false,
            full_until: 0,
            away_until: 0,
            out: Vec::new(),
            facts: Vec::new(),
            shown: BTreeMap::new(),
            commits: 0,
        };
        server.start();
        server
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up.is_some()
    }

    /// Numbers the starts, so that what an earlier one wanted later is known as such.
    pub(crate) fn starts(&self) -> u64 {
        self.starts
    }

    pub(crate) fn take_out(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }

    pub(crate) fn take_facts(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.facts)
    }

    pub(crate) fn set_clock(&mut self, by: i64) {
        self.wall_shift += by;
    }

    /// Nothing can be written until then.
    pub(crate) fn fill_store_until(&mut self, until: u64) {
        self.full_until = self.full_until.max(until);
    }

    /// Nothing can be read or written until then.
    pub(crate) fn lose_store_until(&mut self, until: u64) {
        self.fill_store_until(until);
        self.away_until = self.away_until.max(until);
    }

    fn later(&mut self, millis: u64, due: Due) {
        self.out.push(Out::Later(millis, due));
    }

    fn wall(&self) -> UnixMillis {
        let now = i64::try_from(self.now).expect("no history is that long");
        UnixMillis::new(EPOCH_MS + now + self.wall_shift)
    }

    pub(crate) fn lease_now(&self) -> LeaseInstant {
        LeaseInstant(i64::try_from(self.now).expect("no history is that long"))
    }

    fn deciding(&mut self) -> Deciding<'_> {
        let (now, lease_now) = (self.wall(), self.lease_now());
        Deciding { store: &self.store, rules: &self.rules, ids: &mut self.ids, now, lease_now }
    }

    /// Returns the name that this start of the server has for a link.
    pub(crate) fn name_of(&self, link: LinkNo) -> LinkId {
        Self::link_id(self.starts, link)
    }

    /// Tells whether nothing goes wrong any more.
    pub(crate) fn is_healed(&self) -> bool {
        self.is_healed
    }

    /// Nothing goes wrong from here on.
    pub(crate) fn heal(&mut self) {
        (self.full_until, self.away_until) = (self.now, self.now);
        self.is_healed = true;
    }

    fn link_id(start: u64, link: LinkNo) -> LinkId {
        LinkId(uuid::Uuid::from_u128((5 << 96) | (u128::from(start) << 64) | link as u128))
    }

    fn epoch(starts: u64) -> Epoch {
        Epoch::from_uuid(uuid::Uuid::from_u128((6 << 96) | u128::from(starts)))
    }
}
