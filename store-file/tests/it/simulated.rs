//! Random histories beside the model on the simulated disk: two of three openings follow a power cut.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Need, OpenedStore, UnmetReason};
use store_core::{Capabilities, Clock, Limits, ManualClock, Result, Store};
use store_file::{
    FileConfig, FileStore,
    testing::{SimDisk, Survivors},
};

use crate::world::at;

conformance_tests::model!(OnSimDisk::default(), in long 2_000);

/// Opens stores on simulated disks.
#[derive(Default)]
struct OnSimDisk {
    reopened: AtomicU64,
}

/// The disk and the clock of a store.
struct Place {
    disk: SimDisk,
    clock: ManualClock,
    limits: Limits,
}

impl Place {
    fn open(self) -> Result<OpenedStore> {
        let config = FileConfig::default().with_clock(Arc::new(self.clock.clone())).with_limits(self.limits.clone());
        let config = config.with_journal_bytes(16 << 10);
        let store: Arc<dyn Store> = Arc::new(FileStore::open_on(Arc::new(self.disk.clone()), config)?);
        Ok(OpenedStore::new(store, self))
    }
}

fn clock(opened: &OpenedStore) -> &ManualClock {
    &opened.guard::<Place>().unwrap().clock
}

#[async_trait]
impl Fixture for OnSimDisk {
    fn name(&self) -> String {
        "file on a simulated disk".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        crate::fixture().capabilities()
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        match need {
            Need::SecondOpening | Need::Damage => Some(UnmetReason::NotRun("random histories have nothing of it")),
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        Place { disk: SimDisk::new(), clock: ManualClock::new(at(0)), limits }.open()
    }

    /// After a power cut only what was synced is sure to be there, and any part of the rest.
    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore> {
        let reopened = self.reopened.fetch_add(1, Ordering::SeqCst);
        let mut place = *opened.guard.downcast::<Place>().unwrap();
        let left = match reopened % 3 {
            0 => None,
            1 => Some(place.disk.after_crash(Survivors::Synced)),
            _ => Some(place.disk.after_crash(Survivors::Random(reopened))),
        };
        opened.store.close().await?;
        place.disk = left.unwrap_or(place.disk);
        place.open()
    }

    async fn open_second_time(&self, _opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        unreachable!("it is lacking")
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        clock(opened).advance(by);
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        clock(opened).set(clock(opened).now().saturating_sub(by));
    }

    async fn damage(&self, _opened: OpenedStore, _seed: u64) -> Result<OpenedStore> {
        unreachable!("it is lacking")
    }
}
