//! What a user chooses about queues.

use super::{Service, SettingsError};
use crate::domain::session::Caller;
use crate::domain::settings::{self, Effective, SavedSettings, SettingsPatch};
use crate::domain::{Change, Decision, Event};
use crate::store::TransactError;

/// What a user saved, and what is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingsView {
    /// What the user saved.
    pub saved: SavedSettings,
    /// What is in force for the user.
    pub effective: Effective,
}

impl Service {
    /// Returns the caller's settings.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub async fn settings(&self, caller: Caller) -> Result<SettingsView, SettingsError> {
        let given = self.given;
        self.store
            .read(move |reads| {
                let saved = reads.saved_settings(caller.id)?.ok_or(SettingsError::NoUser)?;
                Ok(SettingsView { saved, effective: given.over(&saved) })
            })
            .await
    }

    /// Changes the caller's settings and tells everybody who watches one of the caller's queues.
    ///
    /// # Errors
    /// See [`SettingsError`]; then nothing was changed.
    pub async fn set_settings(
        &self,
        caller: Caller,
        patch: SettingsPatch,
    ) -> Result<SettingsView, TransactError<SettingsError>> {
        let given = self.given;
        self.store
            .transact(move |reads| {
                let before = reads.saved_settings(caller.id)?.ok_or(SettingsError::NoUser)?;
                let saved = settings::patch(&given, before, &patch)?;
                let reply = SettingsView { saved, effective: given.over(&saved) };
                if saved == before {
                    return Ok(Decision::unchanged(reply));
                }
                let watched = reads.session_ids_of_user(caller.id)?;
                let events = watched.into_iter().map(|id| (id, Event::QueueChanged)).collect();
                Ok(Decision {
                    changes: vec![Change::SaveSettings(caller.id, patch)],
                    events,
                    reply,
                })
            })
            .await
    }
}
