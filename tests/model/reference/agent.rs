//! What the demo agent does with a prompt, as far as the prompts of these tests go.

use std::collections::VecDeque;

use super::attached::Attachment;
use super::turn::joined;

/// One thing that the agent does next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Says this; a line of its own if something was said before.
    Say(String),
    /// Says more of the same.
    More(String),
    /// Asks and waits.
    Ask,
    /// Waits to be cancelled.
    Hang,
    /// Fails with this text.
    Fail(String),
    /// Refuses.
    Refuse,
}

/// Returns everything that the agent does with a prompt, in order.
pub(crate) fn script(prompt: &str, attachments: &[Attachment]) -> VecDeque<Step> {
    let is_directive = |line: &&str| *line == "/demo" || line.starts_with("/demo ");
    if !prompt.lines().any(|line| is_directive(&line)) {
        return echo(&told(prompt, attachments));
    }
    let mut steps = VecDeque::new();
    let mut around: Vec<&str> = Vec::new();
    for line in prompt.lines().chain(["/demo"]) {
        if !is_directive(&line) {
            around.push(line);
            continue;
        }
        let text = around.join("\n");
        let text = text.trim_matches('\n');
        if !text.trim().is_empty() {
            steps.extend(echo(text));
        }
        around.clear();
        steps.extend(line.trim_start_matches("/demo").split(';').filter_map(directive));
    }
    steps
}

/// What came with a prompt is part of what is repeated.
fn told(prompt: &str, attachments: &[Attachment]) -> String {
    let list: String = attachments.iter().map(Attachment::told).collect();
    match list.as_str() {
        "" => prompt.to_owned(),
        list => joined(&[prompt, &format!("Attachments:\n{list}")]),
    }
}

fn directive(text: &str) -> Option<Step> {
    let text = text.trim();
    match text.split_once(' ').unwrap_or((text, "")) {
        ("", _) => None,
        ("ask", _) => Some(Step::Ask),
        ("hang", _) => Some(Step::Hang),
        ("refuse", _) => Some(Step::Refuse),
        ("say", words) => Some(Step::Say(words.to_owned())),
        ("fail", words) => Some(Step::Fail(words.to_owned())),
        (word, _) => panic!("the model's agent does not know {word}"),
    }
}

/// An echo comes in four pieces: what a cancel in between leaves is one of their sums.
fn echo(text: &str) -> VecDeque<Step> {
    let mut steps = VecDeque::from([Step::Say("You said: ".to_owned())]);
    let letters: Vec<char> = text.chars().collect();
    for piece in letters.chunks(letters.len().div_ceil(4).max(1)) {
        steps.push_back(Step::More(piece.iter().collect()));
    }
    steps
}
