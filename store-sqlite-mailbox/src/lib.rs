//! Durable work for AI agents in one SQLite file: a mailbox that the processes of a host use at once.
//!
//! # Layout
//! - `config`: what a mailbox is opened with
//! - `store`: opening, tenants, closing
//! - `mailbox`: the contract of a tenant, and waiting for work
//! - `rows`: what rules of core ask for and what they planned, in one transaction
//! - `writer`: the thread that writes, many calls in one commit; `readers`: those that read
//! - `tenant`: calls on their way to these threads and back
//! - `news`: telling who waits, also in other processes
//! - `inspect`: checks, and repairs of what can be derived
//! - `schema`, `sql`: connections, the schema, statements; `place`, `medium`: the files and what they lie on
//!
//! ```
//! use store_core::{NewDispatch, RunId, Store, TenantId, ThreadId};
//! use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox};
//!
//! async fn hello() -> store_core::Result<()> {
//!     let store = SqliteMailbox::open(SqliteConfig::new("mailbox.db")).await?;
//!     let tenant = store.tenant(&TenantId::default_tenant())?;
//!     if let Some(mailbox) = &tenant.mailbox {
//!         let work = NewDispatch::new(ThreadId::new("t-1")?, RunId::new("r-1")?);
//!         assert_eq!(mailbox.enqueue(vec![work]).await?.len(), 1);
//!     }
//!     store.close().await
//! }
//! ```

mod config;
mod error;
mod inspect;
mod mailbox;
mod medium;
mod news;
mod place;
mod readers;
mod rows;
mod schema;
mod sql;
mod store;
mod tenant;
mod writer;

pub use self::{
    config::{Create, SqliteConfig, Synchronous},
    store::SqliteMailbox,
};
