//! Tests a store with many tasks that make guarded commits, repeat them, and read threads at the same time. Some
//! commits have an unknown outcome. The history of all calls must be linearizable.

use std::{
    collections::BTreeMap,
    env, fmt, fs,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use store_core::{
    Commit, CommitCoordinator, Detail, Error, ErrorKind, Expect, Thread, ThreadId, ThreadRunStore, Version,
};

use super::{
    check::{CheckFigures, check},
    faulty_coordinator::FaultyCoordinator,
    guarded_logs::{GuardedLogs, LogAct, LogAnswer, LogOp},
    record::{Operation, Recorder, to_json_lines},
};
use crate::{
    case::Contract,
    check::Failure,
    fixture::Fixture,
    given::{Given, id, message_entry, run_concurrently},
    random::{Random, seed_from_env},
    test_length::TestLength,
};

/// The number of unknown outcomes on a thread after which the test uses a new thread instead. Each commit of unknown
/// outcome doubles the number of orders that the checker has to try.
const MAX_UNKNOWN_OUTCOMES: usize = 8;

/// A test in which many tasks make guarded commits, repeat them, and read threads at the same time. The history of
/// these calls must be linearizable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardedCommits {
    /// The number of operations of all tasks together.
    pub operations: usize,
    /// The number of tasks that make these calls.
    pub tasks: usize,
    /// The number of threads in use at a time.
    pub threads: usize,
    /// One commit in this many has an unknown outcome.
    pub commits_per_unknown_outcome: usize,
    /// The seed of the random choices of the calls. The schedule of the tasks does not depend on it.
    pub seed: u64,
    /// Whether a history that is not linearizable is written to the folder for temporary files.
    pub saves_history: bool,
}

/// The figures of a test that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitFigures {
    /// The test.
    pub test: GuardedCommits,
    /// The figures of the checker.
    pub checked: CheckFigures,
    /// The number of commits that were accepted and answered.
    pub accepted: usize,
    /// The number of repeats that were answered with the first receipt.
    pub repeated: usize,
    /// The number of commits that were refused.
    pub refused: usize,
    /// The number of commits that are in a log although no task learned their outcome.
    pub unanswered: usize,
}

impl fmt::Display for CommitFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test, checked: CheckFigures { objects, operations, unknown, steps }, .. } = self;
        write!(
            f,
            "AGENTSTORE_HISTORY_SEED={}: {operations} operations on {objects} threads, linearizable, ",
            test.seed
        )?;
        write!(
            f,
            "{unknown} of unknown outcome; {} commits accepted, {} unanswered, ",
            self.accepted, self.unanswered
        )?;
        write!(f, "{} repeats, {} refusals; {steps} steps of the checker", self.repeated, self.refused)
    }
}

impl Default for GuardedCommits {
    /// Returns a test of 3,000 operations (20,000 at lengths `full` and `long`) of 64 tasks on 8 threads. About one
    /// operation in a hundred has an unknown outcome. The seed comes from `AGENTSTORE_HISTORY_SEED`: a number (1 if
    /// it is not set), or `random`.
    fn default() -> Self {
        let seed = seed_from_env("AGENTSTORE_HISTORY_SEED");
        // Two of three operations are commits, so one commit in 66 is about one operation in 100.
        Self {
            operations: TestLength::pick_by_env(3_000, 20_000, 20_000),
            tasks: 64,
            threads: 8,
            commits_per_unknown_outcome: 66,
            seed,
            saves_history: true,
        }
    }
}

type History = Vec<Operation<LogOp, LogAnswer>>;

impl GuardedCommits {
    /// Runs the test on a new store of `fixture`.
    ///
    /// # Errors
    /// If a call fails with an error that is not expected, if the history is not linearizable, or if a log does not
    /// have the commits that were accepted.
    pub async fn run(self, fixture: impl Fixture) -> Result<CommitFigures, Failure> {
        let given = Given::open(Contract::CommitCoordinator, Arc::new(fixture)).await?;
        let mut random = Random::new(self.seed);
        let shared = Arc::new(GuardedCommitsState {
            history: Recorder::default(),
            commits: FaultyCoordinator::new(given.commits()?, self.commits_per_unknown_outcome, random.fork()),
            threads: given.threads()?,
            unknown_outcomes: (0..self.threads).map(|_| AtomicUsize::new(0)).collect(),
            commit_counter: AtomicU64::new(0),
        });
        let task_randoms: Vec<Random> = (0..self.tasks).map(|_| random.fork()).collect();
        let results = run_concurrently(self.tasks, |task| {
            let caller = Caller::new(Arc::clone(&shared), task_randoms[task].clone());
            caller.make_calls(self.operations.div_ceil(self.tasks))
        });
        results.await.into_iter().collect::<Result<Vec<()>, Failure>>()?;
        shared.commits.wait_for_late_commits().await;
        for at in 0..self.threads {
            for number in 0..=shared.unknown_outcomes[at].load(Ordering::SeqCst) / MAX_UNKNOWN_OUTCOMES {
                shared.read(&thread_id(at, number)).await?;
            }
        }
        let history = shared.history.take();
        let checked = match check(&GuardedLogs, &history) {
            Ok(checked) => checked,
            Err(violation) => return Err(self.save_history(&history).about(violation)),
        };
        let mut figures = CommitFigures { test: self, checked, accepted: 0, repeated: 0, refused: 0, unanswered: 0 };
        check_one_commit_per_version(&given, &history, &mut figures).await?;
        given.store().close().await?;
        Ok(figures)
    }

    /// Saves a history that is not linearizable in a file, if this test saves histories. Returns a failure that names
    /// the seed and the file.
    fn save_history(self, history: &History) -> Failure {
        if !self.saves_history {
            return Failure::new(format!("AGENTSTORE_HISTORY_SEED={}", self.seed));
        }
        let path = env::temp_dir().join(format!("agentstore-history-{}-{}.jsonl", std::process::id(), self.seed));
        let saved = to_json_lines(history).map_err(std::io::Error::from).and_then(|lines| fs::write(&path, lines));
        Failure::new(match saved {
            Ok(()) => format!("AGENTSTORE_HISTORY_SEED={}, the whole history is in {}", self.seed, path.display()),
            Err(error) => format!("AGENTSTORE_HISTORY_SEED={}, the history could not be saved: {error}", self.seed),
        })
    }
}

/// Returns the id of a thread. A fixed number of threads is in use at a time. When the thread with the index `at` has
/// too many unknown outcomes, the thread with the same index and the next number replaces it.
fn thread_id(at: usize, number: usize) -> ThreadId {
    id(&format!("t-{at}-{number}"))
}

/// The data that all tasks share.
struct GuardedCommitsState {
    history: Recorder<LogOp, LogAnswer>,
    commits: FaultyCoordinator<Arc<dyn CommitCoordinator>>,
    threads: Arc<dyn ThreadRunStore>,
    /// For each index, the number of unknown outcomes of all threads with this index. This number decides which of
    /// these threads is in use.
    unknown_outcomes: Vec<AtomicUsize>,
    commit_counter: AtomicU64,
}

impl GuardedCommitsState {
    async fn read(&self, thread: &ThreadId) -> Result<Option<Version>, Failure> {
        let invocation = self.history.record_invocation(LogOp { thread: thread.to_string(), act: LogAct::Read });
        let found = self.threads.load_thread(thread).await?;
        let version = found.as_ref().map(|thread| thread.version);
        let head = found.as_ref().and_then(number_of_head_commit);
        self.history.record_return(invocation, LogAnswer::Seen { version: version_number(version), head });
        Ok(version)
    }
}

/// Returns the number of the commit that wrote the head of a thread.
fn number_of_head_commit(thread: &Thread) -> Option<u64> {
    thread.head.as_ref()?.as_str().parse().ok()
}

fn version_number(version: Option<Version>) -> u64 {
    version.map_or(0, Version::number)
}

/// The guard of a repeated commit.
#[derive(Clone, Copy)]
enum RepeatGuard {
    /// The guard with which the commit was last sent.
    LastSent,
    /// The guard for the last version that the task knows.
    Newest,
}

/// A task that makes calls.
struct Caller {
    shared: Arc<GuardedCommitsState>,
    random: Random,
    /// The index of the thread to which the task makes its calls (see [`thread_id`]).
    thread_index: usize,
    /// The thread that the task last used at this index.
    thread: ThreadId,
    /// The last version of the thread that the task knows.
    known_version: Option<Version>,
    /// The commits that the task sent to this thread, each with its number. Some of them are repeated.
    sent_commits: Vec<(u64, Commit)>,
}

impl Caller {
    fn new(shared: Arc<GuardedCommitsState>, random: Random) -> Self {
        Self { shared, random, thread_index: 0, thread: thread_id(0, 0), known_version: None, sent_commits: Vec::new() }
    }

    async fn make_calls(mut self, operations: usize) -> Result<(), Failure> {
        for _ in 0..operations {
            if self.random.once_in(20) || self.sent_commits.is_empty() {
                self.thread_index = self.random.below(self.shared.unknown_outcomes.len());
            }
            let number = self.shared.unknown_outcomes[self.thread_index].load(Ordering::SeqCst) / MAX_UNKNOWN_OUTCOMES;
            let thread = thread_id(self.thread_index, number);
            if thread != self.thread {
                (self.thread, self.known_version) = (thread, None);
                self.sent_commits.clear();
            }
            match self.random.below(12) {
                0..4 => self.known_version = self.shared.read(&self.thread).await?,
                4..9 => self.commit_new().await?,
                9..11 => self.repeat(RepeatGuard::LastSent).await?,
                _ => self.repeat(RepeatGuard::Newest).await?,
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Returns the guard for the last version that the task knows.
    fn newest_guard(&self) -> Expect {
        self.known_version.map_or(Expect::Absent, Expect::Version)
    }

    async fn commit_new(&mut self) -> Result<(), Failure> {
        let commit_number = self.shared.commit_counter.fetch_add(1, Ordering::SeqCst) + 1;
        let entry = message_entry("x").with_id(id(&commit_number.to_string()));
        let commit = Commit::new(self.thread.clone()).with_key(id(&commit_number.to_string())).entry(entry);
        self.sent_commits.push((commit_number, commit.clone()));
        self.send(commit_number, commit.expecting(self.newest_guard())).await
    }

    /// Repeats an earlier commit, whatever its outcome was.
    async fn repeat(&mut self, guard: RepeatGuard) -> Result<(), Failure> {
        if self.sent_commits.is_empty() {
            return self.commit_new().await;
        }
        let first_recent = self.sent_commits.len().saturating_sub(4);
        let index = first_recent + self.random.below(self.sent_commits.len() - first_recent);
        let (commit_number, commit) = self.sent_commits[index].clone();
        let commit = match guard {
            RepeatGuard::LastSent => commit,
            RepeatGuard::Newest => commit.expecting(self.newest_guard()),
        };
        self.send(commit_number, commit).await
    }

    /// Sends a commit, and records the call. Remembers the guard for later repeats.
    async fn send(&mut self, commit_number: u64, commit: Commit) -> Result<(), Failure> {
        if let Some((_, sent_commit)) = self.sent_commits.iter_mut().find(|(known, _)| *known == commit_number) {
            sent_commit.expect = commit.expect;
        }
        let from = match commit.expect {
            Expect::Version(version) => version.number(),
            Expect::Any | Expect::Absent => 0,
        };
        let op = LogOp { thread: commit.thread.to_string(), act: LogAct::Commit { from, commit_number } };
        let invocation = self.shared.history.record_invocation(op);
        let answer = match self.shared.commits.commit(commit).await {
            Ok(receipt) => {
                // The receipt of a repeat has the version of the first commit, which may be an old one.
                if !receipt.deduplicated {
                    self.known_version = Some(receipt.version);
                }
                LogAnswer::Committed { version: receipt.version.number(), deduplicated: receipt.deduplicated }
            }
            Err(error) if error.kind() == ErrorKind::CommitUnknown => {
                self.shared.unknown_outcomes[self.thread_index].fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            Err(error) => {
                self.known_version = conflict_version(&error)?;
                LogAnswer::Conflict { actual: version_number(self.known_version) }
            }
        };
        self.shared.history.record_return(invocation, answer);
        Ok(())
    }
}

/// Returns the version that a conflict reports. Any other error is a failure.
fn conflict_version(error: &Error) -> Result<Option<Version>, Failure> {
    match error.detail() {
        Detail::Conflict { actual, .. } => Ok(*actual),
        _ => Err(Failure::new(format!("a commit failed with an unexpected error: {error:?}"))),
    }
}

/// Checks that each entry of the logs was written by the only commit that was accepted at the version of the entry. If
/// no commit is known to have been accepted at this version, a commit of unknown outcome must have written the entry.
/// Also checks that every accepted commit is in a log.
async fn check_one_commit_per_version(
    given: &Given,
    history: &History,
    figures: &mut CommitFigures,
) -> Result<(), Failure> {
    let mut accepted: BTreeMap<(&str, u64), Vec<u64>> = BTreeMap::new();
    let mut unknown = BTreeMap::new();
    for Operation { op: LogOp { thread, act }, returned, .. } in history {
        let LogAct::Commit { commit_number, .. } = *act else { continue };
        match returned.as_ref().map(|(_, answer)| *answer) {
            Some(LogAnswer::Committed { version, deduplicated: false }) => {
                figures.accepted += 1;
                accepted.entry((thread, version)).or_default().push(commit_number);
            }
            Some(LogAnswer::Committed { .. }) => figures.repeated += 1,
            Some(_) => figures.refused += 1,
            None => drop(unknown.insert((thread.as_str(), commit_number), ())),
        }
    }
    let mut threads: Vec<&str> = history.iter().map(|operation| operation.op.thread.as_str()).collect();
    threads.sort_unstable();
    threads.dedup();
    for thread in threads {
        let log = if given.threads()?.load_thread(&id(thread)).await?.is_some() {
            given.read_log(&id(thread)).await?
        } else {
            Vec::new()
        };
        for (version, entry) in (1..).zip(&log) {
            let commit_number = entry.id.as_str().parse().unwrap_or_default();
            let accepted_there = accepted.remove(&(thread, version)).unwrap_or_default();
            let is_unanswered = accepted_there.is_empty() && unknown.contains_key(&(thread, commit_number));
            figures.unanswered += usize::from(is_unanswered);
            if entry.seq != version || (accepted_there != [commit_number] && !is_unanswered) {
                let what = format!(
                    "{thread} at version {version}: the log has commit {commit_number}, but the accepted commits are \
                     {accepted_there:?}"
                );
                return Err(Failure::new(what));
            }
        }
    }
    if accepted.is_empty() { Ok(()) } else { Err(Failure::new(format!("missing from the log: {accepted:?}"))) }
}
