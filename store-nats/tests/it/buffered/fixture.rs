//! How the suite opens a write buffer over a store in memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Need, OpenedStore, UnmetReason};
use store_core::{
    Capabilities, Clock, EventDelivery, IdSource, Limits, ManualClock, Page, PageRequest, Progress, ReclaimedSpace,
    Result, Store, StoreIdentity, Survives, TenantId, TenantStores, Timestamp, UuidSource, health::StoreHealth,
    inspect::Inspector,
};
use store_memory::{MemoryConfig, MemoryStore};
use store_nats::{BufferConfig, Buffered, TestPrefix};

use crate::fixture::config;

/// The largest record, in bytes: the default limit of a message, 1 MiB, minus the space for its other content.
const MAX_RECORD_BYTES: u64 = (1 << 20) - (128 << 10);

/// How buffers are opened over stores in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BufferedMemory {
    /// One node, without the mailbox of the inner store, whose claims cannot be settled in a commit.
    OneNode,
    /// One node with that mailbox.
    WithMailbox,
    /// Two nodes that take turns, without that mailbox.
    TwoNodes,
}

pub(crate) fn fixture() -> impl Fixture {
    BufferedMemory::OneNode
}

pub(crate) fn with_mailbox() -> impl Fixture {
    BufferedMemory::WithMailbox
}

pub(crate) fn two_nodes() -> impl Fixture {
    BufferedMemory::TwoNodes
}

/// Two nodes of one buffer: the handles of a tenant are those of one node and then of the other.
struct TwoNodes {
    nodes: [Buffered<MemoryStore>; 2],
    turn: AtomicUsize,
}

#[async_trait]
impl Store for TwoNodes {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        self.nodes[self.turn.fetch_add(1, Ordering::SeqCst) % 2].tenant(tenant)
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        self.nodes[1].list_tenants(page).await
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        self.nodes[0].delete_tenant(tenant).await
    }

    fn capabilities(&self) -> &Capabilities {
        self.nodes[0].capabilities()
    }

    fn identity(&self) -> Option<StoreIdentity> {
        self.nodes[1].identity()
    }

    async fn health(&self) -> Result<StoreHealth> {
        self.nodes[1].health().await
    }

    async fn sync(&self) -> Result<()> {
        self.nodes[1].sync().await
    }

    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        self.nodes[1].reclaim_space(progress).await
    }

    async fn close(&self) -> Result<()> {
        // The first one closes the inner store, too.
        self.nodes[1].clone().into_inner().await?;
        self.nodes[0].close().await
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        self.nodes[0].inspector()
    }
}

/// A store without its mailbox, and what belongs to the mailbox.
struct WithoutMailbox(Arc<dyn Store>);

#[async_trait]
impl Store for WithoutMailbox {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let mut stores = self.0.tenant(tenant)?;
        (stores.mailbox, stores.live, stores.wake_ups) = (None, None, None);
        Ok(stores)
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        self.0.list_tenants(page).await
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        self.0.delete_tenant(tenant).await
    }

    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn identity(&self) -> Option<StoreIdentity> {
        self.0.identity()
    }

    async fn health(&self) -> Result<StoreHealth> {
        self.0.health().await
    }

    async fn sync(&self) -> Result<()> {
        self.0.sync().await
    }

    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        self.0.reclaim_space(progress).await
    }

    async fn close(&self) -> Result<()> {
        self.0.close().await
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        self.0.inspector()
    }
}

/// Cases that write more at once than a message takes (NB-8).
const TOO_LARGE: [&str; 4] = [
    "commit::state_has_a_megabyte_at_most",
    "document::a_list_that_ends_early_goes_on",
    "log::large_contents_round_trip",
    "replay::bytes_are_returned_exactly",
];

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
        match self {
            Self::OneNode | Self::WithMailbox => "memory behind a write buffer",
            Self::TwoNodes => "memory behind a write buffer with two nodes",
        }
        .to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Survives::Nothing, MAX_RECORD_BYTES).with_event_delivery(EventDelivery::Push)
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        match need {
            Need::Reopen | Need::Damage => {
                Some(UnmetReason::Unsupported("a store in memory ends with its last handle"))
            }
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        let reason = "a message of the server has 1 MiB at most";
        TOO_LARGE.into_iter().map(|case| Gap { case, reason }).collect()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let temp_buffer = TempBuffer::new(&limits)?;
        let node = temp_buffer.open().await?;
        let store: Arc<dyn Store> = match self {
            Self::WithMailbox => Arc::new(node),
            Self::OneNode => Arc::new(WithoutMailbox(Arc::new(node))),
            Self::TwoNodes => {
                let nodes = [node, temp_buffer.open().await?];
                Arc::new(WithoutMailbox(Arc::new(TwoNodes { nodes, turn: AtomicUsize::new(0) })))
            }
        };
        Ok(OpenedStore::new(store, temp_buffer))
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
