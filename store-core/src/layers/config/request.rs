//! Changes of config records, as callers request them.

use super::{ConfigContent, ConfigName, ConfigSource};
use crate::{document::DocumentExpect, json::Json, layers::audit::NewAudit};

/// What a change does to its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigOp {
    /// Sets the whole content.
    Put(ConfigContent),
    /// Sets the value that a release ships. What users changed stays: overrides, whether the record is hidden, and a
    /// record that a user made.
    Seed(Json),
    /// Sets or removes the overrides. The record must exist.
    Override(Option<Json>),
    /// Sets whether users do not see the record. The record must exist.
    Hide(bool),
    /// Removes the record. A missing record is not an error.
    Delete,
}

/// A change of one config record.
///
/// ```
/// use store_core::{DocumentExpect, Json, layers::config::{ConfigChange, ConfigName}};
///
/// let name = ConfigName::new("limits", "tokens")?;
/// let change = ConfigChange::put(name, Json::parse("4096")?).expecting(DocumentExpect::Absent);
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigChange {
    /// The record.
    pub name: ConfigName,
    /// What the record must be like. A revision is that of the config record (CF-3).
    pub expect: DocumentExpect,
    /// What the change does.
    pub op: ConfigOp,
    /// The audit record of the change, which is written only if the change changes something (AU-1).
    pub audit: Option<NewAudit>,
}

impl ConfigChange {
    /// Makes a change.
    #[must_use]
    pub const fn new(name: ConfigName, op: ConfigOp) -> Self {
        Self { name, expect: DocumentExpect::Any, op, audit: None }
    }

    /// Makes a change that sets the value of a user.
    #[must_use]
    pub fn put(name: ConfigName, value: Json) -> Self {
        Self::new(name, ConfigOp::Put(ConfigContent::new(value).from_source(ConfigSource::User)))
    }

    /// Makes a change that sets the value that a release ships.
    #[must_use]
    pub const fn seed(name: ConfigName, value: Json) -> Self {
        Self::new(name, ConfigOp::Seed(value))
    }

    /// Makes a change that removes the record, if it exists.
    #[must_use]
    pub const fn delete(name: ConfigName) -> Self {
        Self::new(name, ConfigOp::Delete)
    }

    /// Sets what the record must be like.
    #[must_use]
    pub const fn expecting(mut self, expect: DocumentExpect) -> Self {
        self.expect = expect;
        self
    }

    /// Adds an audit record.
    #[must_use]
    pub fn audited(mut self, audit: NewAudit) -> Self {
        self.audit = Some(audit);
        self
    }
}
