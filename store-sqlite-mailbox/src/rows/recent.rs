//! What was read and written lately: who claims a dispatch settles it soon, and what is known need not be read again.

use std::{cell::RefCell, collections::HashMap, hash::Hash, sync::Arc};

use store_core::{DispatchId, ThreadId, mailbox::StoredDispatch};

use super::OfThread;

/// How many threads and dispatches are kept; with one more all are forgotten.
const MOST: usize = 4_096;
/// The longest payload that is kept, in bytes.
const LONGEST: usize = 4_096;

/// Rows as they are now: whoever has it forgets all when somebody else has written, or when what was written is taken
/// back. The keys begin with the number of the tenant.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    threads: RefCell<HashMap<(i64, ThreadId), Option<OfThread>>>,
    dispatches: RefCell<HashMap<(i64, DispatchId), Known>>,
}

#[derive(Debug)]
struct Known {
    stored: StoredDispatch,
    /// Whether its payload is known, too.
    is_whole: bool,
}

fn put<K: Eq + Hash, V>(kept: &RefCell<HashMap<K, V>>, key: K, value: V) {
    let mut kept = kept.borrow_mut();
    if kept.len() >= MOST && !kept.contains_key(&key) {
        kept.clear();
    }
    kept.insert(key, value);
}

impl Recent {
    pub(crate) fn forget(&self) {
        self.threads.borrow_mut().clear();
        self.dispatches.borrow_mut().clear();
    }

    /// The row of a thread, which may be known not to be there.
    pub(super) fn thread(&self, tenant: i64, thread: &ThreadId) -> Option<Option<OfThread>> {
        self.threads.borrow().get(&(tenant, thread.clone())).cloned()
    }

    pub(super) fn put_thread(&self, tenant: i64, thread: &ThreadId, row: Option<OfThread>) {
        put(&self.threads, (tenant, thread.clone()), row);
    }

    /// A dispatch, with its payload if that is asked for.
    pub(super) fn dispatch(&self, tenant: i64, id: &DispatchId, with_payload: bool) -> Option<StoredDispatch> {
        let kept = self.dispatches.borrow();
        let found = kept.get(&(tenant, id.clone())).filter(|known| known.is_whole || !with_payload);
        found.map(|known| known.stored.clone())
    }

    /// A dispatch that was read, with its payload or without.
    pub(super) fn put_read(&self, tenant: i64, stored: &StoredDispatch, is_whole: bool) {
        let length = stored.body.payload.as_ref().map_or(0, |payload| payload.as_str().len());
        if length <= LONGEST {
            put(&self.dispatches, (tenant, stored.id().clone()), Known { stored: stored.clone(), is_whole });
        }
    }

    /// A dispatch that was written. One that is over is not asked for again.
    pub(super) fn put_written(&self, tenant: i64, stored: &StoredDispatch) {
        if stored.state.finished_at.is_some() {
            self.remove(tenant, stored.id());
        } else if stored.is_new() {
            self.put_read(tenant, stored, true);
        } else if let Some(known) = self.dispatches.borrow_mut().get_mut(&(tenant, stored.id().clone())) {
            // What was decided may have been decided without the payload.
            known.stored = StoredDispatch::new(Arc::clone(&known.stored.body), stored.state.clone());
        }
    }

    pub(super) fn remove(&self, tenant: i64, id: &DispatchId) {
        self.dispatches.borrow_mut().remove(&(tenant, id.clone()));
    }
}
