//! A case, and how one is run.

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
    check::{Failure, Verdict},
    fixture::{Fixture, Lack},
    given::Given,
    list,
};

/// How long a case may take: one that waits for ever fails instead.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The future of a case.
pub type CaseFuture<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// One case of the suite. The documentation of its function is the rule.
pub struct Case {
    /// Area and function, as `thread::update_keeps_what_it_does_not_name`.
    pub name: &'static str,
    /// The lines of the contract that it shows.
    pub ids: &'static [&'static str],
    /// What it needs beyond an opened store.
    pub needs: &'static [Need],
    /// The function.
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
    /// To move the store's time.
    Time,
    /// Time that stands still unless it is moved: to the millisecond nothing happens before its time.
    Still,
    /// Several handles or tasks at once.
    Race,
    /// A store with smaller limits.
    Limits,
    /// To open the store twice at once.
    Beside,
    /// To change stored bytes.
    Damage,
    /// Threads, and the commits that write to them. A store without them shows with the records of its own contracts
    /// what every store promises.
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
    /// The live channel and wake-ups, beside a mailbox.
    LiveChannel,
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", content = "reason", rename_all = "snake_case")]
pub enum Status {
    /// The rule holds.
    Passed,
    /// The rule does not hold, or a declared gap passed.
    Failed(String),
    /// The backend declares not to have what the case needs.
    Unsupported(String),
    /// Known to fail.
    Gap(String),
    /// What the case needs cannot be had here.
    NotRun(String),
}

/// Runs one case against a new store of `fixture`.
pub async fn run_case(contract: Contract, case: &'static Case, fixture: &Arc<dyn Fixture>) -> Status {
    let lack = |need: &Need| match need {
        Need::Fenced if !fixture.capabilities().fenced => Some(Lack::Unsupported("its commits check no claims")),
        need => fixture.lack(*need),
    };
    match case.needs.iter().find_map(lack) {
        Some(Lack::Unsupported(reason)) => return Status::Unsupported(reason.to_owned()),
        Some(Lack::NotRun(reason)) => return Status::NotRun(reason.to_owned()),
        None => {}
    }
    let verdict = attempt(contract, case, fixture).await;
    match (verdict, fixture.gaps().iter().find(|gap| gap.case == case.name)) {
        (Ok(()), None) => Status::Passed,
        (Ok(()), Some(gap)) => Status::Failed(format!("it passes, but is listed as a gap: {}", gap.reason)),
        (Err(failure), None) => Status::Failed(failure.to_string()),
        (Err(_), Some(gap)) => Status::Gap(gap.reason.to_owned()),
    }
}

async fn attempt(contract: Contract, case: &'static Case, fixture: &Arc<dyn Fixture>) -> Verdict {
    let given = Given::open(contract, Arc::clone(fixture)).await?;
    // A task of its own, so that a panic is a failure of this case and a blocked one does not block the suite.
    let task = tokio::spawn(async move { (case.run)(&given).await });
    let aborter = task.abort_handle();
    match timeout(TIME_LIMIT, task).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(panic)) => Err(Failure::new(format!("it panicked: {panic}"))),
        Err(_) => {
            aborter.abort();
            Err(Failure::new(format!("it did not end within {} seconds", TIME_LIMIT.as_secs())))
        }
    }
}

/// Runs the case `name` of a contract's list as a test: what the macros of the contracts expand to.
///
/// # Panics
/// If the case fails; that is how a test fails.
#[doc(hidden)]
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn test_case(contract: Contract, name: &str, fixture: impl Fixture) {
    let case = list::find(contract, name).expect("a case of the list");
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
    let fixture: Arc<dyn Fixture> = Arc::new(fixture);
    let status = runtime.block_on(run_case(contract, case, &fixture));
    // Waiting for a task that is blocked for ever would block the test too.
    runtime.shutdown_background();
    let skipped = match status {
        Status::Passed => return,
        Status::Failed(reason) => panic!("{name} {:?}: {reason}", case.ids),
        Status::Unsupported(reason) => format!("unsupported: {reason}"),
        Status::Gap(reason) => format!("GAP: {reason}"),
        Status::NotRun(reason) => format!("NOT RUN: {reason}"),
    };
    // Straight to standard error, which the test harness does not capture: a skip is loud.
    let _unheard = writeln!(stderr(), "{}: {name}: {skipped}", fixture.name());
}
