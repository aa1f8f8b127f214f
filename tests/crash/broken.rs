//! A fault of the program in the middle of a turn: only that turn breaks, and it is settled as a
//! restart would settle it.

use serde_json::json;
use usher_tests::binaries;
use usher_tests::chat::{by_role, contents};
use usher_tests::scene::Scene;
use usher_tests::server::Launch;

/// A session with A and B waiting, on a server whose first turn breaks at `point`; auto-run is on.
async fn breaking_at(point: &str) -> Scene {
    let launch = Launch::new().binary(binaries::usherd_with_stop_points());
    let mut scene = Scene::of(&launch.env("USHER_PANIC_AT", format!("{point}:1"))).await;
    scene.park().await;
    scene.admit_all(&["A", "B"]).await;
    let on = json!({"enabled": true});
    scene.act("message.queue.auto_run.set", on).await;
    scene
}

#[tokio::test]
async fn a_turn_that_breaks_before_it_is_handed_over_begins_again() {
    let mut scene = breaking_at("after_reservation").await;
    scene.settled().await;
    assert_eq!(scene.prompts().await, ["A", "B"]);
}

#[tokio::test]
async fn a_turn_that_breaks_later_parks_and_the_session_goes_on_when_asked() {
    for (point, status, reason) in [
        ("after_hand_over", "uncertain", "uncertain_turn"),
        ("after_acceptance", "interrupted", "interrupted"),
    ] {
        let mut scene = breaking_at(point).await;
        let chat = scene.chat.clone();
        scene.client.until(&chat, |_, queue| queue["auto_run_reason"] == reason).await;
        scene.idle().await;
        assert_eq!(contents(&scene.client.entries(&chat).await), ["B"], "{point}");
        let prompts = by_role(&scene.client.transcript(&chat).await, "user");
        assert_eq!(contents(&prompts), ["A"], "{point}");
        assert_eq!(prompts[0]["status"], status, "{point}");
        scene.run_all().await;
        assert_eq!(scene.prompts().await, ["A", "B"], "{point}");
    }
}
