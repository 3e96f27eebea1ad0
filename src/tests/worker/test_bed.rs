//! The stores on which the cases run. Their time stands still until a case advances it.

use std::{sync::Arc, time::Duration};

use store_core::{
    ClaimRequest, ClaimedDispatch, Claims, Commit, CommitCoordinator, Dispatch, ErrorKind, Fence, MailboxStore,
    ManualClock, Message, NewDispatch, NewEntry, TenantId, ThreadId, Timestamp,
};
#[cfg(feature = "nats")]
use store_nats::{NatsConfig, TestPrefix};
#[cfg(feature = "postgres")]
use store_postgres::{PostgresConfig, TestSchema};
use tempfile::TempDir;

use super::TEST_TIMEOUT;
use crate::{OpenOptions, Stores};

/// The stores of one test, and the means to advance their time.
pub(super) struct TestBed {
    pub(super) stores: Stores,
    pub(super) tenant: TenantId,
    clock: ManualClock,
    #[cfg(feature = "postgres")]
    schema: Option<TestSchema>,
    #[cfg(feature = "nats")]
    prefix: Option<TestPrefix>,
    /// In a composition with PostgreSQL, the other store.
    #[cfg(feature = "postgres")]
    other_store: Option<Stores>,
    _folder: TempDir,
}

impl TestBed {
    fn clock_and_folder() -> (ManualClock, TempDir) {
        (ManualClock::new(Timestamp::from_millis(1_763_700_000_000).unwrap()), tempfile::tempdir().unwrap())
    }

    async fn open(store: &str, mailbox: &str) -> Self {
        let (clock, folder) = Self::clock_and_folder();
        let options = OpenOptions::new().with_clock(Arc::new(clock.clone()));
        let url = |name: &str| match name {
            "file" => format!("file:{}", folder.path().join("data").display()),
            other => format!("{other}:"),
        };
        let stores = Stores::builder(url(store)).mailbox(url(mailbox)).with_options(options).open().await.unwrap();
        Self {
            stores,
            tenant: TenantId::default_tenant(),
            clock,
            #[cfg(feature = "postgres")]
            schema: None,
            #[cfg(feature = "nats")]
            prefix: None,
            #[cfg(feature = "postgres")]
            other_store: None,
            _folder: folder,
        }
    }

    pub(super) async fn memory() -> Self {
        Self::open("memory", "memory").await
    }

    pub(super) async fn file() -> Self {
        Self::open("file", "file").await
    }

    pub(super) async fn memory_with_file_mailbox() -> Self {
        Self::open("memory", "file").await
    }

    pub(super) async fn file_with_memory_mailbox() -> Self {
        Self::open("file", "memory").await
    }

    #[cfg(feature = "sqlite-mailbox")]
    pub(super) async fn file_with_sqlite_mailbox() -> Self {
        use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox};
        let mut bed = Self::file().await;
        let clock: Arc<dyn store_core::Clock> = Arc::new(bed.clock.clone());
        let config = SqliteConfig::new(bed._folder.path().join("mailbox.db")).with_clock(Arc::clone(&clock));
        let mailbox = Stores::new(Arc::new(SqliteMailbox::open(config).await.unwrap()));
        let mailbox = mailbox.with_backend_name("sqlite-mailbox").with_clock(clock);
        bed.stores = Stores::builder(bed.stores).mailbox(mailbox).open().await.unwrap();
        bed
    }

    #[cfg(feature = "postgres")]
    pub(super) async fn postgres() -> Self {
        let server_url = std::env::var("AGENTSTORE_TEST_POSTGRES_URL").unwrap();
        let separator = if server_url.contains('?') { '&' } else { '?' };
        let config = PostgresConfig::new(&format!("{server_url}{separator}allow_unsafe=true&connections=4")).unwrap();
        let schema = TestSchema::reuse_or_create(&config, config.clone()).await.unwrap();
        let (clock, folder) = Self::clock_and_folder();
        Self {
            stores: Stores::new(Arc::new(schema.open().await.unwrap()))
                .with_backend_name("postgres")
                .with_clock(Arc::new(clock.clone())),
            tenant: TenantId::default_tenant(),
            clock,
            schema: Some(schema),
            #[cfg(feature = "nats")]
            prefix: None,
            other_store: None,
            _folder: folder,
        }
    }

    #[cfg(feature = "postgres")]
    pub(super) async fn postgres_with_file_mailbox() -> Self {
        let (mut bed, other_bed) = (Self::postgres().await, Self::file().await);
        let threads = bed.stores.with_clock(Arc::new(other_bed.clock.clone()));
        bed.stores = Stores::builder(threads).mailbox(&other_bed.stores).open().await.unwrap();
        (bed.clock, bed._folder, bed.other_store) = (other_bed.clock, other_bed._folder, Some(other_bed.stores));
        bed
    }

    #[cfg(feature = "postgres")]
    pub(super) async fn memory_with_postgres_mailbox() -> Self {
        let (mut bed, other_bed) = (Self::postgres().await, Self::memory().await);
        let postgres = bed.stores.with_clock(Arc::new(other_bed.clock.clone()));
        bed.stores = Stores::builder(&other_bed.stores).mailbox(postgres).open().await.unwrap();
        (bed.clock, bed.other_store) = (other_bed.clock, Some(other_bed.stores));
        bed
    }

    #[cfg(feature = "nats")]
    pub(super) async fn file_with_nats_mailbox() -> Self {
        Self::file().await.with_nats_mailbox().await
    }

    #[cfg(all(feature = "nats", feature = "postgres"))]
    pub(super) async fn postgres_with_nats_mailbox() -> Self {
        Self::postgres().await.with_nats_mailbox().await
    }

    #[cfg(feature = "nats")]
    async fn with_nats_mailbox(mut self) -> Self {
        let server_url = std::env::var("AGENTSTORE_TEST_NATS_URL").unwrap();
        let prefix =
            TestPrefix::create(NatsConfig::new(&format!("{server_url}?allow_unsafe=true")).unwrap()).await.unwrap();
        let mailbox = Stores::new(Arc::new(prefix.open().await.unwrap())).with_backend_name("nats");
        let mailbox = mailbox.with_clock(Arc::new(self.clock.clone()));
        self.stores = Stores::builder(self.stores).mailbox(&mailbox).open().await.unwrap();
        self.prefix = Some(prefix);
        #[cfg(feature = "postgres")]
        if self.schema.is_some() {
            self.other_store = Some(mailbox);
        }
        self
    }

    /// Returns handles for another runtime: a connection belongs to the runtime in which it was made.
    pub(super) async fn handles_for_other_runtime(&self) -> Stores {
        #[cfg(feature = "postgres")]
        if let Some(schema) = &self.schema {
            let postgres = Stores::new(Arc::new(schema.open().await.unwrap())).with_backend_name("postgres");
            let builder = match &self.other_store {
                None => return postgres,
                Some(other_store) if self.stores.backend() == "postgres" => {
                    Stores::builder(postgres).mailbox(other_store)
                }
                Some(other_store) => Stores::builder(other_store).mailbox(postgres),
            };
            return builder.open().await.unwrap();
        }
        self.stores.clone()
    }

    /// Returns the clock of the stores, for a handler that moves it. A server keeps its own time.
    pub(super) fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    /// Advances store time in all stores.
    pub(super) async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        #[cfg(feature = "postgres")]
        if let Some(schema) = &self.schema {
            schema.advance(by).await.unwrap();
        }
        #[cfg(feature = "nats")]
        if let Some(prefix) = &self.prefix {
            prefix.advance(by).await.unwrap();
        }
    }

    pub(super) async fn remove(self) {
        self.stores.close().await.unwrap();
        #[cfg(feature = "postgres")]
        if let Some(schema) = &self.schema {
            schema.remove().await.unwrap();
        }
        #[cfg(feature = "nats")]
        if let Some(prefix) = &self.prefix {
            prefix.remove().await.unwrap();
        }
    }

    pub(super) fn mailbox(&self) -> Arc<dyn MailboxStore> {
        self.stores.mailbox(&self.tenant).unwrap()
    }

    pub(super) fn commits(&self) -> Arc<dyn CommitCoordinator> {
        self.stores.commits(&self.tenant).unwrap()
    }

    pub(super) async fn enqueue(&self, dispatches: impl IntoIterator<Item = NewDispatch>) {
        let answers = self.mailbox().enqueue(dispatches.into_iter().collect()).await.unwrap();
        answers.into_iter().for_each(|answer| drop(answer.unwrap()));
    }

    pub(super) async fn load_dispatch(&self, id: &str) -> Dispatch {
        self.mailbox().load_dispatch(&id.parse().unwrap()).await.unwrap().unwrap()
    }

    /// Waits until a dispatch satisfies a condition.
    pub(super) async fn wait_until(
        &self,
        id: &str,
        has_expected_state: impl Fn(&Dispatch) -> bool + Send + Sync,
    ) -> Dispatch {
        let found = async {
            loop {
                let found = self.load_dispatch(id).await;
                if has_expected_state(&found) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, found).await.expect("the dispatch did not reach the expected state")
    }

    /// Claims a dispatch from the mailbox itself, as another worker.
    pub(super) async fn claim_as_other_worker(&self, lease: Duration) -> Option<ClaimedDispatch> {
        let request = ClaimRequest::new("other".parse().unwrap(), lease);
        let Claims { mut claimed, .. } = self.mailbox().claim(request).await.unwrap();
        claimed.pop()
    }

    /// Lets the lease of a running claim expire. Then claims the dispatch as another worker, and takes its thread over.
    pub(super) async fn take_over_expired(&self, lease: Duration) -> ClaimedDispatch {
        // The holder may extend the claim between the two steps, so they are repeated.
        let new_claim = async {
            loop {
                self.advance(lease * 2).await;
                if let Some(claimed) = self.claim_as_other_worker(Duration::from_hours(1)).await {
                    return claimed;
                }
            }
        };
        let new_claim = tokio::time::timeout(TEST_TIMEOUT, new_claim).await.expect("the dispatch could not be claimed");
        let takeover = Commit::new(new_claim.dispatch.thread.clone()).fenced(new_claim.fence());
        let _taken = self.commits().commit(takeover).await.unwrap();
        new_claim
    }

    /// Commits under a claim through the store itself, and returns the kind of the error if the commit was refused.
    pub(super) async fn commit_with_fence(&self, thread: &ThreadId, fence: Fence) -> Result<(), ErrorKind> {
        let commit = message_commit(thread, "late").fenced(fence);
        self.commits().commit(commit).await.map(drop).map_err(|error| error.kind())
    }

    /// Returns the number of entries of a thread.
    pub(super) async fn entry_count(&self, thread: &str) -> u64 {
        let thread = self.commits().threads().load_thread(&thread.parse().unwrap()).await.unwrap();
        thread.map_or(0, |thread| thread.version.number())
    }
}

/// Makes a commit with one message, under a new key.
pub(super) fn message_commit(thread: &ThreadId, text: &str) -> Commit {
    use store_core::{CommitKey, IdSource, UuidSource};
    let key = CommitKey::new(UuidSource.next_id()).unwrap();
    Commit::new(thread.clone()).with_key(key).entry(NewEntry::new(Message::assistant(text)))
}
