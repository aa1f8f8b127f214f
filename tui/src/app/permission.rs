//! The agent's open question.
//!
//! Its card appears by itself but then takes keys only after half a second in which nothing was
//! typed, and never while there is a draft: a prompt being written can never answer it, however long
//! its writer stops to think. Whoever goes to it by hand can answer at once. Enter never answers.

use usher_shared::id::PermissionId;
use usher_shared::protocol::session::{
    Permission, PermissionKind, PermissionOption, PermissionRespondParams,
};
use usher_shared::time::MonoMillis;

use super::calls::Asked;
use super::state::State;
use crate::keymap::{Command, Context, Key, key_for, text_of};
use crate::view::clean::Clean;
use crate::view::wrap::{pack, wrap};

/// How long nothing may be typed before the card takes keys, milliseconds.
const GUARD_MS: u64 = 500;
/// Rows of one agent's call before it is cut.
const CALL_ROWS_MAX: usize = 3;

/// The card of the open question.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Card {
    question: Option<Question>,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    id: PermissionId,
    guard: Guard,
    wish: Wish,
    detail: Detail,
}

/// What keeps keys that were meant for the draft from answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// It took the focus by itself, or something was typed since: quiet since then.
    QuietSince(MonoMillis),
    /// Its person came to it: the next key is meant for it.
    None,
}

impl Guard {
    /// When it falls.
    fn falls_at(self) -> Option<MonoMillis> {
        match self {
            Self::QuietSince(since) => Some(since.plus(GUARD_MS)),
            Self::None => None,
        }
    }
}

/// What the person did with the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// Nothing yet.
    Open,
    /// Went back to the chat; the question stays open.
    Aside,
    /// Answered; the server has not confirmed it yet.
    Answered,
}

/// How much of the call is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// Its first rows.
    Start,
    /// As much as fits.
    Whole,
}

/// Whether the card takes keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CardFocus {
    /// There is no question.
    None,
    /// Not yet: something was typed a moment ago.
    Guarded,
    /// It takes keys.
    Focused,
    /// The person is back in the chat.
    Aside,
    /// An answer is on its way.
    Answered,
}

impl Card {
    /// Takes the question as it is now. Tells whether it is a new one.
    pub(crate) fn sync(&mut self, permission: Option<&Permission>, now: MonoMillis) -> bool {
        let known = self.question.map(|question| question.id);
        let current = permission.map(|permission| permission.request_id);
        if known == current {
            return false;
        }
        self.question = current.map(|id| Question {
            id,
            guard: Guard::QuietSince(now),
            wish: Wish::Open,
            detail: Detail::Start,
        });
        current.is_some()
    }

    /// Returns whether it takes keys.
    pub(crate) fn focus(&self, now: MonoMillis) -> CardFocus {
        match self.question {
            None => CardFocus::None,
            Some(question) => match question.wish {
                Wish::Answered => CardFocus::Answered,
                Wish::Aside => CardFocus::Aside,
                Wish::Open => match question.guard.falls_at() {
                    Some(falls_at) if now < falls_at => CardFocus::Guarded,
                    Some(_) | None => CardFocus::Focused,
                },
            },
        }
    }

    /// When it begins to take keys.
    pub(crate) fn deadline(&self, now: MonoMillis) -> Option<MonoMillis> {
        let question = self.question?;
        question.guard.falls_at().filter(|_| self.focus(now) == CardFocus::Guarded)
    }

    /// Something was typed while it did not take keys.
    pub(crate) fn typed(&mut self, now: MonoMillis) {
        if let Some(question) = &mut self.question {
            question.guard = Guard::QuietSince(now);
        }
    }

    /// Whether its person came to it.
    fn was_asked_for(&self) -> bool {
        self.question.is_some_and(|question| question.guard == Guard::None)
    }

    fn detail(&self) -> Detail {
        self.question.map_or(Detail::Start, |question| question.detail)
    }

    pub(crate) fn toggle_detail(&mut self) {
        if let Some(question) = &mut self.question {
            question.detail = match question.detail {
                Detail::Start => Detail::Whole,
                Detail::Whole => Detail::Start,
            };
        }
    }

    pub(crate) fn step_aside(&mut self) {
        self.set_wish(Wish::Aside);
    }

    /// Takes keys again, at once: its person asked for it.
    pub(crate) fn come_back(&mut self) {
        if let Some(question) = &mut self.question
            && question.wish != Wish::Answered
        {
            question.wish = Wish::Open;
            question.guard = Guard::None;
        }
    }

    /// The server has the answer; its news of it closes the card.
    pub(crate) fn answered(&mut self) {
        self.set_wish(Wish::Answered);
    }

    /// The answer did not get there.
    pub(crate) fn not_answered(&mut self) {
        self.set_wish(Wish::Open);
    }

    fn set_wish(&mut self, wish: Wish) {
        if let Some(question) = &mut self.question {
            question.wish = wish;
        }
    }
}

/// Returns the options of a question with the key of each: by kind; further ones of a kind by
/// their number.
fn keys(options: &[PermissionOption]) -> Vec<(Key, &PermissionOption)> {
    let first = |kind| options.iter().position(|option| option.kind == kind);
    let numbered = options.iter().enumerate();
    numbered
        .filter_map(|(index, option)| {
            let c = if first(option.kind) == Some(index) {
                letter(option.kind)
            } else {
                char::from_digit(u32::try_from(index + 1).ok()?, 10)?
            };
            Some((Key::plain(c), option))
        })
        .collect()
}

/// The keys that answer, as the list of keys shows them, and the name of each text.
pub(crate) const ANSWER_KEYS: &[(&str, &str)] = &[
    ("a", "tui-key-allow-once"),
    ("A", "tui-key-allow-always"),
    ("r", "tui-key-reject-once"),
    ("R", "tui-key-reject-always"),
    ("2-9", "tui-key-other-answer"),
];

fn letter(kind: PermissionKind) -> char {
    match kind {
        PermissionKind::AllowOnce => 'a',
        PermissionKind::AllowAlways => 'A',
        PermissionKind::RejectOnce => 'r',
        PermissionKind::RejectAlways => 'R',
    }
}

impl State {
    /// Returns the rows that say what the agent wants to do.
    pub(crate) fn permission_rows(&self, columns: usize, rows_max: usize) -> Vec<Clean> {
        let session = self.mirror().map(|mirror| mirror.session());
        let Some(permission) = session.and_then(|session| session.permission.as_ref()) else {
            return Vec::new();
        };
        let text = if permission.tool.is_empty() || permission.title.contains(&permission.tool) {
            permission.title.clone()
        } else {
            self.localizer.text_with(
                "tui-permission-call",
                &[
                    ("tool", permission.tool.as_str().into()),
                    ("title", permission.title.as_str().into()),
                ],
            )
        };
        let mut rows = wrap(&text, columns);
        let rows_max = match self.permission.detail() {
            Detail::Start => CALL_ROWS_MAX,
            Detail::Whole => rows_max.max(CALL_ROWS_MAX),
        };
        if rows.len() > rows_max {
            rows.truncate(rows_max);
            if let Some(last) = rows.last_mut() {
                let mark = Clean::line(self.theme.signs.cut);
                *last = last.cut(columns.saturating_sub(1), "").and(&mark);
            }
        }
        rows
    }

    /// Returns whether the card takes keys: with a draft only if its person came to it.
    pub(crate) fn card_focus(&self) -> CardFocus {
        let has_draft = !self.composer.buffer().is_empty();
        match self.permission.focus(self.now) {
            CardFocus::Guarded | CardFocus::Focused
                if has_draft && !self.permission.was_asked_for() =>
            {
                CardFocus::Aside
            }
            focus => focus,
        }
    }

    /// Returns the rows that say which key gives which answer.
    pub(crate) fn permission_options(&self, columns: usize) -> Vec<Clean> {
        let session = self.mirror().map(|mirror| mirror.session());
        let Some(permission) = session.and_then(|session| session.permission.as_ref()) else {
            return Vec::new();
        };
        let items: Vec<String> = match self.card_focus() {
            CardFocus::Answered => vec![self.localizer.text("tui-permission-answered")],
            CardFocus::Aside => {
                let key = key_for(Context::Chat, Command::FocusPermission);
                let key = key.map(|key| key.to_string()).unwrap_or_default();
                vec![self.localizer.text_with("tui-permission-aside", &[("key", key.into())])]
            }
            CardFocus::None | CardFocus::Guarded | CardFocus::Focused => {
                let options = keys(&permission.options);
                let options =
                    options.into_iter().map(|(key, option)| format!("{key} {}", option.name));
                let show_all = key_for(Context::Permission, Command::ShowAll);
                let show_all = show_all
                    .map(|key| format!("{key} {}", self.localizer.text("tui-permission-show-all")));
                options.chain(show_all).collect()
            }
        };
        let items: Vec<Clean> = items.iter().map(|item| Clean::line(item)).collect();
        pack(&items, columns, self.theme.signs.dot, self.theme.signs.cut)
    }

    /// Answers the open question with the option of `key`. Any other character begins a draft, and with
    /// that the card takes no more keys: whoever types a sentence does not answer with its letters.
    pub(crate) fn answer(&mut self, key: crossterm::event::KeyEvent) {
        let Some(mirror) = self.mirror() else { return };
        let session = mirror.session();
        let Some(permission) = &session.permission else {
            return;
        };
        let options = keys(&permission.options);
        let chosen = options.iter().find(|(name, _)| name.matches(key));
        if let Some((_, option)) = chosen {
            let request = PermissionRespondParams {
                identity: session.identity(),
                request_id: permission.request_id,
                option_id: option.option_id.clone(),
            };
            self.permission.answered();
            self.call(Asked::Answer, &request);
        } else if let Some(c) = text_of(key) {
            self.type_char(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(kind: PermissionKind, name: &str) -> PermissionOption {
        PermissionOption { option_id: name.to_owned(), name: name.to_owned(), kind }
    }

    #[test]
    fn the_list_of_keys_names_those_that_answer() {
        let kinds = [
            PermissionKind::AllowOnce,
            PermissionKind::AllowAlways,
            PermissionKind::RejectOnce,
            PermissionKind::RejectAlways,
        ];
        let listed: Vec<_> = ANSWER_KEYS.iter().map(|(key, _)| (*key).to_owned()).take(4).collect();
        assert_eq!(listed, kinds.map(|kind| letter(kind).to_string()));
    }

    #[test]
    fn keys_follow_the_kind_whatever_the_order() {
        let options = [
            option(PermissionKind::RejectOnce, "no"),
            option(PermissionKind::AllowAlways, "always"),
            option(PermissionKind::AllowOnce, "yes"),
            option(PermissionKind::AllowOnce, "yes, here"),
        ];
        let named: Vec<_> = keys(&options)
            .into_iter()
            .map(|(key, option)| format!("{key} {}", option.name))
            .collect();
        assert_eq!(named, ["r no", "A always", "a yes", "4 yes, here"]);
    }
}
