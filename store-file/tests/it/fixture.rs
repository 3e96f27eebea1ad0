//! How the suite opens a store on files, and what it may do to it.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Need, OpenedStore, UnmetReason};
use store_core::{Capabilities, Clock, EventDelivery, Limits, ManualClock, Result, Store, Survives, Timestamp};
use store_file::{FileConfig, FileStore};

struct OnFiles;

pub(crate) fn fixture() -> impl Fixture {
    OnFiles
}

/// The folder and the clock of a store; the folder goes with the last of them.
struct Place {
    folder: tempfile::TempDir,
    clock: ManualClock,
    limits: Limits,
}

impl Place {
    fn store(&self) -> Result<Arc<dyn Store>> {
        let config = FileConfig::default().with_clock(Arc::new(self.clock.clone())).with_limits(self.limits.clone());
        let config = config.with_journal_bytes(64 << 10);
        Ok(Arc::new(FileStore::open(self.folder.path(), config)?))
    }

    fn open(self) -> Result<OpenedStore> {
        Ok(OpenedStore::new(self.store()?, self))
    }

    fn logs(&self) -> Vec<PathBuf> {
        let tenants = fs::read_dir(self.folder.path().join("tenants")).unwrap();
        let folders = tenants.map(|tenant| tenant.unwrap().path());
        let mut logs: Vec<_> = folders.flat_map(|f| fs::read_dir(f).unwrap().map(|log| log.unwrap().path())).collect();
        logs.sort();
        logs
    }
}

fn place(opened: &OpenedStore) -> &Place {
    opened.guard().unwrap()
}

async fn close(opened: OpenedStore) -> Place {
    opened.store.close().await.unwrap();
    drop(opened.store);
    *opened.guard.downcast::<Place>().unwrap()
}

#[async_trait]
impl Fixture for OnFiles {
    fn name(&self) -> String {
        "file".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Survives::Power, Limits::default().record_bytes)
            .with_fencing()
            .with_event_delivery(EventDelivery::Push)
    }

    fn why_unmet(&self, _need: Need) -> Option<UnmetReason> {
        None
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let clock = ManualClock::new(Timestamp::from_millis(1_763_700_000_000)?);
        Place { folder: tempfile::tempdir().unwrap(), clock, limits }.open()
    }

    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore> {
        close(opened).await.open()
    }

    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        place(opened).store()
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        place(opened).clock.advance(by);
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        let clock = &place(opened).clock;
        clock.set(clock.now().saturating_sub(by));
    }

    async fn damage(&self, opened: OpenedStore, seed: u64) -> Result<OpenedStore> {
        let place = close(opened).await;
        let logs = place.logs();
        let log = &logs[usize::try_from(seed).unwrap() % logs.len()];
        let mut bytes = fs::read(log).unwrap();
        let at = usize::try_from(seed.wrapping_mul(2_654_435_761)).unwrap() % bytes.len();
        bytes[at] ^= 1 << (seed % 8);
        fs::write(log, bytes).unwrap();
        place.open()
    }
}
