//! Durable state for AI agents: threads, logs that branch, runs and state, written in one atomic, idempotent commit.
//!
//! # Layout
//! - everything of `store_core`: data model, contracts, errors
//! - [`open`], [`OpenOptions`], [`StoreUrl`]: from a URL to a store
//! - [`Stores`]: the parts of an opened store, or of two: the mailbox may be of another one
//! - [`Worker`], [`Relay`], [`Maintenance`]: loops that run what is queued, deliver what commits wrote for others, and
//!   remove finished work
//! - `memory`, `file`, `postgres`, `sqlite_mailbox`, `nats`: the backends, one cargo feature each
//!
//! # A turn, a fork, a rewind
//! ```
//! use agentstore::{
//!     Commit, CommitCoordinatorExt, ContextRequest, Expect, Fork, Guard, Message, NewEntry, RewindTo, TenantId,
//!     ThreadId,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> agentstore::Result<()> {
//! let stores = agentstore::open("memory:").await?; // or "file:./agentstore-data"
//! let commits = stores.commits(&TenantId::default_tenant())?;
//! let thread = ThreadId::new("t-1")?;
//!
//! // A turn is one atomic commit. `Expect` guards it: of two writers exactly one lands.
//! let turn = Commit::new(thread.clone())
//!     .expecting(Expect::Absent)
//!     .entry(NewEntry::new(Message::user("What is the capital of France?")))
//!     .entry(NewEntry::new(Message::assistant("Paris.")));
//! let asked = commits.commit(turn).await?;
//!
//! // Another way from the first message on: the old branch stays.
//! let other = NewEntry::new(Message::assistant("Paris, on the Seine."));
//! let retry = Fork::below(asked.entry_ids[0].clone()).entry(other);
//! let forked = commits.fork(Guard::from(&asked), retry).await?;
//!
//! // What a model gets next: the path of the head.
//! let next = commits.threads().load_context(&thread, ContextRequest::head()).await?;
//! assert_eq!(next.context.messages.len(), 2);
//!
//! // Back to the first answer: nothing is deleted.
//! let back = commits.rewind(Guard::from(&forked), RewindTo::Entry(asked.entry_ids[1].clone())).await?;
//! assert_eq!(back.head, asked.head);
//! stores.close().await
//! # }
//! ```

mod backend;
mod composed;
mod options;
mod stores;
mod url;
#[cfg(feature = "worker")]
mod worker;

#[cfg(test)]
mod tests;

// The list of what there is stands in the crate itself; a second one here would only go stale.
pub use store_core::*;

pub use self::{
    options::{Create, Durability, OpenOptions, open},
    stores::{LogFiles, Stores},
    url::{ServerUrl, StoreUrl},
};

#[cfg(feature = "worker")]
pub use self::worker::{
    Backoff, Cancellation, Cancelled, Deliver, Done, Failure, Handler, HandlerError, Maintained, Maintenance,
    OutboxDelivery, Policy, Relay, Retention, RetryAll, Running, Summary, Verdict, Work, Worker, WorkerOptions,
};

#[cfg(feature = "file")]
pub use store_file as file;
#[cfg(feature = "memory")]
pub use store_memory as memory;
#[cfg(feature = "nats")]
pub use store_nats as nats;
#[cfg(feature = "postgres")]
pub use store_postgres as postgres;
#[cfg(feature = "sqlite-mailbox")]
pub use store_sqlite_mailbox as sqlite_mailbox;

/// The quick start of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[derive(Debug)]
pub struct Readme;
