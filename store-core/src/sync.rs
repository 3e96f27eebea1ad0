//! Locks and atomics. They come from the standard library, or with `--cfg shuttle` from the crate `shuttle`.
//!
//! Shuttle runs a test under many schedules: whenever a task uses a lock or an atomic, shuttle decides which task runs
//! next. `Arc` always comes from the standard library, because shuttle has no `Arc` of its own.

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64},
};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64},
};
