//! The steps of maintenance. Each step repeats a call until nothing is left. Other processes may do the same at the
//! same time.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use store_core::{
    Clock, CommitCoordinator, Direction, DispatchFilter, DispatchQuery, DispatchStatus, Error, EventStore,
    IgnoreProgress, MAX_PAGE, MailboxStore, PageRequest, Progress, PruneRequest, Purge, PurgeOutbox, Result, RunFilter,
    RunQuery, Scope, TenantId, TenantStores, ThreadId, ThreadOrder, ThreadQuery, ThreadRunStore, Timestamp, TrimBefore,
    TrimRequest,
};
use tokio_util::sync::CancellationToken;

use super::{MaintenanceSummary, Retention, layers::Layers};
use crate::{CompressLogs, LogFiles, worker::telemetry};

/// The maximum number of records that one call ends or removes. Between two calls the store can serve other callers,
/// and maintenance notices when it is asked to stop.
pub(super) const MAX_PER_CALL: u32 = 1_000;

/// The stores and settings of the steps.
pub(super) struct Steps {
    pub(super) stores: TenantStores,
    pub(super) layers: Layers,
    pub(super) tenant: TenantId,
    pub(super) log_files: Option<Arc<dyn LogFiles>>,
    pub(super) compress_after: Option<Duration>,
    pub(super) progress: Arc<dyn Progress>,
    pub(super) retention: Retention,
    pub(super) is_dry_run: bool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) mailbox_clock: Arc<dyn Clock>,
    pub(super) settings_clock: Arc<dyn Clock>,
    pub(super) backend: &'static str,
    pub(super) stopping: CancellationToken,
}

/// The number of records that a step ended or removed, and the error that ended the step early.
pub(super) type StepResult = (u64, Option<Error>);

pub(super) const NOTHING_DONE: StepResult = (0, None);

/// The failures of a round.
#[derive(Default)]
pub(super) struct RoundFailures {
    first_error: Option<Error>,
    failed_steps: u64,
}

impl RoundFailures {
    /// Adds the result of a step. Returns whether the step reached the limit of one call.
    pub(super) fn add_step(&mut self, step: &'static str, count: &mut u64, (step_count, error): StepResult) -> bool {
        *count += step_count;
        if let Some(error) = error {
            tracing::warn!(step, %error, kind = error.kind().name(), "a step of maintenance failed");
            self.failed_steps += 1;
            self.first_error = self.first_error.take().or(Some(error));
        }
        step_count >= u64::from(MAX_PER_CALL)
    }

    /// Adds the number of failed steps to the summary, and returns the first error.
    pub(super) fn finish(self, summary: &mut MaintenanceSummary) -> Option<Error> {
        summary.failed += self.failed_steps;
        self.first_error
    }
}

impl Steps {
    /// Does each step once, and returns the first error.
    pub(super) async fn round(&self, summary: &mut MaintenanceSummary) -> Option<Error> {
        if self.is_dry_run {
            return self.dry_round(summary).await;
        }
        let mut failures = RoundFailures::default();
        failures.add_step("reclaim", &mut summary.reclaimed, self.reclaim().await);
        failures.add_step("purge dispatches", &mut summary.dispatches, self.purge_dispatches().await);
        failures.add_step("purge outbox", &mut summary.outbox, self.purge_outbox().await);
        failures.add_step("prune threads", &mut summary.threads, self.prune_threads().await);
        failures.add_step("purge deleted threads", &mut summary.deleted, self.purge_deleted().await);
        failures.add_step("trim events", &mut summary.events, self.trim_or_count_events(&HashSet::new()).await);
        self.add_layer_steps(&mut failures, summary).await;
        failures.add_step("compress logs", &mut 0, (0, self.compress_logs(summary).await.err()));
        failures.add_step("measure", &mut 0, (0, self.record_gauges().await.err()));
        failures.finish(summary)
    }

    pub(super) fn mailbox(&self) -> Option<&dyn MailboxStore> {
        self.stores.mailbox.as_deref()
    }

    fn commits(&self) -> Option<&dyn CommitCoordinator> {
        self.stores.commits.as_deref()
    }

    /// Repeats a call until it reports that nothing is left, or maintenance is asked to stop. Each call returns the
    /// number of records that it ended or removed, and whether more may be left.
    async fn repeat<F>(&self, call: impl Fn() -> F) -> StepResult
    where
        F: Future<Output = Result<(u64, bool)>>,
    {
        let mut count = 0;
        while !self.stopping.is_cancelled() {
            match call().await {
                Ok((call_count, more)) => {
                    count += call_count;
                    if !more {
                        break;
                    }
                }
                Err(error) => return (count, Some(error)),
            }
        }
        (count, None)
    }

    async fn reclaim(&self) -> StepResult {
        let Some(mailbox) = self.mailbox() else { return NOTHING_DONE };
        let step = || async {
            let ended = mailbox.reclaim(MAX_PER_CALL).await?;
            let count = ended.requeued.len() + ended.dead_lettered.len() + ended.superseded.len();
            Ok((count as u64, count >= MAX_PER_CALL as usize))
        };
        self.repeat(step).await
    }

    async fn purge_dispatches(&self) -> StepResult {
        let (Some(mailbox), Some(age)) = (self.mailbox(), self.retention.dispatches) else { return NOTHING_DONE };
        let cutoff = self.mailbox_clock.now().saturating_sub(age);
        let step = || async {
            let removed = mailbox.purge(Purge::new(cutoff)).await?.removed;
            Ok((removed, removed > 0))
        };
        self.repeat(step).await
    }

    async fn purge_outbox(&self) -> StepResult {
        let (Some(outbox), Some(age)) = (&self.stores.outbox, self.retention.outbox) else { return NOTHING_DONE };
        let cutoff = self.clock.now().saturating_sub(age);
        let step = || async {
            let removed = outbox.purge_outbox(PurgeOutbox::new(cutoff)).await?;
            Ok((removed, removed > 0))
        };
        self.repeat(step).await
    }

    async fn prune_threads(&self) -> StepResult {
        let (Some(threads), Some(idle)) = (&self.stores.threads, self.retention.threads) else { return NOTHING_DONE };
        let step = || async {
            let pruned = threads.prune_threads(PruneRequest { idle, limit: MAX_PER_CALL, dry_run: false }).await?;
            // A store may report that more threads remain although it pruned none. The next round then tries again.
            Ok((pruned.threads.len() as u64, pruned.more && !pruned.threads.is_empty()))
        };
        self.repeat(step).await
    }

    async fn purge_deleted(&self) -> StepResult {
        let Some(threads) = &self.stores.threads else { return NOTHING_DONE };
        match threads.purge_deleted(&self.until_stopped()).await {
            Ok(count) => (count, None),
            Err(error) => (0, Some(error)),
        }
    }

    /// Stops a call when maintenance is asked to stop.
    pub(super) fn until_stopped(&self) -> impl Progress + use<> {
        StoppableProgress { stopping: self.stopping.clone(), told: Arc::new(IgnoreProgress) }
    }

    /// Compresses the logs of threads that were not written for a while. A dry run only counts them.
    pub(super) async fn compress_logs(&self, summary: &mut MaintenanceSummary) -> Result<()> {
        let (Some(log_files), Some(idle)) = (&self.log_files, self.compress_after) else { return Ok(()) };
        let request = CompressLogs::new(idle);
        let request = if self.is_dry_run { request.dry() } else { request };
        let progress = StoppableProgress { stopping: self.stopping.clone(), told: Arc::clone(&self.progress) };
        let compressed = log_files.compress_logs(&self.tenant, request, &progress).await?;
        summary.logs += compressed.logs;
        summary.log_bytes_before += compressed.bytes_before;
        summary.log_bytes_after += compressed.bytes_after;
        summary.damaged_logs += compressed.damaged;
        Ok(())
    }

    /// Trims the scopes of each thread and of its runs, except for the threads in `excluded`. A dry run only counts the
    /// events that it would trim. Threads are listed in order of creation, so that each thread that exists from
    /// the first page to the last is found (PG-4).
    pub(super) async fn trim_or_count_events(&self, excluded: &HashSet<ThreadId>) -> StepResult {
        let (Some(commits), Some(age)) = (self.commits(), self.retention.events) else { return NOTHING_DONE };
        let (threads, events) = (commits.threads(), commits.events());
        let cutoff = self.clock.now().saturating_sub(age);
        let mut count = 0;
        let mut page = PageRequest::first(MAX_PAGE);
        while !self.stopping.is_cancelled() {
            let query =
                ThreadQuery::default().ordered(ThreadOrder::Creation, Direction::Forward).with_page(page.clone());
            let thread_page = match threads.list_threads(query).await {
                Ok(thread_page) => thread_page,
                Err(error) => return (count, Some(error)),
            };
            for thread in thread_page.items.into_iter().filter(|thread| !excluded.contains(&thread.id)) {
                if self.stopping.is_cancelled() {
                    return (count, None);
                }
                match self.trim_or_count_events_of((&*threads, &*events), &thread.id, cutoff).await {
                    Ok(trimmed) => count += trimmed,
                    Err(error) => return (count, Some(error)),
                }
            }
            let Some(next) = thread_page.next else { break };
            page = page.after(next);
        }
        (count, None)
    }

    /// Trims the scopes of one thread and of its runs. A dry run only counts the events that it would trim.
    async fn trim_or_count_events_of(
        &self,
        (threads, events): (&dyn ThreadRunStore, &dyn EventStore),
        thread: &ThreadId,
        cutoff: Timestamp,
    ) -> Result<u64> {
        let trim_scope = async |scope| {
            let mut request = TrimRequest::new(scope, TrimBefore::Time(cutoff));
            request.dry_run = self.is_dry_run;
            events.trim_events(request).await.map(|trimmed| trimmed.events)
        };
        let mut count = trim_scope(Scope::Thread(thread.clone())).await?;
        let mut page = PageRequest::first(MAX_PAGE);
        loop {
            let mut filter = RunFilter::default();
            filter.thread = Some(thread.clone());
            let mut query = RunQuery::new(filter);
            query.page = page.clone();
            let run_page = threads.list_runs(query).await?;
            for run in run_page.items {
                count += trim_scope(Scope::Run(run.id.clone())).await?;
            }
            let Some(next) = run_page.next else { return Ok(count) };
            page = page.after(next);
        }
    }

    /// Records the number of queued dispatches and the age of the oldest one as gauges, if this build records metrics.
    async fn record_gauges(&self) -> Result<()> {
        let Some(mailbox) = self.mailbox().filter(|_| telemetry::RECORDS_METRICS) else { return Ok(()) };
        let queued = mailbox.count_dispatches(None).await?.queued;
        let filter = DispatchFilter::default().in_status([DispatchStatus::Queued]);
        let query = DispatchQuery::new(filter).with_page(PageRequest::first(1));
        let oldest_dispatch = mailbox.list_dispatches(query).await?.items.into_iter().next();
        let age = oldest_dispatch.map_or(0, |oldest_dispatch| {
            self.mailbox_clock.now().as_millis().saturating_sub(oldest_dispatch.created_at.as_millis())
        });
        telemetry::record_queue(self.backend, queued, Duration::from_millis(age));
        Ok(())
    }
}

/// A progress receiver that stops the call when maintenance is asked to stop.
struct StoppableProgress {
    stopping: CancellationToken,
    /// Is told of the progress, and can stop the call, too.
    told: Arc<dyn Progress>,
}

impl Progress for StoppableProgress {
    fn advance(&self, done: u64, total: Option<u64>) -> bool {
        self.told.advance(done, total) && !self.stopping.is_cancelled()
    }
}

impl fmt::Debug for StoppableProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoppableProgress")
    }
}
