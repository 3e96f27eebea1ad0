//! What a node knows from the stream: the deltas that are not applied yet, and which keys the latest messages wrote.
//!
//! Everything here follows from the messages alone, so every node comes to the same result.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use store_core::{
    TenantId,
    buffer::{Delta, Overlay, ReadDelta},
    document::{DocumentPlan, DocumentWrite},
    event::EventPlan,
};

use super::message::DeltaMessage;

/// The number of messages that a decision may lie back. A node that begins to read needs so many messages before the
/// position of the inner store.
pub(crate) const WINDOW: u64 = 8_192;

/// A delta that takes effect and is not applied yet.
#[derive(Debug)]
struct Waiting {
    read: ReadDelta,
    bytes: u64,
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
        is_late: bool,
    ) -> Option<bool> {
        if at > self.position + 1 {
            (self.last_missed, self.has_missed) = (at - 1, at - 1 > self.applied);
        }
        self.position = at;
        let Some(DeltaMessage { tenant, as_of, keys, delta, .. }) = message else { return Some(false) };
        let key = |key: &str| format!("{}\n{key}", tenant.as_str());
        let is_unchanged = |name: &str| self.last_writes.get(&key(name)).is_none_or(|last| *last <= as_of);
        let is_recent = as_of < at && at - as_of <= WINDOW;
        let is_effective = !is_late && is_recent && keys.all().all(is_unchanged) && delta.is_some();
        let written: Vec<String> = keys.writes.iter().map(|name| key(name)).collect();
        for name in &written {
            self.last_writes.insert(name.clone(), at);
        }
        self.last_of_subjects.insert(subject.to_owned(), at);
        self.recent.push_back((at, written, subject.to_owned()));
        self.forget_old_keys();
        if is_effective && as_of < self.last_missed {
            return None;
        }
        if let Some(delta) = delta.filter(|_| is_effective && at > self.applied) {
            self.add(at, tenant, delta);
        }
        Some(is_effective)
    }

    /// Returns whether the position of the inner store must be asked for before the state can be used.
    pub(crate) const fn has_missed(&self) -> bool {
        self.has_missed
    }

    fn add(&mut self, at: u64, tenant: TenantId, delta: Delta) {
        if matches!(delta, Delta::TenantDeletion) {
            self.closed_tenants.insert(tenant.clone(), at);
        }
        self.overlays.entry(tenant.clone()).or_default().add(at, &delta);
        let bytes = approximate_bytes(&delta);
        self.waiting_bytes += bytes;
        self.waiting.push_back(Waiting { read: ReadDelta::new(at, tenant, Arc::new(delta)), bytes });
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

    /// Returns the next deltas to apply, at most `limit`, and the positions before and after them. None if no delta
    /// waits.
    pub(crate) fn next_batch(&self, limit: usize) -> Option<((u64, u64), Vec<ReadDelta>)> {
        let deltas: Vec<_> = self.waiting.iter().take(limit.max(1)).map(|waiting| waiting.read.clone()).collect();
        let last = deltas.last()?.sequence;
        // Messages without effect at the end of the stream need no batch of their own.
        let upto = if deltas.len() == self.waiting.len() { self.position.max(last) } else { last };
        Some(((self.applied, upto), deltas))
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
        while let Some(Waiting { read, bytes }) =
            self.waiting.pop_front_if(|waiting| waiting.read.sequence <= self.applied)
        {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
            if let Some(overlay) = self.overlays.get_mut(&read.tenant) {
                overlay.remove(read.sequence, &read.delta);
                if overlay.is_empty() {
                    self.overlays.remove(&read.tenant);
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use store_core::{
        TenantId, Timestamp,
        buffer::{Delta, DeltaKeys, ThreadDeletion},
    };

    use super::{DeltaMessage, StreamState, WINDOW};

    fn message(as_of: u64, reads: &[&str], writes: &[&str]) -> Option<DeltaMessage> {
        let list = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let delta = Delta::Deletion(ThreadDeletion::new(Timestamp::MIN));
        let keys = DeltaKeys::from_lists(list(reads), list(writes));
        Some(DeltaMessage { name: String::new(), tenant: TenantId::default_tenant(), as_of, keys, delta: Some(delta) })
    }

    /// Tests NB-2.
    #[test]
    fn a_message_takes_effect_unless_its_keys_were_written_since_its_decision() {
        let mut state = StreamState::default();
        let mut read = |at, message| state.read(at, "s", message, false).unwrap();
        assert!(read(1, message(0, &[], &["a"])));
        assert!(!read(2, message(0, &[], &["a"])), "the same key");
        assert!(!read(3, message(0, &["a"], &["b"])), "a key that it read");
        assert!(!read(4, message(2, &[], &["b"])), "a message without effect counts");
        assert!(read(5, message(0, &["d"], &["c"])), "no common key");
        assert!(read(6, message(0, &["d"], &["e"])), "two that read one key");
        assert!(read(7, message(4, &[], &["b"])));
        assert!(!read(8, message(8, &[], &["x"])), "a position that it cannot know");
    }

    /// Tests NB-2.
    #[test]
    fn a_decision_of_long_ago_takes_no_effect() {
        let mut state = StreamState::new(WINDOW, 0);
        let mut read = |at, message, is_late| state.read(at, "s", message, is_late).unwrap();
        assert!(read(WINDOW + 1, message(1, &[], &["a"]), false));
        assert!(!read(WINDOW + 2, message(1, &[], &["b"]), false));
        assert!(!read(WINDOW + 3, message(WINDOW, &[], &["c"]), true), "it is late");
    }

    /// Tests NB-4.
    #[test]
    fn a_message_decided_before_one_that_was_missed_is_left_to_the_inner_store() {
        let mut state = StreamState::new(3, 3);
        assert_eq!(state.read(9, "s", message(8, &[], &["a"]), false), Some(true));
        assert_eq!(state.read(10, "s", message(7, &[], &["b"]), false), None);
        assert_eq!(state.read(11, "s", message(7, &[], &["a"]), false), Some(false));
        assert!(state.has_missed());
        assert_eq!(state.waiting_count(), 1);
        state.set_applied(11);
        assert!(!state.has_missed());
        assert_eq!(state.waiting_count(), 0);
    }

    /// Tests NB-4.
    #[test]
    fn applied_deltas_no_longer_wait() {
        let mut state = StreamState::default();
        for at in 1..=3 {
            assert_eq!(state.read(at, "s", message(at - 1, &[], &["a"]), false), Some(true));
        }
        let (positions, deltas) = state.next_batch(2).unwrap();
        assert_eq!((positions, deltas.len()), ((0, 2), 2));
        state.set_applied(2);
        let _effect = state.read(4, "s", None, false);
        let (positions, deltas) = state.next_batch(2).unwrap();
        assert_eq!((positions, deltas.len()), ((2, 4), 1));
        state.set_applied(4);
        assert!(state.next_batch(2).is_none());
        assert_eq!(state.waiting_bytes(), 0);
        assert!(state.overlay(&TenantId::default_tenant()).is_none());
    }
}
