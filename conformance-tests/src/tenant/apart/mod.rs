//! For each contract: fifty tenants have records with similar and equal ids, and no tenant reaches those of another.

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

use super::names::TENANTS;
use crate::{Contract, Failure, Given, Length, Verdict};

/// One of the tenants.
struct Own {
    /// The id of the tenant's own records. No other tenant has a record with this id.
    name: String,
    stores: TenantStores,
}

/// How a tenant writes and reads the records of one contract. All ids except [`Own::name`] are the same in
/// all tenants.
#[async_trait]
trait Part: Send + Sync {
    /// Writes the tenant's records.
    async fn fill(&self, own: &Own) -> Verdict;

    /// Checks that every list, count and search shows the records that [`fill`](Self::fill) wrote,
    /// and no others.
    async fn look(&self, own: &Own) -> Verdict;

    /// Tries to read, change and delete the records of another tenant, by their ids. Checks that the answers are those
    /// for records that do not exist.
    async fn reach(&self, own: &Own, foreign: &Own) -> Verdict;

    /// Changes and removes everything that [`fill`](Self::fill) wrote.
    async fn clear(&self, own: &Own) -> Verdict;
}

fn part(contract: Contract) -> Box<dyn Part> {
    match contract {
        Contract::ThreadRunStore => Box::new(threads::Threads),
        Contract::CommitCoordinator => Box::new(logs::Logs),
        Contract::PendingStore => Box::new(pending::Queues),
        Contract::EventStore => Box::new(events::Events),
        Contract::MailboxStore | Contract::LiveChannel => Box::new(mailbox::Work),
        Contract::OutboxStore => Box::new(outbox::Rows),
    }
}

fn has<T: ?Sized>(store: Option<&Arc<T>>) -> Result<&T, Failure> {
    store.map(|store| &**store).ok_or_else(|| Failure::new("the store does not have the contract"))
}

/// Calls `act` for all tenants concurrently.
async fn each<'a, F: Future<Output = Verdict>>(tenants: &'a [Own], act: impl Fn(&'a Own) -> F) -> Verdict {
    let acts = tenants.iter().zip(TENANTS).map(|(own, name)| {
        let act = act(own);
        async move { act.await.map_err(|failure| failure.about(format!("tenant {name:?}"))) }
    });
    try_join_all(acts).await.map(drop)
}

/// Each of fifty tenants with similar names sees only its own records in every list, count, claim and subscription.
/// Calls with ids of records of the 49 others are answered as if these records did not exist. The tenants then change
/// and remove their records, one tenant after the other, first in one order and then in reverse. Each tenant finds its
/// records unchanged when it is its turn.
pub(super) async fn no_data_of_another_tenant_can_be_reached(given: &Given) -> Verdict {
    let part = &*part(given.contract());
    let mut tenants = Vec::new();
    for (at, tenant) in TENANTS.into_iter().enumerate() {
        tenants.push(Own { name: format!("own-{at:02}"), stores: given.tenant(tenant)? });
    }
    each(&tenants, |own| part.fill(own)).await?;
    each(&tenants, |own| part.look(own)).await?;
    // Quick tests try only every 16th of the other tenants, beginning with the one after `own`.
    let (all, one_in) = (&tenants, Length::choose(16, 1, 1));
    each(&tenants, |own| async move {
        let others = all.iter().chain(all).skip_while(|other| other.name != own.name).skip(1).take(all.len() - 1);
        for foreign in others.step_by(one_in) {
            part.reach(own, foreign).await.map_err(|failure| failure.about(&foreign.name))?;
        }
        Ok(())
    })
    .await?;
    clear(part, tenants.iter().zip(TENANTS)).await?;
    each(&tenants, |own| part.fill(own)).await?;
    clear(part, tenants.iter().zip(TENANTS).rev()).await
}

/// One tenant after the other checks that its records are unchanged, and then changes and removes them.
async fn clear(part: &dyn Part, tenants: impl Iterator<Item = (&Own, &'static str)>) -> Verdict {
    for (own, name) in tenants {
        let about = |failure: Failure| failure.about(format!("tenant {name:?}"));
        part.look(own).await.map_err(about)?;
        part.clear(own).await.map_err(about)?;
    }
    Ok(())
}
