//! Runs random operations on a store and on the model. The results must be equal, and the errors of the same kind.

mod body;
mod comparable;
mod draft;
mod dropped;
mod events;
mod generate;
mod inputs;
mod mail;
mod model_access;
mod names;
mod ops;
mod outbox;
mod pair;
mod reading;

use std::{env, fmt, sync::Arc};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use store_core::{ContextRequest, Direction, DispatchOrder, ThreadOrder};
use tokio::runtime::Builder;

use self::{
    names::numbered_id,
    ops::{EntryFilterOp, EventFilterOp, List, Op, OutboxFilterOp, RunFilterOp, ScopeOp, ThreadFilterOp},
    pair::{Outcome, Pair},
};
use crate::{
    fixture::Fixture,
    length::Length,
    random::{random_seed, seed},
};

/// The size and the seed of a test that compares a store with the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelTest {
    /// How many histories are run.
    pub cases: u32,
    /// How many steps a history has.
    pub steps: usize,
    /// The seed of the random numbers.
    pub seed: u64,
    /// How often the test tries to shorten a history that shows a difference.
    pub shrinks: u32,
}

impl ModelTest {
    /// Returns a test of `cases` histories with `steps` steps each, and with a random seed.
    #[must_use]
    pub fn new(cases: u32, steps: usize) -> Self {
        Self { cases, steps, seed: random_seed(), shrinks: 4_000 }
    }

    /// Returns the test that the environment describes.
    ///
    /// - `AGENTSTORE_MODEL_CASES`: the number of histories. The default is 10, for the length `full` 150 and
    ///   for the length `long` 1,000.
    /// - `AGENTSTORE_MODEL_STEPS`: the number of steps in each. The default is 50.
    /// - `AGENTSTORE_MODEL_SEED`: a number, or `random`. The default is 1, so that every run uses the same histories.
    #[must_use]
    pub fn from_env() -> Self {
        let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let small = |name: &str, default: u32| number(name).map_or(default, |n| u32::try_from(n).unwrap_or(u32::MAX));
        let steps = small("AGENTSTORE_MODEL_STEPS", 50) as usize;
        let random = Self::new(small("AGENTSTORE_MODEL_CASES", Length::choose(10, 150, 1_000)), steps);
        Self { seed: seed("AGENTSTORE_MODEL_SEED"), ..random }
    }

    /// Returns the test with at least `cases` histories if the environment asks for the length `long`.
    #[must_use]
    pub fn at_length(mut self, cases: u32) -> Self {
        if Length::from_env() == Length::Long {
            self.cases = self.cases.max(cases);
        }
        self
    }

    /// Runs the histories on new stores of `fixture`, until one shows a difference, and then shortens that history.
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
            cases: self.cases,
            failure_persistence: None,
            max_shrink_iters: self.shrinks,
            ..Config::default()
        };
        let mut seed = [0; 32];
        seed.iter_mut().zip(self.seed.to_le_bytes()).for_each(|(byte, given)| *byte = given);
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        let histories = generate::histories(self.steps);
        let result = runner.run(&histories, |history| {
            runtime.block_on(run_history(&fixture, &history)).map_err(|why| TestCaseError::fail(why.to_string()))
        });
        match result {
            Ok(()) => Ok(()),
            Err(error) => Err(Box::new(self.divergence(&fixture.name(), error))),
        }
    }

    fn divergence(self, store: &str, error: TestError<Vec<Op>>) -> Divergence {
        let (why, history) = match error {
            TestError::Fail(why, history) => (why.to_string(), history),
            TestError::Abort(why) => (why.to_string(), Vec::new()),
        };
        let history = history.iter().map(|op| format!("{op:?}")).collect();
        Divergence { test: self, store: store.to_owned(), history, why }
    }
}

/// A difference between a store and the model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Divergence {
    /// The options of the test, with the seed that shows the difference again.
    pub test: ModelTest,
    /// The name of the store.
    pub store: String,
    /// The shortest history that was found, step by step.
    pub history: Vec<String>,
    /// What differs, and at which step.
    pub why: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ModelTest { cases, steps, seed, .. } = self.test;
        writeln!(f, "{} and the model disagree", self.store)?;
        writeln!(
            f,
            "repeat with: AGENTSTORE_MODEL_SEED={seed} AGENTSTORE_MODEL_CASES={cases} AGENTSTORE_MODEL_STEPS={steps}"
        )?;
        for (at, step) in self.history.iter().enumerate() {
            writeln!(f, "{:>3}. {step}", at + 1)?;
        }
        f.write_str(&self.why)
    }
}

impl std::error::Error for Divergence {}

/// Runs random histories on new stores of `fixture` and on the model.
///
/// # Panics
/// If a store and the model disagree. This makes the test fail.
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn model_test(fixture: impl Fixture, cases: u32, steps: usize) {
    if let Err(divergence) = (ModelTest { cases, steps, ..ModelTest::from_env() }).run(fixture) {
        panic!("{divergence}");
    }
}

/// Defines a test that runs random histories on a backend and on the model.
///
/// The fixture is an expression with a path from the root of the crate: `crate::fixture()`.
/// [`ModelTest::from_env`] documents how many histories are run. The number after `in full` is the minimum number of
/// histories at the length `long`.
#[macro_export]
macro_rules! model {
    ($fixture:expr) => {
        $crate::model! { $fixture, in full 0 }
    };
    ($fixture:expr, in full $cases:literal) => {
        #[test]
        fn the_store_agrees_with_the_model() {
            let $crate::model::ModelTest { cases, steps, .. } = $crate::model::ModelTest::from_env().at_length($cases);
            $crate::model::model_test($fixture, cases, steps);
        }
    };
}

/// Runs a history on a store and on the model. At its end, compares all data.
async fn run_history(fixture: &Arc<dyn Fixture>, history: &[Op]) -> Outcome {
    let mut pair = Pair::open(Arc::clone(fixture)).await?;
    for (at, op) in history.iter().enumerate() {
        pair.step(op).await.map_err(|why| why.about(format!("step {}", at + 1)))?;
    }
    compare_all(&mut pair).await.map_err(|why| why.about("at the end"))?;
    pair.close().await
}

/// Compares every list, every entry and the context of every entry.
async fn compare_all(pair: &mut Pair) -> Outcome {
    let (order, direction) = (ThreadOrder::LastActivity, Direction::Backward);
    pair.walk(&List::Threads { filter: ThreadFilterOp::default(), order, direction }, 1_000, None).await?;
    pair.walk(&List::Runs { filter: RunFilterOp::default(), direction }, 1_000, None).await?;
    pair.walk(&List::WithInput, 1_000, None).await?;
    pair.walk(&List::Ready, 1_000, None).await?;
    for order in [DispatchOrder::Creation, DispatchOrder::End] {
        let direction = Direction::Forward;
        pair.walk(&List::Dispatches { thread: None, statuses: None, order, direction }, 1_000, None).await?;
    }
    pair.walk(&List::Outbox { filter: OutboxFilterOp::default(), direction }, 1_000, None).await?;
    for thread in 0..generate::FEW {
        let (filter, direction) = (EntryFilterOp::default(), Direction::Forward);
        pair.walk(&List::Entries { thread, filter, direction }, 1_000, None).await?;
        pair.walk(&List::Leaves { thread }, 1_000, None).await?;
        pair.walk(&List::BranchPoints { thread }, 1_000, None).await?;
        pair.walk(&List::Snapshots { thread }, 1_000, None).await?;
        for scope in [ScopeOp::Thread(thread), ScopeOp::Run(thread)] {
            let filter = EventFilterOp::default();
            pair.walk(&List::Events { scope, filter, direction }, 1_000, None).await?;
            pair.check_subscription(scope).await?;
        }
        let id = numbered_id("t", thread);
        pair.queue(&id).await?;
        pair.context(&id, ContextRequest::head()).await?;
        for entry in pair.model_store.log(&id) {
            pair.load(&id, &entry, &numbered_id("r", thread)).await?;
            pair.context(&id, ContextRequest::at(entry)).await?;
        }
    }
    Ok(())
}
