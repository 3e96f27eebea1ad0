//! Queues by key: all that waits for one key is taken together, by one thread at a time.

use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use super::{Lost, Pending, Pool};

/// A request that waits, and who waits for its answer.
#[derive(Debug)]
pub(crate) struct Request<Q, A> {
    /// What is asked for.
    pub(crate) body: Q,
    reply: oneshot::Sender<A>,
}

impl<Q, A> Request<Q, A> {
    /// The request and what answers it, apart.
    pub(crate) fn split(self) -> (Q, impl FnOnce(A) + Send)
    where
        A: Send,
    {
        let Self { body, reply } = self;
        (body, move |answer| drop(reply.send(answer)))
    }
}

/// Serial queues, one for each key that something waits for.
///
/// Requests of one key are handled in the order in which they came, those that wait together in one call: this is the
/// group commit. Requests of different keys are handled at the same time. Clones are the same queues.
pub(crate) struct Queues<K, Q, A>(Arc<Inner<K, Q, A>>);

type Handler<K, Q, A> = dyn Fn(&K, Vec<Request<Q, A>>) + Send + Sync;

struct Inner<K, Q, A> {
    pool: Pool,
    /// A key is here while it has a thread or waits for one.
    waiting: Mutex<HashMap<K, Vec<Request<Q, A>>>>,
    limit: usize,
    handle: Box<Handler<K, Q, A>>,
}

impl<K, Q, A> Clone for Queues<K, Q, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, Q, A> fmt::Debug for Queues<K, Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues").field("pool", &self.0.pool).field("limit", &self.0.limit).finish_non_exhaustive()
    }
}

impl<K, Q, A> Queues<K, Q, A>
where
    K: Clone + Eq + Hash + Send + 'static,
    Q: Send + 'static,
    A: Send + 'static,
{
    /// Queues whose requests `handle` answers, at most `limit` in one call.
    ///
    /// A request that it drops, and all that it holds when it panics, end with [`Lost::Panicked`] for their callers;
    /// those that came later are handled. State that a panic may have left half changed is for `handle` to notice.
    pub(crate) fn new(
        pool: Pool,
        limit: usize,
        handle: impl Fn(&K, Vec<Request<Q, A>>) + Send + Sync + 'static,
    ) -> Self {
        let (waiting, limit) = (Mutex::default(), limit.max(1));
        Self(Arc::new(Inner { pool, waiting, limit, handle: Box::new(handle) }))
    }

    /// Puts a request into the queue of its key. It has its place when this returns, whether or not anybody polls.
    pub(crate) fn push(&self, key: K, body: Q) -> Pending<A> {
        let (reply, pending) = Pending::accepted();
        let request = Request { body, reply };
        let mut waiting = self.0.waiting();
        // Asked under the lock, so that nothing is added to a queue that was drained for the last time.
        if !self.0.pool.is_open() {
            return Pending::refused(Lost::Closed);
        }
        if let Some(queue) = waiting.get_mut(&key) {
            queue.push(request);
            return pending;
        }
        if let Err(lost) = self.schedule(key.clone(), false) {
            return Pending::refused(lost);
        }
        // The thread that was just asked for takes the lock first, and finds this.
        waiting.insert(key, vec![request]);
        pending
    }

    /// How many keys have a thread or wait for one.
    #[cfg(test)]
    pub(crate) fn busy_keys(&self) -> usize {
        self.0.waiting().len()
    }

    fn schedule(&self, key: K, accepted_before: bool) -> Result<(), Lost> {
        let queues = self.clone();
        self.0.pool.submit(Box::new(move || queues.drain(key)), accepted_before)
    }

    /// Handles what waits for a key, then goes to the end of the line if more has come.
    fn drain(&self, key: K) {
        let Some(requests) = self.0.take(&key) else { return };
        let _ = catch_unwind(AssertUnwindSafe(|| (self.0.handle)(&key, requests)));
        let mut waiting = self.0.waiting();
        if waiting.get(&key).is_none_or(Vec::is_empty) {
            waiting.remove(&key);
            return;
        }
        drop(waiting);
        // This thread exists, so one is there to do it.
        let _ = self.schedule(key, true);
    }
}

impl<K: Eq + Hash, Q, A> Inner<K, Q, A> {
    fn waiting(&self) -> MutexGuard<'_, HashMap<K, Vec<Request<Q, A>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first requests of a key. The key stays, and so says that a thread works for it.
    fn take(&self, key: &K) -> Option<Vec<Request<Q, A>>> {
        let mut waiting = self.waiting();
        let queue = waiting.get_mut(key)?;
        let rest = queue.split_off(self.limit.min(queue.len()));
        Some(std::mem::replace(queue, rest))
    }
}
