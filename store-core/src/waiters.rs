//! A list of waiting tasks, each with the time that it waits for.
//!
//! The caller that wakes tasks passes a condition, and every task whose time meets the condition is woken. For example,
//! a test clock that is moved wakes the tasks whose time has come. Another example is a mailbox that gets work: a
//! worker that waits until after the time at which the work becomes claimable is woken.

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
    last_number: u64,
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
        list.last_number += 1;
        let number = list.last_number;
        list.waiters.insert(number, WaiterState { time, is_woken: false, waker: None });
        Waiter { waiters: self, number }
    }

    /// Wakes the tasks for whose time `should_wake` returns true.
    pub(crate) fn wake(&self, should_wake: impl Fn(Timestamp) -> bool) {
        let mut wakers = Vec::new();
        for waiter_state in self.list().waiters.values_mut().filter(|waiter_state| should_wake(waiter_state.time)) {
            waiter_state.is_woken = true;
            wakers.extend(waiter_state.waker.take());
        }
        // The lock is released before the wakers run, because a waker may run any code.
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
    waiters: &'a Waiters,
    number: u64,
}

impl Waiter<'_> {
    /// Replaces the time that the task waits for.
    pub(crate) fn set_time(&self, time: Timestamp) {
        if let Some(waiter_state) = self.waiters.list().waiters.get_mut(&self.number) {
            waiter_state.time = time;
        }
    }

    /// Waits for the next wake-up. Returns at once if the task was woken since this method last returned.
    pub(crate) async fn next_wake_up(&self) {
        poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut list = self.waiters.list();
        let Some(waiter_state) = list.waiters.get_mut(&self.number) else { return Poll::Ready(()) };
        if std::mem::take(&mut waiter_state.is_woken) {
            return Poll::Ready(());
        }
        waiter_state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.waiters.list().waiters.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::Waiters;
    use crate::time::Timestamp;

    #[test]
    fn a_dropped_waiter_leaves_the_list() {
        let waiters = Waiters::default();
        let (first, second) = (waiters.register(Timestamp::MIN), waiters.register(Timestamp::MIN));
        drop(first);
        assert_eq!(waiters.list().waiters.len(), 1);
        drop(second);
        assert!(waiters.list().waiters.is_empty());
    }
}
