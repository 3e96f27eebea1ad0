//! What was read and written lately: who claims a dispatch settles it soon, and what is known need not be read again.

use std::{cell::RefCell, collections::HashMap, hash::Hash};

use store_core::{
    DispatchId, ThreadId,
    mailbox::{DispatchState, StoredDispatch},
};

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
    /// What was read last, if it is not kept otherwise: a decision asks for it more than once.
    last: RefCell<Option<((i64, DispatchId), Known)>>,
}

#[derive(Debug)]
struct Known {
    stored: StoredDispatch,
    /// Whether its payload is known, too.
    is_whole: bool,
}

impl Known {
    fn with(&self, payload: bool) -> Option<StoredDispatch> {
        (self.is_whole || !payload).then(|| self.stored.clone())
    }
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
        self.forget_last();
    }

    /// Forgets what is of any size, at the end of a call.
    pub(crate) fn forget_last(&self) {
        *self.last.borrow_mut() = None;
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
        let key = (tenant, id.clone());
        match &*self.last.borrow() {
            Some((last, known)) if *last == key => known.with(with_payload),
            _ => self.dispatches.borrow().get(&key)?.with(with_payload),
        }
    }

    /// A dispatch that was read, with its payload or without. One that is over is hardly asked for again.
    pub(super) fn put_read(&self, tenant: i64, stored: &StoredDispatch, is_whole: bool) {
        let (key, known) = ((tenant, stored.id().clone()), Known { stored: stored.clone(), is_whole });
        let length = stored.body.payload.as_ref().map_or(0, |payload| payload.as_str().len());
        if length > LONGEST || stored.state.finished_at.is_some() {
            self.dispatches.borrow_mut().remove(&key);
            *self.last.borrow_mut() = Some((key, known));
        } else {
            self.forget_last();
            put(&self.dispatches, key, known);
        }
    }

    /// A dispatch that is written. Gives its state before, if that is known.
    pub(super) fn put_written(&self, tenant: i64, stored: &StoredDispatch) -> Option<DispatchState> {
        self.forget_last();
        if stored.state.finished_at.is_some() {
            return self.remove(tenant, stored.id());
        }
        if stored.is_new() {
            self.put_read(tenant, stored, true);
            return None;
        }
        let mut kept = self.dispatches.borrow_mut();
        // What was decided may have been decided without the payload.
        let known = kept.get_mut(&(tenant, stored.id().clone()))?;
        Some(std::mem::replace(&mut known.stored.state, stored.state.clone()))
    }

    /// Forgets a dispatch, and gives what was known of its state.
    pub(super) fn remove(&self, tenant: i64, id: &DispatchId) -> Option<DispatchState> {
        self.forget_last();
        let known = self.dispatches.borrow_mut().remove(&(tenant, id.clone()));
        known.map(|known| known.stored.state)
    }
}
