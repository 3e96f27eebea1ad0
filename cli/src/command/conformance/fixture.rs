//! Opens the stores that the suite needs. Each is a new store next to the named store, and of the same kind.

use std::{path::Path, sync::Arc, time::Duration};

use agentstore::{
    Capabilities, Clock, Detail, Error, Limits, ManualClock, OpenOptions, Result, Store, StoreUrl, SystemClock,
    nats::{NatsConfig, TestPrefix},
    postgres::{PostgresConfig, TestSchema},
    sqlite_mailbox::{SqliteConfig, SqliteMailbox},
};
use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Need, OpenedStore, UnmetReason};
use tempfile::TempDir;

use crate::sibling_dir::sibling_dir;

/// Opens stores of one kind next to a named store.
pub(super) struct UrlFixture {
    url: StoreUrl,
    capabilities: Capabilities,
}

/// Where the store of one case is. Dropping this value removes the data of the store.
enum CaseStore {
    /// In the memory of this process, or in a folder.
    Local { url: StoreUrl, limits: Limits, clock: ManualClock, _folder: Option<TempDir> },
    /// In a schema of a PostgreSQL database.
    PostgresSchema(Box<TestSchema>),
    /// Under a prefix on a NATS server.
    NatsPrefix(Box<TestPrefix>),
}

impl UrlFixture {
    /// Creates the fixture for stores of the same kind as `url`, and opens one such store to learn the capabilities.
    pub(super) async fn new(url: StoreUrl) -> Result<Self> {
        let case_store = CaseStore::new(&url, Limits::default()).await?;
        let store = case_store.open().await?;
        let capabilities = store.capabilities().clone();
        store.close().await?;
        Ok(Self { url, capabilities })
    }

    const fn keeps_mailboxes_only(&self) -> bool {
        matches!(self.url, StoreUrl::Sqlite(_) | StoreUrl::Nats(_))
    }
}

impl CaseStore {
    async fn new(url: &StoreUrl, limits: Limits) -> Result<Self> {
        let (folder, url) = match url {
            StoreUrl::Postgres(url) => {
                let mut config = PostgresConfig::new(url.with_password())?;
                config.limits = limits;
                return Ok(Self::PostgresSchema(Box::new(TestSchema::create(config).await?)));
            }
            StoreUrl::Nats(url) => {
                let mut config = NatsConfig::new(url.with_password())?;
                config.limits = limits;
                return Ok(Self::NatsPrefix(Box::new(TestPrefix::create(config).await?)));
            }
            StoreUrl::File(path) => {
                let folder = create_sibling_folder(path)?;
                let url = StoreUrl::File(folder.path().join("store"));
                (Some(folder), url)
            }
            StoreUrl::Sqlite(path) => {
                let folder = create_sibling_folder(path)?;
                let url = StoreUrl::Sqlite(folder.path().join("mailbox.db"));
                (Some(folder), url)
            }
            other => (None, other.clone()),
        };
        // The time of the store moves only when a case moves it.
        let clock = ManualClock::new(SystemClock.now());
        Ok(Self::Local { url, limits, clock, _folder: folder })
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        match self {
            Self::Local { url: StoreUrl::Sqlite(path), limits, clock, .. } => {
                let config = SqliteConfig::new(path).with_clock(Arc::new(clock.clone())).with_limits(limits);
                Ok(Arc::new(SqliteMailbox::open(config).await?))
            }
            Self::Local { url, limits, clock, .. } => {
                let options = OpenOptions::new().with_clock(Arc::new(clock.clone())).with_limits(limits.clone());
                Ok(options.open_url(url).await?.into_store())
            }
            Self::PostgresSchema(schema) => Ok(Arc::new(schema.open().await?)),
            Self::NatsPrefix(prefix) => Ok(Arc::new(prefix.open().await?)),
        }
    }
}

impl Drop for CaseStore {
    fn drop(&mut self) {
        match self {
            Self::Local { .. } => {}
            Self::PostgresSchema(schema) => {
                let schema = schema.clone();
                run_removal(async move { schema.remove().await });
            }
            Self::NatsPrefix(prefix) => {
                let prefix = prefix.clone();
                run_removal(async move { prefix.remove().await });
            }
        }
    }
}

/// Runs a removal to completion on a new runtime, because the runtime of the case may already be shutting down.
fn run_removal(removal: impl Future<Output = Result<()>> + Send + 'static) {
    let removal_thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map(|runtime| runtime.block_on(removal))
    });
    let _joined = removal_thread.join();
}

fn create_sibling_folder(path: &Path) -> Result<TempDir> {
    sibling_dir(path, ".agentstore-conformance-").map_err(|error| {
        Error::unavailable(format!("no folder can be created next to `{}`", path.display())).with_source(error)
    })
}

fn case_store(opened: &OpenedStore) -> Result<&CaseStore> {
    opened.guard().ok_or_else(unsupported)
}

fn unsupported() -> Error {
    Error::new(Detail::Unsupported { operation: "an operation that the fixture lacks" })
}

#[async_trait]
impl Fixture for UrlFixture {
    fn name(&self) -> String {
        match &self.url {
            StoreUrl::File(path) => format!("file, next to {}", path.display()),
            StoreUrl::Sqlite(path) => format!("sqlite-mailbox, next to {}", path.display()),
            StoreUrl::Postgres(url) => format!("postgres, in new schemas of the database of {url}"),
            StoreUrl::Nats(url) => format!("nats, under new prefixes on the server of {url}"),
            other => other.to_string(),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        let outlives_process = self.url.outlives_process();
        match need {
            Need::Threads if self.keeps_mailboxes_only() => Some(UnmetReason::Unsupported("it keeps mailboxes only")),
            Need::Live if matches!(self.url, StoreUrl::Sqlite(_)) => {
                Some(UnmetReason::Unsupported("it has no live channel"))
            }
            Need::Damage if matches!(self.url, StoreUrl::Postgres(_) | StoreUrl::Nats(_)) => {
                Some(UnmetReason::Unsupported("the stored bytes are on the server"))
            }
            Need::Reopen | Need::Damage if !outlives_process => {
                Some(UnmetReason::Unsupported("its data is lost when its last handle is dropped"))
            }
            Need::SecondOpening if !outlives_process => {
                Some(UnmetReason::Unsupported("each opening creates a separate store"))
            }
            Need::Damage => Some(UnmetReason::NotRun("the command does not change stored bytes")),
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let case_store = CaseStore::new(&self.url, limits).await?;
        Ok(OpenedStore::new(case_store.open().await?, case_store))
    }

    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore> {
        let OpenedStore { store, guard } = opened;
        store.close().await?;
        drop(store);
        let case_store = guard.downcast::<CaseStore>().map_err(|_| unsupported())?;
        Ok(OpenedStore::new(case_store.open().await?, *case_store))
    }

    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        case_store(opened)?.open().await
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        match case_store(opened) {
            Ok(CaseStore::Local { clock, .. }) => clock.advance(by),
            // An error is ignored: if the time was not moved, the case itself fails.
            Ok(CaseStore::PostgresSchema(schema)) => drop(schema.advance(by).await),
            Ok(CaseStore::NatsPrefix(prefix)) => drop(prefix.advance(by).await),
            Err(_) => {}
        }
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        match case_store(opened) {
            Ok(CaseStore::Local { clock, .. }) => clock.set(clock.now().saturating_sub(by)),
            Ok(CaseStore::PostgresSchema(schema)) => drop(schema.set_back(by).await),
            Ok(CaseStore::NatsPrefix(prefix)) => drop(prefix.set_back(by).await),
            Err(_) => {}
        }
    }

    async fn damage(&self, _opened: OpenedStore, _seed: u64) -> Result<OpenedStore> {
        Err(unsupported())
    }
}
