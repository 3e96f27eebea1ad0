//! The mailbox of a tenant: dispatches by id, and threads and dispatches in the orders that claims and lists walk.
//!
//! Core says where a thread stands; here it is only kept there.

mod queue;
mod walk;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use store_core::{
    DedupeKey, DispatchCounts, DispatchId, DispatchStatus, Result, ThreadId, Timestamp,
    commit::Setting,
    mailbox::{
        self, MailboxChange, MailboxPlan, MailboxView, Places, StoredDispatch, StoredInterrupt, StoredMailbox, in_queue,
    },
};

use self::queue::Queue;
pub(crate) use self::walk::ReadyPlace;
use super::order::Order;

/// Which dispatches a list is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    All,
    Thread(ThreadId),
    Status(DispatchStatus),
}

/// A thread with its queue.
#[derive(Debug, Default)]
struct OfThread {
    record: StoredMailbox,
    interrupts: BTreeMap<u64, StoredInterrupt>,
    queue: Queue,
    places: Places,
}

/// Everything about the dispatches of a tenant.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    incarnation: u64,
    threads: HashMap<ThreadId, OfThread>,
    rows: HashMap<DispatchId, StoredDispatch>,
    /// Who took a dedupe key last.
    keys: HashMap<(ThreadId, DedupeKey), DispatchId>,
    by_creation: Order<Scope, DispatchId>,
    /// What ended, each by itself.
    by_end: BTreeSet<(Timestamp, DispatchId)>,
    /// What interrupts ended: thread and epoch.
    lots: BTreeMap<Timestamp, BTreeSet<(ThreadId, u64)>>,
    ready: BTreeSet<(u8, Timestamp, ThreadId)>,
    due: BTreeSet<(Timestamp, ThreadId)>,
    leases: BTreeSet<(Timestamp, ThreadId)>,
    /// When it was last asked what is due.
    turned: Timestamp,
    /// From when on a claim may find something that changes brought.
    claimable_from: Option<Timestamp>,
}

fn scopes(stored: &StoredDispatch) -> [Scope; 3] {
    [Scope::All, Scope::Thread(stored.body.thread.clone()), Scope::Status(stored.state.status)]
}

impl Mailbox {
    /// An empty one of this incarnation.
    pub(crate) fn new(incarnation: u64) -> Self {
        Self { incarnation, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    pub(crate) fn get(&self, id: &DispatchId) -> Option<&StoredDispatch> {
        self.rows.get(id)
    }

    pub(crate) fn epoch(&self, thread: &ThreadId) -> u64 {
        self.threads.get(thread).map_or(0, |found| found.record.epoch)
    }

    pub(crate) fn counts(&self, thread: Option<&ThreadId>) -> DispatchCounts {
        match thread {
            Some(thread) => self.threads.get(thread).map(|found| found.record.counts.clone()).unwrap_or_default(),
            None => self.threads.values().fold(DispatchCounts::default(), |sum, found| sum.plus(&found.record.counts)),
        }
    }

    /// Makes a decision, and writes what it says.
    pub(crate) fn change<T>(&mut self, decide: impl FnOnce(&Self) -> Result<MailboxChange<T>>) -> Result<T> {
        let change = decide(self)?;
        if let Some(plan) = change.plan {
            self.apply(*plan);
        }
        change.answer
    }

    /// Writes what a plan says.
    pub(crate) fn apply(&mut self, plan: MailboxPlan) {
        self.claimable_from = [self.claimable_from, plan.claimable_from()].into_iter().flatten().min();
        let thread = plan.thread;
        for stored in plan.dispatches {
            self.put(&thread, stored);
        }
        if let Some(id) = plan.purged {
            self.remove(&thread, &id);
        }
        for (epoch, interrupt) in plan.interrupts {
            self.put_interrupt(&thread, epoch, interrupt);
        }
        let found = self.threads.entry(thread.clone()).or_default();
        found.record = plan.mailbox;
        let until = found.record.last_time;
        self.turn(&thread, until);
    }

    fn put(&mut self, thread: &ThreadId, stored: StoredDispatch) {
        let id = stored.id().clone();
        let queue = &mut self.threads.entry(thread.clone()).or_default().queue;
        let created_at = stored.body.created_at;
        if let Some(old) = self.rows.get(&id) {
            if let Some(at) = in_queue(old) {
                queue.remove(at, &id);
            }
            self.by_creation.remove(scopes(old), created_at, &id);
            if let Some(end) = old.state.finished_at {
                self.by_end.remove(&(end, id.clone()));
            }
        }
        if let Some(at) = in_queue(&stored) {
            queue.insert(at, &id);
            if let Some(key) = &stored.body.dedupe_key {
                self.keys.insert((thread.clone(), key.clone()), id.clone());
            }
        }
        self.by_creation.insert(scopes(&stored), created_at, &id);
        self.by_end.extend(stored.state.finished_at.map(|end| (end, id.clone())));
        self.rows.insert(id, stored);
    }

    fn remove(&mut self, thread: &ThreadId, id: &DispatchId) {
        let Some(old) = self.rows.remove(id) else { return };
        if let (Some(at), Some(found)) = (in_queue(&old), self.threads.get_mut(thread)) {
            found.queue.remove(at, id);
        }
        self.by_creation.remove(scopes(&old), old.body.created_at, id);
        if let Some(end) = old.state.finished_at {
            self.by_end.remove(&(end, id.clone()));
        }
        if let Some(key) = old.body.dedupe_key.clone().map(|key| (thread.clone(), key))
            && self.keys.get(&key) == Some(id)
        {
            self.keys.remove(&key);
        }
    }

    fn put_interrupt(&mut self, thread: &ThreadId, epoch: u64, interrupt: Option<StoredInterrupt>) {
        let found = self.threads.entry(thread.clone()).or_default();
        if let Some(old) = found.interrupts.remove(&epoch) {
            let lot = mailbox::lot(&old);
            if let Some(lots) = self.lots.get_mut(&lot.at) {
                lots.remove(&(thread.clone(), lot.epoch));
                if lots.is_empty() {
                    self.lots.remove(&lot.at);
                }
            }
        }
        let Some(new) = interrupt else { return };
        if new.holds > 0 {
            let lot = mailbox::lot(&new);
            self.lots.entry(lot.at).or_default().insert((thread.clone(), lot.epoch));
        }
        found.interrupts.insert(epoch, new);
    }

    /// Makes available what of a thread is due at `now`, and puts the thread where it stands then.
    fn turn(&mut self, thread: &ThreadId, now: Timestamp) {
        let Some(found) = self.threads.get_mut(thread) else { return };
        let epoch = found.record.epoch;
        found.queue.turn_to(epoch, mailbox::time(Some(&found.record), now));
        let new = mailbox::places(&found.record, found.queue.ends(epoch));
        let old = std::mem::replace(&mut found.places, new);
        if let Some((priority, since)) = old.ready {
            self.ready.remove(&(priority, since, thread.clone()));
        }
        if let Some(at) = old.due {
            self.due.remove(&(at, thread.clone()));
        }
        if let Some(at) = old.lease {
            self.leases.remove(&(at, thread.clone()));
        }
        self.ready.extend(new.ready.map(|(priority, since)| (priority, since, thread.clone())));
        self.due.extend(new.due.map(|at| (at, thread.clone())));
        self.leases.extend(new.lease.map(|at| (at, thread.clone())));
    }

    /// Makes available what is due at `now`, of whatever thread, and nothing else.
    pub(crate) fn turn_to(&mut self, now: Timestamp) {
        if now < self.turned {
            let ready: Vec<_> = self.ready.iter().map(|place| place.2.clone()).collect();
            ready.iter().for_each(|thread| self.turn(thread, now));
        }
        self.turned = now;
        while let Some((_, thread)) = self.due.first().filter(|(at, _)| *at <= now).cloned() {
            self.turn(&thread, now);
        }
    }

    /// From when on a claim may find something that changes brought since this was last asked.
    pub(crate) const fn take_claimable_from(&mut self) -> Option<Timestamp> {
        self.claimable_from.take()
    }

    /// From when on a claim finds something: now, or when something is due or a lease is over.
    pub(crate) fn next_claim(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.turn_to(now);
        if !self.ready.is_empty() {
            return Some(now);
        }
        let first = |places: &BTreeSet<(Timestamp, ThreadId)>| places.first().map(|place| place.0);
        [first(&self.due), first(&self.leases)].into_iter().flatten().min()
    }

    /// Claims from one thread.
    pub(crate) fn claim(
        &mut self,
        thread: &ThreadId,
        one: mailbox::ClaimOne<'_>,
        setting: Setting<'_>,
    ) -> Result<mailbox::Found> {
        self.turn(thread, setting.now);
        self.change(|view| mailbox::claim(view, thread, one, setting))
    }
}

impl MailboxView for Mailbox {
    fn claim_incarnation(&self) -> u64 {
        self.incarnation
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailbox>> {
        Ok(self.threads.get(thread).map(|found| found.record.clone()))
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        Ok(self.rows.get(id).cloned())
    }

    fn last_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>> {
        Ok(self.keys.get(&(thread.clone(), key.clone())).cloned())
    }

    fn first_available(&self, thread: &ThreadId, epoch: u64, now: Timestamp) -> Result<Option<DispatchId>> {
        Ok(self.threads.get(thread).and_then(|found| found.queue.first(epoch, now)).cloned())
    }

    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        Ok(self.threads.get(thread).and_then(|found| found.interrupts.get(&epoch)).cloned())
    }
}
