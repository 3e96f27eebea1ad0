//! The outbox. Each tenant has a row with the target `own_id`, in a lane that all tenants use.

use async_trait::async_trait;
use store_core::{
    ClaimOutbox, ClaimToken, Commit, ErrorKind, ExtendOutbox, Json, NewOutboxRow, OutboxFilter, OutboxQuery, OutboxRow,
    OutboxSettlement, OutboxStore, PurgeOutbox, SettleOutbox, Timestamp,
};

use super::{TenantActions, TenantUnderTest, require_store};
use crate::{
    Failure, Verdict,
    check::{expect_eq, expect_kind},
    given::id,
};

pub(super) struct OutboxRowActions;

fn outbox(tenant: &TenantUnderTest) -> Result<&dyn OutboxStore, Failure> {
    require_store(tenant.stores.outbox.as_ref())
}

/// Checks that the list for this filter has one row, which is the tenant's own, and returns it.
async fn expect_only_own_row(tenant: &TenantUnderTest, filter: OutboxFilter) -> Result<OutboxRow, Failure> {
    let mut rows = outbox(tenant)?.list_outbox(OutboxQuery::new(filter)).await?.items;
    expect_eq(rows.iter().map(|row| row.target.as_str()).collect::<Vec<_>>(), [&tenant.own_id])?;
    Ok(rows.remove(0))
}

#[async_trait]
impl TenantActions for OutboxRowActions {
    async fn write_records(&self, tenant: &TenantUnderTest) -> Verdict {
        let row = NewOutboxRow::new(id("lane"), id(&tenant.own_id), Json::of(&tenant.own_id)?);
        let row = row.with_dedupe_key(id("dedupe")).with_order_key(id("order"));
        let commit = Commit::new(id("same")).with_outbox([row]);
        let _receipt = require_store(tenant.stores.commits.as_ref())?.commit(commit).await?;
        Ok(())
    }

    async fn expect_own_records(&self, tenant: &TenantUnderTest) -> Verdict {
        for filter in [OutboxFilter::default(), OutboxFilter::default().of_lane(id("lane"))] {
            expect_eq(outbox(tenant)?.count_outbox(&filter).await?.pending, 1)?;
            let row = expect_only_own_row(tenant, filter).await?;
            expect_eq(outbox(tenant)?.load_outbox(&row.id).await?, Some(row))?;
        }
        Ok(())
    }

    async fn expect_other_records_unreachable(
        &self,
        tenant: &TenantUnderTest,
        other_tenant: &TenantUnderTest,
    ) -> Verdict {
        let filter = OutboxFilter::default().for_target(id(&other_tenant.own_id));
        expect_eq(outbox(tenant)?.count_outbox(&filter).await?.pending, 0)?;
        let claim = ClaimOutbox::new(id("lane"), id("w"), 10).for_target(id(&other_tenant.own_id));
        expect_eq(outbox(tenant)?.claim_outbox(claim).await?.rows.len(), 0)?;
        let other_row_id = expect_only_own_row(other_tenant, OutboxFilter::default()).await?.id;
        expect_eq(outbox(tenant)?.load_outbox(&other_row_id).await?, None)?;
        let token = || ClaimToken::new("token");
        let extend = ExtendOutbox::new(other_row_id.clone(), token(), std::time::Duration::from_secs(1));
        expect_kind(outbox(tenant)?.extend_outbox(extend).await, ErrorKind::ClaimLost)?;
        let settle = SettleOutbox::new(other_row_id, token(), OutboxSettlement::Delivered);
        expect_kind(outbox(tenant)?.settle_outbox(vec![settle]).await?.remove(0), ErrorKind::ClaimLost).map(drop)
    }

    async fn change_and_remove(&self, tenant: &TenantUnderTest) -> Verdict {
        let mut claimed = outbox(tenant)?.claim_outbox(ClaimOutbox::new(id("lane"), id("w"), 100)).await?.rows;
        expect_eq(
            claimed.iter().map(|claimed_row| claimed_row.row.target.as_str()).collect::<Vec<_>>(),
            [&tenant.own_id],
        )?;
        let claimed_row = claimed.remove(0);
        outbox(tenant)?.settle_outbox(vec![claimed_row.settle(OutboxSettlement::Delivered)]).await?.remove(0)?;
        expect_eq(outbox(tenant)?.purge_outbox(PurgeOutbox::new(Timestamp::MAX)).await?, 1)?;
        expect_eq(outbox(tenant)?.list_outbox(OutboxQuery::new(OutboxFilter::default())).await?.items, [])
    }
}
