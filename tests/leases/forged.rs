//! A history that is right, and what one forged answer makes of it.

use crate::call::{Answer, Ask, Call, Event, History, Look, Loss, Shown, Told};
use crate::reference::Rules;
use crate::{invariants, search};

fn event(number: u32, link: usize, ask: Ask, answer: Answer) -> Event {
    let call = Call { number, link, ask };
    Event { call, answer, invoked: 2 * number, returned: 2 * number + 1, queue_revision: None }
}

fn save(lease: u32, operation: u32, expected: u64, content: &str) -> Ask {
    Ask::Save { entry: 1, lease, operation, expected, content: content.to_owned() }
}

fn begun(generation: u64, revision: u64, content: &str) -> Answer {
    Answer::Begun { generation, revision, content: content.to_owned() }
}

/// Link 0 edits, is silent for too long, and link 1 edits after it.
fn right() -> History {
    let (renewed, taken) =
        (Answer::Renewed { generation: 2, revision: 2 }, Answer::Taken { holder_is_you: false });
    let (lease, other, refused) = (10, 17, Answer::Refused("edit_conflict"));
    let round = vec![
        event(10, 0, Ask::Begin { entry: 1 }, begun(1, 1, "A")),
        event(11, 0, save(lease, 1, 1, "B"), Answer::Saved { revision: 2 }),
        event(12, 0, save(lease, 1, 1, "B"), Answer::Saved { revision: 2 }),
        event(13, 0, Ask::Renew { entry: 1, lease }, renewed),
        event(14, 2, Ask::Advance { millis: 59_999 }, Answer::Done),
        event(15, 1, Ask::Begin { entry: 1 }, taken),
        event(16, 2, Ask::Advance { millis: 1 }, Answer::Done),
        event(17, 1, Ask::Begin { entry: 1 }, begun(3, 2, "B")),
        event(18, 0, save(lease, 2, 2, "late"), refused.clone()),
        event(19, 1, save(other, 1, 1, "C"), Answer::Stale { revision: 2 }),
        event(20, 1, save(other, 1, 2, "C"), Answer::Saved { revision: 3 }),
        event(21, 0, Ask::End { entry: 1, lease, dispatch: true }, refused),
        event(22, 1, Ask::End { entry: 1, lease: other, dispatch: true }, Answer::Done),
    ];
    let loss = Loss { link: 0, lease, reason: "expired" };
    let shown = Shown { entry: 1, content: "C".to_owned(), revision: 3, is_edited: false };
    History {
        begins_with: vec![(1, "A".to_owned())],
        rounds: round.into_iter().map(|event| vec![event]).collect(),
        told: vec![Told { loss, read: 50 }],
        last: Look { entries: vec![shown], ..Look::default() },
    }
}

fn judge(history: &History) -> Result<(), String> {
    search::explain(history, Rules::default()).and_then(|()| invariants::check(history))
}

#[test]
fn one_forged_answer_leaves_a_history_without_an_order() {
    assert_eq!(judge(&right()), Ok(()));
    let refused = || Answer::Refused("edit_conflict");
    let forgeries = [
        ("a save after its operation was done is done again", 12, Answer::Saved { revision: 3 }),
        ("a repeated save is stale", 12, Answer::Stale { revision: 2 }),
        ("a renewal keeps its generation", 13, Answer::Renewed { generation: 1, revision: 2 }),
        ("a lease is over an instant early", 15, begun(3, 2, "B")),
        ("a lease is live an instant late", 17, Answer::Taken { holder_is_you: false }),
        ("a generation begins anew", 17, begun(1, 2, "B")),
        ("a save is not there", 17, begun(3, 2, "A")),
        ("a lost lease saves", 18, Answer::Saved { revision: 3 }),
        ("a stale save is done", 19, Answer::Saved { revision: 3 }),
        ("a lost lease ends", 21, Answer::Done),
        ("a live lease does not end", 22, refused()),
    ];
    for (what, number, answer) in forgeries {
        let mut history = right();
        let forged = history.rounds.iter_mut().flatten().find(|it| it.call.number == number);
        forged.expect("it is one of them").answer = answer;
        assert!(judge(&history).is_err(), "{what}, and nobody notices");
    }
}

#[test]
fn what_is_there_at_last_and_what_was_told_is_looked_at_too() {
    let change = |change: &dyn Fn(&mut History)| {
        let mut history = right();
        change(&mut history);
        judge(&history)
    };
    assert!(change(&|history| history.told.clear()).is_err());
    assert!(change(&|history| history.told[0].loss.reason = "removed").is_err());
    assert!(change(&|history| history.last.entries[0].content = "late".to_owned()).is_err());
    assert!(change(&|history| history.last.entries[0].is_edited = true).is_err());
    assert!(change(&|history| history.last.entries.clear()).is_err());
    assert!(change(&|history| history.last.ran.push("C".to_owned())).is_err());
}

#[test]
fn calls_that_overlap_may_have_happened_in_any_order() {
    let mut history = right();
    // The begin of link 1 and the last instant, in one round and at the same time.
    let [taken, advance] = [15, 16].map(|number| {
        let events = history.rounds.iter().flatten();
        let found = events.into_iter().find(|event| event.call.number == number);
        found.expect("it is one of them").clone()
    });
    history.rounds[5] = vec![Event { returned: 33, ..taken }, advance];
    history.rounds.remove(6);
    assert_eq!(judge(&history), Ok(()));
    // After it, it cannot have been taken.
    history.rounds[5].reverse();
    (history.rounds[5][0].invoked, history.rounds[5][0].returned) = (27, 28);
    assert!(judge(&history).is_err());
}
