//! The suite through a write buffer in front of a store on PostgreSQL, and what only this store shows of the buffer.

mod documents;
mod joined;
mod nodes;
mod quarantine;

use std::{env, sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Need, OpenedStore, UnmetReason};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use store_core::{
    Capabilities, Commit, CommitCoordinator, EntryQuery, ErrorKind, EventDelivery, Expect, IdSource, Limits, Message,
    NewEntry, PageRequest, Result, Store, Survives, TenantId, ThreadId, UuidSource, buffer::BufferTarget,
};
use store_nats::{BufferConfig, Buffered, NatsConfig, TestPrefix};
use store_postgres::PostgresStore;
use test_servers::NATS_URL_VARIABLE;

use crate::fixture::{SchemaGuard, server_url};

/// The largest record, in bytes: the default limit of a message, 1 MiB, minus the space for its other content.
const MAX_RECORD_BYTES: u64 = (1 << 20) - (128 << 10);

/// Cases that write more at once than a message takes (NB-8).
const TOO_LARGE: [&str; 5] = [
    "commit::state_has_a_megabyte_at_most",
    "document::a_list_that_ends_early_goes_on",
    "log::large_contents_round_trip",
    "log::large_contents_survive_a_reopen",
    "replay::bytes_are_returned_exactly",
];

struct BufferedPostgres;

pub(crate) fn fixture() -> impl Fixture {
    BufferedPostgres
}

/// Returns the servers of the buffer. Its data need not survive a failure of these servers.
fn nats_servers() -> NatsConfig {
    let url = env::var(NATS_URL_VARIABLE)
        .unwrap_or_else(|_| panic!("set {NATS_URL_VARIABLE}, or use `cargo xtask test`, which starts servers"));
    let mut servers = NatsConfig::new(&url).unwrap();
    servers.allow_unsafe = true;
    servers
}

/// A schema, and the name of the streams of a buffer in front of it.
struct TempBuffer {
    schema: SchemaGuard,
    config: BufferConfig,
}

impl TempBuffer {
    async fn new(limits: Limits) -> Result<Self> {
        Self::with_schema(SchemaGuard::for_suite(limits).await?)
    }

    /// Uses a schema with the clock of the server, which other processes can open.
    async fn with_own_schema() -> Self {
        Self::with_schema(SchemaGuard::new(Limits::default()).await.unwrap()).unwrap()
    }

    fn with_schema(schema: SchemaGuard) -> Result<Self> {
        let servers = nats_servers().with_prefix(&format!("test-{}", UuidSource.next_id()))?;
        let mut config = BufferConfig::new(servers)?;
        config.flush_interval = Duration::from_millis(50);
        Ok(Self { schema, config })
    }

    async fn open(&self) -> Result<Buffered<PostgresStore>> {
        let mut config = self.schema.config().clone();
        config.behind_buffer = true;
        Buffered::open(self.config.clone(), PostgresStore::open(config).await?).await
    }

    /// Runs a statement on the server. `$schema$` stands for the name of the schema.
    async fn execute(&self, statement: &str) {
        let mut connection = PgConnection::connect(&server_url()).await.unwrap();
        let sql = statement.replace("$schema$", &format!("\"{}\"", self.schema.config().schema()));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
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
impl Fixture for BufferedPostgres {
    fn name(&self) -> String {
        "postgres behind a write buffer".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        let capabilities = Capabilities::new(Survives::Process, MAX_RECORD_BYTES);
        capabilities.with_event_delivery(EventDelivery::Push).on_server()
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        match need {
            Need::Damage => Some(UnmetReason::Unsupported("only the server can change the stored bytes")),
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        let reason = "a message of the server has 1 MiB at most";
        TOO_LARGE.into_iter().map(|case| Gap { case, reason }).collect()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let temp_buffer = TempBuffer::new(limits).await?;
        Ok(OpenedStore::new(Arc::new(temp_buffer.open().await?), temp_buffer))
    }

    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore> {
        opened.store.close().await?;
        drop(opened.store);
        let temp_buffer = *opened.guard.downcast::<TempBuffer>().unwrap();
        Ok(OpenedStore::new(Arc::new(temp_buffer.open().await?), temp_buffer))
    }

    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(temp_buffer(opened).open().await?))
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        temp_buffer(opened).schema.advance(by).await.unwrap();
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        temp_buffer(opened).schema.set_back(by).await.unwrap();
    }

    async fn damage(&self, _opened: OpenedStore, _seed: u64) -> Result<OpenedStore> {
        unreachable!("the fixture declares that it lacks this")
    }
}

/// NB-1, NB-9, NB-11, NB-15.
mod conformance {
    conformance_tests::area_tests! { [ThreadRunStore crate::buffered::fixture()] thread log context run page }
    conformance_tests::area_tests! { [CommitCoordinator crate::buffered::fixture()] commit }
    conformance_tests::area_tests! { [PendingStore crate::buffered::fixture()] pending }
    conformance_tests::area_tests! { [EventStore crate::buffered::fixture()] event }
    conformance_tests::area_tests! { [OutboxStore crate::buffered::fixture()] outbox }
    conformance_tests::document_store!(crate::buffered::fixture());
    conformance_tests::object_store!(crate::buffered::fixture());
}

fn commits(store: &dyn Store) -> Arc<dyn CommitCoordinator> {
    store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap()
}

fn id(text: &str) -> ThreadId {
    text.parse().unwrap()
}

fn message(thread: &str, text: &str) -> Commit {
    Commit::new(id(thread)).entry(NewEntry::new(Message::user(text)))
}

/// Tests NB-14.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_with_a_buffer_is_not_written_without_it() {
    let temp = TempBuffer::new(Limits::default()).await.unwrap();
    let buffered = temp.open().await.unwrap();
    let buffer = buffered.get_ref().applied_position().await.unwrap().buffer.unwrap();
    let error = temp.schema.open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains(&buffer), "{error}");
    let _receipt = commits(&buffered).commit(message("t", "x").expecting(Expect::Absent)).await.unwrap();
    buffered.detach().await.unwrap().close().await.unwrap();
    let alone = temp.schema.open().await.unwrap();
    let entries = commits(&alone).threads().list_entries(&id("t"), EntryQuery::all()).await.unwrap();
    assert_eq!(entries.items.len(), 1);
}

/// Tests NB-4.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_is_applied_in_few_transactions_each_entry_once() {
    let mut temp = TempBuffer::new(Limits::default()).await.unwrap();
    temp.config.flush_interval = Duration::from_millis(500);
    let (first, second) = (temp.open().await.unwrap(), temp.open().await.unwrap());
    let writers = (0..8).map(|number| {
        let commits = commits(if number % 2 == 0 { &first } else { &second });
        async move {
            let thread = format!("t{number}");
            let mut expect = Expect::Absent;
            for text in 0..40 {
                let receipt = commits.commit(message(&thread, &text.to_string()).expecting(expect)).await.unwrap();
                expect = Expect::Version(receipt.version);
            }
        }
    });
    futures_util::future::join_all(writers).await;
    first.drain().await.unwrap();
    let inner = first.get_ref();
    for number in 0..8 {
        let query = EntryQuery::all().with_page(PageRequest::first(1_000));
        let entries = commits(inner).threads().list_entries(&id(&format!("t{number}")), query).await.unwrap();
        let texts: Vec<_> = entries.items.iter().map(|entry| entry.message().unwrap().blocks.clone()).collect();
        let expected: Vec<_> = (0..40).map(|number| Message::user(number.to_string()).blocks).collect();
        assert_eq!(texts, expected);
    }
}
