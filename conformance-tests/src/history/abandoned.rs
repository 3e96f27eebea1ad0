//! Tests dispatches that workers abandon, and dispatches that are claimed while the clock jumps. Each dispatch must
//! have at most one holder that may write, and must finish in the end.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use store_core::{
    ClaimNumber, ClaimRequest, ClaimedDispatch, Commit, CommitCoordinator, DispatchId, EntryQuery, Error, ErrorKind,
    Interrupt, MailboxStore, NewDispatch, PageRequest, Settlement, ThreadId, Timestamp,
};
use tokio::time::{sleep, timeout};

use crate::{
    case::Contract,
    check::{Failure, Verdict, expect, expect_eq, expect_some},
    drop_points::poll_then_drop,
    fixture::Fixture,
    given::{Given, id, message_entry, read_all_pages, run_concurrently},
    mailbox::helpers::{LEASE, ack, mailbox},
    random::{Random, seed_from_env},
    test_length::TestLength,
};

/// The number of dispatches that one call enqueues.
const BATCH_SIZE: usize = 500;
/// How long the good workers may take to finish the remaining dispatches.
const FINISH_TIMEOUT: Duration = Duration::from_secs(30);
/// How far the clock jumps. This is longer than every lease of the test.
const CLOCK_JUMP: Duration = Duration::from_hours(1);

fn dispatch_draft(number: usize, threads: usize) -> NewDispatch {
    NewDispatch::new(id(&format!("t-{}", number % threads)), id("r")).with_id(id(&format!("d-{number}")))
}

async fn enqueue(mailbox: &dyn MailboxStore, dispatches: usize, threads: usize) -> Verdict {
    for first in (0..dispatches).step_by(BATCH_SIZE) {
        let numbers = first..dispatches.min(first + BATCH_SIZE);
        for answer in mailbox.enqueue(numbers.map(|number| dispatch_draft(number, threads)).collect()).await? {
            answer?;
        }
    }
    Ok(())
}

/// A test of bad workers, which drop their calls, never settle some of their claims, and interrupt threads. After them,
/// good workers must find and finish every remaining dispatch, without any other help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbandonedWork {
    /// The number of dispatches.
    pub dispatches: usize,
    /// The number of threads that have these dispatches.
    pub threads: usize,
    /// The number of bad workers, and of good workers after them.
    pub workers: usize,
    /// The seed of the random choices of the bad workers. The schedule of the tasks does not depend on it.
    pub seed: u64,
}

impl Default for AbandonedWork {
    /// Returns a test of 16 workers with 200 dispatches (500 at lengths `full` and `long`), ten for each thread. The
    /// seed comes from `AGENTSTORE_HISTORY_SEED`: a number (1 if it is not set), or `random`.
    fn default() -> Self {
        let dispatches = TestLength::pick_by_env(200, 500, 500);
        Self { dispatches, threads: dispatches / 10, workers: 16, seed: seed_from_env("AGENTSTORE_HISTORY_SEED") }
    }
}

impl AbandonedWork {
    /// Returns a test for a fast store, of 64 workers with 300 dispatches (1,000 at length `full`, 10,000 at length
    /// `long`), ten for each thread.
    #[must_use]
    pub fn with_many_workers() -> Self {
        let dispatches = TestLength::pick_by_env(300, 1_000, 10_000);
        Self { dispatches, threads: dispatches / 10, workers: 64, ..Self::default() }
    }
}

/// The figures of a test that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbandonedFigures {
    /// The test.
    pub test: AbandonedWork,
    /// The number of dispatches that had not finished when the bad workers stopped.
    pub unfinished: u64,
    /// The number of dispatches that were acknowledged. The others were superseded by interrupts, or used up their
    /// attempts.
    pub acked: u64,
    /// The number of calls that the bad workers dropped before the calls ended.
    pub dropped: u64,
    /// The number of claims that workers received.
    pub claims: u64,
}

impl fmt::Display for AbandonedFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test: AbandonedWork { dispatches, workers, seed, .. }, unfinished, acked, dropped, claims } = self;
        write!(
            f,
            "AGENTSTORE_HISTORY_SEED={seed}: {workers} bad workers left {unfinished} of {dispatches} dispatches "
        )?;
        write!(
            f,
            "unfinished and dropped {dropped} calls; good workers finished them, {acked} acknowledged, each once; "
        )?;
        write!(f, "{claims} claims, never two of one thread at a time")
    }
}

/// A claim as its holder received it.
#[derive(Debug, Clone, Copy)]
struct ReceivedClaim {
    from: Timestamp,
    until: Timestamp,
    /// Whether the holder has begun to settle the claim. Before that, no other claim may begin until the lease has
    /// expired.
    settling_began: bool,
}

/// The data that all workers share: the claims that they received and the acknowledgements that were accepted.
#[derive(Default)]
struct WorkerObservations {
    received_claims: Mutex<BTreeMap<(ThreadId, ClaimNumber), ReceivedClaim>>,
    /// How often each dispatch was acknowledged.
    ack_counts: Mutex<BTreeMap<DispatchId, u64>>,
    dropped_call_count: AtomicU64,
    good_workers_with_claims: AtomicU64,
}

impl WorkerObservations {
    /// Notes that a worker received a claim. Fails if the claim was received before.
    fn note_claim(&self, claimed_dispatch: &ClaimedDispatch) -> Verdict {
        let claim = expect_some(claimed_dispatch.dispatch.claim.as_ref(), "claim")?;
        let claim_record = ReceivedClaim { from: claim.claimed_at, until: claim.lease_until, settling_began: false };
        let mut received_claims = self.received_claims.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier_record =
            received_claims.insert((claimed_dispatch.dispatch.thread.clone(), claimed_dispatch.number), claim_record);
        expect(
            earlier_record.is_none(),
            format!("claim {} of {} was given twice", claimed_dispatch.number, claimed_dispatch.dispatch.thread),
        )
    }

    /// Notes that the holder may settle its claim from now on.
    fn note_settling(&self, claimed_dispatch: &ClaimedDispatch) {
        let mut received_claims = self.received_claims.lock().unwrap_or_else(PoisonError::into_inner);
        received_claims
            .entry((claimed_dispatch.dispatch.thread.clone(), claimed_dispatch.number))
            .and_modify(|claim_record| claim_record.settling_began = true);
    }

    /// Notes that the acknowledgement of a dispatch was accepted.
    fn note_ack(&self, id: &DispatchId) {
        *self.ack_counts.lock().unwrap_or_else(PoisonError::into_inner).entry(id.clone()).or_default() += 1;
    }

    /// Counts a call that was dropped, which therefore has no result. Returns the result.
    fn count_if_dropped<T>(&self, result: Option<T>) -> Option<T> {
        self.dropped_call_count.fetch_add(u64::from(result.is_none()), Ordering::SeqCst);
        result
    }

    /// Checks that each claim of a thread began only when the lease of the thread's previous claim had expired, unless
    /// the previous holder had begun to settle. Also checks that no dispatch was acknowledged twice, and that no more
    /// acknowledgements were accepted than there are acknowledged dispatches. Returns the number of claims that were
    /// received.
    fn check(&self, acked_dispatches: u64) -> Result<u64, Failure> {
        let received_claims = self.received_claims.lock().unwrap_or_else(PoisonError::into_inner);
        for (((thread, number), claim), ((next_thread, next_number), next_claim)) in
            received_claims.iter().zip(received_claims.iter().skip(1))
        {
            let why = format!(
                "{thread}: claim {next_number} began at {}, but {number} lasted until {}",
                next_claim.from, claim.until
            );
            expect(thread != next_thread || claim.settling_began || next_claim.from >= claim.until, why)?;
        }
        let ack_counts = self.ack_counts.lock().unwrap_or_else(PoisonError::into_inner);
        expect(ack_counts.values().all(|times| *times == 1), "a dispatch was acknowledged twice")?;
        expect(
            ack_counts.len() as u64 <= acked_dispatches,
            format!("{} acks succeeded, but {acked_dispatches} dispatches are acked", ack_counts.len()),
        )?;
        Ok(received_claims.len() as u64)
    }
}

impl AbandonedWork {
    /// Runs the test on a new store of `fixture`. The fixture must be able to set the store's clock.
    ///
    /// # Errors
    /// If a call fails, if two holders have claims of a thread at the same time, if a dispatch is acknowledged twice,
    /// or if a dispatch has not finished half a minute after the bad workers stopped.
    pub async fn run(self, fixture: impl Fixture) -> Result<AbandonedFigures, Failure> {
        let given = Arc::new(Given::open(Contract::MailboxStore, Arc::new(fixture)).await?);
        let store = mailbox(&given)?;
        enqueue(&*store, self.dispatches, self.threads).await?;
        let mut random = Random::new(self.seed);
        let task_randoms: Vec<Random> = (0..self.workers).map(|_| random.fork()).collect();
        let with_seed = |failure: Failure| failure.about(format!("AGENTSTORE_HISTORY_SEED={}", self.seed));
        let observations = Arc::new(WorkerObservations::default());
        let results = run_concurrently(self.workers, |task| {
            self.run_bad_worker((Arc::clone(&given), Arc::clone(&observations)), task_randoms[task].clone())
        });
        results.await.into_iter().collect::<Result<Vec<()>, Failure>>().map_err(with_seed)?;
        observations.check(self.dispatches as u64).map_err(with_seed)?;
        let counts = store.count_dispatches(None).await?;
        let unfinished = counts.queued + counts.claimed;
        expect(unfinished > 0, "the bad workers left no work")?;
        let dropped = observations.dropped_call_count.load(Ordering::SeqCst);
        expect(dropped > 0, "no call was dropped").map_err(with_seed)?;
        let results =
            run_concurrently(self.workers, |_| Self::run_good_worker(Arc::clone(&given), Arc::clone(&observations)));
        let results = timeout(FINISH_TIMEOUT, results)
            .await
            .map_err(|_| with_seed(Failure::new("not all work was done in time")))?;
        results.into_iter().collect::<Result<Vec<()>, Failure>>().map_err(with_seed)?;
        let counts = store.count_dispatches(None).await?;
        expect_eq((counts.queued + counts.claimed, counts.total()), (0, self.dispatches as u64)).map_err(with_seed)?;
        let claims = observations.check(counts.acked).map_err(with_seed)?;
        given.store().close().await?;
        Ok(AbandonedFigures { test: self, unfinished, acked: counts.acked, dropped, claims })
    }

    /// Runs a bad worker. It stops when three quarters of the dispatches have finished, so that the good workers still
    /// have work.
    async fn run_bad_worker(
        self,
        (given, observations): (Arc<Given>, Arc<WorkerObservations>),
        mut random: Random,
    ) -> Verdict {
        let store = mailbox(&given)?;
        for _ in 0..self.dispatches / self.workers {
            let counts = store.count_dispatches(None).await?;
            if counts.queued + counts.claimed < self.dispatches as u64 / 4 {
                break;
            }
            let claim = store.claim(ClaimRequest::new(id("bad"), LEASE).up_to(3));
            let claims = observations.count_if_dropped(poll_then_drop(claim, random.below(12)).await?);
            let claimed = claims.map(|claims| claims.claimed).unwrap_or_default();
            for claimed_dispatch in &claimed {
                observations.note_claim(claimed_dispatch)?;
            }
            for claimed_dispatch in &claimed {
                Self::settle_or_abandon((&*store, &observations), claimed_dispatch, &mut random).await?;
            }
            if random.once_in(40) {
                given.advance(LEASE).await;
            }
        }
        Ok(())
    }

    /// Settles a claim, interrupts its thread, extends its lease, or does nothing with it, by a random choice. Each of
    /// these calls may be dropped.
    async fn settle_or_abandon(
        (store, observations): (&dyn MailboxStore, &WorkerObservations),
        claimed_dispatch: &ClaimedDispatch,
        random: &mut Random,
    ) -> Verdict {
        let settlement = match random.below(8) {
            0 => ack(),
            1 => Settlement::Retry { after: Duration::from_secs(5), error: "it failed".to_owned() },
            2 => Settlement::Snooze { after: Duration::from_secs(20) },
            3 => {
                let interrupt = store.interrupt(Interrupt::new(claimed_dispatch.dispatch.thread.clone()));
                observations.count_if_dropped(poll_then_drop(interrupt, random.below(6)).await?);
                return Ok(());
            }
            4 => {
                let _result = poll_then_drop(store.extend(&claimed_dispatch.claim(), LEASE), random.below(6)).await;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let is_ack = settlement == ack();
        observations.note_settling(claimed_dispatch);
        let answers = observations.count_if_dropped(
            poll_then_drop(store.settle(vec![(claimed_dispatch.claim(), settlement)]), random.below(8)).await?,
        );
        if is_ack && answers.is_some_and(|answers| answers.iter().all(Result::is_ok)) {
            observations.note_ack(&claimed_dispatch.dispatch.id);
        }
        Ok(())
    }

    /// Runs a good worker, which acknowledges every dispatch that it claims. If there is nothing to claim and no good
    /// worker holds a claim, it advances the store's clock.
    async fn run_good_worker(given: Arc<Given>, observations: Arc<WorkerObservations>) -> Verdict {
        let store = mailbox(&given)?;
        loop {
            let claims = store.claim(ClaimRequest::new(id("good"), LEASE).up_to(3)).await?;
            expect(claims.unreadable.is_empty(), "a claimed record cannot be read")?;
            if claims.claimed.is_empty() {
                let counts = store.count_dispatches(None).await?;
                if counts.queued + counts.claimed == 0 {
                    return Ok(());
                }
                if observations.good_workers_with_claims.load(Ordering::SeqCst) == 0 {
                    given.advance(Duration::from_secs(1)).await;
                }
                sleep(Duration::from_millis(1)).await;
                continue;
            }
            observations.good_workers_with_claims.fetch_add(1, Ordering::SeqCst);
            for claimed_dispatch in &claims.claimed {
                observations.note_claim(claimed_dispatch)?;
            }
            for claimed_dispatch in claims.claimed {
                observations.note_settling(&claimed_dispatch);
                match expect_some(store.settle(vec![(claimed_dispatch.claim(), ack())]).await?.pop(), "answer")? {
                    Ok(_) => observations.note_ack(&claimed_dispatch.dispatch.id),
                    // Another worker advanced the clock past the end of the lease before this worker was counted in
                    // `good_workers_with_claims`.
                    Err(error) => expect_eq(error.kind(), ErrorKind::ClaimLost)?,
                }
            }
            observations.good_workers_with_claims.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A test of workers that acknowledge their claims while the store's clock jumps forward and back by more than a lease.
/// They acknowledge with a commit if the store has threads, and otherwise with a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JumpingClock {
    /// The number of dispatches. Each must finish once.
    pub dispatches: usize,
    /// The number of threads that have these dispatches.
    pub threads: usize,
    /// The number of workers.
    pub workers: usize,
}

impl Default for JumpingClock {
    /// Returns a test of 64 workers with 200 dispatches (500 at length `full`, 2,000 at length `long`), ten for each
    /// thread.
    fn default() -> Self {
        let dispatches = TestLength::pick_by_env(200, 500, 2_000);
        Self { dispatches, threads: dispatches / 10, workers: 64 }
    }
}

/// The figures of a test that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct JumpingFigures {
    /// The test.
    pub test: JumpingClock,
    /// The number of times that the clock jumped.
    pub jumps: u64,
    /// The number of holders that were refused because they had lost their claims.
    pub refused: u64,
}

impl fmt::Display for JumpingFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test: JumpingClock { dispatches, workers, .. }, jumps, refused } = self;
        write!(f, "{dispatches} dispatches for {workers} workers, the clock jumped {jumps} times by an hour: ")?;
        write!(f, "each finished once, {refused} holders were refused")
    }
}

/// The data that all tasks share.
struct JumpingClockState {
    given: Given,
    mailbox: Arc<dyn MailboxStore>,
    commits: Option<Arc<dyn CommitCoordinator>>,
    test: JumpingClock,
    /// How often each dispatch was acknowledged.
    ack_counts: Mutex<BTreeMap<DispatchId, u64>>,
    refused: AtomicU64,
    is_done: AtomicBool,
}

impl JumpingClock {
    /// Runs the test on a new store of `fixture`. The fixture must be able to set the store's clock. If the store has
    /// commits, they must be able to settle claims.
    ///
    /// # Errors
    /// If a call fails, or if a dispatch is done twice or not at all.
    pub async fn run(self, fixture: impl Fixture) -> Result<JumpingFigures, Failure> {
        let given = Given::open(Contract::MailboxStore, Arc::new(fixture)).await?;
        let (mailbox, commits) = (mailbox(&given)?, given.stores()?.commits);
        enqueue(&*mailbox, self.dispatches, self.threads).await?;
        let shared = Arc::new(JumpingClockState {
            given,
            mailbox,
            commits,
            test: self,
            ack_counts: Mutex::default(),
            refused: AtomicU64::new(0),
            is_done: AtomicBool::new(false),
        });
        let jumps = Arc::new(AtomicU64::new(0));
        let results = run_concurrently(self.workers + 1, |task| {
            let (shared, jumps) = (Arc::clone(&shared), Arc::clone(&jumps));
            async move { if task == 0 { shared.move_clock(&jumps).await } else { shared.run_worker().await } }
        });
        results.await.into_iter().collect::<Result<Vec<()>, Failure>>()?;
        shared.check().await?;
        shared.given.store().close().await?;
        let (jumps, refused) = (jumps.load(Ordering::SeqCst), shared.refused.load(Ordering::SeqCst));
        expect(jumps > 0 && refused > 0, format!("the clock jumped {jumps} times, {refused} holders were refused"))?;
        Ok(JumpingFigures { test: self, jumps, refused })
    }
}

impl JumpingClockState {
    fn is_done(&self) -> bool {
        self.is_done.load(Ordering::SeqCst)
    }

    /// Moves the clock. It jumps forward twice for each jump back, because a jump back makes leases longer, and they
    /// must still expire.
    async fn move_clock(&self, jumps: &AtomicU64) -> Verdict {
        while !self.is_done() {
            match jumps.fetch_add(1, Ordering::SeqCst) % 3 {
                0 | 1 => self.given.advance(CLOCK_JUMP).await,
                _ => self.given.set_back(CLOCK_JUMP).await,
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn run_worker(&self) -> Verdict {
        while !self.is_done() {
            let Some(claimed_dispatch) = self.mailbox.claim(ClaimRequest::new(id("w"), LEASE)).await?.claimed.pop()
            else {
                let counts = self.mailbox.count_dispatches(None).await?;
                self.is_done.fetch_or(counts.queued + counts.claimed == 0, Ordering::SeqCst);
                sleep(Duration::from_millis(1)).await;
                continue;
            };
            sleep(Duration::from_millis(1)).await;
            let dispatch = &claimed_dispatch.dispatch;
            match self.acknowledge(&claimed_dispatch).await? {
                Ok(()) => {
                    let mut ack_counts = self.ack_counts.lock().unwrap_or_else(PoisonError::into_inner);
                    *ack_counts.entry(dispatch.id.clone()).or_default() += 1;
                }
                Err(error) => {
                    let is_lost = matches!(error.kind(), ErrorKind::ClaimLost | ErrorKind::StaleEpoch);
                    expect(is_lost, format!("settling {} failed: {error}", dispatch.id))?;
                    self.refused.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
        Ok(())
    }

    /// Ends a claim with an acknowledgement. The inner error is the refusal of the store.
    async fn acknowledge(&self, claimed_dispatch: &ClaimedDispatch) -> Result<Result<(), Error>, Failure> {
        let Some(commits) = &self.commits else {
            let answer = self.mailbox.settle(vec![(claimed_dispatch.claim(), ack())]).await?.pop();
            return Ok(expect_some(answer, "answer")?.map(drop));
        };
        let commit = Commit::new(claimed_dispatch.dispatch.thread.clone())
            .with_key(id(&format!("{} {}", claimed_dispatch.dispatch.id, claimed_dispatch.number)))
            .entry(message_entry(claimed_dispatch.dispatch.id.as_str()))
            .fenced(claimed_dispatch.fence())
            .settling(ack());
        Ok(commits.commit(commit).await.map(drop))
    }

    /// Checks that each dispatch was acknowledged once, with one entry, or became a dead letter, with no entry.
    async fn check(&self) -> Verdict {
        let counts = self.mailbox.count_dispatches(None).await?;
        let ack_counts = self.ack_counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        expect(ack_counts.values().all(|times| *times == 1), "a dispatch was settled twice")?;
        expect_eq(ack_counts.len() as u64, counts.acked)?;
        expect_eq(counts.acked + counts.dead_letter, self.test.dispatches as u64)?;
        let Some(threads) = self.commits.as_ref().map(|commits| commits.threads()) else { return Ok(()) };
        let mut entries = 0;
        for number in 0..self.test.threads {
            let thread: ThreadId = id(&format!("t-{number}"));
            if threads.load_thread(&thread).await?.is_some() {
                let list = |page| threads.list_entries(&thread, EntryQuery::all().with_page(page));
                entries += read_all_pages(PageRequest::first(100), list).await?.len() as u64;
            }
        }
        expect_eq(entries, counts.acked)
    }
}
