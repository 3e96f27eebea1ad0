//! A mailbox in memory: dispatches by id, and threads and dispatches in the orders in which claims and lists read them.

mod list;
mod queue;
mod restore;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use self::queue::Queue;
use super::{
    DispatchCounts, DispatchListKey, DispatchStatus, MailboxDecision, MailboxPlan, MailboxView, StoredDispatch,
    StoredInterrupt, StoredMailboxThread, ThreadPositions, UnreadableThread, decision_time, queue_position,
    superseded_batch, thread_positions,
};
use crate::{
    claim::ClaimNumber,
    error::{Error, Result},
    id::{DedupeKey, DispatchId, ThreadId},
    page::TimeOrderedSets,
    time::Timestamp,
};

/// The key of a list in order of creation: which dispatches the list contains.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ListKey {
    All,
    Thread(ThreadId),
    Status(DispatchStatus),
}

impl From<DispatchListKey<'_>> for ListKey {
    fn from(key: DispatchListKey<'_>) -> Self {
        match key {
            DispatchListKey::All => Self::All,
            DispatchListKey::Thread(thread) => Self::Thread(thread.clone()),
            DispatchListKey::Status(status) => Self::Status(status),
        }
    }
}

fn list_keys_of(stored: &StoredDispatch) -> [ListKey; 3] {
    [ListKey::All, ListKey::Thread(stored.body.thread.clone()), ListKey::Status(stored.state.status)]
}

/// The position of a free thread that has a dispatch available: the priority, the time since which the thread has been
/// ready, and the thread.
pub type ReadyThreadPosition = (u8, Timestamp, ThreadId);

/// The part of the mailbox that belongs to one thread.
#[derive(Debug, Default)]
struct ThreadMailbox {
    record: StoredMailboxThread,
    interrupts: BTreeMap<u64, StoredInterrupt>,
    queue: Queue,
    positions: ThreadPositions,
    /// If one of the thread's records cannot be read: where that record is.
    damage: Option<String>,
}

impl ThreadMailbox {
    fn damage_error(&self) -> Option<Error> {
        self.damage.as_ref().map(Error::corrupt)
    }
}

/// The mailbox of a tenant in memory, for a backend that keeps the mailbox only in memory or rebuilds it from a log.
///
/// The rules read it, and plans are applied to it. The cost of claims, lists and purges depends on how much they find,
/// not on how much is stored (PR-15, MB-22).
///
/// ```
/// use store_core::{
///     Limits, NewDispatch, RunId, ThreadId, Timestamp, UuidSource,
///     commit::DecisionContext,
///     mailbox::{self, InMemoryMailbox},
/// };
///
/// let (limits, now) = (Limits::default(), Timestamp::from_millis(1)?);
/// let decision_context = DecisionContext::new(now, &limits, &UuidSource);
/// let mut in_memory = InMemoryMailbox::new(1);
/// let work = NewDispatch::new(ThreadId::new("t-1")?, RunId::new("r-1")?);
/// in_memory.apply_decision(|view| mailbox::enqueue(view, &work, decision_context))?;
/// in_memory.promote_due(now);
/// assert_eq!(in_memory.ready_threads(None).count(), 1);
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct InMemoryMailbox {
    incarnation: u64,
    threads: HashMap<ThreadId, ThreadMailbox>,
    dispatches_by_id: HashMap<DispatchId, StoredDispatch>,
    /// For each dedupe key, the dispatch that holds it or held it last.
    dispatch_by_dedupe_key: HashMap<(ThreadId, DedupeKey), DispatchId>,
    by_creation: TimeOrderedSets<ListKey, DispatchId>,
    /// Dispatches that ended individually. Those that an interrupt superseded while they were queued are in
    /// `superseded_batches`.
    by_end: BTreeSet<(Timestamp, DispatchId)>,
    /// Dispatches that interrupts superseded while they were queued: their threads and epochs, by the time of the
    /// interrupt.
    superseded_batches: BTreeMap<Timestamp, BTreeSet<(ThreadId, u64)>>,
    /// The threads that are ready, in the order of claims.
    ready_threads: BTreeSet<ReadyThreadPosition>,
    /// The threads with a dispatch that becomes due later, each with that time.
    threads_by_due: BTreeSet<(Timestamp, ThreadId)>,
    /// The threads with a claimed dispatch, each with the end of its lease.
    leases: BTreeSet<(Timestamp, ThreadId)>,
    /// The threads with a record that cannot be read.
    damaged_threads: BTreeSet<ThreadId>,
    /// The time for which due dispatches were last made available.
    promoted_until: Timestamp,
    /// The time from which a claim may find something that plans have made available.
    claimable_from: Option<Timestamp>,
}

impl InMemoryMailbox {
    /// Makes an empty mailbox, whose claim numbers have this incarnation (MB-25).
    #[must_use]
    pub fn new(incarnation: u64) -> Self {
        Self { incarnation, ..Self::default() }
    }

    /// Returns whether nothing was ever written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Returns the dispatch with this id.
    #[must_use]
    pub fn get(&self, id: &DispatchId) -> Option<&StoredDispatch> {
        self.dispatches_by_id.get(id)
    }

    /// Returns the epoch of a thread.
    #[must_use]
    pub fn epoch(&self, thread: &ThreadId) -> u64 {
        self.threads.get(thread).map_or(0, |thread_mailbox| thread_mailbox.record.epoch)
    }

    /// Returns the number of dispatches in each status, of a thread or of all threads.
    #[must_use]
    pub fn counts(&self, thread: Option<&ThreadId>) -> DispatchCounts {
        match thread {
            Some(thread) => {
                self.threads.get(thread).map(|thread_mailbox| thread_mailbox.record.counts.clone()).unwrap_or_default()
            }
            None => self
                .threads
                .values()
                .fold(DispatchCounts::default(), |sum, thread_mailbox| sum.plus(&thread_mailbox.record.counts)),
        }
    }

    /// Makes a decision, and applies its plan.
    ///
    /// # Errors
    /// The refusal that the decision contains. Its plan is applied nevertheless.
    pub fn apply_decision<T>(&mut self, decide: impl FnOnce(&Self) -> Result<MailboxDecision<T>>) -> Result<T> {
        let decision = decide(self)?;
        if let Some(plan) = decision.plan {
            self.apply(*plan);
        }
        decision.answer
    }

    /// Applies a plan.
    pub fn apply(&mut self, plan: MailboxPlan) {
        self.claimable_from = [self.claimable_from, plan.claimable_from()].into_iter().flatten().min();
        let MailboxPlan { thread, mailbox, dispatches, purged, interrupts } = plan;
        for stored in dispatches {
            self.put_dispatch(&thread, stored);
        }
        if let Some(id) = purged {
            self.remove(&thread, &id);
        }
        for (epoch, interrupt) in interrupts {
            self.put_interrupt(&thread, epoch, interrupt);
        }
        let until = mailbox.last_time;
        self.threads.entry(thread.clone()).or_default().record = mailbox;
        self.promote_due_of(&thread, until);
    }

    fn put_dispatch(&mut self, thread: &ThreadId, stored: StoredDispatch) {
        let id = stored.id().clone();
        let ThreadMailbox { queue, record, .. } = self.threads.entry(thread.clone()).or_default();
        // What an interrupt superseded has given its key up. A copy may restore it after the dispatch that has the key.
        let is_superseded = stored.state.status == DispatchStatus::Queued && stored.state.epoch < record.epoch;
        let created_at = stored.body.created_at;
        if let Some(old_dispatch) = self.dispatches_by_id.get(&id) {
            if let Some(position) = queue_position(old_dispatch) {
                queue.remove(position, &id);
            }
            self.by_creation.remove(list_keys_of(old_dispatch), created_at, &id);
            if let Some(end) = old_dispatch.state.finished_at {
                self.by_end.remove(&(end, id.clone()));
            }
        }
        if let Some(position) = queue_position(&stored) {
            queue.insert(position, &id);
        }
        // This also applies to a claimed dispatch: a backend that reads a log may have read the claim only, and not the
        // enqueue.
        if let Some(key) = stored.body.dedupe_key.as_ref().filter(|_| !is_superseded && !stored.state.status.is_final())
        {
            self.dispatch_by_dedupe_key.insert((thread.clone(), key.clone()), id.clone());
        }
        self.by_creation.insert(list_keys_of(&stored), created_at, &id);
        self.by_end.extend(stored.state.finished_at.map(|end| (end, id.clone())));
        self.dispatches_by_id.insert(id, stored);
    }

    /// Removes a dispatch of a thread.
    pub fn remove(&mut self, thread: &ThreadId, id: &DispatchId) {
        let Some(removed_dispatch) = self.dispatches_by_id.remove(id) else { return };
        if let (Some(position), Some(thread_mailbox)) =
            (queue_position(&removed_dispatch), self.threads.get_mut(thread))
        {
            thread_mailbox.queue.remove(position, id);
        }
        self.by_creation.remove(list_keys_of(&removed_dispatch), removed_dispatch.body.created_at, id);
        if let Some(end) = removed_dispatch.state.finished_at {
            self.by_end.remove(&(end, id.clone()));
        }
        if let Some(key) = removed_dispatch.body.dedupe_key.clone().map(|key| (thread.clone(), key))
            && self.dispatch_by_dedupe_key.get(&key) == Some(id)
        {
            self.dispatch_by_dedupe_key.remove(&key);
        }
    }

    fn put_interrupt(&mut self, thread: &ThreadId, epoch: u64, interrupt: Option<StoredInterrupt>) {
        let thread_mailbox = self.threads.entry(thread.clone()).or_default();
        if let Some(old_interrupt) = thread_mailbox.interrupts.remove(&epoch) {
            let batch = superseded_batch(&old_interrupt);
            if let Some(superseded_batches) = self.superseded_batches.get_mut(&batch.at) {
                superseded_batches.remove(&(thread.clone(), batch.epoch));
                if superseded_batches.is_empty() {
                    self.superseded_batches.remove(&batch.at);
                }
            }
        }
        let Some(new_interrupt) = interrupt else { return };
        if new_interrupt.holds > 0 {
            let batch = superseded_batch(&new_interrupt);
            self.superseded_batches.entry(batch.at).or_default().insert((thread.clone(), batch.epoch));
        }
        thread_mailbox.interrupts.insert(epoch, new_interrupt);
    }

    /// Marks a thread as unreadable, because one of its records cannot be read. `location` says where that record is.
    ///
    /// The state of the thread is then unknown. Claims do not find the thread, and every decision about it is refused
    /// with `Corrupt` (MB-55).
    pub fn mark_unreadable(&mut self, thread: &ThreadId, location: String) {
        self.threads.entry(thread.clone()).or_default().damage = Some(location);
        self.damaged_threads.insert(thread.clone());
        self.promote_due_of(thread, self.promoted_until);
    }

    /// Records that decisions about a thread can be made again.
    pub fn mark_readable(&mut self, thread: &ThreadId) {
        if let Some(thread_mailbox) = self.threads.get_mut(thread) {
            thread_mailbox.damage = None;
        }
        self.damaged_threads.remove(thread);
        self.promote_due_of(thread, self.promoted_until);
    }

    /// Returns a record with which a thread can continue at `now` although some decisions about it cannot be read.
    /// `lost_decisions` is their number.
    ///
    /// Each of these decisions may have made a claim, so the last claim number is raised by this number (MB-25).
    #[must_use]
    pub fn recovered_record(&self, thread: &ThreadId, lost_decisions: u64, now: Timestamp) -> StoredMailboxThread {
        let mut record =
            self.threads.get(thread).map(|thread_mailbox| thread_mailbox.record.clone()).unwrap_or_default();
        let first = ClaimNumber { incarnation: self.incarnation, counter: 0 };
        let last = record.last_claim.map_or(first, |last| last.max(first));
        record.last_claim = Some(ClaimNumber { counter: last.counter.saturating_add(lost_decisions), ..last });
        let dispatches_of_thread =
            || self.by_creation.ids(&ListKey::Thread(thread.clone())).filter_map(|id| self.dispatches_by_id.get(id));
        let counts = record.count(dispatches_of_thread().map(|stored| (stored.state.status, stored.state.epoch, 1)));
        let running = record.running.as_ref().and_then(|running| self.dispatches_by_id.get(&running.dispatch));
        record.correct(counts, running.is_some_and(StoredDispatch::is_claimed), now);
        record
    }

    /// Returns the threads with a record that cannot be read, each with the error that says where the record is.
    #[must_use]
    pub fn unreadable(&self) -> Vec<UnreadableThread> {
        let damaged_mailboxes = self.damaged_threads.iter().filter_map(|thread| self.threads.get_key_value(thread));
        damaged_mailboxes
            .filter_map(|(thread, thread_mailbox)| {
                Some(UnreadableThread::new(thread.clone(), thread_mailbox.damage_error()?))
            })
            .collect()
    }

    /// Makes available exactly those dispatches of a thread that are due at `now`, and moves the thread to its
    /// positions at that time.
    pub fn promote_due_of(&mut self, thread: &ThreadId, now: Timestamp) {
        let Some(thread_mailbox) = self.threads.get_mut(thread) else { return };
        let epoch = thread_mailbox.record.epoch;
        thread_mailbox.queue.promote_due(epoch, decision_time(Some(&thread_mailbox.record), now));
        let new_positions = match thread_mailbox.damage {
            Some(_) => ThreadPositions::default(),
            None => thread_positions(&thread_mailbox.record, thread_mailbox.queue.summary(epoch)),
        };
        let old_positions = std::mem::replace(&mut thread_mailbox.positions, new_positions);
        if let Some((priority, since)) = old_positions.ready {
            self.ready_threads.remove(&(priority, since, thread.clone()));
        }
        if let Some(due_time) = old_positions.due {
            self.threads_by_due.remove(&(due_time, thread.clone()));
        }
        if let Some(lease_end) = old_positions.lease {
            self.leases.remove(&(lease_end, thread.clone()));
        }
        self.ready_threads.extend(new_positions.ready.map(|(priority, since)| (priority, since, thread.clone())));
        self.threads_by_due.extend(new_positions.due.map(|due_time| (due_time, thread.clone())));
        self.leases.extend(new_positions.lease.map(|lease_end| (lease_end, thread.clone())));
    }

    /// Does the same as [`promote_due_of`](Self::promote_due_of) for all threads.
    pub fn promote_due(&mut self, now: Timestamp) {
        // If the clock went back, dispatches of ready threads may not be due any more.
        if now < self.promoted_until {
            let ready_threads: Vec<_> = self.ready_threads.iter().map(|(_, _, thread)| thread.clone()).collect();
            ready_threads.iter().for_each(|thread| self.promote_due_of(thread, now));
        }
        self.promoted_until = now;
        while let Some((_, thread)) = self.threads_by_due.first().filter(|(due_time, _)| *due_time <= now).cloned() {
            self.promote_due_of(&thread, now);
        }
    }

    /// Returns the time from which a claim may find something new, because of the plans that were applied since the
    /// last call (LV-8).
    pub const fn take_claimable_from(&mut self) -> Option<Timestamp> {
        self.claimable_from.take()
    }

    /// Returns the time from which a claim finds something. If a thread is ready, this is `now`. Otherwise it is the
    /// next time at which a dispatch is due or a lease expires.
    pub fn next_claim(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.promote_due(now);
        if !self.ready_threads.is_empty() {
            return Some(now);
        }
        let earliest = |positions: &BTreeSet<(Timestamp, ThreadId)>| positions.first().map(|(time, _)| *time);
        [earliest(&self.threads_by_due), earliest(&self.leases)].into_iter().flatten().min()
    }
}

impl MailboxView for InMemoryMailbox {
    fn claim_incarnation(&self) -> u64 {
        self.incarnation
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailboxThread>> {
        let Some(thread_mailbox) = self.threads.get(thread) else { return Ok(None) };
        thread_mailbox.damage_error().map_or_else(|| Ok(Some(thread_mailbox.record.clone())), Err)
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        Ok(self.dispatches_by_id.get(id).cloned())
    }

    fn last_dispatch_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>> {
        Ok(self.dispatch_by_dedupe_key.get(&(thread.clone(), key.clone())).cloned())
    }

    fn first_available(&self, thread: &ThreadId, epoch: u64, now: Timestamp) -> Result<Option<DispatchId>> {
        Ok(self
            .threads
            .get(thread)
            .and_then(|thread_mailbox| thread_mailbox.queue.first_available(epoch, now))
            .cloned())
    }

    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        Ok(self.threads.get(thread).and_then(|thread_mailbox| thread_mailbox.interrupts.get(&epoch)).cloned())
    }
}

#[cfg(test)]
mod tests;
