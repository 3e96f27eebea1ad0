//! Durable state for AI agents in memory: every contract, for one process, as long as it lives.
//!
//! Nothing survives the process, and nothing else is missing: the same rules, guards, cursors and errors as with every
//! other store. Good for tests, for tools that run once, and as the reference that other stores are compared with.
//!
//! # Layout
//! - `config`: what a store is opened with
//! - `store`: opening, tenants, closing
//! - `threads`, `log`, `runs`, `pending`, `events`, `outbox`, `mailbox`, `commit`: the contracts of a tenant; its live
//!   channel and its bell are those of core
//! - `view`: what their plans look at
//! - `tenant`: the state of a tenant: its slots, the index over them, and its mailbox
//! - `slot`: the state of one thread id: the log, and what is derived from it
//! - `inspect`: checks of what is stored, and repairs
//! - `locks`: every lock, and the order in which they are taken; `pause`: where long work lets others run
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

mod commit;
mod config;
mod events;
mod inspect;
mod locks;
mod log;
mod mailbox;
mod outbox;
mod pause;
mod pending;
mod runs;
mod slot;
mod store;
mod tenant;
mod threads;
mod view;

pub use self::{config::MemoryConfig, store::MemoryStore};
