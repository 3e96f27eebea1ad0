//! Loops for background work: a worker for dispatches, a relay for outbox rows, maintenance for finished records.

mod cancellation;
#[cfg(feature = "metrics")]
mod counting_mailbox;
mod effects;
mod fenced;
mod handler;
mod job_loop;
mod loop_handle;
mod mailbox;
mod maintenance;
mod options;
mod relay;
mod stream_sink;
mod telemetry;
mod work;

use std::sync::Arc;

use store_core::{EffectKind, Error, Result, TenantId};

#[cfg(feature = "metrics")]
pub(crate) use self::counting_mailbox::with_counting_mailbox;
pub use self::{
    cancellation::{CancelReason, Cancellation},
    effects::Reconciler,
    handler::{Done, Failure, Handler, HandlerError, Policy, RetryAll, Verdict},
    loop_handle::{LoopHandle, WorkSummary},
    maintenance::{Maintenance, MaintenanceSummary, Retention},
    options::WorkerOptions,
    relay::{Deliver, OutboxDelivery, Relay},
    stream_sink::{Offered, StreamSink},
    work::Work,
};
use self::{job_loop::JobLoop, mailbox::MailboxSource};
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
/// - Each dispatch is claimed, started, handled and settled. While it is handled, its claim is extended after every
///   third of the lease. At most [`WorkerOptions::concurrency`] dispatches are handled at once, each from a different
///   thread (WK-1).
/// - A handler whose claim is lost or superseded is cancelled as soon as the worker knows of it, and can write nothing
///   more through its [`Work`] (WK-2). Before the worker calls the handler, it makes sure that no write of an earlier
///   attempt can still take effect (WK-6).
/// - Before the handler is called, effects of its run that an earlier attempt left in doubt are resolved by the
///   reconciler of their kind, or handed to it. While one is in doubt, [`Work::effect`] begins no new one (EF-7).
/// - After an error the policy decides whether the dispatch is retried after a growing delay, snoozed, made a dead
///   letter, or cancelled. A panic is an error (WK-3).
/// - When a worker stops, it claims nothing more, lets handlers finish until a deadline, and releases the remaining
///   dispatches. Killing a worker only delays its dispatches (WK-4).
///
/// A dispatch is handled at least once. `docs/workers.md` says when it is handled twice, and what to do about it.
pub struct Worker {
    job_loop: JobLoop<MailboxSource>,
}

impl Worker {
    /// Makes a worker for the mailbox of `tenant`, with the defaults of [`WorkerOptions`].
    ///
    /// # Errors
    /// `Unsupported` if there is no mailbox; `Closed` if the store was closed.
    pub fn new(stores: &Stores, tenant: &TenantId, handler: impl Handler) -> Result<Self> {
        Self::with_options(stores, tenant, handler, WorkerOptions::default())
    }

    /// Makes a worker with these options.
    ///
    /// # Errors
    /// `Invalid` for a lease of zero or above 24 hours, and for a concurrency of 0 or above 1,000; `Unsupported` if
    /// there is no mailbox; `Closed` if the store was closed.
    pub fn with_options(
        stores: &Stores,
        tenant: &TenantId,
        handler: impl Handler,
        options: WorkerOptions,
    ) -> Result<Self> {
        options.check()?;
        // If there is no mailbox, this call returns an error that says which stores have one.
        stores.mailbox(tenant)?;
        let source = MailboxSource::new(stores, tenant, Arc::new(handler), &options)?;
        Ok(Self { job_loop: JobLoop::new(source, options) })
    }

    /// Sets what asks the world outside of the store whether effects of a kind happened (EF-7).
    ///
    /// Before each attempt the worker asks it about the effects of the run that are in doubt. The handler gets those
    /// that stay in doubt with [`Work::effects_in_doubt`].
    #[must_use]
    pub fn with_reconciler(mut self, kind: EffectKind, reconciler: impl Reconciler) -> Self {
        self.job_loop.source_mut().set_reconciler(kind, Arc::new(reconciler));
        self
    }

    /// Starts the worker on the current tokio runtime.
    ///
    /// # Errors
    /// `Unavailable` outside of a tokio runtime.
    pub fn start(self) -> Result<LoopHandle> {
        self.job_loop.start()
    }

    /// Starts the worker. It ends by itself once it can claim nothing, no handler runs, and every dispatch that failed
    /// in this worker has been tried again.
    ///
    /// It does not wait for other dispatches that become available later, or for dispatches that other workers have
    /// claimed.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_until_idle(self) -> Result<LoopHandle> {
        self.job_loop.until_idle().start()
    }

    /// Runs the worker [until it is idle](Self::start_until_idle).
    ///
    /// # Errors
    /// The error that ended the worker before it was idle, as for [`LoopHandle::stop`].
    pub async fn run_until_idle(self) -> Result<WorkSummary> {
        self.start_until_idle()?.join().await
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("options", self.job_loop.options()).finish_non_exhaustive()
    }
}

/// Returns the error for an operation that cannot be fenced by a claim. The handles of an attempt refuse such an
/// operation.
fn unsupported_under_claim(operation: &'static str) -> Error {
    unsupported(operation)
}
