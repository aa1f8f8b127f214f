//! A prompt as an agent gets it, and the text that it is for agents that take only text.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::comments;
use crate::domain::enclosed::{Attachment, Enclosed, Reference};
use crate::domain::plan::Comment;

/// One prompt, as the agent gets it.
#[derive(Clone, Default)]
pub struct AgentPrompt {
    /// The text, byte for byte as admitted.
    pub text: String,
    /// What it carries beside its text.
    pub enclosed: Enclosed,
    /// A file for each attachment, in their order; the turn's own, gone when it is over.
    pub paths: Vec<PathBuf>,
    /// The model to use; None: the agent's own choice.
    pub model: Option<String>,
    /// Whether to use the agent's plan mode for this turn.
    pub plan_mode: bool,
    /// The plan comments that it answers.
    pub comments: Vec<Comment>,
}

impl AgentPrompt {
    /// Returns everything as one text: the prompt byte for byte, and behind a blank line what it
    /// carries, under one heading a kind and on one whole line each, and below that its plan comments.
    /// Of nothing carried, nothing is said.
    ///
    /// ```text
    /// Attachments:
    /// - PATH (MIME TYPE, SIZE bytes)
    /// Context:
    /// - PATH
    /// References:
    /// - file ID (TITLE)
    /// ```
    pub fn as_text(&self) -> String {
        let attachments = self.enclosed.attachments.iter().zip(&self.paths);
        let attachments = attachments.map(|(one, path)| attachment(one, &path.to_string_lossy()));
        comments::with_text(self.with_lists(attachments.collect()), &self.comments)
    }

    /// The same for an agent that opens no file, without the comments: attachments by their names.
    pub fn told(&self) -> String {
        let attachments = self.enclosed.attachments.iter();
        self.with_lists(attachments.map(|one| attachment(one, &one.name)).collect())
    }

    fn with_lists(&self, attachments: Vec<String>) -> String {
        let files = self.enclosed.files.iter().map(|file| match file.is_directory {
            true => format!("{} (directory)", line(&file.path)),
            false => line(&file.path),
        });
        let references = self.enclosed.references.iter().map(reference);
        let lists = [
            ("Attachments", attachments),
            ("Context", files.collect()),
            ("References", references.collect()),
        ];
        let mut text = self.text.clone();
        let mut before = if text.is_empty() { "" } else { "\n\n" };
        for (heading, list) in lists {
            if list.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{before}{heading}:");
            for item in list {
                let _ = writeln!(text, "- {item}");
            }
            before = "";
        }
        text
    }
}

fn attachment(one: &Attachment, place: &str) -> String {
    format!("{place} ({}, {} bytes)", one.mime_type, one.size_bytes)
}

fn reference(one: &Reference) -> String {
    let kind = one.kind;
    match &one.title {
        Some(title) => format!("{kind} {} ({})", line(&one.id), line(title)),
        None => format!("{kind} {}", line(&one.id)),
    }
}

/// What a client chose stays on its line.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use usher_shared::id::AttachmentId;
    use usher_shared::vocabulary::{AttachmentKind, DeliveryMode, ReferenceKind};

    use super::*;
    use crate::domain::enclosed::ContextFile;

    #[test]
    fn a_prompt_alone_is_its_text_and_what_it_carries_follows_in_lists() {
        let text = "do it\n".to_owned();
        let bare = AgentPrompt { text: text.clone(), ..AgentPrompt::default() };
        assert_eq!(bare.as_text(), text);
        let enclosed = Enclosed {
            attachments: vec![Attachment {
                id: AttachmentId::default(),
                kind: AttachmentKind::Resource,
                name: "My Report.pdf".to_owned(),
                mime_type: "application/pdf".to_owned(),
                size_bytes: 7,
                delivery: DeliveryMode::Prompt,
            }],
            references: vec![
                Reference { kind: ReferenceKind::File, id: "a\nb".to_owned(), title: None },
                Reference {
                    kind: ReferenceKind::Task,
                    id: "t".to_owned(),
                    title: Some("T".to_owned()),
                },
            ],
            files: vec![ContextFile {
                path: "src".to_owned(),
                name: "src".to_owned(),
                is_directory: true,
            }],
            comments: Vec::new(),
        };
        let paths = vec![PathBuf::from("/turn/1/My Report.pdf")];
        let lists = "Attachments:\n- /turn/1/My Report.pdf (application/pdf, 7 bytes)\n\
                     Context:\n- src (directory)\nReferences:\n- file a b\n- task t (T)\n";
        let full = AgentPrompt { text, enclosed, paths, ..AgentPrompt::default() };
        assert_eq!(full.as_text(), format!("do it\n\n\n{lists}"));
        let silent = AgentPrompt { text: String::new(), ..full };
        assert_eq!(silent.as_text(), lists);
        assert_eq!(silent.told(), lists.replace("/turn/1/", ""));
    }
}
