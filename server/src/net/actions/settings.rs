//! Requests about settings.

use usher_shared::error::WireError;
use usher_shared::limits::ENTRIES_MAX;
use usher_shared::protocol::Request;
use usher_shared::protocol::settings::{
    EffectiveSetting, EffectiveSettings, SavedSettings, SettingsGetParams, SettingsReply,
    SettingsSetParams,
};

use super::{Routed, Router};
use crate::domain::settings::{InForce, SettingsPatch, Switch};
use crate::net::lanes::Lane;
use crate::net::wire;
use crate::service::SettingsView;

impl Router {
    pub(super) fn settings_get(self, _: SettingsGetParams) -> Routed {
        self.work([Lane::Free], SettingsGetParams::ACTION, |context| async move {
            let found = context.service.settings(context.caller).await;
            Ok(shown(found.map_err(|error| Ok(wire::settings_error(error)))?))
        })
    }

    pub(super) fn settings_set(self, params: SettingsSetParams) -> Routed {
        let cap = params.max_per_session;
        let max_per_session = match cap.map(u32::try_from).transpose() {
            Ok(cap) if cap.is_none_or(|cap| cap as usize <= ENTRIES_MAX) => cap,
            Ok(_) | Err(_) => {
                let error = WireError::validation("max_per_session", "out of bounds");
                return Err(error.with("limit", ENTRIES_MAX as u64));
            }
        };
        let patch = SettingsPatch {
            max_per_session,
            merge: params.merge_enabled.map(Switch::of),
            auto_merge: params.auto_merge_enabled.map(Switch::of),
        };
        self.work([Lane::Free], SettingsSetParams::ACTION, move |context| async move {
            let set = context.service.set_settings(context.caller, patch).await;
            Ok(shown(set.map_err(|error| wire::transact_error(error, wire::settings_error))?))
        })
    }
}

fn shown(view: SettingsView) -> SettingsReply {
    let SettingsView { saved, effective } = view;
    SettingsReply {
        settings: SavedSettings {
            max_per_session: saved.max_per_session,
            merge_enabled: saved.merge.map(Switch::is_on),
            auto_merge_enabled: saved.auto_merge.map(Switch::is_on),
        },
        effective: EffectiveSettings {
            max_per_session: in_force(effective.max_per_session, |cap| cap),
            merge_enabled: in_force(effective.merge, Switch::is_on),
            auto_merge_enabled: in_force(effective.auto_merge, Switch::is_on),
        },
    }
}

fn in_force<T: Copy, W>(setting: InForce<T>, value: impl FnOnce(T) -> W) -> EffectiveSetting<W> {
    EffectiveSetting {
        locked: setting.is_locked(),
        source: setting.source,
        value: value(setting.value),
    }
}
