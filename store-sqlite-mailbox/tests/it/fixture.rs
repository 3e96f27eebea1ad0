//! How the suite opens a mailbox in SQLite, and what the suite may do to it.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Need, OpenedStore, UnmetReason};
use store_core::{Capabilities, Clock, Limits, ManualClock, Result, Store, Survives, Timestamp};
use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox};

struct SqliteFixture;

pub(crate) fn fixture() -> impl Fixture {
    SqliteFixture
}

/// The folder, clock and limits of a mailbox. The folder is removed when this value is dropped.
struct TempMailbox {
    folder: tempfile::TempDir,
    clock: ManualClock,
    limits: Limits,
}

impl TempMailbox {
    fn file(&self) -> PathBuf {
        self.folder.path().join("mailbox.db")
    }

    async fn open_store(&self) -> Result<Arc<dyn Store>> {
        let config = SqliteConfig::new(self.file()).with_clock(Arc::new(self.clock.clone())).with_limits(&self.limits);
        Ok(Arc::new(SqliteMailbox::open(config).await?))
    }

    async fn open(self) -> Result<OpenedStore> {
        Ok(OpenedStore::new(self.open_store().await?, self))
    }
}

fn temp_mailbox(opened: &OpenedStore) -> &TempMailbox {
    opened.guard().unwrap()
}

async fn close(opened: OpenedStore) -> TempMailbox {
    opened.store.close().await.unwrap();
    drop(opened.store);
    *opened.guard.downcast::<TempMailbox>().unwrap()
}

#[async_trait]
impl Fixture for SqliteFixture {
    fn name(&self) -> String {
        "sqlite-mailbox".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Survives::Power, Limits::default().record_bytes)
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        match need {
            Need::Threads => Some(UnmetReason::Unsupported("it keeps mailboxes only")),
            Need::Live => Some(UnmetReason::Unsupported("it has no live channel")),
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let clock = ManualClock::new(Timestamp::from_millis(1_763_700_000_000)?);
        TempMailbox { folder: tempfile::tempdir().unwrap(), clock, limits }.open().await
    }

    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore> {
        close(opened).await.open().await
    }

    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        temp_mailbox(opened).open_store().await
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        temp_mailbox(opened).clock.advance(by);
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        let clock = &temp_mailbox(opened).clock;
        clock.set(clock.now().saturating_sub(by));
    }

    async fn damage(&self, opened: OpenedStore, seed: u64) -> Result<OpenedStore> {
        let temp_mailbox = close(opened).await;
        let mut bytes = fs::read(temp_mailbox.file()).unwrap();
        let at = usize::try_from(seed.wrapping_mul(2_654_435_761)).unwrap() % bytes.len();
        bytes[at] ^= 1 << (seed % 8);
        fs::write(temp_mailbox.file(), bytes).unwrap();
        temp_mailbox.open().await
    }
}
