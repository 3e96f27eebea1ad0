//! The mailbox: a dispatch with the tenant's own name in the thread `same`, and another in the thread `stopped`.

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, ClaimToken, DispatchFilter, DispatchQuery, ErrorKind, Interrupt, MailboxStore, NewDispatch,
    PageRequest, Purge, Timestamp,
};

use super::{TenantActions, TenantUnderTest, require};
use crate::{
    Failure, Verdict,
    check::{expect_eq, expect_kind},
    given::id,
    mailbox::draft::{LEASE, ack},
};

pub(super) struct Dispatches;

fn mailbox(own: &TenantUnderTest) -> Result<&dyn MailboxStore, Failure> {
    require(own.stores.mailbox.as_ref())
}

#[async_trait]
impl TenantActions for Dispatches {
    async fn write_records(&self, own: &TenantUnderTest) -> Verdict {
        let work = |thread| NewDispatch::new(id(thread), id("run")).with_dedupe_key(id("dedupe"));
        for answer in mailbox(own)?.enqueue(vec![work("same").with_id(id(&own.name)), work("stopped")]).await? {
            answer?;
        }
        Ok(())
    }

    async fn expect_own_records(&self, own: &TenantUnderTest) -> Verdict {
        expect_eq(mailbox(own)?.count_dispatches(None).await?.queued, 2)?;
        let (mut by_run, mut by_key) = (DispatchFilter::default(), DispatchFilter::of_thread(id("same")));
        (by_run.run, by_key.dedupe_key) = (Some(id("run")), Some(id("dedupe")));
        expect_eq(mailbox(own)?.list_dispatches(DispatchQuery::new(by_run)).await?.items.len(), 2)?;
        let found = mailbox(own)?.list_dispatches(DispatchQuery::new(by_key)).await?.items;
        expect_eq(found.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), [&own.name])?;
        let mut ready = mailbox(own)?.list_ready_threads(PageRequest::default()).await?.items;
        ready.sort_by(|one, other| one.thread.cmp(&other.thread));
        expect_eq(ready.iter().map(|ready| ready.thread.as_str()).collect::<Vec<_>>(), ["same", "stopped"])
    }

    async fn expect_foreign_unreachable(&self, own: &TenantUnderTest, foreign: &TenantUnderTest) -> Verdict {
        let mailbox = mailbox(own)?;
        expect_eq(mailbox.load_dispatch(&id(&foreign.name)).await?, None)?;
        let claim = ClaimRequest::new(id("w"), LEASE).of_dispatch(id(&foreign.name));
        expect_eq(mailbox.claim(claim).await?.claimed.len(), 0)?;
        expect_kind(mailbox.cancel(&id(&foreign.name)).await, ErrorKind::NotFound)?;
        let claim = ClaimRef::new(id(&foreign.name), ClaimToken::new("token"));
        expect_kind(mailbox.extend(&claim, LEASE).await, ErrorKind::ClaimLost)?;
        expect_kind(mailbox.settle(vec![(claim, ack())]).await?.remove(0), ErrorKind::ClaimLost).map(drop)
    }

    async fn change_and_remove(&self, own: &TenantUnderTest) -> Verdict {
        let mailbox = mailbox(own)?;
        let epoch = mailbox.load_epoch(&id("stopped")).await?;
        let stopped = mailbox.interrupt(Interrupt::new(id("stopped"))).await?;
        expect_eq((stopped.superseded, stopped.epoch), (1, epoch + 1))?;
        let mut claimed = mailbox.claim(ClaimRequest::new(id("w"), LEASE).up_to(100)).await?.claimed;
        expect_eq(claimed.iter().map(|held| held.dispatch.id.as_str()).collect::<Vec<_>>(), [&own.name])?;
        let held = claimed.remove(0);
        mailbox.settle(vec![(held.claim(), ack())]).await?.remove(0)?;
        expect_eq(mailbox.purge(Purge::new(Timestamp::MAX)).await?.removed, 2)?;
        expect_eq(mailbox.count_dispatches(None).await?.total(), 0)
    }
}
