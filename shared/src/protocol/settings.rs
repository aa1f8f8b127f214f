//! What a user chooses about queues, and what is in force.

use serde::{Deserialize, Serialize};

use super::actions;
pub use crate::vocabulary::SettingSource;

/// `settings.get`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsGetParams {}

/// `settings.set`: changes what it names; one locked key and nothing is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsSetParams {
    /// Stored entries of one session, at most [`crate::limits::ENTRIES_MAX`]; 0: no cap. Omitted:
    /// as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_per_session: Option<u64>,
    /// Whether entries can be merged by hand. Omitted: as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_enabled: Option<bool>,
    /// Whether new prompts fold into the last one that waits. Omitted: as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_merge_enabled: Option<bool>,
}

/// What a user saved; null: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSettings {
    /// Stored entries of one session; 0: no cap.
    pub max_per_session: Option<u32>,
    /// Whether entries can be merged by hand.
    pub merge_enabled: Option<bool>,
    /// Whether new prompts fold into the last one that waits.
    pub auto_merge_enabled: Option<bool>,
}

/// A value in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveSetting<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub source: SettingSource,
    /// Whether it cannot be set: `forbidden`.
    pub locked: bool,
}

/// Everything in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveSettings {
    /// Stored entries of one session; 0: no cap.
    pub max_per_session: EffectiveSetting<u32>,
    /// Whether entries can be merged by hand.
    pub merge_enabled: EffectiveSetting<bool>,
    /// Whether new prompts fold into the last one that waits.
    pub auto_merge_enabled: EffectiveSetting<bool>,
}

/// The answer to both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsReply {
    /// What the caller saved.
    pub settings: SavedSettings,
    /// What is in force for the caller.
    pub effective: EffectiveSettings,
}

actions! {
    SettingsGetParams => "settings.get" => SettingsReply;
    SettingsSetParams => "settings.set" => SettingsReply;
}
