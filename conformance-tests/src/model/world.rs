//! What the model keeps: plain maps and lists. What can be worked out is worked out at each read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::de::DeserializeOwned;
use serde_json::json;
use store_core::{
    ClaimNumber, Commit, CommitKey, Entry, Json, JsonMap, PendingInput, Receipt, Result, Run, RunStatus, TenantId,
    Thread, ThreadId, Timestamp, TokenCounts, Version,
};

use super::{
    bug::Bug,
    events::Log,
    mailbox::Mail,
    outbox::Row,
    pending::Decided,
    tree::{Tree, spent, sum},
};

/// Everything that is kept.
#[derive(Debug, Clone, Default)]
pub(super) struct World {
    /// What each tenant holds.
    pub(super) tenants: BTreeMap<TenantId, Tenant>,
    /// What each tenant held before its last write: only a broken store reads it.
    pub(super) before: BTreeMap<TenantId, Tenant>,
    /// How often a tenant was deleted: handles from before are closed.
    pub(super) deletions: BTreeMap<TenantId, u64>,
}

/// What a tenant holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Tenant {
    /// What is remembered of thread ids.
    pub(super) ids: BTreeMap<ThreadId, Memory>,
    /// The threads.
    pub(super) threads: BTreeMap<ThreadId, Slot>,
    /// The events.
    pub(super) events: Log,
    /// The mailbox.
    pub(super) mail: Mail,
    /// The outbox, as its rows were made.
    pub(super) outbox: Vec<Row>,
    /// Counts writes to threads.
    pub(super) writes: u64,
}

/// What is remembered of a thread id.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// How many threads had the id.
    pub(super) generation: u64,
    /// The highest claim that wrote.
    pub(super) fence: Option<ClaimNumber>,
    /// When its thread was deleted, unless it has one.
    pub(super) deleted_at: Option<Timestamp>,
    /// The log of the thread that was deleted: only a broken store keeps it.
    pub(super) remains: Option<Vec<Arc<Entry>>>,
}

/// A thread with all that is gone with it.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// Own fields and times. What the log, the runs and the state tell stands in [`Slot::view`] only.
    pub(super) thread: Thread,
    /// The log, in its order.
    pub(super) entries: Vec<Arc<Entry>>,
    /// The runs, in the order in which they were made.
    pub(super) runs: Vec<Run>,
    /// The state.
    pub(super) state: JsonMap,
    /// The pending inputs, in their order.
    pub(super) queue: Vec<PendingInput>,
    /// Changes of the queue.
    pub(super) queue_revision: u64,
    /// What was decided about tickets.
    pub(super) decisions: Vec<Decided>,
    /// Commits with a key, as they were given.
    pub(super) keys: BTreeMap<CommitKey, (Commit, Receipt)>,
    /// Store time of the last write.
    pub(super) last_time: Timestamp,
    /// The count of [`Tenant::writes`] at the last write.
    pub(super) written: u64,
    /// The count of [`Tenant::writes`] at the first one.
    pub(super) made: u64,
}

impl Slot {
    /// A thread that was just made.
    pub(super) const fn new(thread: Thread, last_time: Timestamp) -> Self {
        Self {
            thread,
            entries: Vec::new(),
            runs: Vec::new(),
            state: JsonMap::new(),
            queue: Vec::new(),
            queue_revision: 0,
            decisions: Vec::new(),
            keys: BTreeMap::new(),
            last_time,
            written: 0,
            made: 0,
        }
    }

    /// The thread as a read gives it.
    pub(super) fn view(&self, bug: Option<Bug>) -> Thread {
        let tree = Tree(&self.entries);
        let mut thread = self.thread.clone();
        thread.version = Version::new(self.entries.len() as u64, thread.generation(), 0);
        thread.head = tree.head();
        if bug == Some(Bug::SideEntryIsHead) {
            thread.head = self.entries.last().map(|entry| entry.id.clone());
        }
        let times = || self.entries.iter().map(|entry| entry.timestamp);
        thread.entry_times = times().min().zip(times().max());
        thread.leaves = u32::try_from(tree.leaves().len()).unwrap_or(u32::MAX);
        thread.usage = sum(self.entries.iter().filter_map(|entry| spent(entry)));
        if bug == Some(Bug::SumsCountedTwice) {
            thread.usage = thread.usage.plus(&thread.usage);
        }
        let open = |run: &&Run| !matches!(run.status, RunStatus::Done(_));
        thread.open_runs = self.runs.iter().filter(open).map(|run| run.id.clone()).collect();
        thread
    }

    /// A run as a read gives it.
    pub(super) fn view_run(&self, run: &Run) -> Run {
        let produced = self.entries.iter().filter(|entry| entry.run.as_ref() == Some(&run.id));
        let mut run = run.clone();
        run.spent = sum(produced.filter_map(|entry| spent(entry)));
        run
    }
}

impl Tenant {
    /// A run, with the thread that it belongs to.
    pub(super) fn run(&self, id: &store_core::RunId) -> Option<(&Slot, &Run)> {
        self.threads.values().find_map(|slot| slot.runs.iter().find(|run| run.id == *id).map(|run| (slot, run)))
    }

    /// The direct children of a thread.
    pub(super) fn children(&self, parent: &ThreadId) -> Vec<ThreadId> {
        let is_child = |slot: &&Slot| slot.thread.parent_thread_id.as_ref() == Some(parent);
        self.threads.values().filter(is_child).map(|slot| slot.thread.id.clone()).collect()
    }

    /// A thread and all below it.
    pub(super) fn family(&self, id: &ThreadId) -> BTreeSet<ThreadId> {
        let mut family = BTreeSet::from([id.clone()]);
        loop {
            let children: Vec<_> = family.iter().flat_map(|member| self.children(member)).collect();
            let before = family.len();
            family.extend(children);
            if family.len() == before {
                return family;
            }
        }
    }

    /// Puts a thread that was written.
    pub(super) fn put(&mut self, mut slot: Slot) {
        self.writes += 1;
        slot.written = self.writes;
        slot.made = if slot.made == 0 { self.writes } else { slot.made };
        self.threads.insert(slot.thread.id.clone(), slot);
    }
}

/// A record of core from its document: outside of core those records have no constructor.
pub(super) fn record<T: DeserializeOwned>(document: &serde_json::Value) -> Result<T> {
    Json::of(document)?.to()
}

/// A thread without anything.
pub(super) fn blank_thread(id: &ThreadId, generation: u64, at: Timestamp) -> Result<Thread> {
    record(&json!({
        "id": id, "metadata": {}, "created_at": at, "updated_at": at, "version": 0, "generation": generation,
        "revision": 1, "open_runs": [], "leaves": 0, "usage": TokenCounts::default(), "state_revision": 0,
    }))
}
