//! `usher send`: one prompt, from the command line to its proof and, if asked, its answer.

use std::future::pending;
use std::io::{self, Read as _};
use std::path::PathBuf;

use serde::Serialize;
use tokio::time::{Instant, sleep_until};
use usher_shared::client::{
    Acceptance, Delivery, DeliveryState, Event, IdOrigin, Input, Submission,
};
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::{AdmissionId, EntryId, SessionId, TaskId};
use usher_shared::limits::CONTENT_BYTES_MAX;
use usher_shared::prompt::is_blank;
use usher_shared::protocol::queue::{QueueAddParams, QueueGetParams};
use usher_shared::protocol::session::Session;
use usher_shared::vocabulary::AdmissionOutcome;
use uuid::Uuid;

use super::args::SendArgs;
use super::attach::{self, AttachProblem};
use super::client::{Client, OFFLINE_PATIENCE, Problem};
use super::ending::{Ending, Failure};
use super::exit::Exit;
use super::follow::follow;
use super::interrupt::Interrupt;
use super::output::{Format, Output, OutputError};
use crate::driver::Server;
use crate::i18n::Value;
use crate::unaccepted::{Place, Unaccepted};
use crate::view::clean::Clean;

/// What became of a prompt: one line of output. See [the module](super) for the JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    outcome: Outcome,
    id: Option<&'a str>,
    accepted_queue_id: Option<EntryId>,
    admission: Option<AdmissionOutcome>,
    session_id: Option<SessionId>,
    task_id: Option<TaskId>,
    code: Option<&'a str>,
    text: Option<&'a str>,
    text_truncated: bool,
    reason_text: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Accepted,
    Rejected,
    Uncertain,
    Answered,
    Failed,
}

/// How the sending itself went.
enum Sent {
    Accepted(Acceptance),
    Rejected(WireError),
    Uncertain,
    /// It never left: there was no link.
    NeverLeft,
    /// Interrupted before it left.
    TakenBack,
}

/// Runs the command.
pub(super) async fn send(
    args: &SendArgs,
    server: Server,
    token: Option<String>,
    journal_dir: Option<PathBuf>,
    output: &Output,
) -> Exit {
    let mut report = Report {
        outcome: Outcome::Rejected,
        id: args.id.as_deref(),
        accepted_queue_id: None,
        admission: None,
        session_id: None,
        task_id: None,
        code: None,
        text: None,
        text_truncated: false,
        reason_text: None,
    };
    let (id, content) = match read_prompt(args) {
        Ok(prompt) => prompt,
        Err(PromptError::Empty) => {
            let text = output.text("cli-prompt-empty", &[]);
            return rejected_as(report, ErrorCode::Validation, &text, output);
        }
        Err(PromptError::Invalid(error)) => return rejected(report, &error, output),
    };
    report.id = Some(id.as_str());
    let origin = match args.id {
        Some(_) => IdOrigin::Given,
        None => IdOrigin::Minted,
    };
    let files = match attach::look_at(&args.attach, origin) {
        Ok(files) => files,
        Err(error) => {
            output.problem(&error.text(output));
            return Exit::Usage;
        }
    };
    let connected = Client::connect_writing(server, token, journal_dir).await;
    let mut client = match connected {
        Ok(client) => client,
        Err(problem) => return problem.report(output),
    };
    let session = match client.find_or_make_session(args.session.as_deref()).await {
        Ok(session) => session,
        Err(Problem::Rejected(error)) => return rejected(report, &error, output),
        Err(problem @ Problem::UnknownSession(_)) => {
            let (text, _) = problem.text(output);
            return rejected_as(report, ErrorCode::NotFound, &text, output);
        }
        Err(problem) => return problem.report(output),
    };
    report.session_id = Some(session.id);
    report.task_id = Some(session.task_id);
    if args.wait
        && let Err(problem) = client.open(session.id).await
    {
        return problem.report(output);
    }
    let attachments = match attach::attach(&mut client, &session, files, origin).await {
        Ok(attachments) => attachments,
        Err(AttachProblem::File(error)) => {
            output.problem(&error.text(output));
            return Exit::Usage;
        }
        Err(AttachProblem::Server(Problem::Rejected(error))) => {
            return rejected(report, &error, output);
        }
        Err(AttachProblem::Server(problem)) => return problem.report(output),
    };
    let mut interrupt = Interrupt::new();
    let mut submission = submission(&session, &id, origin, content);
    if !attachments.is_empty() {
        submission.params.attachments = Some(attachments);
    }
    let sent = deliver(&mut client, submission, &mut interrupt, output).await;
    // Whatever became of it, whoever runs this command is told now, and decides.
    client.driver.handle(Input::Dismiss(id.clone()));
    let acceptance = match sent {
        Sent::Accepted(acceptance) => acceptance,
        Sent::Rejected(error) => {
            let text = refusal_text(&mut client, &session, &id, &error, output).await;
            return rejected_as(report, error.code, &text, output);
        }
        Sent::Uncertain => return uncertain(report, &id, output),
        Sent::NeverLeft => return client.no_server().report(output),
        Sent::TakenBack => return Exit::Interrupted,
    };
    match acceptance {
        Acceptance::Replied(admission) => {
            report.accepted_queue_id = Some(admission.accepted_queue_id);
            report.admission = Some(admission.outcome);
        }
        Acceptance::FoundInQueue(entry_id) => report.accepted_queue_id = Some(entry_id),
        Acceptance::FoundInTranscript(_) => {}
    }
    report.outcome = Outcome::Accepted;
    if let Err(error) = accepted(&report, args, output) {
        return output.failed(&error);
    }
    if !args.wait {
        return Exit::Done;
    }
    match follow(&mut client, session.id, &id, &mut interrupt, output).await {
        Some(ending) => ended(report, &ending, output),
        None => Exit::Interrupted,
    }
}

/// Why a prompt is not even tried.
#[derive(Debug, PartialEq)]
enum PromptError {
    /// A reader would see nothing.
    Empty,
    /// The protocol has no place for it.
    Invalid(WireError),
}

/// Reads the ID and the text, with the bounds of the protocol.
fn read_prompt(args: &SendArgs) -> Result<(AdmissionId, String), PromptError> {
    let (id, content) = read_id_and_content(args).map_err(PromptError::Invalid)?;
    if is_blank(&content) { Err(PromptError::Empty) } else { Ok((id, content)) }
}

fn read_id_and_content(args: &SendArgs) -> Result<(AdmissionId, String), WireError> {
    let id = match &args.id {
        Some(id) => AdmissionId::parse(id),
        None => AdmissionId::parse(&Uuid::now_v7().to_string()),
    };
    let id = id.map_err(|error| WireError::validation("client_queue_id", error.to_string()))?;
    if args.text != "-" {
        return Ok((id, args.text.clone()));
    }
    let refuse = |message: String| WireError::validation("content", message);
    // One byte more than fits is enough to know that it does not.
    let mut input = io::stdin().lock().take(CONTENT_BYTES_MAX as u64 + 1);
    let mut bytes = Vec::new();
    let read = input.read_to_end(&mut bytes);
    read.map_err(|error| refuse(error.to_string()))?;
    if bytes.len() > CONTENT_BYTES_MAX {
        return Err(refuse("over the bound".to_owned()).with("limit", CONTENT_BYTES_MAX));
    }
    let text = String::from_utf8(bytes).map_err(|error| refuse(error.to_string()))?;
    Ok((id, text))
}

fn submission(
    session: &Session,
    id: &AdmissionId,
    id_origin: IdOrigin,
    content: String,
) -> Submission {
    Submission {
        admission_id: id.clone(),
        id_origin,
        params: QueueAddParams {
            task_id: session.task_id,
            session_id: session.id,
            session_incarnation_id: Some(session.incarnation_id),
            content,
            ..QueueAddParams::default()
        },
    }
}

/// Sends and waits until there is proof, or none to be had.
async fn deliver(
    client: &mut Client,
    submission: Submission,
    interrupt: &mut Interrupt,
    output: &Output,
) -> Sent {
    let id = submission.admission_id.clone();
    client.driver.handle(Input::Submit(submission));
    let mut state = None;
    let mut give_up_at = None;
    loop {
        match &state {
            Some(DeliveryState::Accepted(acceptance)) => return Sent::Accepted(*acceptance),
            Some(DeliveryState::Rejected(error)) => return Sent::Rejected(error.clone()),
            Some(DeliveryState::Uncertain { .. }) => return Sent::Uncertain,
            Some(DeliveryState::WaitingForLink) => {
                give_up_at = give_up_at.or(Some(Instant::now() + OFFLINE_PATIENCE));
            }
            Some(
                DeliveryState::Saving
                | DeliveryState::Queued
                | DeliveryState::AwaitingReply { .. }
                | DeliveryState::Reconciling { .. }
                | DeliveryState::Returned,
            )
            | None => give_up_at = None,
        }
        let event = tokio::select! {
            event = client.next_event() => event,
            () = at(give_up_at) => return Sent::NeverLeft,
            () = interrupt.heard() => {
                return match state {
                    Some(DeliveryState::WaitingForLink | DeliveryState::Saving) | None => {
                        Sent::TakenBack
                    }
                    Some(_) => Sent::Uncertain,
                };
            }
        };
        match event {
            Event::DeliveryChanged(Delivery { admission_id, state: now, .. })
                if admission_id == id =>
            {
                state = Some(now);
            }
            Event::Unprotected(_) => {
                output.problem(&unaccepted_text(Unaccepted::Unprotected, None, &id, output));
            }
            _ => {}
        }
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

fn accepted(report: &Report<'_>, args: &SendArgs, output: &Output) -> Result<(), OutputError> {
    match (output.format, args.wait) {
        (Format::Json, _) => output.json(report),
        // With --wait, standard output is the answer and nothing else.
        (Format::Text, true) => Ok(()),
        (Format::Text, false) => {
            let id = Clean::line(report.id.unwrap_or_default());
            output.line(&output.text("cli-accepted", &[("id", Value::from(id.as_str()))]))
        }
    }
}

/// Returns what people read about a refused prompt: also what can be done about a full queue.
async fn refusal_text(
    client: &mut Client,
    session: &Session,
    id: &AdmissionId,
    error: &WireError,
    output: &Output,
) -> String {
    let queue = match error.code {
        ErrorCode::QueueFull => {
            client.ask(&QueueGetParams { identity: session.identity() }).await.ok()
        }
        _ => None,
    };
    let unaccepted = Unaccepted::Rejected { error, queue: queue.as_ref() };
    unaccepted_text(unaccepted, Some(session.id), id, output)
}

fn unaccepted_text(
    unaccepted: Unaccepted<'_>,
    session_id: Option<SessionId>,
    id: &AdmissionId,
    output: &Output,
) -> String {
    let session = session_id.map(|id| id.to_string()).unwrap_or_default();
    let id = Clean::line(id.as_str());
    let place = Place::Command { session: &session, id: id.as_str() };
    unaccepted.text(place, &output.localizer)
}

fn rejected(report: Report<'_>, error: &WireError, output: &Output) -> Exit {
    rejected_as(report, error.code, &output.localizer.error(error), output)
}

fn rejected_as(mut report: Report<'_>, code: ErrorCode, text: &str, output: &Output) -> Exit {
    report.outcome = Outcome::Rejected;
    report.code = Some(code.as_str());
    let text = output.text("cli-rejected", &[("reason", Value::from(text))]);
    finish(&report, &text, Exit::Rejected, output)
}

fn uncertain(mut report: Report<'_>, id: &AdmissionId, output: &Output) -> Exit {
    report.outcome = Outcome::Uncertain;
    let text = unaccepted_text(Unaccepted::Uncertain, report.session_id, id, output);
    finish(&report, &text, Exit::Uncertain, output)
}

fn ended<'a>(mut report: Report<'a>, ending: &'a Ending, output: &Output) -> Exit {
    let answer = &ending.answer;
    report.text = Some(ending.text());
    report.reason_text = ending.reason_text.as_deref();
    report.text_truncated = answer.truncated;
    if answer.truncated {
        output.problem(&output.text("cli-answer-truncated", &[]));
    }
    report.code = ending.failure.map(Failure::code);
    let Some(failure) = ending.failure else {
        report.outcome = Outcome::Answered;
        let written = match output.format {
            Format::Json => output.json(&report),
            Format::Text => output.outside(&answer.text),
        };
        return written.map_or_else(|error| output.failed(&error), |()| Exit::Done);
    };
    report.outcome = Outcome::Failed;
    if output.format == Format::Text
        && !answer.text.is_empty()
        && let Err(error) = output.outside(&answer.text)
    {
        return output.failed(&error);
    }
    if output.format == Format::Text
        && let Some(reason) = report.reason_text
    {
        let reason = Clean::line(reason);
        let reason = [("reason", Value::from(reason.as_str()))];
        output.problem(&output.text("cli-turn-reason", &reason));
    }
    finish(&report, &failure.text(output), failure.exit(), output)
}

/// Says how it ended: programs on standard output, people on standard error.
fn finish(report: &Report<'_>, text: &str, exit: Exit, output: &Output) -> Exit {
    match output.format {
        Format::Json => match output.json(report) {
            Ok(()) => exit,
            Err(error) => output.failed(&error),
        },
        Format::Text => {
            output.problem(text);
            exit
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_shows_nothing_is_refused_before_anything_is_asked() {
        let read = |text: &str| {
            let args = SendArgs {
                session: None,
                id: Some("mine".to_owned()),
                wait: false,
                json: false,
                attach: Vec::new(),
                text: text.to_owned(),
            };
            read_prompt(&args).map(|(_, content)| content)
        };
        for blank in ["", " \n\t", "\u{200b}"] {
            assert_eq!(read(blank), Err(PromptError::Empty), "{blank:?}");
        }
        assert_eq!(read(" hi "), Ok(" hi ".to_owned()));
    }
}
