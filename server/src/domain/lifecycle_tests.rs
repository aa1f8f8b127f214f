use usher_shared::vocabulary::{AutoRunReason, TaskKind};

use super::super::fixtures::{NOW, entry, session, uuid};
use super::super::session::{Caller, OpenTurn, Stop, TurnPrompt};
use super::*;

fn turn(stage: TurnStage, stop: Stop) -> OpenTurn {
    let id = TurnId::from_uuid(uuid(9));
    OpenTurn { id, stage, stop, prompt: TurnPrompt::Entries, started_at: NOW }
}

fn task(archived: bool) -> Task {
    let session = session(None);
    Task {
        key: TaskKey(1),
        id: session.task_id,
        owner: Caller { id: session.owner, name: "anna".to_owned() },
        title: "t".to_owned(),
        kind: TaskKind::Task,
        workspace_dir: None,
        agent: "demo".to_owned(),
        archived,
        queued_count: 2,
        created_at: NOW,
    }
}

fn fresh() -> Fresh {
    Fresh {
        incarnation_id: IncarnationId::from_uuid(uuid(30)),
        notice_id: MessageId::from_uuid(uuid(31)),
        now: NOW,
    }
}

#[test]
fn archiving_gives_a_reserved_prompt_back_and_parks_nothing() {
    let reserved = session(Some(turn(TurnStage::Reserved, Stop::NotAsked)));
    let decision = archive(&task(false), std::slice::from_ref(&reserved), NOW);
    assert_eq!(decision.reply, []);
    let turn_id = TurnId::from_uuid(uuid(9));
    assert!(decision.changes.contains(&Change::ReleaseEntries(turn_id)));
    let queue = reserved.queue.changed();
    assert!(decision.changes.contains(&Change::SetQueue(reserved.key, queue)));
}

#[test]
fn a_running_turn_is_stopped_once_and_waited_for_until_it_is_gone() {
    let running = session(Some(turn(TurnStage::Running, Stop::NotAsked)));
    let stopping = vec![Stopping { session_id: running.id, turn_id: TurnId::from_uuid(uuid(9)) }];
    let asked = turn(TurnStage::Running, Stop::Asked);

    let first = delete_session(&running, NOW);
    assert_eq!(first.reply, stopping);
    let hidden = vec![Change::SetTurn(asked), Change::HideSession(running.key, NOW)];
    assert_eq!(first.changes, hidden);

    let gone = Session { standing: Standing::Gone, turn: Some(asked), ..running.clone() };
    let again = delete_session(&gone, NOW);
    assert_eq!((again.reply, again.changes), (stopping, Vec::new()));

    let over = Session { turn: None, ..gone };
    let last = delete_session(&over, NOW);
    assert_eq!((last.reply, last.changes), (Vec::new(), vec![Change::PurgeSession(over.key)]));
    let task_changed = Event::TaskChanged(over.task_id);
    assert_eq!(last.events, [(over.id, Event::Deleted), (over.id, task_changed)]);
}

#[test]
fn a_task_is_purged_with_all_its_sessions_or_hidden_with_all() {
    let idle = session(None);
    let running = session(Some(turn(TurnStage::HandedOver, Stop::NotAsked)));
    let task = task(false);
    let gone = (no_session(), Event::TaskGone(task.id, task.owner.id));
    let hidden = delete_task(&task, &[idle.clone(), running.clone()], NOW);
    assert!(hidden.changes.contains(&Change::HideTask(task.key, NOW)));
    assert!(!hidden.changes.contains(&Change::PurgeSession(idle.key)));
    assert_eq!(hidden.events.last(), Some(&gone));
    // Also if nobody sees its sessions already.
    let running = Session { standing: Standing::Gone, ..running };
    let hidden = delete_task(&task, std::slice::from_ref(&running), NOW);
    assert!(hidden.changes.contains(&Change::HideTask(task.key, NOW)));
    let again = go_on_deleting_task(task.key, &[running], NOW);
    assert!(!again.changes.contains(&Change::HideTask(task.key, NOW)));
    assert!(!again.events.contains(&gone));
    let purged = delete_task(&task, std::slice::from_ref(&idle), NOW);
    assert_eq!(purged.changes, [Change::PurgeSession(idle.key), Change::PurgeTask(task.key)]);
    assert_eq!(purged.events, [(idle.id, Event::Deleted), gone]);
}

#[test]
fn a_task_without_sessions_tells_that_it_is_archived_too() {
    let (open, archived) = (task(false), task(true));
    let changed = [(no_session(), Event::TaskChanged(open.id))];
    assert_eq!(archive(&open, &[], NOW).events, changed);
    assert_eq!(unarchive(&archived, &[]).events, changed);
    assert_eq!(archive(&archived, &[], NOW).events, []);
}

#[test]
fn unarchive_starts_only_what_was_on() {
    let on = session(None);
    let mut off = session(None);
    off.queue.auto_run = AutoRun::Off(AutoRunReason::User);
    let decision = unarchive(&task(true), &[on.clone(), off]);
    let starts = decision.events.iter().filter(|(_, event)| *event == Event::MayStart).count();
    assert_eq!((decision.changes, starts), (vec![Change::UnarchiveTask(TaskKey(1))], 1));
    assert!(unarchive(&task(false), &[on]).changes.is_empty());
}

#[test]
fn a_reset_retires_what_proved_an_admission() {
    let waiting = entry();
    let session = session(None);
    let visible = || vec![(waiting.id, waiting.provenance.clone())];
    let kept = reset(&session, visible(), OnReset::KeepQueue, fresh()).unwrap();
    let retired =
        Provenance { admission_ids: Vec::new(), past: waiting.provenance.admission_ids.clone() };
    assert!(kept.changes.contains(&Change::SetProvenance(waiting.id, Box::new(retired))));
    assert!(kept.changes.contains(&Change::SetQueue(session.key, session.queue.changed())));
    let cleared = reset(&session, visible(), OnReset::ClearQueue, fresh()).unwrap();
    let left = QueueHead { stored: session.queue.stored - 1, ..session.queue.changed() };
    assert!(cleared.changes.contains(&Change::SetQueue(session.key, left)));
    assert!(cleared.changes.contains(&Change::ForgetWaiting(session.key)));
}
