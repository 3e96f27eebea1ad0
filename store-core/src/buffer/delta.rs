//! Deltas: the records that one acknowledged write changes.

use crate::{
    commit::Plan,
    document::{DocumentPlan, DocumentWritePlan},
    event::EventPlan,
    id::ThreadId,
    pending::{QueuePlan, QueueWrite},
    thread::{StoredThread, ThreadIdRecord},
    time::Timestamp,
};

/// What one acknowledged write changes. It takes effect in full or not at all.
///
/// A rule of core has decided it. The store behind a buffer writes its records as they are, and decides nothing again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta {
    /// A commit, or a change of a thread or of its pending input. The plan settles no claim.
    Thread(Box<Plan>),
    /// Documents and events that were written without a commit.
    Documents(Box<DocumentWritePlan>),
    /// A deletion of threads.
    Deletion(ThreadDeletion),
    /// The deletion of the tenant.
    TenantDeletion,
}

/// A deletion of threads. It deletes all of them in one step (TH-20).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadDeletion {
    /// The deleted threads, each with what the store keeps about its id from then on.
    pub deleted: Vec<(ThreadId, ThreadIdRecord)>,
    /// The threads that lost their parent, after that.
    pub detached: Vec<StoredThread>,
    /// Store time of the deletion.
    pub at: Timestamp,
}

impl ThreadDeletion {
    /// Makes a deletion without threads.
    #[must_use]
    pub const fn new(at: Timestamp) -> Self {
        Self { deleted: Vec::new(), detached: Vec::new(), at }
    }
}

impl Delta {
    /// Makes the delta of a commit.
    #[must_use]
    pub fn of_commit(plan: Plan) -> Self {
        Self::Thread(Box::new(plan))
    }

    /// Makes the delta of a thread that was created or updated.
    #[must_use]
    pub fn of_thread(thread: StoredThread, creates_thread: bool, id_record: ThreadIdRecord) -> Self {
        Self::of_queue(QueuePlan { thread, creates_thread, id_record, write: QueueWrite::default() })
    }

    /// Makes the delta of a change of pending input.
    #[must_use]
    pub fn of_queue(plan: QueuePlan) -> Self {
        Self::Thread(Box::new(Plan::of_queue(plan)))
    }

    /// Makes the delta of a change of what is kept about a thread's id alone.
    #[must_use]
    pub fn of_id_record(thread: ThreadId, id_record: ThreadIdRecord, at: Timestamp) -> Self {
        Self::Thread(Box::new(Plan::of_id_record(thread, id_record, 0, at)))
    }

    /// Makes the delta of an append of events. `id_record` is what is kept about the thread of the claim, if the append
    /// names one.
    #[must_use]
    pub fn of_events(events: EventPlan, id_record: Option<(ThreadId, ThreadIdRecord)>) -> Self {
        let documents = DocumentPlan::default();
        Self::Documents(Box::new(DocumentWritePlan { documents, events: Some(events), id_record }))
    }

    /// Returns the thread that the delta belongs to: the first one of a deletion; none if it belongs to the tenant.
    #[must_use]
    pub fn thread(&self) -> Option<&ThreadId> {
        match self {
            Self::Thread(plan) => Some(&plan.receipt.thread),
            Self::Documents(_) | Self::TenantDeletion => None,
            Self::Deletion(deletion) => deletion.deleted.first().map(|(id, _)| id),
        }
    }
}
