//! What is streamed over a link that is cut again and again reads like what came over a sound one.

use serde_json::{Value, json, to_value};
use usher_shared::client::{Input, LinkState, Mirror};
use usher_shared::id::SessionId;
use usher_shared::protocol::session::SessionState;
use usher_tests::client::timed;
use usher_tests::faulty::{Do, FaultyLink, Matching, Rule};
use usher_tests::stage::Stage;
use usher_tui::driver::{Driver, Server, Trust};

const LAST: &str = "that was all of it";

/// Some seconds of an answer, with everything in it that a transcript has.
fn script() -> String {
    let part = |number| {
        format!("stream 30 70B; sleep 150ms; think step {number}; tool cargo passed {number}; ")
    };
    let parts: String = (1..=36).map(part).collect();
    format!("/demo say begin; plan [x] Look|[>] Change|Test; {parts}say {LAST}")
}

/// Cuts in the middle of streaming, each in another way.
fn cuts() -> Vec<Rule> {
    let delta = || Matching::notification("transcript.delta");
    vec![
        Rule::nth(2, delta()).then([Do::CutClient]),
        // The server has sent some more into the link that it took for sound.
        Rule::nth(9, delta()).swallow().then([Do::CutServer, Do::CutClient]),
        Rule::nth(12, delta()).part(50).then([Do::Cut]),
        Rule::nth(15, delta()).then([Do::Cut]),
        Rule::first(Matching::notification("transcript.message").saying(LAST))
            .swallow()
            .then([Do::Cut]),
    ]
}

/// What was left in the end.
struct Seen {
    /// The server's transcript.
    page: Value,
    /// The engine's.
    mirror: Value,
    /// The chat's screen below the first line, without clock times.
    screen: String,
    /// Links of the engine and of the chat.
    links: (usize, usize),
}

impl Seen {
    /// Who said what, and how it ended.
    fn said(&self) -> Vec<[&Value; 3]> {
        let messages = self.page.as_array().unwrap().iter();
        messages.map(|message| ["role", "content", "status"].map(|name| &message[name])).collect()
    }
}

fn watch(rules: fn() -> Vec<Rule>) -> Seen {
    let stage = Stage::with(|launch| launch, rules());
    let engine_link = FaultyLink::named(stage.server.as_ref().unwrap(), "engine");
    rules().into_iter().for_each(|rule| engine_link.rule(rule));
    let terminal = stage.terminal();
    stage.beside(async |client, chat| {
        client.admit(chat, "k1", &script()).await;
        client.set_auto_run(chat, true).await;
    });
    let session_id: SessionId = serde_json::from_value(json!(stage.chat.session_id)).unwrap();
    let mirror = stage.run(timed(async {
        let address = engine_link.address().parse().unwrap();
        let server = Server::Named { address, trust: Trust::System };
        let mut driver = Driver::start(server, None, None);
        driver.handle(Input::Open(session_id));
        while !is_over(&driver) {
            driver.next_event().await;
        }
        to_value(driver.engine().mirror().unwrap().messages()).unwrap()
    }));
    terminal.wait_until("the end of the answer", |screen| {
        screen.contains(LAST) && !screen.contains("running")
    });
    let screen = terminal.wait_online();
    Seen {
        page: stage.beside(async |client, chat| Value::Array(client.transcript(chat).await)),
        mirror,
        screen: without_times(&screen),
        links: (engine_link.record().opened(), stage.link.record().opened()),
    }
}

fn is_over(driver: &Driver) -> bool {
    let engine = driver.engine();
    let has_ended = |mirror: &Mirror| {
        let said = mirror.messages().iter().any(|message| message.content.contains(LAST));
        said && mirror.session().state == SessionState::Idle
    };
    matches!(engine.link(), LinkState::Online { .. }) && engine.mirror().is_some_and(has_ended)
}

fn without_times(screen: &str) -> String {
    let lines = screen.lines().skip(1).map(|line| {
        let is_time = |word: &&str| word.len() == 5 && word.as_bytes()[2] == b':';
        let words = line.split_whitespace().filter(|word| !is_time(word));
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_transcript_over_a_link_that_is_cut_equals_that_of_a_sound_one_byte_for_byte() {
    let (sound, cut) = std::thread::scope(|scope| {
        let sound = scope.spawn(|| watch(Vec::new));
        let cut = scope.spawn(|| watch(cuts));
        (sound.join().unwrap(), cut.join().unwrap())
    });
    assert_eq!(sound.links, (1, 1));
    // The last cut meets the end of the answer only if that does not come with the picture of a
    // link before.
    let links = cut.links.0.min(cut.links.1);
    assert!(links > 4, "the cuts while it streamed were made: {:?}", cut.links);
    for seen in [&sound, &cut] {
        assert_eq!(seen.mirror, seen.page, "the engine has what the server has");
    }
    assert_eq!(cut.said(), sound.said());
    assert_eq!(cut.screen, sound.screen);
}
