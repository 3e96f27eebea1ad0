//! Queries for audit records.

use super::{AuditAction, AuditResource};
use crate::{
    page::{Cursor, PageRequest},
    time::Timestamp,
};

/// A filter for a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextFilter {
    /// Equal to the text.
    Exact(String),
    /// Beginning with the text.
    Prefix(String),
}

impl TextFilter {
    /// Returns whether `text` passes the filter.
    #[must_use]
    pub fn admits(&self, text: &str) -> bool {
        match self {
            Self::Exact(wanted) => text == wanted,
            Self::Prefix(prefix) => text.starts_with(prefix.as_str()),
        }
    }
}

/// A filter for a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceFilter {
    /// The resource.
    Exact(AuditResource),
    /// All resources below a folder: the folder, a `/`, and anything after it.
    Below(AuditResource),
}

impl ResourceFilter {
    /// Returns whether `resource` passes the filter.
    #[must_use]
    pub fn admits(&self, resource: &AuditResource) -> bool {
        match self {
            Self::Exact(wanted) => resource == wanted,
            Self::Below(folder) => resource.is_below(folder),
        }
    }
}

/// A query for audit records, newest first (AU-3). A record must match every filter that is set (PG-9).
///
/// The cost follows the page for each resource, folder and exact actor alone. If several filters are set, the records
/// of the narrowest order are read and the others are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AuditQuery {
    /// Records of one of these actions.
    pub actions: Option<Vec<AuditAction>>,
    /// Records of these actors.
    pub actor: Option<TextFilter>,
    /// Records about these resources.
    pub resource: Option<ResourceFilter>,
    /// Records at or after this time.
    pub from: Option<Timestamp>,
    /// Records before this time.
    pub before: Option<Timestamp>,
    /// Which page to return.
    pub page: PageRequest,
}

impl AuditQuery {
    /// Makes a query for all records.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Restricts the query to these actions.
    #[must_use]
    pub fn with_actions(mut self, actions: impl IntoIterator<Item = AuditAction>) -> Self {
        self.actions = Some(actions.into_iter().collect());
        self
    }

    /// Restricts the query to these actors.
    #[must_use]
    pub fn by(mut self, actor: TextFilter) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Restricts the query to these resources.
    #[must_use]
    pub fn about(mut self, resource: ResourceFilter) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Restricts the query to records at or after this time.
    #[must_use]
    pub const fn from(mut self, time: Timestamp) -> Self {
        self.from = Some(time);
        self
    }

    /// Restricts the query to records before this time.
    #[must_use]
    pub const fn before(mut self, time: Timestamp) -> Self {
        self.before = Some(time);
        self
    }

    /// Sets the page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }

    /// Continues after a cursor, with the same limit.
    #[must_use]
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.page = self.page.after(cursor);
        self
    }
}
