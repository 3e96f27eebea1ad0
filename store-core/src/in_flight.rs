//! Keeps track of calls that still run although their callers have stopped waiting for them. Stores use this, so that
//! a later call can wait until these calls have taken effect (PR-16).
//!
//! ```
//! use std::sync::Arc;
//!
//! use store_core::in_flight::{AbandonedCalls, start_call};
//!
//! # async fn call() {
//! let abandoned = Arc::new(AbandonedCalls::default());
//! // Each call first waits for the earlier calls whose callers have stopped waiting.
//! abandoned.wait(&None).await;
//! let (work_guard, caller_guard) = start_call(&abandoned, None);
//! // The code that does the work drops its guard when the work has taken effect.
//! drop(work_guard);
//! // The caller reports that it received the answer.
//! caller_guard.answered();
//! # }
//! ```

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use crate::{
    id::ThreadId,
    sync::{AtomicU8, Mutex, MutexGuard},
    time::Timestamp,
    waiters::Waiters,
};

// The states of a call. A call is finished when its work has ended, or when its caller has the answer.
const RUNNING: u8 = 0;
const FINISHED: u8 = 1;
const ABANDONED: u8 = 2;

/// The thread that a call is about, or `None` if it is about several threads.
pub type CallScope = Option<ThreadId>;

/// The calls of a tenant that still run although no caller waits for them.
#[derive(Debug, Default)]
pub struct AbandonedCalls {
    /// The number of these calls in each scope that has any.
    running_counts: Mutex<HashMap<CallScope, usize>>,
    waiting_calls: Waiters,
}

/// The guard that the work of a call holds. It is dropped when the work has taken effect, or when it is certain that it
/// will never take effect.
#[derive(Debug)]
pub struct WorkGuard {
    call: Arc<InFlightCall>,
}

/// The guard that the caller of a call holds. If it is dropped before the caller has the answer, the call is abandoned.
#[derive(Debug)]
pub struct CallerGuard {
    call: Arc<InFlightCall>,
}

#[derive(Debug)]
struct InFlightCall {
    state: AtomicU8,
    scope: CallScope,
    abandoned: Arc<AbandonedCalls>,
}

/// Starts a call. Returns the guard for its work and the guard for its caller.
#[must_use]
pub fn start_call(abandoned: &Arc<AbandonedCalls>, scope: CallScope) -> (WorkGuard, CallerGuard) {
    let call = Arc::new(InFlightCall { state: AtomicU8::new(RUNNING), scope, abandoned: Arc::clone(abandoned) });
    (WorkGuard { call: Arc::clone(&call) }, CallerGuard { call })
}

impl AbandonedCalls {
    /// Waits until a new call of this scope can start without overlapping an abandoned call.
    ///
    /// A call about one thread waits for the abandoned calls about that thread and for those about several threads. A
    /// call about several threads waits for all abandoned calls.
    pub async fn wait(&self, scope: &CallScope) {
        while self.blocks(scope) {
            let waiter = self.waiting_calls.register(Timestamp::MAX);
            if self.blocks(scope) {
                waiter.next_wake_up().await;
            }
        }
    }

    // A poisoned lock is fine: the code that runs under the lock cannot panic.
    fn running_counts(&self) -> MutexGuard<'_, HashMap<CallScope, usize>> {
        self.running_counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blocks(&self, scope: &CallScope) -> bool {
        let running_counts = self.running_counts();
        match scope {
            None => !running_counts.is_empty(),
            Some(_) => running_counts.contains_key(&None) || running_counts.contains_key(scope),
        }
    }

    fn add_abandoned(&self, scope: &CallScope) {
        *self.running_counts().entry(scope.clone()).or_default() += 1;
    }

    fn remove_abandoned(&self, scope: &CallScope) {
        let mut running_counts = self.running_counts();
        if let Some(count) = running_counts.get_mut(scope) {
            *count -= 1;
            if *count == 0 {
                running_counts.remove(scope);
            }
        }
        drop(running_counts);
        self.waiting_calls.wake(|_| true);
    }
}

impl CallerGuard {
    /// Records that the caller received the answer.
    pub fn answered(self) {
        self.call.state.store(FINISHED, Ordering::SeqCst);
    }
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        let InFlightCall { state, scope, abandoned } = &*self.call;
        if state.load(Ordering::SeqCst) == FINISHED {
            return;
        }
        // The call is counted before its state becomes `ABANDONED`. Once it has this state, the work may end at any
        // moment and remove the call from the count.
        abandoned.add_abandoned(scope);
        if state.compare_exchange(RUNNING, ABANDONED, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            abandoned.remove_abandoned(scope);
        }
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        let InFlightCall { state, scope, abandoned } = &*self.call;
        if state.swap(FINISHED, Ordering::SeqCst) == ABANDONED {
            abandoned.remove_abandoned(scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        sync::Arc,
        task::{Context, Waker},
    };

    use super::{AbandonedCalls, start_call};
    use crate::ThreadId;

    #[test]
    fn only_abandoned_calls_are_waited_for() {
        let abandoned = Arc::new(AbandonedCalls::default());
        let scope = |text: &str| ThreadId::new(text).ok();
        let (work_guard, caller_guard) = start_call(&abandoned, scope("a"));
        caller_guard.answered();
        drop(work_guard);
        let (work_guard, caller_guard) = start_call(&abandoned, scope("a"));
        drop(work_guard);
        drop(caller_guard);
        assert!(!abandoned.blocks(&None));
        let (work_guard, caller_guard) = start_call(&abandoned, scope("a"));
        drop(caller_guard);
        assert!(abandoned.blocks(&None) && abandoned.blocks(&scope("a")) && !abandoned.blocks(&scope("b")));
        drop(work_guard);
        assert!(!abandoned.blocks(&None));
        let (work_guard, caller_guard) = start_call(&abandoned, None);
        drop(caller_guard);
        assert!(abandoned.blocks(&scope("b")));
        drop(work_guard);
        assert!(!abandoned.blocks(&scope("b")));
    }

    #[test]
    fn an_answered_call_is_not_abandoned() {
        let abandoned = Arc::new(AbandonedCalls::default());
        let (work_guard, caller_guard) = start_call(&abandoned, None);
        caller_guard.answered();
        assert!(!abandoned.blocks(&None));
        drop(work_guard);
    }

    #[test]
    fn a_later_call_waits_until_an_abandoned_call_ends() {
        let abandoned = Arc::new(AbandonedCalls::default());
        let (work_guard, caller_guard) = start_call(&abandoned, None);
        drop(caller_guard);
        let mut wait = pin!(abandoned.wait(&None));
        let mut context = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut context).is_pending());
        drop(work_guard);
        assert!(wait.as_mut().poll(&mut context).is_ready());
    }
}
