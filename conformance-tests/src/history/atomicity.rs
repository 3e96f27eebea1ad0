//! Tests commits that have every kind of part: entry, run, state, event, outbox row and settlement. Readers read one
//! part after another. No part may show fewer commits than a part that was read earlier.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use store_core::{
    AppendEvents, ClaimRequest, Commit, ContextRequest, NewDispatch, NewEvent, NewOutboxRow, OutboxFilter, RunChange,
    RunFilter, RunOutcome, RunStatus, Scope, StateChange, StateOp, TenantStores, ThreadId,
};

use crate::{
    case::{Contract, Need},
    check::{Failure, Verdict, expect, expect_some},
    fixture::Fixture,
    given::{Given, id, message_entry, run_concurrently},
    log::entry_drafts::json,
    mailbox::helpers::{LEASE, ack},
    random::{Random, seed_from_env},
    test_length::TestLength,
};

/// A test of commits that have every kind of part, while other tasks read. No reader may see only a part of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitAtomicity {
    /// The number of commits to all threads together.
    pub commits: u64,
    /// The number of threads, each with a writer.
    pub threads: usize,
    /// The number of tasks that read.
    pub readers: usize,
    /// The seed of the readers' random choices: which part they read next. The schedule of the tasks does not depend on
    /// it.
    pub seed: u64,
}

/// The figures of a test that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AtomicityFigures {
    /// The test.
    pub test: CommitAtomicity,
    /// The number of parts that were read.
    pub reads: u64,
}

impl fmt::Display for AtomicityFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test: CommitAtomicity { commits, seed, .. }, reads } = self;
        write!(
            f,
            "AGENTSTORE_HISTORY_SEED={seed}: {commits} commits with all parts, {reads} reads, none of a partial commit"
        )
    }
}

impl Default for CommitAtomicity {
    /// Returns a test of 200 commits (1,000 at length `full`, 5,000 at length `long`) to 4 threads, with 8 readers.
    /// The seed comes from `AGENTSTORE_HISTORY_SEED`: a number (1 if it is not set), or `random`.
    fn default() -> Self {
        let commits = TestLength::pick_by_env(200, 1_000, 5_000);
        Self { commits, threads: 4, readers: 8, seed: seed_from_env("AGENTSTORE_HISTORY_SEED") }
    }
}

/// The data that all tasks share.
struct AtomicityState {
    stores: TenantStores,
    /// Whether the commits also settle claims.
    settles_claims: bool,
    active_writers: AtomicU64,
    is_done: AtomicBool,
    reads: AtomicU64,
}

impl CommitAtomicity {
    /// Runs the test on a new store of `fixture`.
    ///
    /// # Errors
    /// If a call fails, or if a reader sees one part of a commit but afterwards does not see another part.
    pub async fn run(self, fixture: impl Fixture) -> Result<AtomicityFigures, Failure> {
        let settles_claims = fixture.why_unmet(Need::Fenced).is_none() && fixture.capabilities().fenced;
        let given = Given::open(Contract::CommitCoordinator, Arc::new(fixture)).await?;
        let shared = Arc::new(AtomicityState {
            stores: given.stores()?,
            settles_claims,
            active_writers: AtomicU64::new(self.threads as u64),
            is_done: AtomicBool::new(false),
            reads: AtomicU64::new(0),
        });
        let mut random = Random::new(self.seed);
        let task_randoms: Vec<Random> = (0..self.threads + self.readers).map(|_| random.fork()).collect();
        let results = run_concurrently(self.threads + self.readers, |task| {
            let (shared, random) = (Arc::clone(&shared), task_randoms[task].clone());
            async move {
                if task < self.threads {
                    let result = shared.write(&thread_id(task), self.commits / self.threads as u64).await;
                    if shared.active_writers.fetch_sub(1, Ordering::SeqCst) == 1 || result.is_err() {
                        shared.is_done.store(true, Ordering::SeqCst);
                    }
                    result
                } else {
                    shared.read(self.threads, random).await
                }
            }
        });
        let with_seed = |failure: Failure| failure.about(format!("AGENTSTORE_HISTORY_SEED={}", self.seed));
        results.await.into_iter().collect::<Result<Vec<()>, Failure>>().map_err(with_seed)?;
        given.store().close().await?;
        let reads = shared.reads.load(Ordering::SeqCst);
        expect(reads > 0, "no read was made")?;
        Ok(AtomicityFigures { test: self, reads })
    }
}

fn thread_id(at: usize) -> ThreadId {
    id(&format!("t-{at}"))
}

impl AtomicityState {
    /// Makes one commit after another. After each commit, each part of the thread shows a count that is one higher.
    async fn write(&self, thread: &ThreadId, commits: u64) -> Verdict {
        let coordinator = expect_some(self.stores.commits.as_ref(), "coordinator")?;
        for number in 1..=commits {
            let row = NewOutboxRow::new(id(thread.as_str()), id("target"), json(&number.to_string()));
            let run = RunChange::new(id(&format!("{thread} {number}")), RunStatus::done(RunOutcome::NaturalEnd))
                .with_agent(id("agent"));
            let mut commit = Commit::new(thread.clone())
                .with_key(id(&format!("{thread} {number}")))
                .entry(message_entry(&format!("{thread} {number}")))
                .with_state(StateChange::new().with("n", StateOp::Add(1)))
                .with_run(run)
                .with_events(AppendEvents::new([NewEvent::new(id("fact"), [Scope::Thread(thread.clone())])]))
                .with_outbox([row]);
            if self.settles_claims {
                let mailbox = expect_some(self.stores.mailbox.as_ref(), "mailbox")?;
                mailbox.enqueue(vec![NewDispatch::new(thread.clone(), id("r"))]).await?.remove(0)?;
                let request = ClaimRequest::new(id("w"), LEASE).of_thread(thread.clone());
                let claimed = expect_some(mailbox.claim(request).await?.claimed.pop(), "dispatch")?;
                commit = commit.fenced(claimed.fence()).settling(ack());
            }
            drop(coordinator.commit(commit).await?);
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Reads one part after another. A part must show at least as many commits as any part that was read earlier.
    async fn read(&self, threads: usize, mut random: Random) -> Verdict {
        let mut last_reads = vec![(0, "nothing"); threads];
        while !self.is_done.load(Ordering::SeqCst) {
            let at = random.below(threads);
            let (thread, part) = (thread_id(at), random.below(6));
            let (number, part_name) = self.count_commits_in(&thread, part).await?;
            let (earlier_number, earlier_part_name) = last_reads[at];
            let why = || {
                format!("{thread}: {part_name} show {number} commits after {earlier_part_name} showed {earlier_number}")
            };
            expect(number >= earlier_number, why())?;
            last_reads[at] = (number, part_name);
            self.reads.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Reads a part of a thread. Returns how many commits the part shows, and the name of the part.
    async fn count_commits_in(&self, thread: &ThreadId, part: usize) -> Result<(u64, &'static str), Failure> {
        let threads = expect_some(self.stores.threads.as_ref(), "threads")?;
        let Some(found) = threads.load_thread(thread).await? else { return Ok((0, "threads")) };
        Ok(match part {
            0 => (found.version.number(), "entries"),
            1 => {
                let mut filter = RunFilter::default();
                filter.thread = Some(thread.clone());
                (threads.count_runs(&filter).await?, "runs")
            }
            2 => {
                let context = threads.load_context(thread, ContextRequest::head()).await?;
                let state = context.state.get("n").map(|value| value.to::<u64>()).transpose()?;
                (state.unwrap_or_default(), "values of the state")
            }
            3 => {
                let events = expect_some(self.stores.events.as_ref(), "events")?;
                (events.load_scope(&Scope::Thread(thread.clone())).await?.appended, "events")
            }
            4 => {
                let outbox = expect_some(self.stores.outbox.as_ref(), "outbox")?;
                let filter = OutboxFilter::default().of_lane(id(thread.as_str()));
                (outbox.count_outbox(&filter).await?.pending, "rows of the outbox")
            }
            _ if self.settles_claims => {
                let mailbox = expect_some(self.stores.mailbox.as_ref(), "mailbox")?;
                (mailbox.count_dispatches(Some(thread)).await?.acked, "settlements")
            }
            _ => (found.version.number(), "entries"),
        })
    }
}
