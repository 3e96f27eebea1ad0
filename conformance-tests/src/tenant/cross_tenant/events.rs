//! Events. Each tenant has events of the kind `own_id`, in the scope of the run `own_id` and in the scope of the thread
//! `same`, which all tenants have.

use async_trait::async_trait;
use store_core::{
    AppendEvents, Event, EventFilter, EventQuery, EventStore, NewEvent, Scope, Subscribe, SubscriptionStart,
    TrimBefore, TrimRequest,
};

use super::{TenantActions, TenantUnderTest, require_store};
use crate::{
    Failure, Verdict,
    check::{expect, expect_eq, expect_some},
    event::next_event,
    given::id,
};

pub(super) struct EventActions;

fn events(tenant: &TenantUnderTest) -> Result<&dyn EventStore, Failure> {
    require_store(tenant.stores.events.as_ref())
}

fn shared_thread_scope() -> Scope {
    Scope::Thread(id("same"))
}

fn own_run_scope(tenant: &TenantUnderTest) -> Scope {
    Scope::Run(id(&tenant.own_id))
}

/// The events that are in a scope.
async fn list_events(tenant: &TenantUnderTest, scope: Scope) -> Result<Vec<Event>, Failure> {
    Ok(events(tenant)?.list_events(EventQuery::new(scope)).await?.items)
}

#[async_trait]
impl TenantActions for EventActions {
    async fn write_records(&self, tenant: &TenantUnderTest) -> Verdict {
        let appended_before = events(tenant)?.load_scope(&own_run_scope(tenant)).await?.appended;
        let mut stream =
            events(tenant)?.subscribe(Subscribe::new(shared_thread_scope(), SubscriptionStart::Now)).await?.events;
        let draft = NewEvent::new(id(&tenant.own_id), [shared_thread_scope(), own_run_scope(tenant)]);
        let guarded_append = AppendEvents::new([draft.clone()]).expecting(shared_thread_scope(), appended_before);
        let keyed_append = AppendEvents::new([draft]).with_key(id("writer"), id(&format!("key {appended_before}")));
        for request in [guarded_append, keyed_append] {
            expect(!events(tenant)?.append_events(request).await?.deduplicated, "the append was deduplicated")?;
            let event = expect_some(next_event(&mut stream).await.transpose()?, "event")?;
            expect_eq(event.kind.as_str(), &tenant.own_id)?;
        }
        Ok(())
    }

    async fn expect_own_records(&self, tenant: &TenantUnderTest) -> Verdict {
        for scope in [shared_thread_scope(), own_run_scope(tenant)] {
            let found_events = list_events(tenant, scope.clone()).await?;
            expect_eq(
                found_events.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(),
                [&tenant.own_id, &tenant.own_id],
            )?;
            expect_eq(events(tenant)?.count_events(&scope, &EventFilter::default()).await?, 2)?;
            let mut stream = events(tenant)?.subscribe(Subscribe::new(scope, SubscriptionStart::First)).await?.events;
            for event in found_events {
                expect_eq(next_event(&mut stream).await.transpose()?, Some(event))?;
            }
        }
        Ok(())
    }

    async fn expect_other_records_unreachable(
        &self,
        tenant: &TenantUnderTest,
        other_tenant: &TenantUnderTest,
    ) -> Verdict {
        let scope = own_run_scope(other_tenant);
        expect_eq(events(tenant)?.load_scope(&scope).await?.appended, 0)?;
        expect_eq(list_events(tenant, scope.clone()).await?, [])?;
        let trim = TrimRequest::new(scope, TrimBefore::Time(store_core::Timestamp::MAX));
        expect_eq(events(tenant)?.trim_events(trim).await?.events, 0)
    }

    async fn change_and_remove(&self, tenant: &TenantUnderTest) -> Verdict {
        let found_events = list_events(tenant, shared_thread_scope()).await?;
        for event in &found_events {
            expect_eq(events(tenant)?.load_event(&event.id).await?.as_ref(), Some(event))?;
        }
        for scope in [shared_thread_scope(), own_run_scope(tenant)] {
            let trim = TrimRequest::new(scope, TrimBefore::Time(store_core::Timestamp::MAX));
            expect_eq(events(tenant)?.trim_events(trim).await?.events, 2)?;
        }
        expect_eq(list_events(tenant, shared_thread_scope()).await?, [])
    }
}
