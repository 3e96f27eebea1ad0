//! The events of a tenant, by id and in the order of each scope.

use std::collections::{HashMap, VecDeque};

use store_core::{
    Direction, Event, EventId, EventKey, RedactEvent, Result, Scope, Timestamp, WriterId,
    event::{self, EventKeyRecord, EventPlan, Followers, ScopeState, StoredEvent, must_keep_event_key},
};

type WriterKey = (WriterId, EventKey);

/// Events, shared by their scopes.
#[derive(Debug, Default)]
pub(crate) struct Events {
    rows: HashMap<EventId, EventRow>,
    scopes: HashMap<Scope, ScopeEvents>,
    key_records: HashMap<WriterKey, EventKeyRecord>,
    pub(crate) followers: Followers,
}

#[derive(Debug)]
struct EventRow {
    stored: StoredEvent,
    key: Option<WriterKey>,
    /// The number of scopes that still contain the event.
    scope_count: usize,
}

/// A scope, and the ids of its events that are not trimmed.
#[derive(Debug, Default)]
struct ScopeEvents {
    state: ScopeState,
    ids: VecDeque<EventId>,
}

impl ScopeEvents {
    /// Returns the index in `ids` of the event that follows this sequence number.
    fn index_after(&self, seq: u64) -> usize {
        usize::try_from(seq.saturating_sub(self.state.floor)).unwrap_or(usize::MAX).min(self.ids.len())
    }
}

/// Returns the number of an event in a scope.
fn seq_in(stored: &StoredEvent, scope: &Scope) -> Option<u64> {
    stored.scope_numbers().find_map(|(other, seq)| (other == *scope).then_some(seq))
}

impl Events {
    /// Returns whether there are no events.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn scope_state(&self, scope: &Scope) -> ScopeState {
        self.scopes.get(scope).map(|scope_events| scope_events.state.clone()).unwrap_or_default()
    }

    pub(crate) fn key_record(&self, writer: &WriterId, key: &EventKey) -> Option<&EventKeyRecord> {
        self.key_records.get(&(writer.clone(), key.clone()))
    }

    pub(crate) fn get(&self, id: &EventId) -> Option<&StoredEvent> {
        self.rows.get(id).map(|row| &row.stored)
    }

    /// Returns the events of a scope with their sequence numbers, in the given direction, beginning after the sequence
    /// number `after`.
    pub(crate) fn walk(
        &self,
        scope: &Scope,
        after: Option<u64>,
        direction: Direction,
    ) -> Box<dyn Iterator<Item = (u64, &StoredEvent)> + '_> {
        let Some(scope_events) = self.scopes.get(scope) else { return Box::new(std::iter::empty()) };
        let with_event = |(seq, id)| Some((seq, self.get(id)?));
        let numbered_from =
            |from: usize| (scope_events.state.floor + 1 + from as u64..).zip(scope_events.ids.iter().skip(from));
        match direction {
            Direction::Forward => {
                Box::new(numbered_from(after.map_or(0, |after| scope_events.index_after(after))).filter_map(with_event))
            }
            Direction::Backward => {
                let end_index =
                    after.map_or(scope_events.ids.len(), |after| scope_events.index_after(after.saturating_sub(1)));
                let first_seq = scope_events.state.floor + 1;
                let ids_backward = scope_events.ids.iter().take(end_index).enumerate().rev();
                Box::new(ids_backward.map(move |(index, id)| (first_seq + index as u64, id)).filter_map(with_event))
            }
        }
    }

    /// Returns all scopes, in no particular order.
    pub(crate) fn scopes(&self) -> impl Iterator<Item = (&Scope, &ScopeState)> {
        self.scopes.iter().map(|(scope, scope_events)| (scope, &scope_events.state))
    }

    /// Returns all events, in no particular order.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &StoredEvent> {
        self.rows.values().map(|row| &row.stored)
    }

    /// Returns what is kept of the keys of appends, in no particular order.
    pub(crate) fn key_records(&self) -> impl Iterator<Item = (&WriterKey, &EventKeyRecord)> {
        self.key_records.iter()
    }

    /// Writes the state of a scope as it was in another store.
    pub(crate) fn restore_scope(&mut self, scope: Scope, state: ScopeState) {
        self.scopes.entry(scope).or_default().state = state;
    }

    /// Writes an event as it was in another store, after its scopes. Events come in any order.
    pub(crate) fn restore(&mut self, stored: StoredEvent) {
        let id = stored.event.id.clone();
        let mut scope_count = 0;
        for (scope, seq) in stored.scope_numbers() {
            let rows = &self.rows;
            let scope_events = self.scopes.entry(scope.clone()).or_default();
            if seq <= scope_events.state.floor {
                continue;
            }
            scope_count += 1;
            let seq_of = |id: &EventId| rows.get(id).and_then(|row| seq_in(&row.stored, &scope)).unwrap_or(u64::MAX);
            let place = scope_events.ids.partition_point(|other| seq_of(other) < seq);
            if scope_events.ids.get(place) != Some(&id) {
                scope_events.ids.insert(place, id.clone());
            }
        }
        let key = self.rows.remove(&id).and_then(|row| row.key);
        self.rows.insert(id, EventRow { stored, key, scope_count });
    }

    /// Writes what is kept of the key of an append as it was in another store, after its events.
    pub(crate) fn restore_key(&mut self, key: WriterKey, record: EventKeyRecord) {
        for id in &record.events {
            if let Some(row) = self.rows.get_mut(id) {
                row.key = Some(key.clone());
            }
        }
        self.key_records.insert(key, record);
    }

    /// Applies a plan and notifies the subscribers of its scopes.
    pub(crate) fn apply(&mut self, plan: EventPlan) {
        let key = plan.key.map(|(writer, key, record)| {
            self.key_records.insert((writer.clone(), key.clone()), record);
            (writer, key)
        });
        for stored in plan.events {
            let id = stored.event.id.clone();
            let scope_count = stored.scope_numbers().count();
            for (scope, _) in stored.scope_numbers() {
                self.scopes.entry(scope).or_default().ids.push_back(id.clone());
            }
            self.rows.insert(id, EventRow { stored, key: key.clone(), scope_count });
        }
        for (scope, state) in plan.scopes {
            self.followers.notify([&scope]);
            let scope_events = self.scopes.entry(scope).or_default();
            // A delta of a write buffer was planned before a trim that has come first.
            scope_events.state = state.after_trim(scope_events.state.floor);
        }
    }

    /// Removes the events of a scope up to a sequence number. Returns how many were removed.
    pub(crate) fn trim(&mut self, scope: &Scope, floor: u64, now: Timestamp) -> u64 {
        let Some(scope_events) = self.scopes.get_mut(scope) else { return 0 };
        let removed_ids: Vec<_> = scope_events.ids.drain(..scope_events.index_after(floor)).collect();
        scope_events.state = std::mem::take(&mut scope_events.state).after_trim(floor);
        for id in &removed_ids {
            self.remove_from_one_scope(id, now);
        }
        removed_ids.len() as u64
    }

    /// Removes the content of an event, and what is remembered of the key of its append. Returns whether it had any
    /// content.
    pub(crate) fn redact(&mut self, request: &RedactEvent) -> bool {
        let Some(row) = self.rows.get_mut(&request.id) else { return false };
        if let Some(key) = row.key.take() {
            self.key_records.remove(&key);
        }
        let redacted = event::redacted(&row.stored, request.payload.as_ref());
        redacted.map(|redacted| row.stored = redacted).is_some()
    }

    /// Records that an event was removed from one of its scopes. An event that no scope contains any more is dropped.
    fn remove_from_one_scope(&mut self, id: &EventId, now: Timestamp) {
        let Some(row) = self.rows.get_mut(id) else { return };
        row.scope_count -= 1;
        if row.scope_count > 0 {
            return;
        }
        let Some(key) = self.rows.remove(id).and_then(|row| row.key) else { return };
        let rows = &self.rows;
        let can_be_forgotten = self.key_records.get(&key).is_some_and(|record| {
            !must_keep_event_key(record, record.events.iter().rev().any(|id| rows.contains_key(id)), now)
        });
        if can_be_forgotten {
            self.key_records.remove(&key);
        }
    }

    /// Returns the events of a scope, oldest first, for a trim by time.
    pub(crate) fn events_oldest_first(&self, scope: &Scope) -> impl Iterator<Item = Result<Event>> {
        self.walk(scope, None, Direction::Forward).map(|(_, stored)| Ok(stored.event.clone()))
    }
}
