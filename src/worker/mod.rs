//! Running what is queued: a worker for dispatches, a relay for rows of the outbox, maintenance for what is over.

mod cancellation;
#[cfg(feature = "metrics")]
mod counted;
mod engine;
mod fenced;
mod handler;
mod mailbox;
mod maintenance;
mod options;
mod relay;
mod running;
mod telemetry;
mod work;

use std::sync::Arc;

use store_core::{Error, Result, TenantId};

#[cfg(feature = "metrics")]
pub(crate) use self::counted::counting_enqueues;
pub use self::{
    cancellation::{Cancellation, Cancelled},
    handler::{Done, Failure, Handler, HandlerError, Policy, RetryAll, Verdict},
    maintenance::{Maintained, Maintenance, Retention},
    options::{Backoff, WorkerOptions},
    relay::{Deliver, OutboxDelivery, Relay},
    running::{Running, Summary},
    work::Work,
};
use self::{engine::Engine, mailbox::Dispatches};
use crate::{Stores, options::unsupported};

/// Runs a handler for the dispatches of a tenant's mailbox.
///
/// ```
/// use agentstore::{Done, Failure, NewDispatch, TenantId, Work, Worker};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentstore::Result<()> {
/// let (stores, tenant) = (agentstore::open("memory:").await?, TenantId::default_tenant());
/// let work = NewDispatch::new("t-1".parse()?, "run-1".parse()?);
/// stores.mailbox(&tenant)?.enqueue(vec![work]).await?;
///
/// let worker = Worker::new(&stores, &tenant, async |work: Work| {
///     println!("attempt {} of {}", work.attempt(), work.dispatch().id);
///     Ok::<_, Failure>(Done::ack())
/// })?;
/// let summary = worker.run_until_idle().await?;
/// assert_eq!(summary.acked, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
/// - Each dispatch is claimed, started, extended at a third of its lease, handled and settled; as many at once as
///   [`WorkerOptions::concurrency`] says, each of another thread (WK-1).
/// - A handler whose claim is lost or superseded is cancelled as soon as that is known, and can write nothing more
///   through its [`Work`] (WK-2). Before it is called nothing that an earlier attempt writes can land any more (WK-6).
/// - An error is retried with growing pauses, put off, given up or cancelled as its policy says; a panic is an error
///   (WK-3).
/// - Stopping claims nothing more, lets handlers finish until a deadline and gives back the rest; a worker that is
///   killed loses nothing but time (WK-4).
///
/// A dispatch is handled at least once. When it is handled twice, and what to do about it, is in `docs/workers.md`.
pub struct Worker {
    engine: Engine<Dispatches>,
}

impl Worker {
    /// A worker for the mailbox of `tenant`, with the defaults of [`WorkerOptions`].
    ///
    /// # Errors
    /// `Unsupported` if there is no mailbox; `Closed`.
    pub fn new(stores: &Stores, tenant: &TenantId, handler: impl Handler) -> Result<Self> {
        Self::with_options(stores, tenant, handler, WorkerOptions::default())
    }

    /// The same with these options.
    ///
    /// # Errors
    /// `Invalid` for a lease of nothing or above 24 hours, and for no concurrency or more than 1,000; `Unsupported` if
    /// there is no mailbox; `Closed`.
    pub fn with_options(
        stores: &Stores,
        tenant: &TenantId,
        handler: impl Handler,
        options: WorkerOptions,
    ) -> Result<Self> {
        options.check()?;
        stores.mailbox(tenant)?;
        let source = Dispatches::new(stores, tenant, Arc::new(handler), &options)?;
        Ok(Self { engine: Engine::new(source, options) })
    }

    /// Starts on the current tokio runtime.
    ///
    /// # Errors
    /// `Unavailable` outside of a tokio runtime.
    pub fn start(self) -> Result<Running> {
        self.engine.start()
    }

    /// Starts, and ends by itself when nothing can be claimed and nothing runs, and what failed here was tried again.
    /// What is put off for later, or claimed by somebody else, stays.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_until_idle(self) -> Result<Running> {
        self.engine.until_idle().start()
    }

    /// Works [until it is idle](Self::start_until_idle).
    ///
    /// # Errors
    /// What ended it before; as [`Running::stop`].
    pub async fn run_until_idle(self) -> Result<Summary> {
        self.start_until_idle()?.ended().await
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("options", self.engine.options()).finish_non_exhaustive()
    }
}

/// The refusal of a handler's handle that has no way to carry a claim.
fn unfenced(operation: &'static str) -> Error {
    unsupported(operation)
}
