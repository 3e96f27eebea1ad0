//! Threads and their fields.

use std::collections::BTreeMap;

use crate::{
    claim::Fence,
    codec::Extra,
    id::{EntryId, ResourceId, RunId, ThreadId},
    json::Json,
    log::{JsonMap, TokenCounts},
    time::Timestamp,
    version::Version,
};

/// A conversation: its own fields, and values that every commit derives from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thread {
    /// The id, unique in the tenant.
    pub id: ThreadId,
    /// What the thread belongs to: a user, an issue, a repository.
    pub resource_id: Option<ResourceId>,
    /// The thread that started this one.
    pub parent_thread_id: Option<ThreadId>,
    /// The title, at most 1 KiB.
    pub title: Option<String>,
    /// Metadata of the application, at most 64 KiB in all.
    pub metadata: JsonMap,
    /// When the thread was created: store time, or the time that an import states (TH-29).
    pub created_at: Timestamp,
    /// The time of the last commit or update. It never goes back (PR-5).
    pub updated_at: Timestamp,
    /// The number of entries in the log. A commit can be guarded with it.
    pub version: Version,
    /// The revision: 1 at creation, and one more after each change of the thread's own fields. An update can be guarded
    /// with it.
    pub revision: Version,
    /// The parent of the next entry, if that entry names none.
    pub head: Option<EntryId>,
    /// The run that was written last.
    pub latest_run: Option<RunId>,
    /// Runs that are not done, oldest first.
    pub open_runs: Vec<RunId>,
    /// The earliest and the latest time of an entry of the log.
    pub entry_times: Option<(Timestamp, Timestamp)>,
    /// The number of leaves of the log.
    pub leaves: u32,
    /// The sum of the tokens that were spent (EN-26).
    pub usage: TokenCounts,
    /// The number of commits that changed the thread state (CM-24).
    pub state_revision: u64,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

impl Thread {
    /// Returns the generation. It is 1 for the first thread with this id, and grows by one each time the id is used
    /// again after a deletion (TH-24).
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.version.generation()
    }
}

/// A thread to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewThread {
    /// The id.
    pub id: ThreadId,
    /// The thread's own fields.
    pub fields: ThreadFields,
    /// The time that the caller states for the creation, for imports and copies. It must not be later than store time
    /// (TH-29).
    pub at: Option<Timestamp>,
}

impl NewThread {
    /// Creates a thread with this id and no other field set.
    #[must_use]
    pub fn new(id: ThreadId) -> Self {
        Self { id, fields: ThreadFields::default(), at: None }
    }

    /// Sets the fields.
    #[must_use]
    pub fn with_fields(mut self, fields: ThreadFields) -> Self {
        self.fields = fields;
        self
    }
}

/// The fields of a thread that its creator chooses.
///
/// The field `create` of a commit takes the same fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ThreadFields {
    /// What the thread belongs to: a user, an issue, a repository.
    pub resource_id: Option<ResourceId>,
    /// The thread that started this one.
    pub parent_thread_id: Option<ThreadId>,
    /// The title.
    pub title: Option<String>,
    /// Metadata of the application.
    pub metadata: JsonMap,
}

/// A change of a thread's own fields.
///
/// Fields that it does not name do not change (TH-4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ThreadPatch {
    /// Sets or clears the resource that the thread belongs to.
    pub resource_id: Option<Option<ResourceId>>,
    /// Sets or clears the thread that started this one.
    pub parent_thread_id: Option<Option<ThreadId>>,
    /// Sets or clears the title.
    pub title: Option<Option<String>>,
    /// Sets (`Some`) or removes (`None`) metadata, key by key.
    pub metadata: BTreeMap<String, Option<Json>>,
    /// The claim under which the update is written (CM-44).
    pub fence: Option<Fence>,
    /// The time that the caller states for the update, for imports and copies. It must not be later than store time
    /// (TH-29).
    pub at: Option<Timestamp>,
}

impl ThreadPatch {
    /// Sets and clears in `fields` what the patch names.
    pub(super) fn apply(&self, fields: &mut ThreadFields) {
        if let Some(resource_id) = &self.resource_id {
            fields.resource_id.clone_from(resource_id);
        }
        if let Some(parent) = &self.parent_thread_id {
            fields.parent_thread_id.clone_from(parent);
        }
        if let Some(title) = &self.title {
            fields.title.clone_from(title);
        }
        for (key, value) in &self.metadata {
            match value {
                Some(value) => fields.metadata.insert(key.clone(), value.clone()),
                None => fields.metadata.remove(key),
            };
        }
    }

    /// Returns the parent that the patch sets, if it sets one.
    #[must_use]
    pub fn new_parent(&self) -> Option<&ThreadId> {
        self.parent_thread_id.as_ref()?.as_ref()
    }

    /// Sets the title.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(Some(title.into()));
        self
    }

    /// Sets or clears the parent.
    #[must_use]
    pub fn with_parent(mut self, parent: Option<ThreadId>) -> Self {
        self.parent_thread_id = Some(parent);
        self
    }

    /// Sets a metadata key.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: Json) -> Self {
        self.metadata.insert(key.into(), Some(value));
        self
    }

    /// Sets the time that the caller states for the update.
    #[must_use]
    pub const fn at(mut self, at: Timestamp) -> Self {
        self.at = Some(at);
        self
    }
}
