//! The outbox: a row whose target is the tenant's own name, in a lane that all tenants use.

use async_trait::async_trait;
use store_core::{
    ClaimOutbox, ClaimToken, Commit, ErrorKind, ExtendOutbox, Json, NewOutboxRow, OutboxFilter, OutboxQuery, OutboxRow,
    OutboxSettlement, OutboxStore, PurgeOutbox, SettleOutbox, Timestamp,
};

use super::{TenantActions, TenantUnderTest, require};
use crate::{
    Failure, Verdict,
    check::{expect_eq, expect_kind},
    given::id,
};

pub(super) struct Rows;

fn outbox(own: &TenantUnderTest) -> Result<&dyn OutboxStore, Failure> {
    require(own.stores.outbox.as_ref())
}

/// Checks that the list for this filter has one row, which is the tenant's own, and returns it.
async fn only_row(own: &TenantUnderTest, filter: OutboxFilter) -> Result<OutboxRow, Failure> {
    let mut found = outbox(own)?.list_outbox(OutboxQuery::new(filter)).await?.items;
    expect_eq(found.iter().map(|row| row.target.as_str()).collect::<Vec<_>>(), [&own.name])?;
    Ok(found.remove(0))
}

#[async_trait]
impl TenantActions for Rows {
    async fn write_records(&self, own: &TenantUnderTest) -> Verdict {
        let row = NewOutboxRow::new(id("lane"), id(&own.name), Json::of(&own.name)?);
        let row = row.with_dedupe_key(id("dedupe")).with_order_key(id("order"));
        let commit = Commit::new(id("same")).with_outbox([row]);
        let _receipt = require(own.stores.commits.as_ref())?.commit(commit).await?;
        Ok(())
    }

    async fn expect_own_records(&self, own: &TenantUnderTest) -> Verdict {
        for filter in [OutboxFilter::default(), OutboxFilter::default().of_lane(id("lane"))] {
            expect_eq(outbox(own)?.count_outbox(&filter).await?.pending, 1)?;
            let found = only_row(own, filter).await?;
            expect_eq(outbox(own)?.load_outbox(&found.id).await?, Some(found))?;
        }
        Ok(())
    }

    async fn expect_foreign_unreachable(&self, own: &TenantUnderTest, foreign: &TenantUnderTest) -> Verdict {
        let filter = OutboxFilter::default().for_target(id(&foreign.name));
        expect_eq(outbox(own)?.count_outbox(&filter).await?.pending, 0)?;
        let claim = ClaimOutbox::new(id("lane"), id("w"), 10).for_target(id(&foreign.name));
        expect_eq(outbox(own)?.claim_outbox(claim).await?.rows.len(), 0)?;
        let foreign_id = only_row(foreign, OutboxFilter::default()).await?.id;
        expect_eq(outbox(own)?.load_outbox(&foreign_id).await?, None)?;
        let token = || ClaimToken::new("token");
        let extend = ExtendOutbox::new(foreign_id.clone(), token(), std::time::Duration::from_secs(1));
        expect_kind(outbox(own)?.extend_outbox(extend).await, ErrorKind::ClaimLost)?;
        let settle = SettleOutbox::new(foreign_id, token(), OutboxSettlement::Delivered);
        expect_kind(outbox(own)?.settle_outbox(vec![settle]).await?.remove(0), ErrorKind::ClaimLost).map(drop)
    }

    async fn change_and_remove(&self, own: &TenantUnderTest) -> Verdict {
        let mut claimed = outbox(own)?.claim_outbox(ClaimOutbox::new(id("lane"), id("w"), 100)).await?.rows;
        expect_eq(claimed.iter().map(|held| held.row.target.as_str()).collect::<Vec<_>>(), [&own.name])?;
        let held = claimed.remove(0);
        outbox(own)?.settle_outbox(vec![held.settle(OutboxSettlement::Delivered)]).await?.remove(0)?;
        expect_eq(outbox(own)?.purge_outbox(PurgeOutbox::new(Timestamp::MAX)).await?, 1)?;
        expect_eq(outbox(own)?.list_outbox(OutboxQuery::new(OutboxFilter::default())).await?.items, [])
    }
}
