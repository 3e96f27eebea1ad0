//! The identity of a store, by which two openings of one store are recognised.

use std::fmt;

use serde::Serialize;

/// Which store a handle belongs to (CP-3).
///
/// Two openings of one store have the same identity, by whatever URL or path they were made. Two stores never have the
/// same one, also if one is a copy of the other. It follows from the secret of the store and from the place where the
/// store is kept, and it reveals neither. The identity of a store may change when its server starts again, so compare
/// identities only while both openings are in use, and do not store them.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct StoreIdentity(String);

impl StoreIdentity {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns the identity as text: 32 hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StoreIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StoreIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreIdentity({self})")
    }
}
