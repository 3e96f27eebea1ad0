//! Durable state for AI agents: threads, logs that branch, runs and state, written in one atomic, idempotent commit.
//!
//! # Layout
//! - the items of `store_core`: data model, contracts, errors
//! - [`open`], [`OpenOptions`], [`StoreUrl`]: open the store at a URL
//! - [`Stores`]: an opened store with all its parts; [`Stores::builder`] takes some of them from other stores, and
//!   [`Stores::check`] says what is wrong with them
//! - [`Retried`], [`Limited`], `Traced` (cargo feature `worker`): decorators over a whole store
//! - [`Compactor`], [`ContextCache`], [`copy_thread`]: summaries of long histories, contexts that are kept, and threads
//!   that begin as a copy of another
//! - [`copy_stores`]: everything of a store, moved to another one
//! - [`Worker`], [`Relay`], [`Maintenance`]: loops that handle dispatches, deliver outbox rows, and remove finished
//!   work
//! - `memory`, `file`, `postgres`, `sqlite_mailbox`, `nats`: the backends, one cargo feature each
//!
//! # A commit, a fork, a rewind
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
//! // One atomic commit adds the question and the answer. `Expect` guards it: of two concurrent writers exactly one
//! // succeeds.
//! let exchange = Commit::new(thread.clone())
//!     .expecting(Expect::Absent)
//!     .entry(NewEntry::new(Message::user("What is the capital of France?")))
//!     .entry(NewEntry::new(Message::assistant("Paris.")));
//! let first_receipt = commits.commit(exchange).await?;
//!
//! // A fork below the first message. The old branch is kept.
//! let other = NewEntry::new(Message::assistant("Paris, on the Seine."));
//! let fork = Fork::below(first_receipt.entry_ids[0].clone()).entry(other);
//! let fork_receipt = commits.fork(Guard::from(&first_receipt), fork).await?;
//!
//! // The context for the next call of a model: the path of the head.
//! let next = commits.threads().load_context(&thread, ContextRequest::head()).await?;
//! assert_eq!(next.context.messages.len(), 2);
//!
//! // A rewind to the first answer: nothing is deleted.
//! let first_answer = RewindTo::Entry(first_receipt.entry_ids[1].clone());
//! let rewind_receipt = commits.rewind(Guard::from(&fork_receipt), first_answer).await?;
//! assert_eq!(rewind_receipt.head, first_receipt.head);
//! stores.close().await
//! # }
//! ```

mod backend;
mod backoff;
mod composed;
mod copy;
mod decorators;
mod history;
mod log_files;
mod options;
mod stores;
mod url;
#[cfg(feature = "worker")]
mod worker;

#[cfg(test)]
mod tests;

// `store_core` lists its public items itself. A second list here would become outdated.
pub use store_core::*;

pub use self::{
    backoff::Backoff,
    copy::{CopiedTenant, CopyStep, copy_stores, digest_stores},
    decorators::{Decorator, Limited, Rate, Retried, TenantLimits},
    history::{
        COPIED_FROM, CacheCounts, CachedContext, Compacted, CompactionOutcome, CompactionPlan, Compactor, ContextCache,
        ContextSource, ContextTokens, PlannedCompaction, Summary, SummaryError, ThreadCopy, copy_thread,
        estimate_tokens,
    },
    log_files::{CompressLogs, CompressedLogs, LogFiles},
    options::{Create, Durability, OpenOptions, open},
    stores::{PartCheck, PartSource, Stores, StoresBuilder, StoresCheck},
    url::{ServerUrl, StoreUrl},
};

#[cfg(feature = "nats")]
pub use self::options::{WriteBuffer, attached_buffer};

#[cfg(feature = "worker")]
pub use self::decorators::Traced;
#[cfg(feature = "worker")]
pub use self::worker::{
    CancelReason, Cancellation, Deliver, Done, Failure, Handler, HandlerError, LoopHandle, Maintenance,
    MaintenanceSummary, Offered, OutboxDelivery, Policy, Reconciler, Relay, Retention, RetryAll, StreamSink, Verdict,
    Work, WorkSummary, Worker, WorkerOptions,
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

/// Runs the quick start of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[derive(Debug)]
pub struct Readme;

/// Runs the example of the page about histories as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/histories.md")]
#[derive(Debug)]
pub struct HistoriesPage;

/// Runs the examples of the page about replay log and stream checkpoints as tests.
#[cfg(all(doctest, feature = "worker"))]
#[doc = include_str!("../docs/replay.md")]
#[derive(Debug)]
pub struct ReplayPage;

/// Runs the example of the page about settings and definitions as a test.
#[cfg(all(doctest, feature = "worker"))]
#[doc = include_str!("../docs/agent-definitions.md")]
#[derive(Debug)]
pub struct DefinitionsPage;

/// Runs the example of the page about blobs as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/blobs.md")]
#[derive(Debug)]
pub struct BlobsPage;

/// Runs the examples of the page about effects as a test.
#[cfg(all(doctest, feature = "worker"))]
#[doc = include_str!("../docs/effects.md")]
#[derive(Debug)]
pub struct EffectsPage;

/// Runs the example of the page about copies as a test.
#[cfg(all(doctest, feature = "memory"))]
#[doc = include_str!("../docs/copy.md")]
#[derive(Debug)]
pub struct CopyPage;

/// Runs the example of the page about traces as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/traces.md")]
#[derive(Debug)]
pub struct TracesPage;

/// Runs the example of the page about write buffers as a test.
#[cfg(all(doctest, feature = "nats"))]
#[doc = include_str!("../docs/buffer.md")]
#[derive(Debug)]
pub struct BufferPage;
