use usher_shared::id::{AdmissionId, TaskId};
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::SenderKind;

use super::super::fixtures::{entry, uuid};
use super::*;

fn text(content: &str) -> Entry {
    Entry { content: Arc::from(content), ..entry() }
}

fn ids(range: std::ops::Range<usize>) -> Vec<AdmissionId> {
    range.map(|n| AdmissionId::parse(&format!("k{n}")).unwrap()).collect()
}

fn from(range: std::ops::Range<usize>) -> Entry {
    let provenance = Provenance { admission_ids: ids(range), past: Vec::new() };
    Entry { provenance, ..entry() }
}

fn sender(kind: SenderKind, id: &str, task: Option<u128>) -> Sender {
    let task = task.map(|n| TaskId::from_uuid(uuid(n)));
    Sender { kind, id: id.to_owned(), name: "anybody".to_owned(), task }
}

#[test]
fn c026_texts_are_joined_by_one_blank_line_and_kept_byte_for_byte() {
    let cases = [
        ("", "B", "B"),
        ("A", "", "A"),
        ("", "", ""),
        ("A\r\n", "\n\nB", "A\r\n\n\n\n\nB"),
        ("```\ncode", "plain", "```\ncode\n\nplain"),
        ("A", "    indented", "A\n\n    indented"),
        ("A\u{3000}", "B", "A\u{3000}\n\nB"),
        (" ", " ", " \n\n "),
    ];
    for (above, below, joined) in cases {
        assert_eq!(
            &*join(&text(above), &text(below)).unwrap().content,
            joined,
            "{above:?} {below:?}"
        );
    }
}

#[test]
fn the_earlier_entry_survives_with_the_later_time() {
    let target = Entry { queued_at: UnixMillis::new(10), ..from(0..2) };
    let source = Entry {
        id: usher_shared::id::EntryId::from_uuid(uuid(70)),
        queued_at: UnixMillis::new(20),
        model: Some("other".to_owned()),
        plan_mode: true,
        ..from(1..4)
    };
    let joined = join(&target, &source).unwrap();
    let expected = Entry {
        content: Arc::from("do it\n\ndo it"),
        provenance: Provenance { admission_ids: ids(0..4), past: Vec::new() },
        queued_at: UnixMillis::new(20),
        revision: target.revision.next(),
        ..target
    };
    assert_eq!(joined, expected);
}

#[test]
fn only_what_runs_alike_and_comes_from_one_sender_folds() {
    let tail = entry();
    assert!(may_fold(&tail, &entry()));
    let reserved_for = Some(usher_shared::id::TurnId::from_uuid(uuid(1)));
    assert!(!may_fold(&Entry { reserved_for, ..entry() }, &tail));
    for other in [
        Entry { model: Some("m".to_owned()), ..entry() },
        Entry { plan_mode: true, ..entry() },
        Entry { queued_by: sender(SenderKind::User, "other", None), ..entry() },
        Entry { queued_by: sender(SenderKind::Agent, "u", Some(1)), ..entry() },
    ] {
        assert!(!may_fold(&tail, &other), "{other:?}");
    }
}

#[test]
fn agents_are_one_sender_if_they_work_for_the_same_task() {
    let agent = |id, task| sender(SenderKind::Agent, id, task);
    assert!(same_sender(&agent("a", Some(1)), &agent("b", Some(1))));
    assert!(!same_sender(&agent("a", Some(1)), &agent("a", Some(2))));
    assert!(!same_sender(&agent("a", None), &agent("a", None)));
    for kind in [SenderKind::Workflow, SenderKind::Server] {
        assert!(!same_sender(&sender(kind, "x", Some(1)), &sender(kind, "x", Some(1))));
    }
}

#[test]
fn c025_a_bound_that_would_break_is_named_and_exact() {
    let half = "x".repeat(CONTENT_BYTES_MAX / 2);
    let fits = text(&half[..half.len() - BLANK_LINE.len()]);
    assert_eq!(join(&text(&half), &fits).unwrap().content.len(), CONTENT_BYTES_MAX);
    assert_eq!(join(&text(&half), &text(&half)), Err(Overflow(Bound::Content)));
    assert!(join(&from(0..200), &from(200..ADMISSION_IDS_MAX)).is_ok());
    let one_more = join(&from(0..200), &from(200..ADMISSION_IDS_MAX + 1));
    assert_eq!(one_more, Err(Overflow(Bound::AdmissionIds)));
    assert!(join(&from(0..ADMISSION_IDS_MAX), &from(1..3)).is_ok(), "the same IDs count once");
    assert_eq!(join_all(&[]), Ok(None));
}
