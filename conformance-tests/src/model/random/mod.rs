//! Runs random operations on a store and on the model. The results must be equal, and errors must be of the same kind.

mod body;
mod comparable;
mod documents;
mod dropped;
mod events;
mod generate;
mod inputs;
mod mailbox;
mod model_access;
mod numbered_values;
mod ops;
mod outbox;
mod pair;
mod reading;
mod requests;

use std::{env, fmt, sync::Arc};

use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};
use store_core::{ContextRequest, Direction, DispatchOrder, ThreadOrder};
use tokio::runtime::Builder;

use self::{
    numbered_values::numbered_id,
    ops::{EntryFilterOp, EventFilterOp, ListOp, Op, OutboxFilterOp, RunFilterOp, ScopeOp, ThreadFilterOp},
    pair::{StepResult, StoreModelPair},
};
use crate::{
    check::Failure,
    fixture::{Fixture, OpenedStore},
    random::{random_seed, seed_from_env},
    test_length::TestLength,
};

/// The size and the seed of a test that compares a store with the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelTest {
    /// How many histories are run.
    pub histories: u32,
    /// How many steps a history has.
    pub steps: usize,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The maximum number of times that the test tries to shorten a history that shows a difference.
    pub max_shrinks: u32,
}

impl ModelTest {
    /// Returns a test of `histories` histories with `steps` steps each, and with a random seed.
    #[must_use]
    pub fn new(histories: u32, steps: usize) -> Self {
        Self { histories, steps, seed: random_seed(), max_shrinks: 4_000 }
    }

    /// Returns the test that the environment describes.
    ///
    /// - `AGENTSTORE_MODEL_HISTORIES`: the number of histories. The default is 10, for the length `full` 150 and
    ///   for the length `long` 1,000.
    /// - `AGENTSTORE_MODEL_STEPS`: the number of steps in each. The default is 50.
    /// - `AGENTSTORE_MODEL_SEED`: a number, or `random`. The default is 1, so that the test uses the same histories
    ///   each time.
    #[must_use]
    pub fn from_env() -> Self {
        let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let number_or =
            |name: &str, default: u32| number(name).map_or(default, |value| u32::try_from(value).unwrap_or(u32::MAX));
        let steps = number_or("AGENTSTORE_MODEL_STEPS", 50) as usize;
        let with_random_seed =
            Self::new(number_or("AGENTSTORE_MODEL_HISTORIES", TestLength::pick_by_env(10, 150, 1_000)), steps);
        Self { seed: seed_from_env("AGENTSTORE_MODEL_SEED"), ..with_random_seed }
    }

    /// Returns the test with at least `histories` histories if the environment asks for the length `long`.
    #[must_use]
    pub fn with_min_histories(mut self, histories: u32) -> Self {
        if TestLength::from_env() == TestLength::Long {
            self.histories = self.histories.max(histories);
        }
        self
    }

    /// Runs each history on a new store of `fixture` until one shows a difference. Then shortens that history.
    ///
    /// # Errors
    /// The shortest history found that shows a difference.
    ///
    /// # Panics
    /// If no runtime can be started.
    pub fn run(self, fixture: impl Fixture) -> Result<(), Box<Divergence>> {
        let fixture: Arc<dyn Fixture> = Arc::new(fixture);
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let config = Config {
            cases: self.histories,
            failure_persistence: None,
            max_shrink_iters: self.max_shrinks,
            ..Config::default()
        };
        let mut seed = [0; 32];
        seed.iter_mut().zip(self.seed.to_le_bytes()).for_each(|(byte, seed_byte)| *byte = seed_byte);
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        let histories = generate::histories(self.steps);
        let result = runner.run(&histories, |history| {
            runtime
                .block_on(run_history(&fixture, &history))
                .map_err(|difference| TestCaseError::fail(difference.to_string()))
        });
        match result {
            Ok(()) => Ok(()),
            Err(error) => Err(Box::new(self.divergence(&fixture.name(), error))),
        }
    }

    fn divergence(self, store: &str, error: TestError<Vec<Op>>) -> Divergence {
        let (difference, history) = match error {
            TestError::Fail(difference, history) => (difference.to_string(), history),
            TestError::Abort(difference) => (difference.to_string(), Vec::new()),
        };
        let history = history.iter().map(|op| format!("{op:?}")).collect();
        Divergence { test: self, store: store.to_owned(), history, difference }
    }
}

/// A difference between a store and the model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Divergence {
    /// The options of the test, with the seed that reproduces the difference.
    pub test: ModelTest,
    /// The name of the store.
    pub store: String,
    /// The shortest history that was found, step by step.
    pub history: Vec<String>,
    /// What differs, and at which step.
    pub difference: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ModelTest { histories, steps, seed, .. } = self.test;
        writeln!(f, "{} and the model disagree", self.store)?;
        writeln!(
            f,
            "repeat with: AGENTSTORE_MODEL_SEED={seed} AGENTSTORE_MODEL_HISTORIES={histories} AGENTSTORE_MODEL_STEPS={steps}"
        )?;
        for (at, step) in self.history.iter().enumerate() {
            writeln!(f, "{:>3}. {step}", at + 1)?;
        }
        f.write_str(&self.difference)
    }
}

impl std::error::Error for Divergence {}

/// Runs random histories on new stores of `fixture` and on the model.
///
/// # Panics
/// If a store and the model disagree. This makes the test fail.
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn model_test(fixture: impl Fixture, histories: u32, steps: usize) {
    if let Err(divergence) = (ModelTest { histories, steps, ..ModelTest::from_env() }).run(fixture) {
        panic!("{divergence}");
    }
}

/// Defines a test that runs random histories on a backend and on the model.
///
/// The fixture is an expression with a path from the root of the crate: `crate::fixture()`.
/// [`ModelTest::from_env`] documents how many histories are run. The number after `in long` is the minimum number of
/// histories at the length `long`.
#[macro_export]
macro_rules! model {
    ($fixture:expr) => {
        $crate::model! { $fixture, in long 0 }
    };
    ($fixture:expr, in long $min_histories:literal) => {
        #[test]
        fn the_store_agrees_with_the_model() {
            let $crate::model::ModelTest { histories, steps, .. } =
                $crate::model::ModelTest::from_env().with_min_histories($min_histories);
            $crate::model::model_test($fixture, histories, steps);
        }
    };
}

/// Runs a history on a store and on the model. Then compares all data.
async fn run_history(fixture: &Arc<dyn Fixture>, history: &[Op]) -> StepResult {
    let mut pair = StoreModelPair::open(Arc::clone(fixture)).await?;
    for (at, op) in history.iter().enumerate() {
        pair.run_step(op).await.map_err(|difference| difference.about(format!("step {}", at + 1)))?;
    }
    compare_all(&mut pair).await.map_err(|difference| difference.about("at the end"))?;
    pair.close().await
}

/// Opens a store, and runs so many random operations on it, which the seed chooses. The store stays open.
pub(crate) async fn fill_at_random(
    fixture: &Arc<dyn Fixture>,
    seed: u64,
    steps: usize,
) -> Result<OpenedStore, Failure> {
    let history = random_history(seed, steps)?;
    let mut pair = StoreModelPair::open(Arc::clone(fixture)).await?;
    for op in &history {
        pair.run_step(op).await?;
    }
    pair.into_opened().ok_or_else(|| Failure::new("the store is not open"))
}

fn random_history(seed: u64, steps: usize) -> Result<Vec<Op>, Failure> {
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(seed.to_le_bytes()).for_each(|(byte, seed_byte)| *byte = seed_byte);
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let tree = generate::histories(steps).new_tree(&mut runner);
    Ok(tree.map_err(|reason| Failure::new(reason.to_string()))?.current())
}

/// Compares every list, every entry and the context of every entry.
async fn compare_all(pair: &mut StoreModelPair) -> StepResult {
    let (order, direction) = (ThreadOrder::LastActivity, Direction::Backward);
    pair.compare_list(&ListOp::Threads { filter: ThreadFilterOp::default(), order, direction }, 1_000, None).await?;
    pair.compare_list(&ListOp::Runs { filter: RunFilterOp::default(), direction }, 1_000, None).await?;
    pair.compare_list(&ListOp::ThreadsWithInput, 1_000, None).await?;
    pair.compare_list(&ListOp::ReadyThreads, 1_000, None).await?;
    for order in [DispatchOrder::Creation, DispatchOrder::End] {
        let direction = Direction::Forward;
        pair.compare_list(&ListOp::Dispatches { thread: None, statuses: None, order, direction }, 1_000, None).await?;
    }
    pair.compare_list(&ListOp::Outbox { filter: OutboxFilterOp::default(), direction }, 1_000, None).await?;
    pair.compare_documents().await?;
    for number in 0..generate::SMALL_NUMBER_LIMIT {
        pair.compare_topic(number).await?;
        let (thread, run) = (number, number);
        let (filter, direction) = (EntryFilterOp::default(), Direction::Forward);
        pair.compare_list(&ListOp::Entries { thread, filter, direction }, 1_000, None).await?;
        pair.compare_list(&ListOp::Leaves { thread }, 1_000, None).await?;
        pair.compare_list(&ListOp::BranchPoints { thread }, 1_000, None).await?;
        pair.compare_list(&ListOp::Snapshots { thread }, 1_000, None).await?;
        for scope in [ScopeOp::Thread(thread), ScopeOp::Run(run)] {
            let filter = EventFilterOp::default();
            pair.compare_list(&ListOp::Events { scope, filter, direction }, 1_000, None).await?;
            pair.check_subscription(scope).await?;
        }
        let id = numbered_id("t", thread);
        pair.compare_queues(&id).await?;
        pair.compare_contexts(&id, ContextRequest::head()).await?;
        for entry in pair.model_store.log(&id) {
            pair.compare_records(&id, &entry, &numbered_id("r", run)).await?;
            pair.compare_contexts(&id, ContextRequest::at(entry)).await?;
        }
    }
    Ok(())
}
