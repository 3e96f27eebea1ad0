//! Removes finished work, and ends expired claims.

mod dry_round;
mod layers;
mod steps;

use std::{fmt, sync::Arc, time::Duration};

use serde::Serialize;
use store_core::{Error, IgnoreProgress, Progress, Result, TenantId, layers::audit::AUDIT_RETENTION};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::{layers::Layers, steps::Steps};
use super::LoopHandle;
use crate::{Stores, backoff::jittered, options::unsupported};

/// How long finished records are kept. If the age for a kind of record is absent, records of that kind are never
/// removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// The time from the end of a dispatch to its removal; 24 hours by default. A dead letter has ended, too.
    pub dispatches: Option<Duration>,
    /// The time from the end of an outbox row to its removal; 24 hours by default. A row ends when it is delivered or
    /// becomes a dead letter.
    pub outbox: Option<Duration>,
    /// The age at which events of threads and their runs are removed; absent by default.
    pub events: Option<Duration>,
    /// The time from the last write of a thread to its pruning; absent by default. A thread with open runs, pending
    /// input or children is not pruned.
    pub threads: Option<Duration>,
    /// The age at which audit records are removed; 90 days by default (AU-5).
    pub audit: Option<Duration>,
    /// The age at which entries of the config feed are removed; absent by default. Config records stay (CF-7).
    pub config_feed: Option<Duration>,
    /// The number of the newest versions of each definition that are kept; absent by default, so all are kept. The
    /// current version stays, and so do published and protected ones and those that an open run pins (RG-11).
    pub versions: Option<u64>,
    /// The time from the end of an effect to its removal; absent by default, so effects are kept as long as their
    /// threads. Effects without an outcome stay, and so do those of open runs (EF-5).
    pub effects: Option<Duration>,
    /// The time from the last put or pin of a trace to the removal of the spans that were put for it; absent by
    /// default, so they are kept as long as their threads. Those of pinned traces stay, and so does what is derived
    /// (TR-6).
    pub traces: Option<Duration>,
    /// The number of the newest traces with spans that were put whose spans are kept; absent by default, so all are
    /// kept (TR-6).
    pub newest_traces: Option<u64>,
    /// The time from the last put of a stream checkpoint to its removal; 24 hours by default. If the age is set, those
    /// of runs that are done are removed, too (SC-4).
    pub stream_checkpoints: Option<Duration>,
    /// The grace time of blobs that nothing refers to, at least one hour; absent by default, because each round then
    /// looks at every blob. A round marks such a blob, and a round after this time removes it (BL-5).
    pub blobs: Option<Duration>,
    /// The time from the last change of an evaluation run to its removal; absent by default, so all are kept. Runs that
    /// have not ended stay, and so do pinned ones (TR-6).
    pub evaluations: Option<Duration>,
    /// The number of the newest evaluation runs of each dataset that are kept whatever their age; 0 by default.
    pub newest_evaluations: u64,
}

impl Default for Retention {
    fn default() -> Self {
        const DAY: Duration = Duration::from_hours(24);
        Self {
            dispatches: Some(DAY),
            outbox: Some(DAY),
            events: None,
            threads: None,
            audit: Some(AUDIT_RETENTION),
            config_feed: None,
            versions: None,
            effects: None,
            traces: None,
            newest_traces: None,
            stream_checkpoints: Some(DAY),
            blobs: None,
            evaluations: None,
            newest_evaluations: 0,
        }
    }
}

/// Ends expired claims and removes finished work at intervals (WK-9). Several processes may do this at the same time.
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
/// let summary = maintenance.run_once().await?;
/// assert_eq!(summary.dispatches, 0);
/// # Ok(())
/// # }
/// ```
///
/// Ages are measured by the clock of the stores ([`Stores::with_clock`]). For a store on a server, this is the clock of
/// this host: a host whose clock is ahead removes records earlier by the same amount. Threads are pruned by store time.
///
/// Events are trimmed scope by scope, for each existing thread and for its runs. This reads every thread. Events of
/// deleted threads are kept.
pub struct Maintenance {
    steps: Steps,
    interval: Duration,
    report: Option<Box<ReportFn>>,
}

/// The function that is called after each round.
type ReportFn = dyn Fn(&MaintenanceSummary, Option<&Error>) + Send + Sync;

/// The numbers of records that were removed or ended. In a dry run, the numbers that would be removed or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct MaintenanceSummary {
    /// Claims whose lease had expired.
    pub reclaimed: u64,
    /// Removed dispatches.
    pub dispatches: u64,
    /// Removed outbox rows.
    pub outbox: u64,
    /// Removed events, counted once for each scope that lost them.
    pub events: u64,
    /// Pruned threads.
    pub threads: u64,
    /// Deleted threads whose data was removed.
    pub deleted: u64,
    /// Removed audit records.
    pub audit_records: u64,
    /// Removed entries of the config feed.
    pub config_entries: u64,
    /// Removed versions of definitions.
    pub versions: u64,
    /// Removed effects.
    pub effects: u64,
    /// Traces whose spans were removed. What is derived from runs is not counted.
    pub traces: u64,
    /// Removed records of the replay log that had expired (RP-5).
    pub replay_records: u64,
    /// Removed stream checkpoints.
    pub stream_checkpoints: u64,
    /// Removed blobs.
    pub blobs: u64,
    /// Removed evaluation runs.
    pub evaluations: u64,
    /// Logs that were compressed ([`Maintenance::compressing_logs_after`]).
    pub logs: u64,
    /// The size of the files of these logs before, in bytes.
    pub log_bytes_before: u64,
    /// The size of the files of these logs now, in bytes; 0 in a dry run.
    pub log_bytes_after: u64,
    /// Logs that were not compressed because they are damaged, counted in each round.
    pub damaged_logs: u64,
    /// Steps that failed. The log contains their errors.
    pub failed: u64,
    /// In a dry run, whether the count of dispatches, rows or threads stopped at its limit of 1,000, so that there may
    /// be more.
    pub more: bool,
}

impl MaintenanceSummary {
    fn add(&mut self, other: &Self) {
        let Self { reclaimed, dispatches, outbox, events, threads, deleted, failed, more, .. } = other;
        let Self { logs, log_bytes_before, log_bytes_after, damaged_logs, .. } = other;
        let Self { audit_records, config_entries, versions, effects, replay_records, stream_checkpoints, .. } = other;
        self.blobs += other.blobs;
        self.traces += other.traces;
        self.evaluations += other.evaluations;
        self.replay_records += replay_records;
        self.stream_checkpoints += stream_checkpoints;
        self.audit_records += audit_records;
        self.config_entries += config_entries;
        self.versions += versions;
        self.effects += effects;
        self.logs += logs;
        self.log_bytes_before += log_bytes_before;
        self.log_bytes_after += log_bytes_after;
        self.damaged_logs += damaged_logs;
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
    /// Prepares the maintenance of a tenant, with a round every minute and the default ages of [`Retention`].
    ///
    /// # Errors
    /// `Closed` if the store was closed.
    pub fn new(stores: &Stores, tenant: &TenantId) -> Result<Self> {
        let steps = Steps {
            stores: stores.tenant(tenant)?,
            layers: Layers::of(stores, tenant)?,
            tenant: tenant.clone(),
            log_files: stores.log_files().cloned(),
            compress_after: None,
            progress: Arc::new(IgnoreProgress),
            retention: Retention::default(),
            is_dry_run: false,
            clock: Arc::clone(stores.clock()),
            mailbox_clock: Arc::clone(stores.mailbox_clock()),
            settings_clock: Arc::clone(stores.settings_clock()),
            backend: stores.mailbox_backend(),
            stopping: CancellationToken::new(),
        };
        Ok(Self { steps, interval: Duration::from_mins(1), report: None })
    }

    /// Sets how long finished records are kept.
    #[must_use]
    pub const fn with_retention(mut self, retention: Retention) -> Self {
        self.steps.retention = retention;
        self
    }

    /// Compresses the logs of threads that were not written for this time (FI-14). Logs are never compressed without
    /// this.
    ///
    /// # Errors
    /// `Unsupported` if the backend does not keep logs in files.
    pub fn compressing_logs_after(mut self, idle: Duration) -> Result<Self> {
        if self.steps.log_files.is_none() {
            return Err(unsupported("compressing logs (open a store that keeps them in files: `file:PATH`)"));
        }
        self.steps.compress_after = Some(idle);
        Ok(self)
    }

    /// Sets what is told how many logs of a round were compressed, of how many. If it stops the call, the round goes on
    /// without compressing further logs.
    #[must_use]
    pub fn with_progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.steps.progress = progress;
        self
    }

    /// Sets the interval between rounds. Each delay is a random time between half of the interval and the interval.
    #[must_use]
    pub const fn every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Makes each round a dry run: it counts what it would do, and changes nothing. At most 1,000 dispatches, 1,000
    /// rows and 1,000 threads are counted. Data that deleted threads left behind is not counted.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.steps.is_dry_run = true;
        self
    }

    /// Sets a function that is called after each round with the summary of the round and its first error.
    #[must_use]
    pub fn with_report(mut self, report: impl Fn(&MaintenanceSummary, Option<&Error>) + Send + Sync + 'static) -> Self {
        self.report = Some(Box::new(report));
        self
    }

    /// Does one round. If a step fails, the other steps are still done.
    ///
    /// # Errors
    /// The error of the first step that failed, returned after all other steps.
    pub async fn run_once(&self) -> Result<MaintenanceSummary> {
        match self.round().await {
            (_, Some(error)) => Err(error),
            (summary, None) => Ok(summary),
        }
    }

    async fn round(&self) -> (MaintenanceSummary, Option<Error>) {
        let mut summary = MaintenanceSummary::default();
        let error = self.steps.round(&mut summary).await;
        if let Some(report) = &self.report {
            report(&summary, error.as_ref());
        }
        (summary, error)
    }

    /// Starts maintenance on the current tokio runtime.
    ///
    /// Stopping it waits for the call in progress, and returns the sums of all rounds.
    ///
    /// # Errors
    /// `Unavailable` outside of a tokio runtime.
    pub fn start(self) -> Result<LoopHandle<MaintenanceSummary>> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|source| Error::unavailable("maintenance needs a tokio runtime").with_source(source))?;
        let stopping = self.steps.stopping.clone();
        let task = runtime.spawn(async move {
            let mut summary = MaintenanceSummary::default();
            while !self.steps.stopping.is_cancelled() {
                let (round, _reported_error) = self.round().await;
                summary.add(&round);
                tokio::select! {
                    () = self.steps.stopping.cancelled() => {}
                    () = sleep(jittered(self.interval)) => {}
                }
            }
            Ok(summary)
        });
        // Maintenance has no attempts. A request to abort them stops it, too.
        Ok(LoopHandle::new(task, stopping.clone(), stopping))
    }
}

impl fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, interval, report: _ } = self;
        f.debug_struct("Maintenance")
            .field("retention", &steps.retention)
            .field("every", interval)
            .finish_non_exhaustive()
    }
}
