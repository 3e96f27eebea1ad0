//! The keys of a delta: what its decision relied on, and what it changes.
//!
//! A delta takes effect only if no message since its decision wrote one of its keys. A key is a letter for its kind,
//! followed by the name of the record.

use std::collections::BTreeSet;

use super::{Delta, ThreadDeletion};
use crate::{
    codec::Codec,
    commit::{Commit, Plan, needed_keys},
    document::{DocumentRef, WriteDocuments},
    event::{AppendEvents, EventPlan, Scope},
    id::{DedupeKey, LaneId, OutboxTarget, RunId, ThreadId},
    outbox::{OrderGroup, OutboxPlan},
};

/// The keys of a delta.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DeltaKeys {
    /// The records that the decision relied on and that the delta does not write.
    pub reads: BTreeSet<String>,
    /// The records that the delta writes.
    pub writes: BTreeSet<String>,
}

impl DeltaKeys {
    /// Makes keys from lists, as a message contains them.
    #[must_use]
    pub fn from_lists(reads: Vec<String>, writes: Vec<String>) -> Self {
        Self { reads: reads.into_iter().collect(), writes: writes.into_iter().collect() }
    }

    /// Returns all keys.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.reads.iter().chain(&self.writes).map(String::as_str)
    }

    /// Returns whether a delta with these keys relies on an earlier one: it uses what that one writes, or writes what
    /// that one relied on. It must not be applied before the earlier one (NB-4).
    ///
    /// A deletion of the tenant relies on nothing: after it, nothing of what came before is left.
    #[must_use]
    pub fn relies_on(&self, earlier: &Self) -> bool {
        let tenant = tenant_key();
        self.all().any(|key| earlier.writes.contains(key))
            || self.writes.iter().any(|key| *key != tenant && earlier.reads.contains(key))
    }

    /// Adds the keys of another delta as keys that are written, except that of the tenant.
    pub fn write_all_of(&mut self, other: &Self) {
        let tenant = tenant_key();
        self.writes.extend(other.all().filter(|key| *key != tenant).map(str::to_owned));
    }

    fn read(&mut self, key: String) {
        self.reads.insert(key);
    }

    fn write(&mut self, key: String) {
        self.writes.insert(key);
    }

    fn add_events(&mut self, request: Option<&AppendEvents>, plan: Option<&EventPlan>) {
        if let Some(request) = request {
            if let (Some(writer), Some(key)) = (&request.writer, &request.key) {
                self.write(format!("k{}\n{}", writer.as_str(), key.as_str()));
            }
            for scope in request.drafts.iter().flat_map(|draft| &draft.scopes) {
                self.read(scope_key(scope));
            }
        }
        for scope in plan.iter().flat_map(|plan| plan.scopes.keys()) {
            self.write(scope_key(scope));
        }
    }

    /// Makes the keys of a deletion of the tenant.
    #[must_use]
    pub fn of_tenant_deletion() -> Self {
        Self { reads: BTreeSet::new(), writes: [tenant_key()].into() }
    }

    /// Removes from the keys that were read those that are also written.
    fn without_repeats(mut self) -> Self {
        self.reads.retain(|key| !self.writes.contains(key));
        self
    }
}

/// The tenant. Every delta relies on it, and its deletion writes it.
#[must_use]
pub fn tenant_key() -> String {
    "*".to_owned()
}

/// The record of a thread, its log, state, queue, and what is kept about its id.
fn thread_key(thread: &ThreadId) -> String {
    format!("t{}", thread.as_str())
}

/// Whether a thread exists.
fn existence_key(thread: &ThreadId) -> String {
    format!("x{}", thread.as_str())
}

/// The children of a thread.
fn children_key(thread: &ThreadId) -> String {
    format!("c{}", thread.as_str())
}

/// The parents of all threads: a change of a parent relies on the parents above it.
fn hierarchy_key() -> String {
    "h".to_owned()
}

fn run_key(run: &RunId) -> String {
    format!("r{}", run.as_str())
}

fn scope_key(scope: &Scope) -> String {
    format!("s{}", scope.encode())
}

fn document_key(document: &DocumentRef) -> String {
    format!("d{}", document.encode())
}

fn dedupe_key((lane, target, key): &(LaneId, OutboxTarget, DedupeKey)) -> String {
    format!("q{}\n{}\n{}", lane.as_str(), target.as_str(), key.as_str())
}

fn group_key(group: &OrderGroup) -> String {
    format!("g{}\n{}\n{}", group.lane.as_str(), group.target.as_str(), group.key.as_str())
}

/// Returns the key under which decisions about a thread are made: a quarantined delta that writes it closes the thread.
#[must_use]
pub fn key_of_thread(thread: &ThreadId) -> String {
    thread_key(thread)
}

/// Returns the keys of a commit and its plan.
#[must_use]
pub fn keys_of_commit(commit: &Commit, plan: &Plan) -> DeltaKeys {
    let (mut keys, needed) = (DeltaKeys::default(), needed_keys(commit));
    keys.write(thread_key(&commit.thread));
    if plan.creates_thread {
        keys.write(existence_key(&commit.thread));
        for parent in plan.thread.iter().filter_map(|stored| stored.thread.parent_thread_id.as_ref()) {
            keys.read(existence_key(parent));
            keys.write(children_key(parent));
        }
    }
    needed.runs.iter().for_each(|run| keys.read(run_key(run)));
    plan.runs.iter().for_each(|run| keys.write(run_key(&run.id)));
    needed.documents.iter().for_each(|document| keys.write(document_key(document)));
    needed.outbox_keys.iter().for_each(|key| keys.read(dedupe_key(key)));
    needed.outbox_groups.iter().for_each(|group| keys.read(group_key(group)));
    add_rows(&mut keys, &plan.outbox);
    keys.add_events(commit.events.as_ref(), plan.events.as_ref());
    keys.without_repeats()
}

fn add_rows(keys: &mut DeltaKeys, plan: &OutboxPlan) {
    for (row, _) in &plan.rows {
        if let Some(key) = row.dedupe_key.clone() {
            keys.write(dedupe_key(&(row.lane.clone(), row.target.clone(), key)));
        }
        row.group().iter().for_each(|group| keys.write(group_key(group)));
    }
}

/// Returns the keys of a delta that changes one thread, and is no commit. `old_parent` is the parent that it had.
#[must_use]
pub fn keys_of_thread(delta: &Delta, old_parent: Option<&ThreadId>) -> DeltaKeys {
    let mut keys = DeltaKeys::default();
    let Delta::Thread(plan) = delta else { return keys };
    keys.write(thread_key(&plan.receipt.thread));
    let parent = plan.thread.as_ref().and_then(|stored| stored.thread.parent_thread_id.as_ref());
    if plan.creates_thread {
        keys.write(existence_key(&plan.receipt.thread));
    } else if parent != old_parent {
        keys.write(hierarchy_key());
    }
    if parent != old_parent {
        for parent in parent.into_iter().chain(old_parent) {
            keys.read(existence_key(parent));
            keys.write(children_key(parent));
        }
    }
    keys
}

/// Returns the keys of an append of events without a commit.
#[must_use]
pub fn keys_of_append(request: &AppendEvents, fenced: Option<&ThreadId>, plan: &EventPlan) -> DeltaKeys {
    let mut keys = DeltaKeys::default();
    fenced.iter().for_each(|thread| keys.write(thread_key(thread)));
    keys.add_events(Some(request), Some(plan));
    keys.without_repeats()
}

/// Returns the keys of a write of documents.
#[must_use]
pub fn keys_of_documents(request: &WriteDocuments, plan: Option<&EventPlan>) -> DeltaKeys {
    let mut keys = DeltaKeys::default();
    request.changes.iter().for_each(|change| keys.write(document_key(&change.document)));
    if let Some((thread, _)) = &request.fence {
        keys.write(thread_key(thread));
    }
    request.thread().iter().for_each(|thread| keys.read(existence_key(thread)));
    keys.add_events(request.events.as_ref(), plan);
    keys.without_repeats()
}

/// Returns the keys of a deletion.
#[must_use]
pub fn keys_of_deletion(deletion: &ThreadDeletion) -> DeltaKeys {
    let mut keys = DeltaKeys::default();
    for (id, _) in &deletion.deleted {
        [thread_key(id), existence_key(id), children_key(id)].into_iter().for_each(|key| keys.write(key));
    }
    deletion.detached.iter().for_each(|child| keys.write(thread_key(&child.thread.id)));
    keys
}

#[cfg(test)]
mod tests {
    use super::DeltaKeys;

    /// Tests NB-4 and NB-7.
    #[test]
    fn a_delta_relies_on_what_wrote_its_keys_or_read_what_it_writes() {
        let keys = |reads: &[&str], writes: &[&str]| {
            let list = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
            DeltaKeys::from_lists(list(reads), list(writes))
        };
        let earlier = keys(&["*", "xp"], &["ta", "cp"]);
        assert!(keys(&["*"], &["ta"]).relies_on(&earlier), "it writes the same");
        assert!(keys(&["*", "cp"], &["tb"]).relies_on(&earlier), "it read what was written");
        assert!(keys(&["*"], &["xp"]).relies_on(&earlier), "it writes what was read");
        assert!(!keys(&["*", "xp"], &["tb"]).relies_on(&earlier), "both read it");
        assert!(!keys(&[], &["*"]).relies_on(&earlier), "a deletion of the tenant relies on nothing");
        assert!(keys(&["*"], &["tb"]).relies_on(&keys(&[], &["*"])), "everything relies on a deletion of the tenant");
        let mut barrier = DeltaKeys::default();
        barrier.write_all_of(&earlier);
        assert_eq!(barrier, keys(&[], &["ta", "cp", "xp"]));
    }
}
