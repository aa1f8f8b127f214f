//! Is there an order of all calls, each at one instant between its invocation and its answer, in
//! which the reference gives the same answers? The search of Wing and Gong (1993) with the memory
//! of states of Lowe (2017): a state that was seen with the same calls done is not tried again.

use std::collections::HashSet;

use crate::call::{Answer, Event, History};
use crate::reference::{Rules, State};

/// The calls of a round that are done, a bit each, and where that led.
type Point = (u32, State);

/// Where a history can be after its rounds.
pub(crate) struct Reached {
    states: HashSet<State>,
    rules: Rules,
}

impl Reached {
    /// Follows every order.
    ///
    /// # Errors
    /// The first round that no order explains.
    pub(crate) fn by(history: &History, rules: Rules) -> Result<Self, String> {
        let mut states = HashSet::from([State::new(history)]);
        for (number, round) in history.rounds.iter().enumerate() {
            states = follow(states, round, rules);
            if states.is_empty() {
                return Err(format!("no order explains round {number}"));
            }
        }
        Ok(Self { states: follow(states, &[], rules), rules })
    }

    /// Returns whether all can end as it did.
    pub(crate) fn ends_with(&self, history: &History) -> bool {
        let told = history.told_at_last();
        self.states.iter().any(|state| state.is_last(&history.last, &told, self.rules))
    }
}

/// Explains a whole history.
///
/// # Errors
/// What cannot be explained.
pub(crate) fn explain(history: &History, rules: Rules) -> Result<(), String> {
    match Reached::by(history, rules)?.ends_with(history) {
        true => Ok(()),
        false => Err("no order ends with the last look and what was told".to_owned()),
    }
}

/// Returns every state in which all calls of a round may be done.
fn follow(states: HashSet<State>, round: &[Event], rules: Rules) -> HashSet<State> {
    let all = (1_u32 << round.len()) - 1;
    let mut open: Vec<Point> = states.into_iter().map(|state| (0, state)).collect();
    let mut seen: HashSet<Point> = open.iter().cloned().collect();
    let mut done = HashSet::new();
    while let Some((calls, state)) = open.pop() {
        if calls == all {
            done.insert(state.clone());
        }
        let called = calls_after(calls, &state, round, rules);
        let by_itself = state.steps(rules).into_iter().map(|next| (calls, next));
        for point in called.into_iter().chain(by_itself) {
            if seen.insert(point.clone()) {
                open.push(point);
            }
        }
    }
    done
}

/// Returns what one more call leads to.
fn calls_after(calls: u32, state: &State, round: &[Event], rules: Rules) -> Vec<Point> {
    let is_open = |index: usize| calls & (1 << index) == 0;
    let mut points = Vec::new();
    for (index, event) in round.iter().enumerate().filter(|(index, _)| is_open(*index)) {
        let earlier = |(other, before): (usize, &Event)| is_open(other) && before.is_before(event);
        if round.iter().enumerate().any(earlier) {
            continue;
        }
        let mut next = state.clone();
        let answer = next.call(&event.call, rules);
        let with = calls | (1 << index);
        if event.answer == Answer::Lost {
            points.push((with, state.clone()));
            points.push((with, next));
        } else if event.answer == answer {
            points.push((with, next));
        }
    }
    points
}
