use usher_shared::id::{AdmissionId, EntryId};
use usher_shared::prompt::PromptText;
use usher_shared::rules::fingerprint::Fingerprint;
use usher_shared::vocabulary::AdmissionOutcome;

use super::*;
use crate::domain::admission::{self, AdmitRefusal, Fresh, Identified, Submission, Tail};
use crate::domain::enclosed::Enclosed;
use crate::domain::entry::Entry;
use crate::domain::fixtures::{NOW, entry, session, uuid};
use crate::domain::merge::{self, Bound, Overflow};
use crate::domain::session::SessionKey;

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

#[test]
fn an_admission_takes_along_what_waits_as_it_was_seen_and_nothing_else() {
    let entry = EntryId::from_uuid(uuid(41));
    let other = Comment { id: id(32), ..comment(1) };
    let refs = [seen(2), CommentRef { id: id(32), version: CommentVersion::new(1) }];
    let known = |first: Option<Comment>| vec![first, Some(other.clone())];
    assert_eq!(
        consume(known(Some(comment(2))), &refs, entry).unwrap(),
        [Change::ConsumeComment(id(31), entry), Change::ConsumeComment(id(32), entry)]
    );
    let consumed = Comment { consumed_by: Some(EntryId::from_uuid(uuid(42))), ..comment(2) };
    for first in [None, Some(comment(1)), Some(comment(3)), Some(consumed)] {
        let refused = consume(known(first.clone()), &refs, entry);
        assert_eq!(refused, Err(CommentConflict(id(31))), "{first:?}");
    }
}

fn submission(text: &str, comments: Vec<CommentRef>) -> Submission {
    let identified = Identified {
        id: AdmissionId::parse("k2").unwrap(),
        fingerprint: Fingerprint::from_bytes([0; 32]),
    };
    Submission {
        identified: Some(identified),
        content: PromptText::parse(text).unwrap(),
        model: None,
        plan_mode: false,
        offered: Vec::new(),
        enclosed: Enclosed { comments, ..Enclosed::default() },
        queued_by: entry().queued_by,
    }
}

#[test]
fn what_answers_comments_may_have_no_text_and_is_always_an_entry_of_its_own() {
    let session = session(None);
    let fresh = Fresh { entry_id: EntryId::from_uuid(uuid(41)), now: NOW };
    let tail = Tail { entry: entry(), newest: None };
    let admit = |text, refs: Vec<CommentRef>| {
        let known = refs.iter().map(|_| Some(comment(1))).collect();
        admission::admit(&session, submission(text, refs), &[], known, Some(&tail), 0, fresh)
    };
    assert_eq!(admit(" ", Vec::new()).map(drop), Err(AdmitRefusal::Blank));
    assert_eq!(admit("x", Vec::new()).unwrap().reply.outcome, AdmissionOutcome::Folded);
    let admitted = admit(" ", vec![seen(1)]).unwrap();
    assert_eq!(admitted.reply.outcome, AdmissionOutcome::Admitted);
    assert_eq!(admitted.reply.entry.enclosed.comments, [seen(1)]);
    assert!(admitted.changes.contains(&Change::ConsumeComment(id(31), fresh.entry_id)));
    assert!(admitted.events.contains(&(session.id, Event::PlanChanged)));
    let stale = admit("x", vec![seen(2)]).map(drop);
    assert_eq!(stale, Err(AdmitRefusal::Comment(CommentConflict(id(31)))));

    let answers = Entry { enclosed: admitted.reply.entry.enclosed, ..entry() };
    for (one, other) in [(&answers, &entry()), (&entry(), &answers)] {
        assert!(!merge::may_join(one, other));
        assert_eq!(merge::join(one, other), Err(Overflow(Bound::PlanComments)));
    }
}

#[test]
fn a_next_life_and_a_transfer_tell_those_who_saw_the_plan() {
    let from = session(None);
    let to = Session { key: SessionKey(2), ..session(None) };
    let forgotten = forget(&from);
    assert_eq!(forgotten.changes, [Change::ForgetPlan(from.key)]);
    let moved = transfer(&from, &to);
    assert_eq!(moved.changes, [Change::TransferComments { from: from.key, to: to.key }]);
    for told in [forgotten.events, moved.events] {
        assert_eq!(told, [(from.id, Event::PlanChanged)]);
    }
}
