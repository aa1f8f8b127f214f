use crossterm::event::KeyCode;
use serde_json::json;
use usher_shared::error::ErrorCode;
use usher_shared::id::{SessionId, TaskId};
use usher_shared::protocol::session::Session;
use usher_shared::protocol::task::Task;
use uuid::Uuid;

use super::peer::{Peer, refusal};
use crate::app::Focus;
use crate::start::Files;

fn session(peer: &Peer, number: u128, title: &str) -> Session {
    Session {
        id: SessionId::from_uuid(Uuid::from_u128(number)),
        title: title.to_owned(),
        ..peer.session.clone()
    }
}

/// A session of a task in another directory, used more recently than the one of ours.
fn used_elsewhere(peer: &mut Peer) -> Session {
    let other =
        Session { task_id: TaskId::from_uuid(Uuid::from_u128(71)), ..session(peer, 77, "web") };
    let task =
        Task { id: other.task_id, workspace_dir: Some("/src/web".to_owned()), ..peer.task() };
    peer.sessions.insert(0, other.clone());
    peer.tasks = Some(vec![task, peer.task()]);
    other
}

fn subscribed(peer: &Peer) -> Vec<serde_json::Value> {
    let asked = peer.asked_for("session.subscribe");
    asked.into_iter().map(|asked| asked["session_id"].clone()).collect()
}

#[test]
fn the_session_of_this_directory_is_opened_even_if_another_was_used_since() {
    let mut peer = Peer::new(80, 24);
    used_elsewhere(&mut peer);
    peer.connect();
    assert_eq!(subscribed(&peer), [json!(peer.session.id)]);
    assert_eq!(peer.asked_for("task.create"), [] as [serde_json::Value; 0]);
}

#[test]
fn a_directory_without_a_session_gets_one_of_its_own() {
    let mut peer = Peer::new(80, 24);
    used_elsewhere(&mut peer);
    peer.sessions.truncate(1);
    peer.connect();
    assert_eq!(peer.asked_for("task.create")[0]["workspace_dir"], json!("/src/payments-api"));
    assert_eq!(subscribed(&peer), [json!(peer.session.id)]);
}

#[test]
fn on_another_machine_the_session_that_was_used_last_is_opened() {
    let mut peer = Peer::new(80, 24).with_files(Files::Apart);
    let other = used_elsewhere(&mut peer);
    peer.connect();
    assert_eq!(subscribed(&peer), [json!(other.id)]);
}

#[test]
fn one_session_is_simply_opened() {
    let peer = Peer::online(80, 24);
    assert_eq!(peer.state.mirror().unwrap().session().id, peer.session.id);
    assert_eq!(peer.asked_for("task.create"), [] as [serde_json::Value; 0]);
}

#[test]
fn without_a_session_one_is_made_in_the_directory() {
    let mut peer = Peer::new(80, 24);
    peer.sessions.clear();
    peer.connect();
    assert_eq!(
        peer.asked_for("task.create"),
        [json!({
            "title": "payments-api",
            "workspace_dir": "/src/payments-api",
            "client_request_id": "test.3",
        })]
    );
    assert!(peer.state.mirror().is_some());
}

#[test]
fn a_server_without_the_directory_gets_a_task_without_one() {
    let mut peer = Peer::new(80, 24);
    peer.sessions.clear();
    let error = refusal(ErrorCode::Validation).with("field", "workspace_dir");
    peer.refuse.push(("task.create", error));
    peer.connect();
    let asked = peer.asked_for("task.create");
    let directories: Vec<_> = asked.iter().map(|asked| asked.get("workspace_dir")).collect();
    assert_eq!(directories, [Some(&json!("/src/payments-api")), None]);
    assert_ne!(asked[0]["client_request_id"], asked[1]["client_request_id"]);
}

#[test]
fn the_start_goes_on_after_a_lost_link_with_the_same_request_id() {
    let mut peer = Peer::new(80, 24);
    peer.sessions.clear();
    peer.refuse.push(("task.create", refusal(ErrorCode::ShuttingDown)));
    peer.connect();
    peer.disconnect();
    peer.refuse.clear();
    peer.pass(1_000);
    peer.link(usher_shared::client::Input::LinkOpened);
    let asked = peer.asked_for("task.create");
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0], asked[1]);
    assert!(peer.state.mirror().is_some());
}

#[test]
fn a_refused_session_opens_the_list_and_says_why() {
    let mut peer = Peer::new(80, 24);
    peer.refuse.push(("session.subscribe", refusal(ErrorCode::NotFound)));
    peer.connect();
    assert_eq!(peer.state.focus, Focus::Sessions);
    let toast = peer.state.toast.as_ref().unwrap();
    assert_eq!(toast.text, "That is not there any more.");
}

#[test]
fn every_session_keeps_its_own_draft() {
    let mut peer = Peer::new(80, 24);
    peer.type_text("before any");
    peer.connect();
    assert_eq!(peer.draft(), "before any");
    let first = peer.session.clone();
    let second = session(&peer, 77, "docs");
    peer.open(&second);
    assert_eq!(peer.draft(), "");
    peer.type_text("for docs");
    peer.open(&first);
    assert_eq!(peer.draft(), "before any");
    peer.open(&second);
    assert_eq!(peer.draft(), "for docs");
}

#[test]
fn another_session_is_chosen_from_the_list() {
    let mut peer = Peer::online(80, 24);
    let other = session(&peer, 77, "docs");
    peer.sessions.push(other.clone());
    peer.alt('s');
    peer.key(KeyCode::Down);
    peer.key(KeyCode::Enter);
    let subscribed = peer.asked_for("session.subscribe");
    assert_eq!(subscribed.last().unwrap()["session_id"], json!(other.id));
    assert_eq!(peer.state.focus, Focus::Chat);
}

#[test]
fn what_was_deleted_elsewhere_leaves_the_lists() {
    let mut peer = Peer::new(80, 24);
    let other = used_elsewhere(&mut peer);
    let own = session(&peer, 78, "more");
    peer.sessions.push(own.clone());
    peer.connect();
    let listed = |peer: &Peer| peer.state.sessions.list().iter().map(|s| s.id).collect::<Vec<_>>();
    assert_eq!(listed(&peer), [other.id, peer.session.id, own.id]);
    let gone = json!({"task_id": own.task_id, "session_id": own.id});
    peer.notify("session.deleted", gone);
    assert_eq!(listed(&peer), [other.id, peer.session.id]);
    peer.notify("task.deleted", json!({"task_id": other.task_id}));
    assert_eq!(listed(&peer), [peer.session.id]);
    assert!(peer.state.sessions.task(other.task_id).is_none());
    assert_eq!(peer.state.sessions.selected(), Some(peer.session.id));
}

#[test]
fn without_a_link_the_open_session_stays_on_the_screen() {
    let mut peer = Peer::online(120, 40);
    let other = session(&peer, 77, "another");
    peer.sessions.push(other);
    peer.alt('s');
    peer.disconnect();
    peer.key(KeyCode::Down);
    peer.key(KeyCode::Enter);
    let said = peer.state.toast.as_ref().unwrap().text.clone();
    assert!(said.starts_with("There is no connection. Another session"), "{said}");
    assert_eq!(peer.state.mirror().unwrap().session().id, peer.session.id);
}
