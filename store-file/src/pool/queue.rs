//! A queue that collects what waits: all of it is taken together, by one thread at a time.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard},
    thread::{self, Thread},
};

use tokio::sync::oneshot;

use super::{Lost, Pending, Pool};
use crate::mutex::guard;

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

/// A serial queue. Requests are handled in the order in which they came, those that wait together in one call: this is
/// the group commit. Clones are the same queue.
pub(crate) struct Queue<Q, A>(Arc<Inner<Q, A>>);

type Handler<Q, A> = dyn Fn(Vec<Request<Q, A>>, &mut Turn<'_, Q, A>) + Send + Sync;

struct Inner<Q, A> {
    pool: Pool,
    state: Mutex<State<Q, A>>,
    limit: usize,
    handle: Box<Handler<Q, A>>,
}

struct State<Q, A> {
    waiting: VecDeque<Request<Q, A>>,
    /// Whether a thread has the turn, or is about to take it.
    is_taken: bool,
    /// The thread that has the turn, if it waits for more requests, or for something that [`Turn::wake_next`] tells.
    waits: Option<Thread>,
}

/// The right to take what waits: one thread has it at a time.
pub(crate) struct Turn<'a, Q, A> {
    queue: &'a Queue<Q, A>,
    is_over: bool,
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
        handle: impl Fn(Vec<Request<Q, A>>, &mut Turn<'_, Q, A>) + Send + Sync + 'static,
    ) -> Self {
        let state = Mutex::new(State { waiting: VecDeque::new(), is_taken: false, waits: None });
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
            // The thread that was just asked for takes the lock first, and finds the request.
            state.is_taken = true;
        }
        state.waiting.push_back(Request { body, reply });
        state.waits.take().inspect(Thread::unpark);
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

    /// Handles what waits, and goes to the end of the pool's line if more has come.
    fn take_turn(&self) {
        let requests = self.state().take(self.0.limit);
        let mut turn = Turn { queue: self, is_over: false };
        let _ = catch_unwind(AssertUnwindSafe(|| (self.0.handle)(requests, &mut turn)));
        if turn.is_over {
            return;
        }
        let mut state = self.state();
        state.is_taken = !state.waiting.is_empty();
        if state.is_taken {
            // This thread exists, so one is there to do it.
            let _ = self.schedule(true);
        }
    }
}

impl<Q, A> State<Q, A> {
    fn take(&mut self, limit: usize) -> Vec<Request<Q, A>> {
        let count = limit.min(self.waiting.len());
        self.waiting.drain(..count).collect()
    }
}

impl<Q, A> Turn<'_, Q, A>
where
    Q: Send + 'static,
    A: Send + 'static,
{
    /// Waits until more requests have come, and takes them. Nothing comes back as soon as `is_free`, of which
    /// [`Turn::wake_next`] has to tell, and if this thread has passed the turn on.
    pub(crate) fn wait_for_more(&self, is_free: impl Fn() -> bool) -> Vec<Request<Q, A>> {
        while !self.is_over && !is_free() {
            let mut state = self.queue.state();
            if !state.waiting.is_empty() {
                return state.take(self.queue.0.limit);
            }
            state.waits = Some(thread::current());
            drop(state);
            // It may have become free before that was noted.
            if !is_free() {
                thread::park();
            }
            self.queue.state().waits = None;
        }
        Vec::new()
    }

    /// Lets the thread that has the turn look again whether it has to wait.
    pub(crate) fn wake_next(&self) {
        self.queue.state().waits.take().inspect(Thread::unpark);
    }

    /// Lets another thread take what waits, beginning with requests that this thread took and did not handle. If nothing
    /// waits, this thread keeps the turn.
    pub(crate) fn pass_on(&mut self, left: &mut VecDeque<Request<Q, A>>) {
        if self.is_over {
            return;
        }
        let mut state = self.queue.state();
        while let Some(request) = left.pop_back() {
            state.waiting.push_front(request);
        }
        self.is_over = !state.waiting.is_empty();
        if self.is_over {
            let _ = self.queue.schedule(true);
        }
    }
}
