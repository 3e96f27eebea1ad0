//! The data of a tenant.

use std::collections::{BTreeMap, BTreeSet};

use store_core::{
    CursorKey, DedupeKey, Dispatch, DispatchCounts, DispatchFilter, DispatchId, DispatchOrder, DispatchStatus, Result,
    TenantId, ThreadId, Timestamp,
    mailbox::{
        self, MailboxDecision, MailboxPlan, MailboxView, QueuePosition, QueueSummary, StoredDispatch, StoredInterrupt,
        StoredMailboxThread,
    },
};

use crate::{documents::StoredDocuments, events::StoredEvents, page::SortKey};

/// The mailbox, the documents and the events of a tenant.
#[derive(Debug)]
pub(crate) struct TenantData {
    pub(crate) name: TenantId,
    /// The key that authenticates cursors.
    pub(crate) cursor_key: CursorKey,
    pub(crate) incarnation: u64,
    pub(crate) documents: StoredDocuments,
    pub(crate) events: StoredEvents,
    thread_records: BTreeMap<ThreadId, StoredMailboxThread>,
    dispatches: BTreeMap<DispatchId, StoredDispatch>,
    interrupts: BTreeMap<(ThreadId, u64), StoredInterrupt>,
    /// For each dedupe key of a thread, the last dispatch that took the key.
    dedupe_keys: BTreeMap<(ThreadId, DedupeKey), DispatchId>,
    /// The dispatches of each thread that are stored as queued, by epoch, priority and number.
    queues: BTreeMap<ThreadId, BTreeSet<(QueuePosition, DispatchId)>>,
}

/// The view that rules read.
impl MailboxView for TenantData {
    fn claim_incarnation(&self) -> u64 {
        self.incarnation
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailboxThread>> {
        Ok(self.thread_records.get(thread).cloned())
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        Ok(self.dispatches.get(id).cloned())
    }

    fn last_dispatch_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>> {
        Ok(self.dedupe_keys.get(&(thread.clone(), key.clone())).cloned())
    }

    fn first_available(&self, thread: &ThreadId, epoch: u64, now: Timestamp) -> Result<Option<DispatchId>> {
        Ok(self.queued(thread, epoch).find(|(at, _)| at.due <= now).map(|(_, id)| id.clone()))
    }

    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        Ok(self.interrupts.get(&(thread.clone(), epoch)).cloned())
    }
}

impl TenantData {
    /// Makes a decision and writes its plan. A refused call may have a plan, too.
    pub(crate) fn apply_decision<T>(&mut self, decide: impl FnOnce(&Self) -> Result<MailboxDecision<T>>) -> Result<T> {
        let decision = decide(self)?;
        if let Some(plan) = decision.plan {
            self.write(*plan);
        }
        decision.answer
    }

    /// Writes a plan. The caller holds the lock, so no reader sees only a part of the plan.
    fn write(&mut self, plan: MailboxPlan) {
        let thread = plan.thread;
        for stored in plan.dispatches {
            self.put_dispatch(&thread, stored);
        }
        if let Some(id) = plan.purged {
            self.remove_dispatch(&thread, &id);
        }
        for (epoch, interrupt) in plan.interrupts {
            match interrupt {
                Some(interrupt) => self.interrupts.insert((thread.clone(), epoch), interrupt),
                None => self.interrupts.remove(&(thread.clone(), epoch)),
            };
        }
        self.thread_records.insert(thread, plan.mailbox);
    }

    fn put_dispatch(&mut self, thread: &ThreadId, stored: StoredDispatch) {
        let id = stored.id().clone();
        let queue = self.queues.entry(thread.clone()).or_default();
        if let Some(position) = self.dispatches.get(&id).and_then(mailbox::queue_position) {
            queue.remove(&(position, id.clone()));
        }
        if let Some(position) = mailbox::queue_position(&stored) {
            queue.insert((position, id.clone()));
            if let Some(key) = stored.body.dedupe_key.clone() {
                self.dedupe_keys.insert((thread.clone(), key), id.clone());
            }
        }
        self.dispatches.insert(id, stored);
    }

    fn remove_dispatch(&mut self, thread: &ThreadId, id: &DispatchId) {
        let position = self.dispatches.remove(id).as_ref().and_then(mailbox::queue_position);
        if let (Some(position), Some(queue)) = (position, self.queues.get_mut(thread)) {
            queue.remove(&(position, id.clone()));
        }
        self.dedupe_keys.retain(|_, holder| holder != id);
    }
}

impl TenantData {
    /// Makes a tenant without data. Its documents have greater revisions than `last_revision`.
    pub(crate) fn new(name: TenantId, cursor_key: CursorKey, incarnation: u64, last_revision: u64) -> Self {
        Self {
            name,
            cursor_key,
            incarnation,
            documents: StoredDocuments { last_revision, ..StoredDocuments::default() },
            events: StoredEvents::default(),
            thread_records: BTreeMap::new(),
            dispatches: BTreeMap::new(),
            interrupts: BTreeMap::new(),
            dedupe_keys: BTreeMap::new(),
            queues: BTreeMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.thread_records.is_empty() && self.documents.by_name.is_empty() && self.events.by_id.is_empty()
    }

    pub(crate) fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        self.dispatches.get(id).map(|stored| mailbox::visible_dispatch(self, stored)).transpose()
    }

    pub(crate) fn epoch(&self, thread: &ThreadId) -> u64 {
        self.thread_records.get(thread).map_or(0, |mailbox| mailbox.epoch)
    }

    pub(crate) fn counts(&self, thread: Option<&ThreadId>) -> DispatchCounts {
        let counted = self.thread_records.iter().filter(|(id, _)| thread.is_none_or(|thread| thread == *id));
        counted.fold(DispatchCounts::default(), |sum, (_, mailbox)| sum.plus(&mailbox.counts))
    }

    /// Returns the dispatches of a thread that are queued under an epoch, in the order in which they are claimed.
    fn queued(&self, thread: &ThreadId, epoch: u64) -> impl Iterator<Item = &(QueuePosition, DispatchId)> {
        self.queues.get(thread).into_iter().flatten().filter(move |(at, _)| at.epoch == epoch)
    }

    /// Returns the threads that are free and have an available dispatch, in the order in which they are claimed.
    pub(crate) fn ready_threads(&self, now: Timestamp) -> BTreeSet<(u8, Timestamp, ThreadId)> {
        let ready = self.thread_records.iter().filter_map(|(thread, record)| {
            let now = mailbox::decision_time(Some(record), now);
            let queued = self.queued(thread, record.epoch).map(|(at, _)| *at);
            let (available, waiting): (Vec<QueuePosition>, Vec<QueuePosition>) = queued.partition(|at| at.due <= now);
            let first_priority = available.first().map(|at| at.priority);
            let earliest_due = available.iter().map(|at| at.due).min();
            let next_due = waiting.iter().map(|at| at.due).min();
            let (priority, since) =
                mailbox::thread_positions(record, QueueSummary { first_priority, earliest_due, next_due }).ready?;
            Some((priority, since, thread.clone()))
        });
        ready.collect()
    }

    /// Returns the threads whose lease has expired, ordered by the end of the lease.
    pub(crate) fn expired_leases(&self, now: Timestamp) -> BTreeSet<(Timestamp, ThreadId)> {
        let leased = self.thread_records.iter().filter_map(|(thread, record)| Some((record.running.as_ref()?, thread)));
        let expired = leased.filter(|(running, _)| running.lease_until <= now);
        expired.map(|(running, thread)| (running.lease_until, thread.clone())).collect()
    }

    /// Returns the dispatches that a filter admits, by their sort keys in the given order.
    pub(crate) fn list_dispatches(
        &self,
        filter: &DispatchFilter,
        order: DispatchOrder,
    ) -> Result<BTreeMap<SortKey, Dispatch>> {
        let mut list = BTreeMap::new();
        for stored in self.dispatches.values() {
            let visible = mailbox::visible_dispatch(self, stored)?;
            if let Some(key) = sort_key(&visible, order).filter(|_| filter.admits(&visible)) {
                list.insert(key, visible);
            }
        }
        Ok(list)
    }
}

/// Returns the sort key of a dispatch in the given order, or `None` if the order does not contain the dispatch.
fn sort_key(dispatch: &Dispatch, order: DispatchOrder) -> Option<SortKey> {
    let at = |time: Timestamp| (0, time.as_millis(), dispatch.id.to_string());
    match order {
        DispatchOrder::Creation => Some(at(dispatch.created_at)),
        DispatchOrder::End => dispatch.finished_at.map(at),
        DispatchOrder::Claim => (dispatch.status == DispatchStatus::Queued)
            .then(|| (u64::from(dispatch.priority), dispatch.number, String::new())),
    }
}
