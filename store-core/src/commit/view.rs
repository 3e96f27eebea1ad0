//! What a plan reads: the exact keys that a commit needs, and the stored records under these keys.

use std::collections::BTreeSet;

use super::{Commit, CommitKeyRecord};
use crate::{
    document::{DocumentRef, DocumentView},
    error::Result,
    event::{EventView, Scope},
    id::{CommitKey, DedupeKey, EntryId, LaneId, OutboxTarget, RunId, ThreadId},
    json::Json,
    log::{MarkSource, NewBody, NodeSource, ParentRef, RewindTo},
    mailbox::MailboxView,
    outbox::{OrderGroup, OutboxView},
    pending::{DecisionRecord, StoredInput},
    run::Run,
    thread::{StoredThread, ThreadIdRecord},
};

/// The stored log of a thread, as a plan reads it.
///
/// The methods are not asynchronous. A backend that has its records in memory or on disk answers them directly. A
/// backend with a server first loads everything that [`needed_keys`] names, in one round trip.
pub trait LogView: NodeSource + MarkSource {
    /// Returns the sequence number of an entry of the thread.
    ///
    /// # Errors
    /// Any error of the read.
    fn entry(&self, id: &EntryId) -> Result<Option<u64>>;

    /// Returns the id of the entry with this sequence number.
    ///
    /// # Errors
    /// Any error of the read.
    fn entry_id(&self, seq: u64) -> Result<EntryId>;

    /// Returns the sequence number of the newest checkpoint that has this name now.
    ///
    /// # Errors
    /// Any error of the read.
    fn snapshot(&self, name: &str) -> Result<Option<u64>>;
}

/// The stored records outside of the log, as a plan reads them.
pub trait CommitView: LogView + DocumentView + EventView + OutboxView {
    /// Returns the incarnation of the store (FI-12).
    fn incarnation(&self) -> u64;

    /// Returns the mailbox that the store keeps with its threads, for the plan of a commit under a claim.
    ///
    /// Returns none if the store keeps no such mailbox, or if the commit has no fence. The records that the mailbox
    /// shows must not change until the plan is written.
    fn fenced_mailbox(&self) -> Option<&dyn MailboxView>;

    /// Returns what the store keeps about the thread's id, even if no such thread exists.
    ///
    /// # Errors
    /// Any error of the read.
    fn id_record(&self) -> Result<ThreadIdRecord>;

    /// Returns the thread.
    ///
    /// # Errors
    /// Any error of the read.
    fn thread(&self) -> Result<Option<StoredThread>>;

    /// Returns the record of a commit key of the thread.
    ///
    /// # Errors
    /// Any error of the read.
    fn key(&self, key: &CommitKey) -> Result<Option<CommitKeyRecord>>;

    /// Returns whether another thread of the tenant exists.
    ///
    /// # Errors
    /// Any error of the read.
    fn thread_exists(&self, id: &ThreadId) -> Result<bool>;

    /// Returns a run of the tenant.
    ///
    /// # Errors
    /// Any error of the read.
    fn run(&self, id: &RunId) -> Result<Option<Run>>;

    /// Returns a value of the thread's state.
    ///
    /// # Errors
    /// Any error of the read.
    fn state(&self, key: &str) -> Result<Option<Json>>;

    /// Returns a pending input of the thread.
    ///
    /// # Errors
    /// Any error of the read.
    fn pending(&self, id: &EntryId) -> Result<Option<StoredInput>>;

    /// Returns the decision on a ticket of a run of the thread.
    ///
    /// # Errors
    /// Any error of the read.
    fn decision(&self, run: &RunId, ticket: &str) -> Result<Option<DecisionRecord>>;

    /// Returns the ids of the thread's pending inputs, in order.
    ///
    /// # Errors
    /// Any error of the read.
    fn queue(&self) -> Result<Vec<EntryId>>;
}

/// The keys that the plan of a commit reads, besides the thread, its id and its head.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NeededKeys {
    /// The commit key.
    pub key: Option<CommitKey>,
    /// The parent of a thread that the commit may create.
    pub parent_thread: Option<ThreadId>,
    /// Runs: the run that is written, its parent, and the runs that entries and events name.
    pub runs: BTreeSet<RunId>,
    /// Entries: the ids of new entries, which must not be in use, and the entries that are named as parents or targets.
    pub entries: BTreeSet<EntryId>,
    /// Pending inputs: those that are consumed, and the ids of new entries, which must not be in use.
    pub pending: BTreeSet<EntryId>,
    /// Names of snapshots.
    pub snapshots: BTreeSet<String>,
    /// Keys of the thread's state.
    pub state: BTreeSet<String>,
    /// Documents that are changed or checked.
    pub documents: BTreeSet<DocumentRef>,
    /// The dedupe keys of outbox rows, each with its lane and target.
    pub outbox_keys: BTreeSet<(LaneId, OutboxTarget, DedupeKey)>,
    /// The order groups of the outbox in which a new row takes the next number.
    pub outbox_groups: BTreeSet<OrderGroup>,
}

/// Returns the exact keys that the plan of `commit` reads.
///
/// Commits of different threads can wait for each other only because of the keys that they share (PR-12).
#[must_use]
pub fn needed_keys(commit: &Commit) -> NeededKeys {
    let mut needed_keys = NeededKeys {
        key: commit.key.clone(),
        parent_thread: commit.create.as_ref().and_then(|create| create.parent_thread_id.clone()),
        documents: commit.documents.iter().map(|change| change.document.clone()).collect(),
        ..NeededKeys::default()
    };
    for draft in commit.events.iter().flat_map(|events| &events.drafts) {
        for scope in &draft.scopes {
            if let Scope::Run(run) = scope {
                needed_keys.runs.insert(run.clone());
            }
        }
    }
    for row in &commit.outbox {
        let (lane, target) = (row.lane.clone(), row.target.clone());
        needed_keys.outbox_keys.extend(row.dedupe_key.clone().map(|key| (lane.clone(), target.clone(), key)));
        needed_keys.outbox_groups.extend(row.order_key.clone().map(|key| OrderGroup { lane, target, key }));
    }
    for input in &commit.consume {
        needed_keys.entries.insert(input.id.clone());
        needed_keys.pending.insert(input.id.clone());
    }
    for entry in &commit.entries {
        needed_keys.runs.extend(entry.run.clone());
        needed_keys.entries.extend(entry.id.clone());
        needed_keys.pending.extend(entry.id.clone());
        if let ParentRef::Entry(parent) = &entry.parent {
            needed_keys.entries.insert(parent.clone());
        }
        match &entry.body {
            NewBody::Compaction(compaction) => {
                let ends = compaction.covers.iter().flat_map(|covers| [&covers.from, &covers.to]);
                needed_keys.entries.extend(ends.cloned());
            }
            NewBody::Label(label) => {
                needed_keys.entries.insert(label.target.clone());
            }
            NewBody::Rewind(RewindTo::Entry(target)) => {
                needed_keys.entries.insert(target.clone());
            }
            NewBody::Rewind(RewindTo::Snapshot(name)) => {
                needed_keys.snapshots.insert(name.clone());
            }
            _ => {}
        }
    }
    if let Some(run) = &commit.run {
        needed_keys.runs.insert(run.id.clone());
        needed_keys.runs.extend(run.parent_run.clone());
    }
    if let Some(state) = &commit.state {
        needed_keys.state.extend(state.changes.iter().map(|(key, _)| key.clone()));
    }
    needed_keys
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{NeededKeys, needed_keys};
    use crate::{Commit, CommitKey, Compaction, EntryId, Interval, Label, NewBody, NewEntry, RewindTo, ThreadId};

    fn entry(id: &str) -> EntryId {
        EntryId::new(id).unwrap()
    }

    #[test]
    fn records_named_by_the_body_of_an_entry_are_needed() {
        let covers = Interval::new(entry("a"), entry("b"));
        let bodies = [
            NewBody::Compaction(Compaction { covers: Some(covers), ..Compaction::default() }),
            NewBody::Label(Label::new(entry("c"), None)),
            NewBody::Rewind(RewindTo::Entry(entry("d"))),
            NewBody::Rewind(RewindTo::Snapshot("s".to_owned())),
        ];
        let key = CommitKey::new("k").unwrap();
        let commit = Commit::new(ThreadId::new("t").unwrap()).with_key(key.clone());
        let commit = bodies.into_iter().fold(commit, |commit, body| commit.entry(NewEntry::new(body)));
        let expected = NeededKeys {
            key: Some(key),
            entries: ["a", "b", "c", "d"].map(entry).into(),
            snapshots: BTreeSet::from(["s".to_owned()]),
            ..NeededKeys::default()
        };
        assert_eq!(needed_keys(&commit), expected);
    }
}
