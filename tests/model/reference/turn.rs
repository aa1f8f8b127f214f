//! What happens without a request: the head is taken, the agent works, a turn ends.

use std::collections::VecDeque;

use serde_json::json;

use super::agent::{Step, script};
use super::attached::together;
use super::session::{Entry, Message, Place, Session, Standing, unite};

/// How far an open turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The head is taken.
    Reserved,
    /// The agent may have it.
    HandedOver,
    /// The agent has it.
    Running,
}

/// An open turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turn {
    pub(super) id: u32,
    pub(super) stage: Stage,
    /// Whether it was told to stop.
    pub(super) stopping: bool,
    /// Why it was told to, if not by a cancel.
    pub(super) replaced: bool,
    /// The open question.
    pub(super) question: Option<u32>,
    /// What the agent does next.
    script: VecDeque<Step>,
    /// Whether the agent said anything: the place of its answer in the transcript.
    answer: Option<usize>,
    /// Of a prompt that runs again: its place in the transcript.
    again: Option<usize>,
}

impl Session {
    /// What may be after one step of the dispatcher, the runner or the agent; nothing: all wait.
    pub(super) fn successors(&self) -> Vec<Self> {
        let after = |step: &dyn Fn(&mut Self) -> bool| {
            let mut next = self.clone();
            step(&mut next).then_some(next)
        };
        let Some(turn) = &self.turn else {
            let open = self.standing == Standing::Open && self.off.is_none();
            let starts = open && self.head_block().is_none();
            return after(&|next| starts && next.reserve_head()).into_iter().collect();
        };
        if turn.stopping && turn.question.is_some() {
            return after(&Self::close_question).into_iter().collect();
        }
        let next = match turn.stage {
            Stage::Reserved => after(&Self::hand_over),
            Stage::HandedOver => after(&Self::accept),
            Stage::Running => after(&Self::agent_goes_on),
        };
        // An agent that was told to stop may have gone on a little before it heard of it.
        let stopped = turn.stopping && turn.stage == Stage::Running;
        let stopped = stopped.then(|| self.stopped_end());
        next.into_iter().chain(stopped).collect()
    }

    /// The runner hears that the turn is to stop: nobody can answer from here on.
    fn close_question(&mut self) -> bool {
        let turn = self.turn.as_mut().expect("a turn is open");
        turn.question = None;
        turn.script.push_front(Step::Say("You chose nothing".to_owned()));
        true
    }

    /// How a turn that was told to stop ends: cancelled, whatever the agent says of it.
    fn stopped_end(&self) -> Self {
        let turn = self.turn.as_ref().expect("a turn is open");
        let mut next = self.clone();
        next.end("cancelled", turn.replaced.then_some("replaced"), None);
        next
    }

    fn hand_over(&mut self) -> bool {
        self.turn.as_mut().expect("a turn is open").stage = Stage::HandedOver;
        true
    }

    /// Takes the head; false: nothing waits.
    pub(super) fn reserve_head(&mut self) -> bool {
        let head = self.entries.iter_mut().find(|entry| entry.place == Place::Waiting);
        let Some(head) = head else {
            return false;
        };
        head.place = Place::Reserved;
        head.lease = None;
        self.revision += 1;
        self.open(None);
        true
    }

    /// Opens a turn, on the reserved entry or once more on a message of the transcript.
    pub(super) fn open(&mut self, again: Option<usize>) {
        self.begun += 1;
        // Unlike that of any other session's turn.
        let id = self.name as u32 * 1_000 + self.begun;
        if let Some(again) = again {
            self.transcript[again].turn = Some(id);
        }
        self.told.push(("turn.started", json!({"turn_id": turn_name(id)})));
        self.turn = Some(Turn {
            id,
            stage: Stage::Reserved,
            stopping: false,
            replaced: false,
            question: None,
            script: VecDeque::new(),
            answer: None,
            again,
        });
    }

    /// The prompt moves from the queue into the transcript.
    fn accept(&mut self) -> bool {
        let life = self.life;
        let turn = self.turn.as_mut().expect("a turn is open");
        turn.stage = Stage::Running;
        let (prompt, attachments) = if let Some(again) = turn.again {
            let message = &mut self.transcript[again];
            message.status = "complete";
            (message.content.clone(), message.attachments.clone())
        } else {
            let reserved = |entry: &mut Entry| entry.place == Place::Reserved;
            let entries: Vec<Entry> = self.entries.extract_if(.., reserved).collect();
            let (mut admission_ids, mut past) = (Vec::new(), Vec::new());
            for entry in &entries {
                unite(&mut admission_ids, entry.admission_ids.clone());
                unite(&mut past, entry.past.clone());
            }
            let contents: Vec<_> = entries.iter().map(|entry| entry.content.as_str()).collect();
            let content = joined(&contents);
            let attachments = entries.iter().map(|entry| &entry.attachments[..]);
            let attachments = together(attachments).expect("it was looked at before");
            self.revision += 1;
            self.transcript.push(Message {
                life,
                turn: Some(turn.id),
                role: "user",
                content: content.clone(),
                status: "complete",
                attachments: attachments.clone(),
                admission_ids,
                past,
                notice: None,
                resolution: None,
            });
            (content, attachments)
        };
        turn.script = script(&prompt, &attachments);
        true
    }

    fn agent_goes_on(&mut self) -> bool {
        let turn = self.turn.as_mut().expect("a turn is open");
        let waits = turn.question.is_some() || turn.script.front() == Some(&Step::Hang);
        let speaks = matches!(turn.script.front(), Some(Step::Say(_) | Step::More(_)));
        if waits || (turn.stopping && !speaks) {
            return false;
        }
        match turn.script.pop_front() {
            None => self.end("completed", None, None),
            Some(Step::Ask) => {
                let question = self.name as u32 * 1_000 + self.questions.len() as u32 + 1;
                turn.question = Some(question);
                self.questions.push(question);
                true
            }
            Some(Step::Say(text)) => self.say(&text, "\n"),
            Some(Step::More(text)) => self.say(&text, ""),
            Some(Step::Fail(text)) => self.end("failed", Some("error"), Some(text)),
            Some(Step::Refuse) => self.end("completed", Some("refused"), None),
            Some(Step::Hang) => unreachable!("it waits"),
        }
    }

    fn say(&mut self, text: &str, between: &str) -> bool {
        let turn = self.turn.as_mut().expect("a turn is open");
        let Some(answer) = turn.answer else {
            turn.answer = Some(self.transcript.len());
            let message = self.line("agent", text.to_owned(), "streaming");
            self.transcript.push(message);
            return true;
        };
        self.transcript[answer].content.push_str(between);
        self.transcript[answer].content.push_str(text);
        true
    }

    /// Answers the open question.
    pub(super) fn answer(&mut self, name: &str) {
        let turn = self.turn.as_mut().expect("a turn is open");
        turn.question = None;
        turn.script.push_front(Step::Say(format!("You chose: {name}")));
    }

    pub(super) fn line(
        &self,
        role: &'static str,
        content: String,
        status: &'static str,
    ) -> Message {
        let turn = self.turn.as_ref().map(|turn| turn.id);
        Message {
            life: self.life,
            turn,
            role,
            content,
            status,
            attachments: Vec::new(),
            admission_ids: Vec::new(),
            past: Vec::new(),
            notice: None,
            resolution: None,
        }
    }

    /// Ends the open turn.
    fn end(
        &mut self,
        outcome: &'static str,
        reason: Option<&'static str>,
        text: Option<String>,
    ) -> bool {
        let notice = match (outcome, reason) {
            ("failed", _) => Some("turn_failed"),
            ("cancelled", Some("replaced")) => None,
            ("cancelled", _) => Some("turn_cancelled"),
            (_, Some("refused")) => Some("turn_refused"),
            _ => None,
        };
        if let Some(notice) = notice {
            let content = text.clone().unwrap_or_default();
            let mut line = self.line("system", content, "complete");
            line.notice = Some(notice);
            self.transcript.push(line);
        }
        let turn = self.turn.take().expect("a turn is open");
        if let Some(answer) = turn.answer {
            self.transcript[answer].status = match outcome {
                "completed" => "complete",
                "failed" => "failed",
                _ => "interrupted",
            };
        }
        if outcome == "failed" {
            let is_prompt = |line: &&mut Message| line.turn == Some(turn.id) && line.role == "user";
            let prompt = self.transcript.iter_mut().find(is_prompt);
            prompt.expect("the agent had the prompt").status = "failed";
            self.park("failed");
        }
        if (outcome, reason) == ("completed", Some("refused")) {
            self.park("refused");
        }
        self.told_end(turn.id, outcome, reason, text);
        self.open_claimed();
        true
    }

    fn park(&mut self, reason: &'static str) {
        if self.off.is_none() {
            self.revision += 1;
        }
        self.switch_off(reason);
    }

    fn told_end(
        &mut self,
        turn: u32,
        outcome: &'static str,
        reason: Option<&'static str>,
        text: Option<String>,
    ) {
        self.ended.push(turn);
        let ended = json!({
            "turn_id": turn_name(turn), "outcome": outcome, "reason": reason, "text": text,
        });
        self.told.push(("turn.ended", ended));
    }

    /// The open turn is told to stop. What was never sent is back at its place, and the turn over.
    pub(super) fn stop(&mut self, reason: Option<&'static str>) {
        let Some(turn) = &mut self.turn else {
            return;
        };
        turn.stopping = true;
        turn.replaced = reason.is_some();
        if turn.stage == Stage::Reserved {
            let turn = turn.id;
            self.turn = None;
            for entry in self.entries.iter_mut().filter(|entry| entry.place == Place::Reserved) {
                entry.place = Place::Waiting;
            }
            self.told_end(turn, "cancelled", reason, None);
        }
    }

    /// A cancel: the turn stops, and what waits is parked.
    pub(super) fn cancel(&mut self) {
        let before = self.waiting().count();
        self.stop(None);
        let waiting = self.waiting().count();
        let parks = self.off.is_none() && waiting > 0;
        if parks {
            self.switch_off("cancelled");
        }
        if parks || waiting != before {
            self.revision += 1;
        }
    }

    /// The same for an archive: nothing is parked.
    pub(super) fn stop_for_archive(&mut self) {
        let before = self.waiting().count();
        if self.turn.as_ref().is_some_and(|turn| !turn.stopping) {
            self.stop(None);
        }
        if self.waiting().count() != before {
            self.revision += 1;
        }
    }

    /// Begins the turn of what was sent now, if no other is open; what nobody can send any more
    /// waits again.
    pub(super) fn open_claimed(&mut self) {
        let starts = self.standing == Standing::Open;
        let place = if starts { Place::Reserved } else { Place::Waiting };
        let claimed = self.entries.iter_mut().filter(|entry| entry.place == Place::Claimed);
        match claimed.map(|entry| entry.place = place).count() {
            0 => {}
            _ if starts => self.open(None),
            _ => self.revision += 1,
        }
    }
}

/// Joins texts that become one, with a blank line between two that say something.
pub(super) fn joined(texts: &[&str]) -> String {
    let texts: Vec<&str> = texts.iter().copied().filter(|text| !text.is_empty()).collect();
    texts.join("\n\n")
}

pub(super) fn turn_name(id: u32) -> String {
    format!("$turn:{id}")
}
