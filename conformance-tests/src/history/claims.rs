//! Consumers that race for work, and holders that come too late: each dispatch has one holder at a time, and is done
//! once.

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
    given::{Given, id, race, race_two, say_keyed, walk},
    length::Length,
    mailbox::draft::{LEASE, ack, mailbox, try_settle},
    random::{Random, seed},
};

/// How many dispatches one call enqueues.
const BATCH: usize = 500;
/// How long the usual number of dispatches may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// How many dispatches, of how many threads, and who races for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RacingClaims {
    /// So many dispatches: most are there before anybody claims, every tenth comes alone.
    pub dispatches: usize,
    /// Of so many threads.
    pub threads: usize,
    /// So many tasks claim and settle them.
    pub consumers: usize,
    /// Decides who gives back what. The schedule of the tasks it does not decide.
    pub seed: u64,
}

/// What was done, and found to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimFigures {
    /// The test.
    pub test: RacingClaims,
    /// So many claims were given out.
    pub claims: u64,
}

impl fmt::Display for ClaimFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test: RacingClaims { dispatches, threads, consumers, seed }, claims } = self;
        write!(f, "AGENTSTORE_HISTORY_SEED={seed}: {consumers} consumers, {dispatches} dispatches of {threads} ")?;
        write!(f, "threads, each done once; {claims} claims, never two of one thread at a time")
    }
}

impl Default for RacingClaims {
    /// 400 dispatches for 64 consumers, in full 2,000, at length 10,000, of a tenth as many threads, from the seed that
    /// `AGENTSTORE_HISTORY_SEED` gives: a number (1), or `random`.
    fn default() -> Self {
        let dispatches = Length::choose(400, 2_000, 10_000);
        Self { dispatches, threads: dispatches / 10, consumers: 64, seed: seed("AGENTSTORE_HISTORY_SEED") }
    }
}

/// What all consumers share.
struct Shared {
    mailbox: Arc<dyn MailboxStore>,
    test: RacingClaims,
    /// Who holds something of a thread, and the last number of a claim of it.
    threads: Mutex<HashMap<ThreadId, (Option<DispatchId>, ClaimNumber)>>,
    done: AtomicUsize,
    claims: AtomicU64,
}

impl RacingClaims {
    /// Runs it on a new store of `fixture`.
    ///
    /// # Errors
    /// If a call fails, if something was held twice at a time, or is not done exactly once in the end.
    pub async fn run(self, fixture: impl Fixture) -> Result<ClaimFigures, Failure> {
        let given = Given::open(Contract::MailboxStore, Arc::new(fixture)).await?;
        let shared = Arc::new(Shared {
            mailbox: mailbox(&given)?,
            test: self,
            threads: Mutex::default(),
            done: AtomicUsize::new(0),
            claims: AtomicU64::new(0),
        });
        let alone = self.dispatches / 10;
        for first in (alone..self.dispatches).step_by(BATCH) {
            shared.enqueue(first..self.dispatches.min(first + BATCH)).await?;
        }
        let mut random = Random::new(self.seed);
        let seeds: Vec<Random> = (0..=self.consumers).map(|_| random.fork()).collect();
        let ends = race(self.consumers + 1, |task| {
            let (shared, random) = (Arc::clone(&shared), seeds[task].clone());
            async move {
                let ended = if task == 0 { shared.produce(alone).await } else { shared.consume(random).await };
                if ended.is_err() {
                    // What it leaves nobody does.
                    shared.done.store(self.dispatches, Ordering::SeqCst);
                }
                ended
            }
        });
        let about = |failure: Failure| failure.about(format!("AGENTSTORE_HISTORY_SEED={}", self.seed));
        let patience = PATIENCE * Length::choose(1, 5, 25);
        let ends = timeout(patience, ends).await.map_err(|_| about(Failure::new("work is left")))?;
        ends.into_iter().collect::<Result<Vec<()>, Failure>>().map_err(about)?;
        shared.judge().await.map_err(about)?;
        given.store().close().await?;
        Ok(ClaimFigures { test: self, claims: shared.claims.load(Ordering::SeqCst) })
    }
}

impl Shared {
    async fn enqueue(&self, numbers: impl Iterator<Item = usize>) -> Verdict {
        let threads = self.test.threads;
        let work = |number: usize| {
            let thread = id(&format!("t-{}", number % threads));
            NewDispatch::new(thread, id("r")).with_id(id(&format!("d-{number}")))
        };
        for answer in self.mailbox.enqueue(numbers.map(work).collect()).await? {
            answer?;
        }
        Ok(())
    }

    /// Dispatches that come one by one, each for all who wait.
    async fn produce(&self, count: usize) -> Verdict {
        for number in 0..count {
            self.enqueue(std::iter::once(number)).await?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn consume(&self, mut random: Random) -> Verdict {
        while self.done.load(Ordering::SeqCst) < self.test.dispatches {
            let limit = 1 + u32::try_from(random.below(4)).unwrap_or_default();
            let claims = self.mailbox.claim(ClaimRequest::new(id("w"), LEASE).up_to(limit)).await?;
            expect(claims.unreadable.is_empty(), "a record cannot be read")?;
            if claims.claimed.is_empty() {
                sleep(Duration::from_millis(1)).await;
            }
            for held in &claims.claimed {
                self.take(held)?;
            }
            for held in claims.claimed {
                tokio::task::yield_now().await;
                let settlement = if random.once_in(10) { Settlement::Release } else { ack() };
                let is_done = settlement != Settlement::Release;
                // Once it is settled somebody else may have it.
                self.give(&held)?;
                let answer = self.mailbox.settle(vec![(held.claim(), settlement)]).await?.pop();
                expect_some(answer, "answer")??;
                self.done.fetch_add(usize::from(is_done), Ordering::SeqCst);
            }
        }
        Ok(())
    }

    fn take(&self, held: &ClaimedDispatch) -> Verdict {
        self.claims.fetch_add(1, Ordering::SeqCst);
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let own = (Some(held.dispatch.id.clone()), held.number);
        let Some((holder, last)) = threads.insert(held.dispatch.thread.clone(), own) else { return Ok(()) };
        expect(holder.is_none(), format!("{} is given out while {holder:?} is held", held.dispatch.id))?;
        expect(last < held.number, format!("claim {} of {} comes after {last}", held.number, held.dispatch.id))
    }

    fn give(&self, held: &ClaimedDispatch) -> Verdict {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let of = expect_some(threads.get_mut(&held.dispatch.thread), "thread")?;
        expect_eq(of.0.take(), Some(held.dispatch.id.clone()))
    }

    async fn judge(&self) -> Verdict {
        let query = DispatchQuery::new(DispatchFilter::default().in_status([DispatchStatus::Acked]));
        let list = |page| self.mailbox.list_dispatches(query.clone().with_page(page));
        let acked = walk(PageRequest::first(1_000), list).await?;
        expect_eq(acked.len(), self.test.dispatches)?;
        let counts = self.mailbox.count_dispatches(None).await?;
        expect_eq((counts.acked, counts.total()), (self.test.dispatches as u64, self.test.dispatches as u64))
    }
}

/// Holders whose claim is lost, by a lease that is over or an interrupt, while somebody else goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleHolders {
    /// So many holders, each of a thread of its own.
    pub rounds: usize,
}

impl Default for StaleHolders {
    /// 40 holders, in full and at length 200.
    fn default() -> Self {
        Self { rounds: Length::choose(40, 200, 200) }
    }
}

impl fmt::Display for StaleHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{0} of {0} stale holders were refused", self.rounds)
    }
}

impl StaleHolders {
    /// Runs it on a new store of `fixture`, whose time can be moved.
    ///
    /// # Errors
    /// If a stale holder wrote something, or the next one could not.
    pub async fn run(self, fixture: impl Fixture) -> Result<Self, Failure> {
        let checks_commits = fixture.lack(Need::Fenced).is_none() && fixture.capabilities().fenced;
        let given = Given::open(Contract::MailboxStore, Arc::new(fixture)).await?;
        for round in 0..self.rounds {
            Self::round(&given, round, checks_commits).await.map_err(|failure| failure.about(round))?;
        }
        given.store().close().await?;
        Ok(self)
    }

    async fn round(given: &Given, round: usize, checks_commits: bool) -> Verdict {
        let (store, thread): (_, ThreadId) = (mailbox(given)?, id(&format!("t-{round}")));
        let work = |name: &str| NewDispatch::new(thread.clone(), id("r")).with_id(id(&format!("{name}-{round}")));
        let claim = async || {
            let claims = store.claim(ClaimRequest::new(id("w"), LEASE).of_thread(thread.clone())).await?;
            expect_some(claims.claimed.into_iter().next(), "dispatch")
        };
        store.enqueue(vec![work("a")]).await?.remove(0)?;
        let stale = claim().await?;
        let kind = if round.is_multiple_of(2) {
            given.advance(LEASE).await;
            ErrorKind::ClaimLost
        } else {
            store.interrupt(Interrupt::new(thread.clone()).taking_over()).await?;
            store.enqueue(vec![work("b")]).await?.remove(0)?;
            ErrorKind::StaleEpoch
        };
        let next = claim().await?;
        let say = |held: &ClaimedDispatch, key: &str| say_keyed(&thread, key, key).fenced(held.fence());
        if checks_commits {
            given.accept(say(&next, "own")).await?;
            let late = given.commits()?.commit(say(&stale, "late").settling(ack())).await;
            expect_kind(late, kind)?;
        }
        expect_kind(store.extend(&stale.claim(), LEASE).await, kind)?;
        expect_kind(store.start(&stale.claim(), id("i")).await, kind)?;
        expect_kind(try_settle(given, &stale, ack()).await?, kind)?;
        if checks_commits {
            given.accept(say(&next, "end").settling(ack())).await?;
            let entries = given.threads()?.list_entries(&thread, EntryQuery::all()).await?.items;
            expect_eq(entries.len(), 2)?;
        } else {
            try_settle(given, &next, ack()).await??;
        }
        let done = expect_some(store.load_dispatch(&next.dispatch.id).await?, "dispatch")?;
        expect_eq(done.status, DispatchStatus::Acked)
    }
}

/// Work that ends just before, at, or just behind the end of its lease, while somebody else claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseEdges {
    /// So many leases.
    pub rounds: usize,
}

impl Default for LeaseEdges {
    /// 60 leases, in full 300, at length 1,000.
    fn default() -> Self {
        Self { rounds: Length::choose(60, 300, 1_000) }
    }
}

/// Who won how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EdgeFigures {
    /// The holder, who settled.
    pub settled: usize,
    /// Somebody else, who claimed.
    pub claimed: usize,
}

impl fmt::Display for EdgeFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settled, claimed } = self;
        write!(
            f,
            "{} leases at their ends: {settled} settled, {claimed} claimed by another, none both",
            settled + claimed
        )
    }
}

impl LeaseEdges {
    /// Runs it on a new store of `fixture`, whose time can be moved.
    ///
    /// # Errors
    /// If work was settled and given out again, or neither.
    pub async fn run(self, fixture: impl Fixture) -> Result<EdgeFigures, Failure> {
        let given = Given::open(Contract::MailboxStore, Arc::new(fixture)).await?;
        let is_still = given.fixture().lack(Need::Still).is_none();
        let (store, mut figures) = (mailbox(&given)?, EdgeFigures::default());
        for round in 0..self.rounds {
            let name: DispatchId = id(&format!("d-{round}"));
            let work = NewDispatch::new(id(&format!("t-{round}")), id("r")).with_id(name.clone());
            store.enqueue(vec![work]).await?.remove(0)?;
            let request = || ClaimRequest::new(id("w"), LEASE).of_dispatch(name.clone());
            let held = expect_some(store.claim(request()).await?.claimed.pop(), "dispatch")?;
            given.advance(LEASE - Duration::from_millis(1) + Duration::from_millis(round as u64 % 3)).await;
            let (one, other) = (Arc::clone(&store), Arc::clone(&store));
            let (claim, next) = (held.claim(), request());
            let (settled, claimed) =
                race_two(async move { one.settle(vec![(claim, ack())]).await }, async move { other.claim(next).await })
                    .await;
            let settled = expect_some(settled?.pop(), "answer")?;
            match (settled, claimed?.claimed.pop()) {
                (Ok(_), None) => figures.settled += 1,
                (Err(error), Some(next)) => {
                    expect_eq(error.kind(), ErrorKind::ClaimLost)?;
                    let is_over = !is_still || round % 3 > 0;
                    expect(is_over, format!("{name} is given out before its lease is over"))?;
                    expect(held.number < next.number, format!("claim {} after {}", next.number, held.number))?;
                    try_settle(&given, &next, ack()).await??;
                    figures.claimed += 1;
                }
                (Ok(_), Some(_)) => return Err(Failure::new(format!("{name} was settled and given out"))),
                (Err(error), None) => return Err(Failure::new(format!("{name} has no holder: {error}"))),
            }
        }
        given.store().close().await?;
        let EdgeFigures { settled, claimed } = figures;
        expect(settled > 0 && claimed > 0, format!("{settled} holders won, {claimed} others did"))?;
        Ok(figures)
    }
}
