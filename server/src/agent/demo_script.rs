//! The language of the demo agent's prompts: pure, and total on every input.
//!
//! A line that starts with `/demo` holds directives separated by `;`. What stands around such
//! lines is answered like any other prompt. A directive that makes no sense becomes a [`Step`]
//! that says so: a typing mistake is never silence.

use std::time::Duration;

use usher_shared::vocabulary::PlanStatus;

use crate::domain::plan::PlanEntry;

/// Chunks that one `stream` may ask for.
const CHUNKS_MAX: u32 = 1_000_000;
/// The size of one chunk of a `stream`, bytes.
const CHUNK_BYTES_MAX: usize = 65_536;
/// The size of a chunk when `stream` names none, bytes.
const CHUNK_BYTES_DEFAULT: usize = 16;
/// The text that one `big` may ask for, bytes.
const BIG_BYTES_MAX: usize = 64_000_000;
/// The longest `sleep`: a day.
const SLEEP_MAX: Duration = Duration::from_secs(86_400);

/// What one prompt makes the agent do, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// The steps; an empty script completes at once.
    pub(super) steps: Vec<Step>,
}

/// One thing that the agent does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Answers with `You said: ` and this text.
    Echo(String),
    /// Answers with this text.
    Say(String),
    /// Reasons.
    Think(String),
    /// Does nothing for a while.
    Sleep(Duration),
    /// Answers with numbered chunks of equal size.
    Stream {
        /// How many.
        chunks: u32,
        /// The size of each, bytes.
        bytes: usize,
    },
    /// Calls a tool, which gives this output.
    Tool {
        /// The tool.
        name: String,
        /// What it says.
        output: String,
    },
    /// Asks for a permission.
    Ask(Offer),
    /// Publishes a plan.
    Plan(Vec<PlanEntry>),
    /// Fails with this text.
    Fail(String),
    /// Dies.
    Crash,
    /// Does nothing until cancelled.
    Hang,
    /// Ignores cancels from here on.
    Deaf,
    /// Ends the turn as refused.
    Refuse,
    /// Says this after the turn has ended.
    Late(String),
    /// Answers with sequences that would take over a terminal.
    Ansi,
    /// Answers with this many bytes of text.
    Big(usize),
    /// Says which model it uses.
    Model,
    /// Says whether it is in its plan mode.
    Mode,
    /// Says that it does not understand this directive.
    Unknown(String),
}

/// Which answers a question offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// Allow and reject.
    Any,
    /// Only ways to allow.
    Allow,
    /// Only ways to reject.
    Reject,
}

/// Reads a prompt.
pub(super) fn parse(prompt: &str) -> Script {
    if !prompt.lines().any(|line| directives(line).is_some()) {
        return Script { steps: vec![Step::Echo(prompt.to_owned())] };
    }
    let mut steps = Vec::new();
    let mut around = Vec::new();
    for line in prompt.lines() {
        if let Some(directives) = directives(line) {
            echo_what_stood_around(&mut around, &mut steps);
            steps.extend(
                directives
                    .split(';')
                    .map(str::trim)
                    .filter(|directive| !directive.is_empty())
                    .map(parse_directive),
            );
        } else {
            around.push(line);
        }
    }
    echo_what_stood_around(&mut around, &mut steps);
    Script { steps }
}

/// Returns what follows `/demo`, if the line starts with that word.
fn directives(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("/demo")?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some(rest)
}

fn echo_what_stood_around(around: &mut Vec<&str>, steps: &mut Vec<Step>) {
    let text = around.join("\n");
    around.clear();
    let text = text.trim_matches('\n');
    if !text.trim().is_empty() {
        steps.push(Step::Echo(text.to_owned()));
    }
}

fn parse_directive(directive: &str) -> Step {
    let (word, rest) = split_word(directive);
    let step = match word {
        "say" => Some(Step::Say(rest.to_owned())),
        "think" => Some(Step::Think(rest.to_owned())),
        "sleep" => parse_duration(rest).map(Step::Sleep),
        "stream" => parse_stream(rest),
        "tool" => parse_tool(rest),
        "ask" => parse_offer(rest).map(Step::Ask),
        "plan" => Some(Step::Plan(parse_plan(rest))),
        "fail" => Some(Step::Fail(rest.to_owned())),
        "late" => Some(Step::Late(rest.to_owned())),
        "big" => parse_bytes(rest).map(Step::Big),
        "crash" => alone(rest, Step::Crash),
        "hang" => alone(rest, Step::Hang),
        "deaf" => alone(rest, Step::Deaf),
        "refuse" => alone(rest, Step::Refuse),
        "model" => alone(rest, Step::Model),
        "mode" => alone(rest, Step::Mode),
        "ansi" => alone(rest, Step::Ansi),
        _ => None,
    };
    step.unwrap_or_else(|| Step::Unknown(directive.to_owned()))
}

fn split_word(text: &str) -> (&str, &str) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim()),
        None => (text, ""),
    }
}

fn alone(rest: &str, step: Step) -> Option<Step> {
    rest.is_empty().then_some(step)
}

fn parse_stream(rest: &str) -> Option<Step> {
    let (chunks, bytes) = split_word(rest);
    let chunks = chunks.parse().ok().filter(|n| *n <= CHUNKS_MAX)?;
    let bytes = match bytes {
        "" => CHUNK_BYTES_DEFAULT,
        bytes => parse_bytes(bytes).filter(|n| (1..=CHUNK_BYTES_MAX).contains(n))?,
    };
    Some(Step::Stream { chunks, bytes })
}

fn parse_tool(rest: &str) -> Option<Step> {
    let (name, output) = split_word(rest);
    (!name.is_empty()).then(|| Step::Tool { name: name.to_owned(), output: output.to_owned() })
}

fn parse_offer(rest: &str) -> Option<Offer> {
    match rest {
        "" => Some(Offer::Any),
        "allow" => Some(Offer::Allow),
        "reject" => Some(Offer::Reject),
        _ => None,
    }
}

/// Reads steps, those done marked with `[x]`, those under way with `[>]`.
fn parse_plan(rest: &str) -> Vec<PlanEntry> {
    let marks = [("[x]", PlanStatus::Completed), ("[>]", PlanStatus::InProgress)];
    rest.split('|')
        .map(str::trim)
        .map(|step| {
            let marked = marks
                .into_iter()
                .find_map(|(mark, status)| Some((step.strip_prefix(mark)?.trim_start(), status)));
            let (text, status) = marked.unwrap_or((step, PlanStatus::Pending));
            PlanEntry { text: text.to_owned(), status }
        })
        .filter(|entry| !entry.text.is_empty())
        .collect()
}

/// Reads `250ms`, `2s` or `1m`.
fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let millis_per_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    let duration = Duration::from_millis(number.checked_mul(millis_per_unit)?);
    (duration <= SLEEP_MAX).then_some(duration)
}

/// Reads `100`, `100B`, `30KB` or `30MB`.
fn parse_bytes(text: &str) -> Option<usize> {
    let (number, unit) = split_unit(text)?;
    let bytes_per_unit = match unit {
        "" | "B" => 1,
        "KB" => 1_000,
        "MB" => 1_000_000,
        _ => return None,
    };
    let bytes = usize::try_from(number.checked_mul(bytes_per_unit)?).ok()?;
    (bytes <= BIG_BYTES_MAX).then_some(bytes)
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(prompt: &str) -> Vec<Step> {
        parse(prompt).steps
    }

    #[test]
    fn any_other_prompt_is_echoed_byte_for_byte() {
        for prompt in ["hello", "", "  a\r\n\tb  ", "say hi", "/demonstrate", " /demo say x"] {
            assert_eq!(steps(prompt), [Step::Echo(prompt.to_owned())], "{prompt:?}");
        }
    }

    #[test]
    fn every_directive_is_read() {
        assert_eq!(
            steps(
                "/demo say working hard; think so; sleep 500ms;stream 3; stream 2 100B;\
                 tool grep 3 hits; tool ls; ask; ask allow; ask reject; plan A | [x] B||[>]C; deaf; \
                 ansi; big 30MB; late too late; hang; refuse; crash; fail no luck"
            ),
            [
                Step::Say("working hard".to_owned()),
                Step::Think("so".to_owned()),
                Step::Sleep(Duration::from_millis(500)),
                Step::Stream { chunks: 3, bytes: CHUNK_BYTES_DEFAULT },
                Step::Stream { chunks: 2, bytes: 100 },
                Step::Tool { name: "grep".to_owned(), output: "3 hits".to_owned() },
                Step::Tool { name: "ls".to_owned(), output: String::new() },
                Step::Ask(Offer::Any),
                Step::Ask(Offer::Allow),
                Step::Ask(Offer::Reject),
                Step::Plan(vec![
                    PlanEntry { text: "A".to_owned(), status: PlanStatus::Pending },
                    PlanEntry { text: "B".to_owned(), status: PlanStatus::Completed },
                    PlanEntry { text: "C".to_owned(), status: PlanStatus::InProgress },
                ]),
                Step::Deaf,
                Step::Ansi,
                Step::Big(30_000_000),
                Step::Late("too late".to_owned()),
                Step::Hang,
                Step::Refuse,
                Step::Crash,
                Step::Fail("no luck".to_owned()),
            ]
        );
    }

    #[test]
    fn what_makes_no_sense_is_named_and_the_rest_is_read() {
        for wrong in [
            "dance",
            "sleep",
            "sleep 2",
            "sleep 2y",
            "sleep -1s",
            "sleep 99999999999999999999s",
            "sleep 18446744073709551615m",
            "sleep 86401s",
            "stream",
            "stream x",
            "stream 1000001",
            "stream 1 0",
            "stream 1 65537",
            "tool",
            "ask me",
            "big",
            "big MB",
            "big 65MB",
            "big 18446744073709551615MB",
            "crash now",
            "SAY x",
            "é",
        ] {
            assert_eq!(
                steps(&format!("/demo {wrong}; say on")),
                [Step::Unknown(wrong.to_owned()), Step::Say("on".to_owned())],
            );
        }
    }

    #[test]
    fn a_script_among_other_lines_runs_in_its_place() {
        assert_eq!(
            steps("first\n\n/demo say a\n\n/demo say b\r\n\nlast\nline"),
            [
                Step::Echo("first".to_owned()),
                Step::Say("a".to_owned()),
                Step::Say("b".to_owned()),
                Step::Echo("last\nline".to_owned()),
            ]
        );
    }

    #[test]
    fn nothing_to_do_is_no_step() {
        for prompt in ["/demo", "/demo ", "/demo ;; ;", "\n/demo\n\n"] {
            assert_eq!(steps(prompt), [], "{prompt:?}");
        }
    }
}
