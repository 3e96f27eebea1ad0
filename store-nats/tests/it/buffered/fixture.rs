//! How the suite opens a write buffer over a store in memory.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Need, OpenedStore, UnmetReason};
use store_core::{
    Capabilities, Clock, EventDelivery, IdSource, Limits, ManualClock, Result, Store, Survives, Timestamp, UuidSource,
};
use store_memory::{MemoryConfig, MemoryStore};
use store_nats::{BufferConfig, Buffered, TestPrefix};

use crate::fixture::config;

/// The largest record, in bytes: the default limit of a message, 1 MiB, minus the space for its other content.
const MAX_RECORD_BYTES: u64 = (1 << 20) - (128 << 10);

struct BufferedMemory;

pub(crate) fn fixture() -> impl Fixture {
    BufferedMemory
}

/// A store in memory and the name of the streams in front of it. The streams are removed when this value is dropped.
pub(crate) struct TempBuffer {
    pub(crate) clock: ManualClock,
    pub(crate) inner: MemoryStore,
    pub(crate) config: BufferConfig,
}

impl TempBuffer {
    pub(crate) fn new(limits: &Limits) -> Result<Self> {
        let clock = ManualClock::new(Timestamp::from_millis(1_763_700_000_000)?);
        let inner = MemoryConfig::default().with_clock(Arc::new(clock.clone())).with_limits(limits);
        let servers = config().with_prefix(&format!("test-{}", UuidSource.next_id()))?;
        let mut config = BufferConfig::new(servers)?;
        config.flush_interval = Duration::from_millis(50);
        Ok(Self { clock, inner: MemoryStore::open(inner)?, config })
    }

    pub(crate) async fn open(&self) -> Result<Buffered<MemoryStore>> {
        Buffered::open(self.config.clone(), self.inner.clone()).await
    }
}

impl Drop for TempBuffer {
    fn drop(&mut self) {
        let prefix = TestPrefix::from_config(self.config.servers.clone());
        let removal = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(prefix.remove())
        });
        removal.join().unwrap().unwrap();
    }
}

fn temp_buffer(opened: &OpenedStore) -> &TempBuffer {
    opened.guard().unwrap()
}

#[async_trait]
impl Fixture for BufferedMemory {
    fn name(&self) -> String {
        "memory behind a write buffer".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Survives::Nothing, MAX_RECORD_BYTES).with_event_delivery(EventDelivery::Push)
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        match need {
            Need::Reopen | Need::Damage => Some(UnmetReason::Unsupported("a store in memory ends with its last handle")),
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let temp_buffer = TempBuffer::new(&limits)?;
        Ok(OpenedStore::new(Arc::new(temp_buffer.open().await?), temp_buffer))
    }

    async fn reopen(&self, _opened: OpenedStore) -> Result<OpenedStore> {
        unreachable!("the fixture declares that it lacks this")
    }

    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(temp_buffer(opened).open().await?))
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        temp_buffer(opened).clock.advance(by);
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        let clock = &temp_buffer(opened).clock;
        clock.set(clock.now().saturating_sub(by));
    }

    async fn damage(&self, _opened: OpenedStore, _seed: u64) -> Result<OpenedStore> {
        unreachable!("the fixture declares that it lacks this")
    }
}
