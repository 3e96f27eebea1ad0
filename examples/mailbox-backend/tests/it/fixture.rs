//! Opens the example for the suite.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Lack, Need, Opened};
use mailbox_backend_example::MapStore;
use store_core::{Capabilities, Clock, Limits, ManualClock, Result, Store, Survives, Timestamp};

struct MapFixture;

pub(crate) fn fixture() -> impl Fixture {
    MapFixture
}

fn clock(opened: &Opened) -> &ManualClock {
    opened.guard().unwrap()
}

#[async_trait]
impl Fixture for MapFixture {
    fn name(&self) -> String {
        "mailbox-backend-example".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(Survives::Nothing, Limits::default().record_bytes)
    }

    fn lack(&self, need: Need) -> Option<Lack> {
        match need {
            Need::Threads => Some(Lack::Unsupported("it keeps mailboxes only")),
            Need::Reopen | Need::Damage => Some(Lack::Unsupported("it ends with its last handle")),
            Need::Beside => Some(Lack::Unsupported("each opening makes a store of its own")),
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<Opened> {
        let clock = ManualClock::new(Timestamp::from_millis(1_763_700_000_000)?);
        let store = MapStore::open(Arc::new(clock.clone()), &limits)?;
        Ok(Opened::new(Arc::new(store), clock))
    }

    async fn reopen(&self, _opened: Opened) -> Result<Opened> {
        unreachable!("`lack` excludes this call")
    }

    async fn open_beside(&self, _opened: &Opened) -> Result<Arc<dyn Store>> {
        unreachable!("`lack` excludes this call")
    }

    async fn advance(&self, opened: &Opened, by: Duration) {
        clock(opened).advance(by);
    }

    async fn set_back(&self, opened: &Opened, by: Duration) {
        let clock = clock(opened);
        clock.set(clock.now().saturating_sub(by));
    }

    async fn damage(&self, _opened: Opened, _seed: u64) -> Result<Opened> {
        unreachable!("`lack` excludes this call")
    }
}
