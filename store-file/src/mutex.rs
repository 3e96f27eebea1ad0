//! Mutexes whose holders may have panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns the guard of a lock, even if a holder of the lock panicked. The caller checks the guarded data.
pub(crate) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
