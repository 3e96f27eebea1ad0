//! The steps of a dry run: they count what a round would do, and change nothing.

use std::collections::HashSet;

use store_core::{
    DispatchFilter, DispatchQuery, DispatchStatus, Error, MAX_PAGE, PageRequest, PruneRequest, Purge, PurgeOutbox,
    Result, ThreadId,
};

use super::{
    MaintenanceSummary,
    steps::{MAX_PER_CALL, RoundFailures, StepResult, Steps},
};

impl Steps {
    /// Does each step once without changing anything, and returns the first error. A real round repeats the call of a
    /// step until nothing is left. A dry round only counts, up to the limit of one call.
    pub(super) async fn dry_round(&self, summary: &mut MaintenanceSummary) -> Option<Error> {
        let mut failures = RoundFailures::default();
        let mut idle_threads = HashSet::new();
        failures.add_step("reclaim", &mut summary.reclaimed, Self::step_result(self.count_expired_claims().await));
        let mut is_limit_reached = failures.add_step(
            "purge dispatches",
            &mut summary.dispatches,
            Self::step_result(self.count_finished_dispatches().await),
        );
        is_limit_reached |=
            failures.add_step("purge outbox", &mut summary.outbox, Self::step_result(self.count_finished_rows().await));
        let pruned = self.find_idle_threads(&mut idle_threads).await;
        is_limit_reached |= failures.add_step("prune threads", &mut summary.threads, Self::step_result(pruned));
        failures.add_step("trim events", &mut summary.events, self.trim_or_count_events(&idle_threads).await);
        self.add_layer_steps(&mut failures, summary).await;
        failures.add_step("compress logs", &mut 0, Self::step_result(self.compress_logs(summary).await.map(|()| 0)));
        summary.more |= is_limit_reached;
        failures.finish(summary)
    }

    fn step_result(count_result: Result<u64>) -> StepResult {
        match count_result {
            Ok(count) => (count, None),
            Err(error) => (0, Some(error)),
        }
    }

    /// Counts the claims whose lease has expired.
    async fn count_expired_claims(&self) -> Result<u64> {
        let Some(mailbox) = self.mailbox() else { return Ok(0) };
        let query = DispatchQuery::new(DispatchFilter::default().in_status([DispatchStatus::Claimed]));
        let mut page = PageRequest::first(MAX_PAGE);
        let mut count = 0;
        loop {
            let listed = mailbox.list_dispatches(query.clone().with_page(page.clone())).await?;
            let now = self.mailbox_clock.now();
            let claims = listed.items.iter().filter_map(|dispatch| dispatch.claim.as_ref());
            count += claims.filter(|claim| claim.lease_until <= now).count() as u64;
            match listed.next {
                Some(next) if !self.stopping.is_cancelled() => page = page.after(next),
                _ => return Ok(count),
            }
        }
    }

    async fn count_finished_dispatches(&self) -> Result<u64> {
        let (Some(mailbox), Some(age)) = (self.mailbox(), self.retention.dispatches) else { return Ok(0) };
        let mut request = Purge::new(self.mailbox_clock.now().saturating_sub(age));
        request.dry_run = true;
        Ok(mailbox.purge(request).await?.removed)
    }

    async fn count_finished_rows(&self) -> Result<u64> {
        let (Some(outbox), Some(age)) = (&self.stores.outbox, self.retention.outbox) else { return Ok(0) };
        let mut request = PurgeOutbox::new(self.clock.now().saturating_sub(age));
        request.dry_run = true;
        outbox.purge_outbox(request).await
    }

    /// Counts the threads that would be pruned, and adds them to `idle_threads`. The caller does not count the events
    /// of these threads, because a real round trims only events of threads that still exist.
    async fn find_idle_threads(&self, idle_threads: &mut HashSet<ThreadId>) -> Result<u64> {
        let (Some(threads), Some(idle)) = (&self.stores.threads, self.retention.threads) else { return Ok(0) };
        let pruned = threads.prune_threads(PruneRequest { idle, limit: MAX_PER_CALL, dry_run: true }).await?;
        idle_threads.extend(pruned.threads);
        Ok(idle_threads.len() as u64)
    }
}
