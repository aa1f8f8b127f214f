//! What the demo agent reports for each directive, on a paused clock.

use std::time::Duration;

use usher_shared::id::AttachmentId;
use usher_shared::vocabulary::{
    AttachmentKind, DeliveryMode, PermissionKind, PlanStatus, TurnReason,
};

use super::super::AgentPrompt;
use super::*;
use crate::domain::enclosed::{Attachment, Enclosed};
use crate::domain::plan::PlanEntry;

fn agent() -> AgentHandle {
    start(AgentStart { workspace_dir: None, owner: None })
}

async fn prompt(agent: &AgentHandle, text: &str) {
    let prompt = AgentPrompt { text: text.to_owned(), ..AgentPrompt::default() };
    assert!(agent.commands.send(AgentCommand::Prompt(prompt)).await.is_ok());
}

fn step(text: &str) -> PlanEntry {
    PlanEntry { text: text.to_owned(), status: PlanStatus::Pending }
}

async fn cancel(agent: &AgentHandle) {
    assert!(agent.commands.send(AgentCommand::Cancel).await.is_ok());
}

/// Takes the events of one prompt up to its end, or to the end of the agent.
async fn until_ended(agent: &mut AgentHandle) -> Vec<AgentEvent> {
    let mut events = Vec::new();
    while let Some(event) = agent.events.recv().await {
        let ended = matches!(event, AgentEvent::Ended(_));
        events.push(event);
        if ended {
            break;
        }
    }
    events
}

async fn events_of(text: &str) -> Vec<AgentEvent> {
    let mut agent = agent();
    prompt(&agent, text).await;
    until_ended(&mut agent).await
}

/// Joins what was said.
fn answer(events: &[AgentEvent]) -> String {
    events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

fn text(text: &str) -> AgentEvent {
    AgentEvent::Text(text.to_owned())
}

const COMPLETED: AgentEvent = AgentEvent::Ended(AgentEnd::Completed);
const CANCELLED: AgentEvent = AgentEvent::Ended(AgentEnd::Cancelled);

#[tokio::test(start_paused = true)]
async fn any_text_is_echoed_in_a_few_pieces() {
    let events = events_of("hello wörld").await;
    assert_eq!(answer(&events), "You said: hello wörld");
    assert_eq!(events.first(), Some(&AgentEvent::Accepted));
    assert_eq!(events.last(), Some(&COMPLETED));
    assert!((4..=8).contains(&events.len()), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_script_reports_its_steps_in_order() {
    let events =
        events_of("/demo say working; think hm; tool grep 3 hits; plan A|B; dance; say done").await;
    let tool = |output: &str, done| AgentEvent::Tool {
        call: "call-1".to_owned(),
        name: "grep".to_owned(),
        output: output.to_owned(),
        done,
    };
    assert_eq!(
        events,
        [
            AgentEvent::Accepted,
            text("working"),
            AgentEvent::Thought("hm".to_owned()),
            tool("", false),
            tool("3 hits", true),
            AgentEvent::Plan(["A", "B"].map(step).to_vec()),
            text("\nI do not understand \"dance\"."),
            text("\ndone"),
            COMPLETED,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_the_chunks_and_bytes_it_was_asked_for() {
    assert_eq!(
        events_of("/demo stream 3 5").await,
        [AgentEvent::Accepted, text("1 ..."), text("2 ..."), text("3 ..."), COMPLETED,]
    );
    assert_eq!(answer(&events_of("/demo stream 12 1").await), "123456789111");
}

#[tokio::test(start_paused = true)]
async fn big_answers_have_exactly_the_bytes_asked_for() {
    for bytes in [0, 1, 16_384, 16_385, 3_000_000] {
        let events = events_of(&format!("/demo big {bytes}")).await;
        assert_eq!(answer(&events).len(), bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn sleep_takes_its_time() {
    let before = Instant::now();
    events_of("/demo sleep 90m; sleep 1m").await;
    let waited = before.elapsed();
    assert!(waited >= Duration::from_secs(91 * 60), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn failing_and_refusing_end_the_script() {
    let failed = AgentEvent::Ended(AgentEnd::Failed {
        reason: TurnReason::Error,
        text: "no luck".to_owned(),
    });
    assert_eq!(
        events_of("/demo say a; fail no luck; say b").await,
        [AgentEvent::Accepted, text("a"), failed]
    );
    assert_eq!(
        events_of("/demo refuse; say b").await,
        [AgentEvent::Accepted, AgentEvent::Ended(AgentEnd::Refused)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_crash_delivers_what_was_said_and_closes_the_channels() {
    let mut agent = agent();
    prompt(&agent, "/demo say last words; crash; say b").await;
    assert_eq!(until_ended(&mut agent).await, [AgentEvent::Accepted, text("last words")]);
    assert!(agent.commands.send(AgentCommand::Cancel).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn late_text_comes_after_the_end_and_before_the_next_turn() {
    let mut agent = agent();
    prompt(&agent, "/demo late psst; say a").await;
    assert_eq!(until_ended(&mut agent).await, [AgentEvent::Accepted, text("a"), COMPLETED]);
    prompt(&agent, "b").await;
    assert_eq!(agent.events.recv().await, Some(text("psst")));
    assert_eq!(answer(&until_ended(&mut agent).await), "You said: b");
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_its_own_answer() {
    let mut agent = agent();
    prompt(&agent, "/demo ask; say on").await;
    assert_eq!(agent.events.recv().await, Some(AgentEvent::Accepted));
    let option = |id: &str, name: &str, kind| (id.to_owned(), name.to_owned(), kind);
    assert_eq!(
        agent.events.recv().await,
        Some(AgentEvent::Permission {
            request: "question-1".to_owned(),
            title: "run a command".to_owned(),
            tool: "demo".to_owned(),
            options: vec![
                option("once", "Allow once", PermissionKind::AllowOnce),
                option("always", "Always allow", PermissionKind::AllowAlways),
                option("no", "Reject", PermissionKind::RejectOnce),
            ],
        })
    );
    for (request, option_id) in [("question-0", "once"), ("question-1", "no")] {
        let answer = AgentCommand::Answer {
            request: request.to_owned(),
            option_id: Some(option_id.to_owned()),
        };
        assert!(agent.commands.send(answer).await.is_ok());
    }
    assert_eq!(until_ended(&mut agent).await, [text("You chose: Reject"), text("\non"), COMPLETED]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_question_is_nothing_chosen() {
    let mut agent = agent();
    prompt(&agent, "/demo ask reject").await;
    let answer_none = AgentCommand::Answer { request: "question-1".to_owned(), option_id: None };
    assert_eq!(agent.events.recv().await, Some(AgentEvent::Accepted));
    let Some(AgentEvent::Permission { options, .. }) = agent.events.recv().await else {
        panic!("no question");
    };
    assert_eq!(options.len(), 1);
    assert!(agent.commands.send(answer_none).await.is_ok());
    assert_eq!(until_ended(&mut agent).await, [text("You chose nothing"), COMPLETED]);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_stops_every_kind_of_waiting_and_the_agent_goes_on() {
    let mut agent = agent();
    for script in ["hang", "sleep 5m", "ask", "stream 1000000", "big 64MB"] {
        let before = Instant::now();
        prompt(&agent, &format!("/demo {script}; say never")).await;
        assert_eq!(agent.events.recv().await, Some(AgentEvent::Accepted));
        cancel(&agent).await;
        let events = until_ended(&mut agent).await;
        assert_eq!(events.last(), Some(&CANCELLED), "{script}");
        assert!(events.len() <= EVENTS_MAX + 2, "{script}: {}", events.len());
        assert_eq!(before.elapsed(), Duration::ZERO, "{script}");
    }
    prompt(&agent, "again").await;
    assert_eq!(answer(&until_ended(&mut agent).await), "You said: again");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_obeyed_while_nobody_takes_the_events() {
    let mut agent = agent();
    prompt(&agent, "/demo stream 1000000").await;
    while agent.events.len() < EVENTS_MAX {
        tokio::task::yield_now().await;
    }
    cancel(&agent).await;
    assert_eq!(until_ended(&mut agent).await.len(), EVENTS_MAX + 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_without_a_turn_does_not_hit_the_next_one() {
    let mut agent = agent();
    cancel(&agent).await;
    prompt(&agent, "b").await;
    assert_eq!(until_ended(&mut agent).await.last(), Some(&COMPLETED));
}

#[tokio::test(start_paused = true)]
async fn a_deaf_agent_ignores_cancels_until_it_is_dropped() {
    let mut agent = agent();
    prompt(&agent, "/demo deaf; sleep 5m; say done").await;
    cancel(&agent).await;
    assert_eq!(until_ended(&mut agent).await, [AgentEvent::Accepted, text("done"), COMPLETED]);

    // As the last directive it never ends; the next turn would hear again.
    prompt(&agent, "/demo deaf").await;
    assert_eq!(agent.events.recv().await, Some(AgentEvent::Accepted));
    cancel(&agent).await;
    let forever = tokio::time::timeout(Duration::from_secs(86_400), agent.events.recv()).await;
    assert!(forever.is_err());
    let AgentHandle { commands, mut events } = agent;
    drop(commands);
    assert_eq!(events.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn hostile_sequences_are_sent_as_they_are() {
    let answer = answer(&events_of("/demo ansi").await);
    for sequence in ["\x1b[2J", "\x1b]52;", "\u{9b}", "\u{202e}", "\r", "\x07"] {
        assert!(answer.contains(sequence), "{sequence:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_prompt_during_a_turn_shows_as_the_end_of_the_agent() {
    let mut agent = agent();
    prompt(&agent, "/demo hang").await;
    prompt(&agent, "b").await;
    assert_eq!(until_ended(&mut agent).await, [AgentEvent::Accepted]);
}

#[tokio::test(start_paused = true)]
async fn a_directive_is_never_repeated_whatever_came_with_the_prompt() {
    let attachment = Attachment {
        id: AttachmentId::default(),
        kind: AttachmentKind::Resource,
        name: "n".to_owned(),
        mime_type: "text/plain".to_owned(),
        size_bytes: 1,
        delivery: DeliveryMode::Prompt,
    };
    let enclosed = Enclosed { attachments: vec![attachment], ..Enclosed::default() };
    for (words, said) in [
        ("/demo\na", "You said: a"),
        ("a", "You said: a\n\nAttachments:\n- n (text/plain, 1 bytes)\n"),
    ] {
        let mut agent = agent();
        let (text, enclosed) = (words.to_owned(), enclosed.clone());
        let prompt = AgentPrompt { text, enclosed, ..AgentPrompt::default() };
        assert!(agent.commands.send(AgentCommand::Prompt(prompt)).await.is_ok());
        assert_eq!(answer(&until_ended(&mut agent).await), said);
    }
}
