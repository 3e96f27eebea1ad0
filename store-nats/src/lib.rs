//! A mailbox for AI agents on NATS JetStream, for workers on many machines.
//!
//! Every decision is one message of one stream, accepted by the leader only if its thread is still as it was when the
//! decision was made. Every process that has the store open reads that stream as it grows, and knows from it all that
//! is decided; whoever answers without writing asks the leader first whether there is more.
//!
//! # Layout
//! - `config`, `url`: what a store is opened with
//! - `store`: opening, tenants, closing; `streams`: what is made on the server, and which settings are refused
//! - `mailbox`: the contracts of a tenant; `live`: commands to work that runs
//! - `decide`: rules, and writing what they decided
//! - `log`: the stream as it is followed; `view`: what it says; `garbage`: what of it is not needed any more
//! - `tenant`: calls in tasks of their own
//! - `connection`, `clock`, `key`, `codec`, `error`: requests to the leader, its time, subjects, messages
//! - `inspect`: checks of what the servers keep
//! - `testing`: stores for tests
//!
//! ```no_run
//! use store_core::{NewDispatch, RunId, Store, TenantId, ThreadId};
//! use store_nats::{NatsConfig, NatsStore};
//!
//! async fn hello() -> store_core::Result<()> {
//!     let store = NatsStore::open(NatsConfig::new("nats://localhost:4222/?assume_sync=true")?).await?;
//!     let tenant = store.tenant(&TenantId::default_tenant())?;
//!     if let Some(mailbox) = &tenant.mailbox {
//!         let work = NewDispatch::new(ThreadId::new("t-1")?, RunId::new("r-1")?);
//!         assert_eq!(mailbox.enqueue(vec![work]).await?.len(), 1);
//!     }
//!     store.close().await
//! }
//! ```

mod clock;
mod codec;
mod config;
mod connection;
mod decide;
mod error;
mod garbage;
mod inspect;
mod key;
mod live;
mod log;
mod mailbox;
mod store;
mod streams;
mod tenant;
mod testing;
mod url;
mod view;

pub use self::{
    config::{Create, NatsConfig},
    store::NatsStore,
    testing::{BareMessages, TestPrefix},
};
