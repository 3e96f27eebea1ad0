//! Opens stores of the example for the suite.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Need, OpenedStore, UnmetReason};
use mailbox_backend_example::MapStore;
use store_core::{Capabilities, Clock, EventDelivery, Limits, ManualClock, Result, Store, Survives, Timestamp};

use crate::gaps::CASES_WITH_THREADS;

/// Opens stores. The cases that are known to fail are those of one contract, because some cases run for several.
struct MapFixture {
    gaps: &'static [&'static str],
}

pub(crate) fn fixture() -> impl Fixture {
    MapFixture { gaps: &[] }
}

pub(crate) fn document_fixture() -> impl Fixture {
    MapFixture { gaps: CASES_WITH_THREADS }
}

fn clock(opened: &OpenedStore) -> &ManualClock {
    opened.guard().unwrap()
}

#[async_trait]
impl Fixture for MapFixture {
    fn name(&self) -> String {
        "mailbox-backend-example".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Survives::Nothing, Limits::default().record_bytes).with_event_delivery(EventDelivery::Push)
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        match need {
            Need::Threads => Some(UnmetReason::Unsupported("it keeps no threads")),
            Need::Reopen | Need::Damage => Some(UnmetReason::Unsupported("it ends with its last handle")),
            Need::SecondOpening => Some(UnmetReason::Unsupported("each opening makes a store of its own")),
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        self.gaps.iter().map(|case| Gap { case, reason: "it keeps no threads" }).collect()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let clock = ManualClock::new(Timestamp::from_millis(1_763_700_000_000)?);
        let store = MapStore::open(Arc::new(clock.clone()), &limits)?;
        Ok(OpenedStore::new(Arc::new(store), clock))
    }

    async fn reopen(&self, _opened: OpenedStore) -> Result<OpenedStore> {
        unreachable!("`why_unmet` excludes this call")
    }

    async fn open_second_time(&self, _opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        unreachable!("`why_unmet` excludes this call")
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        clock(opened).advance(by);
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        let clock = clock(opened);
        clock.set(clock.now().saturating_sub(by));
    }

    async fn damage(&self, _opened: OpenedStore, _seed: u64) -> Result<OpenedStore> {
        unreachable!("`why_unmet` excludes this call")
    }
}
