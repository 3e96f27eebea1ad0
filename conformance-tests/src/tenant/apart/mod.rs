//! Records of many tenants, contract by contract. No tenant reaches the records of another.

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

/// A tenant among others.
struct Own {
    /// The name of the tenant's own records. No other tenant has a record of this name.
    name: String,
    stores: TenantStores,
}

/// The actions of a tenant in one contract. Ids other than [`Own::name`] are the same in all tenants.
#[async_trait]
trait Part: Send + Sync {
    /// Writes what the tenant holds.
    async fn fill(&self, own: &Own) -> Verdict;

    /// Reads every list, count and search. They show what [`fill`](Self::fill) wrote, and nothing else.
    async fn look(&self, own: &Own) -> Verdict;

    /// Tries to read, change and delete what another tenant holds, by its ids. The
    /// answers are as if it did not exist.
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

/// Does the same with all tenants at once.
async fn each<'a, F: Future<Output = Verdict>>(tenants: &'a [Own], act: impl Fn(&'a Own) -> F) -> Verdict {
    let acts = tenants.iter().zip(TENANTS).map(|(own, name)| {
        let act = act(own);
        async move { act.await.map_err(|failure| failure.about(format!("tenant {name:?}"))) }
    });
    try_join_all(acts).await.map(drop)
}

/// Each of fifty tenants with similar names sees its own records in every list, count, claim and subscription.
/// It reaches nothing of the 49 others by id: the answers are as if that did not exist. When one tenant after
/// the other changes and removes its records, in both orders, the others stay as they are.
pub(super) async fn no_data_of_another_tenant_can_be_reached(given: &Given) -> Verdict {
    let part = &*part(given.contract());
    let mut tenants = Vec::new();
    for (at, tenant) in TENANTS.into_iter().enumerate() {
        tenants.push(Own { name: format!("own-{at:02}"), stores: given.tenant(tenant)? });
    }
    each(&tenants, |own| part.fill(own)).await?;
    each(&tenants, |own| part.look(own)).await?;
    // Quick tests try every 16th of the other tenants, beginning with the next one.
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

/// Lets each tenant in turn read its records, which are as they were, and then change and remove them.
async fn clear(part: &dyn Part, tenants: impl Iterator<Item = (&Own, &'static str)>) -> Verdict {
    for (own, name) in tenants {
        let about = |failure: Failure| failure.about(format!("tenant {name:?}"));
        part.look(own).await.map_err(about)?;
        part.clear(own).await.map_err(about)?;
    }
    Ok(())
}
