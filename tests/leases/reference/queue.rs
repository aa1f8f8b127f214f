//! What else is asked of the queue: it wins over an editor.

use super::rules::{Fault, Rules};
use super::{Entry, NOT_FOUND, Place, Start, State, Turn};
use crate::call::Answer;

impl State {
    pub(super) fn merge(&mut self, entry: u32, rules: Rules) -> Answer {
        let Some(index) = self.visible(entry) else { return NOT_FOUND };
        let above = index.checked_sub(1);
        let above = above.filter(|above| self.entries[*above].place == Place::Waiting);
        let Some(above) = above else { return Answer::Refused("no_merge_target") };
        let source = self.entries.remove(index);
        let target = &mut self.entries[above];
        target.content = joined(&target.content, &source.content);
        target.revision += 1;
        let into = target.name;
        self.lose(source.name, "merged", rules);
        if rules.fault != Some(Fault::MergeLeavesTheLease) {
            self.lose(into, "merged", rules);
        }
        self.may_start();
        Answer::Merged { into }
    }

    pub(super) fn admit(&mut self, name: u32, content: &str, rules: Rules) -> Answer {
        if self.auto_run {
            self.start = Start::Must;
        }
        let tail = self.entries.last().filter(|tail| tail.place == Place::Waiting);
        let is_free = |tail: &&Entry| {
            let fault = rules.fault == Some(Fault::FoldIntoAnEditedTail);
            fault || self.blocked(tail.name, rules).is_none()
        };
        if rules.folding && tail.filter(is_free).is_some() {
            let tail = self.entries.last_mut().expect("there is a tail");
            tail.content = joined(&tail.content, content);
            tail.revision += 1;
            return Answer::Folded { into: tail.name, content: tail.content.clone() };
        }
        let content = content.to_owned();
        let place = Place::Waiting;
        self.entries.push(Entry { name, place, content: content.clone(), revision: 1 });
        Answer::Admitted { content }
    }

    pub(super) fn send_now(&mut self, entry: u32, rules: Rules) -> Answer {
        let Some(index) = self.visible(entry) else { return NOT_FOUND };
        if self.turn == Some(Turn::Stopping) {
            return Answer::Refused("send_now_conflict");
        }
        self.lose(entry, "sent", rules);
        self.auto_run = true;
        if matches!(self.turn, Some(Turn::HandedOver | Turn::Running)) {
            self.entries[index].place = Place::Claimed;
            self.turn = Some(Turn::Stopping);
            return Answer::Done;
        }
        // Nobody had the prompt yet: it is back at its place.
        self.entries.iter_mut().for_each(|entry| entry.place = Place::Waiting);
        self.entries[index].place = Place::Reserved;
        self.turn = Some(Turn::Reserved);
        Answer::Done
    }
}

fn joined(above: &str, below: &str) -> String {
    [above, below].join("\n\n")
}
