//! The index of a tenant: its threads and runs by id and in the orders of their lists.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use store_core::{
    Direction, ResourceId, Run, RunFilter, RunId, RunPhase, Thread, ThreadId, ThreadOrder, TimeOrderedSets, TimeWalk,
    Timestamp,
    commit::NeededKeys,
    merge_ordered, run,
    thread::{self, StoredThread, ThreadIdRecord},
};

use super::{documents::Documents, events::Events, outbox::Outbox};
use crate::slot::ThreadSlot;

/// The threads that a list contains.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ThreadListKey {
    All,
    Roots,
    ChildrenOf(ThreadId),
    Resource(ResourceId),
}

/// The runs that a list contains.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RunListKey {
    All,
    Thread(ThreadId),
    Parent(RunId),
    Status(RunPhase),
}

/// A thread as lists return it.
#[derive(Debug, Clone)]
pub(crate) struct ThreadRow {
    pub(crate) thread: Arc<StoredThread>,
    /// The number of the change that wrote the row. A list that was begun before this change leaves the row out (PG-5).
    pub(crate) change_number: u64,
}

/// What the plan of a commit reads from the index, and not from the slot of its thread.
#[derive(Debug)]
pub(crate) struct IndexRecords {
    pub(crate) runs: BTreeMap<RunId, Arc<Run>>,
    pub(crate) has_parent: bool,
}

/// The threads and runs of a tenant. The index shares its records with the slots.
#[derive(Debug, Default)]
pub(crate) struct Index {
    threads: HashMap<ThreadId, ThreadRow>,
    threads_by_activity: TimeOrderedSets<ThreadListKey, ThreadId>,
    threads_by_creation: TimeOrderedSets<ThreadListKey, ThreadId>,
    runs: HashMap<RunId, Arc<Run>>,
    runs_by_creation: TimeOrderedSets<RunListKey, RunId>,
    /// Threads with pending input.
    threads_with_pending: BTreeSet<ThreadId>,
    deleted_ids: BTreeSet<(Timestamp, ThreadId)>,
    change_count: u64,
    pub(crate) events: Events,
    pub(crate) outbox: Outbox,
    pub(crate) documents: Documents,
}

fn thread_list_keys(thread: &Thread) -> impl Iterator<Item = ThreadListKey> {
    thread::ThreadListKey::of(thread).map(ThreadListKey::from)
}

fn run_list_keys(run: &Run) -> impl Iterator<Item = RunListKey> {
    let keys = [RunListKey::All, RunListKey::Thread(run.thread.clone()), RunListKey::Status(run.status.phase())];
    keys.into_iter().chain(run.parent_run.clone().map(RunListKey::Parent))
}

impl From<thread::ThreadListKey<'_>> for ThreadListKey {
    fn from(key: thread::ThreadListKey<'_>) -> Self {
        match key {
            thread::ThreadListKey::All => Self::All,
            thread::ThreadListKey::Roots => Self::Roots,
            thread::ThreadListKey::Of(parent) => Self::ChildrenOf(parent.clone()),
            thread::ThreadListKey::Resource(resource) => Self::Resource(resource.clone()),
        }
    }
}

impl From<run::RunListKey<'_>> for RunListKey {
    fn from(key: run::RunListKey<'_>) -> Self {
        match key {
            run::RunListKey::All => Self::All,
            run::RunListKey::Thread(thread) => Self::Thread(thread.clone()),
            run::RunListKey::Parent(parent) => Self::Parent(parent.clone()),
            run::RunListKey::Status(status) => Self::Status(status),
        }
    }
}

impl Index {
    /// Returns whether the index contains no events, no outbox rows and no documents. Threads are not considered.
    pub(crate) fn has_no_tenant_records(&self) -> bool {
        self.events.is_empty() && self.outbox.is_empty() && self.documents.is_empty()
    }

    pub(crate) fn thread(&self, id: &ThreadId) -> Option<&ThreadRow> {
        self.threads.get(id)
    }

    /// Returns the generation of a thread, to which cursors are bound, or 0 if the thread does not exist.
    pub(crate) fn generation(&self, id: &ThreadId) -> u64 {
        self.threads.get(id).map_or(0, |row| row.thread.thread.generation())
    }

    pub(crate) fn run(&self, id: &RunId) -> Option<&Arc<Run>> {
        self.runs.get(id)
    }

    /// Returns all runs, in no particular order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.runs.values()
    }

    /// Returns the number of changes of threads so far.
    pub(crate) const fn change_count(&self) -> u64 {
        self.change_count
    }

    pub(crate) fn put_thread(&mut self, thread: &Arc<StoredThread>) {
        self.change_count += 1;
        let row = ThreadRow { thread: Arc::clone(thread), change_number: self.change_count };
        let new_thread = &thread.thread;
        if thread.queue.count > 0 {
            self.threads_with_pending.insert(new_thread.id.clone());
        } else {
            self.threads_with_pending.remove(&new_thread.id);
        }
        let Some(old_row) = self.threads.insert(new_thread.id.clone(), row) else {
            self.threads_by_activity.insert(thread_list_keys(new_thread), new_thread.updated_at, &new_thread.id);
            self.threads_by_creation.insert(thread_list_keys(new_thread), new_thread.created_at, &new_thread.id);
            return;
        };
        let old_thread = &old_row.thread.thread;
        let list_keys_differ = old_thread.parent_thread_id != new_thread.parent_thread_id
            || old_thread.resource_id != new_thread.resource_id;
        if list_keys_differ || old_thread.updated_at != new_thread.updated_at {
            self.threads_by_activity.remove(thread_list_keys(old_thread), old_thread.updated_at, &new_thread.id);
            self.threads_by_activity.insert(thread_list_keys(new_thread), new_thread.updated_at, &new_thread.id);
        }
        if list_keys_differ || old_thread.created_at != new_thread.created_at {
            self.threads_by_creation.remove(thread_list_keys(old_thread), old_thread.created_at, &new_thread.id);
            self.threads_by_creation.insert(thread_list_keys(new_thread), new_thread.created_at, &new_thread.id);
        }
    }

    pub(crate) fn remove_thread(&mut self, id: &ThreadId) {
        if let Some(row) = self.threads.remove(id) {
            let removed_thread = &row.thread.thread;
            self.threads_by_activity.remove(thread_list_keys(removed_thread), removed_thread.updated_at, id);
            self.threads_by_creation.remove(thread_list_keys(removed_thread), removed_thread.created_at, id);
            self.threads_with_pending.remove(id);
        }
    }

    /// Returns the threads with pending input, by id.
    pub(crate) fn threads_with_pending(
        &self,
        range: (Bound<ThreadId>, Bound<ThreadId>),
    ) -> impl Iterator<Item = &ThreadId> {
        self.threads_with_pending.range(range)
    }

    pub(crate) fn put_run(&mut self, run: &Arc<Run>) {
        if let Some(old_run) = self.runs.insert(run.id.clone(), Arc::clone(run)) {
            if old_run.status.phase() == run.status.phase() {
                return;
            }
            self.runs_by_creation.remove(run_list_keys(&old_run), old_run.created_at, &old_run.id);
        }
        self.runs_by_creation.insert(run_list_keys(run), run.created_at, &run.id);
    }

    pub(crate) fn remove_run(&mut self, id: &RunId) {
        if let Some(removed_run) = self.runs.remove(id) {
            self.runs_by_creation.remove(run_list_keys(&removed_run), removed_run.created_at, id);
        }
    }

    /// Replaces the record of a slot's thread id, and updates the list of deleted ids, which are forgotten later
    /// (TH-25).
    pub(crate) fn put_id_record(&mut self, id: &ThreadId, slot: &mut ThreadSlot, record: ThreadIdRecord) {
        if let Some(at) = slot.id_record.deleted_at {
            self.deleted_ids.remove(&(at, id.clone()));
        }
        self.deleted_ids.extend(record.deleted_at.map(|at| (at, id.clone())));
        slot.id_record = record;
    }

    /// Returns the deleted ids, earliest deletion first.
    pub(crate) fn deleted_ids(&self) -> impl Iterator<Item = &(Timestamp, ThreadId)> {
        self.deleted_ids.iter()
    }

    /// Returns what the plan of a commit reads from the index: the runs that `needs` names, whichever thread they
    /// belong to, and whether the parent that it names exists.
    pub(crate) fn records_for_plan(&self, needs: &NeededKeys) -> IndexRecords {
        let has_parent = needs.parent_thread.as_ref().is_some_and(|parent| self.threads.contains_key(parent));
        IndexRecords { has_parent, ..self.runs_for_plan(&needs.runs) }
    }

    /// Returns what the plan of a change to a queue reads from the index: these runs.
    pub(crate) fn runs_for_plan<'a>(&self, runs: impl IntoIterator<Item = &'a RunId>) -> IndexRecords {
        let runs = runs.into_iter().filter_map(|id| Some((id.clone(), Arc::clone(self.runs.get(id)?))));
        IndexRecords { runs: runs.collect(), has_parent: false }
    }

    /// Returns whether each run that the plan looked up still belongs to the same thread, or still does not exist.
    pub(crate) fn are_run_owners_unchanged(&self, needs: &NeededKeys, records_of_plan: &IndexRecords) -> bool {
        let owner = |run: &Arc<Run>| run.thread.clone();
        needs.runs.iter().all(|id| self.runs.get(id).map(owner) == records_of_plan.runs.get(id).map(owner))
    }

    /// Returns a thread and all its ancestors, nearest first. The list is empty if the thread does not exist.
    pub(crate) fn lineage(&self, id: &ThreadId) -> Vec<ThreadId> {
        let mut lineage = Vec::new();
        let mut next = self.threads.get(id);
        while let Some(row) = next {
            lineage.push(row.thread.thread.id.clone());
            next = row.thread.thread.parent_thread_id.as_ref().and_then(|parent| self.threads.get(parent));
        }
        lineage
    }

    pub(crate) fn children(&self, parent: &ThreadId) -> impl Iterator<Item = &ThreadId> {
        self.threads_by_creation.ids(&ThreadListKey::ChildrenOf(parent.clone()))
    }

    pub(crate) fn count_children(&self, parent: &ThreadId) -> usize {
        self.threads_by_creation.len(&ThreadListKey::ChildrenOf(parent.clone()))
    }

    pub(crate) fn walk_threads(
        &self,
        key: &ThreadListKey,
        order: ThreadOrder,
        walk: &TimeWalk<ThreadId>,
    ) -> impl Iterator<Item = (Timestamp, &ThreadRow)> {
        let sets = match order {
            ThreadOrder::LastActivity => &self.threads_by_activity,
            ThreadOrder::Creation => &self.threads_by_creation,
        };
        sets.walk(key, walk).filter_map(|(time, id)| Some((time, self.threads.get(id)?)))
    }

    pub(crate) fn walk_runs(
        &self,
        filter: &RunFilter,
        walk: &TimeWalk<RunId>,
    ) -> impl Iterator<Item = (Timestamp, &Arc<Run>)> {
        let is_backward = walk.direction == Direction::Backward;
        let lists: Vec<_> =
            filter.list_keys().into_iter().map(|key| self.runs_by_creation.walk(&key.into(), walk)).collect();
        let positions = merge_ordered(lists, move |a, b| if is_backward { a > b } else { a < b });
        positions.filter_map(|(time, id)| Some((time, self.runs.get(id)?)))
    }

    pub(crate) fn count_threads(&self, key: &ThreadListKey) -> usize {
        self.threads_by_creation.len(key)
    }

    pub(crate) fn count_runs(&self) -> usize {
        self.runs_by_creation.len(&RunListKey::All)
    }
}
