//! Tests workers that race for dispatches, and holders that write too late. Each dispatch must have at most one holder
//! at a time, and must be done once.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use store_core::{
    ClaimNumber, ClaimRequest, ClaimedDispatch, DispatchFilter, DispatchId, DispatchQuery, DispatchStatus, EntryQuery,
    ErrorKind, Interrupt, MailboxStore, NewDispatch, PageRequest, Settlement, ThreadId,
};
use tokio::time::{sleep, timeout};

use crate::{
    case::{Contract, Need},
    check::{Failure, Verdict, expect, expect_eq, expect_kind, expect_some},
    fixture::Fixture,
    given::{Given, id, keyed_commit_with_message, read_all_pages, run_concurrently, run_two_concurrently},
    mailbox::helpers::{LEASE, ack, mailbox, try_settle},
    random::{Random, seed_from_env},
    test_length::TestLength,
};

/// The number of dispatches that one call enqueues.
const BATCH_SIZE: usize = 500;
/// How long the test may take at length `quick`. Longer tests have more dispatches, and get more time.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// A test of many tasks that claim and settle dispatches at the same time. No thread may have two holders at a time,
/// and each dispatch must be done once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RacingClaims {
    /// The number of dispatches. Nine tenths of them are enqueued before the first claim, the others one by one
    /// during the test.
    pub dispatches: usize,
    /// The number of threads that have these dispatches.
    pub threads: usize,
    /// The number of tasks that claim and settle them.
    pub workers: usize,
    /// The seed of the random choices: how many dispatches each claim asks for, and which of them are released. The
    /// schedule of the tasks does not depend on it.
    pub seed: u64,
}

/// The figures of a test that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimFigures {
    /// The test.
    pub test: RacingClaims,
    /// The number of claims that the tasks received.
    pub claims: u64,
}

impl fmt::Display for ClaimFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test: RacingClaims { dispatches, threads, workers, seed }, claims } = self;
        write!(f, "AGENTSTORE_HISTORY_SEED={seed}: {workers} workers, {dispatches} dispatches of {threads} ")?;
        write!(f, "threads, each done once; {claims} claims, never two of one thread at a time")
    }
}

impl Default for RacingClaims {
    /// Returns a test of 64 tasks with 400 dispatches (2,000 at length `full`, 10,000 at length `long`), ten for each
    /// thread. The seed comes from `AGENTSTORE_HISTORY_SEED`: a number (1 if it is not set), or `random`.
    fn default() -> Self {
        let dispatches = TestLength::pick_by_env(400, 2_000, 10_000);
        Self { dispatches, threads: dispatches / 10, workers: 64, seed: seed_from_env("AGENTSTORE_HISTORY_SEED") }
    }
}

/// The data that all tasks share.
struct RaceState {
    mailbox: Arc<dyn MailboxStore>,
    test: RacingClaims,
    /// For each thread, the dispatch that is claimed now, if there is one, and the number of the last claim.
    holders: Mutex<HashMap<ThreadId, (Option<DispatchId>, ClaimNumber)>>,
    /// The number of dispatches that are done. The workers end when all are done.
    done_count: AtomicUsize,
    /// The number of claims that the tasks received.
    claim_count: AtomicU64,
}

impl RacingClaims {
    /// Runs the test on a new store of `fixture`.
    ///
    /// # Errors
    /// If a call fails, if a thread has two holders at a time, or if a dispatch is not done exactly once in the end.
    pub async fn run(self, fixture: impl Fixture) -> Result<ClaimFigures, Failure> {
        let given = Given::open(Contract::MailboxStore, Arc::new(fixture)).await?;
        let shared = Arc::new(RaceState {
            mailbox: mailbox(&given)?,
            test: self,
            holders: Mutex::default(),
            done_count: AtomicUsize::new(0),
            claim_count: AtomicU64::new(0),
        });
        let enqueued_later = self.dispatches / 10;
        for first in (enqueued_later..self.dispatches).step_by(BATCH_SIZE) {
            shared.enqueue(first..self.dispatches.min(first + BATCH_SIZE)).await?;
        }
        let mut random = Random::new(self.seed);
        let task_randoms: Vec<Random> = (0..=self.workers).map(|_| random.fork()).collect();
        let results = run_concurrently(self.workers + 1, |task| {
            let (shared, random) = (Arc::clone(&shared), task_randoms[task].clone());
            async move {
                let result = if task == 0 {
                    shared.enqueue_one_by_one(enqueued_later).await
                } else {
                    shared.run_worker(random).await
                };
                if result.is_err() {
                    // This task has failed, so some dispatches will never be done. The other tasks would wait for them,
                    // so this count makes the other tasks end.
                    shared.done_count.store(self.dispatches, Ordering::SeqCst);
                }
                result
            }
        });
        let with_seed = |failure: Failure| failure.about(format!("AGENTSTORE_HISTORY_SEED={}", self.seed));
        let time_limit = TEST_TIMEOUT * TestLength::pick_by_env(1, 5, 25);
        let results =
            timeout(time_limit, results).await.map_err(|_| with_seed(Failure::new("not all work was done in time")))?;
        results.into_iter().collect::<Result<Vec<()>, Failure>>().map_err(with_seed)?;
        shared.check().await.map_err(with_seed)?;
        given.store().close().await?;
        Ok(ClaimFigures { test: self, claims: shared.claim_count.load(Ordering::SeqCst) })
    }
}

impl RaceState {
    async fn enqueue(&self, numbers: impl Iterator<Item = usize>) -> Verdict {
        let threads = self.test.threads;
        let new_dispatch = |number: usize| {
            let thread = id(&format!("t-{}", number % threads));
            NewDispatch::new(thread, id("r")).with_id(id(&format!("d-{number}")))
        };
        for answer in self.mailbox.enqueue(numbers.map(new_dispatch).collect()).await? {
            answer?;
        }
        Ok(())
    }

    /// Enqueues dispatches one by one, while the other tasks try to claim them.
    async fn enqueue_one_by_one(&self, count: usize) -> Verdict {
        for number in 0..count {
            self.enqueue(std::iter::once(number)).await?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn run_worker(&self, mut random: Random) -> Verdict {
        while self.done_count.load(Ordering::SeqCst) < self.test.dispatches {
            let limit = 1 + u32::try_from(random.below(4)).unwrap_or_default();
            let claims = self.mailbox.claim(ClaimRequest::new(id("w"), LEASE).up_to(limit)).await?;
            expect(claims.unreadable.is_empty(), "a claimed record cannot be read")?;
            if claims.claimed.is_empty() {
                sleep(Duration::from_millis(1)).await;
            }
            for claimed_dispatch in &claims.claimed {
                self.note_claim(claimed_dispatch)?;
            }
            for claimed_dispatch in claims.claimed {
                tokio::task::yield_now().await;
                let settlement = if random.once_in(10) { Settlement::Release } else { ack() };
                let is_done = settlement != Settlement::Release;
                // As soon as the dispatch is settled, another task may claim the next dispatch of the thread. So the
                // claim is noted as ended before the call.
                self.note_settling(&claimed_dispatch)?;
                let answer = self.mailbox.settle(vec![(claimed_dispatch.claim(), settlement)]).await?.pop();
                expect_some(answer, "answer")??;
                self.done_count.fetch_add(usize::from(is_done), Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// Notes that a task received a claim. Fails if another dispatch of the thread is claimed, or if the claim number
    /// is not higher than the last one.
    fn note_claim(&self, claimed_dispatch: &ClaimedDispatch) -> Verdict {
        self.claim_count.fetch_add(1, Ordering::SeqCst);
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        let this_claim = (Some(claimed_dispatch.dispatch.id.clone()), claimed_dispatch.number);
        let Some((still_claimed, last_number)) = holders.insert(claimed_dispatch.dispatch.thread.clone(), this_claim)
        else {
            return Ok(());
        };
        expect(
            still_claimed.is_none(),
            format!("{} was claimed while {still_claimed:?} was claimed", claimed_dispatch.dispatch.id),
        )?;
        expect(
            last_number < claimed_dispatch.number,
            format!(
                "claim {} of {} follows claim {last_number}",
                claimed_dispatch.number, claimed_dispatch.dispatch.id
            ),
        )
    }

    /// Notes that the holder of a claim is about to settle it. Fails if another dispatch of the thread is noted as
    /// claimed.
    fn note_settling(&self, claimed_dispatch: &ClaimedDispatch) -> Verdict {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        let (noted_dispatch, _) = expect_some(holders.get_mut(&claimed_dispatch.dispatch.thread), "thread")?;
        expect_eq(noted_dispatch.take(), Some(claimed_dispatch.dispatch.id.clone()))
    }

    async fn check(&self) -> Verdict {
        let query = DispatchQuery::new(DispatchFilter::default().in_status([DispatchStatus::Acked]));
        let list = |page| self.mailbox.list_dispatches(query.clone().with_page(page));
        let acked = read_all_pages(PageRequest::first(1_000), list).await?;
        expect_eq(acked.len(), self.test.dispatches)?;
        let counts = self.mailbox.count_dispatches(None).await?;
        expect_eq((counts.acked, counts.total()), (self.test.dispatches as u64, self.test.dispatches as u64))
    }
}

/// A test of holders that lost their claims, because a lease expired or a thread was interrupted. Every write of such
/// a holder must be refused, while the next holder writes and settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleHolders {
    /// The number of rounds. Each has one stale holder, in a thread of its own.
    pub rounds: usize,
}

impl Default for StaleHolders {
    /// Returns a test of 40 holders (200 at lengths `full` and `long`).
    fn default() -> Self {
        Self { rounds: TestLength::pick_by_env(40, 200, 200) }
    }
}

impl fmt::Display for StaleHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{0} of {0} stale holders were refused", self.rounds)
    }
}

impl StaleHolders {
    /// Runs the test on a new store of `fixture`. The fixture must be able to set the store's clock.
    ///
    /// # Errors
    /// If a write of a holder that lost its claim is accepted, or if a write of the next holder is refused.
    pub async fn run(self, fixture: impl Fixture) -> Result<Self, Failure> {
        let checks_commits = fixture.why_unmet(Need::Fenced).is_none() && fixture.capabilities().fenced;
        let given = Given::open(Contract::MailboxStore, Arc::new(fixture)).await?;
        for round in 0..self.rounds {
            Self::run_round(&given, round, checks_commits).await.map_err(|failure| failure.about(round))?;
        }
        given.store().close().await?;
        Ok(self)
    }

    async fn run_round(given: &Given, round: usize, checks_commits: bool) -> Verdict {
        let (store, thread): (_, ThreadId) = (mailbox(given)?, id(&format!("t-{round}")));
        let new_dispatch = |dispatch_name: &str| {
            NewDispatch::new(thread.clone(), id("r")).with_id(id(&format!("{dispatch_name}-{round}")))
        };
        let claim = async || {
            let claims = store.claim(ClaimRequest::new(id("w"), LEASE).of_thread(thread.clone())).await?;
            expect_some(claims.claimed.into_iter().next(), "dispatch")
        };
        store.enqueue(vec![new_dispatch("a")]).await?.remove(0)?;
        let stale_claim = claim().await?;
        let expected_kind = if round.is_multiple_of(2) {
            given.advance(LEASE).await;
            ErrorKind::ClaimLost
        } else {
            store.interrupt(Interrupt::new(thread.clone()).taking_over()).await?;
            store.enqueue(vec![new_dispatch("b")]).await?.remove(0)?;
            ErrorKind::StaleEpoch
        };
        let next_claim = claim().await?;
        let fenced_commit = |claimed_dispatch: &ClaimedDispatch, key: &str| {
            keyed_commit_with_message(&thread, key, key).fenced(claimed_dispatch.fence())
        };
        if checks_commits {
            given.expect_accepted(fenced_commit(&next_claim, "own")).await?;
            let late_answer = given.commits()?.commit(fenced_commit(&stale_claim, "late").settling(ack())).await;
            expect_kind(late_answer, expected_kind)?;
        }
        expect_kind(store.extend(&stale_claim.claim(), LEASE).await, expected_kind)?;
        expect_kind(store.start(&stale_claim.claim(), id("i")).await, expected_kind)?;
        expect_kind(try_settle(given, &stale_claim, ack()).await?, expected_kind)?;
        if checks_commits {
            given.expect_accepted(fenced_commit(&next_claim, "end").settling(ack())).await?;
            let entries = given.threads()?.list_entries(&thread, EntryQuery::all()).await?.items;
            expect_eq(entries.len(), 2)?;
        } else {
            try_settle(given, &next_claim, ack()).await??;
        }
        let done_dispatch = expect_some(store.load_dispatch(&next_claim.dispatch.id).await?, "dispatch")?;
        expect_eq(done_dispatch.status, DispatchStatus::Acked)
    }
}

/// A test of holders that settle one millisecond before the end of their lease, exactly at its end or one millisecond
/// after it, while another worker claims. Exactly one of the two must succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseExpiryRaces {
    /// The number of rounds, each with one lease.
    pub rounds: usize,
}

impl Default for LeaseExpiryRaces {
    /// Returns a test of 60 leases (300 at length `full`, 1,000 at length `long`).
    fn default() -> Self {
        Self { rounds: TestLength::pick_by_env(60, 300, 1_000) }
    }
}

/// How often the holder succeeded, and how often the other worker did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LeaseExpiryFigures {
    /// The number of times that the holder settled.
    pub settled: usize,
    /// The number of times that the other worker claimed.
    pub claimed: usize,
}

impl fmt::Display for LeaseExpiryFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settled, claimed } = self;
        write!(
            f,
            "{} leases at their expiry: {settled} settled, {claimed} claimed by another worker, never both",
            settled + claimed
        )
    }
}

impl LeaseExpiryRaces {
    /// Runs the test on a new store of `fixture`. The fixture must be able to set the store's clock.
    ///
    /// # Errors
    /// If a dispatch is both settled and claimed again, or neither; if it is claimed before its lease has expired; or
    /// if either the holder or the other worker succeeds in every round.
    pub async fn run(self, fixture: impl Fixture) -> Result<LeaseExpiryFigures, Failure> {
        let given = Given::open(Contract::MailboxStore, Arc::new(fixture)).await?;
        let clock_is_stopped = given.fixture().why_unmet(Need::StoppedClock).is_none();
        let (store, mut figures) = (mailbox(&given)?, LeaseExpiryFigures::default());
        for round in 0..self.rounds {
            let dispatch_id: DispatchId = id(&format!("d-{round}"));
            let new_dispatch = NewDispatch::new(id(&format!("t-{round}")), id("r")).with_id(dispatch_id.clone());
            store.enqueue(vec![new_dispatch]).await?.remove(0)?;
            let request = || ClaimRequest::new(id("w"), LEASE).of_dispatch(dispatch_id.clone());
            let claimed_dispatch = expect_some(store.claim(request()).await?.claimed.pop(), "dispatch")?;
            given.advance(LEASE - Duration::from_millis(1) + Duration::from_millis(round as u64 % 3)).await;
            let (holder_store, other_store) = (Arc::clone(&store), Arc::clone(&store));
            let (claim, other_request) = (claimed_dispatch.claim(), request());
            let (settled, claimed) =
                run_two_concurrently(async move { holder_store.settle(vec![(claim, ack())]).await }, async move {
                    other_store.claim(other_request).await
                })
                .await;
            let settled = expect_some(settled?.pop(), "answer")?;
            match (settled, claimed?.claimed.pop()) {
                (Ok(_), None) => figures.settled += 1,
                (Err(error), Some(next_claim)) => {
                    expect_eq(error.kind(), ErrorKind::ClaimLost)?;
                    let may_have_expired = !clock_is_stopped || round % 3 > 0;
                    expect(may_have_expired, format!("{dispatch_id} was claimed again before its lease expired"))?;
                    expect(
                        claimed_dispatch.number < next_claim.number,
                        format!("claim {} follows claim {}", next_claim.number, claimed_dispatch.number),
                    )?;
                    try_settle(&given, &next_claim, ack()).await??;
                    figures.claimed += 1;
                }
                (Ok(_), Some(_)) => {
                    return Err(Failure::new(format!("{dispatch_id} was both settled and claimed again")));
                }
                (Err(error), None) => {
                    return Err(Failure::new(format!("{dispatch_id} was not settled or claimed: {error}")));
                }
            }
        }
        given.store().close().await?;
        let LeaseExpiryFigures { settled, claimed } = figures;
        expect(settled > 0 && claimed > 0, format!("{settled} leases were settled, {claimed} claimed again"))?;
        Ok(figures)
    }
}
