//! What deltas that are not yet applied say about one thread.

use std::collections::{BTreeMap, HashMap};

use crate::{
    commit::{CommitKeyRecord, Plan, PlannedEntry},
    id::{CommitKey, EntryId, RunId},
    json::Json,
    limits::length,
    log::{Body, EntryMarks, Node},
    pending::{DecisionRecord, StoredInput},
    thread::{StoredThread, ThreadIdRecord},
};

/// The size in bytes of what is kept of a small record, about: mostly its id or its key.
const KEPT_RECORD: u64 = 128;
/// The number of nodes of applied entries after which those that the next commits hardly need are removed.
const MAX_APPLIED_NODES: usize = 128;
/// The number of the newest nodes that stay.
const NEWEST_NODES: usize = 32;

/// A record, with the sequence number of the delta that wrote it.
pub(super) type Stamped<T> = (u64, T);

/// The records of one thread that deltas wrote. A record is that of the newest delta.
#[derive(Debug, Default)]
pub(super) struct ThreadOverlay {
    /// The newest delta about the thread.
    pub(super) newest: u64,
    /// The newest deletion or creation of the thread, if it is not applied. What the inner store has of the thread,
    /// also of its runs and documents, is then older, and does not count.
    pub(super) hides_stored: Option<u64>,
    /// Whether it is known from here which records the thread has, because a delta created or deleted it. Records of an
    /// existing thread are kept for a while after they are applied: all but the contents of entries, the records of
    /// commit keys, and the nodes and marks of older entries, which the inner store has.
    pub(super) is_whole: bool,
    /// The size in bytes of the applied records, about.
    pub(super) kept: u64,
    /// The thread; none if it was deleted.
    pub(super) thread: Option<Stamped<Option<StoredThread>>>,
    pub(super) id_record: Option<Stamped<ThreadIdRecord>>,
    pub(super) entries: BTreeMap<u64, Stamped<PlannedEntry>>,
    pub(super) entry_seqs: HashMap<EntryId, u64>,
    /// The nodes and ids of the newest applied entries and of those that their jumps lead to, if the thread is whole.
    pub(super) applied_nodes: BTreeMap<u64, (Node, EntryId)>,
    pub(super) marks: BTreeMap<u64, Stamped<EntryMarks>>,
    /// The newest delta that gave or took a name of a checkpoint.
    pub(super) newest_naming: u64,
    /// The commit keys. The record of an applied one is only in the inner store (none).
    pub(super) keys: HashMap<CommitKey, Stamped<Option<CommitKeyRecord>>>,
    /// The newest delta that removed all keys of the state.
    pub(super) state_cleared: Option<u64>,
    pub(super) state: HashMap<String, Stamped<Option<Json>>>,
    /// Inputs that were put, and those that were removed (none).
    pub(super) inputs: HashMap<EntryId, Stamped<Option<StoredInput>>>,
    /// The new ranks of inputs.
    pub(super) ranks: HashMap<EntryId, Stamped<u64>>,
    pub(super) decisions: HashMap<(RunId, String), Stamped<DecisionRecord>>,
}

impl ThreadOverlay {
    /// Adds the records of a plan. The runs, events, rows and documents of the plan are not records of the thread.
    pub(super) fn add(&mut self, at: u64, plan: &Plan) {
        if plan.creates_thread {
            *self = Self { hides_stored: Some(at), is_whole: true, ..Self::default() };
        }
        self.newest = at;
        if let Some(thread) = &plan.thread {
            self.thread = Some((at, Some(thread.clone())));
        }
        self.id_record = Some((at, plan.id_record.clone()));
        for planned in &plan.entries {
            let seq = planned.node.seq;
            if matches!(&*planned.entry.body, Body::Label(_) | Body::Checkpoint(_)) {
                self.newest_naming = at;
            }
            self.entry_seqs.insert(planned.entry.id.clone(), seq);
            self.entries.insert(seq, (at, planned.clone()));
        }
        self.marks.extend(plan.marks.iter().map(|(seq, marks)| (*seq, (at, marks.clone()))));
        if let Some(record) = &plan.key {
            self.keys.insert(record.key.clone(), (at, Some(record.clone())));
        }
        if plan.state.clear {
            self.state_cleared = Some(at);
            self.state.clear();
        }
        self.state.extend(plan.state.values.iter().map(|(key, value)| (key.clone(), (at, value.clone()))));
        self.add_queue(at, plan);
    }

    fn add_queue(&mut self, at: u64, plan: &Plan) {
        for stored in &plan.queue.put {
            if let Some((decision, record)) = stored.input.decision() {
                self.decisions.insert((decision.run.clone(), decision.ticket.clone()), (at, record));
            }
            self.inputs.insert(stored.input.id.clone(), (at, Some(stored.clone())));
            self.ranks.insert(stored.input.id.clone(), (at, stored.rank));
        }
        for id in &plan.queue.removed {
            self.inputs.insert(id.clone(), (at, None));
        }
        self.ranks.extend(plan.queue.ranks.iter().map(|(id, rank)| (id.clone(), (at, *rank))));
    }

    /// Replaces everything by the deletion of the thread.
    pub(super) fn delete(&mut self, at: u64, id_record: ThreadIdRecord) {
        *self = Self {
            newest: at,
            hides_stored: Some(at),
            is_whole: true,
            thread: Some((at, None)),
            id_record: Some((at, id_record)),
            ..Self::default()
        };
    }

    /// Sets the record of a thread that lost its parent.
    pub(super) fn detach(&mut self, at: u64, thread: StoredThread) {
        self.newest = at;
        self.thread = Some((at, Some(thread)));
    }

    /// Returns whether the thread exists, and every record of it is here.
    pub(super) const fn is_whole_and_exists(&self) -> bool {
        self.is_whole && matches!(self.thread, Some((_, Some(_))))
    }

    /// Notes that the delta `at` has been applied. Keeps what the decisions about a whole thread need.
    pub(super) fn keep(&mut self, at: u64, plan: Option<&Plan>) {
        if self.hides_stored == Some(at) {
            self.hides_stored = None;
        }
        if self.newest_naming == at {
            self.newest_naming = 0;
        }
        let Some(plan) = plan else { return };
        for planned in &plan.entries {
            let seq = planned.node.seq;
            if self.entries.get(&seq).is_some_and(|(stamp, _)| *stamp == at) {
                self.entries.remove(&seq);
                self.applied_nodes.insert(seq, (planned.node.clone(), planned.entry.id.clone()));
            }
        }
        if let Some((stamp, record)) = plan.key.as_ref().and_then(|record| self.keys.get_mut(&record.key))
            && *stamp == at
        {
            *record = None;
        }
        self.remove_older_nodes(at);
        let records = 1 + plan.entries.len() + plan.state.values.len() + 4 * plan.queue.put.len();
        let state: usize = plan.state.values.values().flatten().map(|value| value.as_str().len()).sum();
        self.kept += KEPT_RECORD * length(records) + length(state);
    }

    /// Removes the nodes and marks of applied entries, if they are many: all but the newest, and those that a commit
    /// below the head follows.
    fn remove_older_nodes(&mut self, applied: u64) {
        if self.applied_nodes.len() <= MAX_APPLIED_NODES {
            return;
        }
        let mut needed: Vec<u64> = self.applied_nodes.keys().rev().take(NEWEST_NODES).copied().collect();
        let head = self.thread.as_ref().and_then(|(_, thread)| thread.as_ref()?.head_seq);
        let mut next = head.or_else(|| needed.first().copied());
        while let Some(seq) = next {
            needed.push(seq);
            let waiting = self.entries.get(&seq).map(|(_, planned)| &planned.node);
            next = waiting.or_else(|| self.applied_nodes.get(&seq).map(|(node, _)| node)).and_then(|node| node.jump);
        }
        self.applied_nodes.retain(|seq, _| needed.contains(seq));
        let (nodes, entries) = (&self.applied_nodes, &self.entries);
        self.marks.retain(|seq, (stamp, _)| *stamp > applied || nodes.contains_key(seq) || entries.contains_key(seq));
    }

    /// Removes all records that the inner store has, up to the delta `applied`.
    pub(super) fn forget_applied(&mut self, applied: u64) {
        if !self.is_whole_and_exists() || self.hides_stored.is_some() {
            return;
        }
        (self.is_whole, self.kept) = (false, 0);
        self.applied_nodes.clear();
        let entries = &self.entries;
        self.entry_seqs.retain(|_, seq| entries.contains_key(seq));
        self.thread = self.thread.take().filter(|(stamp, _)| *stamp > applied);
        self.id_record = self.id_record.take().filter(|(stamp, _)| *stamp > applied);
        self.state_cleared = self.state_cleared.filter(|stamp| *stamp > applied);
        self.marks.retain(|_, (stamp, _)| *stamp > applied);
        self.keys.retain(|_, (stamp, _)| *stamp > applied);
        self.state.retain(|_, (stamp, _)| *stamp > applied);
        self.inputs.retain(|_, (stamp, _)| *stamp > applied);
        self.ranks.retain(|_, (stamp, _)| *stamp > applied);
        self.decisions.retain(|_, (stamp, _)| *stamp > applied);
    }

    /// Removes the records of the delta `at`, which has been applied, unless a later delta has replaced them.
    pub(super) fn remove(&mut self, at: u64, plan: &Plan) {
        let is_of_delta = |stamp: u64| stamp == at;
        if self.hides_stored == Some(at) {
            self.hides_stored = None;
        }
        remove_single(&mut self.thread, at);
        remove_single(&mut self.id_record, at);
        for planned in &plan.entries {
            if self.entries.get(&planned.node.seq).is_some_and(|(stamp, _)| is_of_delta(*stamp)) {
                self.entries.remove(&planned.node.seq);
                self.entry_seqs.remove(&planned.entry.id);
            }
        }
        plan.marks.keys().for_each(|seq| remove_ordered(&mut self.marks, seq, at));
        plan.key.iter().for_each(|record| remove_stamped(&mut self.keys, &record.key, at));
        if self.state_cleared == Some(at) {
            self.state_cleared = None;
        }
        plan.state.values.keys().for_each(|key| remove_stamped(&mut self.state, key, at));
        for stored in &plan.queue.put {
            if let Some((decision, _)) = stored.input.decision() {
                remove_stamped(&mut self.decisions, &(decision.run.clone(), decision.ticket.clone()), at);
            }
            remove_stamped(&mut self.inputs, &stored.input.id, at);
            remove_stamped(&mut self.ranks, &stored.input.id, at);
        }
        plan.queue.removed.iter().for_each(|id| remove_stamped(&mut self.inputs, id, at));
        plan.queue.ranks.iter().for_each(|(id, _)| remove_stamped(&mut self.ranks, id, at));
    }

    /// Removes the deletion `at`, which has been applied.
    pub(super) fn remove_deletion(&mut self, at: u64) {
        if self.hides_stored == Some(at) {
            self.hides_stored = None;
        }
        remove_single(&mut self.thread, at);
        remove_single(&mut self.id_record, at);
    }
}

fn remove_single<T>(record: &mut Option<Stamped<T>>, at: u64) {
    if record.as_ref().is_some_and(|(stamp, _)| *stamp == at) {
        *record = None;
    }
}

fn remove_ordered<K: Ord, T>(records: &mut BTreeMap<K, Stamped<T>>, key: &K, at: u64) {
    if records.get(key).is_some_and(|(stamp, _)| *stamp == at) {
        records.remove(key);
    }
}

/// Removes a record if the delta `at` wrote it.
pub(super) fn remove_stamped<K: std::hash::Hash + Eq, T>(records: &mut HashMap<K, Stamped<T>>, key: &K, at: u64) {
    if records.get(key).is_some_and(|(stamp, _)| *stamp == at) {
        records.remove(key);
    }
}
