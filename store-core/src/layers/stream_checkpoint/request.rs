//! Requests about stream checkpoints, and their results.

use serde::Serialize;

use super::record::PartialAnswer;
use crate::{
    claim::Fence,
    id::{RunId, ThreadId},
    time::Timestamp,
};

/// A checkpoint to be put. It replaces that of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PutStreamCheckpoint {
    /// The thread of the run.
    pub thread: ThreadId,
    /// The run.
    pub run: RunId,
    /// The number of the checkpoint, given by the writer. If it is not above the stored one, the put is ignored (SC-2).
    pub sequence: u64,
    /// What was received.
    pub answer: PartialAnswer,
    /// The claim of the thread under which the checkpoint is put (CM-44).
    pub fence: Option<Fence>,
}

impl PutStreamCheckpoint {
    /// Requests a put without a claim.
    #[must_use]
    pub const fn new(thread: ThreadId, run: RunId, sequence: u64, answer: PartialAnswer) -> Self {
        Self { thread, run, sequence, answer, fence: None }
    }

    /// Sets the claim under which the checkpoint is put.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }
}

/// What a put did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[must_use = "the put may have been ignored"]
pub enum StreamCheckpointOutcome {
    /// The checkpoint is stored.
    Stored,
    /// Nothing was written, because the stored checkpoint has this sequence, which is not below the given one.
    Ignored {
        /// The sequence of the stored checkpoint.
        stored: u64,
    },
}

/// A request to remove checkpoints that no run needs (SC-4): those of runs that are done, and those that were not
/// updated for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurgeStreamCheckpoints {
    /// Checkpoints that were last put before this time are removed, too.
    pub updated_before: Timestamp,
    /// Whether to report the number of checkpoints without removing them.
    pub dry_run: bool,
}

impl PurgeStreamCheckpoints {
    /// Requests the removal of the checkpoints of runs that are done, and of those that were last put before a time.
    #[must_use]
    pub const fn updated_before(time: Timestamp) -> Self {
        Self { updated_before: time, dry_run: false }
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// The result of a purge of checkpoints, or of a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PurgedStreamCheckpoints {
    /// The number of checkpoints that were removed, or would be.
    pub checkpoints: u64,
    /// Whether the purge was stopped before its end.
    pub stopped: bool,
}
