//! A backend that keeps mailboxes and nothing else: the example of `docs/write-a-backend.md`.
//!
//! What it keeps is in maps behind one mutex, and ends with the last handle. It has one index, the queues; whatever
//! else is asked for it finds by looking through the maps, where a store for more than a few thousand dispatches has
//! an index, too. Nothing else is left out: the suite holds it to what it holds every mailbox to.
//!
//! # Layout
//! - `store`: opening, tenants, closing
//! - `rows`: what is kept of a tenant: what rules see of it, how a plan is written, in which orders it is walked
//! - `mailbox`: the calls that change it; `read`: those that read it; `page`: their pages
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

mod mailbox;
mod page;
mod read;
mod rows;
mod store;

pub use self::store::MapStore;

/// The guide: what it shows compiles, or is quoted from here (`tests/it/guide.rs`).
#[cfg(doctest)]
#[doc = include_str!("../../../docs/write-a-backend.md")]
struct Guide;
