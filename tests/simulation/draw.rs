//! Draws the history of a seed.

use std::time::Duration;

use usher_tests::random::Random;

use crate::schedule::{
    Act, Ask, Fault, HeardBy, Journal, Kind, Schedule, Step, Then, Trap, Way, What,
};

/// Returns the history of a seed.
pub(crate) fn draw(seed: u64) -> Schedule {
    let mut random = Random::from_seed(seed);
    let about = match random.below(10) {
        0..5 => About::Prompts,
        5..8 => About::Edits,
        _ => About::Lives,
    };
    let mut dice = Dice { random, about };
    let clients = dice.pick(&[1, 1, 2, 2, 3]);
    let (cap, folding) = (dice.pick(&[3, 10, 10]), dice.pick(&[false, true]));
    let receipts = dice.below(12) > 0;
    let mut at = 200 + dice.below(2_000);
    let mut steps = Vec::new();
    if about == About::Edits {
        // Something waits.
        for act in [Act::Ask(Ask::AutoRun(false)), Act::Type(0, 2)] {
            steps.push(Step { at, client: 0, what: What::Act(act) });
            at += 150;
        }
    }
    for _ in 0..6 + dice.below(14) {
        let client = dice.index(clients);
        let what = match dice.below(100) {
            0..60 => What::Act(dice.act()),
            _ => What::Fault(dice.fault()),
        };
        steps.push(Step { at, client, what });
        // Who edits mostly saves, and something may happen at the same moment.
        if let What::Act(Act::Ask(Ask::Edit(_))) = what
            && dice.below(3) > 0
        {
            at += 100 + dice.gap();
            if dice.below(3) == 0 {
                let trap = dice.trap_of(Kind::Save);
                steps.push(Step { at, client, what: What::Fault(Fault::Trap(trap)) });
            }
            steps.push(Step { at, client, what: What::Act(Act::Ask(Ask::Save)) });
            if dice.below(3) == 0 {
                at += dice.below(30);
                let (client, ask) = (dice.index(clients), Ask::Remove(0));
                steps.push(Step { at, client, what: What::Act(Act::Ask(ask)) });
            }
        }
        at += dice.gap();
    }
    Schedule { seed, clients, cap, folding, receipts, steps }
}

struct Dice {
    random: Random,
    about: About,
}

/// What a history is about more than about the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Prompts,
    /// What waits is edited.
    Edits,
    /// Sessions begin new lives, and clients know of it late.
    Lives,
}

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("it is below a small number")
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// About one of these, milliseconds.
    fn about(&mut self, from: &[u64]) -> Duration {
        let base = self.pick(from);
        Duration::from_millis(base + self.below(base / 4 + 1))
    }

    /// Mostly a moment, sometimes longer than a timeout.
    fn gap(&mut self) -> u64 {
        match self.below(10) {
            0..4 => self.below(40),
            4..8 => self.below(1_500),
            8 => self.below(5_000),
            _ => self.below(15_000),
        }
    }

    fn act(&mut self) -> Act {
        let is_on_topic = self.below(3) > 0;
        match self.about {
            About::Edits if is_on_topic => return Act::Ask(self.edit()),
            About::Lives if is_on_topic => return self.act_on_lives(),
            About::Prompts | About::Edits | About::Lives => {}
        }
        let session = self.pick(&[0, 0, 0, 1]);
        match self.below(20) {
            0..8 => Act::Type(session, self.pick(&[1, 1, 1, 2, 3])),
            8 => Act::TypeGiven { session, name: self.below(3), text: self.below(3) },
            9 => Act::Open(session),
            10 => Act::Check,
            11 if self.below(4) == 0 => Act::Reconnect,
            11 => Act::Dismiss,
            12..16 => Act::Ask(self.ask()),
            _ => Act::Ask(self.edit()),
        }
    }

    fn act_on_lives(&mut self) -> Act {
        match self.below(8) {
            0..3 => Act::TypeGiven { session: 0, name: 0, text: self.pick(&[0, 0, 1]) },
            3 => Act::Type(0, 1),
            4 => Act::Open(self.pick(&[0, 1, 1])),
            5 => Act::Check,
            _ => Act::Ask(Ask::Reset { keep_queue: self.below(2) == 0 }),
        }
    }

    fn ask(&mut self) -> Ask {
        match self.below(12) {
            0 => Ask::Remove(self.below(4)),
            1 => Ask::Clear,
            2 => Ask::Restore,
            3 => Ask::Merge(self.below(4)),
            4 => Ask::Reorder(self.below(24)),
            5 | 6 => Ask::AutoRun(self.below(3) == 0),
            7 => Ask::Drain,
            8 => Ask::StopTurn,
            9 => Ask::Reset { keep_queue: self.below(3) > 0 },
            _ => Ask::AutoRun(true),
        }
    }

    fn edit(&mut self) -> Ask {
        match self.below(18) {
            0..6 => Ask::Edit(self.pick(&[0, 0, 1])),
            6..13 => Ask::Save,
            13 => Ask::LeaveEdit,
            // What somebody else edits is removed, merged or sent.
            14 | 15 => Ask::Remove(self.below(2)),
            16 => self.pick(&[Ask::Clear, Ask::Merge(1), Ask::Reorder(1)]),
            _ => Ask::Drain,
        }
    }

    fn heard(&mut self) -> HeardBy {
        self.pick(&[HeardBy::Both, HeardBy::Client, HeardBy::Server, HeardBy::Nobody])
    }

    fn journal(&mut self) -> Journal {
        self.pick(&[Journal::Kept, Journal::Kept, Journal::Old, Journal::Lost])
    }

    fn fault(&mut self) -> Fault {
        if self.about == About::Edits {
            match self.below(8) {
                0 | 1 => return Fault::Hold(Way::Up, self.about(&[12_000, 22_000, 40_000])),
                2 => return Fault::Cut(HeardBy::Both),
                3 => return self.store_fails(),
                _ => {}
            }
        }
        match self.below(30) {
            0..14 => Fault::Trap(self.trap()),
            14..16 => Fault::Cut(self.heard()),
            16 | 17 => {
                let way = self.pick(&[Way::Up, Way::Down, Way::Both]);
                Fault::Hold(way, self.about(&[500, 4_000, 12_000, 40_000]))
            }
            18 => {
                let by = self.about(&[100, 1_000, 6_000]);
                Fault::Slow { by, lasts: self.about(&[3_000, 20_000]) }
            }
            19 => Fault::Unreachable(self.about(&[1_000, 2_000, 4_000, 20_000])),
            20 | 21 => Fault::CrashServer(self.about(&[100, 2_000, 5_000])),
            22 => Fault::StopServer(self.about(&[500, 2_000])),
            23..26 => self.store_fails(),
            26 | 27 => Fault::KillClient(self.journal(), self.about(&[100, 3_000])),
            28 => Fault::Suspend(self.about(&[2_000, 11_000, 70_000])),
            _ => Fault::SetClock(self.pick(&[-3_600_000, -1, 90_000, 86_400_000])),
        }
    }

    fn store_fails(&mut self) -> Fault {
        let lasts = self.about(&[200, 2_000, 15_000]);
        match self.below(2) {
            0 => Fault::StoreFull(lasts),
            _ => Fault::StoreAway(lasts),
        }
    }

    fn trap(&mut self) -> Trap {
        let kind = match self.below(12) {
            0..6 if self.about == About::Edits => self.pick(&[Kind::Save, Kind::Save, Kind::Edit]),
            0..6 => Kind::Add,
            6 => Kind::Hello,
            7 => Kind::Subscribe,
            8 => Kind::Read,
            9 | 10 => Kind::Edit,
            _ => Kind::Any,
        };
        self.trap_of(kind)
    }

    fn trap_of(&mut self, kind: Kind) -> Trap {
        let then = match self.below(12) {
            0..6 if kind == Kind::Save => Then::StallAfter(self.about(&[12_000, 25_000])),
            0..2 => Then::CutBefore(self.heard()),
            2..6 => Then::CutAfter(self.heard()),
            6 => Then::CrashBefore,
            7 | 8 => Then::CrashAfter,
            9 => Then::StallBefore(self.about(&[3_000, 9_000, 12_000])),
            10 => Then::StallAfter(self.about(&[3_000, 9_000, 12_000, 25_000])),
            _ => Then::KillClient(self.journal()),
        };
        Trap { kind, skip: self.pick(&[0, 0, 0, 1, 2]), then }
    }
}
