//! Plan comments as text, for agents that know nothing of plans: below the prompt, one after the other,
//! each with the step that it is about and what it quotes.

use crate::domain::plan::Comment;

/// Above all comments.
const HEADING: &str = "Comments on the plan:";

/// Returns a prompt with its comments below it.
///
/// ```text
/// The prompt, if it has any text.
///
/// Comments on the plan:
///
/// On step 2, "Change the fixture":
/// > the fixture
/// Why not the test?
/// ```
pub(super) fn with_text(text: String, comments: &[Comment]) -> String {
    if comments.is_empty() {
        return text;
    }
    let said = in_words(comments);
    match text.trim().is_empty() {
        true => said,
        false => [&text, "\n\n", &said].concat(),
    }
}

/// Returns the comments alone.
pub(super) fn in_words(comments: &[Comment]) -> String {
    let each = comments.iter().map(|comment| [&about(comment), "\n", &comment.body].concat());
    [HEADING.to_owned()].into_iter().chain(each).collect::<Vec<_>>().join("\n\n")
}

fn about(comment: &Comment) -> String {
    let subject = &comment.subject;
    let mut lines = vec![match (subject.entry_index, &subject.entry_text) {
        (Some(index), Some(text)) => format!("On step {}, \"{text}\":", index.saturating_add(1)),
        _ => "On the plan:".to_owned(),
    }];
    let selected = subject.selected_text.as_deref().unwrap_or_default();
    lines.extend(selected.lines().map(|line| format!("> {line}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use usher_shared::counter::CommentVersion;
    use usher_shared::id::PlanCommentId;

    use super::*;
    use crate::domain::plan::Subject;

    fn comment(step: Option<(u64, &str)>, selected: Option<&str>, body: &str) -> Comment {
        Comment {
            id: PlanCommentId::default(),
            version: CommentVersion::new(1),
            subject: Subject {
                entry_index: step.map(|(index, _)| index),
                entry_text: step.map(|(_, text)| text.to_owned()),
                selected_text: selected.map(str::to_owned),
            },
            body: body.to_owned(),
            consumed_by: None,
        }
    }

    #[test]
    fn each_comment_says_what_it_is_about() {
        let comments = [
            comment(Some((1, "Change it")), Some("it\nall"), "Why?\nReally?"),
            comment(None, None, "Fine"),
        ];
        let said = "Comments on the plan:\n\nOn step 2, \"Change it\":\n> it\n> all\nWhy?\nReally?\n\n\
                    On the plan:\nFine";
        assert_eq!(with_text("go\n".to_owned(), &comments), format!("go\n\n\n{said}"));
        assert_eq!(with_text(" ".to_owned(), &comments), said);
        assert_eq!(with_text(" go".to_owned(), &[]), " go");
    }
}
