//! Requests of erasures, and what they came to.

use serde::Serialize;

use crate::{
    id::{ResourceId, ThreadId},
    layers::{audit::NewAudit, replay::ReplayStreamRef},
};

/// A request to erase a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EraseThread {
    /// The thread.
    pub thread: ThreadId,
    /// Replay streams that are removed, besides those with the id of the thread or of one of its runs.
    pub replay: Vec<ReplayStreamRef>,
    /// Who erases it. The audit record of the erasure says so.
    pub audit: NewAudit,
    /// Whether to count what would be removed, and to change nothing.
    pub dry_run: bool,
}

impl EraseThread {
    /// Requests the erasure of a thread.
    #[must_use]
    pub const fn new(thread: ThreadId, audit: NewAudit) -> Self {
        Self { thread, replay: Vec::new(), audit, dry_run: false }
    }

    /// Adds a replay stream that is removed.
    #[must_use]
    pub fn with_replay(mut self, stream: ReplayStreamRef) -> Self {
        self.replay.push(stream);
        self
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// A request to erase all threads of a resource, and the profile of the user with its id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EraseResource {
    /// The resource.
    pub resource: ResourceId,
    /// Replay streams that are removed, besides those with the id of a thread or a run that is erased.
    pub replay: Vec<ReplayStreamRef>,
    /// Who erases it. The audit records of the erasure say so.
    pub audit: NewAudit,
    /// Whether to count what would be removed, and to change nothing.
    pub dry_run: bool,
}

impl EraseResource {
    /// Requests the erasure of a resource.
    #[must_use]
    pub const fn new(resource: ResourceId, audit: NewAudit) -> Self {
        Self { resource, replay: Vec::new(), audit, dry_run: false }
    }

    /// Adds a replay stream that is removed.
    #[must_use]
    pub fn with_replay(mut self, stream: ReplayStreamRef) -> Self {
        self.replay.push(stream);
        self
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// What an erasure removed, or would remove. A repetition counts only what was left.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Erased {
    /// The threads, each after its descendants.
    pub threads: Vec<ThreadId>,
    /// Children that belong to another resource. They stay, and lose their parent.
    pub detached: Vec<ThreadId>,
    /// Entries of the threads.
    pub entries: u64,
    /// Runs of the threads.
    pub runs: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Rows of the outbox.
    pub outbox_rows: u64,
    /// Events of the threads and their runs. Those that are in a topic, too, stay there without their content.
    pub events: u64,
    /// Records of replay streams: removed, or without their bytes.
    pub replay_records: u64,
    /// Documents of the tenant that layers keep about the threads.
    pub documents: u64,
    /// Blobs that nothing else refers to.
    pub blobs: u64,
    /// Values of profiles.
    pub profile_values: u64,
    /// Audit records that lost their values.
    pub audit_records: u64,
    /// Whether the progress has stopped the erasure before its end. It has no audit record then.
    pub stopped: bool,
}
