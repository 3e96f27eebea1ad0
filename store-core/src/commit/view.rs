//! What a plan looks at: the exact keys of a commit, and the stored records under them.

use std::collections::BTreeSet;

use super::{Commit, KeyRecord};
use crate::{
    error::Result,
    event::{EventView, Scope},
    id::{CommitKey, DedupeKey, EntryId, LaneId, OutboxTarget, RunId, ThreadId},
    json::Json,
    log::{MarkSource, NewBody, Nodes, ParentRef, RewindTo},
    mailbox::MailboxView,
    outbox::{OrderGroup, OutboxRows},
    pending::{DecisionRecord, StoredInput},
    run::Run,
    thread::{IdRecord, StoredThread},
};

/// What is stored of a thread's log, as a plan asks for it.
///
/// A lookup is a plain call: a backend whose records are at hand answers it, another one loads what [`needs`] names
/// before, in one round trip.
pub trait LogView: Nodes + MarkSource {
    /// The sequence number of an entry of the thread.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn entry(&self, id: &EntryId) -> Result<Option<u64>>;

    /// The id of the entry with this sequence number.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn entry_id(&self, seq: u64) -> Result<EntryId>;

    /// The sequence number of the newest checkpoint that has this name now.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn snapshot(&self, name: &str) -> Result<Option<u64>>;
}

/// What is stored beside the log, as a plan asks for it.
pub trait CommitView: LogView + EventView + OutboxRows {
    /// The incarnation of the store (FI-12).
    fn incarnation(&self) -> u64;

    /// The mailbox that the store keeps with its threads, for the plan of a commit under a claim; none if it has none,
    /// or if the commit has no fence. What it shows must stay so until the plan is written.
    fn claims(&self) -> Option<&dyn MailboxView>;

    /// What is remembered of the thread's id.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn id_record(&self) -> Result<IdRecord>;

    /// The thread.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn thread(&self) -> Result<Option<StoredThread>>;

    /// What is remembered of a commit key of the thread.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn key(&self, key: &CommitKey) -> Result<Option<KeyRecord>>;

    /// Whether another thread of the tenant exists.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn thread_exists(&self, id: &ThreadId) -> Result<bool>;

    /// A run of the tenant.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn run(&self, id: &RunId) -> Result<Option<Run>>;

    /// A value of the thread's state.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn state(&self, key: &str) -> Result<Option<Json>>;

    /// A pending input of the thread.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn pending(&self, id: &EntryId) -> Result<Option<StoredInput>>;

    /// What was decided about a ticket of a run of the thread.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn decision(&self, run: &RunId, ticket: &str) -> Result<Option<DecisionRecord>>;

    /// The ids of the thread's pending inputs, in order.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn queue(&self) -> Result<Vec<EntryId>>;
}

/// The keys that the plan of a commit looks at, apart from the thread, its id and its head.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Needs {
    /// The commit key.
    pub key: Option<CommitKey>,
    /// The parent of a thread that the commit may make.
    pub parent_thread: Option<ThreadId>,
    /// Runs: the one written, its parent, and those that entries name.
    pub runs: BTreeSet<RunId>,
    /// Entries: ids to be free, parents and targets.
    pub entries: BTreeSet<EntryId>,
    /// Pending inputs: those consumed, and ids to be free.
    pub pending: BTreeSet<EntryId>,
    /// Names of snapshots.
    pub snapshots: BTreeSet<String>,
    /// Keys of the thread's state.
    pub state: BTreeSet<String>,
    /// Rows of the outbox that have one of these keys.
    pub outbox_keys: BTreeSet<(LaneId, OutboxTarget, DedupeKey)>,
    /// Groups of the outbox that a number is taken in.
    pub outbox_groups: BTreeSet<OrderGroup>,
}

/// The exact keys that the plan of `commit` looks at. What two commits of different threads share of them is all that
/// they can wait for each other for (PR-12).
#[must_use]
pub fn needs(commit: &Commit) -> Needs {
    let mut needs = Needs {
        key: commit.key.clone(),
        parent_thread: commit.create.as_ref().and_then(|create| create.parent_thread_id.clone()),
        ..Needs::default()
    };
    for draft in commit.events.iter().flat_map(|events| &events.drafts) {
        for scope in &draft.scopes {
            if let Scope::Run(run) = scope {
                needs.runs.insert(run.clone());
            }
        }
    }
    for row in &commit.outbox {
        let (lane, target) = (row.lane.clone(), row.target.clone());
        needs.outbox_keys.extend(row.dedupe_key.clone().map(|key| (lane.clone(), target.clone(), key)));
        needs.outbox_groups.extend(row.order_key.clone().map(|key| OrderGroup { lane, target, key }));
    }
    for input in &commit.consume {
        needs.entries.insert(input.id.clone());
        needs.pending.insert(input.id.clone());
    }
    for entry in &commit.entries {
        needs.runs.extend(entry.run.clone());
        needs.entries.extend(entry.id.clone());
        needs.pending.extend(entry.id.clone());
        if let ParentRef::Entry(parent) = &entry.parent {
            needs.entries.insert(parent.clone());
        }
        match &entry.body {
            NewBody::Compaction(compaction) => {
                let ends = compaction.covers.iter().flat_map(|covers| [&covers.from, &covers.to]);
                needs.entries.extend(ends.cloned());
            }
            NewBody::Label(label) => {
                needs.entries.insert(label.target.clone());
            }
            NewBody::Rewind(RewindTo::Entry(target)) => {
                needs.entries.insert(target.clone());
            }
            NewBody::Rewind(RewindTo::Snapshot(name)) => {
                needs.snapshots.insert(name.clone());
            }
            _ => {}
        }
    }
    if let Some(run) = &commit.run {
        needs.runs.insert(run.id.clone());
        needs.runs.extend(run.parent_run.clone());
    }
    if let Some(state) = &commit.state {
        needs.state.extend(state.changes.iter().map(|(key, _)| key.clone()));
    }
    needs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Needs, needs};
    use crate::{Commit, CommitKey, Compaction, EntryId, Interval, Label, NewBody, NewEntry, RewindTo, ThreadId};

    fn entry(id: &str) -> EntryId {
        EntryId::new(id).unwrap()
    }

    #[test]
    fn what_the_body_of_an_entry_names_is_needed() {
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
        let right = Needs {
            key: Some(key),
            entries: ["a", "b", "c", "d"].map(entry).into(),
            snapshots: BTreeSet::from(["s".to_owned()]),
            ..Needs::default()
        };
        assert_eq!(needs(&commit), right);
    }
}
