use crossterm::event::KeyCode;
use usher_shared::client::{
    DeliveryState, IdOrigin, Input, JournalOrder, JournalRow, JournalStage, Journaled, Journaling,
    LeftRow, Receipts,
};
use usher_shared::error::ErrorCode;
use usher_shared::id::{AdmissionId, SessionId, StoreId, UserId};
use usher_shared::protocol::queue::QueueAddParams;
use usher_shared::protocol::session::Session;
use uuid::Uuid;

use super::peer::{Admit, Peer, me, refusal};
use crate::app::Message;
use crate::journal::{Draft, JournalJob};
use crate::view::tests::screen;

fn writing() -> Peer {
    let mut peer = Peer::journaling(120, 40, Journaling::Adopting);
    peer.connect();
    peer.batches.clear();
    peer
}

/// What was handed to the journal since, in short, a list for each batch.
fn batches(peer: &mut Peer) -> Vec<Vec<String>> {
    let batches = std::mem::take(&mut peer.batches).into_iter();
    let in_short = |job: JournalJob| match job {
        JournalJob::Order(JournalOrder::Keep(_)) => "keep".to_owned(),
        JournalJob::Order(JournalOrder::Mark(_, stage, _)) => format!("mark {stage:?}"),
        JournalJob::Order(JournalOrder::Drop(_)) => "drop".to_owned(),
        JournalJob::Order(JournalOrder::Adopt { .. }) => "adopt".to_owned(),
        JournalJob::PutDraft(draft) => format!("draft {:?}", draft.text),
        JournalJob::TakeDrafts { .. } => "take drafts".to_owned(),
    };
    batches.map(|batch| batch.into_iter().map(in_short).collect()).collect()
}

fn store_id() -> StoreId {
    StoreId::from_uuid(Uuid::from_u128(6))
}

fn other_session(peer: &Peer) -> Session {
    Session { id: SessionId::from_uuid(Uuid::from_u128(77)), ..peer.session.clone() }
}

fn left(session: &Session, name: &str, stage: JournalStage) -> LeftRow {
    let id = AdmissionId::parse(name).unwrap();
    let params = QueueAddParams {
        task_id: session.task_id,
        session_id: session.id,
        session_incarnation_id: Some(session.incarnation_id),
        client_queue_id: Some(id.clone()),
        content: format!("text of {name}"),
        ..QueueAddParams::default()
    };
    LeftRow {
        row: JournalRow {
            admission_id: id,
            id_origin: IdOrigin::Given,
            store_id: store_id(),
            user_id: me().id,
            receipts: Receipts::Announced,
            payload: serde_json::value::to_raw_value(&params).unwrap(),
            stage,
        },
        age_ms: u64::MAX,
    }
}

fn draft(session: &Session, text: &str) -> Draft {
    Draft { store_id: store_id(), user_id: me().id, session_id: session.id, text: text.to_owned() }
}

#[test]
fn a_draft_is_written_down_shortly_after_the_last_of_a_row_of_keys() {
    let mut peer = writing();
    peer.type_text("abc");
    assert_eq!(batches(&mut peer), Vec::<Vec<String>>::new());
    peer.pass(300);
    assert_eq!(batches(&mut peer), [["draft \"abc\""]]);
    peer.pass(60_000);
    assert_eq!(batches(&mut peer), Vec::<Vec<String>>::new());
}

#[test]
fn a_person_who_never_stops_typing_is_written_down_all_the_same() {
    let mut peer = writing();
    for _ in 0..10 {
        peer.type_text("a");
        peer.take(Message::Tick);
    }
    assert_eq!(batches(&mut peer).len(), 2, "a second of typing");
}

#[test]
fn enter_moves_a_text_from_the_drafts_to_the_sends_at_one_moment() {
    let mut peer = writing();
    peer.type_text("hello");
    peer.pass(300);
    batches(&mut peer);
    peer.key(KeyCode::Enter);
    let done = batches(&mut peer);
    assert_eq!(done[0], ["keep", "draft \"\""]);
    assert_eq!(done[1..], [["drop"]]);
}

#[test]
fn a_text_that_comes_back_moves_from_the_sends_to_the_drafts_at_one_moment() {
    let mut peer = writing();
    peer.admit = Admit::Refuse(refusal(ErrorCode::QueueFull));
    peer.send("refused");
    assert_eq!(peer.draft(), "refused");
    let done = batches(&mut peer);
    assert_eq!(done.last().unwrap(), &["mark Refused(QueueFull)", "draft \"refused\"", "drop"]);
    let mut peer = Peer::journaling(120, 40, Journaling::Adopting);
    peer.left = vec![left(&peer.session, "k1", JournalStage::Unsent)];
    peer.connect();
    let done = batches(&mut peer);
    assert!(done.contains(&vec!["draft \"text of k1\"".to_owned(), "drop".to_owned()]), "{done:?}");
}

#[test]
fn a_draft_that_is_left_is_written_down_at_once() {
    let mut peer = writing();
    peer.type_text("left");
    let other = other_session(&peer);
    peer.open(&other);
    assert_eq!(batches(&mut peer), [["draft \"left\""]]);
    assert_eq!(peer.draft(), "");
}

#[test]
fn drafts_of_an_earlier_run_stand_before_what_was_typed_since() {
    let mut peer = Peer::journaling(120, 40, Journaling::Adopting);
    let other = other_session(&peer);
    peer.drafts = vec![draft(&peer.session, "earlier"), draft(&other, "elsewhere")];
    peer.type_text("newer");
    peer.connect();
    assert_eq!(peer.draft(), "earlier\nnewer");
    peer.pass(300);
    let written = batches(&mut peer).into_iter().flatten().collect::<Vec<_>>();
    assert!(written.contains(&"draft \"earlier\\nnewer\"".to_owned()), "{written:?}");
    peer.open(&other);
    assert_eq!(peer.draft(), "elsewhere");
}

#[test]
fn what_waits_for_a_decision_elsewhere_is_named_and_marked_in_the_list() {
    let mut peer = Peer::journaling(120, 40, Journaling::Adopting);
    let other = other_session(&peer);
    peer.sessions.push(other.clone());
    peer.left = vec![left(&other, "k1", JournalStage::Sent)];
    peer.connect();
    let said = peer.state.toast.as_ref().unwrap().text.clone();
    assert!(said.starts_with("A prompt in another session was not delivered. Alt+S"), "{said}");
    assert!(screen(&peer.state).lines().any(|line| line.contains("! │")));
    peer.open(&other);
    let screen = screen(&peer.state);
    assert!(screen.contains("Delivery uncertain") && screen.contains("text of k1"), "{screen}");
}

#[test]
fn a_prompt_that_was_never_sent_comes_back_where_there_is_room() {
    let mut peer = Peer::journaling(120, 40, Journaling::Adopting);
    let rows = ["k1", "k2"].map(|name| left(&peer.session, name, JournalStage::Unsent));
    peer.left = rows.to_vec();
    peer.connect();
    assert_eq!(peer.draft(), "text of k1");
    let said = peer.state.toast.as_ref().unwrap().text.clone();
    assert!(said.contains("never sent"), "{said}");
    let states: Vec<_> = peer.state.deliveries().map(|delivery| delivery.state.clone()).collect();
    assert_eq!(states, [DeliveryState::Returned], "the second one waits for its turn");
    peer.ctrl('c');
    peer.alt('r');
    assert_eq!(peer.draft(), "text of k2");
    assert!(peer.asked_for("message.queue.add").is_empty(), "nothing went by itself");
}

#[test]
fn leaving_says_what_is_kept_and_what_would_be_lost() {
    let ask = |peer: &mut Peer| {
        peer.admit = Admit::Silence;
        peer.send("hello");
        peer.ctrl('c');
        screen(&peer.state)
    };
    let kept = ask(&mut writing());
    assert!(kept.contains("It is kept"), "{kept}");
    let lost = ask(&mut Peer::online(120, 40));
    assert!(lost.contains("would be lost"), "{lost}");
}

#[test]
fn a_prompt_that_cannot_be_written_is_sent_and_its_person_told() {
    let mut peer = writing();
    (peer.disk, peer.admit) = (Journaled::Failed, Admit::Silence);
    peer.send("hello");
    let said = peer.state.toast.as_ref().unwrap().text.clone();
    assert!(said.starts_with("This prompt could not be written to disk first."), "{said}");
    assert_eq!(peer.asked_for("message.queue.add").len(), 1);
    peer.ctrl('c');
    let lost = screen(&peer.state);
    assert!(lost.contains("would be lost"), "{lost}");
}

#[test]
fn a_draft_of_no_session_yet_is_kept_and_goes_with_the_first_one() {
    let mut killed = Peer::journaling(120, 40, Journaling::Adopting);
    killed.link(Input::Start);
    killed.batches.clear();
    killed.type_text("abc");
    killed.pass(300);
    assert_eq!(batches(&mut killed), [["draft \"abc\""]]);

    let mut next = Peer::journaling(120, 40, Journaling::Adopting);
    next.drafts = vec![Draft {
        store_id: StoreId::default(),
        user_id: UserId::default(),
        session_id: SessionId::default(),
        text: "early".to_owned(),
    }];
    next.link(Input::Start);
    assert_eq!(next.draft(), "early");
    next.batches.clear();
    next.link(Input::LinkOpened);
    assert_eq!(next.draft(), "early");
    let written = batches(&mut next).into_iter().flatten().collect::<Vec<_>>();
    let (home, away) = ("draft \"early\"".to_owned(), "draft \"\"".to_owned());
    assert!(written.ends_with(&[home, away]), "it moved at one moment: {written:?}");
}
