//! A queue that collects what waits: one thread at a time has the turn to take it, all of it together.

use std::{
    cell::Cell,
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard},
    thread::{self, Thread},
};

use tokio::sync::oneshot;

use super::{Lost, Pending, Pool};
use crate::mutex::guard;

/// A request that waits, and where its answer goes.
#[derive(Debug)]
pub(crate) struct Request<Q, A> {
    /// What is asked for.
    pub(crate) body: Q,
    /// Its place in the order of all requests.
    number: u64,
    reply: oneshot::Sender<A>,
}

impl<Q, A> Request<Q, A> {
    /// The request and what answers it, apart.
    pub(crate) fn split(self) -> (Q, impl FnOnce(A) + Send)
    where
        A: Send,
    {
        let Self { body, reply, .. } = self;
        (body, move |answer| drop(reply.send(answer)))
    }
}

/// A queue of requests. They are taken in the order in which they came, those that wait together in one call: this is
/// the group commit. Clones are the same queue.
pub(crate) struct Queue<Q, A>(Arc<Inner<Q, A>>);

type Handler<Q, A> = dyn Fn(Vec<Request<Q, A>>, &Turn<'_, Q, A>) + Send + Sync;

struct Inner<Q, A> {
    pool: Pool,
    state: Mutex<State<Q, A>>,
    limit: usize,
    handle: Box<Handler<Q, A>>,
}

struct State<Q, A> {
    /// In the order of their numbers.
    waiting: VecDeque<Request<Q, A>>,
    /// The number of the next request.
    next: u64,
    /// Requests with numbers below this one are taken one by one.
    single_below: u64,
    /// Whether a thread has the turn, or is about to take it.
    is_taken: bool,
    /// The thread that has the turn, while it waits in [`Turn::wait_for_more`].
    parked: Option<Thread>,
}

/// The right to take what waits. One thread has it at a time.
pub(crate) struct Turn<'a, Q, A> {
    queue: &'a Queue<Q, A>,
    /// Whether this thread takes only one request.
    is_single: bool,
    is_over: Cell<bool>,
}

impl<Q, A> Clone for Queue<Q, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Q, A> fmt::Debug for Queue<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("pool", &self.0.pool).field("limit", &self.0.limit).finish_non_exhaustive()
    }
}

impl<Q, A> Queue<Q, A>
where
    Q: Send + 'static,
    A: Send + 'static,
{
    /// A queue whose requests `handle` answers, at most `limit` in one call.
    ///
    /// A request that it drops, and all that it holds when it panics, end with [`Lost::Panicked`] for their callers;
    /// those that came later are handled. State that a panic may have left half changed is for `handle` to notice.
    pub(crate) fn new(
        pool: Pool,
        limit: usize,
        handle: impl Fn(Vec<Request<Q, A>>, &Turn<'_, Q, A>) + Send + Sync + 'static,
    ) -> Self {
        let waiting = VecDeque::new();
        let state = Mutex::new(State { waiting, next: 0, single_below: 0, is_taken: false, parked: None });
        Self(Arc::new(Inner { pool, state, limit: limit.max(1), handle: Box::new(handle) }))
    }

    /// Adds a request. It has its place when this returns, whether or not the answer is polled.
    pub(crate) fn push(&self, body: Q) -> Pending<A> {
        let (reply, pending) = Pending::accepted();
        let mut state = self.state();
        // Asked under the lock, so that nothing is added to a queue that was emptied for the last time.
        if !self.0.pool.is_open() {
            return Pending::refused(Lost::Closed);
        }
        if !state.is_taken {
            if let Err(lost) = self.schedule(false) {
                return Pending::refused(lost);
            }
            // The new thread needs the lock of the state before it looks, so it finds the request.
            state.is_taken = true;
        }
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(Request { body, number, reply });
        state.unpark();
        pending
    }

    /// Whether a thread works for the queue.
    #[cfg(test)]
    pub(crate) fn is_busy(&self) -> bool {
        self.state().is_taken
    }

    fn state(&self) -> MutexGuard<'_, State<Q, A>> {
        guard(&self.0.state)
    }

    fn schedule(&self, accepted_before: bool) -> Result<(), Lost> {
        let queue = self.clone();
        self.0.pool.submit(Box::new(move || queue.take_turn()), accepted_before)
    }

    fn take_turn(&self) {
        let (requests, is_single) = self.state().take(self.0.limit);
        let turn = Turn { queue: self, is_single, is_over: Cell::new(false) };
        let _ = catch_unwind(AssertUnwindSafe(|| (self.0.handle)(requests, &turn)));
        turn.pass_on();
    }
}

impl<Q, A> State<Q, A> {
    /// The first requests, and whether it is one that has to be alone.
    fn take(&mut self, limit: usize) -> (Vec<Request<Q, A>>, bool) {
        let is_single = self.waiting.front().is_some_and(|first| first.number < self.single_below);
        let count = if is_single { 1 } else { limit.min(self.waiting.len()) };
        (self.waiting.drain(..count).collect(), is_single)
    }

    fn unpark(&mut self) {
        if let Some(thread) = self.parked.take() {
            thread.unpark();
        }
    }
}

impl<Q, A> Turn<'_, Q, A>
where
    Q: Send + 'static,
    A: Send + 'static,
{
    /// Waits until more requests have come, and takes them. Returns nothing if `is_free`, if the request of this turn
    /// has to be alone, and if the turn is over. [`Turn::wake_next`] has to be called when `is_free` becomes true.
    pub(crate) fn wait_for_more(&self, is_free: impl Fn() -> bool) -> Vec<Request<Q, A>> {
        while !self.is_single && !self.is_over.get() && !is_free() {
            let mut state = self.queue.state();
            if !state.waiting.is_empty() {
                return state.take(self.queue.0.limit).0;
            }
            state.parked = Some(thread::current());
            drop(state);
            // It may have become free before the thread was noted.
            if !is_free() {
                thread::park();
            }
            self.queue.state().parked = None;
        }
        Vec::new()
    }

    /// Lets the thread that has the turn look again whether it has to wait.
    pub(crate) fn wake_next(&self) {
        self.queue.state().unpark();
    }

    /// Ends the turn: another thread takes it as soon as a request waits. The writer calls this before it commits.
    /// Otherwise requests that come during the commit would wait for its end.
    pub(crate) fn pass_on(&self) {
        if self.is_over.replace(true) {
            return;
        }
        let mut state = self.queue.state();
        state.is_taken = !state.waiting.is_empty();
        if state.is_taken {
            // This thread exists, so the pool has one.
            let _ = self.queue.schedule(true);
        }
    }

    /// Takes a turn that is over again, unless another thread has it: this one is awake, and looks at the queue soon.
    pub(crate) fn take_back(&self) {
        let mut state = self.queue.state();
        if self.is_over.get() && !state.is_taken {
            state.is_taken = true;
            self.is_over.set(false);
        }
    }

    /// Puts requests back that are not answered. They keep their places in the order.
    pub(crate) fn put_back(&self, requests: impl IntoIterator<Item = Request<Q, A>>) {
        let mut state = self.queue.state();
        state.waiting.extend(requests);
        state.waiting.make_contiguous().sort_unstable_by_key(|request| request.number);
        if self.is_over.get() && !state.is_taken && !state.waiting.is_empty() {
            state.is_taken = true;
            let _ = self.queue.schedule(true);
        }
    }

    /// Puts requests back that are not answered, and lets them be taken one by one.
    pub(crate) fn put_back_singly(&self, requests: Vec<Request<Q, A>>) {
        if let Some(last) = requests.iter().map(|request| request.number).max() {
            let mut state = self.queue.state();
            state.single_below = state.single_below.max(last + 1);
        }
        self.put_back(requests);
    }
}
