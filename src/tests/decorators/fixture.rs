//! How the suite opens stores in memory, through a decorator.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Need, OpenedStore, UnmetReason};
use store_core::{Capabilities, Clock, EventDelivery, Limits, ManualClock, Result, Store, Survives, Timestamp};
use store_memory::{MemoryConfig, MemoryStore};

/// Wraps a store.
pub(super) type Wrap = fn(Arc<dyn Store>) -> Arc<dyn Store>;

/// Opens stores in memory, and wraps them.
pub(super) struct WrappedMemory {
    pub(super) name: &'static str,
    pub(super) wrap: Wrap,
}

const NOTHING_SURVIVES: UnmetReason = UnmetReason::Unsupported("a store in memory ends with its last handle");

fn clock(opened_store: &OpenedStore) -> &ManualClock {
    opened_store.guard().unwrap()
}

#[async_trait]
impl Fixture for WrappedMemory {
    fn name(&self) -> String {
        format!("memory, {}", self.name)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Survives::Nothing, Limits::default().record_bytes)
            .with_event_delivery(EventDelivery::Push)
            .with_fencing()
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        match need {
            Need::Reopen | Need::Damage => Some(NOTHING_SURVIVES),
            Need::SecondOpening => Some(UnmetReason::Unsupported("each opening makes a store of its own")),
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let clock = ManualClock::new(Timestamp::from_millis(1_763_700_000_000)?);
        let config = MemoryConfig::default().with_clock(Arc::new(clock.clone())).with_limits(&limits);
        Ok(OpenedStore::new((self.wrap)(Arc::new(MemoryStore::open(config)?)), clock))
    }

    async fn reopen(&self, _opened: OpenedStore) -> Result<OpenedStore> {
        unreachable!("the fixture declares that it lacks this")
    }

    async fn open_second_time(&self, _opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        unreachable!("the fixture declares that it lacks this")
    }

    async fn advance(&self, opened_store: &OpenedStore, by: Duration) {
        clock(opened_store).advance(by);
    }

    async fn set_back(&self, opened_store: &OpenedStore, by: Duration) {
        let clock = clock(opened_store);
        clock.set(clock.now().saturating_sub(by));
    }

    async fn damage(&self, _opened: OpenedStore, _seed: u64) -> Result<OpenedStore> {
        unreachable!("the fixture declares that it lacks this")
    }
}
