//! What a node knows from the stream: the deltas that are not applied yet, and which keys the latest messages wrote.
//!
//! Everything here follows from the messages alone, so every node comes to the same result.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use store_core::{
    Result, TenantId, ThreadId, Timestamp,
    buffer::{AppliedPosition, Delta, DeltaKeys, Overlay, QuarantinedDelta, ReadDelta},
    document::{DocumentPlan, DocumentWrite},
    event::EventPlan,
};

use super::{message::DeltaMessage, quarantine::Quarantine};

/// The number of messages that a decision may lie back. A node that begins to read needs so many messages before the
/// position of the inner store.
pub(crate) const WINDOW: u64 = 8_192;

/// The size of the deltas that are applied together at most, about, unless one of them is larger.
const MAX_BATCH_BYTES: u64 = 8 << 20;

/// The size of the applied records that a node keeps at most, about.
const MAX_KEPT_BYTES: u64 = 64 << 20;
/// The number of notes about threads with such records that a node keeps at most.
const MAX_KEPT_THREADS: usize = 1 << 16;

/// A delta that takes effect and is not applied yet.
#[derive(Debug)]
struct Waiting {
    read: ReadDelta,
    as_of: u64,
    keys: DeltaKeys,
    published: Timestamp,
    bytes: u64,
}

impl Waiting {
    fn message(&self) -> DeltaMessage {
        DeltaMessage {
            tenant: self.read.tenant.clone(),
            as_of: self.as_of,
            keys: self.keys.clone(),
            delta: Some(Delta::clone(&self.read.delta)),
            refreshes: false,
            detached: None,
        }
    }
}

/// What is to be done with the deltas that wait.
#[derive(Debug)]
pub(crate) enum NextBatch {
    /// Deltas to apply, and the position afterwards.
    Apply(u64, Vec<ReadDelta>),
    /// The next delta, as its message, relies on this one in quarantine.
    Quarantine(u64, Box<DeltaMessage>, u64),
}

/// What a node knows from the stream.
#[derive(Debug, Default)]
pub(crate) struct StreamState {
    /// The sequence number of the message that was read last.
    position: u64,
    /// The position up to which the inner store is known to have applied the stream.
    applied: u64,
    overlays: HashMap<TenantId, Overlay>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    /// For each key, the last message that wrote it.
    last_writes: HashMap<String, u64>,
    /// The keys that the latest messages wrote, and their subjects.
    recent: VecDeque<(u64, Vec<String>, String)>,
    /// For each subject, its last message.
    last_of_subjects: HashMap<String, u64>,
    /// The tenants that were deleted since the last call of `take_closed_tenants`, each with its deletion.
    closed_tenants: HashMap<TenantId, u64>,
    /// The last message that was removed from the stream before this node read it. The inner store is at least a window
    /// ahead of it.
    last_missed: u64,
    /// Whether a message was missed since the position of the inner store was asked for.
    has_missed: bool,
    quarantine: Quarantine,
    /// Whether the stream says that the buffer is detached. Then no delta takes effect.
    is_detached: bool,
    /// Whether the buffer was detached while this node had it open.
    was_detached: bool,
    /// Threads of which applied records are kept, each with the delta after which it was noted, the oldest first.
    kept: VecDeque<(u64, TenantId, ThreadId)>,
    kept_bytes: u64,
}

impl StreamState {
    /// Begins after a position: everything up to `applied` is in the inner store, and messages are read from `position`
    /// on.
    pub(crate) fn new(position: u64, applied: u64) -> Self {
        Self { position, applied, ..Self::default() }
    }

    pub(crate) const fn position(&self) -> u64 {
        self.position
    }

    pub(crate) const fn applied(&self) -> u64 {
        self.applied
    }

    /// Returns the overlay of a tenant, if it has any deltas.
    pub(crate) fn overlay(&self, tenant: &TenantId) -> Option<&Overlay> {
        self.overlays.get(tenant)
    }

    pub(crate) const fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Returns when the oldest delta that waits was written.
    pub(crate) fn oldest_waiting(&self) -> Option<Timestamp> {
        self.waiting.front().map(|waiting| waiting.published)
    }

    /// Returns the last message on a subject; 0 if it is not known.
    pub(crate) fn last_of_subject(&self, subject: &str) -> u64 {
        self.last_of_subjects.get(subject).copied().unwrap_or_default()
    }

    /// Sets the last message on a subject as the server has reported it.
    pub(crate) fn set_last_of_subject(&mut self, subject: &str, last: u64) {
        if last == 0 {
            self.last_of_subjects.remove(subject);
        } else {
            self.last_of_subjects.insert(subject.to_owned(), last);
        }
    }

    /// Reads a message. Returns whether it takes effect: it lies in time, and no message since its decision has written
    /// one of its keys. None if that is not known, because messages were missed. Such a message is before the position
    /// of the inner store.
    pub(crate) fn read(
        &mut self,
        at: u64,
        subject: &str,
        message: Option<DeltaMessage>,
        (published, is_late): (Timestamp, bool),
    ) -> Option<bool> {
        if at > self.position + 1 {
            (self.last_missed, self.has_missed) = (at - 1, at - 1 > self.applied);
            self.forget_kept();
        }
        self.position = at;
        let Some(DeltaMessage { tenant, as_of, keys, delta, refreshes, detached }) = message else {
            return Some(false);
        };
        if let Some(detached) = detached {
            (self.is_detached, self.was_detached) = (detached, self.was_detached || detached);
        }
        if refreshes {
            self.quarantine.set_stale(at);
        }
        let key = |key: &str| format!("{}\n{key}", tenant.as_str());
        let is_unchanged = |name: &str| self.last_writes.get(&key(name)).is_none_or(|last| *last <= as_of);
        let is_recent = as_of < at && at - as_of <= WINDOW;
        let is_effective =
            !is_late && is_recent && !self.is_detached && keys.all().all(is_unchanged) && delta.is_some();
        let written: Vec<String> = keys.writes.iter().map(|name| key(name)).collect();
        for name in &written {
            self.last_writes.insert(name.clone(), at);
        }
        self.last_of_subjects.insert(subject.to_owned(), at);
        self.recent.push_back((at, written, subject.to_owned()));
        self.forget_old_keys();
        if at <= self.applied
            && is_effective
            && let (Some(delta), Some(overlay)) = (&delta, self.overlays.get_mut(&tenant))
        {
            self.kept_bytes -= overlay.kept();
            overlay.forget_changed(delta, self.applied);
            self.kept_bytes += overlay.kept();
        }
        if is_effective && as_of < self.last_missed {
            return None;
        }
        if let Some(delta) = delta.filter(|_| is_effective && at > self.applied) {
            let read = ReadDelta::new(at, tenant, Arc::new(delta));
            let bytes = approximate_bytes(&read.delta);
            self.add(Waiting { read, as_of, keys, published, bytes });
        }
        Some(is_effective)
    }

    /// Returns whether this node has read every message after this position, up to its own.
    pub(crate) const fn has_read_all_since(&self, position: u64) -> bool {
        self.last_missed <= position
    }

    /// Returns whether the stream says that the buffer is detached.
    pub(crate) const fn is_detached(&self) -> bool {
        self.is_detached
    }

    /// Returns whether the buffer was detached while this node had it open. The node may have missed what was written
    /// without the buffer since.
    pub(crate) const fn was_detached(&self) -> bool {
        self.was_detached
    }

    /// Begins after a detachment that was read while the buffer was opened.
    pub(crate) const fn forget_detachment(&mut self) {
        self.was_detached = false;
    }

    /// Returns whether the inner store must be asked for its position before the state can be used.
    pub(crate) const fn must_ask(&self) -> bool {
        self.has_missed || self.quarantine.is_stale()
    }

    /// Notes that the inner store was asked after this message was read.
    pub(crate) const fn set_asked(&mut self, at: u64) {
        self.quarantine.set_fresh(at);
    }

    pub(crate) const fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    fn add(&mut self, waiting: Waiting) {
        let ReadDelta { sequence, tenant, delta, .. } = &waiting.read;
        if matches!(**delta, Delta::TenantDeletion) {
            self.closed_tenants.insert(tenant.clone(), *sequence);
        }
        if self.quarantine.relied_on(tenant, &waiting.keys).is_some() {
            // The node that wrote it may know that the delta it relies on has left the quarantine.
            self.quarantine.set_stale(*sequence);
        }
        self.overlays.entry(tenant.clone()).or_default().add(*sequence, delta);
        self.waiting_bytes += waiting.bytes;
        self.waiting.push_back(waiting);
    }

    /// Takes the tenants that were deleted since the last call.
    pub(crate) fn take_closed_tenants(&mut self) -> HashMap<TenantId, u64> {
        std::mem::take(&mut self.closed_tenants)
    }

    fn forget_old_keys(&mut self) {
        let first_needed = self.position.saturating_sub(WINDOW);
        while let Some((at, keys, subject)) = self.recent.pop_front_if(|(at, _, _)| *at < first_needed) {
            for key in keys {
                if self.last_writes.get(&key) == Some(&at) {
                    self.last_writes.remove(&key);
                }
            }
            // The message may be removed from the stream soon, and the server then expects 0.
            if self.last_of_subjects.get(&subject) == Some(&at) && at <= self.applied {
                self.last_of_subjects.remove(&subject);
            }
        }
    }

    /// Returns what is to be done next: at most `limit` deltas are applied together. None if no delta waits. A deletion
    /// of a tenant is applied alone.
    pub(crate) fn next_batch(&self, limit: usize) -> Option<NextBatch> {
        let relied_on =
            |waiting: &Waiting| Some(self.quarantine.relied_on(&waiting.read.tenant, &waiting.keys)?.record.sequence);
        let first = self.waiting.front()?;
        if let Some(earlier) = relied_on(first) {
            return Some(NextBatch::Quarantine(first.read.sequence, Box::new(first.message()), earlier));
        }
        let is_deletion = |waiting: &Waiting| matches!(*waiting.read.delta, Delta::TenantDeletion);
        let count = if is_deletion(first) {
            1
        } else {
            let mut bytes = 0;
            let goes_on = |waiting: &&Waiting| {
                bytes += waiting.bytes;
                (bytes <= MAX_BATCH_BYTES || bytes == waiting.bytes)
                    && !is_deletion(waiting)
                    && relied_on(waiting).is_none()
            };
            self.waiting.iter().take(limit.max(1)).take_while(goes_on).count()
        };
        let deltas: Vec<_> = self.waiting.iter().take(count).map(|waiting| waiting.read.clone()).collect();
        let last = deltas.last()?.sequence;
        // Messages without effect at the end of the stream need no batch of their own.
        let upto = if deltas.len() == self.waiting.len() { self.position.max(last) } else { last };
        Some(NextBatch::Apply(upto, deltas))
    }

    /// Returns the message of a delta that waits.
    pub(crate) fn waiting_message(&self, sequence: u64) -> Option<DeltaMessage> {
        self.waiting.iter().find(|waiting| waiting.read.sequence == sequence).map(Waiting::message)
    }

    /// Takes over what is in quarantine, and how far the inner store has applied the stream, as of one moment.
    pub(crate) fn set_quarantine(&mut self, position: &AppliedPosition, records: Vec<QuarantinedDelta>) -> Result<()> {
        let is_replaced = self.quarantine.replace(position, records)?;
        self.set_applied(position.position);
        if !is_replaced {
            return Ok(());
        }
        // The records of deltas that are in quarantine stay visible, until they are applied or discarded.
        self.overlays.clear();
        self.kept.clear();
        self.kept_bytes = 0;
        let quarantined = self.quarantine.iter().map(|it| (it.record.sequence, &it.record.tenant, &it.delta));
        let waiting = self.waiting.iter().map(|it| (it.read.sequence, &it.read.tenant, &it.read.delta));
        for (at, tenant, delta) in quarantined.chain(waiting) {
            self.overlays.entry(tenant.clone()).or_default().add(at, delta);
        }
        Ok(())
    }

    /// Returns whether a delta with events waits.
    pub(crate) fn has_waiting_events(&self) -> bool {
        self.waiting.iter().any(|waiting| match &*waiting.read.delta {
            Delta::Thread(plan) => plan.events.is_some(),
            Delta::Documents(plan) => plan.events.is_some(),
            _ => false,
        })
    }

    /// Returns whether a delta up to this position waits.
    pub(crate) fn has_waiting(&self, upto: u64) -> bool {
        self.waiting.front().is_some_and(|waiting| waiting.read.sequence <= upto)
    }

    /// Notes that the inner store has applied the stream up to a position.
    pub(crate) fn set_applied(&mut self, applied: u64) {
        self.applied = self.applied.max(applied);
        if self.applied >= self.last_missed {
            self.has_missed = false;
        }
        while let Some(Waiting { read, bytes, .. }) =
            self.waiting.pop_front_if(|waiting| waiting.read.sequence <= self.applied)
        {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
            if let Some(overlay) = self.overlays.get_mut(&read.tenant) {
                self.kept_bytes -= overlay.kept();
                for thread in overlay.remove(read.sequence, &read.delta) {
                    self.kept.push_back((read.sequence, read.tenant.clone(), thread));
                }
                self.kept_bytes += overlay.kept();
                if overlay.is_empty() {
                    self.overlays.remove(&read.tenant);
                }
            }
        }
        self.forget_oldest();
    }

    /// Forgets the threads that were written least recently, if too much is kept of threads that are applied.
    fn forget_oldest(&mut self) {
        while self.kept_bytes > MAX_KEPT_BYTES || self.kept.len() > MAX_KEPT_THREADS {
            let Some((last, tenant, thread)) = self.kept.pop_front() else { return };
            let Some(overlay) = self.overlays.get_mut(&tenant) else { continue };
            self.kept_bytes -= overlay.kept();
            overlay.forget(&thread, last, self.applied);
            self.kept_bytes += overlay.kept();
            if overlay.is_empty() {
                self.overlays.remove(&tenant);
            }
        }
    }

    /// Forgets everything that is kept of threads: messages about them may have been missed.
    fn forget_kept(&mut self) {
        self.kept.clear();
        self.overlays.values_mut().for_each(|overlay| overlay.forget_all(self.applied));
        self.overlays.retain(|_, overlay| !overlay.is_empty());
        self.kept_bytes = self.overlays.values().map(Overlay::kept).sum();
    }
}

/// Returns the size in bytes of the parts of a delta that may be large, and some for the rest.
fn approximate_bytes(delta: &Delta) -> u64 {
    const RECORDS: u64 = 1 << 10;
    let of_events = |events: Option<&EventPlan>| -> usize {
        let payloads =
            events.iter().flat_map(|events| &events.events).filter_map(|stored| stored.event.payload.as_ref());
        payloads.map(|payload| payload.as_str().len()).sum()
    };
    let of_documents = |documents: &DocumentPlan| -> usize {
        let written = documents.changes.iter().map(|change| match &change.write {
            DocumentWrite::Put(stored) => stored.value.as_str().len(),
            DocumentWrite::Delete | DocumentWrite::Keep => 0,
        });
        written.sum()
    };
    let large = match delta {
        Delta::Thread(plan) => {
            let entries: usize = plan.entries.iter().map(|planned| planned.text.len()).sum();
            let rows: usize = plan.outbox.rows.iter().map(|(_, payload)| payload.as_str().len()).sum();
            let state: usize = plan.state.values.values().flatten().map(|value| value.as_str().len()).sum();
            entries + rows + state + of_events(plan.events.as_ref()) + of_documents(&plan.documents)
        }
        Delta::Documents(plan) => of_events(plan.events.as_ref()) + of_documents(&plan.documents),
        _ => 0,
    };
    RECORDS + store_core::length(large)
}
