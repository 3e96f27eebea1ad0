//! The mailbox of a tenant as the log tells it: dispatches by id, and threads and dispatches in the orders that claims
//! and lists walk.
//!
//! Core says where a thread stands; here it is only kept there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use store_core::{
    DedupeKey, DispatchCounts, DispatchId, DispatchStatus, Result, ThreadId, Timestamp,
    codec::DecodeError,
    mailbox::{self, MailboxView, Places, StoredDispatch, StoredInterrupt, StoredMailbox, in_queue},
};

use super::{
    Change,
    garbage::{Messages, Told},
    order::Order,
    queue::Queue,
};
use crate::codec::{self, Datum, Deed, Row};

/// Which dispatches a list is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    All,
    Thread(ThreadId),
    Status(DispatchStatus),
}

/// A thread with its queue.
#[derive(Debug, Default)]
pub(super) struct OfThread {
    /// None as long as messages about it have changed nothing.
    pub(super) record: Option<StoredMailbox>,
    interrupts: BTreeMap<u64, StoredInterrupt>,
    pub(super) queue: Queue,
    places: Places,
    messages: Messages,
    /// A message that cannot be read: nobody knows how the thread stands (MB-55).
    damage: Option<(u64, DecodeError)>,
}

impl OfThread {
    pub(super) fn epoch(&self) -> u64 {
        self.record.as_ref().map_or(0, |record| record.epoch)
    }
}

/// Everything about the dispatches of a tenant.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    incarnation: u64,
    pub(super) threads: HashMap<ThreadId, OfThread>,
    pub(super) rows: HashMap<DispatchId, Row>,
    /// Who took a dedupe key last.
    keys: HashMap<(ThreadId, DedupeKey), DispatchId>,
    pub(super) by_creation: Order<Scope, DispatchId>,
    /// What ended, each by itself.
    pub(super) by_end: BTreeSet<(Timestamp, DispatchId)>,
    /// What interrupts ended: thread and epoch.
    pub(super) lots: BTreeMap<Timestamp, BTreeSet<(ThreadId, u64)>>,
    pub(super) ready: BTreeSet<(u8, Timestamp, ThreadId)>,
    due: BTreeSet<(Timestamp, ThreadId)>,
    pub(super) leases: BTreeSet<(Timestamp, ThreadId)>,
    /// When it was last asked what is due.
    turned: Timestamp,
    /// Threads with a message that cannot be read.
    damaged: BTreeSet<ThreadId>,
}

fn scopes(stored: &StoredDispatch) -> [Scope; 3] {
    [Scope::All, Scope::Thread(stored.body.thread.clone()), Scope::Status(stored.state.status)]
}

impl Mailbox {
    /// An empty one of this incarnation.
    pub(super) fn new(incarnation: u64) -> Self {
        Self { incarnation, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.threads.values().all(|found| found.record.is_none())
    }

    pub(crate) fn row(&self, id: &DispatchId) -> Option<&Row> {
        self.rows.get(id)
    }

    /// The last message about a thread; 0 if there is none.
    pub(crate) fn last_message(&self, thread: &ThreadId) -> u64 {
        self.threads.get(thread).map_or(0, |found| found.messages.last())
    }

    pub(crate) fn epoch(&self, thread: &ThreadId) -> u64 {
        self.threads.get(thread).map_or(0, OfThread::epoch)
    }

    pub(crate) fn counts(&self, thread: Option<&ThreadId>) -> DispatchCounts {
        let of = |found: &OfThread| found.record.as_ref().map(|record| record.counts.clone()).unwrap_or_default();
        match thread {
            Some(thread) => self.threads.get(thread).map(of).unwrap_or_default(),
            None => self.threads.values().fold(DispatchCounts::default(), |sum, found| sum.plus(&of(found))),
        }
    }

    /// Takes in a message about a thread.
    pub(super) fn apply(
        &mut self,
        thread: &ThreadId,
        (sequence, deed): (u64, Result<Deed, DecodeError>),
        change: &mut Change,
    ) {
        let deed = match deed {
            Ok(deed) => deed,
            Err(damage) => {
                let found = self.threads.entry(thread.clone()).or_default();
                found.damage = Some((sequence, damage));
                found.messages.add(sequence, Vec::new());
                self.damaged.insert(thread.clone());
                return self.turn(thread, self.turned);
            }
        };
        let rows = deed.rows.iter().map(|row| (Told::Dispatch(row.stored.body.number), false));
        let removed = deed.removed.iter().map(|removed| (Told::Dispatch(removed.number), true));
        let interrupts = deed.interrupts.iter().map(|(epoch, kept)| (Told::Interrupt(*epoch), kept.is_none()));
        let record = deed.mailbox.as_ref().map(|_| (Told::Record, false));
        let tells = rows.chain(removed).chain(interrupts).chain(record).collect();
        let found = self.threads.entry(thread.clone()).or_default();
        change.garbage.extend(found.messages.add(sequence, tells));
        for removed in &deed.removed {
            change.data.extend(self.remove(thread, &removed.id));
            change.ids.push(removed.id.clone());
        }
        for row in deed.rows {
            self.put(thread, row);
        }
        for (epoch, interrupt) in deed.interrupts {
            self.put_interrupt(thread, epoch, interrupt);
        }
        let found = self.threads.entry(thread.clone()).or_default();
        if let Some(record) = deed.mailbox {
            let until = record.last_time;
            found.record = Some(record);
            self.turn(thread, until);
        }
        let places = self.threads.get(thread).map(|found| found.places).unwrap_or_default();
        let ready = places.ready.map(|(_, since)| since);
        change.claimable_from = [ready, places.due, places.lease].into_iter().flatten().min();
    }

    /// Notes that a message about a thread was removed. Gives those that are not needed any more for that reason.
    pub(crate) fn removed(&mut self, thread: &ThreadId, sequence: u64) -> Vec<u64> {
        self.threads.get_mut(thread).map(|found| found.messages.remove(sequence)).unwrap_or_default()
    }

    fn put(&mut self, thread: &ThreadId, row: Row) {
        let stored = &row.stored;
        let id = stored.id().clone();
        let queue = &mut self.threads.entry(thread.clone()).or_default().queue;
        let created_at = stored.body.created_at;
        if let Some(old) = self.rows.get(&id).map(|old| &old.stored) {
            if let Some(at) = in_queue(old) {
                queue.remove(at, &id);
            }
            self.by_creation.remove(scopes(old), created_at, &id);
            if let Some(end) = old.state.finished_at {
                self.by_end.remove(&(end, id.clone()));
            }
        }
        if let Some(at) = in_queue(stored) {
            queue.insert(at, &id);
            if let Some(key) = &stored.body.dedupe_key {
                self.keys.insert((thread.clone(), key.clone()), id.clone());
            }
        }
        self.by_creation.insert(scopes(stored), created_at, &id);
        self.by_end.extend(stored.state.finished_at.map(|end| (end, id.clone())));
        self.rows.insert(id, row);
    }

    fn remove(&mut self, thread: &ThreadId, id: &DispatchId) -> impl Iterator<Item = Datum> + use<> {
        let row = self.rows.remove(id);
        let data = row.as_ref().map_or([None; 2], |row| [row.payload, row.result]);
        if let Some(old) = row.map(|row| row.stored) {
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
        data.into_iter().flatten()
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

    /// Makes available what of a thread is due at `now`, and puts the thread where it stands then. One that cannot be
    /// read stands nowhere.
    fn turn(&mut self, thread: &ThreadId, now: Timestamp) {
        let Some(found) = self.threads.get_mut(thread) else { return };
        let new = match &found.record {
            Some(record) if found.damage.is_none() => {
                found.queue.turn_to(record.epoch, mailbox::time(Some(record), now));
                mailbox::places(record, found.queue.ends(record.epoch))
            }
            _ => Places::default(),
        };
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

    /// Makes available what of a thread is due at `now`.
    pub(crate) fn turn_thread(&mut self, thread: &ThreadId, now: Timestamp) {
        self.turn(thread, now);
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

    /// From when on a claim finds something: now, or when something is due or a lease is over.
    pub(crate) fn next_claim(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.turn_to(now);
        if !self.ready.is_empty() {
            return Some(now);
        }
        let first = |places: &BTreeSet<(Timestamp, ThreadId)>| places.first().map(|place| place.0);
        [first(&self.due), first(&self.leases)].into_iter().flatten().min()
    }

    /// Threads with a message that cannot be read, with why.
    pub(crate) fn unreadable(&self) -> Vec<(ThreadId, store_core::Error)> {
        let damaged = self.damaged.iter();
        let damaged = damaged.filter_map(|thread| Some((thread, self.threads.get(thread)?.damage.as_ref()?)));
        damaged.map(|(thread, (at, why))| (thread.clone(), codec::corrupt("a decision", *at, why))).collect()
    }
}

impl MailboxView for Mailbox {
    fn claim_incarnation(&self) -> u64 {
        self.incarnation
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailbox>> {
        let Some(found) = self.threads.get(thread) else { return Ok(None) };
        match &found.damage {
            Some((sequence, why)) => Err(codec::corrupt("a decision", *sequence, why)),
            None => Ok(found.record.clone()),
        }
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        Ok(self.rows.get(id).map(|row| row.stored.clone()))
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
