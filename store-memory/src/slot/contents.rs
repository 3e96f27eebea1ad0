//! A thread with its log, runs, state, pending input and commit keys.

use std::{collections::BTreeMap, sync::Arc};

use store_core::{
    CommitKey, Entry, EntryId, Error, Result, Run, RunId, ThreadState,
    commit::{CommitKeyRecord, LogView, Plan},
    length,
    log::{EntryMarks, MarkSource, Node, NodeSource},
    thread::StoredThread,
};

use super::{DerivedLogData, InputQueue};
use crate::tenant::ScopeDocuments;

/// An entry of the log, with its node (its place in the tree of entries, which never changes) and its marks (what later
/// entries say about it).
#[derive(Debug, Clone)]
pub(crate) struct LogEntry {
    pub(crate) entry: Arc<Entry>,
    pub(crate) node: Node,
    pub(crate) marks: EntryMarks,
    pub(crate) bytes: u64,
}

/// A thread and all data that belongs to it.
#[derive(Debug)]
pub(crate) struct ThreadContents {
    pub(crate) thread: Arc<StoredThread>,
    pub(crate) log: Vec<LogEntry>,
    pub(crate) derived: DerivedLogData,
    pub(crate) state: ThreadState,
    pub(crate) runs: BTreeMap<RunId, Arc<Run>>,
    pub(crate) queue: InputQueue,
    commit_keys: BTreeMap<CommitKey, CommitKeyRecord>,
    /// The documents of the thread, once it is deleted. Until then the index has them.
    pub(crate) deleted_documents: ScopeDocuments,
}

impl ThreadContents {
    pub(crate) fn new(thread: Arc<StoredThread>) -> Self {
        Self {
            thread,
            log: Vec::new(),
            derived: DerivedLogData::default(),
            state: ThreadState::new(),
            runs: BTreeMap::new(),
            queue: InputQueue::default(),
            commit_keys: BTreeMap::new(),
            deleted_documents: ScopeDocuments::default(),
        }
    }

    /// Returns the entry with this sequence number, its node and its marks.
    pub(crate) fn log_entry(&self, seq: u64) -> Result<&LogEntry> {
        let missing = || Error::corrupt(format!("entry {seq} of the log does not exist"));
        entry_at(&self.log, seq).ok_or_else(missing)
    }

    pub(crate) fn last_seq(&self) -> u64 {
        length(self.log.len())
    }

    pub(crate) fn commit_key(&self, key: &CommitKey) -> Option<&CommitKeyRecord> {
        self.commit_keys.get(key)
    }

    /// Applies a plan. `thread` and `runs` are those of the plan, shared with the index.
    pub(crate) fn apply(&mut self, plan: Plan, thread: Arc<StoredThread>, runs: Vec<Arc<Run>>) {
        self.thread = thread;
        for planned_entry in plan.entries {
            let bytes = length(planned_entry.text.len());
            let log_entry = LogEntry {
                entry: Arc::new(planned_entry.entry),
                node: planned_entry.node,
                marks: EntryMarks::default(),
                bytes,
            };
            self.derived.append(&self.log, &log_entry);
            self.log.push(log_entry);
        }
        for (seq, marks) in plan.marks {
            if let Some(log_entry) = entry_at_mut(&mut self.log, seq) {
                log_entry.marks = marks;
            }
        }
        if plan.state.clear {
            self.state.clear();
        }
        for (key, value) in plan.state.values {
            match value {
                Some(value) => self.state.insert(key, value),
                None => self.state.remove(&key),
            };
        }
        self.queue.apply(plan.queue);
        self.runs.extend(runs.into_iter().map(|run| (run.id.clone(), run)));
        self.commit_keys.extend(plan.key.map(|record| (record.key.clone(), record)));
    }

    /// Returns the records of all commit keys, in their order.
    pub(crate) fn commit_keys(&self) -> impl Iterator<Item = &CommitKeyRecord> {
        self.commit_keys.values()
    }

    /// Writes the record of a commit key as it was in another store.
    pub(crate) fn restore_commit_key(&mut self, record: CommitKeyRecord) {
        self.commit_keys.insert(record.key.clone(), record);
    }

    /// Adds an entry as it was in another store. An entry that the log has already is replaced.
    pub(crate) fn restore_entry(&mut self, log_entry: LogEntry) {
        match entry_at_mut(&mut self.log, log_entry.node.seq) {
            Some(old) => *old = log_entry,
            None => {
                self.derived.append(&self.log, &log_entry);
                self.log.push(log_entry);
            }
        }
    }

    /// Returns the number of items that `remove_up_to` removes: entries, commit keys, pending inputs, runs with
    /// decisions, and documents.
    pub(crate) fn item_count(&self) -> usize {
        self.log.len() + self.commit_keys.len() + self.queue.item_count() + self.deleted_documents.len()
    }

    /// Removes up to `max_items` items of a deleted thread, the last first. Returns how many were removed.
    pub(crate) fn remove_up_to(&mut self, max_items: usize) -> usize {
        let initial_count = self.item_count();
        for log_entry in self.log.drain(self.log.len().saturating_sub(max_items)..) {
            self.derived.remove_entry(&log_entry);
        }
        while initial_count - self.item_count() < max_items
            && (self.commit_keys.pop_last().is_some()
                || self.queue.remove_last()
                || self.deleted_documents.remove_last())
        {}
        initial_count - self.item_count()
    }
}

/// Returns the element of a log with this sequence number. Sequence numbers count from 1.
pub(super) fn entry_at(log: &[LogEntry], seq: u64) -> Option<&LogEntry> {
    log.get(usize::try_from(seq.checked_sub(1)?).ok()?)
}

fn entry_at_mut(log: &mut [LogEntry], seq: u64) -> Option<&mut LogEntry> {
    log.get_mut(usize::try_from(seq.checked_sub(1)?).ok()?)
}

impl NodeSource for ThreadContents {
    fn node(&self, seq: u64) -> Result<Node> {
        self.log_entry(seq).map(|log_entry| log_entry.node.clone())
    }
}

impl MarkSource for ThreadContents {
    fn marks(&self, seq: u64) -> Result<EntryMarks> {
        self.log_entry(seq).map(|log_entry| log_entry.marks.clone())
    }
}

impl LogView for ThreadContents {
    fn entry(&self, id: &EntryId) -> Result<Option<u64>> {
        Ok(self.derived.seq_of(id))
    }

    fn entry_id(&self, seq: u64) -> Result<EntryId> {
        self.log_entry(seq).map(|log_entry| log_entry.entry.id.clone())
    }

    fn snapshot(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.derived.newest_snapshot(name))
    }
}

#[cfg(test)]
mod tests {
    use store_core::{
        AgentId, AppendPending, Commit, CommitKey, Decision, DecisionAction, EntryId, Message, NewEntry, NewInput,
        RunChange, RunId, RunStatus, Store, TenantId, ThreadId, Ticket, WaitingReason, WaitingState,
    };

    use super::ThreadContents;
    use crate::{MemoryConfig, MemoryStore};

    /// Returns a thread with three entries, two commit keys, two inputs and the decisions of a run.
    async fn contents_of_small_thread() -> Box<ThreadContents> {
        let store = MemoryStore::open(MemoryConfig::default()).unwrap();
        let tenant = store.tenant(&TenantId::default_tenant()).unwrap();
        let (thread, run) = (ThreadId::new("t").unwrap(), RunId::new("r").unwrap());
        let mut waiting_state = WaitingState::new(WaitingReason::ToolPermission);
        waiting_state.tickets = vec![Ticket::new("k"), Ticket::new("l")];
        let status = [RunStatus::Running, RunStatus::Waiting(Box::new(waiting_state))];
        let commits = tenant.commits.unwrap();
        for (key, status) in ["a", "b"].into_iter().zip(status) {
            let change = RunChange::new(run.clone(), status).with_agent(AgentId::new("a").unwrap());
            let user_entry = |name: &str| NewEntry::new(Message::user(name)).with_id(EntryId::new(name).unwrap());
            let commit = Commit::new(thread.clone()).with_key(CommitKey::new(key).unwrap()).with_run(change);
            let entries = if key == "a" { vec![user_entry("1"), user_entry("2")] } else { vec![user_entry("3")] };
            let _ = commits.commit(commit.entries(entries)).await.unwrap();
        }
        let decision_input =
            |ticket: &str| NewInput::decision(Decision::new(run.clone(), ticket, DecisionAction::Resume));
        let inputs = AppendPending::new(thread.clone(), [decision_input("k"), decision_input("l")]);
        tenant.pending.unwrap().append_pending(inputs).await.unwrap();
        store.tenants().unwrap()[0].slots.write(&thread, |slot| slot.contents.take()).unwrap()
    }

    #[tokio::test]
    async fn a_deleted_thread_is_removed_in_batches() {
        let mut contents = contents_of_small_thread().await;
        assert_eq!((contents.log.len(), contents.commit_keys.len(), contents.queue.item_count()), (3, 2, 3));
        assert_eq!(contents.item_count(), 8);
        let seqs = |contents: &ThreadContents| {
            ["1", "2", "3"].map(|name| contents.derived.seq_of(&EntryId::new(name).unwrap()))
        };
        assert_eq!(seqs(&contents), [Some(1), Some(2), Some(3)]);
        assert_eq!(contents.remove_up_to(2), 2);
        assert_eq!((seqs(&contents), contents.log.len()), ([Some(1), None, None], 1));
        assert_eq!(contents.remove_up_to(2), 2);
        assert_eq!((contents.log.len(), contents.commit_keys.len(), contents.queue.item_count()), (0, 1, 3));
        assert_eq!(contents.remove_up_to(3), 3);
        assert_eq!((contents.commit_keys.len(), contents.queue.item_count()), (0, 1));
        assert_eq!((contents.remove_up_to(2), contents.remove_up_to(2), contents.item_count()), (1, 0, 0));
    }
}
