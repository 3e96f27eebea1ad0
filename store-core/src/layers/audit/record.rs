//! Audit records, as writers pass them and as readers see them.

use std::{collections::BTreeSet, fmt};

use crate::{
    codec::{Codec, DecodeError, Extra, record, serde_by_codec},
    document::DocumentExpect,
    error::{Error, Result},
    id::{EventId, EventKind, WriterId},
    json::Json,
    layers::escaped_path,
    limits::{check_limit, length},
    time::Timestamp,
};

/// The maximum length of the name of a resource, in bytes. A name of two ids of the full length fits, even if each of
/// their characters is escaped.
const MAX_RESOURCE_BYTES: usize = 2048;

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AuditAction {
    /// Something was created.
    Create,
    /// Something was changed.
    Update,
    /// Something was deleted.
    Delete,
    /// Something was started again.
    Restart,
    /// Something was published.
    Publish,
    /// An earlier value was written again.
    Restore,
    /// A value that a release ships was written.
    SeedApply,
    /// A change could not be applied.
    ApplyFailed,
    /// An action that the application names.
    Custom(EventKind),
}

impl AuditAction {
    const NAMED: [(Self, &'static str); 8] = [
        (Self::Create, "create"),
        (Self::Update, "update"),
        (Self::Delete, "delete"),
        (Self::Restart, "restart"),
        (Self::Publish, "publish"),
        (Self::Restore, "restore"),
        (Self::SeedApply, "seed_apply"),
        (Self::ApplyFailed, "apply_failed"),
    ];

    /// Returns the name under which the action is stored.
    #[must_use]
    pub fn name(&self) -> &str {
        if let Self::Custom(name) = self {
            return name.as_str();
        }
        Self::NAMED.iter().find(|(action, _)| action == self).map_or("", |(_, name)| *name)
    }

    /// Returns the action with this name.
    #[must_use]
    pub fn from_name(name: &EventKind) -> Self {
        let named = Self::NAMED.into_iter().find(|(_, known)| *known == name.as_str());
        named.map_or_else(|| Self::Custom(name.clone()), |(action, _)| action)
    }

    pub(super) fn kind(&self) -> Result<EventKind> {
        EventKind::new(self.name())
    }
}

/// What an audit record is about: a path of names with `/` between them, such as `config/limits/tokens`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditResource(String);

impl AuditResource {
    /// Makes a resource from its path.
    ///
    /// # Errors
    /// `Invalid` if a part of the path is empty, or if the path contains a control character; `LimitExceeded` for more
    /// than 2,048 bytes.
    pub fn new(path: impl Into<String>) -> Result<Self> {
        let path = path.into();
        if path.split('/').any(str::is_empty) {
            return Err(Error::invalid("audit resource", "a part of its path is empty"));
        }
        if path.chars().any(char::is_control) {
            return Err(Error::invalid("audit resource", "it contains a control character"));
        }
        check_limit("bytes of an audit resource", length(path.len()), length(MAX_RESOURCE_BYTES))?;
        Ok(Self(path))
    }

    /// Makes a resource from the parts of its path. In a part, `/` and `%` are escaped, so different parts give
    /// different paths.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        Self::new(escaped_path(parts))
    }

    /// Returns the path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the last part of the path, without escapes.
    pub(super) fn last_part(&self) -> String {
        let last = self.0.rsplit('/').next().unwrap_or_default();
        last.replace("%2F", "/").replace("%25", "%")
    }

    /// Returns the folders above the resource, the outermost one first.
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').filter_map(|(at, _)| self.0.get(..at))
    }

    /// Returns whether the resource is below a folder.
    #[must_use]
    pub fn is_below(&self, folder: &Self) -> bool {
        self.0.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl fmt::Display for AuditResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Codec for AuditResource {
    fn write(&self, out: &mut String) {
        self.0.write(out);
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        Self::new(String::read(raw)?).map_err(|_| DecodeError::new("is not the path of a resource"))
    }
}

serde_by_codec!(AuditResource);

/// An audit record that a change carries. The layer that makes the change adds the resource, and the values before and
/// after it.
///
/// ```
/// use store_core::layers::audit::{AuditAction, NewAudit};
///
/// let audit = NewAudit::new("user:ada".parse()?).with_action(AuditAction::SeedApply).with_secret("api_key");
/// assert_eq!(audit.actor.as_str(), "user:ada");
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewAudit {
    /// The user, agent or program that makes the change.
    pub actor: WriterId,
    /// What is done. If it is absent, it follows from the values: create, update or delete.
    pub action: Option<AuditAction>,
    /// The keys whose values are not stored (AU-4): of members of objects at any depth, and the last part of the
    /// resource.
    pub secret_keys: BTreeSet<String>,
    /// The record whose value is written again.
    pub restored_from: Option<EventId>,
    /// Why the action failed.
    pub error: Option<String>,
}

impl NewAudit {
    /// Makes the record of a change by `actor`.
    #[must_use]
    pub const fn new(actor: WriterId) -> Self {
        Self { actor, action: None, secret_keys: BTreeSet::new(), restored_from: None, error: None }
    }

    /// Sets what is done.
    #[must_use]
    pub fn with_action(mut self, action: AuditAction) -> Self {
        self.action = Some(action);
        self
    }

    /// Adds a key whose values are not stored in this record. Each change of a value with a secret must name its key,
    /// also the one that removes it, because a record has the value before the change, too.
    #[must_use]
    pub fn with_secret(mut self, key: impl Into<String>) -> Self {
        self.secret_keys.insert(key.into());
        self
    }

    /// Sets the record whose value is written again.
    #[must_use]
    pub fn restoring(mut self, record: EventId) -> Self {
        (self.action, self.restored_from) = (Some(AuditAction::Restore), Some(record));
        self
    }

    /// Sets why the action failed.
    #[must_use]
    pub fn with_error(mut self, error: impl Into<String>) -> Self {
        self.error = Some(error.into());
        self
    }
}

/// A request to write a value again that an audit record contains: the one after the change, or the one before a
/// deletion (AU-6).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restoration {
    /// The audit record. It must be about what is restored.
    pub from: EventId,
    /// What is restored must be like this.
    pub expect: DocumentExpect,
    /// The audit record of the restoration.
    pub audit: NewAudit,
}

impl Restoration {
    /// Requests the value that an audit record contains.
    #[must_use]
    pub const fn new(from: EventId, audit: NewAudit) -> Self {
        Self { from, expect: DocumentExpect::Any, audit }
    }

    /// Sets what the restored thing must be like.
    #[must_use]
    pub const fn expecting(mut self, expect: DocumentExpect) -> Self {
        self.expect = expect;
        self
    }
}

/// What the event of an audit record contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuditPayload {
    pub(super) actor: WriterId,
    pub(super) resource: AuditResource,
    pub(super) before: Option<Json>,
    pub(super) after: Option<Json>,
    pub(super) redacted: bool,
    pub(super) restored_from: Option<EventId>,
    pub(super) error: Option<String>,
    pub(super) extra: Extra,
}

record!(AuditPayload {
    actor: req,
    resource: req,
    before: opt,
    after: opt,
    redacted: def,
    restored_from: opt,
    error: opt,
});

/// A stored audit record. It never changes (AU-2).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditRecord {
    /// The id; set by the store.
    pub id: EventId,
    /// Store time of the change.
    pub time: Timestamp,
    /// The user, agent or program that made the change.
    pub actor: WriterId,
    /// What was done.
    pub action: AuditAction,
    /// What the record is about.
    pub resource: AuditResource,
    /// The value before the change.
    pub before: Option<Json>,
    /// The value after the change.
    pub after: Option<Json>,
    /// Whether values were replaced because their keys are secret.
    pub redacted: bool,
    /// The record whose value was written again.
    pub restored_from: Option<EventId>,
    /// Why the action failed.
    pub error: Option<String>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}
