//! Locks and atomics: those of the standard library, or with `--cfg shuttle` those of a schedule checker, which then
//! decides at each of them who runs next. `Arc` stays: the checker has none of its own.

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
