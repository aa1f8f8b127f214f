//! The statements of changes to whole sessions and tasks, and to what users save.

use usher_shared::counter::Position;
use usher_shared::id::{EntryId, IncarnationId, UserId};

use super::apply::{int, one};
use super::conn::{Conn, Param};
use super::error::StoreError;
use super::{attachments, row, sql};
use crate::domain::entry::Provenance;
use crate::domain::session::SessionKey;
use crate::domain::settings::{SettingsPatch, Switch};

/// Deletes a session with everything that it ever held.
pub(super) fn purge_session(conn: &mut dyn Conn, session: SessionKey) -> Result<(), StoreError> {
    sql::SESSION_PURGE
        .iter()
        .try_for_each(|statement| conn.execute(statement, &[Param::Int(session.0)]).map(drop))
}

pub(super) fn set_session(
    conn: &mut dyn Conn,
    session: SessionKey,
    model: Option<&str>,
    mode: Option<&str>,
    title: &str,
) -> Result<(), StoreError> {
    let (model, mode) = (Param::opt_text(model), Param::opt_text(mode));
    one(conn, sql::SESSION_SET, &[Param::Int(session.0), model, mode, Param::Text(title)])
}

pub(super) fn save_settings(
    conn: &mut dyn Conn,
    user: UserId,
    patch: &SettingsPatch,
) -> Result<(), StoreError> {
    let opt = |value: Option<i64>| value.map_or(Param::Null, Param::Int);
    let switch = |switch: Option<Switch>| opt(switch.map(|switch| i64::from(switch.is_on())));
    let cap = opt(patch.max_per_session.map(i64::from));
    let params = [Param::Id(user.uuid()), cap, switch(patch.merge), switch(patch.auto_merge)];
    one(conn, sql::SETTINGS_SAVE, &params)
}

pub(super) fn begin_incarnation(
    conn: &mut dyn Conn,
    session: SessionKey,
    incarnation: IncarnationId,
) -> Result<(), StoreError> {
    let params = [Param::Int(session.0), Param::Id(incarnation.uuid())];
    one(conn, sql::INCARNATION_OF, &params)?;
    one(conn, sql::SESSION_INCARNATION, &params)
}

pub(super) fn set_provenance(
    conn: &mut dyn Conn,
    id: EntryId,
    provenance: &Provenance,
) -> Result<(), StoreError> {
    let text = row::provenance_text(provenance);
    let params = [Param::Id(id.uuid()), Param::opt_text(text.as_deref())];
    one(conn, sql::ENTRY_PROVENANCE, &params)
}

pub(super) fn transfer_entry(
    conn: &mut dyn Conn,
    id: EntryId,
    to: SessionKey,
    place: Position,
    provenance: &Provenance,
) -> Result<(), StoreError> {
    attachments::transfer(conn, id, to)?;
    let text = row::provenance_text(provenance);
    one(
        conn,
        sql::ENTRY_TRANSFER,
        &[
            Param::Id(id.uuid()),
            Param::Int(to.0),
            int(place.get()),
            Param::opt_text(text.as_deref()),
        ],
    )
}
