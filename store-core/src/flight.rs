//! For stores: calls that still run after their callers have stopped waiting. A later call waits until they have taken
//! effect (PR-16).
//!
//! ```
//! use std::sync::Arc;
//!
//! use store_core::flight::{Orphans, start};
//!
//! # async fn call() {
//! let orphans = Arc::new(Orphans::default());
//! // Each call waits for the earlier calls that have no caller any more.
//! orphans.wait(&None).await;
//! let (work, caller) = start(&orphans, None);
//! // The code that does the work drops its end when the work has taken effect,
//! drop(work);
//! // and the caller reports that it received the answer.
//! caller.answered();
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
    waiting::Waiting,
};

const FLYING: u8 = 0;
const LANDED: u8 = 1;
const ORPHANED: u8 = 2;

/// The thread that a call is about, or `None` if it is about several threads.
pub type About = Option<ThreadId>;

/// The calls of a tenant that still run although no caller waits for them.
#[derive(Debug, Default)]
pub struct Orphans {
    running: Mutex<HashMap<About, usize>>,
    landed: Waiting,
}

/// The end of a call that the work holds. It is dropped when the work has taken effect, or when it never will.
#[derive(Debug)]
pub struct Work(Arc<Flight>);

/// The end of a call that the caller holds. If it is dropped before the answer came, the work becomes an orphan.
#[derive(Debug)]
pub struct Caller(Arc<Flight>);

#[derive(Debug)]
struct Flight {
    state: AtomicU8,
    about: About,
    orphans: Arc<Orphans>,
}

/// Starts a call and returns its two ends.
#[must_use]
pub fn start(orphans: &Arc<Orphans>, about: About) -> (Work, Caller) {
    let flight = Arc::new(Flight { state: AtomicU8::new(FLYING), about, orphans: Arc::clone(orphans) });
    (Work(Arc::clone(&flight)), Caller(flight))
}

impl Orphans {
    /// Waits until no orphan is left that must take effect before a call about `about`.
    pub async fn wait(&self, about: &About) {
        while self.concern(about) {
            let place = self.landed.join(Timestamp::MAX);
            if self.concern(about) {
                place.woken().await;
            }
        }
    }

    // A poisoned lock is fine: the code that runs under the lock cannot panic.
    fn running(&self) -> MutexGuard<'_, HashMap<About, usize>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn concern(&self, about: &About) -> bool {
        let running = self.running();
        match about {
            None => !running.is_empty(),
            Some(_) => running.contains_key(&None) || running.contains_key(about),
        }
    }

    fn enter(&self, about: &About) {
        *self.running().entry(about.clone()).or_default() += 1;
    }

    fn leave(&self, about: &About) {
        let mut running = self.running();
        if let Some(count) = running.get_mut(about) {
            *count -= 1;
            if *count == 0 {
                running.remove(about);
            }
        }
        drop(running);
        self.landed.wake(|_| true);
    }
}

impl Caller {
    /// Records that the answer came.
    pub fn answered(self) {
        self.0.state.store(LANDED, Ordering::SeqCst);
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let Flight { state, about, orphans } = &*self.0;
        if state.load(Ordering::SeqCst) == LANDED {
            return;
        }
        // The orphan is counted first, because the work may end at any moment.
        orphans.enter(about);
        if state.compare_exchange(FLYING, ORPHANED, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            orphans.leave(about);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let Flight { state, about, orphans } = &*self.0;
        if state.swap(LANDED, Ordering::SeqCst) == ORPHANED {
            orphans.leave(about);
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

    use super::{Orphans, start};
    use crate::ThreadId;

    #[test]
    fn only_abandoned_calls_are_waited_for() {
        let orphans = Arc::new(Orphans::default());
        let about = |text: &str| ThreadId::new(text).ok();
        let (work, caller) = start(&orphans, about("a"));
        caller.answered();
        drop(work);
        let (work, caller) = start(&orphans, about("a"));
        drop(work);
        drop(caller);
        assert!(!orphans.concern(&None));
        let (work, caller) = start(&orphans, about("a"));
        drop(caller);
        assert!(orphans.concern(&None) && orphans.concern(&about("a")) && !orphans.concern(&about("b")));
        drop(work);
        assert!(!orphans.concern(&None));
        let (work, caller) = start(&orphans, None);
        drop(caller);
        assert!(orphans.concern(&about("b")));
        drop(work);
        assert!(!orphans.concern(&about("b")));
    }

    #[test]
    fn an_answered_call_is_not_abandoned() {
        let orphans = Arc::new(Orphans::default());
        let (work, caller) = start(&orphans, None);
        caller.answered();
        assert!(!orphans.concern(&None));
        drop(work);
    }

    #[test]
    fn a_later_call_waits_until_an_abandoned_call_ends() {
        let orphans = Arc::new(Orphans::default());
        let (work, caller) = start(&orphans, None);
        drop(caller);
        let mut wait = pin!(orphans.wait(&None));
        let mut context = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut context).is_pending());
        drop(work);
        assert!(wait.as_mut().poll(&mut context).is_ready());
    }
}
