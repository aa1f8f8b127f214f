//! The one way into the state.

use usher_shared::client::Input;
use usher_shared::time::MonoMillis;

use super::ask::Toast;
use super::message::{Effect, Message};
use super::state::State;

/// Takes one message and says what is to be done about it, in order.
pub fn update(state: &mut State, message: Message, now: MonoMillis) -> Vec<Effect> {
    state.now = now.max(state.now);
    match message {
        Message::Key(event) => state.key(event),
        Message::Paste(text) => state.paste(&text),
        Message::Resize(columns, rows) => state.size = (columns, rows),
        Message::Attention(attention) => state.attention = attention,
        Message::Link(input) => {
            match *input {
                Input::Start => {
                    state.start_sessions();
                    state.ask_for_homeless_draft();
                }
                Input::LinkOpened => state.trouble = None,
                _ => {}
            }
            state.engine.handle(*input, state.now);
        }
        Message::Trouble(trouble) => state.trouble = trouble,
        Message::Drafts(drafts) => state.take_drafts(drafts),
        Message::Tick => tick(state),
    }
    state.pump();
    state.watch_draft();
    state.drop_notice_of_no_draft();
    std::mem::take(&mut state.effects)
}

fn tick(state: &mut State) {
    let now = state.now;
    let due = |at: Option<MonoMillis>| at.is_some_and(|at| at <= now);
    if due(state.composer.deadline()) {
        state.decide_enter();
    }
    if due(state.ask.map(|ask| ask.until)) {
        state.ask = None;
    }
    if due(state.toast.as_ref().and_then(Toast::until)) {
        state.toast = None;
    }
    if due(state.engine.next_deadline()) {
        state.engine.handle(Input::DeadlineReached, now);
    }
}
