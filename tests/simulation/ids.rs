//! Fresh names, from a counter: the same history has the same names.

use uuid::Uuid;

/// See the module.
pub(crate) struct Ids {
    kind: u128,
    last: u128,
}

impl Ids {
    /// Makes a source of names; two of different kinds never give the same.
    pub(crate) const fn new(kind: u128) -> Self {
        Self { kind, last: 0 }
    }

    pub(crate) fn next(&mut self) -> Uuid {
        self.last += 1;
        Uuid::from_u128((self.kind << 96) | self.last)
    }
}
