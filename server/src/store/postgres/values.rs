//! Values on their way to PostgreSQL and back.

use tokio_postgres::Statement;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::store::conn::{Param, Row};
use crate::store::error::StoreError;

/// A value that waits to be sent.
pub(super) enum OwnedParam {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
    Id(Uuid),
}

impl OwnedParam {
    pub(super) fn of(param: &Param<'_>) -> Self {
        match *param {
            Param::Null => Self::Null,
            Param::Int(value) => Self::Int(value),
            Param::Text(text) => Self::Text(text.to_owned()),
            Param::Bytes(bytes) => Self::Bytes(bytes.to_owned()),
            Param::Id(id) => Self::Id(id),
        }
    }

    pub(super) fn lend(&self) -> Param<'_> {
        match self {
            Self::Null => Param::Null,
            Self::Int(value) => Param::Int(*value),
            Self::Text(text) => Param::Text(text),
            Self::Bytes(bytes) => Param::Bytes(bytes),
            Self::Id(id) => Param::Id(*id),
        }
    }
}

/// Spells placeholders as PostgreSQL does: `$1` for `?1`.
pub(super) fn placeholders(sql: &str) -> String {
    sql.replace('?', "$")
}

/// The type that a value is sent as; NULL takes the type of its place.
pub(super) fn type_of(param: &Param<'_>) -> Type {
    match param {
        Param::Null => Type::UNKNOWN,
        Param::Int(_) => Type::INT8,
        Param::Text(_) => Type::TEXT,
        Param::Bytes(_) | Param::Id(_) => Type::BYTEA,
    }
}

pub(super) type Bound<'a> = Box<dyn ToSql + Sync + 'a>;

pub(super) fn bind<'a>(params: &[Param<'a>], statement: &Statement) -> Vec<Bound<'a>> {
    let types = statement.params().iter().map(Some).chain(std::iter::repeat(None));
    params.iter().zip(types).map(|(param, place)| bind_one(*param, place)).collect()
}

fn bind_one<'a>(param: Param<'a>, place: Option<&Type>) -> Bound<'a> {
    match param {
        Param::Int(value) => Box::new(value),
        Param::Text(text) => Box::new(text),
        Param::Bytes(bytes) => Box::new(bytes),
        Param::Id(id) => Box::new(id.as_bytes().to_vec()),
        Param::Null => match place {
            Some(&Type::INT8) => Box::new(None::<i64>),
            Some(&Type::BYTEA) => Box::new(None::<Vec<u8>>),
            Some(_) | None => Box::new(None::<String>),
        },
    }
}

pub(super) fn lend<'a>(bound: &'a [Bound<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    bound.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
}

impl Row for tokio_postgres::Row {
    fn int(&self, column: usize) -> Result<i64, StoreError> {
        let is_small = self.columns().get(column).is_some_and(|c| *c.type_() == Type::INT4);
        let read = match is_small {
            true => self.try_get::<_, i32>(column).map(i64::from),
            false => self.try_get(column),
        };
        read.map_err(|_| StoreError::Damaged("not an integer"))
    }

    fn opt_text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        self.try_get(column).map_err(|_| StoreError::Damaged("not text"))
    }

    fn opt_bytes(&self, column: usize) -> Result<Option<&[u8]>, StoreError> {
        self.try_get(column).map_err(|_| StoreError::Damaged("not bytes"))
    }
}
