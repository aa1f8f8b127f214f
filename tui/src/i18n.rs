//! Text for people, in their language.
//!
//! Owns the catalogues under `locales/` (compiled in) and the choice of one. Everything a person
//! reads comes from here; text that a server sent is never shown in its place. Message names begin
//! with the name of their file: `error-`, `cli-`, `link-` or `tui-`.

use std::borrow::Cow;

use std::rc::Rc;

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentError, FluentResource};
use unic_langid::LanguageIdentifier;
use usher_shared::error::WireError;

pub use fluent_bundle::FluentValue as Value;

/// One language: its tag and its catalogues.
struct Catalogue {
    tag: &'static str,
    sources: [&'static str; 4],
}

/// The languages, the fallback first.
const CATALOGUES: &[Catalogue] = &[Catalogue {
    tag: "en",
    sources: [
        include_str!("../../locales/en/errors.ftl"),
        include_str!("../../locales/en/cli.ftl"),
        include_str!("../../locales/en/link.ftl"),
        include_str!("../../locales/en/tui.ftl"),
    ],
}];

/// Finds text by name in the chosen language, then in English. Cheap to clone.
#[derive(Clone)]
pub struct Localizer {
    /// The chosen language first, the fallback last.
    bundles: Rc<[FluentBundle<FluentResource>]>,
}

impl Localizer {
    /// Chooses the language: `wanted` (`--lang`), else the first of `LC_ALL`, `LC_MESSAGES` and
    /// `LANG` that is set and not empty, as `environment` reads them. A language without a
    /// catalogue gives English.
    pub fn choose(wanted: Option<&str>, environment: impl Fn(&str) -> Option<String>) -> Self {
        let from_environment = || {
            ["LC_ALL", "LC_MESSAGES", "LANG"]
                .into_iter()
                .filter_map(environment)
                .find(|value| !value.is_empty())
        };
        let wanted = wanted.map(str::to_owned).or_else(from_environment);
        let chosen = wanted.as_deref().and_then(catalogue_for);
        let fallback = &CATALOGUES[0];
        let chosen = chosen.filter(|catalogue| catalogue.tag != fallback.tag);
        Self { bundles: chosen.into_iter().chain([fallback]).map(bundle).collect() }
    }

    /// Returns the English text: what tests compare with.
    pub fn english() -> Self {
        Self::choose(Some("en"), |_| None)
    }

    /// Returns the text named `id`.
    pub fn text(&self, id: &str) -> String {
        self.text_with(id, &[])
    }

    /// Returns the text named `id` with `arguments` in their places.
    pub fn text_with(&self, id: &str, arguments: &[(&str, Value<'_>)]) -> String {
        let arguments = arguments
            .iter()
            .map(|(name, value)| (*name, value.clone()))
            .collect::<FluentArgs<'_>>();
        self.find(id, &arguments).map_or_else(|| id.to_owned(), |found| found.text)
    }

    /// Returns what a person reads for `error`: by its code, never its message.
    pub fn error(&self, error: &WireError) -> String {
        let id = format!("error-{}", error.code.as_str().replace('_', "-"));
        let arguments = detail_arguments(error);
        match self.find(&id, &arguments) {
            None => id,
            Some(found) if found.faults.is_empty() => found.text,
            Some(found) => self.attribute(&id, "bare").unwrap_or(found.text),
        }
    }

    fn find(&self, id: &str, arguments: &FluentArgs<'_>) -> Option<Found> {
        self.bundles.iter().find_map(|bundle| {
            let pattern = bundle.get_message(id)?.value()?;
            let mut faults = Vec::new();
            let text = bundle.format_pattern(pattern, Some(arguments), &mut faults);
            Some(Found { text: text.into_owned(), faults })
        })
    }

    fn attribute(&self, id: &str, name: &str) -> Option<String> {
        self.bundles.iter().find_map(|bundle| {
            let attribute = bundle.get_message(id)?.get_attribute(name)?;
            let text = bundle.format_pattern(attribute.value(), None, &mut Vec::new());
            Some(text.into_owned())
        })
    }
}

impl std::fmt::Debug for Localizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let languages = self.bundles.iter().flat_map(|bundle| &bundle.locales);
        f.debug_list().entries(languages.map(ToString::to_string)).finish()
    }
}

/// A text, and what was missing for it.
struct Found {
    text: String,
    faults: Vec<FluentError>,
}

/// Turns an error's details into arguments; waits are also given in whole `seconds`.
fn detail_arguments(error: &WireError) -> FluentArgs<'_> {
    let mut arguments = FluentArgs::new();
    for (name, value) in &error.details {
        match value {
            serde_json::Value::Number(number) => {
                arguments.set(name.as_str(), number.as_f64().unwrap_or_default());
            }
            serde_json::Value::String(text) => {
                arguments.set(name.as_str(), Cow::Borrowed(text.as_str()));
            }
            serde_json::Value::Null
            | serde_json::Value::Bool(_)
            | serde_json::Value::Array(_)
            | serde_json::Value::Object(_) => {}
        }
    }
    let wait_ms = error.details.get("retry_after_ms");
    if let Some(wait_ms) = wait_ms.and_then(serde_json::Value::as_u64) {
        arguments.set("seconds", wait_ms.div_ceil(1000).max(1));
    }
    arguments
}

/// Finds the catalogue for a locale as POSIX or BCP 47 writes it (`pt_BR.UTF-8`, `pt-BR`).
fn catalogue_for(locale: &str) -> Option<&'static Catalogue> {
    let tag = locale.split(['.', '@']).next().unwrap_or_default();
    let wanted: LanguageIdentifier = tag.replace('_', "-").parse().ok()?;
    let language_of = |catalogue: &Catalogue| identifier(catalogue).language;
    CATALOGUES.iter().find(|catalogue| identifier(catalogue) == wanted).or_else(|| {
        let mut catalogues = CATALOGUES.iter();
        catalogues.find(|catalogue| language_of(catalogue) == wanted.language)
    })
}

fn identifier(catalogue: &Catalogue) -> LanguageIdentifier {
    let tag = catalogue.tag.parse();
    tag.expect("our own tags are valid")
}

fn bundle(catalogue: &Catalogue) -> FluentBundle<FluentResource> {
    let mut bundle = FluentBundle::new_concurrent(vec![identifier(catalogue)]);
    // Isolation marks are for rich text; a terminal would show or obey them.
    bundle.set_use_isolating(false);
    for source in catalogue.sources {
        let resource = FluentResource::try_new(source.to_owned());
        let resource = resource.expect("our own catalogues are valid");
        let added = bundle.add_resource(resource);
        added.expect("no name is in two catalogues");
    }
    bundle
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use usher_shared::error::ErrorCode;

    use super::*;

    #[test]
    fn every_error_code_has_a_text_with_and_without_details() {
        let localizer = Localizer::english();
        for code in ErrorCode::ALL {
            let bare = WireError::new(*code, "developer text");
            let detailed = bare
                .clone()
                .with("queue_size", 10)
                .with("max", 10)
                .with("retry_after_ms", 1)
                .with("field", "content");
            for error in [bare, detailed] {
                let text = localizer.error(&error);
                assert!(!text.starts_with("error-"), "{code}: {text}");
                assert!(!text.contains(['{', '$']), "{code}: {text}");
                assert!(text.ends_with('.'), "{code}: {text}");
                assert!(!text.contains("developer"), "{code}: {text}");
            }
        }
    }

    #[test]
    fn details_become_part_of_the_text() {
        let localizer = Localizer::english();
        let full = WireError::new(ErrorCode::QueueFull, "").with("queue_size", 12).with("max", 10);
        assert_eq!(
            localizer.error(&full),
            "The queue is full (12 of 10). Wait for a turn to end, or remove an entry."
        );
        let limited = WireError::new(ErrorCode::RateLimited, "");
        assert_eq!(
            localizer.error(&limited.clone().with("retry_after_ms", 1500)),
            "Too many requests at once. Try again in 2 seconds."
        );
        assert_eq!(
            localizer.error(&limited.with("retry_after_ms", 0)),
            "Too many requests at once. Try again in one second."
        );
    }

    #[test]
    fn the_first_set_variable_decides_and_unknown_languages_give_english() {
        let language = |wanted: Option<&str>, set: &[(&str, &str)]| {
            let localizer = Localizer::choose(wanted, |name| {
                let found = set.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            });
            format!("{localizer:?}")
        };
        for (wanted, set) in [
            (None, vec![]),
            (None, vec![("LANG", "C")]),
            (None, vec![("LC_ALL", ""), ("LANG", "en_GB.UTF-8")]),
            (None, vec![("LC_MESSAGES", "xx_YY@euro")]),
            (Some("tlh"), vec![("LANG", "en")]),
            (Some("not a tag \u{1b}[31m"), vec![]),
        ] {
            assert_eq!(language(wanted, &set), "[\"en\"]", "{wanted:?} {set:?}");
        }
    }

    #[test]
    fn an_unknown_name_is_shown_as_it_is() {
        assert_eq!(Localizer::english().text("no-such-name"), "no-such-name");
    }

    /// Every quoted name in the sources exists, and every name that exists is used.
    #[test]
    fn sources_and_catalogues_name_the_same_texts() {
        let used = names_in_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
        for catalogue in CATALOGUES {
            let known: BTreeSet<String> = catalogue.sources.iter().flat_map(|s| names(s)).collect();
            let missing: Vec<_> = used.difference(&known).collect();
            assert!(missing.is_empty(), "{}: missing {missing:?}", catalogue.tag);
            let unused: Vec<_> =
                known.difference(&used).filter(|name| !name.starts_with("error-")).collect();
            assert!(unused.is_empty(), "{}: unused {unused:?}", catalogue.tag);
        }
        let codes = ErrorCode::ALL.iter();
        let expected: BTreeSet<String> =
            codes.map(|code| format!("error-{}", code.as_str().replace('_', "-"))).collect();
        let errors: BTreeSet<String> = names(CATALOGUES[0].sources[0]).collect();
        assert_eq!(errors, expected);
    }

    fn names(source: &str) -> impl Iterator<Item = String> {
        source.lines().filter_map(|line| {
            let (name, _) = line.split_once(" =")?;
            is_name(name).then(|| name.to_owned())
        })
    }

    fn is_name(text: &str) -> bool {
        ["error-", "cli-", "link-", "tui-"]
            .iter()
            .any(|prefix| text.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()))
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    }

    fn names_in_sources(folder: &Path) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for path in rust_files(folder) {
            let source = fs::read_to_string(&path).unwrap();
            found.extend(source.split('"').filter(|text| is_name(text)).map(str::to_owned));
        }
        found
    }

    fn rust_files(folder: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files.extend(rust_files(&path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
        files
    }
}
