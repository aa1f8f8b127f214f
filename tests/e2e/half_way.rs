//! A statement that fails in the middle of something: then none of it has happened.

use serde_json::json;
use usher_tests::chat::accepted;
use usher_tests::client::Client;
use usher_tests::lease_clock::LeaseClock;
use usher_tests::leases::{begin, editing, waiting};
use usher_tests::scene::Scene;
use usher_tests::server::Launch;

/// Makes every statement like this fail, as on a full disk.
fn break_at(launch: &Launch, when: &str) {
    launch.change(&match launch.home().database() {
        Some(_) => format!(
            "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'set up by a test' USING ERRCODE = '53100'; END $$;
             CREATE TRIGGER fails {when} FOR EACH ROW EXECUTE FUNCTION fails()"
        ),
        None => format!(
            "CREATE TRIGGER fails {when} BEGIN SELECT RAISE(ABORT, 'set up by a test'); END"
        ),
    });
}

/// Makes it work again.
fn mend(launch: &Launch) {
    launch.change(match launch.home().database() {
        Some(_) => "DROP FUNCTION fails() CASCADE",
        None => "DROP TRIGGER fails",
    });
}

#[tokio::test]
async fn c012_an_admission_that_fails_half_way_leaves_neither_entry_nor_receipt() {
    for folding in [false, true] {
        let launch = if folding { Launch::new().folding() } else { Launch::new() };
        let mut scene = Scene::of(&launch).await;
        scene.park().await;
        scene.admit("before").await;
        let launch = scene.server.launch().clone();
        let entry = if folding { "UPDATE OF content ON" } else { "INSERT ON" };
        for (number, when) in [
            format!("BEFORE {entry} queue_entries"),
            format!("AFTER {entry} queue_entries"),
            "BEFORE INSERT ON queue_admission_receipts".to_owned(),
            "AFTER INSERT ON queue_admission_receipts".to_owned(),
            "AFTER UPDATE OF queue_revision ON sessions".to_owned(),
        ]
        .into_iter()
        .enumerate()
        {
            let before = scene.client.queue(&scene.chat).await;
            break_at(&launch, &when);
            let id = format!("k{number}");
            for text in [&id, "another text"] {
                let refusal = scene.client.add(&scene.chat, &id, text).await.unwrap_err();
                assert_eq!(refusal.code, "queue_admission_unavailable", "{when}");
                assert!(refusal.details["retry_after_ms"].is_u64());
            }
            assert_eq!(scene.client.queue(&scene.chat).await, before, "{when}");
            mend(&launch);
            // Nothing knows the id, so that this is its first admission, and only the next replays.
            let outcome = accepted(&scene.client.add(&scene.chat, &id, &id).await).1;
            assert_eq!(outcome, if folding { "folded" } else { "admitted" }, "{when}");
            assert_eq!(accepted(&scene.client.add(&scene.chat, &id, &id).await).1, "replayed");
        }
        let expected = ["before", "k0", "k1", "k2", "k3", "k4"];
        assert_eq!(scene.waiting().await.join("\n\n"), expected.join("\n\n"));
    }
}

#[tokio::test]
async fn c052_an_edit_whose_end_cannot_be_stored_is_over_when_its_lease_expires() {
    let (clock, launch) = LeaseClock::keep(Launch::new());
    let (scene, mut other, ids) = waiting(&launch, &["a prompt of its user"]).await;
    let (chat, launch) = (scene.chat.clone(), scene.server.launch().clone());
    let editor = json!({"client_instance": "3b241101-e2bb-4255-8caf-4136c566a962"});
    let mut client = Client::dial(&scene.server).await.unwrap();
    client.hello(editor.clone()).await.unwrap();
    editing(&mut client, &chat, &ids[0]).await;
    break_at(&launch, "BEFORE UPDATE ON edit_leases");
    client.cut();
    // Answered when the old link is done with.
    let mut client = Client::dial(&scene.server).await.unwrap();
    client.hello(editor).await.unwrap();
    mend(&launch);
    let log = scene.server.log();
    let told = log.lines().filter(|line| line.contains("live until they expire"));
    assert_eq!(told.count(), 1, "{log}");
    assert!(!log.contains("a prompt of its user"));
    clock.advance(59_999);
    for client in [&mut client, &mut other] {
        let conflict = begin(client, &chat, &ids[0]).await.unwrap_err();
        assert_eq!(conflict.details["holder_is_you"], false);
    }
    clock.advance(1);
    editing(&mut other, &chat, &ids[0]).await;
}
