use usher_shared::vocabulary::{AutoRunReason, TurnOutcome};

use super::super::fixtures::{NOW, entry, session, uuid};
use super::super::session::AutoRun;
use super::*;

const ALL: SendNow = SendNow {
    scope: Scope::All,
    expected_turn: None,
    expected_revision: None,
    resume: Resume::Yes,
};

fn turn_id(n: u128) -> TurnId {
    TurnId::from_uuid(uuid(n))
}

fn open(stage: TurnStage, stop: Stop) -> Session {
    let prompt = TurnPrompt::Entries;
    session(Some(OpenTurn { id: turn_id(9), stage, stop, prompt, started_at: NOW }))
}

fn claimed(session: &Session, ask: &SendNow) -> Result<Decision<u64>, SendNowRefusal> {
    claim(session, ask, &[entry()], turn_id(10), NOW)
}

#[test]
fn an_idle_session_starts_what_was_claimed_at_once() {
    let decision = claimed(&session(None), &ALL).unwrap();
    assert!(matches!(decision.changes[..], [
        Change::ReserveEntry(_, by),
        Change::SetQueue(..),
        Change::InsertTurn(_, OpenTurn { id, stage: TurnStage::Reserved, .. }),
    ] if by == turn_id(10) && id == by));
}

#[test]
fn a_turn_that_the_agent_may_know_of_is_stopped_first() {
    for stage in [TurnStage::HandedOver, TurnStage::Running] {
        let decision = claimed(&open(stage, Stop::NotAsked), &ALL).unwrap();
        assert!(matches!(decision.changes[..], [
            Change::ReserveEntry(..),
            Change::SetQueue(..),
            Change::SetTurn(OpenTurn { stop: Stop::Replaced(by), .. }),
        ] if by == turn_id(10)));
    }
}

#[test]
fn a_turn_that_no_agent_knows_of_gives_its_entry_back_and_its_place_up() {
    let decision = claimed(&open(TurnStage::Reserved, Stop::NotAsked), &ALL).unwrap();
    assert!(matches!(decision.changes[2..], [
        Change::ReleaseEntries(old),
        Change::EndTurn { turn_id: ended, outcome: TurnOutcome::Cancelled, .. },
        Change::InsertTurn(..),
    ] if old == turn_id(9) && ended == old));
}

#[test]
fn overlapping_stops_are_refused_and_so_is_another_turn_or_queue() {
    for stop in [Stop::Asked, Stop::Replaced(turn_id(11))] {
        let refused = claimed(&open(TurnStage::Running, stop), &ALL).unwrap_err();
        assert_eq!(refused, SendNowRefusal::Conflict);
    }
    let named = SendNow { expected_turn: Some(turn_id(8)), ..ALL };
    let refused = claimed(&open(TurnStage::Running, Stop::NotAsked), &named).unwrap_err();
    assert_eq!(refused, SendNowRefusal::TurnChanged { open: Some(turn_id(9)) });
    let refused = claimed(&session(None), &named).unwrap_err();
    assert_eq!(refused, SendNowRefusal::TurnChanged { open: None });
    let old = SendNow { expected_revision: Some(QueueRevision::new(4)), ..ALL };
    let revision = QueueRevision::new(5);
    let refused = claimed(&session(None), &old).unwrap_err();
    assert_eq!(refused, SendNowRefusal::QueueChanged(QueueChanged { revision }));
}

#[test]
fn auto_run_is_switched_on_only_if_asked() {
    for (resume, expected) in
        [(Resume::Yes, AutoRun::On), (Resume::No, AutoRun::Off(AutoRunReason::User))]
    {
        let mut session = session(None);
        session.queue.auto_run = AutoRun::Off(AutoRunReason::User);
        let decision = claimed(&session, &SendNow { resume, ..ALL }).unwrap();
        let [_, Change::SetQueue(_, queue), ..] = &decision.changes[..] else {
            panic!("the queue is set: {decision:?}");
        };
        assert_eq!((queue.auto_run, queue.revision), (expected, QueueRevision::new(6)));
    }
}
