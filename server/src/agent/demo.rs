//! The demo agent: built in, without set-up or network. Every behaviour and every failure of an
//! agent is one typed prompt away (see `demo_script`).
//!
//! It reports [`AgentEvent::Accepted`] before anything else and obeys a cancel at once, also
//! while nobody takes its events; only the `deaf` directive makes it ignore one.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use usher_shared::vocabulary::PermissionKind;
use usher_shared::vocabulary::TurnReason;

use super::demo_script::{Offer, Step, parse};
use super::{
    Abilities, AgentCommand, AgentEnd, AgentEvent, AgentHandle, AgentPrompt, AgentStart,
    COMMANDS_MAX, EVENTS_MAX, comments,
};

/// Text of one event when the answer is long, bytes.
const PIECE_BYTES: usize = 16_384;
/// Pieces of an echo: enough to be seen as a stream.
const ECHO_PIECES: usize = 4;

/// Sequences that would clear the screen, set the title, fill the clipboard, ask the terminal for
/// an answer, switch to the other screen, or disguise text.
const HOSTILE: &str = "plain \x1b[2J\x1b[H\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[6n\x1b[?1049h\
                       \x1bc\u{9b}2J\u{90}q\u{9c}\r\x08\x7f\u{202e}esrever\u{202c} text";

/// The models of the demo agent: its own choice is the first, and both answer alike.
const MODELS: [&str; 2] = ["demo", "demo-fast"];

/// Returns what the demo agent can be asked for.
pub fn abilities() -> Abilities {
    Abilities { models: MODELS.map(str::to_owned).to_vec(), plan_mode: true }
}

/// Starts a demo agent on the current runtime.
pub fn start(start: AgentStart) -> AgentHandle {
    // It touches no file, so it works in any place.
    drop(start);
    let (commands_in, commands) = mpsc::channel(COMMANDS_MAX);
    let (events, events_out) = mpsc::channel(EVENTS_MAX);
    tokio::spawn(
        Demo { commands, events, hearing: Hearing::Listens, tool_calls: 0, questions: 0 }.serve(),
    );
    AgentHandle { commands: commands_in, events: events_out }
}

struct Demo {
    commands: mpsc::Receiver<AgentCommand>,
    events: mpsc::Sender<AgentEvent>,
    hearing: Hearing,
    tool_calls: u64,
    questions: u64,
}

/// Whether the agent obeys a cancel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hearing {
    Listens,
    Deaf,
}

/// Why a turn stops before its script is done.
enum Stop {
    /// The script or the user ends it.
    End(AgentEnd),
    /// The agent dies, or nobody is left to talk to.
    Gone,
}

impl Demo {
    async fn serve(mut self) {
        while let Some(command) = self.commands.recv().await {
            // Without a turn there is nothing to cancel and nothing that was asked.
            let AgentCommand::Prompt(prompt) = command else {
                continue;
            };
            if self.events.send(AgentEvent::Accepted).await.is_err() {
                return;
            }
            // Of this turn only: the next one begins with what its own prompt says.
            let mut turn = Turn {
                model: prompt.model.clone(),
                plan_mode: prompt.plan_mode,
                ..Turn::default()
            };
            let end = match self.answer(&prompt, &mut turn).await {
                Ok(()) => AgentEnd::Completed,
                Err(Stop::End(end)) => end,
                Err(Stop::Gone) => return,
            };
            self.hearing = Hearing::Listens;
            let late = turn.late.into_iter().map(AgentEvent::Text);
            for event in [AgentEvent::Ended(end)].into_iter().chain(late) {
                if self.events.send(event).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Repeats the comments that came with a prompt, and then does what the prompt says.
    async fn answer(&mut self, prompt: &AgentPrompt, turn: &mut Turn) -> Result<(), Stop> {
        if !prompt.comments.is_empty() {
            self.say(comments::in_words(&prompt.comments), turn).await?;
            if prompt.told().trim().is_empty() {
                return Ok(());
            }
        }
        self.run(prompt, turn).await
    }

    async fn run(&mut self, prompt: &AgentPrompt, turn: &mut Turn) -> Result<(), Stop> {
        let mut steps = parse(&prompt.text).steps;
        // What was said includes what came with it.
        if let [Step::Echo(text)] = &mut steps[..]
            && *text == prompt.text
        {
            *text = prompt.told();
        }
        let ends_deaf = steps.last() == Some(&Step::Deaf);
        for step in steps {
            self.perform(step, turn).await?;
        }
        if ends_deaf {
            match self.hang().await? {}
        }
        Ok(())
    }

    async fn perform(&mut self, step: Step, turn: &mut Turn) -> Result<(), Stop> {
        match step {
            Step::Echo(text) => self.echo(&text, turn).await,
            Step::Say(text) => self.say(text, turn).await,
            Step::Think(text) => self.emit(AgentEvent::Thought(text)).await,
            Step::Sleep(duration) => self.sleep(duration).await,
            Step::Stream { chunks, bytes } => self.stream(chunks, bytes, turn).await,
            Step::Tool { name, output } => self.call_tool(name, output).await,
            Step::Ask(offer) => self.ask(offer, turn).await,
            Step::Plan(entries) => self.emit(AgentEvent::Plan(entries)).await,
            Step::Fail(text) => {
                Err(Stop::End(AgentEnd::Failed { reason: TurnReason::Error, text }))
            }
            Step::Crash => Err(Stop::Gone),
            Step::Hang => match self.hang().await? {},
            Step::Deaf => {
                self.hearing = Hearing::Deaf;
                Ok(())
            }
            Step::Refuse => Err(Stop::End(AgentEnd::Refused)),
            Step::Late(text) => {
                turn.late.push(text);
                Ok(())
            }
            Step::Model => {
                let text = format!("model {}", turn.model.as_deref().unwrap_or(MODELS[0]));
                self.say(text, turn).await
            }
            Step::Mode => {
                let mode = if turn.plan_mode { "plan mode" } else { "normal mode" };
                self.say(mode.to_owned(), turn).await
            }
            Step::Ansi => self.say(HOSTILE.to_owned(), turn).await,
            Step::Big(bytes) => self.big(bytes, turn).await,
            Step::Unknown(directive) => {
                let text = format!("I do not understand \"{directive}\".");
                self.say(text, turn).await
            }
        }
    }

    async fn echo(&mut self, text: &str, turn: &mut Turn) -> Result<(), Stop> {
        self.say("You said: ".to_owned(), turn).await?;
        let piece_bytes = text.len().div_ceil(ECHO_PIECES).clamp(1, PIECE_BYTES);
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.ceil_char_boundary(piece_bytes));
            self.emit(AgentEvent::Text(piece.to_owned())).await?;
            rest = after;
        }
        Ok(())
    }

    /// Says `text`, on a line of its own.
    async fn say(&mut self, text: String, turn: &mut Turn) -> Result<(), Stop> {
        let text = turn.on_its_own_line(text);
        self.emit(AgentEvent::Text(text)).await
    }

    async fn stream(&mut self, chunks: u32, bytes: usize, turn: &mut Turn) -> Result<(), Stop> {
        for number in 1..=chunks {
            let mut chunk = format!("{number} ");
            chunk.truncate(bytes);
            chunk.extend(std::iter::repeat_n('.', bytes - chunk.len()));
            if number == 1 {
                chunk = turn.on_its_own_line(chunk);
            }
            self.emit(AgentEvent::Text(chunk)).await?;
        }
        Ok(())
    }

    async fn big(&mut self, bytes: usize, turn: &mut Turn) -> Result<(), Stop> {
        let mut left = bytes;
        if turn.said == Said::Something {
            self.emit(AgentEvent::Text("\n".to_owned())).await?;
        }
        turn.said = Said::Something;
        while left > 0 {
            let piece = "0123456789abcde\n".repeat(left.min(PIECE_BYTES).div_ceil(16));
            let piece = &piece[..left.min(PIECE_BYTES)];
            self.emit(AgentEvent::Text(piece.to_owned())).await?;
            left -= piece.len();
        }
        Ok(())
    }

    async fn call_tool(&mut self, name: String, output: String) -> Result<(), Stop> {
        self.tool_calls += 1;
        let call = format!("call-{}", self.tool_calls);
        self.emit(AgentEvent::Tool {
            call: call.clone(),
            name: name.clone(),
            output: String::new(),
            done: false,
        })
        .await?;
        self.emit(AgentEvent::Tool { call, name, output, done: true }).await
    }

    async fn ask(&mut self, offer: Offer, turn: &mut Turn) -> Result<(), Stop> {
        self.questions += 1;
        let request = format!("question-{}", self.questions);
        let options = options(offer);
        self.emit(AgentEvent::Permission {
            request: request.clone(),
            title: "run a command".to_owned(),
            tool: "demo".to_owned(),
            options: options.clone(),
        })
        .await?;
        let chosen = loop {
            if let AgentCommand::Answer { request: answered, option_id } =
                listen(&mut self.commands, self.hearing).await?
                && answered == request
            {
                break option_id;
            }
        };
        let text = match options.iter().find(|(id, ..)| Some(id) == chosen.as_ref()) {
            Some((_, name, _)) => format!("You chose: {name}"),
            None => "You chose nothing".to_owned(),
        };
        self.say(text, turn).await
    }

    async fn sleep(&mut self, duration: Duration) -> Result<(), Stop> {
        let until = Instant::now() + duration;
        loop {
            tokio::select! {
                biased;
                command = listen(&mut self.commands, self.hearing) => drop(command?),
                () = sleep_until(until) => return Ok(()),
            }
        }
    }

    async fn hang(&mut self) -> Result<Infallible, Stop> {
        loop {
            drop(listen(&mut self.commands, self.hearing).await?);
        }
    }

    /// Hands over one event; a cancel is obeyed also while there is no room for it.
    async fn emit(&mut self, event: AgentEvent) -> Result<(), Stop> {
        loop {
            tokio::select! {
                biased;
                command = listen(&mut self.commands, self.hearing) => drop(command?),
                permit = self.events.reserve() => {
                    permit.map_err(|_| Stop::Gone)?.send(event);
                    return Ok(());
                }
            }
        }
    }
}

/// Waits for the next command that does not stop the turn.
async fn listen(
    commands: &mut mpsc::Receiver<AgentCommand>,
    hearing: Hearing,
) -> Result<AgentCommand, Stop> {
    match commands.recv().await {
        Some(AgentCommand::Cancel) if hearing == Hearing::Listens => {
            Err(Stop::End(AgentEnd::Cancelled))
        }
        // A second prompt breaks the contract: dying shows it, dropping it would hide it.
        Some(AgentCommand::Prompt(_)) | None => Err(Stop::Gone),
        Some(command @ (AgentCommand::Cancel | AgentCommand::Answer { .. })) => Ok(command),
    }
}

/// What a turn has done so far.
#[derive(Default)]
struct Turn {
    /// The model that was asked for.
    model: Option<String>,
    plan_mode: bool,
    said: Said,
    late: Vec<String>,
}

/// Whether the answer has text yet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Said {
    #[default]
    Nothing,
    Something,
}

impl Turn {
    fn on_its_own_line(&mut self, text: String) -> String {
        match std::mem::replace(&mut self.said, Said::Something) {
            Said::Nothing => text,
            Said::Something => format!("\n{text}"),
        }
    }
}

fn options(offer: Offer) -> Vec<(String, String, PermissionKind)> {
    [
        ("once", "Allow once", PermissionKind::AllowOnce),
        ("always", "Always allow", PermissionKind::AllowAlways),
        ("no", "Reject", PermissionKind::RejectOnce),
    ]
    .into_iter()
    .filter(|(_, _, kind)| {
        let rejects = *kind == PermissionKind::RejectOnce;
        match offer {
            Offer::Any => true,
            Offer::Allow => !rejects,
            Offer::Reject => rejects,
        }
    })
    .map(|(id, name, kind)| (id.to_owned(), name.to_owned(), kind))
    .collect()
}

#[cfg(test)]
#[path = "demo_tests.rs"]
mod tests;
