//! What the links of a user hear about the user's tasks.

use serde_json::json;
use usher_tests::chat::Chat;
use usher_tests::client::Client;
use usher_tests::server::Server;

#[tokio::test]
async fn every_link_hears_how_much_waits_without_watching_the_session() {
    let server = Server::start();
    let mut writer = Client::connect(&server).await;
    let mut other = Client::connect(&server).await;
    let chat = Chat::create(&mut writer).await;
    let about = |task: &serde_json::Value| task["id"] == chat.task_id.as_str();
    other.notified("task.changed", about).await;
    writer.set_auto_run(&chat, false).await;
    for n in 0..20 {
        writer.admit(&chat, &format!("k{n}"), "a prompt").await;
    }
    // However the changes were collected, the newest is told.
    for link in [&mut writer, &mut other] {
        let told = link
            .notified("task.changed", |task| about(task) && task["queued_prompt_count"] == 20)
            .await;
        let got = link.ok("task.get", json!({"task_id": chat.task_id})).await;
        assert_eq!(told, got["task"]);
    }
    writer.ok("message.queue.cancel", chat.identity()).await;
    other.notified("task.changed", |task| about(task) && task["queued_prompt_count"] == 0).await;
}
