//! Locks. Only this file names the lock types, so that `--cfg shuttle` can replace them with those of a schedule
//! checker.
//!
//! Locks are taken in this order. None is held across an `await`, so that a future can be dropped at any point:
//! 1. `family_lock` of a tenant: held by a writer that sets a parent or deletes a thread, so that a parent is not
//!    deleted meanwhile and no thread becomes its own ancestor
//! 2. slots, several of them in the order of their ids: held by a reader or writer of a thread
//! 3. `mailbox` of a tenant: held by a reader or writer of dispatches, and by a writer of a thread under a claim, so
//!    that the claim stays valid until everything is written
//! 4. `index` of a tenant: a writer changes it while it holds the slot, so that readers see both changes at once
//!
//! Other locks: the position of a write buffer is locked before any of these, while its deltas are applied, and so is
//! the list of tenants, for a moment. Each map that contains slots, the list of deleted
//! threads whose contents are not yet freed, and the number of the newest write of documents are each locked only for
//! one short operation, during which no other lock is taken.

#[cfg(shuttle)]
use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicBool};
#[cfg(not(shuttle))]
use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicBool};
use std::sync::{PoisonError, atomic::Ordering};

/// The hasher that chooses the map, and so the lock, of a slot.
#[cfg(not(shuttle))]
pub(crate) type HasherBuilder = std::hash::RandomState;

/// The hasher under a schedule checker. It has a fixed seed, so that a schedule can be run again.
#[cfg(shuttle)]
pub(crate) type HasherBuilder = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

pub(crate) type WriteGuard<'a, T> = RwLockWriteGuard<'a, T>;

/// A lock with one holder at a time.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    // Everything is decided before the first change is made, and making the changes cannot panic. So the data behind a
    // poisoned lock is consistent.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock for one writer or several readers.
#[derive(Debug, Default)]
pub(crate) struct ReadWriteLock<T>(RwLock<T>);

impl<T> ReadWriteLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value without locking. The exclusive reference proves that there is no other holder.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A flag that is raised once.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
