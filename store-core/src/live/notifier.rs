//! Wakes workers that wait for work, within one process.

use std::{future::Future, pin::pin, time::Duration};

use futures_util::future::{Either, select};

use super::WaitResult;
use crate::{
    error::Result,
    time::{Clock, Timestamp, sleep_in_real_time},
    waiters::{Waiter, Waiters},
};

/// Wakes workers that wait for something to claim, for a backend that only one process opens.
///
/// Each tenant has one. For each plan that was applied, the backend calls [`notify`](Self::notify) with
/// [`MailboxPlan::claimable_from`](crate::mailbox::MailboxPlan::claimable_from). It also calls `notify` when the tenant
/// is closed. A waiting worker looks again by itself at the next time at which something is due, so no background task
/// is needed.
#[derive(Debug, Default)]
pub struct Notifier(Waiters);

impl Notifier {
    /// Reports that something may be claimable from the time `from` on. If a waiting worker looks again by itself at
    /// `from` or earlier, it is not woken.
    pub fn notify(&self, from: Timestamp) {
        self.0.wake(|looks_at| from < looks_at);
    }

    /// Waits until there is something to claim, or until `timeout` has passed (LV-8, LV-10).
    ///
    /// `next_claim_time` returns the earliest time at which a claim can find something. That is a past time if there is
    /// something to claim now. Otherwise it is the next time at which a delay or a lease ends, or none if only a change
    /// can make something claimable.
    ///
    /// # Errors
    /// Any error of `next_claim_time`, such as `Closed`.
    pub async fn wait<L, F>(&self, clock: &dyn Clock, timeout: Duration, mut next_claim_time: L) -> Result<WaitResult>
    where
        L: FnMut() -> F + Send,
        F: Future<Output = Result<Option<Timestamp>>> + Send,
    {
        let mut timed_out = pin!(sleep_in_real_time(timeout));
        let waiter = self.0.register(Timestamp::MAX);
        loop {
            // From here on every notification must wake this worker, because it may be about something
            // that `next_claim_time` misses.
            waiter.set_time(Timestamp::MAX);
            let due_time = next_claim_time().await?;
            if due_time.is_some_and(|due_time| due_time <= clock.now()) {
                return Ok(WaitResult::Woken);
            }
            waiter.set_time(due_time.unwrap_or(Timestamp::MAX));
            if let Either::Left(_) = select(timed_out.as_mut(), pin!(notified_or_due(&waiter, clock, due_time))).await {
                return Ok(WaitResult::TimedOut);
            }
        }
    }
}

async fn notified_or_due(waiter: &Waiter<'_>, clock: &dyn Clock, due_time: Option<Timestamp>) {
    match due_time {
        Some(due_time) => drop(select(pin!(waiter.next_wake_up()), clock.sleep_until(due_time)).await),
        None => waiter.next_wake_up().await,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use tokio::task::{JoinHandle, yield_now};

    use super::{Notifier, WaitResult};
    use crate::{Error, ErrorKind, ManualClock, Result, Timestamp};

    const LONG_TIMEOUT: Duration = Duration::from_hours(1);

    fn time(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    /// A notifier at time 100, and what a waiting worker finds: something that is claimable from the time `due` on.
    struct NotifierTest {
        notifier: Arc<Notifier>,
        clock: ManualClock,
        due: Arc<std::sync::Mutex<Result<Option<Timestamp>, ErrorKind>>>,
        look_count: Arc<AtomicUsize>,
    }

    impl NotifierTest {
        fn new(due: Option<u64>) -> Self {
            let clock = ManualClock::new(time(100));
            let due = Arc::new(std::sync::Mutex::new(Ok(due.map(time))));
            Self { notifier: Arc::default(), clock, due, look_count: Arc::default() }
        }

        fn set_due(&self, due: u64) {
            *self.due.lock().unwrap() = Ok(Some(time(due)));
        }

        async fn start_wait(&self, timeout: Duration) -> JoinHandle<Result<WaitResult>> {
            let (notifier, clock) = (Arc::clone(&self.notifier), self.clock.clone());
            let (due, look_count) = (Arc::clone(&self.due), Arc::clone(&self.look_count));
            let next_claim_time = move || {
                look_count.fetch_add(1, Ordering::SeqCst);
                std::future::ready(due.lock().unwrap().as_ref().map_err(|_| Error::closed()).copied())
            };
            let task = tokio::spawn(async move { notifier.wait(&clock, timeout, next_claim_time).await });
            let_tasks_run().await;
            task
        }

        fn look_count(&self) -> usize {
            self.look_count.load(Ordering::SeqCst)
        }
    }

    async fn let_tasks_run() {
        for _ in 0..10 {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_wait_ends_at_once_if_there_is_work() {
        let test = NotifierTest::new(Some(100));
        assert_eq!(test.start_wait(LONG_TIMEOUT).await.await.unwrap().unwrap(), WaitResult::Woken);
        assert_eq!(test.look_count(), 1);
    }

    #[tokio::test]
    async fn the_timeout_ends_a_wait() {
        let test = NotifierTest::new(Some(101));
        for timeout in [0, 5] {
            let waited = test.start_wait(Duration::from_millis(timeout)).await.await.unwrap().unwrap();
            assert_eq!(waited, WaitResult::TimedOut);
        }
    }

    #[tokio::test]
    async fn a_notification_ends_a_wait_only_if_there_is_work() {
        let test = NotifierTest::new(None);
        let task = test.start_wait(LONG_TIMEOUT).await;
        test.notifier.notify(Timestamp::MIN);
        let_tasks_run().await;
        assert_eq!((task.is_finished(), test.look_count()), (false, 2));
        test.set_due(100);
        test.notifier.notify(Timestamp::MIN);
        assert_eq!(task.await.unwrap().unwrap(), WaitResult::Woken);
    }

    #[tokio::test]
    async fn a_wait_ends_when_a_dispatch_becomes_due() {
        let test = NotifierTest::new(Some(200));
        let task = test.start_wait(LONG_TIMEOUT).await;
        test.clock.set(time(199));
        let_tasks_run().await;
        assert!(!task.is_finished());
        test.clock.set(time(200));
        assert_eq!(task.await.unwrap().unwrap(), WaitResult::Woken);
    }

    #[tokio::test]
    async fn a_worker_that_looks_again_in_time_is_not_woken() {
        let test = NotifierTest::new(Some(200));
        let task = test.start_wait(LONG_TIMEOUT).await;
        for from in [200, 300] {
            test.notifier.notify(time(from));
        }
        let_tasks_run().await;
        assert_eq!(test.look_count(), 1);
        test.set_due(150);
        test.notifier.notify(time(150));
        let_tasks_run().await;
        assert_eq!((task.is_finished(), test.look_count()), (false, 2));
        test.clock.set(time(150));
        assert_eq!(task.await.unwrap().unwrap(), WaitResult::Woken);
    }

    #[tokio::test]
    async fn an_error_ends_a_wait() {
        let test = NotifierTest::new(None);
        let task = test.start_wait(LONG_TIMEOUT).await;
        *test.due.lock().unwrap() = Err(ErrorKind::Closed);
        test.notifier.notify(Timestamp::MIN);
        assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }
}
