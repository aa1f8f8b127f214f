use usher_shared::vocabulary::Resolution;

use super::super::fixtures::{NOW, entry, session, uuid};
use super::super::session::AutoRun;
use super::super::turn::{
    CancelRefusal, Cancelled, NotOpen, ResolveRefusal, accept, cancel, hand_over, resolve,
};
use super::*;

fn turn(stage: TurnStage, stop: Stop, prompt: TurnPrompt) -> OpenTurn {
    OpenTurn { id: TurnId::from_uuid(uuid(9)), stage, stop, prompt, started_at: NOW }
}

fn in_queue(stage: TurnStage, stop: Stop) -> OpenTurn {
    turn(stage, stop, TurnPrompt::Entries)
}

fn fresh() -> Fresh {
    Fresh {
        prompt_id: MessageId::from_uuid(uuid(20)),
        notice_id: MessageId::from_uuid(uuid(21)),
        now: NOW,
    }
}

fn how(outcome: TurnOutcome, reason: Option<TurnReason>) -> TurnEnd {
    TurnEnd { outcome, reason, text: None }
}

/// What a decision did, in words.
#[derive(Debug, PartialEq, Eq)]
struct Did {
    prompt: &'static str,
    auto_run: AutoRun,
    stored: u64,
    outcome: TurnOutcome,
    notices: Vec<Notice>,
    revision_grew: bool,
}

fn did(before: &Session, decision: &Decision<()>) -> Did {
    let mut did = Did {
        prompt: "untouched",
        auto_run: before.queue.auto_run,
        stored: before.queue.stored,
        outcome: TurnOutcome::Completed,
        notices: Vec::new(),
        revision_grew: false,
    };
    let mut newest = before.last_seq;
    for change in &decision.changes {
        match change {
            Change::ReleaseEntries(_) => did.prompt = "back in the queue",
            Change::InsertMessage(_, _, message) => {
                assert_eq!(message.seq, newest.next(), "messages are numbered without gaps");
                newest = message.seq;
                match message.details.notice {
                    Some(notice) => did.notices.push(notice),
                    None => {
                        assert_eq!(message.details.provenance, entry().provenance);
                        did.prompt = message.status.as_str();
                    }
                }
            }
            Change::SetMessageStatus(_, status) => did.prompt = status.as_str(),
            Change::SetQueue(_, queue) => {
                did.auto_run = queue.auto_run;
                did.stored = queue.stored;
                did.revision_grew = queue.revision > before.queue.revision;
            }
            Change::EndTurn { outcome, .. } => did.outcome = *outcome,
            Change::DeleteEntries(_) | Change::SettleMessages(..) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
    did
}

fn ended(open: OpenTurn, how: TurnEnd) -> Did {
    let session = session(Some(open));
    let records = match open.prompt {
        TurnPrompt::Entries => TurnRecords { entries: vec![entry()], ..TurnRecords::default() },
        TurnPrompt::Message(id) => {
            let prompt =
                user_message(&session, open.id, &entry(), id, MessageStatus::Complete, NOW);
            TurnRecords { prompt: Some(prompt), ..TurnRecords::default() }
        }
    };
    did(&session, &end(&session, open, how, records, fresh()))
}

fn in_transcript(stop: Stop) -> OpenTurn {
    turn(TurnStage::Running, stop, TurnPrompt::Message(MessageId::from_uuid(uuid(30))))
}

#[test]
fn a_running_turn_ends_as_its_agent_says_and_parks_when_that_was_not_well() {
    use {AutoRunReason as Off, TurnOutcome as Out, TurnReason as Why};
    let cases = [
        (Out::Completed, None, "untouched", AutoRun::On, vec![]),
        (Out::Completed, Some(Why::CutShort), "untouched", AutoRun::On, vec![Notice::TurnCutShort]),
        (
            Out::Completed,
            Some(Why::Refused),
            "untouched",
            AutoRun::Off(Off::Refused),
            vec![Notice::TurnRefused],
        ),
        (
            Out::Failed,
            Some(Why::AgentExit),
            "failed",
            AutoRun::Off(Off::Failed),
            vec![Notice::TurnFailed],
        ),
        (Out::Cancelled, None, "untouched", AutoRun::On, vec![Notice::TurnCancelled]),
        (Out::Cancelled, Some(Why::Replaced), "untouched", AutoRun::On, vec![]),
        (
            Out::Interrupted,
            None,
            "interrupted",
            AutoRun::Off(Off::Interrupted),
            vec![Notice::TurnInterrupted],
        ),
    ];
    for (outcome, reason, prompt, auto_run, notices) in cases {
        let revision_grew = auto_run != AutoRun::On;
        assert_eq!(
            ended(in_transcript(Stop::NotAsked), how(outcome, reason)),
            Did { prompt, auto_run, stored: 2, outcome, notices, revision_grew },
            "{outcome} {reason:?}"
        );
    }
}

#[test]
fn a_turn_that_was_cancelled_is_cancelled_whatever_its_agent_answers() {
    for end in [
        how(TurnOutcome::Completed, None),
        how(TurnOutcome::Completed, Some(TurnReason::Refused)),
        how(TurnOutcome::Failed, Some(TurnReason::AgentExit)),
        how(TurnOutcome::Cancelled, None),
    ] {
        let did = ended(in_transcript(Stop::Asked), end);
        assert_eq!((did.outcome, did.auto_run), (TurnOutcome::Cancelled, AutoRun::On));
        assert_eq!(did.notices, [Notice::TurnCancelled]);
    }
}

#[test]
fn a_prompt_that_no_agent_can_have_goes_back_to_its_place() {
    let did = ended(
        in_queue(TurnStage::HandedOver, Stop::NotAsked),
        how(TurnOutcome::Failed, Some(TurnReason::StartFailed)),
    );
    assert_eq!(did.prompt, "back in the queue");
    assert_eq!((did.stored, did.auto_run), (2, AutoRun::Off(AutoRunReason::Failed)));
    assert_eq!(did.notices, [Notice::StartFailed]);
}

#[test]
fn a_prompt_whose_agent_lacks_what_it_asks_for_goes_back_to_its_place_with_the_reason() {
    for (reason, notice) in [
        (TurnReason::ModelUnavailable, Notice::ModelUnavailable),
        (TurnReason::PlanModeUnavailable, Notice::PlanModeUnavailable),
    ] {
        let failed = how(TurnOutcome::Failed, Some(reason));
        let did = ended(in_queue(TurnStage::Reserved, Stop::NotAsked), failed);
        assert_eq!(
            (did.prompt, did.stored, did.outcome),
            ("back in the queue", 2, TurnOutcome::Failed)
        );
        assert_eq!(
            (did.auto_run, did.notices),
            (AutoRun::Off(AutoRunReason::Failed), vec![notice])
        );
    }
}

#[test]
fn a_prompt_that_an_agent_may_have_goes_into_the_transcript_once() {
    let did = ended(
        in_queue(TurnStage::HandedOver, Stop::NotAsked),
        how(TurnOutcome::Failed, Some(TurnReason::AgentExit)),
    );
    assert_eq!((did.prompt, did.stored), ("failed", 1));
}

#[test]
fn recovery_puts_each_stage_where_it_belongs() {
    let recovered = |open: OpenTurn| {
        let session = session(Some(open));
        let records = match open.prompt {
            TurnPrompt::Entries => TurnRecords { entries: vec![entry()], ..TurnRecords::default() },
            TurnPrompt::Message(id) => TurnRecords {
                prompt: Some(user_message(
                    &session,
                    open.id,
                    &entry(),
                    id,
                    MessageStatus::Complete,
                    NOW,
                )),
                ..TurnRecords::default()
            },
        };
        did(&session, &recover(&session, open, records, fresh()))
    };
    assert_eq!(
        recovered(in_queue(TurnStage::Reserved, Stop::NotAsked)),
        Did {
            prompt: "back in the queue",
            auto_run: AutoRun::On,
            stored: 2,
            outcome: TurnOutcome::Interrupted,
            notices: vec![],
            revision_grew: true,
        }
    );
    assert_eq!(
        recovered(in_queue(TurnStage::HandedOver, Stop::Asked)),
        Did {
            prompt: "uncertain",
            auto_run: AutoRun::Off(AutoRunReason::UncertainTurn),
            stored: 1,
            outcome: TurnOutcome::Uncertain,
            notices: vec![Notice::TurnUncertain],
            revision_grew: true,
        }
    );
    assert_eq!(
        recovered(in_transcript(Stop::NotAsked)),
        Did {
            prompt: "interrupted",
            auto_run: AutoRun::Off(AutoRunReason::Interrupted),
            stored: 2,
            outcome: TurnOutcome::Interrupted,
            notices: vec![Notice::TurnInterrupted],
            revision_grew: true,
        }
    );
}

#[test]
fn auto_run_that_is_off_keeps_its_first_reason() {
    let open = in_transcript(Stop::NotAsked);
    let mut session = session(Some(open));
    session.queue.auto_run = AutoRun::Off(AutoRunReason::User);
    let decision =
        end(&session, open, how(TurnOutcome::Failed, None), TurnRecords::default(), fresh());
    assert_eq!(did(&session, &decision).auto_run, AutoRun::Off(AutoRunReason::User));
}

#[test]
fn a_cancel_parks_only_what_waits() {
    let parked = |open, waiting| {
        let session = session(Some(open));
        let decision = cancel(&session, None, waiting, NOW).unwrap();
        decision.changes.iter().any(
            |change| matches!(change, Change::SetQueue(_, queue) if queue.auto_run != AutoRun::On),
        )
    };
    assert!(!parked(in_transcript(Stop::NotAsked), 0));
    assert!(parked(in_transcript(Stop::NotAsked), 1));
    // The prompt itself is back in the queue, and waits.
    assert!(parked(in_queue(TurnStage::Reserved, Stop::NotAsked), 0));
}

#[test]
fn a_cancel_names_the_turn_it_means_and_does_not_overlap() {
    let open = in_transcript(Stop::NotAsked);
    let other = TurnId::from_uuid(uuid(99));
    assert_eq!(
        cancel(&session(Some(open)), Some(other), 0, NOW).unwrap_err(),
        CancelRefusal::TurnChanged { open: Some(open.id) }
    );
    assert_eq!(
        cancel(&session(None), Some(other), 0, NOW).unwrap_err(),
        CancelRefusal::TurnChanged { open: None }
    );
    assert_eq!(
        cancel(&session(Some(in_transcript(Stop::Asked))), None, 0, NOW).unwrap_err(),
        CancelRefusal::Conflict
    );
    assert_eq!(cancel(&session(None), None, 3, NOW).unwrap().reply, Cancelled::NothingRan);
}

#[test]
fn nothing_is_handed_over_after_a_stop() {
    let stopped = session(Some(in_queue(TurnStage::Reserved, Stop::Asked)));
    assert_eq!(hand_over(&stopped, TurnId::from_uuid(uuid(9))).unwrap_err(), NotOpen);
    let other = session(Some(in_queue(TurnStage::Reserved, Stop::NotAsked)));
    assert_eq!(hand_over(&other, TurnId::from_uuid(uuid(8))).unwrap_err(), NotOpen);
    assert!(hand_over(&other, TurnId::from_uuid(uuid(9))).is_ok());
}

#[test]
fn only_an_unsettled_prompt_of_a_promptable_session_can_be_resolved() {
    let idle = session(None);
    let prompt = |status| {
        let id = MessageId::from_uuid(uuid(30));
        Some(user_message(&idle, TurnId::from_uuid(uuid(9)), &entry(), id, status, NOW))
    };
    let new = TurnId::from_uuid(uuid(40));
    let resolved = |session: &Session, prompt, how| resolve(session, prompt, how, new, NOW);
    let gone = ResolveRefusal::TurnChanged { open: None };
    let complete = prompt(MessageStatus::Complete);
    assert_eq!(resolved(&idle, complete, Resolution::Resend).unwrap_err(), gone);
    assert_eq!(resolved(&idle, None, Resolution::Drop).unwrap_err(), gone);
    let busy = session(Some(in_transcript(Stop::NotAsked)));
    let failed = prompt(MessageStatus::Failed);
    assert_eq!(
        resolved(&busy, failed.clone(), Resolution::Drop).unwrap_err(),
        ResolveRefusal::Busy
    );
    for status in [MessageStatus::Failed, MessageStatus::Interrupted, MessageStatus::Uncertain] {
        let decision = resolved(&idle, prompt(status), Resolution::Resend).unwrap();
        assert!(
            !decision.changes.iter().any(|change| matches!(
                change,
                Change::InsertMessage(..) | Change::SetMessageStatus(..)
            )),
            "a prompt runs again on the same message, which says how it ended until then"
        );
    }
    let mut dropped = failed.unwrap();
    dropped.details.resolution = Some(Resolution::Drop);
    assert_eq!(resolved(&idle, Some(dropped), Resolution::Resend).unwrap_err(), gone);
}

#[test]
fn a_second_run_that_was_cancelled_before_it_began_can_be_asked_for_again() {
    let id = MessageId::from_uuid(uuid(30));
    let again = turn(TurnStage::Reserved, Stop::NotAsked, TurnPrompt::Message(id));
    let session = session(Some(again));
    let cancelled = cancel(&session, None, 0, NOW).unwrap();
    assert!(
        !cancelled.changes.iter().any(|change| matches!(change, Change::SetMessageStatus(..))),
        "the message stays failed, interrupted or uncertain"
    );
    let prompt = user_message(&session, again.id, &entry(), id, MessageStatus::Failed, NOW);
    let records = || TurnRecords { prompt: Some(prompt.clone()), ..TurnRecords::default() };
    let recovered = recover(&session, again, records(), fresh());
    assert_eq!(did(&session, &recovered).prompt, "untouched");
    // Once an agent has it, it is whole again.
    let handed = OpenTurn { stage: TurnStage::HandedOver, ..again };
    let accepted = accept(&session, handed, records(), id, NOW);
    assert!(accepted.changes.contains(&Change::SetMessageStatus(id, MessageStatus::Complete)));
}

#[test]
fn a_prompt_that_could_not_start_and_was_stopped_waits_and_is_not_started_again() {
    let failed = how(TurnOutcome::Failed, Some(TurnReason::StartFailed));
    let did = ended(in_queue(TurnStage::HandedOver, Stop::Asked), failed);
    assert_eq!(did.prompt, "back in the queue");
    assert_eq!(did.auto_run, AutoRun::Off(AutoRunReason::Cancelled));
}

fn replaced(outcome: TurnOutcome) -> Decision<()> {
    let next = TurnId::from_uuid(uuid(10));
    let open = in_transcript(Stop::Replaced(next));
    let records = TurnRecords { next: vec![entry()], ..TurnRecords::default() };
    end(&session(Some(open)), open, how(outcome, None), records, fresh())
}

#[test]
fn a_replaced_turn_is_followed_by_its_replacement_in_the_same_transaction() {
    for outcome in [TurnOutcome::Completed, TurnOutcome::Failed, TurnOutcome::Cancelled] {
        let decision = replaced(outcome);
        assert!(
            matches!(decision.changes[..], [
                Change::EndTurn {
                    outcome: TurnOutcome::Cancelled,
                    reason: Some(TurnReason::Replaced),
                    ..
                },
                Change::InsertTurn(_, OpenTurn { id, stage: TurnStage::Reserved, .. }),
            ] if id == TurnId::from_uuid(uuid(10))),
            "no message, no parking: {decision:?}"
        );
        assert!(!decision.events.iter().any(|(_, event)| *event == Event::MayStart));
    }
}

#[test]
fn a_replacement_that_a_crash_came_before_waits_again_and_is_parked() {
    let decision = replaced(TurnOutcome::Interrupted);
    let released = Change::ReleaseEntries(TurnId::from_uuid(uuid(10)));
    assert!(decision.changes.contains(&released));
    assert!(!decision.changes.iter().any(|change| matches!(change, Change::InsertTurn(..))));
    assert!(decision.changes.iter().any(|change| matches!(
        change,
        Change::SetQueue(_, queue) if queue.auto_run == AutoRun::Off(AutoRunReason::Interrupted)
    )));
}
