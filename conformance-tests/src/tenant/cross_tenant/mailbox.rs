//! The mailbox. Each tenant has a dispatch with the id `own_id` for the thread `same`, and another dispatch for the
//! thread `stopped`. The ids of these two threads are the same in all tenants.

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, ClaimToken, DispatchFilter, DispatchQuery, ErrorKind, Interrupt, MailboxStore, NewDispatch,
    PageRequest, Purge, Timestamp,
};

use super::{TenantActions, TenantUnderTest, require_store};
use crate::{
    Failure, Verdict,
    check::{expect_eq, expect_kind},
    given::id,
    mailbox::helpers::{LEASE, ack},
};

pub(super) struct DispatchActions;

fn mailbox(tenant: &TenantUnderTest) -> Result<&dyn MailboxStore, Failure> {
    require_store(tenant.stores.mailbox.as_ref())
}

#[async_trait]
impl TenantActions for DispatchActions {
    async fn write_records(&self, tenant: &TenantUnderTest) -> Verdict {
        let new_dispatch = |thread| NewDispatch::new(id(thread), id("run")).with_dedupe_key(id("dedupe"));
        for answer in mailbox(tenant)?
            .enqueue(vec![new_dispatch("same").with_id(id(&tenant.own_id)), new_dispatch("stopped")])
            .await?
        {
            answer?;
        }
        Ok(())
    }

    async fn expect_own_records(&self, tenant: &TenantUnderTest) -> Verdict {
        expect_eq(mailbox(tenant)?.count_dispatches(None).await?.queued, 2)?;
        let (mut by_run, mut by_key) = (DispatchFilter::default(), DispatchFilter::of_thread(id("same")));
        (by_run.run, by_key.dedupe_key) = (Some(id("run")), Some(id("dedupe")));
        expect_eq(mailbox(tenant)?.list_dispatches(DispatchQuery::new(by_run)).await?.items.len(), 2)?;
        let dispatches = mailbox(tenant)?.list_dispatches(DispatchQuery::new(by_key)).await?.items;
        expect_eq(dispatches.iter().map(|dispatch| dispatch.id.as_str()).collect::<Vec<_>>(), [&tenant.own_id])?;
        let mut ready = mailbox(tenant)?.list_ready_threads(PageRequest::default()).await?.items;
        ready.sort_by(|one, other| one.thread.cmp(&other.thread));
        expect_eq(ready.iter().map(|ready| ready.thread.as_str()).collect::<Vec<_>>(), ["same", "stopped"])
    }

    async fn expect_other_records_unreachable(
        &self,
        tenant: &TenantUnderTest,
        other_tenant: &TenantUnderTest,
    ) -> Verdict {
        let mailbox = mailbox(tenant)?;
        expect_eq(mailbox.load_dispatch(&id(&other_tenant.own_id)).await?, None)?;
        let claim = ClaimRequest::new(id("w"), LEASE).of_dispatch(id(&other_tenant.own_id));
        expect_eq(mailbox.claim(claim).await?.claimed.len(), 0)?;
        expect_kind(mailbox.cancel(&id(&other_tenant.own_id)).await, ErrorKind::NotFound)?;
        let claim = ClaimRef::new(id(&other_tenant.own_id), ClaimToken::new("token"));
        expect_kind(mailbox.extend(&claim, LEASE).await, ErrorKind::ClaimLost)?;
        expect_kind(mailbox.settle(vec![(claim, ack())]).await?.remove(0), ErrorKind::ClaimLost).map(drop)
    }

    async fn change_and_remove(&self, tenant: &TenantUnderTest) -> Verdict {
        let mailbox = mailbox(tenant)?;
        let epoch = mailbox.load_epoch(&id("stopped")).await?;
        let interrupted = mailbox.interrupt(Interrupt::new(id("stopped"))).await?;
        expect_eq((interrupted.superseded, interrupted.epoch), (1, epoch + 1))?;
        let mut claims = mailbox.claim(ClaimRequest::new(id("w"), LEASE).up_to(100)).await?.claimed;
        expect_eq(
            claims.iter().map(|claimed_dispatch| claimed_dispatch.dispatch.id.as_str()).collect::<Vec<_>>(),
            [&tenant.own_id],
        )?;
        let claimed_dispatch = claims.remove(0);
        mailbox.settle(vec![(claimed_dispatch.claim(), ack())]).await?.remove(0)?;
        expect_eq(mailbox.purge(Purge::new(Timestamp::MAX)).await?.removed, 2)?;
        expect_eq(mailbox.count_dispatches(None).await?.total(), 0)
    }
}
