//! What every store must keep to, driver by driver.

use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use tempfile::TempDir;
use usher_shared::counter::{MessageSeq, Position};
use usher_shared::id::{
    AdmissionId, EntryId, IncarnationId, MessageId, SessionId, TaskId, TurnId, UserId,
};
use usher_shared::limits::{MESSAGE_CONTENT_BYTES_MAX, SNAPSHOT_BYTES_MAX};
use usher_shared::prompt::{PromptText, cut_at_char};
use usher_shared::rules::fingerprint::Fingerprint;
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::{AdmissionOutcome, MessageStatus, Role, SenderKind, TaskKind};
use uuid::Uuid;

use super::reads_search::PIECE_BYTES;
use super::throwaway::Database;
use super::{
    DatabaseUrl, EventSink, Hit, PageBounds, Reads, SearchPiece, SearchPlace, Store, StoreError,
    StoreFiles, Sync, TextFound, TextRange, TransactError,
};
use crate::domain::admission::{self, Admitted, Fresh, Identified, Named, Submission};
use crate::domain::change::{NewSession, NewTask};
use crate::domain::enclosed::Enclosed;
use crate::domain::entry::Sender;
use crate::domain::message::{Message, MessageDetails};
use crate::domain::search::Needle;
use crate::domain::session::{OpenTurn, Session, Stop, TurnPrompt, TurnStage};
use crate::domain::{Change, Decision, Event};

#[derive(Default)]
struct Told(Mutex<Vec<Event>>);

impl EventSink for Told {
    fn publish(&self, _: SessionId, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

/// A place for one test's store.
enum Place {
    Sqlite(TempDir),
    /// The directory still has the lock.
    Postgres(TempDir, Database),
}

impl Place {
    fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    fn postgres() -> Self {
        Self::Postgres(tempfile::tempdir().unwrap(), Database::new())
    }

    fn open(&self) -> Result<(Store, Arc<Told>), StoreError> {
        let told = Arc::new(Told::default());
        let sink: Arc<dyn EventSink> = told.clone();
        let store = match self {
            Self::Sqlite(dir) => {
                Store::open(&StoreFiles::of(dir.path()), "anna", Sync::Full, sink)?
            }
            Self::Postgres(dir, database) => {
                let (url, files) = (DatabaseUrl::new(database.url()), StoreFiles::of(dir.path()));
                // As the server does: connecting waits.
                std::thread::spawn(move || Store::connect(&url, &files, "anna", sink))
                    .join()
                    .unwrap()?
            }
        };
        Ok((store, told))
    }

    /// The writer's thread lets go of the lock a moment after the last handle is dropped.
    fn reopen(&self) -> Store {
        loop {
            match self.open() {
                Ok((store, _)) => return store,
                Err(StoreError::Locked(_)) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Makes two tests of each of these functions.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod sqlite {
            $(#[tokio::test] async fn $name() { super::$name(super::Place::sqlite()).await; })*
        }
        mod postgres {
            $(#[tokio::test] async fn $name() { super::$name(super::Place::postgres()).await; })*
        }
    };
}

on_both! {
    an_admission_and_its_receipt_read_back_as_they_were_also_after_a_restart
    events_of_a_session_are_told_in_the_order_of_the_commits_before_the_answers
    c012_a_decision_that_does_not_fit_is_undone_alone
    never_two_open_turns_and_never_two_receipts_whatever_a_decision_says
    a_long_message_grows_by_parts_and_lists_show_its_start
    a_second_server_on_one_directory_is_refused
    readers_whose_caller_does_something_else_hold_up_nobody
    long_reads_hold_up_no_other
    a_long_message_is_searched_part_by_part_and_no_match_is_missed_between
}

async fn make_session(store: &Store) -> SessionId {
    let owner = store.read(|reads| reads.first_user()).await.unwrap().id;
    let (task, session) = (TaskId::from_uuid(Uuid::now_v7()), SessionId::from_uuid(Uuid::now_v7()));
    store.transact(move |_| Ok::<_, StoreError>(new_session(owner, task, session))).await.unwrap();
    session
}

fn new_session(owner: UserId, task_id: TaskId, id: SessionId) -> Decision<()> {
    let created_at = UnixMillis::new(1);
    let task = NewTask {
        id: task_id,
        owner,
        title: "t".to_owned(),
        kind: TaskKind::Task,
        workspace_dir: None,
        agent: "demo".to_owned(),
        client_request_id: None,
        created_at,
    };
    let session = NewSession {
        id,
        task_id,
        incarnation_id: IncarnationId::from_uuid(Uuid::now_v7()),
        agent: "demo".to_owned(),
        model: None,
        title: "t".to_owned(),
        client_request_id: None,
        created_at,
    };
    let changes =
        vec![Change::InsertTask(Box::new(task)), Change::InsertSession(Box::new(session))];
    Decision { changes, events: Vec::new(), reply: () }
}

fn submission(id: &str, text: &str) -> Submission {
    Submission {
        identified: Some(Identified {
            id: AdmissionId::parse(id).unwrap(),
            fingerprint: Fingerprint::from_bytes([text.len() as u8; 32]),
        }),
        content: PromptText::parse(text).unwrap(),
        model: Some("m".to_owned()),
        offered: Vec::new(),
        enclosed: Enclosed::default(),
        plan_mode: true,
        queued_by: Sender {
            kind: SenderKind::User,
            id: "u".to_owned(),
            name: "anna".to_owned(),
            task: None,
        },
    }
}

fn admit(reads: &mut Reads<'_>, session: SessionId, id: &str, text: &str) -> Decision<Admitted> {
    let fresh = Fresh { entry_id: EntryId::from_uuid(Uuid::now_v7()), now: UnixMillis::new(1_234) };
    let session = existing(reads, session);
    admission::admit(&session, submission(id, text), Named::default(), None, 0, fresh).unwrap()
}

fn existing(reads: &mut Reads<'_>, id: SessionId) -> Session {
    reads.session(id).unwrap().expect("the session was made before")
}

type Transacted<T> = Result<T, TransactError<StoreError>>;

async fn add(store: &Store, session: SessionId, id: &'static str, text: String) -> Admitted {
    let added: Transacted<_> =
        store.transact(move |reads| Ok(admit(reads, session, id, &text))).await;
    added.unwrap()
}

async fn an_admission_and_its_receipt_read_back_as_they_were_also_after_a_restart(place: Place) {
    let session = {
        let (store, _) = place.open().unwrap();
        make_session(&store).await
    };
    // The lock is free once the first store and its writer are gone.
    let store = place.reopen();
    let long = "é".repeat(SNAPSHOT_BYTES_MAX);
    let admitted = add(&store, session, "k1", long.clone()).await;
    drop(store);
    let store = place.reopen();
    store
        .read(move |reads| {
            let session = existing(reads, session);
            let entry = reads.head(session.key)?.unwrap();
            assert_eq!(&*entry.content, &long);
            assert_eq!(entry.position, Position::new(1));
            let id = AdmissionId::parse("k1").unwrap();
            let receipt = reads.receipt(session.incarnation_key, &id)?.unwrap();
            assert_eq!(receipt.entry, admitted.entry, "a replay answers as the first time");
            assert!(receipt.content_truncated);
            assert_eq!(receipt.outcome, AdmissionOutcome::Admitted);
            assert_eq!(receipt.entry.provenance.admission_ids, [id]);
            assert_eq!((session.queue.stored, session.queue.revision.get()), (1, 1));
            Ok::<_, StoreError>(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_group_commits_once_and_tells_in_order_before_it_answers() {
    let place = Place::sqlite();
    let (store, told) = place.open().unwrap();
    let session = make_session(&store).await;
    // Hold the writer until all jobs wait, so that they are one group.
    let (release, held) = mpsc::channel::<()>();
    let holding = store.transact(move |_| {
        held.recv().expect("the test releases the writer");
        Ok::<_, StoreError>(Decision::unchanged(()))
    });
    let turns: Vec<TurnId> = (0..20).map(|_| TurnId::from_uuid(Uuid::now_v7())).collect();
    let jobs = turns.iter().map(|turn| {
        let turn = *turn;
        store.transact(move |reads| {
            let name = turn.to_string();
            let mut decision = admit(reads, session, &name, "x");
            decision.events = vec![(session, Event::TurnStarted(turn))];
            Ok::<_, StoreError>(decision)
        })
    });
    let jobs = futures_util::future::join_all(jobs);
    let (held, admitted, ()) = tokio::join!(holding, jobs, async { release.send(()).unwrap() });
    held.unwrap();
    let positions: Vec<u64> =
        admitted.into_iter().map(|done| done.unwrap().entry.position.get()).collect();
    assert_eq!(positions, (1..=20).collect::<Vec<_>>());
    let expected: Vec<Event> = turns.into_iter().map(Event::TurnStarted).collect();
    assert_eq!(*told.0.lock().unwrap(), expected);
}

async fn events_of_a_session_are_told_in_the_order_of_the_commits_before_the_answers(place: Place) {
    let (store, told) = place.open().unwrap();
    let session = make_session(&store).await;
    let jobs = (0..40_u128).map(|n| {
        let turn = TurnId::from_uuid(Uuid::from_u128(n + 1));
        let done = store.transact(move |reads| {
            let mut decision = admit(reads, session, &turn.to_string(), "x");
            decision.events = vec![(session, Event::TurnStarted(turn))];
            Ok::<_, StoreError>(decision)
        });
        let told = &told;
        async move {
            let position = done.await.unwrap().entry.position.get();
            let event = Event::TurnStarted(turn);
            assert!(told.0.lock().unwrap().contains(&event), "told before it is answered");
            (position, event)
        }
    });
    let mut admitted = futures_util::future::join_all(jobs).await;
    admitted.sort_by_key(|(position, _)| *position);
    let (positions, events): (Vec<_>, Vec<_>) = admitted.into_iter().unzip();
    assert_eq!(positions, (1..=40).collect::<Vec<u64>>());
    assert_eq!(*told.0.lock().unwrap(), events);
}

async fn c012_a_decision_that_does_not_fit_is_undone_alone(place: Place) {
    let (store, told) = place.open().unwrap();
    let session = make_session(&store).await;
    let gone = MessageId::from_uuid(Uuid::now_v7());
    // Once behind the whole admission, once between its entry and its receipt.
    for at in [None, Some(1)] {
        let misfit: Transacted<_> = store
            .transact(move |reads| {
                let mut decision = admit(reads, session, "k1", "lost?");
                let at = at.unwrap_or(decision.changes.len());
                decision
                    .changes
                    .insert(at, Change::AppendMessage { id: gone, at: 0, text: "x".to_owned() });
                Ok(decision)
            })
            .await;
        assert!(matches!(misfit, Err(TransactError::Refused(StoreError::Damaged(_)))));
        assert!(told.0.lock().unwrap().is_empty());
        store
            .read(move |reads| {
                let session = existing(reads, session);
                let id = AdmissionId::parse("k1").unwrap();
                assert!(reads.receipt(session.incarnation_key, &id)?.is_none());
                assert!(reads.head(session.key)?.is_none());
                assert_eq!(session.queue.stored, 0);
                Ok::<_, StoreError>(())
            })
            .await
            .unwrap();
    }
    assert_eq!(add(&store, session, "k1", "found".to_owned()).await.entry.position.get(), 1);
}

async fn never_two_open_turns_and_never_two_receipts_whatever_a_decision_says(place: Place) {
    let (store, _) = place.open().unwrap();
    let session = make_session(&store).await;
    add(&store, session, "k1", "a".to_owned()).await;
    let again: Transacted<_> =
        store.transact(move |reads| Ok(admit(reads, session, "k1", "a"))).await;
    assert!(matches!(again, Err(TransactError::Refused(StoreError::Database(_)))));
    let turn = |n: u128| OpenTurn {
        id: TurnId::from_uuid(Uuid::from_u128(n)),
        stage: TurnStage::Reserved,
        stop: Stop::NotAsked,
        prompt: TurnPrompt::Entries,
        started_at: UnixMillis::new(1),
    };
    let insert = |n| {
        store.transact(move |reads| {
            let key = existing(reads, session).key;
            let changes = vec![Change::InsertTurn(key, turn(n))];
            let changes = changes.clone();
            Ok::<_, StoreError>(Decision { changes, events: Vec::new(), reply: () })
        })
    };
    insert(1).await.unwrap();
    assert!(matches!(insert(2).await, Err(TransactError::Refused(StoreError::Database(_)))));
}

async fn add_message(store: &Store, session: SessionId, id: MessageId) {
    store
        .transact(move |reads| {
            let session = existing(reads, session);
            let message = Message {
                id,
                session_id: session.id,
                incarnation_id: session.incarnation_id,
                seq: session.last_seq.next(),
                turn_id: None,
                role: Role::Agent,
                content: Arc::from(""),
                content_bytes: 0,
                status: MessageStatus::Streaming,
                details: MessageDetails::default(),
                created_at: UnixMillis::new(1),
            };
            let changes = vec![Change::InsertMessage(
                session.key,
                session.incarnation_key,
                Box::new(message),
            )];
            Ok::<_, StoreError>(Decision { changes, events: Vec::new(), reply: () })
        })
        .await
        .unwrap();
}

async fn a_long_message_grows_by_parts_and_lists_show_its_start(place: Place) {
    let (store, _) = place.open().unwrap();
    let session = make_session(&store).await;
    let id = MessageId::from_uuid(Uuid::now_v7());
    add_message(&store, session, id).await;
    let mut whole = String::new();
    for n in 0..40 {
        let piece = format!("{n}é").repeat(4_000);
        // Twice, as after a commit that gave no answer: the second changes nothing.
        let append = Change::AppendMessage { id, at: whole.len() as u64, text: piece.clone() };
        whole.push_str(&piece);
        let changes = vec![append.clone(), append];
        store
            .transact(move |_| {
                let changes = changes.clone();
                Ok::<_, StoreError>(Decision { changes, events: Vec::new(), reply: () })
            })
            .await
            .unwrap();
    }
    let page = store
        .read(move |reads| {
            let session = existing(reads, session);
            reads.page(&session, PageBounds::Newest, 10)
        })
        .await
        .unwrap();
    // Read in steps that fall inside characters.
    let mut read = String::new();
    loop {
        let offset = read.len() as u64;
        let range = store
            .read(move |reads| {
                let session = existing(reads, session);
                reads.text(&session, id, offset, 10_001)
            })
            .await
            .unwrap();
        let Some(TextFound::Range(range)) = range else {
            panic!("{range:?} at {offset}");
        };
        read.push_str(&range.text);
        if range.eof {
            break;
        }
    }
    assert!(read == whole, "what is read in steps is the whole text");
    let first = whole.find('é').unwrap() as u64;
    let char = Some(TextFound::Range(TextRange { text: "é".to_owned(), eof: false }));
    for (offset, length, expected) in [
        (first + 1, 10, Some(TextFound::InsideCharacter)),
        (first + 1, 1, Some(TextFound::InsideCharacter)),
        (first, 1, Some(TextFound::NoRoom)),
        (first, 2, char),
    ] {
        let found = store
            .read(move |reads| {
                let session = existing(reads, session);
                reads.text(&session, id, offset, length)
            })
            .await
            .unwrap();
        assert_eq!(found, expected, "{length} bytes at {offset}");
    }
    let shown = &page.messages[0];
    assert_eq!(shown.content_bytes, whole.len() as u64);
    assert!(shown.content.len() > MESSAGE_CONTENT_BYTES_MAX - 4);
    assert!(whole.starts_with(&*shown.content));
}

async fn a_second_server_on_one_directory_is_refused(place: Place) {
    let (_store, _) = place.open().unwrap();
    assert!(matches!(place.open(), Err(StoreError::Locked(_))));
}

#[test]
fn c133_what_is_no_database_of_ours_is_left_as_it_is() {
    let open = |dir: &TempDir| {
        let sink = Arc::new(Told::default());
        Store::open(&StoreFiles::of(dir.path()), "anna", Sync::Full, sink)
    };
    let newer = tempfile::tempdir().unwrap();
    drop(open(&newer).unwrap());
    let database = StoreFiles::of(newer.path()).database;
    let conn = rusqlite::Connection::open(&database).unwrap();
    conn.execute("UPDATE meta SET value = '9999' WHERE name = 'schema'", []).unwrap();
    drop(conn);
    let refused = loop {
        match open(&newer) {
            Err(StoreError::Locked(_)) => std::thread::yield_now(),
            other => break other,
        }
    };
    assert!(matches!(refused, Err(StoreError::Newer { found: 9999, .. })));

    let noise = tempfile::tempdir().unwrap();
    let database = StoreFiles::of(noise.path()).database;
    let bytes: Vec<u8> = (0..8192_u32).map(|n| (n * 31 % 251) as u8).collect();
    std::fs::write(&database, &bytes).unwrap();
    assert!(open(&noise).is_err());
    assert_eq!(std::fs::read(&database).unwrap(), bytes);

    // An empty file is what a crash right after its making leaves: a fresh start.
    let empty = tempfile::tempdir().unwrap();
    std::fs::write(StoreFiles::of(empty.path()).database, b"").unwrap();
    assert!(open(&empty).is_ok());
}

async fn readers_whose_caller_does_something_else_hold_up_nobody(place: Place) {
    let (store, _) = place.open().unwrap();
    let read = || Box::pin(store.read(|reads| reads.first_user()));
    let mut unattended: Vec<_> = (0..64).map(|_| read()).collect();
    for read in &mut unattended {
        // Begun, and not looked at again: a link does that while it sends.
        std::future::poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_ready())).await;
    }
    let attended = tokio::time::timeout(Duration::from_secs(60), read()).await;
    assert_eq!(attended.expect("it is its turn some time").unwrap().name, "anna");
}

async fn long_reads_hold_up_no_other(place: Place) {
    let (store, _) = place.open().unwrap();
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let long = || {
        let held = Arc::clone(&held);
        let read = store.read_aside(move |_| {
            let released = held.lock().unwrap().recv();
            released.map_err(|_| StoreError::Closed)
        });
        Box::pin(read)
    };
    let mut reads: Vec<_> = (0..16).map(|_| long()).collect();
    for read in &mut reads {
        std::future::poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_ready())).await;
    }
    let other =
        tokio::time::timeout(Duration::from_secs(60), store.read(|reads| reads.first_user()));
    assert_eq!(other.await.expect("it waits for none of them").unwrap().name, "anna");
    (0..16).for_each(|_| release.send(()).unwrap());
    for read in reads {
        read.await.unwrap();
    }
}

async fn a_long_message_is_searched_part_by_part_and_no_match_is_missed_between(place: Place) {
    let (store, _) = place.open().unwrap();
    let session = make_session(&store).await;
    let id = MessageId::from_uuid(Uuid::now_v7());
    add_message(&store, session, id).await;
    let text: String = (0..300_000).map(|n| format!("{n:07}é ")).collect();
    let mut changes = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let piece = cut_at_char(&text[at..], 20_000);
        changes.push(Change::AppendMessage { id, at: at as u64, text: piece.to_owned() });
        at += piece.len();
    }
    store
        .transact(move |_| {
            let changes = changes.clone();
            Ok::<_, StoreError>(Decision { changes, events: Vec::new(), reply: () })
        })
        .await
        .unwrap();
    let (hits, places) = found(&store, session, "nowhere").await;
    assert_eq!((hits.len(), places.len()), (0, 2), "two pieces are full: {places:?}");
    for at in places {
        let from = text.floor_char_boundary(at - 15);
        let needle = &text[from..text.floor_char_boundary(at + 15)];
        let (hits, _) = found(&store, session, needle).await;
        assert!(hits[0].snippet.contains(needle), "{needle}: {hits:?}");
    }
    let (hits, places) = found(&store, session, "0299999").await;
    assert_eq!((hits.len(), hits[0].seq, places.len()), (1, MessageSeq::new(1), 2));
}

/// Searches a session; returns the hits, and where in a message pieces ended.
async fn found(store: &Store, session: SessionId, query: &str) -> (Vec<Hit>, Vec<usize>) {
    let needle = Needle::parse(query).unwrap();
    let (mut hits, mut places) = (Vec::new(), Vec::new());
    let start = store.read(move |reads| {
        Ok::<_, StoreError>(SearchPlace::in_session(session, existing(reads, session).key))
    });
    let mut next = Some(start.await.unwrap());
    while let Some(place) = next {
        let needle = needle.clone();
        let piece = store.read_aside(move |reads| reads.search(place, &needle)).await;
        let piece: SearchPiece = piece.map_err(|error: StoreError| error).unwrap();
        assert!(piece.looked_bytes < 2 * PIECE_BYTES, "{}", piece.looked_bytes);
        hits.extend(piece.hits);
        let rest = piece.next.as_ref().and_then(|place| place.rest.as_ref());
        places.extend(rest.map(|rest| usize::try_from(rest.from).unwrap()));
        next = piece.next;
    }
    (hits, places)
}
