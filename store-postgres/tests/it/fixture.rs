//! How the suite opens a store on PostgreSQL, and what the suite may do to the store.

use std::{
    env,
    ops::Deref,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Need, OpenedStore, UnmetReason};
use sqlx::{Connection as _, PgConnection};
use store_core::{Capabilities, EventDelivery, Limits, Result, Store, Survives};
use store_postgres::{PostgresConfig, TestSchema};

/// How a test connects to the server.
#[derive(Debug, Clone, Copy)]
enum PostgresFixture {
    Directly,
    /// Through a transaction pooler.
    Pooled,
}

pub(crate) fn fixture() -> impl Fixture {
    PostgresFixture::Directly
}

pub(crate) fn pooled_fixture() -> impl Fixture {
    PostgresFixture::Pooled
}

/// Returns the URL of the server.
pub(crate) fn server_url() -> String {
    required_variable("AGENTSTORE_TEST_POSTGRES_URL")
}

fn required_variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("set {name}, or use `cargo xtask test`, which starts servers"))
}

/// Returns whether the server syncs what it acknowledges.
fn is_durable() -> bool {
    static DURABLE: OnceLock<bool> = OnceLock::new();
    *DURABLE.get_or_init(ask_whether_durable)
}

fn ask_whether_durable() -> bool {
    let query = async {
        let url = server_url();
        let mut connection = PgConnection::connect(&url).await.unwrap();
        let fsync: String = sqlx::query_scalar("SHOW fsync").fetch_one(&mut connection).await.unwrap();
        fsync == "on"
    };
    let query_thread = std::thread::spawn(|| {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(query)
    });
    query_thread.join().unwrap()
}

fn config(url: &str) -> PostgresConfig {
    let mut config = PostgresConfig::new(url).unwrap();
    config.allow_unsafe = true;
    config
}

/// A schema that is removed when this value is dropped. A schema from `reuse_or_create` is kept for the next test.
pub(crate) struct SchemaGuard(TestSchema);

impl Deref for SchemaGuard {
    type Target = TestSchema;

    fn deref(&self) -> &TestSchema {
        &self.0
    }
}

impl SchemaGuard {
    pub(crate) async fn new(limits: Limits) -> Result<Self> {
        let mut config = config(&server_url());
        config.limits = limits;
        TestSchema::create(config).await.map(Self)
    }

    /// Reuses a schema that an earlier test has left, or creates one.
    async fn reuse_or_create(url: &str, limits: Limits) -> Result<Self> {
        let mut config = config(url);
        config.limits = limits;
        TestSchema::reuse_or_create(&self::config(&server_url()), config).await.map(Self)
    }

    /// Returns an empty schema for one test of the suite.
    pub(crate) async fn for_suite(limits: Limits) -> Result<Self> {
        Self::reuse_or_create(&server_url(), limits).await
    }

    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.0.open().await?))
    }
}

impl Drop for SchemaGuard {
    fn drop(&mut self) {
        let schema = self.0.clone();
        let removal = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(schema.remove())
        });
        removal.join().unwrap().unwrap();
    }
}

fn test_schema(opened: &OpenedStore) -> &SchemaGuard {
    opened.guard().unwrap()
}

#[async_trait]
impl Fixture for PostgresFixture {
    fn name(&self) -> String {
        match self {
            Self::Directly => "postgres".to_owned(),
            Self::Pooled => "postgres behind a transaction pooler".to_owned(),
        }
    }

    fn capabilities(&self) -> Capabilities {
        let survives = if is_durable() { Survives::Power } else { Survives::Process };
        let capabilities = Capabilities::new(survives, Limits::default().record_bytes);
        capabilities.with_fencing().with_event_delivery(EventDelivery::Push).on_server()
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        match need {
            Need::Damage => Some(UnmetReason::Unsupported("only the server can change the stored bytes")),
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let url = match self {
            Self::Directly => server_url(),
            Self::Pooled => required_variable("AGENTSTORE_TEST_PGBOUNCER_URL"),
        };
        let test_schema = SchemaGuard::reuse_or_create(&url, limits).await?;
        Ok(OpenedStore::new(test_schema.store().await?, test_schema))
    }

    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore> {
        opened.store.close().await?;
        drop(opened.store);
        let test_schema = *opened.guard.downcast::<SchemaGuard>().unwrap();
        Ok(OpenedStore::new(test_schema.store().await?, test_schema))
    }

    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(test_schema(opened).open().await?))
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        test_schema(opened).advance(by).await.unwrap();
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        test_schema(opened).set_back(by).await.unwrap();
    }

    async fn damage(&self, _opened: OpenedStore, _seed: u64) -> Result<OpenedStore> {
        unreachable!("the fixture declares that it lacks this")
    }
}
