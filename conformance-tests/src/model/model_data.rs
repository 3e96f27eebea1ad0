//! The data of the model: maps and lists. Derived data is not stored, but computed in each read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::de::DeserializeOwned;
use serde_json::json;
use store_core::{
    ClaimNumber, Commit, CommitKey, Entry, Json, JsonMap, ObjectKey, PendingInput, Receipt, Result, Run, RunStatus,
    TenantId, Thread, ThreadId, Timestamp, TokenCounts, Version,
};

use super::{
    bug::Bug,
    documents::DocumentTable,
    events::EventLog,
    mailbox::TenantMailbox,
    object_handle::ModelObject,
    outbox::StoredRow,
    pending::StoredDecision,
    tree::{LogTree, sum_token_counts, token_counts_of},
};

/// All data of a model.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelData {
    /// The data of each tenant.
    pub(super) tenants: BTreeMap<TenantId, TenantData>,
    /// The data of each tenant before its last write or before its deletion. Only some planted bugs use it.
    pub(super) previous_tenants: BTreeMap<TenantId, TenantData>,
    /// The number of times that each tenant was deleted. Handles from before the last deletion are closed.
    pub(super) deletions: BTreeMap<TenantId, u64>,
}

/// The data of a tenant.
#[derive(Debug, Clone, Default)]
pub(super) struct TenantData {
    /// What is remembered about each thread id, even after the deletion of its thread.
    pub(super) id_histories: BTreeMap<ThreadId, ThreadIdHistory>,
    /// The threads.
    pub(super) threads: BTreeMap<ThreadId, ThreadData>,
    /// The events.
    pub(super) events: EventLog,
    /// The mailbox.
    pub(super) mailbox: TenantMailbox,
    /// The rows of the outbox, in the order in which they were written.
    pub(super) outbox: Vec<StoredRow>,
    /// The documents.
    pub(super) documents: DocumentTable,
    /// The objects.
    pub(super) objects: BTreeMap<ObjectKey, Arc<ModelObject>>,
    /// The number of writes to threads.
    pub(super) write_count: u64,
}

/// What is remembered about a thread id.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadIdHistory {
    /// How many threads have had the id.
    pub(super) generation: u64,
    /// The highest claim number under which a caller has written to the thread.
    pub(super) highest_claim: Option<ClaimNumber>,
    /// When the last thread with the id was deleted; `None` while there is a thread with the id.
    pub(super) deleted_at: Option<Timestamp>,
    /// The log of the deleted thread. It is kept only with the planted bug `OldLogReturns`.
    pub(super) old_log: Option<Vec<Arc<Entry>>>,
}

/// A thread with all data that is deleted together with it.
#[derive(Debug, Clone)]
pub(super) struct ThreadData {
    /// The thread's fields and times. [`ThreadData::to_thread`] adds the values derived from the log and the runs.
    pub(super) thread: Thread,
    /// The log.
    pub(super) entries: Vec<Arc<Entry>>,
    /// The runs, in the order in which they were created.
    pub(super) runs: Vec<Run>,
    /// The state.
    pub(super) state: JsonMap,
    /// The pending inputs, in their order.
    pub(super) queue: Vec<PendingInput>,
    /// The revision of the queue.
    pub(super) queue_revision: u64,
    /// The decisions on tickets.
    pub(super) decisions: Vec<StoredDecision>,
    /// The commits that had a key, with their receipts.
    pub(super) keyed_commits: BTreeMap<CommitKey, (Commit, Receipt)>,
    /// Store time of the last write.
    pub(super) last_time: Timestamp,
    /// The value of [`TenantData::write_count`] at the last write.
    pub(super) last_write: u64,
    /// The value of [`TenantData::write_count`] at the first write.
    pub(super) first_write: u64,
}

impl ThreadData {
    /// Makes a thread with an empty log.
    pub(super) const fn new(thread: Thread, last_time: Timestamp) -> Self {
        Self {
            thread,
            entries: Vec::new(),
            runs: Vec::new(),
            state: JsonMap::new(),
            queue: Vec::new(),
            queue_revision: 0,
            decisions: Vec::new(),
            keyed_commits: BTreeMap::new(),
            last_time,
            last_write: 0,
            first_write: 0,
        }
    }

    /// Returns the thread with all derived values, as a read returns it.
    pub(super) fn to_thread(&self, bug: Option<Bug>) -> Thread {
        let tree = LogTree::new(&self.entries);
        let mut thread = self.thread.clone();
        thread.version = Version::new(self.entries.len() as u64, thread.generation(), 0);
        thread.head = tree.head();
        if bug == Some(Bug::SideEntryIsHead) {
            thread.head = self.entries.last().map(|entry| entry.id.clone());
        }
        let times = || self.entries.iter().map(|entry| entry.timestamp);
        thread.entry_times = times().min().zip(times().max());
        thread.leaves = u32::try_from(tree.leaves().len()).unwrap_or(u32::MAX);
        thread.usage = sum_token_counts(self.entries.iter().filter_map(|entry| token_counts_of(entry)));
        if bug == Some(Bug::TokensCountedTwice) {
            thread.usage = thread.usage.plus(&thread.usage);
        }
        let is_open = |run: &&Run| !matches!(run.status, RunStatus::Done(_));
        thread.open_runs = self.runs.iter().filter(is_open).map(|run| run.id.clone()).collect();
        thread
    }

    /// Returns a run with all derived values, as a read returns it.
    pub(super) fn to_run(&self, run: &Run) -> Run {
        let entries_of_run = self.entries.iter().filter(|entry| entry.run.as_ref() == Some(&run.id));
        let mut run = run.clone();
        run.spent = sum_token_counts(entries_of_run.filter_map(|entry| token_counts_of(entry)));
        run
    }
}

impl TenantData {
    /// Returns a run, with the thread that it belongs to.
    pub(super) fn find_run(&self, id: &store_core::RunId) -> Option<(&ThreadData, &Run)> {
        self.threads
            .values()
            .find_map(|thread_data| thread_data.runs.iter().find(|run| run.id == *id).map(|run| (thread_data, run)))
    }

    /// Returns the ids of the direct children of a thread.
    pub(super) fn children(&self, parent: &ThreadId) -> Vec<ThreadId> {
        let is_child = |thread_data: &&ThreadData| thread_data.thread.parent_thread_id.as_ref() == Some(parent);
        self.threads.values().filter(is_child).map(|thread_data| thread_data.thread.id.clone()).collect()
    }

    /// Returns the ids of a thread and of all its descendants.
    pub(super) fn subtree(&self, id: &ThreadId) -> BTreeSet<ThreadId> {
        let mut subtree = BTreeSet::from([id.clone()]);
        loop {
            let children: Vec<_> = subtree.iter().flat_map(|member| self.children(member)).collect();
            let old_len = subtree.len();
            subtree.extend(children);
            if subtree.len() == old_len {
                return subtree;
            }
        }
    }

    /// Stores a thread that was written, and counts the write.
    pub(super) fn store_thread(&mut self, mut thread_data: ThreadData) {
        self.write_count += 1;
        thread_data.last_write = self.write_count;
        thread_data.first_write = if thread_data.first_write == 0 { self.write_count } else { thread_data.first_write };
        self.threads.insert(thread_data.thread.id.clone(), thread_data);
    }
}

/// Makes a record of `store-core` from JSON, because these records have no public constructor.
pub(super) fn record_from_json<T: DeserializeOwned>(document: &serde_json::Value) -> Result<T> {
    Json::of(document)?.to()
}

/// Makes a thread that has only an id, a generation and times.
pub(super) fn blank_thread(id: &ThreadId, generation: u64, at: Timestamp) -> Result<Thread> {
    record_from_json(&json!({
        "id": id, "metadata": {}, "created_at": at, "updated_at": at, "version": 0, "generation": generation,
        "revision": 1, "open_runs": [], "leaves": 0, "usage": TokenCounts::default(), "state_revision": 0,
    }))
}
