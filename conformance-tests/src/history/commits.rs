//! Guarded commits, repeats and reads from many tasks at once, some of unknown outcome: their history is linearizable.

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
    check::{Checked, check},
    faulty::Faulty,
    log::{GuardedLogs, LogAct, LogAnswer, LogOp},
    record::{Operation, Recorder, to_lines},
};
use crate::{
    case::Contract,
    check::Failure,
    fixture::Fixture,
    given::{Given, id, race, said},
    length::Length,
    random::{Random, seed},
};

/// So many commits of a thread may have an unknown outcome before its place is taken by a new one: each doubles the
/// orders that the checker has to think of.
const MOST_UNKNOWN: usize = 8;

/// How many operations, of how many tasks, on how many threads at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardedCommits {
    /// So many operations in all.
    pub operations: usize,
    /// So many tasks call them.
    pub tasks: usize,
    /// On so many threads at a time.
    pub threads: usize,
    /// The outcome of one commit in so many is unknown.
    pub unknown_once_in: usize,
    /// Decides what is called. The schedule of the tasks it does not decide.
    pub seed: u64,
    /// Whether a history that is wrong is written to the folder for temporary files.
    pub keeps: bool,
}

/// What was done, and found to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitFigures {
    /// The test.
    pub test: GuardedCommits,
    /// What the checker saw.
    pub checked: Checked,
    /// Commits that were accepted and answered.
    pub accepted: usize,
    /// Repeats that were answered with the first receipt.
    pub repeated: usize,
    /// Commits that were refused.
    pub refused: usize,
    /// Commits whose answer nobody heard, and that are in a log.
    pub unheard: usize,
}

impl fmt::Display for CommitFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test, checked: Checked { keys, operations, unknown, steps }, .. } = self;
        write!(f, "AGENTSTORE_HISTORY_SEED={}: {operations} operations on {keys} threads, linearizable, ", test.seed)?;
        write!(f, "{unknown} of unknown outcome; {} commits accepted, {} unheard, ", self.accepted, self.unheard)?;
        write!(f, "{} repeats, {} refusals; {steps} steps of the checker", self.repeated, self.refused)
    }
}

impl Default for GuardedCommits {
    /// 3,000 operations of 64 tasks on 8 threads, in full and at length 20,000, of which one in a hundred has an
    /// unknown outcome, from the seed that `AGENTSTORE_HISTORY_SEED` gives: a number (1), or `random`.
    fn default() -> Self {
        let seed = seed("AGENTSTORE_HISTORY_SEED");
        // Two operations of three are commits.
        Self {
            operations: Length::choose(3_000, 20_000, 20_000),
            tasks: 64,
            threads: 8,
            unknown_once_in: 66,
            seed,
            keeps: true,
        }
    }
}

type History = Vec<Operation<LogOp, LogAnswer>>;

impl GuardedCommits {
    /// Runs it on a new store of `fixture`.
    ///
    /// # Errors
    /// If a call fails otherwise than it may, or the history is not that of logs.
    pub async fn run(self, fixture: impl Fixture) -> Result<CommitFigures, Failure> {
        let given = Given::open(Contract::CommitCoordinator, Arc::new(fixture)).await?;
        let mut random = Random::new(self.seed);
        let shared = Arc::new(Shared {
            history: Recorder::default(),
            commits: Faulty::new(given.commits()?, self.unknown_once_in, random.fork()),
            threads: given.threads()?,
            unknown: (0..self.threads).map(|_| AtomicUsize::new(0)).collect(),
            names: AtomicU64::new(0),
        });
        let seeds: Vec<Random> = (0..self.tasks).map(|_| random.fork()).collect();
        let ends = race(self.tasks, |task| {
            let caller = Caller::new(Arc::clone(&shared), seeds[task].clone());
            caller.call(self.operations.div_ceil(self.tasks))
        });
        ends.await.into_iter().collect::<Result<Vec<()>, Failure>>()?;
        shared.commits.settled().await;
        for at in 0..self.threads {
            for number in 0..=shared.unknown[at].load(Ordering::SeqCst) / MOST_UNKNOWN {
                shared.read(&name(at, number)).await?;
            }
        }
        let history = shared.history.take();
        let checked = match check(&GuardedLogs, &history) {
            Ok(checked) => checked,
            Err(violation) => return Err(self.kept(&history).about(violation)),
        };
        let mut figures = CommitFigures { test: self, checked, accepted: 0, repeated: 0, refused: 0, unheard: 0 };
        one_commit_for_each_version(&given, &history, &mut figures).await?;
        given.store().close().await?;
        Ok(figures)
    }

    /// Writes a history that is wrong where it can be looked at, and says where.
    fn kept(self, history: &History) -> Failure {
        if !self.keeps {
            return Failure::new(format!("AGENTSTORE_HISTORY_SEED={}", self.seed));
        }
        let path = env::temp_dir().join(format!("agentstore-history-{}-{}.jsonl", std::process::id(), self.seed));
        let kept = to_lines(history).map_err(std::io::Error::from).and_then(|lines| fs::write(&path, lines));
        Failure::new(match kept {
            Ok(()) => format!("AGENTSTORE_HISTORY_SEED={}, the whole history is in {}", self.seed, path.display()),
            Err(error) => format!("AGENTSTORE_HISTORY_SEED={}, the history was not kept: {error}", self.seed),
        })
    }
}

/// The thread in place `at`, the `number`th one there.
fn name(at: usize, number: usize) -> ThreadId {
    id(&format!("t-{at}-{number}"))
}

/// What all tasks share.
struct Shared {
    history: Recorder<LogOp, LogAnswer>,
    commits: Faulty<Arc<dyn CommitCoordinator>>,
    threads: Arc<dyn ThreadRunStore>,
    /// How many outcomes were unknown in each place.
    unknown: Vec<AtomicUsize>,
    names: AtomicU64,
}

impl Shared {
    async fn read(&self, thread: &ThreadId) -> Result<Option<Version>, Failure> {
        let invocation = self.history.invoke(LogOp { thread: thread.to_string(), act: LogAct::Read });
        let found = self.threads.load_thread(thread).await?;
        let version = found.as_ref().map(|thread| thread.version);
        let head = found.as_ref().and_then(head);
        self.history.returned(invocation, LogAnswer::Seen { version: number(version), head });
        Ok(version)
    }
}

/// The commit that a thread's head is of.
fn head(thread: &Thread) -> Option<u64> {
    thread.head.as_ref()?.as_str().parse().ok()
}

fn number(version: Option<Version>) -> u64 {
    version.map_or(0, Version::number)
}

/// One of the tasks.
struct Caller {
    shared: Arc<Shared>,
    random: Random,
    /// The place it is at, and the thread there.
    place: usize,
    thread: ThreadId,
    /// The version that it saw there last.
    seen: Option<Version>,
    /// Commits of this thread that it made, to be repeated.
    made: Vec<(u64, Commit)>,
}

impl Caller {
    fn new(shared: Arc<Shared>, random: Random) -> Self {
        Self { shared, random, place: 0, thread: name(0, 0), seen: None, made: Vec::new() }
    }

    async fn call(mut self, operations: usize) -> Result<(), Failure> {
        for _ in 0..operations {
            if self.random.once_in(20) || self.made.is_empty() {
                self.place = self.random.below(self.shared.unknown.len());
            }
            let number = self.shared.unknown[self.place].load(Ordering::SeqCst) / MOST_UNKNOWN;
            let thread = name(self.place, number);
            if thread != self.thread {
                (self.thread, self.seen) = (thread, None);
                self.made.clear();
            }
            match self.random.below(12) {
                0..4 => self.seen = self.shared.read(&self.thread).await?,
                4..9 => self.commit_new().await?,
                9..11 => self.repeat(false).await?,
                _ => self.repeat(true).await?,
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn guard(&self) -> Expect {
        self.seen.map_or(Expect::Absent, Expect::Version)
    }

    async fn commit_new(&mut self) -> Result<(), Failure> {
        let name = self.shared.names.fetch_add(1, Ordering::SeqCst) + 1;
        let entry = said("x").with_id(id(&name.to_string()));
        let commit = Commit::new(self.thread.clone()).with_key(id(&name.to_string())).entry(entry);
        self.made.push((name, commit.clone()));
        self.send(name, commit.expecting(self.guard())).await
    }

    /// Repeats an earlier commit without looking at what became of it, under its old guard or the newest one.
    async fn repeat(&mut self, is_rebased: bool) -> Result<(), Failure> {
        if self.made.is_empty() {
            return self.commit_new().await;
        }
        let recent = self.made.len().saturating_sub(4);
        let (name, commit) = self.made[recent + self.random.below(self.made.len() - recent)].clone();
        let commit = if is_rebased { commit.expecting(self.guard()) } else { commit };
        self.send(name, commit).await
    }

    async fn send(&mut self, name: u64, commit: Commit) -> Result<(), Failure> {
        if let Some((_, made)) = self.made.iter_mut().find(|(known, _)| *known == name) {
            made.expect = commit.expect;
        }
        let from = match commit.expect {
            Expect::Version(version) => version.number(),
            Expect::Any | Expect::Absent => 0,
        };
        let op = LogOp { thread: commit.thread.to_string(), act: LogAct::Commit { from, name } };
        let invocation = self.shared.history.invoke(op);
        let answer = match self.shared.commits.commit(commit).await {
            Ok(receipt) => {
                // A repeat tells the version of the first one, which is an old one by now.
                if !receipt.deduplicated {
                    self.seen = Some(receipt.version);
                }
                LogAnswer::Committed { version: receipt.version.number(), deduplicated: receipt.deduplicated }
            }
            Err(error) if error.kind() == ErrorKind::CommitUnknown => {
                self.shared.unknown[self.place].fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            Err(error) => {
                self.seen = found(&error)?;
                LogAnswer::Conflict { actual: number(self.seen) }
            }
        };
        self.shared.history.returned(invocation, answer);
        Ok(())
    }
}

/// The version that a conflict tells; any other error is one too many.
fn found(error: &Error) -> Result<Option<Version>, Failure> {
    match error.detail() {
        Detail::Conflict { actual, .. } => Ok(*actual),
        _ => Err(Failure::new(format!("a commit ended with {error:?}"))),
    }
}

/// For each thread and version there is exactly one commit that was accepted, or that nobody knew the outcome of, and
/// it is the one in the log.
async fn one_commit_for_each_version(
    given: &Given,
    history: &History,
    figures: &mut CommitFigures,
) -> Result<(), Failure> {
    let mut accepted: BTreeMap<(&str, u64), Vec<u64>> = BTreeMap::new();
    let mut unknown = BTreeMap::new();
    for Operation { op: LogOp { thread, act }, returned, .. } in history {
        let LogAct::Commit { name, .. } = *act else { continue };
        match returned.as_ref().map(|(_, answer)| *answer) {
            Some(LogAnswer::Committed { version, deduplicated: false }) => {
                figures.accepted += 1;
                accepted.entry((thread, version)).or_default().push(name);
            }
            Some(LogAnswer::Committed { .. }) => figures.repeated += 1,
            Some(_) => figures.refused += 1,
            None => drop(unknown.insert((thread.as_str(), name), ())),
        }
    }
    let mut threads: Vec<&str> = history.iter().map(|operation| operation.op.thread.as_str()).collect();
    threads.sort_unstable();
    threads.dedup();
    for thread in threads {
        let log = if given.threads()?.load_thread(&id(thread)).await?.is_some() {
            given.log(&id(thread)).await?
        } else {
            Vec::new()
        };
        for (version, entry) in (1..).zip(&log) {
            let name = entry.id.as_str().parse().unwrap_or_default();
            let winners = accepted.remove(&(thread, version)).unwrap_or_default();
            let is_unheard = winners.is_empty() && unknown.contains_key(&(thread, name));
            figures.unheard += usize::from(is_unheard);
            if entry.seq != version || (winners != [name] && !is_unheard) {
                let what = format!("{thread} at {version}: {name} is in the log, accepted was {winners:?}");
                return Err(Failure::new(what));
            }
        }
    }
    if accepted.is_empty() { Ok(()) } else { Err(Failure::new(format!("accepted and not there: {accepted:?}"))) }
}
