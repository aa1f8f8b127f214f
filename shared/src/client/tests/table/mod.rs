//! Every state of every state machine meets every input: what it becomes, and what it asks for.
//!
//! The tables are files beside this one, to be read and reviewed: a row for each pair. A change of
//! behaviour changes a table; `USHER_WRITE_TABLES=1 cargo test -p usher-shared table` writes them anew.

mod edits;
mod links;
mod sends;
mod uploads;
mod watches;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::*;
use crate::client::{EditEnd, JournalOrder};

/// An engine in the state of a row, and the requests that led there.
pub(super) struct Case {
    rig: Rig,
    /// The newest request of each action, and the first of those that are repeated as `ACTION 1`.
    known: BTreeMap<String, Sent>,
}

impl Case {
    fn new(mut rig: Rig) -> Self {
        rig.events.clear();
        let mut case = Self { rig, known: BTreeMap::new() };
        case.learn();
        case
    }

    /// Remembers what was sent since.
    fn learn(&mut self) -> Vec<String> {
        let sent = std::mem::take(&mut self.rig.sent);
        let actions = sent.iter().map(|sent| sent.action.clone()).collect();
        for request in sent {
            let first = format!("{} 1", request.action);
            self.known.entry(first).or_insert_with(|| request.clone());
            self.known.insert(request.action.clone(), request);
        }
        actions
    }

    /// The request that an answer belongs to; one that was never sent if there is none.
    fn asked(&self, action: &str) -> Sent {
        self.known.get(action).cloned().unwrap_or_else(|| Sent {
            id: "999".to_owned(),
            action: action.to_owned(),
            payload: Value::Null,
            raw: String::new(),
        })
    }

    fn reply(&mut self, action: &str, payload: &impl serde::Serialize) {
        let request = self.asked(action);
        self.rig.reply(&request, payload);
    }

    fn refuse(&mut self, action: &str, code: ErrorCode) {
        let request = self.asked(action);
        self.rig.refuse(&request, &error(code));
    }

    /// Lets the next deadline pass, on a link that shows signs of life.
    fn next_deadline(&mut self) {
        let due = self.rig.engine.next_deadline();
        self.rig.input(Input::Heartbeat);
        if let Some(due) = due {
            self.rig.now = self.rig.now.max(due.get());
        }
        self.rig.input(Input::DeadlineReached);
    }

    /// Brings a link up, or another one if there is one.
    fn link_comes(&mut self) {
        if matches!(self.rig.engine.link(), LinkState::Online { .. }) {
            self.rig.input(Input::LinkClosed { code: None });
        }
        self.rig.input(Input::Reconnect);
        self.rig.input(Input::LinkOpened);
        let hello = self.rig.sent.iter().position(|sent| sent.action == "hello");
        if let Some(index) = hello {
            let hello = self.rig.sent.remove(index);
            self.rig.reply(&hello, &hello_reply());
        }
    }

    /// What was asked for and told since, in short.
    fn outcome(&mut self) -> String {
        let mut parts: Vec<String> =
            std::mem::take(&mut self.rig.link_outputs).into_iter().map(str::to_owned).collect();
        parts.extend(self.learn());
        let orders = std::mem::take(&mut self.rig.journal).into_iter();
        parts.extend(orders.map(|order| match order {
            JournalOrder::Keep(row) => format!("keep as {:?}", row.stage),
            JournalOrder::Mark(_, stage, _) => format!("mark as {stage:?}"),
            JournalOrder::Drop(_) => "drop row".to_owned(),
            JournalOrder::Adopt { .. } => "adopt".to_owned(),
        }));
        let reads = std::mem::take(&mut self.rig.reads).into_iter();
        parts.extend(reads.map(|(_, offset, length)| format!("read {length} at {offset}")));
        for event in std::mem::take(&mut self.rig.events) {
            parts.extend(in_short(&event));
        }
        parts.join(", ")
    }
}

/// Names an event that tells more than a state does.
fn in_short(event: &Event) -> Option<String> {
    Some(match event {
        Event::LinkChanged | Event::DeliveryChanged(_) | Event::EditChanged => return None,
        Event::EditEnded { end: EditEnd::Refused(error), .. } => {
            format!("told: Refused {}", error.code)
        }
        Event::EditEnded { end, .. } => format!("told: {end:?}"),
        Event::SaveRefused(error) => format!("told: save refused {}", error.code),
        Event::SessionRefused(error) => format!("told: session refused {}", error.code),
        Event::UploadEnded { end, .. } => {
            let shown = format!("{end:?}");
            format!("told: upload {}", &shown[..shown.find('(').unwrap_or(shown.len())])
        }
        other => {
            let shown = format!("{other:?}");
            let end = shown.find(['(', ' ', '{']).unwrap_or(shown.len());
            format!("told: {}", &shown[..end])
        }
    })
}

type State = (&'static str, fn() -> Rig);
type Step = (&'static str, fn(&mut Case));

/// Runs every pair and compares the table with the one that was reviewed.
fn check(name: &str, states: &[State], inputs: &[Step], state_of: fn(&Case) -> String) {
    let mut table = String::new();
    for (state, make) in states {
        let case = Case::new(make());
        let _ = writeln!(table, "## {state}: {}", state_of(&case));
        for (input, apply) in inputs {
            let mut case = Case::new(make());
            let before = state_of(&case);
            case.rig.link_outputs.clear();
            case.rig.journal.clear();
            case.rig.reads.clear();
            apply(&mut case);
            let (after, outcome) = (state_of(&case), case.outcome());
            let becomes = if before == after { "=".to_owned() } else { after };
            let line = format!("{input:<28} {becomes:<34} {outcome}");
            let _ = writeln!(table, "{}", line.trim_end());
        }
        table.push('\n');
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/client/tests/table");
    let path = folder.join(format!("{name}.txt"));
    if std::env::var_os("USHER_WRITE_TABLES").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    for (line, (now, before)) in table.lines().zip(reviewed.lines()).enumerate() {
        assert_eq!(now, before, "{name}.txt, line {}", line + 1);
    }
    assert_eq!(table.lines().count(), reviewed.lines().count(), "{name}.txt has other rows");
}
