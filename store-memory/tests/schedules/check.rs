//! Runs a scenario under many schedules, prints the situations in them, and checks that each schedule can be repeated.

use std::{
    any::Any,
    cell::Cell,
    collections::BTreeMap,
    env,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook},
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicUsize, Ordering},
    },
};

use shuttle::{
    Config, FailurePersistence, Runner,
    future::block_on,
    scheduler::{PctScheduler, RoundRobinScheduler, Scheduler, UncontrolledNondeterminismCheckScheduler},
};

const SEED_VARIABLE: &str = "AGENTSTORE_SCHEDULE_SEED";
/// One more than the maximum number of preemptions in a schedule. Most faults need only a few preemptions.
const PCT_DEPTH: usize = 3;
/// The number of schedules that are run twice.
const REPEATED_SCHEDULES: usize = 100;
/// The stack that planning a commit needs, even in an unoptimized build.
const STACK_BYTES: usize = 1 << 20;

/// Counts, over all schedules together, how many times each situation occurred.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Tally {
    pub(crate) fn count(&self, situation: &'static str) {
        *self.0.lock().unwrap().entry(situation).or_default() += 1;
    }

    /// Returns the counts as text. Panics if one of the situations in `expected_situations` never occurred, because the
    /// scenario then shows nothing about it.
    fn checked_text(&self, expected_situations: &[&'static str]) -> String {
        let counts = self.0.lock().unwrap();
        let missing_situations: Vec<_> =
            expected_situations.iter().filter(|situation| !counts.contains_key(*situation)).collect();
        assert!(missing_situations.is_empty(), "these situations occurred in no schedule: {missing_situations:?}");
        counts.iter().map(|(situation, count)| format!(", {situation} {count}")).collect()
    }
}

/// Checks that a scenario succeeds under every schedule, and that each situation in `expected_situations` occurs in at
/// least one of them.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the test prints its figures")]
pub(crate) fn check_all_schedules<F>(
    name: &str,
    expected_situations: &[&'static str],
    scenario: impl Fn(Tally) -> F + Copy + Send + Sync + 'static,
) where
    F: Future<Output = ()> + 'static,
{
    let (seed, tally) = (seed(), Tally::default());
    let schedule_tally = tally.clone();
    match run_schedules(PctScheduler::new_from_seed(seed, PCT_DEPTH, schedule_count()), move || {
        scenario(schedule_tally.clone())
    }) {
        Ok(count) => {
            println!(
                "{SEED_VARIABLE}={seed}: {name}: {count} schedules, none failed{}",
                tally.checked_text(expected_situations)
            )
        }
        Err((number, panic)) => {
            eprintln!("{SEED_VARIABLE}={seed}: {name}: schedule {number} failed");
            resume_unwind(panic);
        }
    }
    let repeating_scheduler =
        UncontrolledNondeterminismCheckScheduler::new(PctScheduler::new_from_seed(seed, PCT_DEPTH, REPEATED_SCHEDULES));
    if let Err((_, panic)) = run_schedules(repeating_scheduler, move || scenario(Tally::default())) {
        eprintln!("{SEED_VARIABLE}={seed}: {name}: a schedule ran differently when it was repeated");
        resume_unwind(panic);
    }
}

/// Checks that the checker finds the fault in a scenario, and that the panic contains `message`.
#[expect(clippy::print_stdout, reason = "the test prints its figures")]
pub(crate) fn check_fault_is_found<F>(name: &str, message: &str, scenario: impl Fn() -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let (seed, schedules) = (seed(), schedule_count());
    let result =
        without_panic_output(|| run_schedules(PctScheduler::new_from_seed(seed, PCT_DEPTH, schedules), scenario));
    let Err((number, panic)) = result else { panic!("{name}: not found in {schedules} schedules of seed {seed}") };
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    assert!(text.is_some_and(|text| text.contains(message)), "{text:?}");
    println!("{SEED_VARIABLE}={seed}: {name}: found in schedule {number} of {schedules}");
}

/// Returns the seed that determines all schedules: the number in the environment variable, or 1.
fn seed() -> u64 {
    env::var(SEED_VARIABLE).ok().map_or(1, |text| text.parse().unwrap())
}

/// Returns the number of schedules: 2,000, or 20,000 in a long test.
fn schedule_count() -> usize {
    if env::var("AGENTSTORE_TEST_LENGTH").is_ok_and(|length| length == "long") { 20_000 } else { 2_000 }
}

/// Runs a scenario under the schedules of a scheduler. Returns their number, or the number of the schedule that failed,
/// and its panic.
fn run_schedules<F>(
    scheduler: impl Scheduler + 'static,
    scenario: impl Fn() -> F + Send + Sync + 'static,
) -> Result<usize, (usize, Box<dyn Any + Send>)>
where
    F: Future<Output = ()> + 'static,
{
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    // Otherwise the checker warns that it treats every memory ordering as the strongest one.
    config.silence_warnings = true;
    if IS_QUIET.get() {
        config.failure_persistence = FailurePersistence::None;
    }
    let started_schedules = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&started_schedules);
    let run_scenario = move || {
        counter.fetch_add(1, Ordering::Relaxed);
        block_on(scenario());
    };
    catch_unwind(AssertUnwindSafe(|| Runner::new(scheduler, config).run(run_scenario)))
        .map_err(|panic| (started_schedules.load(Ordering::Relaxed), panic))
}

thread_local! {
    /// Whether the panics of this thread are not printed, because they are expected.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function that is expected to panic, without printing the panic.
fn without_panic_output<T>(act: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // The checker sets its own panic hook in its first run. So that run must come before the hook below is set.
        run_schedules(RoundRobinScheduler::new(1), || std::future::ready(())).ok();
        let hook = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_QUIET.get() {
                hook(panic);
            }
        }));
    });
    IS_QUIET.set(true);
    let result = act();
    IS_QUIET.set(false);
    result
}
