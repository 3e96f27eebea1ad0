//! Erasure: removes a thread, or everything of a resource, with all that speaks of it.
//!
//! It is written over the contracts of a tenant, so no backend knows it. What it needs of a backend are three calls:
//! removal of dispatches and of outbox rows by id, and removal of the content of events. The bytes are gone once the
//! stores have [reclaimed their space](crate::Store::reclaim_space).
//!
//! Nothing is kept about an erasure that runs. The deletion of the thread comes last of all that needs the thread, and
//! what comes after it needs its id alone. So a call that was interrupted is repeated from its beginning (PV-2).

mod record;
mod rules;
mod steps;
mod store;

pub use self::{
    record::{EraseResource, EraseThread, Erased},
    store::{ErasureLayer, ErasureStore},
};
