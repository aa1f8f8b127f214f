//! The network: per link two ordered ways, which delay, hold back and lose a suffix, but never
//! reorder or duplicate, as TCP does.

use std::collections::VecDeque;

use crate::luck::{About, Luck};
use crate::schedule::{HeardBy, Then, Way};

/// Numbers links, the oldest first.
pub(crate) type LinkNo = usize;

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Server,
    Client,
}

/// What travels.
#[derive(Clone, Debug)]
pub(crate) enum Cargo {
    /// A text frame, and what is to happen to it.
    Text(String, Option<Then>),
    /// A ping of the transport.
    Ping,
    /// Its answer.
    Pong,
    /// The other side ended the connection.
    End(Option<u16>),
}

#[derive(Default)]
struct Pipe {
    /// With the time at which each arrives.
    cargo: VecDeque<(u64, Cargo)>,
    last_at: u64,
    is_cut: bool,
}

/// What the path of a client does to all of its links.
#[derive(Clone, Copy, Default)]
struct Path {
    up_held_until: u64,
    down_held_until: u64,
    slow_by: u64,
    slow_until: u64,
}

impl Path {
    const fn held_until(&self, to: To) -> u64 {
        match to {
            To::Server => self.up_held_until,
            To::Client => self.down_held_until,
        }
    }
}

struct Link {
    client: usize,
    up: Pipe,
    down: Pipe,
}

/// See the module.
pub(crate) struct Network {
    luck: Luck,
    links: Vec<Link>,
    paths: Vec<Path>,
    sent: u64,
    unreachable_until: u64,
}

/// What comes out at the end of a way.
pub(crate) enum Arrival {
    Now(Cargo),
    /// Held back until then.
    Later(u64),
    Nothing,
}

impl Network {
    pub(crate) fn new(luck: Luck, clients: usize) -> Self {
        Self {
            luck,
            links: Vec::new(),
            paths: vec![Path::default(); clients],
            sent: 0,
            unreachable_until: 0,
        }
    }

    /// Makes a link; returns when it is open.
    pub(crate) fn connect(&mut self, client: usize, now: u64) -> (LinkNo, u64) {
        self.links.push(Link { client, up: Pipe::default(), down: Pipe::default() });
        let number = self.links.len() - 1;
        let takes = 2 + self.luck.of(About::Connect, number as u64, 60);
        let path = self.paths[client];
        let held_until = path.up_held_until.max(path.down_held_until);
        (number, (now + takes).max(held_until))
    }

    pub(crate) fn is_reachable(&self, now: u64) -> bool {
        now >= self.unreachable_until
    }

    pub(crate) fn client_of(&self, link: LinkNo) -> usize {
        self.links[link].client
    }

    fn pipe(&mut self, link: LinkNo, to: To) -> (&mut Pipe, Path) {
        let link = &mut self.links[link];
        let path = self.paths[link.client];
        match to {
            To::Server => (&mut link.up, path),
            To::Client => (&mut link.down, path),
        }
    }

    /// Sends; returns when it arrives, if it does.
    pub(crate) fn send(&mut self, link: LinkNo, to: To, cargo: Cargo, now: u64) -> Option<u64> {
        self.sent += 1;
        let takes = 1 + self.luck.of(About::Latency, self.sent, 25);
        let (pipe, path) = self.pipe(link, to);
        if pipe.is_cut {
            return None;
        }
        let slow = if now < path.slow_until { path.slow_by } else { 0 };
        let at = (now + takes + slow).max(pipe.last_at).max(path.held_until(to));
        pipe.last_at = at;
        pipe.cargo.push_back((at, cargo));
        Some(at)
    }

    pub(crate) fn arrive(&mut self, link: LinkNo, to: To, now: u64) -> Arrival {
        let (pipe, path) = self.pipe(link, to);
        match pipe.cargo.front() {
            None => Arrival::Nothing,
            Some(_) if now < path.held_until(to) => Arrival::Later(path.held_until(to)),
            Some((at, _)) if now < *at => Arrival::Nothing,
            Some(_) => match pipe.cargo.pop_front() {
                Some((_, cargo)) => Arrival::Now(cargo),
                None => Arrival::Nothing,
            },
        }
    }

    /// Ends one way: nothing that is sent from now on arrives, and of what is under way a suffix is
    /// lost. Returns when the receiver hears of it, if it does.
    pub(crate) fn cut_way(&mut self, link: LinkNo, to: To, heard: bool, now: u64) -> Option<u64> {
        let luck = self.luck;
        let sent = self.sent;
        let (pipe, path) = self.pipe(link, to);
        if pipe.is_cut {
            return None;
        }
        pipe.is_cut = true;
        let kept = luck.of(About::InFlight, sent, pipe.cargo.len() as u64 + 1);
        pipe.cargo.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        if !heard {
            return None;
        }
        let takes = luck.of(About::End, sent, 400);
        let last = pipe.cargo.back().map_or(0, |(at, _)| *at);
        let at = (now + takes).max(last).max(path.held_until(to));
        pipe.cargo.push_back((at, Cargo::End(None)));
        Some(at)
    }

    /// The receiver of a way is gone: nothing arrives there any more.
    pub(crate) fn stop_receiving(&mut self, link: LinkNo, to: To) {
        let (pipe, _) = self.pipe(link, to);
        pipe.is_cut = true;
        pipe.cargo.clear();
    }

    /// Cuts a link; returns when its ends hear of it.
    pub(crate) fn cut(&mut self, link: LinkNo, heard: HeardBy, now: u64) -> [(To, Option<u64>); 2] {
        [
            (To::Server, self.cut_way(link, To::Server, heard.server(), now)),
            (To::Client, self.cut_way(link, To::Client, heard.client(), now)),
        ]
    }

    pub(crate) fn hold(&mut self, client: usize, way: Way, until: u64) {
        let path = &mut self.paths[client];
        if way != Way::Down {
            path.up_held_until = path.up_held_until.max(until);
        }
        if way != Way::Up {
            path.down_held_until = path.down_held_until.max(until);
        }
    }

    pub(crate) fn slow(&mut self, client: usize, by: u64, until: u64) {
        let path = &mut self.paths[client];
        (path.slow_by, path.slow_until) = (by, until);
    }

    pub(crate) fn be_unreachable(&mut self, until: u64) {
        self.unreachable_until = self.unreachable_until.max(until);
    }

    /// Everything works again, but links that are cut stay so.
    pub(crate) fn heal(&mut self, now: u64) {
        self.unreachable_until = now;
        self.paths.iter_mut().for_each(|path| *path = Path::default());
    }
}
