//! How the suite opens a store on NATS, and what the suite may do to the store.

use std::{env, sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Lack, Need, Opened};
use store_core::{Capabilities, Limits, Result, Store, Survives};
use store_nats::{NatsConfig, TestPrefix};
use test_servers::{NATS_CLUSTER_URL, NATS_URL};

enum OnNats {
    Alone,
    InCluster,
}

pub(crate) fn fixture() -> impl Fixture {
    OnNats::Alone
}

pub(crate) fn clustered() -> impl Fixture {
    OnNats::InCluster
}

/// Returns the URL of the server.
pub(crate) fn server() -> String {
    variable(NATS_URL)
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("set {name}, or use `cargo xtask test`, which starts servers"))
}

/// Returns the settings of a store in a test. Its data need not survive a failure of the server.
pub(crate) fn config() -> NatsConfig {
    at(&server(), 1)
}

fn at(url: &str, replicas: u32) -> NatsConfig {
    let mut config = NatsConfig::new(url).unwrap();
    (config.allow_unsafe, config.replicas) = (true, replicas);
    config
}

/// A prefix whose data is removed when this value is dropped.
pub(crate) struct Place(pub(crate) TestPrefix);

impl Place {
    pub(crate) async fn new(limits: Limits) -> Result<Self> {
        let mut config = config();
        config.limits = limits;
        Self::of(config).await
    }

    pub(crate) async fn of(config: NatsConfig) -> Result<Self> {
        TestPrefix::create(config).await.map(Self)
    }

    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.0.open().await?))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let prefix = self.0.clone();
        let gone = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(prefix.remove())
        });
        gone.join().unwrap().unwrap();
    }
}

fn place(opened: &Opened) -> &TestPrefix {
    let place: &Place = opened.guard().unwrap();
    &place.0
}

/// The largest record, in bytes: the default limit of a message, 1 MiB, minus the space for its other content.
const LARGEST: u64 = (1 << 20) - (128 << 10);

#[async_trait]
impl Fixture for OnNats {
    fn name(&self) -> String {
        match self {
            Self::Alone => "nats",
            Self::InCluster => "nats, a cluster",
        }
        .to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Survives::Process, LARGEST).of_a_server()
    }

    fn lack(&self, need: Need) -> Option<Lack> {
        match need {
            Need::Threads => Some(Lack::Unsupported("it keeps mailboxes only")),
            Need::Damage => Some(Lack::Unsupported("only the server can change the stored bytes")),
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<Opened> {
        let mut config = match self {
            Self::Alone => config(),
            Self::InCluster => at(&variable(NATS_CLUSTER_URL), 3),
        };
        config.limits = limits;
        let place = Place::of(config).await?;
        Ok(Opened::new(place.store().await?, place))
    }

    async fn reopen(&self, opened: Opened) -> Result<Opened> {
        opened.store.close().await?;
        drop(opened.store);
        let place = *opened.guard.downcast::<Place>().unwrap();
        Ok(Opened::new(place.store().await?, place))
    }

    async fn open_beside(&self, opened: &Opened) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(place(opened).open().await?))
    }

    async fn advance(&self, opened: &Opened, by: Duration) {
        place(opened).advance(by).await.unwrap();
    }

    async fn set_back(&self, opened: &Opened, by: Duration) {
        place(opened).set_back(by).await.unwrap();
    }

    async fn damage(&self, _opened: Opened, _seed: u64) -> Result<Opened> {
        unreachable!("the fixture declares that it lacks this")
    }
}
