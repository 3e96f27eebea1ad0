//! A cache of rows that were read or written recently. For example, a claimed dispatch is usually settled soon, and its
//! row then need not be read again.

use std::{cell::RefCell, collections::HashMap, hash::Hash};

use store_core::{
    DispatchId, ThreadId,
    mailbox::{DispatchState, StoredDispatch},
};

use super::MailboxRow;

/// The largest number of threads in the cache, and the largest number of dispatches. When one more thread is added, the
/// cache first removes all threads. The same is done for dispatches.
const MAX_ROWS: usize = 4_096;
/// The largest payload in the cache, in bytes.
const MAX_PAYLOAD_BYTES: usize = 4_096;

/// The current content of rows. The owner clears the cache when another connection has written or a write is rolled
/// back. A key of the cache begins with the row number of the tenant.
#[derive(Debug, Default)]
pub(crate) struct RowCache {
    threads: RefCell<HashMap<(i64, ThreadId), Option<MailboxRow>>>,
    dispatches: RefCell<HashMap<(i64, DispatchId), CachedDispatch>>,
    /// The dispatch that was read last, if it is not in `dispatches`. A decision reads a dispatch more than once.
    last_read: RefCell<Option<((i64, DispatchId), CachedDispatch)>>,
}

#[derive(Debug)]
struct CachedDispatch {
    stored: StoredDispatch,
    /// Whether `stored` contains the payload, if the dispatch has one.
    is_complete: bool,
}

impl CachedDispatch {
    /// Returns the dispatch, or `None` if its payload is requested but not cached.
    fn if_complete(&self, with_payload: bool) -> Option<StoredDispatch> {
        (self.is_complete || !with_payload).then(|| self.stored.clone())
    }
}

/// Adds a value to a map. If the map is full, clears it first.
fn put_bounded<K: Eq + Hash, V>(map: &RefCell<HashMap<K, V>>, key: K, value: V) {
    let mut map = map.borrow_mut();
    if map.len() >= MAX_ROWS && !map.contains_key(&key) {
        map.clear();
    }
    map.insert(key, value);
}

impl RowCache {
    /// Removes all rows from the cache.
    pub(crate) fn clear(&self) {
        self.threads.borrow_mut().clear();
        self.dispatches.borrow_mut().clear();
        self.forget_last();
    }

    /// Forgets the dispatch that was read last, because it may be large. It is not kept longer than one call.
    pub(crate) fn forget_last(&self) {
        *self.last_read.borrow_mut() = None;
    }

    /// Returns the row of a thread. `Some(None)` means that the row is known not to exist.
    pub(super) fn thread(&self, tenant_number: i64, thread: &ThreadId) -> Option<Option<MailboxRow>> {
        self.threads.borrow().get(&(tenant_number, thread.clone())).cloned()
    }

    pub(super) fn put_thread(&self, tenant_number: i64, thread: &ThreadId, row: Option<MailboxRow>) {
        put_bounded(&self.threads, (tenant_number, thread.clone()), row);
    }

    /// Returns a dispatch, with its payload if that is requested.
    pub(super) fn dispatch(&self, tenant_number: i64, id: &DispatchId, with_payload: bool) -> Option<StoredDispatch> {
        let key = (tenant_number, id.clone());
        match &*self.last_read.borrow() {
            Some((last_read, cached)) if *last_read == key => cached.if_complete(with_payload),
            _ => self.dispatches.borrow().get(&key)?.if_complete(with_payload),
        }
    }

    /// Caches a dispatch that was read, with or without its payload. A finished dispatch is not cached, because it is
    /// rarely read again.
    pub(super) fn put_read(&self, tenant_number: i64, stored: &StoredDispatch, is_complete: bool) {
        let (key, cached) =
            ((tenant_number, stored.id().clone()), CachedDispatch { stored: stored.clone(), is_complete });
        let length = stored.body.payload.as_ref().map_or(0, |payload| payload.as_str().len());
        if length > MAX_PAYLOAD_BYTES || stored.state.finished_at.is_some() {
            self.dispatches.borrow_mut().remove(&key);
            *self.last_read.borrow_mut() = Some((key, cached));
        } else {
            self.forget_last();
            put_bounded(&self.dispatches, key, cached);
        }
    }

    /// Caches a dispatch that is written. Returns its previous state, if that was cached.
    pub(super) fn put_written(&self, tenant_number: i64, stored: &StoredDispatch) -> Option<DispatchState> {
        self.forget_last();
        if stored.state.finished_at.is_some() {
            return self.remove(tenant_number, stored.id());
        }
        if stored.is_new() {
            self.put_read(tenant_number, stored, true);
            return None;
        }
        let mut dispatches = self.dispatches.borrow_mut();
        // The decision may have been made without the payload, so only the state is replaced.
        let cached = dispatches.get_mut(&(tenant_number, stored.id().clone()))?;
        Some(std::mem::replace(&mut cached.stored.state, stored.state.clone()))
    }

    /// Removes a dispatch from the cache, and returns its state if it was cached.
    pub(super) fn remove(&self, tenant_number: i64, id: &DispatchId) -> Option<DispatchState> {
        self.forget_last();
        let cached = self.dispatches.borrow_mut().remove(&(tenant_number, id.clone()));
        cached.map(|cached| cached.stored.state)
    }
}
