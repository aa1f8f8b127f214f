use usher_shared::id::EntryId;

use super::*;
use crate::domain::fixtures::{session, uuid};

fn step(text: &str) -> PlanEntry {
    PlanEntry { text: text.to_owned(), status: PlanStatus::Pending }
}

fn plan(texts: &[&str]) -> Plan {
    let entries = texts.iter().map(|text| step(text)).collect();
    Plan { id: PlanId::from_uuid(uuid(21)), entries }
}

fn id(n: u128) -> PlanCommentId {
    PlanCommentId::from_uuid(uuid(n))
}

fn new(entry_index: Option<u64>) -> NewComment {
    NewComment { entry_index, selected_text: Some("s".to_owned()), body: "b".to_owned() }
}

fn comment(version: u64) -> Comment {
    Comment {
        id: id(31),
        version: CommentVersion::new(version),
        subject: Subject {
            entry_index: Some(1),
            entry_text: Some("B".to_owned()),
            selected_text: Some("s".to_owned()),
        },
        body: "b".to_owned(),
        consumed_by: None,
    }
}

fn seen(version: u64) -> CommentRef {
    CommentRef { id: id(31), version: CommentVersion::new(version) }
}

#[test]
fn a_plan_beyond_its_bounds_is_cut_at_a_step_and_at_a_character() {
    let long = "é".repeat(PLAN_ENTRY_BYTES_MAX);
    let steps = bounded(vec![step(&format!("x{long}")); PLAN_ENTRIES_MAX + 1]);
    assert_eq!(steps.len(), PLAN_ENTRIES_MAX);
    assert_eq!(steps[0].text.len(), PLAN_ENTRY_BYTES_MAX - 1);
    assert_eq!(bounded(vec![step("A")]), [step("A")]);
}

#[test]
fn the_same_plan_again_changes_nothing_and_tells_nobody() {
    let session = session(None);
    let first = publish(&session, None, plan(&["A"]));
    assert_eq!(first.changes, [Change::PutPlan(session.key, Box::new(plan(&["A"])))]);
    assert_eq!(first.events, [(session.id, Event::PlanChanged)]);
    let again = publish(&session, Some(&plan(&["A"])), plan(&["A"]));
    assert!(again.changes.is_empty() && again.events.is_empty());
    assert!(!publish(&session, Some(&plan(&["A"])), plan(&["B"])).changes.is_empty());
}

#[test]
fn a_comment_keeps_the_text_of_the_step_it_is_about() {
    let session = session(None);
    let plan = plan(&["A", "B"]);
    let made = add(&session, Some(&plan), 0, new(Some(1)), id(31)).unwrap();
    assert_eq!(made.reply, comment(1));
    let stored = Box::new(comment(1));
    let insert = Change::InsertComment(session.key, session.incarnation_key, stored);
    assert_eq!(made.changes, [insert]);
    assert_eq!(made.events, [(session.id, Event::PlanChanged)]);
    let whole = add(&session, Some(&plan), 0, new(None), id(31)).unwrap().reply.subject;
    assert_eq!((whole.entry_index, whole.entry_text), (None, None));
}

#[test]
fn a_comment_needs_a_plan_a_step_of_it_and_room() {
    let session = session(None);
    let refused = |plan: Option<&Plan>, waiting: usize, index| {
        add(&session, plan, waiting as u64, new(index), id(31)).unwrap_err()
    };
    let plan = plan(&["A"]);
    assert_eq!(refused(None, 0, None), CommentRefusal::NoPlan);
    assert_eq!(refused(Some(&plan), 0, Some(1)), CommentRefusal::NoSuchEntry);
    assert_eq!(refused(Some(&plan), 0, Some(u64::MAX)), CommentRefusal::NoSuchEntry);
    assert_eq!(refused(Some(&plan), PLAN_COMMENTS_MAX, None), CommentRefusal::TooMany);
    assert!(add(&session, Some(&plan), PLAN_COMMENTS_MAX as u64 - 1, new(None), id(31)).is_ok());
}

#[test]
fn an_update_makes_the_next_version_and_leaves_what_it_is_about() {
    let session = session(None);
    let updated = update(&session, Some(comment(1)), seen(1), "c".to_owned()).unwrap();
    let expected = Comment { body: "c".to_owned(), ..comment(2) };
    assert_eq!(updated.reply, expected);
    assert_eq!(updated.changes, [Change::RewriteComment(Box::new(expected))]);
    assert_eq!(updated.events, [(session.id, Event::PlanChanged)]);
}

#[test]
fn what_was_changed_or_consumed_is_left_alone() {
    let session = session(None);
    let consumed = Comment { consumed_by: Some(EntryId::from_uuid(uuid(41))), ..comment(2) };
    let conflict = CommentRefusal::Conflict(CommentConflict(id(31)));
    for (known, seen, expected) in [
        (None, seen(1), CommentRefusal::NotFound),
        (Some(comment(2)), seen(1), conflict),
        (Some(comment(2)), seen(3), conflict),
        (Some(consumed), seen(2), conflict),
    ] {
        let updated = update(&session, known.clone(), seen, "c".to_owned());
        assert_eq!(updated.map(drop).unwrap_err(), expected);
        assert_eq!(remove(&session, known, seen).map(drop).unwrap_err(), expected);
    }
    let removed = remove(&session, Some(comment(2)), seen(2)).unwrap();
    assert_eq!(removed.changes, [Change::DeleteComment(id(31))]);
    assert_eq!(removed.events, [(session.id, Event::PlanChanged)]);
}
