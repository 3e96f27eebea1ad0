//! Locks and atomics. They come from the standard library, or with `--cfg shuttle` from a schedule checker. Whenever a
//! task uses one of them, the checker decides which task runs next. `Arc` always comes from the standard library,
//! because the checker has no `Arc` of its own.

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
