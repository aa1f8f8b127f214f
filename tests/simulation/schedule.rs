//! A history as data: what people do and what goes wrong, when. Every step makes sense without the
//! others, so that a history that fails can be made shorter.

use std::time::Duration;

/// What happens in one history, and what the server is set to.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// Also decides what no step says: delays, and how agents behave.
    pub(crate) seed: u64,
    pub(crate) clients: usize,
    pub(crate) cap: u32,
    pub(crate) folding: bool,
    /// Whether the server says that it answers replays from receipts.
    pub(crate) receipts: bool,
    /// In the order of their times.
    pub(crate) steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// When, milliseconds.
    pub(crate) at: u64,
    /// Whose, if it is somebody's.
    pub(crate) client: usize,
    pub(crate) what: What,
}

/// What happens in a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Act(Act),
    Fault(Fault),
}

/// Which of the two sessions.
pub(crate) type Place = usize;

/// What the person at a client does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Types so many prompts, one right behind the other.
    Type(Place, u64),
    /// Sends a prompt with an ID of its own choosing, which others may choose, too.
    TypeGiven {
        session: Place,
        name: u64,
        text: u64,
    },
    Open(Place),
    /// Presses "check and resend" on everything that is uncertain.
    Check,
    /// Gives up everything that can be given up.
    Dismiss,
    Reconnect,
    /// Asks something of the session on the screen.
    Ask(Ask),
}

/// What somebody asks of the session on the screen; numbers pick an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask {
    Remove(u64),
    Clear,
    Restore,
    Merge(u64),
    Reorder(u64),
    AutoRun(bool),
    Drain,
    StopTurn,
    Reset { keep_queue: bool },
    Edit(u64),
    Save,
    LeaveEdit,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The client's link is cut.
    Cut(HeardBy),
    /// Nothing arrives for a while, then everything.
    Hold(Way, Duration),
    /// Every frame takes so much longer for a while.
    Slow { by: Duration, lasts: Duration },
    /// Nobody can connect for a while.
    Unreachable(Duration),
    /// Something goes wrong with a frame that the client sends.
    Trap(Trap),
    /// The server dies, and is back after a while.
    CrashServer(Duration),
    /// The server stops as it should, answering what comes meanwhile, and is back after a while.
    StopServer(Duration),
    /// The database takes no writes for a while.
    StoreFull(Duration),
    /// The database answers nothing for a while.
    StoreAway(Duration),
    /// The client dies, and is back after a while.
    KillClient(Journal, Duration),
    /// The client's machine sleeps.
    Suspend(Duration),
    /// Somebody sets the clock of the server's machine, milliseconds forward or back.
    SetClock(i64),
}

/// Which ends of a link learn that it is cut. Who does not finds out by silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeardBy {
    Both,
    Client,
    Server,
    Nobody,
}

impl HeardBy {
    pub(crate) fn client(self) -> bool {
        matches!(self, Self::Both | Self::Client)
    }

    pub(crate) fn server(self) -> bool {
        matches!(self, Self::Both | Self::Server)
    }
}

/// Directions of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
    Both,
}

/// What is left of a client that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Journal {
    Kept,
    /// The same, and much later, as far as the clock of its machine can tell.
    Old,
    Lost,
}

/// Waits for a request of a kind and lets something happen to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trap {
    pub(crate) kind: Kind,
    /// So many pass before.
    pub(crate) skip: u64,
    pub(crate) then: Then,
}

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hello,
    Subscribe,
    Add,
    Read,
    Edit,
    Save,
    Any,
}

impl Kind {
    /// Tells whether a request of this action is one.
    pub(crate) fn is(self, action: &str) -> bool {
        match self {
            Self::Hello => action == "hello",
            Self::Subscribe => action == "session.subscribe",
            Self::Add => action == "message.queue.add",
            Self::Read => matches!(action, "message.queue.get" | "transcript.page"),
            Self::Edit => action.starts_with("message.queue.edit.") || Self::Save.is(action),
            Self::Save => action == "message.queue.update",
            Self::Any => action != "hello",
        }
    }
}

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    /// The link is cut before it leaves.
    CutBefore(HeardBy),
    /// The link is cut when it has arrived: its answer is lost.
    CutAfter(HeardBy),
    /// The server dies before the commit.
    CrashBefore,
    /// The server dies between the commit and everything that tells of it.
    CrashAfter,
    /// It waits so long before the server looks at it.
    StallBefore(Duration),
    /// Its answer waits so long after the commit.
    StallAfter(Duration),
    /// The client dies right after it.
    KillClient(Journal),
}
