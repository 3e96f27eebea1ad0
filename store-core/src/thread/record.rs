//! Threads.

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

/// A conversation: its own fields, and what is worked out from its log with every commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thread {
    /// Unique in the tenant.
    pub id: ThreadId,
    /// Whose it is.
    pub resource_id: Option<ResourceId>,
    /// The thread that started it.
    pub parent_thread_id: Option<ThreadId>,
    /// A title, at most 1 KiB.
    pub title: Option<String>,
    /// The application's own, at most 64 KiB in all.
    pub metadata: JsonMap,
    /// When it was made: store time, or as an import says (TH-29).
    pub created_at: Timestamp,
    /// The last commit or update; never goes back (PR-5).
    pub updated_at: Timestamp,
    /// The number of entries in the log: what a commit is guarded with.
    pub version: Version,
    /// The number of changes of its own fields, 1 at creation: what an update is guarded with.
    pub revision: Version,
    /// Where the next entry hangs by default.
    pub head: Option<EntryId>,
    /// The run written last.
    pub latest_run: Option<RunId>,
    /// Runs that are not done, oldest first.
    pub open_runs: Vec<RunId>,
    /// The times of the first and the last entry of the log.
    pub entry_times: Option<(Timestamp, Timestamp)>,
    /// The number of leaves.
    pub leaves: u32,
    /// The sum of what was spent (EN-26).
    pub usage: TokenCounts,
    /// The number of commits that changed the thread state (CM-24).
    pub state_revision: u64,
    /// Fields of a newer release.
    pub extra: Extra,
}

impl Thread {
    /// 1, and raised when a deleted id is made anew (TH-24).
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.version.generation()
    }
}

/// A thread to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewThread {
    /// Its id.
    pub id: ThreadId,
    /// Its own fields.
    pub fields: ThreadFields,
    /// When it is said to have been made, for imports and copies; not after store time (TH-29).
    pub at: Option<Timestamp>,
}

impl NewThread {
    /// A thread of this id, with nothing set.
    #[must_use]
    pub fn new(id: ThreadId) -> Self {
        Self { id, fields: ThreadFields::default(), at: None }
    }

    /// The same thread with these fields.
    #[must_use]
    pub fn with_fields(mut self, fields: ThreadFields) -> Self {
        self.fields = fields;
        self
    }
}

/// The fields of a thread that its maker chooses; also what a commit's `create` gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ThreadFields {
    /// Whose it is.
    pub resource_id: Option<ResourceId>,
    /// The thread that started it.
    pub parent_thread_id: Option<ThreadId>,
    /// A title.
    pub title: Option<String>,
    /// The application's own.
    pub metadata: JsonMap,
}

/// A change of a thread's own fields. What it does not name stays (TH-4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ThreadPatch {
    /// Sets or clears whose it is.
    pub resource_id: Option<Option<ResourceId>>,
    /// Sets or clears the thread that started it.
    pub parent_thread_id: Option<Option<ThreadId>>,
    /// Sets or clears the title.
    pub title: Option<Option<String>>,
    /// Sets (`Some`) or removes (`None`) metadata key by key.
    pub metadata: BTreeMap<String, Option<Json>>,
    /// The claim under which this is written (CM-44).
    pub fence: Option<Fence>,
}

impl ThreadPatch {
    /// Sets the title.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(Some(title.into()));
        self
    }

    /// Sets the parent, or clears it.
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
}
