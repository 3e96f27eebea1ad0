//! The fixture that opens the model for the suite, with or without a planted bug.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{Capabilities, Clock, Limits, ManualClock, Result, Store, Timestamp};

use super::{bug::Bug, store::ModelStore};
use crate::{
    case::{Contract, Need, Status, run_case},
    fixture::{Fixture, Gap, OpenedStore, UnmetReason},
};

/// The time at which the clock of a model starts, in milliseconds: in November 2025.
const CLOCK_START_MILLIS: u64 = 1_763_700_000_000;

/// Opens models.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelFixture {
    /// The planted bug of the models, if they have one.
    pub bug: Option<Bug>,
}

impl ModelFixture {
    /// Returns a fixture that opens models with this planted bug.
    #[must_use]
    pub const fn with_bug(bug: Bug) -> Self {
        Self { bug: Some(bug) }
    }

    fn to_opened(store: ModelStore) -> OpenedStore {
        // The fixture uses this second store on the same data to move the clock, and to open the store again after it
        // was closed.
        let second_opening = store.reopened();
        OpenedStore::new(Arc::new(store), second_opening)
    }
}

fn model_of(opened: &OpenedStore) -> Option<&ModelStore> {
    opened.guard()
}

#[async_trait]
impl Fixture for ModelFixture {
    fn name(&self) -> String {
        match self.bug {
            None => "model".to_owned(),
            Some(bug) => format!("model, {bug:?}"),
        }
    }

    fn capabilities(&self) -> Capabilities {
        ModelStore::capabilities_with(&Limits::default())
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        match need {
            Need::Damage => Some(UnmetReason::Unsupported("the model stores no bytes")),
            Need::Reopen
            | Need::Time
            | Need::StoppedClock
            | Need::Race
            | Need::Limits
            | Need::SecondOpening
            | Need::Threads
            | Need::Fenced
            | Need::Live
            | Need::WakeUps => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let clock = ManualClock::new(Timestamp::from_millis(CLOCK_START_MILLIS)?);
        Ok(Self::to_opened(ModelStore::new(limits, clock, self.bug)))
    }

    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore> {
        opened.store.close().await?;
        let reopened_store = model_of(&opened).map(|store| Self::to_opened(store.reopened()));
        Ok(reopened_store.unwrap_or(opened))
    }

    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        Ok(model_of(opened).map_or_else(|| Arc::clone(&opened.store), |store| Arc::new(store.reopened())))
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        if let Some(store) = model_of(opened) {
            store.clock().advance(by);
        }
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        if let Some(store) = model_of(opened) {
            store.clock().set(store.clock().now().saturating_sub(by));
        }
    }

    async fn damage(&self, opened: OpenedStore, _seed: u64) -> Result<OpenedStore> {
        Ok(opened)
    }
}

/// Runs the case `name` on models with this planted bug, or without a bug. Returns how the case ended, or `None` if
/// there is no such case.
///
/// If several contracts list the case, it runs for each of them, and the first result that is not `Passed` is returned.
pub async fn run_named_case(name: &str, bug: Option<Bug>) -> Option<Status> {
    run_named_case_on(name, Arc::new(ModelFixture { bug })).await
}

/// Runs the case `name` on stores of `fixture`, as [`run_named_case`] does on models.
pub async fn run_named_case_on(name: &str, fixture: Arc<dyn Fixture>) -> Option<Status> {
    let mut reported_status = None;
    for contract in Contract::ALL {
        let Some(case) = contract.cases().find(|case| case.name == name) else { continue };
        let status = run_case(*contract, case, &fixture).await;
        if matches!(reported_status, None | Some(Status::Passed)) {
            reported_status = Some(status);
        }
    }
    reported_status
}
