//! An in-memory store of durable state for AI agents. It implements every contract, for one process and its lifetime.
//!
//! Nothing survives the end of the process. In all other respects the store follows the same rules as every other
//! store: the same guards, cursors and errors. It is meant for tests, for tools that run once, and as the reference
//! that other stores are compared with.
//!
//! # Layout
//! - `config`: the settings with which a store is opened
//! - `store`: opening, tenants, closing
//! - `threads`, `log`, `runs`, `pending`, `events`, `outbox`, `documents`, `mailbox`, `commit`: the contracts of a
//!   tenant; `store-core` provides the live channel and the notifier
//! - `view`: the views through which the rules of `store-core` read the stored data
//! - `tenant`: the state of a tenant: its slots, the index over them, and its mailbox
//! - `slot`: the state of one thread id: the log, and the data derived from it
//! - `buffer`: the store behind a write buffer
//! - `inspect`: checks and repairs of the stored data
//! - `locks`: all locks, and the order in which they are taken
//! - `yield_now`: the points at which long work yields to other tasks
//!
//! ```
//! use store_core::{Commit, Expect, Message, NewEntry, Store, TenantId, ThreadId};
//! use store_memory::{MemoryConfig, MemoryStore};
//!
//! async fn hello() -> store_core::Result<()> {
//!     let store = MemoryStore::open(MemoryConfig::default())?;
//!     let tenant = store.tenant(&TenantId::default_tenant())?;
//!     if let Some(commits) = &tenant.commits {
//!         let commit = Commit::new(ThreadId::new("t-1")?)
//!             .expecting(Expect::Absent)
//!             .entry(NewEntry::new(Message::user("hello")));
//!         let receipt = commits.commit(commit).await?;
//!         assert_eq!(receipt.version.number(), 1);
//!     }
//!     store.close().await
//! }
//! ```

mod buffer;
mod commit;
mod config;
mod documents;
mod events;
mod inspect;
mod locks;
mod log;
mod mailbox;
mod objects;
mod outbox;
mod pending;
mod records;
mod runs;
mod slot;
mod store;
mod tenant;
mod threads;
mod view;
mod yield_now;

pub use self::{config::MemoryConfig, store::MemoryStore};
