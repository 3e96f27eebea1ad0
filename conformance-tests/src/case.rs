//! A case, and how the suite runs it.

use std::{
    fmt,
    future::Future,
    io::{Write, stderr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;
use tokio::{runtime::Builder, time::timeout};

use crate::{
    case_list,
    check::{Failure, Verdict},
    fixture::{Fixture, UnmetReason},
    given::Given,
};

/// How long a case may take. A case that waits forever fails after this time.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The future of a case.
pub type CaseFuture<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// One case of the suite. The documentation of its function states what the case checks.
pub struct Case {
    /// The area and the function, for example `thread::an_update_keeps_fields_that_it_does_not_name`.
    pub name: &'static str,
    /// The ids of the lines of the contract that the case tests.
    pub ids: &'static [&'static str],
    /// What the case needs beyond an opened store.
    pub needs: &'static [Need],
    /// The function that runs the case.
    pub run: for<'a> fn(&'a Given) -> CaseFuture<'a>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).field("ids", &self.ids).finish_non_exhaustive()
    }
}

/// What a case may need beyond an opened store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Need {
    /// To close the store and open it again.
    Reopen,
    /// To set the store's clock forward and back.
    Time,
    /// A clock that stands still unless the case moves it. The case can then check to the millisecond that nothing
    /// happens early.
    StoppedClock,
    /// Several handles or tasks that are used at the same time.
    Race,
    /// A store with smaller limits.
    Limits,
    /// To open the store a second time while it is open.
    SecondOpening,
    /// To change stored bytes.
    Damage,
    /// Threads, and the commits that write to them. Cases that run for every contract do not need this, because they
    /// use the records of the contract.
    Threads,
    /// A commit that checks a claim of the store's own mailbox in its atomic step: the capability `fenced`.
    Fenced,
    /// A live channel.
    Live,
    /// Wake-ups.
    WakeUps,
}

/// The contracts that have a list of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Contract {
    /// Threads, logs and runs.
    ThreadRunStore,
    /// Commits.
    CommitCoordinator,
    /// Pending input, and commits that consume it.
    PendingStore,
    /// Events, and commits that append them.
    EventStore,
    /// The mailbox, and commits under its claims.
    MailboxStore,
    /// The outbox, and commits that write to it.
    OutboxStore,
    /// The live channel and wake-ups of a store with a mailbox.
    LiveChannel,
    /// Documents and topics, and commits that write them.
    DocumentStore,
    /// Objects, and the blobs that core keeps in them.
    ObjectStore,
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", content = "reason", rename_all = "snake_case")]
pub enum Status {
    /// The store keeps the promises that the case tests.
    Passed,
    /// The store breaks one of these promises, or keeps them all although the backend lists the case as a gap.
    Failed(String),
    /// The case did not run: the backend declares that it does not have what the case needs.
    Unsupported(String),
    /// The case failed, and the backend lists it as a gap.
    Gap(String),
    /// The case did not run: what it needs is not available in this environment.
    NotRun(String),
}

/// Runs one case against a new store of `fixture`.
pub async fn run_case(contract: Contract, case: &'static Case, fixture: &Arc<dyn Fixture>) -> Status {
    let why_unmet = |need: &Need| match need {
        Need::Fenced if !fixture.capabilities().fenced => {
            Some(UnmetReason::Unsupported("its commits do not check claims"))
        }
        need => fixture.why_unmet(*need),
    };
    match case.needs.iter().find_map(why_unmet) {
        Some(UnmetReason::Unsupported(reason)) => return Status::Unsupported(reason.to_owned()),
        Some(UnmetReason::NotRun(reason)) => return Status::NotRun(reason.to_owned()),
        None => {}
    }
    let verdict = open_and_run(contract, case, fixture).await;
    match (verdict, fixture.gaps().iter().find(|gap| gap.case == case.name)) {
        (Ok(()), None) => Status::Passed,
        (Ok(()), Some(gap)) => Status::Failed(format!("the case passes, but is listed as a gap: {}", gap.reason)),
        (Err(failure), None) => Status::Failed(failure.to_string()),
        (Err(_), Some(gap)) => Status::Gap(gap.reason.to_owned()),
    }
}

async fn open_and_run(contract: Contract, case: &'static Case, fixture: &Arc<dyn Fixture>) -> Verdict {
    let given = Given::open(contract, Arc::clone(fixture)).await?;
    // The case runs in a task of its own. So a panic is a failure of this case only, and a case that blocks does not
    // block the suite.
    let task = tokio::spawn(async move { (case.run)(&given).await });
    let abort_handle = task.abort_handle();
    match timeout(TIME_LIMIT, task).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(panic)) => Err(Failure::new(format!("the case panicked: {panic}"))),
        Err(_) => {
            abort_handle.abort();
            Err(Failure::new(format!("the case did not end within {} seconds", TIME_LIMIT.as_secs())))
        }
    }
}

/// Runs the case `name` of a contract's list as a test. The macros of the contracts expand to calls of this function.
///
/// # Panics
/// If the case fails, because a test fails by panicking.
#[doc(hidden)]
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn run_case_as_test(contract: Contract, name: &str, fixture: impl Fixture) {
    let case = case_list::find_case(contract, name).expect("the name of a listed case");
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
    let fixture: Arc<dyn Fixture> = Arc::new(fixture);
    let status = runtime.block_on(run_case(contract, case, &fixture));
    // Dropping the runtime could wait for its tasks, and a task that is blocked forever would then block the test.
    runtime.shutdown_background();
    let skip_reason = match status {
        Status::Passed => return,
        Status::Failed(reason) => panic!("{name} {:?}: {reason}", case.ids),
        Status::Unsupported(reason) => format!("unsupported: {reason}"),
        Status::Gap(reason) => format!("GAP: {reason}"),
        Status::NotRun(reason) => format!("NOT RUN: {reason}"),
    };
    // The test harness captures `eprintln!`, but not what is written to standard error directly. A skipped case is
    // therefore visible in the output.
    let _ignored = writeln!(stderr(), "{}: {name}: {skip_reason}", fixture.name());
}
