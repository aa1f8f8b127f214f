use super::*;

const FAMILY: &str = "👨‍👩‍👧‍👦";
const COLUMNS: usize = 40;

fn at(millis: u64) -> MonoMillis {
    MonoMillis::new(millis)
}

fn typed(text: &str) -> Composer {
    let mut composer = Composer::default();
    for c in text.chars() {
        match c {
            '\n' => composer.apply(Edit::Newline, COLUMNS),
            c => composer.insert_char(c),
        }
    }
    composer
}

fn apply(composer: &mut Composer, edits: &[Edit]) {
    for edit in edits {
        composer.apply(*edit, COLUMNS);
    }
}

/// The text with a `|` where the caret is.
fn shown(composer: &Composer) -> String {
    let mut text = composer.buffer().text().to_owned();
    text.insert(composer.buffer().caret(), '|');
    text
}

/// Sends the keys of `text` one every `gap` milliseconds, as a terminal without paste marks does.
fn burst(composer: &mut Composer, text: &str, start: u64, gap: u64) -> Vec<Enter> {
    let mut verdicts = Vec::new();
    for (index, c) in text.chars().enumerate() {
        let now = at(start + gap * index as u64);
        match c {
            '\r' | '\n' => verdicts.push(composer.press_enter(now)),
            c => verdicts.extend(composer.type_char(c, now)),
        }
    }
    verdicts
}

#[test]
fn c119_a_marked_paste_is_one_draft_of_four_lines() {
    let mut composer = Composer::default();
    composer.paste("a\nb\r\nc\rd");
    assert_eq!(composer.buffer().text(), "a\nb\nc\nd");
    assert_eq!(composer.press_enter(at(1)), Enter::Submit);
    assert_eq!(composer.take(), "a\nb\nc\nd");
}

#[test]
fn c119_a_burst_without_marks_never_submits_until_a_separate_enter() {
    for gap in [0, 1, 5] {
        let mut composer = Composer::default();
        let verdicts = burst(&mut composer, "a\rb\rc\rd", 1_000, gap);
        assert!(!verdicts.contains(&Enter::Submit), "{verdicts:?}");
        assert_eq!(composer.decide_enter(), None);
        assert_eq!(composer.buffer().text(), "a\nb\nc\nd");
        assert_eq!(composer.press_enter(at(2_000)), Enter::Submit);
    }
}

#[test]
fn line_ends_in_a_row_and_at_the_end_belong_to_the_burst() {
    let mut composer = Composer::default();
    let text = "fn main() {\r\r}\r";
    let verdicts = burst(&mut composer, text, 0, 0);
    assert!(!verdicts.contains(&Enter::Submit), "{verdicts:?}");
    assert_eq!(composer.decide_enter(), None);
    assert_eq!(composer.buffer().text(), "fn main() {\n\n}\n");
}

#[test]
fn a_kilobyte_burst_of_one_line_does_not_submit() {
    let mut composer = Composer::default();
    let text = format!("{}\r", "x".repeat(1_000));
    assert_eq!(burst(&mut composer, &text, 0, 0), [Enter::Held]);
    assert_eq!(composer.decide_enter(), Some(Enter::Newline));
}

#[test]
fn a_short_line_that_arrived_at_once_submits_after_a_moment() {
    let mut composer = Composer::default();
    for line in ["ok", "a line as long as those that scripts type into a terminal multiplexer, one"]
    {
        assert_eq!(burst(&mut composer, &format!("{line}\r"), 0, 0), [Enter::Held]);
        assert!(composer.deadline().is_some());
        assert_eq!(composer.decide_enter(), Some(Enter::Submit));
        assert_eq!(composer.take(), line);
    }
}

#[test]
fn a_burst_is_undone_as_a_whole() {
    let mut composer = typed("mine ");
    burst(&mut composer, "abc one two\rthree four", 0, 0);
    assert_eq!(composer.buffer().text(), "mine abc one two\nthree four");
    apply(&mut composer, &[Edit::Undo]);
    assert_eq!(composer.buffer().text(), "mine ");
}

#[test]
fn typing_at_any_human_speed_submits_at_once() {
    let mut composer = Composer::default();
    assert_eq!(burst(&mut composer, "hello\r", 0, 30), [Enter::Submit]);
}

#[test]
fn after_one_marked_paste_a_burst_with_enter_submits_at_once() {
    let mut composer = Composer::default();
    composer.paste("x");
    assert_eq!(burst(&mut composer, "abc\r", 0, 0), [Enter::Submit]);
}

#[test]
fn c121_huge_pastes_are_one_unit_and_exact() {
    for text in ["x".repeat(2 * 1024 * 1024), "line\n".repeat(100_000), "😀".repeat(75_000)] {
        let mut composer = Composer::default();
        composer.paste(&text);
        let rows = composer.layout(COLUMNS, |_| Clean::line("[pasted]"));
        assert_eq!(rows.height(), 1);
        apply(&mut composer, &[Edit::LineStart, Edit::LineEnd]);
        assert_eq!(composer.take(), text);
        composer.paste(&text);
        apply(&mut composer, &[Edit::Backspace]);
        assert!(composer.buffer().is_empty());
        apply(&mut composer, &[Edit::Undo]);
        assert_eq!(composer.buffer().text(), text);
    }
}

#[test]
fn c122_line_ends_and_multi_byte_text_keep_the_caret_right() {
    for (paste, after) in [("é\r\néx", "z|\nx"), ("👨‍👩‍👧‍👦\r\n👨‍👩‍👧‍👦x", "z|\nx")]
    {
        let mut composer = Composer::default();
        composer.paste(paste);
        apply(
            &mut composer,
            &[
                Edit::Left,
                Edit::Left,
                Edit::Left,
                Edit::Left,
                Edit::Backspace,
                Edit::Delete,
                Edit::LineStart,
            ],
        );
        composer.insert_char('z');
        // Four to the left is the very start: Backspace has nothing to take, Delete takes one.
        let rest = paste.split_once("\r\n").unwrap().1;
        assert_eq!(shown(&composer), after.replace('x', rest));
    }
}

#[test]
fn one_grapheme_goes_per_key() {
    let mut composer = typed("e\u{301}🇩🇪👨‍👩‍👧‍👦漢");
    let mut left = Vec::new();
    while !composer.buffer().is_empty() {
        apply(&mut composer, &[Edit::Backspace]);
        left.push(composer.buffer().text().to_owned());
    }
    let family = format!("e\u{301}🇩🇪{FAMILY}");
    assert_eq!(left, [&family, "e\u{301}🇩🇪", "e\u{301}", ""]);
}

#[test]
fn readline_keys_cut_and_bring_back() {
    let mut composer = typed("one two/three");
    apply(&mut composer, &[Edit::CutWordLeft]);
    assert_eq!(shown(&composer), "one two/|");
    apply(&mut composer, &[Edit::CutBlankLeft]);
    assert_eq!(shown(&composer), "one |");
    apply(&mut composer, &[Edit::Paste]);
    assert_eq!(shown(&composer), "one two/|");
    apply(&mut composer, &[Edit::LineStart, Edit::CutWordRight]);
    assert_eq!(shown(&composer), "| two/");
    apply(&mut composer, &[Edit::CutToLineEnd]);
    assert_eq!(shown(&composer), "|");
    apply(&mut composer, &[Edit::Paste, Edit::CutToLineStart]);
    assert_eq!(shown(&composer), "|");
}

#[test]
fn cleared_text_comes_back_with_undo() {
    let mut composer = typed("a long draft");
    apply(&mut composer, &[Edit::Clear]);
    assert_eq!(shown(&composer), "|");
    apply(&mut composer, &[Edit::Undo]);
    assert_eq!(shown(&composer), "a long draft|");
}

#[test]
fn words_are_undone_one_by_one() {
    let mut composer = typed("ab cd");
    apply(&mut composer, &[Edit::Undo]);
    assert_eq!(shown(&composer), "ab |");
    apply(&mut composer, &[Edit::Undo, Edit::Undo, Edit::Undo, Edit::Undo]);
    assert_eq!(shown(&composer), "|");
}

#[test]
fn c124_up_moves_within_the_text_first_then_through_history() {
    let mut composer = typed("sent");
    composer.take();
    for c in "one\ntwo\nthree".chars() {
        match c {
            '\n' => composer.apply(Edit::Newline, COLUMNS),
            c => composer.insert_char(c),
        }
    }
    let mut seen = vec![shown(&composer)];
    for _ in 0..4 {
        apply(&mut composer, &[Edit::Up]);
        seen.push(shown(&composer));
    }
    assert_eq!(
        seen,
        ["one\ntwo\nthree|", "one\ntwo|\nthree", "one|\ntwo\nthree", "sent|", "sent|"]
    );
    apply(&mut composer, &[Edit::Down]);
    assert_eq!(shown(&composer), "one|\ntwo\nthree");
}

#[test]
fn c124_changed_drafts_stay_while_history_is_looked_at() {
    let mut composer = typed("first");
    composer.take();
    composer.bring_back("second");
    composer.take();
    composer.bring_back("draft");
    apply(&mut composer, &[Edit::Up]);
    composer.insert_char('!');
    apply(&mut composer, &[Edit::Up]);
    assert_eq!(shown(&composer), "first|");
    apply(&mut composer, &[Edit::Down]);
    assert_eq!(shown(&composer), "second!|");
    apply(&mut composer, &[Edit::Down]);
    assert_eq!(shown(&composer), "draft|");
    apply(&mut composer, &[Edit::Down]);
    assert_eq!(shown(&composer), "draft|");
}

#[test]
fn up_with_nothing_to_go_to_changes_nothing() {
    let mut composer = Composer::default();
    apply(&mut composer, &[Edit::Up, Edit::Down]);
    assert_eq!(shown(&composer), "|");
    let mut composer = typed("x");
    apply(&mut composer, &[Edit::Up, Edit::Up, Edit::Down]);
    assert_eq!(shown(&composer), "x|");
}

#[test]
fn a_folded_paste_comes_back_folded_from_history() {
    let text = "log line\n".repeat(200);
    let mut composer = Composer::default();
    composer.paste(&text);
    composer.take();
    apply(&mut composer, &[Edit::Up]);
    assert_eq!(composer.buffer().units().count(), 1);
    assert_eq!(composer.take(), text);
}

#[test]
fn a_folded_paste_comes_back_folded_when_it_is_refused() {
    let text = "log line\n".repeat(200);
    let mut composer = Composer::default();
    composer.paste(&text);
    composer.take();
    composer.bring_back(&text);
    assert_eq!(composer.buffer().units().count(), 1);
    assert_eq!(composer.buffer().text(), text);
}

#[test]
fn up_and_down_keep_the_column_over_short_rows() {
    let mut composer = typed("abcdef\nx\nuvwxyz");
    apply(&mut composer, &[Edit::Left, Edit::Up, Edit::Up]);
    assert_eq!(shown(&composer), "abcde|f\nx\nuvwxyz");
}

#[test]
fn down_visits_every_row_of_a_wrapped_line() {
    let mut composer = typed("aaaa bbbb cccc dddd");
    composer.apply(Edit::LineStart, 6);
    let mut carets = vec![composer.buffer().caret()];
    for _ in 0..3 {
        composer.apply(Edit::Down, 6);
        carets.push(composer.buffer().caret());
    }
    assert_eq!(carets, [0, 5, 10, 15]);
}

#[test]
fn random_edits_never_lose_the_caret() {
    let edits = [
        Edit::Newline,
        Edit::Backspace,
        Edit::Delete,
        Edit::Left,
        Edit::Right,
        Edit::WordLeft,
        Edit::WordRight,
        Edit::LineStart,
        Edit::LineEnd,
        Edit::Up,
        Edit::Down,
        Edit::CutToLineEnd,
        Edit::CutToLineStart,
        Edit::CutBlankLeft,
        Edit::CutWordLeft,
        Edit::CutWordRight,
        Edit::Paste,
        Edit::Undo,
        Edit::Clear,
    ];
    let chars = ['a', ' ', '漢', '\u{301}', '\u{200d}', '👩', '🇩', '\t', '\u{202e}'];
    let long = "é\r\n".repeat(501);
    for seed in 1..12u64 {
        let mut state = seed;
        let mut next = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % bound
        };
        let mut composer = Composer::default();
        for _ in 0..400 {
            match next(12) {
                0..6 => composer.insert_char(chars[next(chars.len())]),
                6 => composer.paste(&long),
                7 if next(4) == 0 => drop(composer.take()),
                _ => composer.apply(edits[next(edits.len())], 3 + next(20)),
            }
            if composer.buffer().text().len() > 4_000 {
                composer.apply(Edit::Clear, COLUMNS);
            }
            let buffer = composer.buffer();
            let caret = buffer.caret();
            let stands = caret == 0 || buffer.units().any(|unit| unit.range.end == caret);
            assert!(stands, "seed {seed}: {buffer:?}");
            let layout = composer.layout(10, |_| Clean::line("[pasted]"));
            assert!(layout.place(caret).row < layout.height(), "seed {seed}");
        }
    }
}
