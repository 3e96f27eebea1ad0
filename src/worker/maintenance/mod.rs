//! Removes finished work, and ends expired claims.

mod look;
mod steps;

use std::{fmt, sync::Arc, time::Duration};

use serde::Serialize;
use store_core::{Error, Result, TenantId};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::steps::Steps;
use super::{Running, options::jittered};
use crate::Stores;

/// How long what is over is kept. What is absent is kept for good.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Dispatches that are over, dead letters among them, after their end: 24 hours.
    pub dispatches: Option<Duration>,
    /// Rows of the outbox that were delivered or given up, after their end: 24 hours.
    pub outbox: Option<Duration>,
    /// Events of threads and their runs: for good.
    pub events: Option<Duration>,
    /// Threads that nobody wrote, without open runs, pending input and children: for good.
    pub threads: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        const DAY: Duration = Duration::from_hours(24);
        Self { dispatches: Some(DAY), outbox: Some(DAY), events: None, threads: None }
    }
}

/// Ends expired claims and removes finished work at a fixed interval (WK-9). Several nodes may run it at the same time.
///
/// ```
/// use std::time::Duration;
///
/// use agentstore::{Maintenance, Retention, TenantId};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentstore::Result<()> {
/// let stores = agentstore::open("memory:").await?;
/// let mut retention = Retention::default();
/// retention.events = Some(Duration::from_hours(24 * 30));
/// let maintenance = Maintenance::new(&stores, &TenantId::default_tenant())?.with_retention(retention);
/// let maintained = maintenance.run_once().await?;
/// assert_eq!(maintained.dispatches, 0);
/// # Ok(())
/// # }
/// ```
///
/// Ages are counted by the clock of the stores ([`Stores::with_clock`]), which for a server's store is that of this
/// host: a host whose clock is ahead removes as much earlier. Threads are pruned by store time.
///
/// Events are trimmed scope by scope, of each thread that there is and of its runs: that reads every thread, and events
/// of deleted threads stay.
pub struct Maintenance {
    steps: Steps,
    every: Duration,
    report: Option<Box<Report>>,
}

/// Who is told of each round.
type Report = dyn Fn(&Maintained, Option<&Error>) + Send + Sync;

/// What was removed or ended, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Maintained {
    /// Claims whose lease was over.
    pub reclaimed: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Rows of the outbox.
    pub outbox: u64,
    /// Events, once for each scope that lost them.
    pub events: u64,
    /// Threads that were idle.
    pub threads: u64,
    /// Deleted threads whose data was removed.
    pub deleted: u64,
    /// Steps that failed; what failed is in the log.
    pub failed: u64,
    /// Of a dry run: whether dispatches, rows or threads were counted up to 1,000, and there may be more.
    pub more: bool,
}

impl Maintained {
    fn add(&mut self, other: &Self) {
        let Self { reclaimed, dispatches, outbox, events, threads, deleted, failed, more } = other;
        self.reclaimed += reclaimed;
        self.dispatches += dispatches;
        self.outbox += outbox;
        self.events += events;
        self.threads += threads;
        self.deleted += deleted;
        self.failed += failed;
        self.more |= more;
    }
}

impl Maintenance {
    /// Maintenance of a tenant, every minute, with the ages of [`Retention`].
    ///
    /// # Errors
    /// `Closed`.
    pub fn new(stores: &Stores, tenant: &TenantId) -> Result<Self> {
        let steps = Steps {
            stores: stores.tenant(tenant)?,
            retention: Retention::default(),
            is_dry: false,
            clock: Arc::clone(stores.clock()),
            mailbox_clock: Arc::clone(stores.mailbox_clock()),
            backend: stores.mailbox_backend(),
            stopping: CancellationToken::new(),
        };
        Ok(Self { steps, every: Duration::from_mins(1), report: None })
    }

    /// The same with these ages.
    #[must_use]
    pub const fn with_retention(mut self, retention: Retention) -> Self {
        self.steps.retention = retention;
        self
    }

    /// The same at this interval, of which each pause takes from half to all.
    #[must_use]
    pub const fn every(mut self, interval: Duration) -> Self {
        self.every = interval;
        self
    }

    /// The same without changing anything: it counts what a round would do, of dispatches, of rows and of threads up
    /// to 1,000 each. What deleted threads left is not counted.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.steps.is_dry = true;
        self
    }

    /// The same, telling what each round did, and the first error of it.
    #[must_use]
    pub fn with_report(mut self, report: impl Fn(&Maintained, Option<&Error>) + Send + Sync + 'static) -> Self {
        self.report = Some(Box::new(report));
        self
    }

    /// Does everything once. A step that fails keeps none of the others from being done.
    ///
    /// # Errors
    /// That of the first step that failed, behind the others.
    pub async fn run_once(&self) -> Result<Maintained> {
        match self.round().await {
            (_, Some(error)) => Err(error),
            (done, None) => Ok(done),
        }
    }

    async fn round(&self) -> (Maintained, Option<Error>) {
        let mut done = Maintained::default();
        let error = self.steps.round(&mut done).await;
        if let Some(report) = &self.report {
            report(&done, error.as_ref());
        }
        (done, error)
    }

    /// Starts on the current tokio runtime. Stopping it waits for the call that is under way, and gives what was done
    /// in all.
    ///
    /// # Errors
    /// `Unavailable` outside of a tokio runtime.
    pub fn start(self) -> Result<Running<Maintained>> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|source| Error::unavailable("maintenance runs on a tokio runtime").with_source(source))?;
        let stopping = self.steps.stopping.clone();
        let task = runtime.spawn(async move {
            let mut done = Maintained::default();
            while !self.steps.stopping.is_cancelled() {
                let (round, _told) = self.round().await;
                done.add(&round);
                tokio::select! {
                    () = self.steps.stopping.cancelled() => {}
                    () = sleep(jittered(self.every)) => {}
                }
            }
            Ok(done)
        });
        Ok(Running::new(task, stopping.clone(), stopping))
    }
}

impl fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, every, report: _ } = self;
        f.debug_struct("Maintenance").field("retention", &steps.retention).field("every", every).finish_non_exhaustive()
    }
}
