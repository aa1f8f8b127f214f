//! The queue's settings: what is in force when several sources speak.
//!
//! The environment beats the configuration file, which beats what a user saved, which beats the
//! default. Whatever the server was started with is locked: users cannot change it.

use usher_shared::limits::QUEUE_CAP_DEFAULT;
use usher_shared::vocabulary::SettingSource;

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

impl Switch {
    /// Reads a flag.
    pub const fn of(on: bool) -> Self {
        if on { Self::On } else { Self::Off }
    }

    /// Returns the flag.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// A value that the server was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given<T> {
    /// The value.
    pub value: T,
    /// Where it was given.
    pub source: SettingSource,
}

/// What the server was started with; None: users choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenSettings {
    /// The cap on a session's stored entries.
    pub max_per_session: Option<Given<u32>>,
    /// Whether entries can be merged by hand.
    pub merge: Option<Given<Switch>>,
    /// Whether admissions fold into the tail.
    pub auto_merge: Option<Given<Switch>>,
}

/// What a user saved; None: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedSettings {
    /// The cap on a session's stored entries; 0: none.
    pub max_per_session: Option<u32>,
    /// Whether entries can be merged by hand.
    pub merge: Option<Switch>,
    /// Whether admissions fold into the tail.
    pub auto_merge: Option<Switch>,
}

/// What a queue obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePolicy {
    /// Stored entries of one session; 0: no cap of the user's choosing.
    pub max_per_session: u32,
    /// Whether entries can be merged by hand.
    pub merge: Switch,
    /// Whether admissions fold into the tail.
    pub auto_merge: Switch,
}

/// A value in force, and who decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub source: SettingSource,
}

impl<T> InForce<T> {
    /// Tells whether users cannot change it.
    pub const fn is_locked(&self) -> bool {
        match self.source {
            SettingSource::Environment | SettingSource::Configuration => true,
            SettingSource::Setting | SettingSource::Default => false,
        }
    }
}

/// Everything in force for one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The cap on a session's stored entries; 0: none.
    pub max_per_session: InForce<u32>,
    /// Whether entries can be merged by hand.
    pub merge: InForce<Switch>,
    /// Whether admissions fold into the tail.
    pub auto_merge: InForce<Switch>,
}

impl Effective {
    /// Returns what a queue obeys.
    pub const fn policy(&self) -> QueuePolicy {
        QueuePolicy {
            max_per_session: self.max_per_session.value,
            merge: self.merge.value,
            auto_merge: self.auto_merge.value,
        }
    }
}

impl GivenSettings {
    /// Returns what is in force for a user who saved this.
    pub fn over(&self, saved: &SavedSettings) -> Effective {
        Effective {
            max_per_session: in_force(
                self.max_per_session,
                saved.max_per_session,
                QUEUE_CAP_DEFAULT,
            ),
            merge: in_force(self.merge, saved.merge, Switch::On),
            auto_merge: in_force(self.auto_merge, saved.auto_merge, Switch::On),
        }
    }
}

fn in_force<T>(given: Option<Given<T>>, saved: Option<T>, default: T) -> InForce<T> {
    match (given, saved) {
        (Some(Given { value, source }), _) => InForce { value, source },
        (None, Some(value)) => InForce { value, source: SettingSource::Setting },
        (None, None) => InForce { value: default, source: SettingSource::Default },
    }
}

/// A change to what is saved; None leaves a key as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettingsPatch {
    /// The cap on a session's stored entries; 0: none.
    pub max_per_session: Option<u32>,
    /// Whether entries can be merged by hand.
    pub merge: Option<Switch>,
    /// Whether admissions fold into the tail.
    pub auto_merge: Option<Switch>,
}

/// The server was started with a value for one of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is fixed by the server's operator")]
pub struct Locked {
    /// The first such key.
    pub key: &'static str,
}

/// Applies a patch as a whole, or refuses it as a whole.
pub fn patch(
    given: &GivenSettings,
    saved: SavedSettings,
    patch: &SettingsPatch,
) -> Result<SavedSettings, Locked> {
    let locks = [
        ("max_per_session", patch.max_per_session.is_some() && given.max_per_session.is_some()),
        ("merge_enabled", patch.merge.is_some() && given.merge.is_some()),
        ("auto_merge_enabled", patch.auto_merge.is_some() && given.auto_merge.is_some()),
    ];
    if let Some((key, _)) = locks.into_iter().find(|(_, locked)| *locked) {
        return Err(Locked { key });
    }
    Ok(SavedSettings {
        max_per_session: patch.max_per_session.or(saved.max_per_session),
        merge: patch.merge.or(saved.merge),
        auto_merge: patch.auto_merge.or(saved.auto_merge),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: GivenSettings = GivenSettings {
        max_per_session: Some(Given { value: 3, source: SettingSource::Environment }),
        merge: None,
        auto_merge: Some(Given { value: Switch::Off, source: SettingSource::Configuration }),
    };

    #[test]
    fn what_the_server_was_started_with_beats_what_was_saved_beats_the_default() {
        let saved = SavedSettings {
            max_per_session: Some(7),
            merge: Some(Switch::Off),
            auto_merge: Some(Switch::On),
        };
        let effective = GIVEN.over(&saved);
        let policy =
            QueuePolicy { max_per_session: 3, merge: Switch::Off, auto_merge: Switch::Off };
        assert_eq!(effective.policy(), policy);
        assert_eq!(effective.merge.source, SettingSource::Setting);
        let locked = (
            effective.max_per_session.is_locked(),
            effective.merge.is_locked(),
            effective.auto_merge.is_locked(),
        );
        assert_eq!(locked, (true, false, true));
        let default = GivenSettings::default().over(&SavedSettings::default());
        let policy = QueuePolicy {
            max_per_session: QUEUE_CAP_DEFAULT,
            merge: Switch::On,
            auto_merge: Switch::On,
        };
        assert_eq!(default.policy(), policy);
        assert_eq!(default.max_per_session.source, SettingSource::Default);
    }

    #[test]
    fn a_patch_with_a_locked_key_changes_nothing_and_another_only_what_it_names() {
        let saved = SavedSettings { max_per_session: Some(7), ..SavedSettings::default() };
        let merge = SettingsPatch { merge: Some(Switch::Off), ..SettingsPatch::default() };
        let changed = SavedSettings { merge: Some(Switch::Off), ..saved };
        assert_eq!(patch(&GIVEN, saved, &merge), Ok(changed));
        assert_eq!(patch(&GIVEN, saved, &SettingsPatch::default()), Ok(saved));
        let both = SettingsPatch { max_per_session: Some(1), ..merge };
        assert_eq!(patch(&GIVEN, saved, &both), Err(Locked { key: "max_per_session" }));
    }
}
