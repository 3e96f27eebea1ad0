//! The outbox: a row whose target is the tenant's own name, in a lane that all tenants use.

use async_trait::async_trait;
use store_core::{
    ClaimOutbox, ClaimToken, Commit, ErrorKind, ExtendOutbox, Json, NewOutboxRow, OutboxFilter, OutboxQuery, OutboxRow,
    OutboxSettlement, OutboxStore, PurgeOutbox, SettleOutbox, Timestamp,
};

use super::{Own, Part, has};
use crate::{
    Failure, Verdict,
    check::{expect_eq, expect_kind},
    given::id,
};

pub(super) struct Rows;

fn outbox(own: &Own) -> Result<&dyn OutboxStore, Failure> {
    has(own.stores.outbox.as_ref())
}

/// Checks that the list for this filter has one row, which is the tenant's own, and returns it.
async fn row(own: &Own, filter: OutboxFilter) -> Result<OutboxRow, Failure> {
    let mut found = outbox(own)?.list_outbox(OutboxQuery::new(filter)).await?.items;
    expect_eq(found.iter().map(|row| row.target.as_str()).collect::<Vec<_>>(), [&own.name])?;
    Ok(found.remove(0))
}

#[async_trait]
impl Part for Rows {
    async fn fill(&self, own: &Own) -> Verdict {
        let row = NewOutboxRow::new(id("lane"), id(&own.name), Json::of(&own.name)?);
        let row = row.with_dedupe_key(id("dedupe")).with_order_key(id("order"));
        let commit = Commit::new(id("same")).with_outbox([row]);
        let _receipt = has(own.stores.commits.as_ref())?.commit(commit).await?;
        Ok(())
    }

    async fn look(&self, own: &Own) -> Verdict {
        for filter in [OutboxFilter::default(), OutboxFilter::default().of_lane(id("lane"))] {
            expect_eq(outbox(own)?.count_outbox(&filter).await?.pending, 1)?;
            let found = row(own, filter).await?;
            expect_eq(outbox(own)?.load_outbox(&found.id).await?, Some(found))?;
        }
        Ok(())
    }

    async fn reach(&self, own: &Own, foreign: &Own) -> Verdict {
        let filter = OutboxFilter::default().for_target(id(&foreign.name));
        expect_eq(outbox(own)?.count_outbox(&filter).await?.pending, 0)?;
        let claim = ClaimOutbox::new(id("lane"), id("w"), 10).for_target(id(&foreign.name));
        expect_eq(outbox(own)?.claim_outbox(claim).await?.rows.len(), 0)?;
        let there = row(foreign, OutboxFilter::default()).await?.id;
        expect_eq(outbox(own)?.load_outbox(&there).await?, None)?;
        let token = || ClaimToken::new("token");
        let extend = ExtendOutbox::new(there.clone(), token(), std::time::Duration::from_secs(1));
        expect_kind(outbox(own)?.extend_outbox(extend).await, ErrorKind::ClaimLost)?;
        let settle = SettleOutbox::new(there, token(), OutboxSettlement::Delivered);
        expect_kind(outbox(own)?.settle_outbox(vec![settle]).await?.remove(0), ErrorKind::ClaimLost).map(drop)
    }

    async fn clear(&self, own: &Own) -> Verdict {
        let mut claimed = outbox(own)?.claim_outbox(ClaimOutbox::new(id("lane"), id("w"), 100)).await?.rows;
        expect_eq(claimed.iter().map(|held| held.row.target.as_str()).collect::<Vec<_>>(), [&own.name])?;
        let held = claimed.remove(0);
        outbox(own)?.settle_outbox(vec![held.settle(OutboxSettlement::Delivered)]).await?.remove(0)?;
        expect_eq(outbox(own)?.purge_outbox(PurgeOutbox::new(Timestamp::MAX)).await?, 1)?;
        expect_eq(outbox(own)?.list_outbox(OutboxQuery::new(OutboxFilter::default())).await?.items, [])
    }
}
