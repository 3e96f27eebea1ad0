//! Events: their kind is the tenant's own name. They are in the scopes of the thread `same` and of the run with the
//! tenant's own name.

use async_trait::async_trait;
use store_core::{
    AppendEvents, Event, EventFilter, EventQuery, EventStore, NewEvent, Scope, Start, Subscribe, TrimBefore,
    TrimRequest,
};

use super::{TenantActions, TenantUnderTest, require};
use crate::{
    Failure, Verdict,
    check::{expect, expect_eq, expect_some},
    event::next,
    given::id,
};

pub(super) struct Events;

fn events(own: &TenantUnderTest) -> Result<&dyn EventStore, Failure> {
    require(own.stores.events.as_ref())
}

fn shared_thread() -> Scope {
    Scope::Thread(id("same"))
}

fn run(own: &TenantUnderTest) -> Scope {
    Scope::Run(id(&own.name))
}

/// The events that are in a scope.
async fn listed(own: &TenantUnderTest, scope: Scope) -> Result<Vec<Event>, Failure> {
    Ok(events(own)?.list_events(EventQuery::new(scope)).await?.items)
}

#[async_trait]
impl TenantActions for Events {
    async fn write_records(&self, own: &TenantUnderTest) -> Verdict {
        let before = events(own)?.load_scope(&run(own)).await?.appended;
        let mut followed = events(own)?.subscribe(Subscribe::new(shared_thread(), Start::Now)).await?.events;
        let draft = NewEvent::new(id(&own.name), [shared_thread(), run(own)]);
        let guarded = AppendEvents::new([draft.clone()]).expecting(shared_thread(), before);
        let keyed = AppendEvents::new([draft]).with_key(id("writer"), id(&format!("key {before}")));
        for request in [guarded, keyed] {
            expect(!events(own)?.append_events(request).await?.deduplicated, "the append was deduplicated")?;
            let event = expect_some(next(&mut followed).await.transpose()?, "event")?;
            expect_eq(event.kind.as_str(), &own.name)?;
        }
        Ok(())
    }

    async fn expect_own_records(&self, own: &TenantUnderTest) -> Verdict {
        for scope in [shared_thread(), run(own)] {
            let found = listed(own, scope.clone()).await?;
            expect_eq(found.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), [&own.name, &own.name])?;
            expect_eq(events(own)?.count_events(&scope, &EventFilter::default()).await?, 2)?;
            let mut followed = events(own)?.subscribe(Subscribe::new(scope, Start::First)).await?.events;
            for event in found {
                expect_eq(next(&mut followed).await.transpose()?, Some(event))?;
            }
        }
        Ok(())
    }

    async fn expect_foreign_unreachable(&self, own: &TenantUnderTest, foreign: &TenantUnderTest) -> Verdict {
        let scope = run(foreign);
        expect_eq(events(own)?.load_scope(&scope).await?.appended, 0)?;
        expect_eq(listed(own, scope.clone()).await?, [])?;
        let trimmed = TrimRequest::new(scope, TrimBefore::Time(store_core::Timestamp::MAX));
        expect_eq(events(own)?.trim_events(trimmed).await?.events, 0)
    }

    async fn change_and_remove(&self, own: &TenantUnderTest) -> Verdict {
        let found = listed(own, shared_thread()).await?;
        for event in &found {
            expect_eq(events(own)?.load_event(&event.id).await?.as_ref(), Some(event))?;
        }
        for scope in [shared_thread(), run(own)] {
            let trim = TrimRequest::new(scope, TrimBefore::Time(store_core::Timestamp::MAX));
            expect_eq(events(own)?.trim_events(trim).await?.events, 2)?;
        }
        expect_eq(listed(own, shared_thread()).await?, [])
    }
}
