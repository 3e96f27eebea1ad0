//! Locks and atomics: those of the standard library, or with `--cfg shuttle` those of a schedule checker. At each of
//! them the checker decides which task runs next. `Arc` is always that of the standard library, because the checker has
//! none of its own.

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
