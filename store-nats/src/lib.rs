//! A mailbox for AI agents on NATS JetStream, for workers on many machines, and a write buffer in front of other
//! stores.
//!
//! Every decision is one message of one stream. The leader of the stream accepts the message only if the thread has not
//! changed since the decision was made. Every process with an open store follows that stream, and derives the state of
//! the mailbox from it. Before a call answers without writing, it asks the leader whether the stream has further
//! messages.
//!
//! # Layout
//! - `buffered`: a write buffer in front of another store
//! - `config`, `url`: the settings with which a store is opened
//! - `store`: opening, tenants, closing
//! - `streams`: creates the streams on the server, and refuses streams whose settings are unsafe
//! - `mailbox`: the contracts of a tenant
//! - `live`: the live channel, which sends commands to running work
//! - `decide`: applies the rules and writes their decisions
//! - `log`: follows the stream
//! - `view`: the state that is derived from the messages of the stream
//! - `garbage`: removes messages that are no longer needed
//! - `tenant`: runs calls in tasks of their own
//! - `connection`: requests to the leader of a stream
//! - `clock`: the leader's time
//! - `server_names`: names of streams, and subjects
//! - `codec`: the content of messages
//! - `error`: converts errors
//! - `inspect`: checks of what the servers store
//! - `health`: versions, settings of the streams, replicas, the leader's clock
//! - `records`: dumps and restores, for copies
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

mod buffered;
mod clock;
mod codec;
mod config;
mod connection;
mod decide;
mod error;
mod garbage;
mod health;
mod inspect;
mod live;
mod log;
mod mailbox;
mod records;
mod server_names;
mod store;
mod streams;
mod tenant;
mod testing;
mod url;
mod view;

pub use self::{
    buffered::{BufferConfig, BufferReads, BufferStatus, Buffered, DEFAULT_BUFFER_PREFIX, QuarantinedWrite},
    config::{Create, NatsConfig},
    store::NatsStore,
    testing::{BaselinePublisher, TestPrefix},
};
