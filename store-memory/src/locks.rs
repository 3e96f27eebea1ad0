//! Locks: the only file that names them, so that with `--cfg shuttle` those of a schedule checker are in their place.
//!
//! They are taken in this order, and none is held across an `await`, so that a future can be dropped at any point:
//! 1. `family` of a tenant: whoever sets a parent or deletes a thread, so that parents exist and nobody becomes an
//!    ancestor of itself
//! 2. slots, several of them in the order of their ids: whoever reads or writes one thread
//! 3. `mailbox` of a tenant: whoever reads or changes dispatches, or writes a thread under a claim of one, so that the
//!    claim holds until all is written
//! 4. `index` of a tenant: a writer changes it while it holds the slot, so that for readers both change at once
//!
//! The maps that slots are found in, the list of tenants and the trash are locked for a look-up only, with nothing
//! taken inside.

#[cfg(shuttle)]
use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicBool};
#[cfg(not(shuttle))]
use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicBool};
use std::sync::{PoisonError, atomic::Ordering};

/// Chooses the map that a slot is in, and so its lock.
#[cfg(not(shuttle))]
pub(crate) type Hashing = std::hash::RandomState;

/// Under a schedule checker the same one each time, so that a schedule can be run again.
#[cfg(shuttle)]
pub(crate) type Hashing = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

pub(crate) type WriteGuard<'a, T> = RwLockWriteGuard<'a, T>;

/// A lock for one at a time.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    // Everything is decided before the first write, and writing cannot panic: a poisoned lock guards whole data.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock for one writer or several readers.
#[derive(Debug, Default)]
pub(crate) struct Shared<T>(RwLock<T>);

impl<T> Shared<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Without locking: nobody else has it.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that happens once.
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
