use super::*;

#[test]
fn look() {
    for (c, r) in [(120, 40), (80, 24), (40, 20)] {
        let mut peer = Peer::online(c, r);
        println!("{}", screen(&peer.state));
        let turn = peer.run_turn();
        peer.speak(Role::User, Some(turn), "Why does retry_after_timeout fail every tenth run?");
        peer.speak(Role::Agent, Some(turn), "The test races the clock: the backoff is computed before the fake clock is installed. Two ways to fix it:\n  1. install the clock in the fixture");
        peer.speak_as(
            Role::Tool,
            Some(turn),
            "a\nb\nc",
            MessageStatus::Complete,
            MessageMetadata { tool: Some("cargo test retry".into()), ..Default::default() },
        );
        peer.speak_as(
            Role::Agent,
            Some(turn),
            "I am now changing the fixture so that",
            MessageStatus::Streaming,
            MessageMetadata::default(),
        );
        peer.queue_entries(&[
            "then run the whole suite ten times",
            "and write the changelog line",
            "open a PR titled \"Fix flaky retry test\"",
        ]);
        peer.type_text("also check the timeout in client.rs");
        println!("{}", screen(&peer.state));
        peer.alt('q');
        println!("{}", screen(&peer.state));
        peer.alt('q');
        peer.ask("rm -rf target/tmp && cargo test --release");
        peer.pass(600);
        println!("{}", screen(&peer.state));
    }
}
