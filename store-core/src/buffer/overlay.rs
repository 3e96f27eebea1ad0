//! The records of the deltas that the store behind a buffer has not applied yet.

use std::collections::{BTreeMap, HashMap};

use super::{
    Delta,
    thread_overlay::{Stamped, ThreadOverlay, remove_stamped},
};
use crate::{
    commit::{Plan, PlannedEntry},
    document::{DocumentPlan, DocumentRef, DocumentWrite, StoredDocument},
    event::{EventKeyRecord, EventPlan, Scope, ScopeState, StoredEvent},
    id::{DedupeKey, EntryId, EventId, EventKey, LaneId, OutboxId, OutboxTarget, RunId, ThreadId, WriterId},
    outbox::{OrderGroup, OutboxPlan, StoredOutboxRow},
    run::Run,
    thread::{StoredThread, Thread},
};

/// The records of the deltas of one tenant that are not applied yet, each as the newest of them wrote it.
///
/// ```
/// use store_core::buffer::Overlay;
///
/// let overlay = Overlay::default();
/// assert_eq!(overlay.newest_of_thread(&"t-1".parse()?), 0);
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Overlay {
    pub(super) threads: HashMap<ThreadId, ThreadOverlay>,
    pub(super) runs: HashMap<RunId, Stamped<Run>>,
    pub(super) scopes: HashMap<Scope, Stamped<ScopeState>>,
    pub(super) events: HashMap<EventId, Stamped<StoredEvent>>,
    pub(super) event_keys: HashMap<(WriterId, EventKey), Stamped<EventKeyRecord>>,
    pub(super) rows: HashMap<OutboxId, Stamped<StoredOutboxRow>>,
    pub(super) keyed_rows: HashMap<(LaneId, OutboxTarget, DedupeKey), Stamped<OutboxId>>,
    /// The last row of each order group, with its number in the group.
    pub(super) last_of_groups: HashMap<OrderGroup, Stamped<(u64, OutboxId)>>,
    /// Documents that were put, and those that were deleted (none).
    pub(super) documents: HashMap<DocumentRef, Stamped<Option<StoredDocument>>>,
    /// The largest revision of a document in all deltas that were ever added.
    pub(super) document_revision: u64,
    /// The newest deletion of the tenant.
    tenant_deletion: Option<u64>,
    /// The number of deltas.
    deltas: usize,
    /// The size in bytes of the applied records that are kept, about.
    kept: u64,
}

/// The size in bytes of the applied records that are kept of one thread at most.
const MAX_KEPT_OF_THREAD: u64 = 16 << 20;

impl Overlay {
    /// Adds the delta with the sequence number `at`. Deltas are added in order.
    pub fn add(&mut self, at: u64, delta: &Delta) {
        self.deltas += 1;
        match delta {
            Delta::Thread(plan) => {
                let thread = self.threads.entry(plan.receipt.thread.clone()).or_default();
                if plan.creates_thread {
                    self.kept -= thread.kept;
                }
                thread.add(at, plan);
                self.runs.extend(plan.runs.iter().map(|run| (run.id.clone(), (at, run.clone()))));
                self.add_rows(at, &plan.outbox);
                self.add_documents(at, &plan.documents);
                plan.events.iter().for_each(|events| self.add_events(at, events));
            }
            Delta::Documents(plan) => {
                self.add_documents(at, &plan.documents);
                plan.events.iter().for_each(|events| self.add_events(at, events));
                if let Some((thread, record)) = &plan.id_record {
                    let thread = self.threads.entry(thread.clone()).or_default();
                    (thread.newest, thread.id_record) = (at, Some((at, record.clone())));
                }
            }
            Delta::Deletion(deletion) => {
                for (id, record) in &deletion.deleted {
                    let thread = self.threads.entry(id.clone()).or_default();
                    self.kept -= thread.kept;
                    thread.delete(at, record.clone());
                    self.runs.retain(|_, (_, run)| run.thread != *id);
                    self.documents.retain(|document, _| document.scope.thread() != Some(id));
                }
                for child in &deletion.detached {
                    self.threads.entry(child.thread.id.clone()).or_default().detach(at, child.clone());
                }
            }
            Delta::TenantDeletion => self.tenant_deletion = Some(at),
        }
    }

    fn add_events(&mut self, at: u64, plan: &EventPlan) {
        self.events.extend(plan.events.iter().map(|stored| (stored.event.id.clone(), (at, stored.clone()))));
        self.scopes.extend(plan.scopes.iter().map(|(scope, state)| (scope.clone(), (at, state.clone()))));
        if let Some((writer, key, record)) = &plan.key {
            self.event_keys.insert((writer.clone(), key.clone()), (at, record.clone()));
        }
    }

    fn add_rows(&mut self, at: u64, plan: &OutboxPlan) {
        for (row, _) in &plan.rows {
            if let Some(key) = row_key(row) {
                self.keyed_rows.insert(key, (at, row.id.clone()));
            }
            if let Some(group) = row.group() {
                self.last_of_groups.insert(group, (at, (row.order, row.id.clone())));
            }
            self.rows.insert(row.id.clone(), (at, row.clone()));
        }
    }

    fn add_documents(&mut self, at: u64, plan: &DocumentPlan) {
        self.document_revision = self.document_revision.max(plan.revision.unwrap_or_default());
        for change in &plan.changes {
            let written = match &change.write {
                DocumentWrite::Put(stored) => Some(stored.clone()),
                DocumentWrite::Delete => None,
                DocumentWrite::Keep => continue,
            };
            self.documents.insert(change.document.clone(), (at, written));
        }
    }

    /// Removes a delta that the store behind has applied, unless later deltas have replaced its records.
    ///
    /// If the overlay has everything of a thread, it keeps that, so that later decisions need not read the store
    /// behind. Returns these threads. [`forget`](Self::forget) ends it.
    pub fn remove(&mut self, at: u64, delta: &Delta) -> Vec<ThreadId> {
        self.deltas = self.deltas.saturating_sub(1);
        let mut kept = Vec::new();
        match delta {
            Delta::Thread(plan) => kept.extend(self.remove_plan(at, plan)),
            Delta::Documents(plan) => {
                self.remove_documents(at, &plan.documents);
                plan.events.iter().for_each(|events| self.remove_events(at, events));
                if let Some((thread, _)) = &plan.id_record {
                    kept.extend(self.change_thread(thread, at, None, |overlay| overlay.remove_deletion(at)));
                }
            }
            Delta::Deletion(deletion) => {
                let detached = deletion.detached.iter().map(|child| &child.thread.id);
                for id in deletion.deleted.iter().map(|(id, _)| id).chain(detached) {
                    kept.extend(self.change_thread(id, at, None, |overlay| overlay.remove_deletion(at)));
                }
            }
            Delta::TenantDeletion => {
                if self.tenant_deletion == Some(at) {
                    self.tenant_deletion = None;
                }
                self.threads.retain(|_, overlay| overlay.newest > at);
                self.kept = self.threads.values().map(|overlay| overlay.kept).sum();
            }
        }
        kept
    }

    /// Removes what is kept of a thread of which everything up to `applied` is applied, unless more was applied after
    /// `last`.
    pub fn forget(&mut self, thread: &ThreadId, last: u64, applied: u64) {
        let Some(overlay) = self.threads.get_mut(thread) else { return };
        if !overlay.is_whole || (overlay.newest > last && overlay.newest <= applied) {
            return;
        }
        self.kept -= overlay.kept;
        overlay.forget_applied(applied);
        if overlay.newest <= applied && !overlay.is_whole {
            self.threads.remove(thread);
        } else {
            self.kept += overlay.kept;
        }
    }

    /// Removes what is kept of the threads that a delta changes. It was applied before it was read, so the overlay does
    /// not have it.
    pub fn forget_changed(&mut self, delta: &Delta, applied: u64) {
        let mut forget = |thread: &ThreadId| self.forget(thread, u64::MAX, applied);
        match delta {
            Delta::Thread(plan) => forget(&plan.receipt.thread),
            Delta::Documents(plan) => plan.id_record.iter().for_each(|(thread, _)| forget(thread)),
            Delta::Deletion(deletion) => {
                deletion.deleted.iter().for_each(|(thread, _)| forget(thread));
                deletion.detached.iter().for_each(|child| forget(&child.thread.id));
            }
            Delta::TenantDeletion => self.forget_all(applied),
        }
    }

    /// Removes everything that is kept of threads although it is applied.
    pub fn forget_all(&mut self, applied: u64) {
        let threads: Vec<_> = self.threads.keys().cloned().collect();
        threads.iter().for_each(|thread| self.forget(thread, u64::MAX, applied));
    }

    /// Returns the size in bytes of the applied records that are kept, about.
    #[must_use]
    pub const fn kept(&self) -> u64 {
        self.kept
    }

    fn remove_plan(&mut self, at: u64, plan: &Plan) -> Option<ThreadId> {
        let kept = self.change_thread(&plan.receipt.thread, at, Some(plan), |overlay| overlay.remove(at, plan));
        plan.runs.iter().for_each(|run| remove_stamped(&mut self.runs, &run.id, at));
        for (row, _) in &plan.outbox.rows {
            remove_stamped(&mut self.rows, &row.id, at);
            row_key(row).iter().for_each(|key| remove_stamped(&mut self.keyed_rows, key, at));
            row.group().iter().for_each(|group| remove_stamped(&mut self.last_of_groups, group, at));
        }
        self.remove_documents(at, &plan.documents);
        plan.events.iter().for_each(|events| self.remove_events(at, events));
        kept
    }

    /// Changes the records of a thread because the delta `at` is removed. If it was the newest one about the thread,
    /// they are removed. Those of a thread that exists and of which everything is here are kept, and the thread is
    /// returned.
    fn change_thread(
        &mut self,
        thread: &ThreadId,
        at: u64,
        plan: Option<&Plan>,
        change: impl FnOnce(&mut ThreadOverlay),
    ) -> Option<ThreadId> {
        let overlay = self.threads.get_mut(thread)?;
        if overlay.is_whole_and_exists() {
            self.kept -= overlay.kept;
            overlay.keep(at, plan);
            if overlay.kept > MAX_KEPT_OF_THREAD {
                overlay.forget_applied(at);
            }
            if overlay.is_whole || overlay.newest > at {
                self.kept += overlay.kept;
                return overlay.is_whole.then(|| thread.clone());
            }
            self.threads.remove(thread);
        } else if overlay.newest <= at {
            self.threads.remove(thread);
        } else {
            change(overlay);
        }
        None
    }

    fn remove_documents(&mut self, at: u64, plan: &DocumentPlan) {
        plan.changes.iter().for_each(|change| remove_stamped(&mut self.documents, &change.document, at));
    }

    fn remove_events(&mut self, at: u64, plan: &EventPlan) {
        plan.events.iter().for_each(|stored| remove_stamped(&mut self.events, &stored.event.id, at));
        plan.scopes.keys().for_each(|scope| remove_stamped(&mut self.scopes, scope, at));
        if let Some((writer, key, _)) = &plan.key {
            remove_stamped(&mut self.event_keys, &(writer.clone(), key.clone()), at);
        }
    }

    /// Returns whether there are no deltas, and nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deltas == 0 && self.threads.is_empty()
    }

    /// Returns the newest deletion of the tenant. Until it is applied, nothing can be decided about the tenant, because
    /// the overlay does not hide what the store behind has.
    #[must_use]
    pub const fn tenant_deletion(&self) -> Option<u64> {
        self.tenant_deletion
    }

    /// Returns the sequence number of the newest delta about a thread; 0 if there is none.
    #[must_use]
    pub fn newest_of_thread(&self, thread: &ThreadId) -> u64 {
        self.threads.get(thread).map_or(0, |overlay| overlay.newest)
    }

    /// Returns the newest delta that named a checkpoint of the thread, or took its name; 0 if there is none. Until it
    /// is applied, [`OverlayView`](super::OverlayView) cannot find checkpoints by name.
    #[must_use]
    pub fn newest_naming(&self, thread: &ThreadId) -> u64 {
        self.threads.get(thread).map_or(0, |overlay| overlay.newest_naming)
    }

    /// Returns the thread as the deltas left it: none if no delta wrote it, `Some(None)` if it was deleted.
    #[must_use]
    pub fn thread(&self, thread: &ThreadId) -> Option<Option<&Thread>> {
        let stored = self.stored_thread(thread)?;
        Some(stored.map(|stored| &stored.thread))
    }

    pub(super) fn stored_thread(&self, thread: &ThreadId) -> Option<Option<&StoredThread>> {
        self.threads.get(thread)?.thread.as_ref().map(|(_, stored)| stored.as_ref())
    }

    /// Returns whether a delta that is not applied has created or deleted a thread. What the store behind has of it is
    /// then older, and does not count.
    #[must_use]
    pub fn hides_stored(&self, thread: &ThreadId) -> bool {
        self.threads.get(thread).is_some_and(|overlay| overlay.hides_stored.is_some())
    }

    /// Returns the threads whose stored records do not count.
    pub fn hidden_threads(&self) -> impl Iterator<Item = &ThreadId> {
        self.threads.iter().filter(|(_, overlay)| overlay.hides_stored.is_some()).map(|(id, _)| id)
    }

    /// Returns whether the overlay knows which records a thread has: its record, entries, keys, state and pending
    /// input. Those that are applied may be in the store behind only, as its runs and documents are.
    #[must_use]
    pub fn is_whole(&self, thread: &ThreadId) -> bool {
        self.threads.get(thread).is_some_and(|overlay| overlay.is_whole)
    }

    /// Returns the run, if a delta wrote it.
    #[must_use]
    pub fn run(&self, run: &RunId) -> Option<&Run> {
        self.runs.get(run).map(|(_, run)| run)
    }

    /// Returns the entry, if a delta wrote it.
    #[must_use]
    pub fn entry(&self, thread: &ThreadId, entry: &EntryId) -> Option<&PlannedEntry> {
        let overlay = self.threads.get(thread)?;
        let (_, planned) = overlay.entries.get(overlay.entry_seqs.get(entry)?)?;
        Some(planned)
    }

    /// Returns the entries of a thread that deltas wrote, in order, by sequence number.
    pub fn entries(&self, thread: &ThreadId) -> impl Iterator<Item = (u64, &PlannedEntry)> {
        let entries: Option<&BTreeMap<_, _>> = self.threads.get(thread).map(|overlay| &overlay.entries);
        entries.into_iter().flatten().map(|(seq, (_, planned))| (*seq, planned))
    }
}

fn row_key(row: &StoredOutboxRow) -> Option<(LaneId, OutboxTarget, DedupeKey)> {
    Some((row.lane.clone(), row.target.clone(), row.dedupe_key.clone()?))
}
