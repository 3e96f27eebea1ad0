//! Implements the contracts of the mailbox for the handle of a tenant.

use std::time::Duration;

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, Claims, Clock, Dispatch, DispatchClaim, DispatchCounts, DispatchId, DispatchQuery,
    Enqueued, InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, MailboxReader,
    NewDispatch, Page, PageRequest, Purge, Purged, ReadyThread, Reclaimed, Requeue, Result, Settled, Settlement,
    ThreadId, Timestamp, check_limit,
};

use super::settle;
use crate::model::{
    Bug,
    commit::Environment,
    handle::{TenantHandle, yield_to_others},
    store::SharedModel,
};

impl TenantHandle {
    /// Returns what a read of the mailbox at the time `now` depends on: this time, the limits and the planted bug.
    fn environment_at(&self, now: Timestamp) -> Environment<'_> {
        let SharedModel { limits, id_source, bug, .. } = &*self.shared;
        Environment {
            now,
            limits,
            id_source,
            bug: *bug,
            tenant_and_cursor_key: (&self.tenant, self.shared.cursors.key()),
        }
    }

    /// Returns whether a claim at this time would get a dispatch.
    pub(in crate::model) fn is_ready(&self, now: Timestamp) -> Result<bool> {
        let env = self.environment_at(now);
        self.read(|view| Ok(!view.tenant.mailbox.ready_threads_with_keys(&env)?.is_empty()))
    }
}

#[async_trait]
impl MailboxProducer for TenantHandle {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        self.write(|tenant, env| {
            check_limit("dispatches", dispatches.len() as u64, env.limits.call_dispatches)?;
            Ok(dispatches.iter().map(|draft| tenant.mailbox.enqueue(draft, &env)).collect())
        })
    }

    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch> {
        self.write(|tenant, env| tenant.mailbox.cancel(id, env.now))
    }

    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted> {
        self.write(|tenant, env| tenant.mailbox.interrupt(&request, &env))
    }
}

#[async_trait]
impl MailboxConsumer for TenantHandle {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        if self.shared.bug == Some(Bug::ClaimNeedsEarlierWait) && self.shared.live_state().wait_count == 0 {
            return Ok(Claims::default());
        }
        let mut claims = self.write(|tenant, env| tenant.mailbox.claim(&request, &env));
        if self.shared.bug == Some(Bug::ClaimsBySuffix) && claims.as_ref().is_ok_and(|found| found.claimed.is_empty()) {
            for other in self.tenants_mistaken_for_this_one(|name| name.ends_with(self.tenant.as_str())) {
                claims = other.write(|tenant, env| tenant.mailbox.claim(&request, &env));
            }
        }
        self.yield_if_bug(Bug::ClaimKept).await;
        claims
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        self.write(|tenant, env| tenant.mailbox.extend(claim, by, &env))
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        self.write(|tenant, env| tenant.mailbox.start(claim, &instance, &env))
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        self.write(|tenant, env| {
            check_limit("settlements", settlements.len() as u64, env.limits.call_dispatches)?;
            let settle_one =
                |(claim, settlement): &(ClaimRef, Settlement)| settle(&mut tenant.mailbox, claim, settlement, &env);
            Ok(settlements.iter().map(settle_one).collect())
        })
    }
}

#[async_trait]
impl MailboxReader for TenantHandle {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        self.read(|view| Ok(view.tenant.mailbox.load(id)))
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        self.read(|view| view.dispatches(&query, view.tenant.mailbox.list(&query)?))
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        self.read(|view| Ok(view.tenant.mailbox.count(thread)))
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        let env = self.environment_at(self.shared.clock.now());
        self.read(|view| view.ready_threads(&page, view.tenant.mailbox.ready_threads_with_keys(&env)?))
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        self.read(|view| Ok(view.tenant.mailbox.epoch_of(thread)))
    }
}

#[async_trait]
impl MailboxMaintenance for TenantHandle {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        if self.shared.bug == Some(Bug::ReclaimInTwoSteps) {
            self.write(|tenant, env| {
                tenant.mailbox.count_lost_attempts(&env);
                Ok(())
            })?;
            yield_to_others().await;
        }
        self.write(|tenant, env| tenant.mailbox.reclaim(limit, &env))
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        self.write(|tenant, env| tenant.mailbox.purge(&request, &env).map(Purged::new))
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        self.write(|tenant, env| {
            let requeue_targets = tenant.mailbox.requeue_targets(&request)?;
            let requeue_one = |id: DispatchId| {
                let requeued = tenant.mailbox.requeue(&id, env.now);
                (id, requeued)
            };
            Ok(requeue_targets.into_iter().map(requeue_one).collect())
        })
    }
}
