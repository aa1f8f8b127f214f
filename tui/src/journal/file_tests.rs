//! The journal file, with several owners in one process: locks belong to open files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rusqlite::Connection;
use usher_shared::client::{
    IdOrigin, Input, JournalOrder, JournalRow, JournalStage, Journaled, LeftRow, Receipts,
};
use usher_shared::error::ErrorCode;
use usher_shared::id::{AdmissionId, SessionId, StoreId, UserId};
use usher_shared::time::UnixMillis;
use uuid::Uuid;

use super::file::{Draft, JournalAnswer, JournalError, JournalFile, JournalJob};

const NOON: i64 = 1_796_047_320_000;

fn store(number: u128) -> StoreId {
    StoreId::from_uuid(Uuid::from_u128(number))
}

fn user(number: u128) -> UserId {
    UserId::from_uuid(Uuid::from_u128(number))
}

fn id(text: &str) -> AdmissionId {
    AdmissionId::parse(text).unwrap()
}

fn row(name: &str, stage: JournalStage) -> JournalRow {
    JournalRow {
        admission_id: id(name),
        id_origin: IdOrigin::Given,
        store_id: store(1),
        user_id: user(1),
        receipts: Receipts::Announced,
        payload: serde_json::value::to_raw_value(&format!("the text of {name}")).unwrap(),
        stage,
    }
}

fn keep(name: &str, stage: JournalStage) -> JournalJob {
    JournalJob::Order(JournalOrder::Keep(Box::new(row(name, stage))))
}

fn mark(name: &str, stage: JournalStage) -> JournalJob {
    JournalJob::Order(JournalOrder::Mark(id(name), stage, Receipts::Missing))
}

fn drop_row(name: &str) -> JournalJob {
    JournalJob::Order(JournalOrder::Drop(id(name)))
}

fn draft(session: u128, text: &str) -> Draft {
    let session_id = SessionId::from_uuid(Uuid::from_u128(session));
    Draft { store_id: store(1), user_id: user(1), session_id, text: text.to_owned() }
}

fn open(folder: &Path) -> JournalFile {
    JournalFile::open(folder).unwrap()
}

fn input_of(answer: JournalAnswer) -> Input {
    match answer {
        JournalAnswer::Input(input) => *input,
        JournalAnswer::Drafts(drafts) => panic!("{drafts:?}"),
    }
}

/// Does jobs, and returns what became of the rows.
fn apply(file: &mut JournalFile, jobs: &[JournalJob]) -> Vec<(String, Journaled)> {
    let answers = file.apply(jobs, UnixMillis::new(NOON)).unwrap();
    let outcomes = answers.into_iter().map(|answer| match input_of(answer) {
        Input::Journaled { id, outcome } => (id.to_string(), outcome),
        other => panic!("{other:?}"),
    });
    outcomes.collect()
}

fn adopt_from(file: &mut JournalFile, store_id: StoreId, user_id: UserId) -> Vec<LeftRow> {
    let order = JournalOrder::Adopt { store_id, user_id, rows_max: 10 };
    let now = UnixMillis::new(NOON + 5_000);
    let mut answers = file.apply(&[JournalJob::Order(order)], now).unwrap();
    match input_of(answers.pop().unwrap()) {
        Input::Adopted(rows) => rows,
        other => panic!("{other:?}"),
    }
}

fn adopt(file: &mut JournalFile) -> Vec<(String, JournalStage)> {
    let rows = adopt_from(file, store(1), user(1)).into_iter();
    rows.map(|left| (left.row.admission_id.to_string(), left.row.stage)).collect()
}

fn take_drafts(file: &mut JournalFile) -> Vec<Draft> {
    let job = JournalJob::TakeDrafts { store_id: store(1), user_id: user(1) };
    match file.apply(&[job], UnixMillis::new(NOON)).unwrap().pop() {
        Some(JournalAnswer::Drafts(drafts)) => drafts,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_heir_gets_what_a_dead_client_left_in_order_and_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = open(folder.path());
    let outcomes = apply(
        &mut first,
        &[
            keep("a", JournalStage::Unsent),
            keep("b", JournalStage::Unsent),
            keep("c", JournalStage::Sent),
            keep("d", JournalStage::Sent),
            mark("b", JournalStage::Sent),
            mark("c", JournalStage::Refused(ErrorCode::QueueFull)),
            drop_row("d"),
        ],
    );
    let on_disk = |name: &str| (name.to_owned(), Journaled::OnDisk);
    assert_eq!(outcomes, ["a", "b", "c", "d", "b"].map(on_disk));
    drop(first);
    let left = adopt_from(&mut open(folder.path()), store(1), user(1));
    let stages: Vec<_> =
        left.iter().map(|left| (left.row.admission_id.as_str(), left.row.stage)).collect();
    let refused = JournalStage::Refused(ErrorCode::QueueFull);
    assert_eq!(stages, [("a", JournalStage::Unsent), ("b", JournalStage::Sent), ("c", refused)]);
    let [a, b, _] = left.as_slice() else { panic!("{left:?}") };
    assert_eq!(a.row.payload.get(), r#""the text of a""#);
    assert_eq!((a.age_ms, a.row.id_origin), (5_000, IdOrigin::Given));
    assert_eq!((a.row.receipts, b.row.receipts), (Receipts::Announced, Receipts::Missing));
}

#[test]
fn nobody_inherits_from_the_living_and_only_one_from_the_dead() {
    let folder = tempfile::tempdir().unwrap();
    let mut living = open(folder.path());
    apply(&mut living, &[keep("a", JournalStage::Sent)]);
    let (mut one, mut other) = (open(folder.path()), open(folder.path()));
    assert_eq!(adopt(&mut one), []);
    drop(living);
    assert_eq!(adopt(&mut one), [("a".to_owned(), JournalStage::Sent)]);
    assert_eq!(adopt(&mut other), []);
    drop(one);
    assert_eq!(adopt(&mut other).len(), 1, "an heir can leave it to the next");
}

#[test]
fn rows_of_another_database_or_user_wait_for_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = open(folder.path());
    apply(&mut first, &[keep("a", JournalStage::Sent)]);
    drop(first);
    let mut heir = open(folder.path());
    assert_eq!(adopt_from(&mut heir, store(2), user(1)).len(), 0);
    assert_eq!(adopt_from(&mut heir, store(1), user(2)).len(), 0);
    assert_eq!(adopt_from(&mut heir, store(1), user(1)).len(), 1);
}

#[test]
fn an_heir_takes_no_more_than_it_asked_for_and_none_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = open(folder.path());
    let names: Vec<String> = (0..12).map(|number| format!("k{number}")).collect();
    let jobs: Vec<_> = names.iter().map(|name| keep(name, JournalStage::Sent)).collect();
    apply(&mut first, &jobs);
    drop(first);
    let mut heir = open(folder.path());
    assert_eq!(adopt(&mut heir).len(), 10);
    assert_eq!(adopt(&mut heir).len(), 2);
    assert_eq!(adopt(&mut heir).len(), 0);
}

#[test]
fn an_id_that_is_here_already_stays_with_the_dead() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = open(folder.path());
    apply(&mut first, &[keep("a", JournalStage::Sent)]);
    drop(first);
    let mut heir = open(folder.path());
    apply(&mut heir, &[keep("a", JournalStage::Unsent)]);
    assert_eq!(adopt(&mut heir), []);
    apply(&mut heir, &[drop_row("a")]);
    assert_eq!(adopt(&mut heir), [("a".to_owned(), JournalStage::Sent)]);
}

#[test]
fn drafts_are_kept_per_session_and_inherited_together() {
    let folder = tempfile::tempdir().unwrap();
    let texts = [("x", "y"), ("z", ""), ("x", "later")];
    for ((first_text, second_text), at) in texts.into_iter().zip(NOON..) {
        let mut client = open(folder.path());
        let put = |text: &str, session| JournalJob::PutDraft(draft(session, text));
        let jobs = [put("typing", 1), put(first_text, 1), put(second_text, 2)];
        client.apply(&jobs, UnixMillis::new(at)).unwrap();
    }
    let mut heir = open(folder.path());
    assert_eq!(take_drafts(&mut heir), [draft(1, "x\n\nz"), draft(2, "y\n\nlater")]);
    assert_eq!(take_drafts(&mut heir), []);
    drop(heir);
    let mut next = open(folder.path());
    assert_eq!(take_drafts(&mut next), [draft(1, "x\n\nz"), draft(2, "y\n\nlater")]);
}

#[test]
fn everything_is_private_and_a_client_without_rows_leaves_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("journal");
    let mut client = open(&root);
    apply(&mut client, &[keep("a", JournalStage::Sent)]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&root), 0o700);
    let files = fs::read_dir(&root).unwrap().chain(fs::read_dir(root.join("owners")).unwrap());
    for file in files.map(|file| file.unwrap().path()) {
        let expected = if file.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&file), expected, "{}", file.display());
    }
    let locks = || fs::read_dir(root.join("owners")).unwrap().count();
    drop(client);
    assert_eq!(locks(), 1, "its row belongs to somebody");
    let mut heir = open(&root);
    adopt(&mut heir);
    assert_eq!(locks(), 1, "the dead one's is gone with its row");
    apply(&mut heir, &[drop_row("a")]);
    drop(heir);
    drop(open(&root));
    assert_eq!(locks(), 0);
}

#[test]
fn a_file_of_a_later_version_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let path = folder.path().join("journal.db");
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 2).unwrap();
    drop(connection);
    let refused = JournalFile::open(folder.path());
    assert!(matches!(refused, Err(JournalError::Newer(2))), "{refused:?}");
    assert!(path.exists());
}

#[test]
fn what_is_no_database_is_put_aside_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = "this was no journal ".repeat(100);
    fs::write(folder.path().join("journal.db"), &garbage).unwrap();
    let mut client = open(folder.path());
    apply(&mut client, &[keep("a", JournalStage::Sent)]);
    let names = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    let aside = names.filter(|path| path.to_string_lossy().contains("damaged"));
    let aside: Vec<_> = aside.collect();
    assert_eq!(aside.len(), 1);
    assert_eq!(fs::read_to_string(&aside[0]).unwrap(), garbage);
}

#[test]
fn a_row_that_cannot_be_read_harms_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = open(folder.path());
    apply(&mut first, &[keep("a", JournalStage::Sent), keep("b", JournalStage::Sent)]);
    drop(first);
    let connection = Connection::open(folder.path().join("journal.db")).unwrap();
    let broken = "UPDATE sends SET payload = '{' WHERE admission_id = 'a'";
    assert_eq!(connection.execute(broken, []).unwrap(), 1);
    drop(connection);
    assert_eq!(adopt(&mut open(folder.path())), [("b".to_owned(), JournalStage::Sent)]);
}

/// Adds so many prompts of somebody else.
fn fill(folder: &Path, count: u32) {
    let connection = Connection::open(folder.join("journal.db")).unwrap();
    let sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
        INSERT INTO sends (owner, admission_id, id_given, store_id, user_id, has_receipts, stage,
            payload, added_at)
        SELECT x'00', i, 0, x'00', x'00', 0, 'sent', '', 0 FROM n";
    connection.execute(sql, [count]).unwrap();
}

#[test]
fn what_is_over_the_bounds_is_refused_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = open(folder.path());
    apply(&mut client, &[keep("a", JournalStage::Sent)]);
    fill(folder.path(), 4_094);
    let jobs = [
        keep("b", JournalStage::Sent),
        keep("c", JournalStage::Sent),
        mark("a", JournalStage::Sent),
    ];
    let expected = [
        ("b".to_owned(), Journaled::OnDisk),
        ("c".to_owned(), Journaled::Failed),
        ("a".to_owned(), Journaled::OnDisk),
    ];
    assert_eq!(apply(&mut client, &jobs), expected);
}

#[test]
fn a_full_journal_keeps_older_drafts_and_hands_on_those_of_the_dead() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = open(folder.path());
    apply(&mut first, &[JournalJob::PutDraft(draft(1, "older"))]);
    fill(folder.path(), 4_096);
    apply(&mut first, &[JournalJob::PutDraft(draft(1, "newer"))]);
    drop(first);
    assert_eq!(take_drafts(&mut open(folder.path())), [draft(1, "older")]);
}

#[test]
fn a_mark_without_its_row_is_not_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = open(folder.path());
    let outcomes = apply(&mut client, &[mark("a", JournalStage::Sent)]);
    assert_eq!(outcomes, [("a".to_owned(), Journaled::Failed)]);
}

#[test]
fn a_clock_that_ran_backwards_makes_a_row_old() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = open(folder.path());
    first.apply(&[keep("a", JournalStage::Unsent)], UnixMillis::new(NOON + 9_000)).unwrap();
    drop(first);
    let left = adopt_from(&mut open(folder.path()), store(1), user(1));
    assert_eq!(left[0].age_ms, u64::MAX);
}
