//! For each contract: fifty tenants have records with similar and equal ids, and no tenant reaches the records of
//! another.

mod documents;
mod events;
mod logs;
mod mailbox;
mod outbox;
mod pending;
mod threads;

use std::{future::Future, sync::Arc};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use store_core::TenantStores;

use super::similar_names::SIMILAR_TENANT_NAMES;
use crate::{Contract, Failure, Given, TestLength, Verdict};

/// One of the tenants.
struct TenantUnderTest {
    /// An id that only this tenant gives to its records. In no other tenant is there a record with this id.
    own_id: String,
    stores: TenantStores,
}

/// How a tenant writes and reads the records of one contract. All ids except [`TenantUnderTest::own_id`] are the same
/// in all tenants.
#[async_trait]
trait TenantActions: Send + Sync {
    /// Writes the tenant's records.
    async fn write_records(&self, tenant: &TenantUnderTest) -> Verdict;

    /// Checks that every list, count and search shows the records that [`write_records`](Self::write_records) wrote,
    /// and no others.
    async fn expect_own_records(&self, tenant: &TenantUnderTest) -> Verdict;

    /// Tries to read, change and delete the records of another tenant, by their ids. Checks that the answers are those
    /// for records that do not exist.
    async fn expect_other_records_unreachable(
        &self,
        tenant: &TenantUnderTest,
        other_tenant: &TenantUnderTest,
    ) -> Verdict;

    /// Changes and removes everything that [`write_records`](Self::write_records) wrote.
    async fn change_and_remove(&self, tenant: &TenantUnderTest) -> Verdict;
}

fn actions_for(contract: Contract) -> Box<dyn TenantActions> {
    match contract {
        Contract::ThreadRunStore => Box::new(threads::ThreadActions),
        Contract::CommitCoordinator => Box::new(logs::LogActions),
        Contract::PendingStore => Box::new(pending::QueueActions),
        Contract::EventStore => Box::new(events::EventActions),
        Contract::MailboxStore | Contract::LiveChannel => Box::new(mailbox::DispatchActions),
        Contract::OutboxStore => Box::new(outbox::OutboxRowActions),
        Contract::DocumentStore | Contract::ObjectStore => Box::new(documents::DocumentActions),
    }
}

fn require_store<T: ?Sized>(store: Option<&Arc<T>>) -> Result<&T, Failure> {
    store.map(|store| &**store).ok_or_else(|| Failure::new("the store does not have the contract"))
}

/// Calls `act` for all tenants concurrently.
async fn for_all_tenants<'a, F: Future<Output = Verdict>>(
    tenants: &'a [TenantUnderTest],
    act: impl Fn(&'a TenantUnderTest) -> F,
) -> Verdict {
    let futures = tenants.iter().zip(SIMILAR_TENANT_NAMES).map(|(tenant, name)| {
        let act = act(tenant);
        async move { act.await.map_err(|failure| failure.about(format!("tenant {name:?}"))) }
    });
    try_join_all(futures).await.map(drop)
}

/// Each of fifty tenants with similar names sees only its own records in every list, count, claim and subscription.
/// Calls with ids of records of the 49 others are answered as if these records did not exist. After that, the tenants
/// change and remove their records, one tenant at a time. They write the records again, and then change and remove them
/// in the reverse order. Before a tenant changes its records, it checks that they are still unchanged.
pub(super) async fn no_data_of_another_tenant_can_be_reached(given: &Given) -> Verdict {
    let actions = &*actions_for(given.contract());
    let mut tenants = Vec::new();
    for (at, tenant) in SIMILAR_TENANT_NAMES.into_iter().enumerate() {
        tenants.push(TenantUnderTest { own_id: format!("own-{at:02}"), stores: given.tenant(tenant)? });
    }
    for_all_tenants(&tenants, |tenant| actions.write_records(tenant)).await?;
    for_all_tenants(&tenants, |tenant| actions.expect_own_records(tenant)).await?;
    // Quick tests try only every 16th of the other tenants, beginning with the one after `tenant`.
    let (all_tenants, step) = (&tenants, TestLength::pick_by_env(16, 1, 1));
    for_all_tenants(&tenants, |tenant| async move {
        let others = all_tenants
            .iter()
            .chain(all_tenants)
            .skip_while(|other| other.own_id != tenant.own_id)
            .skip(1)
            .take(all_tenants.len() - 1);
        for other_tenant in others.step_by(step) {
            actions
                .expect_other_records_unreachable(tenant, other_tenant)
                .await
                .map_err(|failure| failure.about(&other_tenant.own_id))?;
        }
        Ok(())
    })
    .await?;
    change_and_remove_all(actions, tenants.iter().zip(SIMILAR_TENANT_NAMES)).await?;
    for_all_tenants(&tenants, |tenant| actions.write_records(tenant)).await?;
    change_and_remove_all(actions, tenants.iter().zip(SIMILAR_TENANT_NAMES).rev()).await
}

/// In the order of `tenants`, each tenant checks that its records are unchanged, and then changes and removes them.
async fn change_and_remove_all(
    actions: &dyn TenantActions,
    tenants: impl Iterator<Item = (&TenantUnderTest, &'static str)>,
) -> Verdict {
    for (tenant, name) in tenants {
        let about = |failure: Failure| failure.about(format!("tenant {name:?}"));
        actions.expect_own_records(tenant).await.map_err(about)?;
        actions.change_and_remove(tenant).await.map_err(about)?;
    }
    Ok(())
}
