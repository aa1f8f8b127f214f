//! Which frames a faulty link waits for, and what it does then.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::record::{Seen, Way};

/// A kind of frame.
#[derive(Clone, Debug)]
pub struct Matching {
    way: Way,
    /// "request", "notification", or None for the answers.
    kind: Option<&'static str>,
    /// Empty: any.
    actions: Vec<&'static str>,
    /// Part of the frame's text.
    saying: Option<String>,
    link: Option<usize>,
}

impl Matching {
    /// Requests of one action.
    pub fn request(action: &'static str) -> Self {
        Self::new(Way::ToServer, Some("request"), &[action])
    }

    /// The answers to requests of one action, whether replies or errors.
    pub fn answer(action: &'static str) -> Self {
        Self::answers(&[action])
    }

    /// The same of several.
    pub fn answers(actions: &[&'static str]) -> Self {
        Self::new(Way::ToClient, None, actions)
    }

    /// Notifications of one kind.
    pub fn notification(action: &'static str) -> Self {
        Self::new(Way::ToClient, Some("notification"), &[action])
    }

    /// Notifications of every kind.
    pub fn notifications() -> Self {
        Self::new(Way::ToClient, Some("notification"), &[])
    }

    fn new(way: Way, kind: Option<&'static str>, actions: &[&'static str]) -> Self {
        Self { way, kind, actions: actions.to_vec(), saying: None, link: None }
    }

    /// Those with this text in them.
    #[must_use]
    pub fn saying(mut self, text: &str) -> Self {
        self.saying = Some(text.to_owned());
        self
    }

    /// Those of one connection.
    #[must_use]
    pub fn on_link(mut self, link: usize) -> Self {
        self.link = Some(link);
        self
    }

    /// Tells whether this is such a frame.
    pub(super) fn takes(&self, seen: &Seen) -> bool {
        match seen {
            Seen::Frame { link, way, text, .. } => self.takes_text(*link, *way, text),
            Seen::Opened { .. }
            | Seen::Refused
            | Seen::Ended { .. }
            | Seen::Did(_)
            | Seen::Marked(_) => false,
        }
    }

    pub(super) fn takes_text(&self, link: usize, way: Way, text: &str) -> bool {
        if self.way != way || self.link.is_some_and(|wanted| wanted != link) {
            return false;
        }
        let frame: Value = serde_json::from_str(text).unwrap_or_default();
        let kind = frame["type"].as_str().unwrap_or_default();
        let is_kind = match self.kind {
            Some(wanted) => kind == wanted,
            None => matches!(kind, "response" | "error"),
        };
        let action = frame["action"].as_str().unwrap_or_default();
        let is_action = self.actions.is_empty() || self.actions.contains(&action);
        is_kind && is_action && self.saying.as_ref().is_none_or(|part| text.contains(part))
    }
}

/// What becomes of a frame.
#[derive(Clone)]
pub enum Fate {
    /// It goes on.
    Pass,
    /// It is gone.
    Swallow,
    /// Only so many bytes of it go on.
    Part(usize),
    /// It goes on changed.
    Rewrite(Arc<dyn Fn(&mut Value) + Send + Sync>),
    /// It waits for [`Do::Release`].
    Hold,
    /// It was held, and goes on now. Never the fate a rule names.
    Released,
    /// The request is gone, and the client gets this error for it.
    Refuse {
        /// The error's code.
        code: &'static str,
        /// Its details.
        details: Value,
    },
    /// The proxy made it up. Never the fate a rule names.
    Forged,
}

impl fmt::Debug for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "passed",
            Self::Swallow => "swallowed",
            Self::Part(_) => "cut short",
            Self::Rewrite(_) => "rewritten",
            Self::Hold => "held",
            Self::Released => "released",
            Self::Refuse { code, .. } => code,
            Self::Forged => "forged",
        })
    }
}

/// What the text of an error says that the proxy makes up: people may never read it.
pub const RAW_TEXT: &str = "raw words of a server";

/// Something that the proxy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    /// Ends every connection, on both sides.
    Cut,
    /// Hangs up on the clients; the server is not told.
    CutClient,
    /// Hangs up on the server; the clients are not told.
    CutServer,
    /// Turns new connections away.
    Refuse,
    /// Loses everything without a word: the connections that there are carry nothing any more, for
    /// ever, not even their end, and new ones are made but come to nothing until [`Do::Accept`].
    BlackHole,
    /// Lets new connections through, and those that hang.
    Accept,
    /// Lets everything wait.
    Stall,
    /// Lets it go on, in order.
    Flow,
    /// Lets all that is held go on, in the order it came.
    Release,
    /// Every frame that comes from now on takes so long.
    Delay(Duration),
    /// Not more than so many bytes a second, each way of each connection.
    Throttle(u32),
    /// Everything goes as fast as it can again.
    FullSpeed,
    /// No rule holds any more.
    ForgetRules,
    /// What follows happens so much later.
    After(Duration),
}

/// One thing that is waited for.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) matching: Matching,
    which: Which,
    pub(super) fate: Fate,
    pub(super) then: Vec<Do>,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Nth(usize),
    From(usize),
}

impl Rule {
    /// Waits for the `nth` frame of a kind, from 1.
    pub fn nth(nth: usize, matching: Matching) -> Self {
        Self { matching, which: Which::Nth(nth), fate: Fate::Pass, then: Vec::new() }
    }

    /// Waits for the first.
    pub fn first(matching: Matching) -> Self {
        Self::nth(1, matching)
    }

    /// Waits for the `nth` and all that follow.
    pub fn from(nth: usize, matching: Matching) -> Self {
        Self { which: Which::From(nth), ..Self::nth(nth, matching) }
    }

    /// Waits for every one.
    pub fn every(matching: Matching) -> Self {
        Self::from(1, matching)
    }

    /// Lets it vanish.
    #[must_use]
    pub fn swallow(self) -> Self {
        self.with(Fate::Swallow)
    }

    /// Passes only so many bytes on.
    #[must_use]
    pub fn part(self, bytes: usize) -> Self {
        self.with(Fate::Part(bytes))
    }

    /// Changes it.
    #[must_use]
    pub fn rewrite(self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.with(Fate::Rewrite(Arc::new(change)))
    }

    /// Keeps it until [`Do::Release`].
    #[must_use]
    pub fn hold(self) -> Self {
        self.with(Fate::Hold)
    }

    /// Answers it with an error in the server's place.
    #[must_use]
    pub fn refuse(self, code: &'static str, details: Value) -> Self {
        self.with(Fate::Refuse { code, details })
    }

    /// Does these things when its frame has met its fate.
    #[must_use]
    pub fn then(mut self, steps: impl IntoIterator<Item = Do>) -> Self {
        self.then.extend(steps);
        self
    }

    fn with(self, fate: Fate) -> Self {
        Self { fate, ..self }
    }

    /// Tells whether it wants its frame number `count`.
    pub(super) fn wants(&self, count: usize) -> bool {
        match self.which {
            Which::Nth(nth) => count == nth,
            Which::From(nth) => count >= nth,
        }
    }
}

/// Returns the error frame that answers `request`.
pub(super) fn refusal(request: &str, code: &str, details: &Value) -> String {
    let request: Value = serde_json::from_str(request).unwrap_or_default();
    json!({
        "id": request["id"],
        "type": "error",
        "action": request["action"],
        "payload": {"code": code, "message": RAW_TEXT, "details": details},
    })
    .to_string()
}
