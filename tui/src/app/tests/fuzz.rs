use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use usher_shared::client::{Input, Journaling};
use usher_shared::error::ErrorCode;
use usher_shared::protocol::transcript::{MessageMetadata, MessageStatus, Notice, Role};

use super::peer::{Admit, Peer, refusal};
use crate::app::{Attention, Message};
use crate::view::tests::drawn;

/// A small generator: the same seed gives the same run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % sides
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len())]
    }
}

const TEXTS: &[&str] = &[
    "",
    "hello",
    "漢字 👨‍👩‍👧‍👦 🇩🇪 e\u{301}",
    "\x1b[2J\x1b]0;x\x07 \u{202e}txt.exe\t\r\nsecond\u{2028}third",
    "مرحبا gpt-5 שלום",
    "a very long line that has to be broken into several rows because it goes on and on and on \
     and on and on and on and on and on and on and on and on and on and on and on and on and on",
    "x\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
];

const CODES: &[KeyCode] = &[
    KeyCode::Enter,
    KeyCode::Esc,
    KeyCode::Backspace,
    KeyCode::Delete,
    KeyCode::Left,
    KeyCode::Right,
    KeyCode::Up,
    KeyCode::Down,
    KeyCode::Home,
    KeyCode::End,
    KeyCode::PageUp,
    KeyCode::PageDown,
    KeyCode::Tab,
    KeyCode::F(1),
    KeyCode::F(12),
    KeyCode::Insert,
    KeyCode::Null,
];

const CHARS: &[char] = &[
    'a', 'A', 'r', 'q', 's', 'n', 'x', 'd', 'D', 'p', 'u', 'k', 'j', 'w', 'y', 'c', 'l', 'z', '?',
    ' ', '漢', '\u{301}', '👩', '\u{200d}', '🇩', '7', '_',
];

fn step(peer: &mut Peer, dice: &mut Dice) {
    match dice.roll(24) {
        0..6 => {
            let modifiers = dice.pick(&[
                KeyModifiers::NONE,
                KeyModifiers::SHIFT,
                KeyModifiers::ALT,
                KeyModifiers::CONTROL,
            ]);
            let code = match dice.roll(2) {
                0 => dice.pick(CODES),
                _ => KeyCode::Char(dice.pick(CHARS)),
            };
            peer.now += dice.pick(&[0, 1, 30, 700]);
            peer.take(Message::Key(KeyEvent::new(code, modifiers)));
        }
        6..9 => {
            let c = dice.pick(CHARS);
            peer.take(Message::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
        }
        9 => peer.take(Message::Paste(dice.pick(TEXTS).repeat(1 + dice.roll(40)))),
        10 => {
            let columns = u16::try_from(dice.roll(150)).unwrap();
            let rows = u16::try_from(dice.roll(50)).unwrap();
            peer.take(Message::Resize(columns, rows));
        }
        11 => peer.disconnect(),
        12 => peer.link(Input::LinkOpened),
        13 => {
            let text = dice.pick(TEXTS);
            peer.queue_entries(&[text, "second"]);
        }
        14 => {
            peer.queue.entries.truncate(dice.roll(3));
            peer.queue.auto_run = !peer.queue.auto_run;
            peer.tell_queue();
        }
        15 => peer.ask(dice.pick(TEXTS)),
        16 => peer.end_turn(),
        17..20 => {
            let role = dice.pick(&[Role::User, Role::Agent, Role::Thought, Role::Tool, Role::Plan]);
            let status = dice.pick(&[
                MessageStatus::Streaming,
                MessageStatus::Complete,
                MessageStatus::Failed,
                MessageStatus::Uncertain,
            ]);
            let turn = peer.session.turn.map(|turn| turn.id);
            peer.speak_as(role, turn, dice.pick(TEXTS), status, MessageMetadata::default());
        }
        20 => {
            let turn = peer.run_turn();
            peer.notice(turn, Notice::TurnInterrupted, dice.pick(TEXTS));
        }
        21 => {
            peer.admit = match dice.roll(3) {
                0 => Admit::Accept,
                1 => Admit::Silence,
                _ => Admit::Refuse(refusal(ErrorCode::QueueFull)),
            };
        }
        22 => peer.take(Message::Attention(dice.pick(&[Attention::Here, Attention::Elsewhere]))),
        _ => peer.pass(dice.pick(&[10, 500, 20_000])),
    }
}

/// Whatever happens in whatever order at whatever size: no panic, nothing is drawn outside, the
/// caret is on the screen, and no control character reaches a cell.
#[test]
fn anything_can_happen_at_any_size() {
    let seeds = match std::env::var("USHER_FUZZ_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..12).collect(),
    };
    for seed in seeds {
        let mut dice = Dice(seed);
        let journaling = if seed % 2 == 0 { Journaling::Off } else { Journaling::Adopting };
        let mut peer = Peer::journaling(80, 24, journaling);
        peer.connect();
        for number in 0..150 {
            step(&mut peer, &mut dice);
            let (buffer, caret) = drawn(&peer.state);
            let context = format!("USHER_FUZZ_SEED={seed}, step {number}");
            if let Some(caret) = caret {
                assert!(buffer.area.contains(caret), "{context}: caret {caret:?}");
            }
            let mut symbols = buffer.content.iter().map(ratatui::buffer::Cell::symbol);
            assert!(
                symbols.all(|symbol| !symbol.contains(|c: char| {
                    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
                })),
                "{context}"
            );
        }
    }
}
