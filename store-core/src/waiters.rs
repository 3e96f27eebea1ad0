//! A list of waiting tasks. Each task is registered with a time. A caller that wakes tasks gives a condition on that
//! time, for example that a moved clock has passed it, or that new work is available before it.

use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

use crate::{
    sync::{Mutex, MutexGuard},
    time::Timestamp,
};

/// The list of waiting tasks, each with the time that it waits for.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<WaiterList>);

#[derive(Default)]
struct WaiterList {
    last: u64,
    waiters: BTreeMap<u64, WaiterState>,
}

struct WaiterState {
    time: Timestamp,
    is_woken: bool,
    waker: Option<Waker>,
}

impl Waiters {
    // A poisoned lock is ignored: the code that runs under the lock cannot panic, so the data is consistent.
    fn list(&self) -> MutexGuard<'_, WaiterList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task to the list. From now on no wake-up is lost, even if it comes before the task begins to wait.
    pub(crate) fn register(&self, time: Timestamp) -> Waiter<'_> {
        let mut list = self.list();
        list.last += 1;
        let number = list.last;
        list.waiters.insert(number, WaiterState { time, is_woken: false, waker: None });
        Waiter { on: self, number }
    }

    /// Wakes the tasks for whose time `is_meant` returns true.
    pub(crate) fn wake(&self, is_meant: impl Fn(Timestamp) -> bool) {
        let mut wakers = Vec::new();
        for entry in self.list().waiters.values_mut().filter(|entry| is_meant(entry.time)) {
            entry.is_woken = true;
            wakers.extend(entry.waker.take());
        }
        // By now the lock is released, because a waker may run any code.
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waiters").field(&self.list().waiters.len()).finish()
    }
}

/// A task on the list. Dropping it removes the task from the list.
pub(crate) struct Waiter<'a> {
    on: &'a Waiters,
    number: u64,
}

impl Waiter<'_> {
    /// Replaces the time that the task waits for.
    pub(crate) fn set_time(&self, time: Timestamp) {
        if let Some(entry) = self.on.list().waiters.get_mut(&self.number) {
            entry.time = time;
        }
    }

    /// Waits for the next wake-up. Returns at once if the task was woken since this method last returned.
    pub(crate) async fn next_wake_up(&self) {
        poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut list = self.on.list();
        let Some(entry) = list.waiters.get_mut(&self.number) else { return Poll::Ready(()) };
        if std::mem::take(&mut entry.is_woken) {
            return Poll::Ready(());
        }
        entry.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.on.list().waiters.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::Waiters;
    use crate::time::Timestamp;

    #[test]
    fn a_dropped_waiter_leaves_the_list() {
        let waiting = Waiters::default();
        let (first, second) = (waiting.register(Timestamp::MIN), waiting.register(Timestamp::MIN));
        drop(first);
        assert_eq!(waiting.list().waiters.len(), 1);
        drop(second);
        assert!(waiting.list().waiters.is_empty());
    }
}
