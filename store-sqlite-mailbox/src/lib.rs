//! A mailbox for AI agents in one SQLite file, which several processes of a host can use at the same time.
//!
//! # Layout
//! - `config`: the settings with which a mailbox is opened
//! - `store`: opening, tenants, closing
//! - `mailbox`: the mailbox contract of a tenant, and waiting for work
//! - `rows`: the rows of one transaction: reads for the rules of core, and writes of their plans
//! - `writer`: the thread that writes, with many calls in one transaction
//! - `readers`: the threads that read
//! - `tenant`: passes calls to these threads and returns their results
//! - `notifications`: wakes waiting callers in this process and in other processes
//! - `records`: dumps and restores, for copies
//! - `inspect`: checks, and repairs of derived data
//! - `health`: versions, settings, free space
//! - `schema`, `sql`: connections, the schema, statements
//! - `database_file`, `file_system`: the files, and the file system that holds them
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
mod database_file;
mod error;
mod file_system;
mod health;
mod inspect;
mod mailbox;
mod notifications;
mod readers;
mod records;
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
