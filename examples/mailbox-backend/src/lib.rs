//! A backend that keeps mailboxes, and documents with the events that come with them, but no threads: the example of
//! `docs/write-a-backend.md`.
//!
//! The data is kept in maps behind one mutex, until the last handle is dropped. The only index is the queue of each
//! thread. Every other query searches the maps; a store for more than a few thousand records would have an index for
//! each. Nothing else is left out: the conformance suite checks this backend like any other.
//!
//! # Layout
//! - `store`: opening, tenants, closing
//! - `data`: the data of a tenant: the view for rules, the writing of plans, the orders of lists
//! - `mailbox`: the calls that change the mailbox; `read`: the calls that read it; `page`: the pages of lists
//! - `documents`: the documents; `events`: the events, with topics. The layers (config, profiles, registry, audit log)
//!   need nothing else
//!
//! ```
//! use std::sync::Arc;
//!
//! use mailbox_backend_example::MapStore;
//! use store_core::{Limits, NewDispatch, RunId, Store, SystemClock, TenantId, ThreadId};
//!
//! async fn hello() -> store_core::Result<()> {
//!     let store = MapStore::open(Arc::new(SystemClock), &Limits::default())?;
//!     let tenant = store.tenant(&TenantId::default_tenant())?;
//!     if let Some(mailbox) = &tenant.mailbox {
//!         let work = NewDispatch::new(ThreadId::new("t-1")?, RunId::new("r-1")?);
//!         assert_eq!(mailbox.enqueue(vec![work]).await?.len(), 1);
//!     }
//!     store.close().await
//! }
//! ```

mod data;
mod documents;
mod events;
mod mailbox;
mod page;
mod read;
mod store;

pub use self::store::MapStore;

/// The guide. Its code compiles here, or is quoted from this crate (`tests/it/guide.rs`).
#[cfg(doctest)]
#[doc = include_str!("../../../docs/write-a-backend.md")]
struct Guide;
