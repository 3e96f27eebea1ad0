//! How the suite opens a store on NATS, and what the suite may do to the store.

use std::{env, ops::Deref, sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Need, OpenedStore, UnmetReason};
use store_core::{Capabilities, Limits, Result, Store, Survives};
use store_nats::{NatsConfig, TestPrefix};
use test_servers::{NATS_CLUSTER_URL_VARIABLE, NATS_URL_VARIABLE};

enum NatsFixture {
    Alone,
    InCluster,
}

pub(crate) fn fixture() -> impl Fixture {
    NatsFixture::Alone
}

pub(crate) fn cluster_fixture() -> impl Fixture {
    NatsFixture::InCluster
}

/// Returns the URL of the server.
pub(crate) fn server_url() -> String {
    required_variable(NATS_URL_VARIABLE)
}

fn required_variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("set {name}, or use `cargo xtask test`, which starts servers"))
}

/// Returns the settings of a store in a test. Its data need not survive a failure of the server.
pub(crate) fn config() -> NatsConfig {
    config_for(&server_url(), 1)
}

fn config_for(url: &str, replicas: u32) -> NatsConfig {
    let mut config = NatsConfig::new(url).unwrap();
    (config.allow_unsafe, config.replicas) = (true, replicas);
    config
}

/// The data of a store under a prefix of its own, with a clock that a test moves. The data is removed when this value
/// is dropped.
pub(crate) struct TempStore {
    prefix: TestPrefix,
}

impl Deref for TempStore {
    type Target = TestPrefix;

    fn deref(&self) -> &TestPrefix {
        &self.prefix
    }
}

impl TempStore {
    pub(crate) async fn new(limits: Limits) -> Result<Self> {
        let mut config = config();
        config.limits = limits;
        Self::with_config(config).await
    }

    pub(crate) async fn with_config(config: NatsConfig) -> Result<Self> {
        Ok(Self { prefix: TestPrefix::create(config).await? })
    }

    pub(crate) async fn open_store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.prefix.open().await?))
    }
}

impl Drop for TempStore {
    fn drop(&mut self) {
        let prefix = self.prefix.clone();
        let removal = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(prefix.remove())
        });
        removal.join().unwrap().unwrap();
    }
}

fn temp_store(opened: &OpenedStore) -> &TempStore {
    opened.guard().unwrap()
}

/// The largest record, in bytes: the default limit of a message, 1 MiB, minus the space for its other content.
const MAX_RECORD_BYTES: u64 = (1 << 20) - (128 << 10);

#[async_trait]
impl Fixture for NatsFixture {
    fn name(&self) -> String {
        match self {
            Self::Alone => "nats",
            Self::InCluster => "nats, a cluster",
        }
        .to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Survives::Process, MAX_RECORD_BYTES).on_server()
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        match need {
            Need::Threads => Some(UnmetReason::Unsupported("it keeps mailboxes only")),
            Need::Damage => Some(UnmetReason::Unsupported("only the server can change the stored bytes")),
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let mut config = match self {
            Self::Alone => config(),
            Self::InCluster => config_for(&required_variable(NATS_CLUSTER_URL_VARIABLE), 3),
        };
        config.limits = limits;
        let temp_store = TempStore::with_config(config).await?;
        Ok(OpenedStore::new(temp_store.open_store().await?, temp_store))
    }

    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore> {
        opened.store.close().await?;
        drop(opened.store);
        let temp_store = *opened.guard.downcast::<TempStore>().unwrap();
        Ok(OpenedStore::new(temp_store.open_store().await?, temp_store))
    }

    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(temp_store(opened).open().await?))
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        temp_store(opened).advance(by).await.unwrap();
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        temp_store(opened).set_back(by).await.unwrap();
    }

    async fn damage(&self, _opened: OpenedStore, _seed: u64) -> Result<OpenedStore> {
        unreachable!("the fixture declares that it lacks this")
    }
}
