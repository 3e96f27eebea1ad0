//! Tests that drop a call after 0 polls, then after 1 poll, and so on, up to the number of polls after which the call
//! ends by itself. Each time the call must take effect in full or not at all, and the next call must work.

mod thread_calls;

use std::{
    collections::BTreeSet,
    env,
    future::Future,
    io::{Write, stderr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use async_trait::async_trait;
use store_core::ThreadId;
use tokio::time::timeout;

use crate::{
    call::Calls,
    check::{Failure, Verdict, expect, expect_eq},
    given::{Given, id},
    test_length::TestLength,
};

pub(crate) use self::thread_calls::{check_unknown_outcomes_on_threads, test_dropped_calls_on_threads};

/// More polls than any call needs.
pub(crate) const MAX_POLLS: usize = 200;
/// How long a call may take. A call that takes longer is assumed to wait forever. No call needs that long, even if the
/// machine is busy and the store must first notice that an earlier call was dropped.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the test waits before it assumes that a dropped call will not take effect later.
pub(crate) const LATE_EFFECT_DELAY: Duration = Duration::from_millis(20);
/// Calls whose effect the store reverts if the call was dropped before its answer was received.
const REVERTED_WHEN_UNANSWERED: [&str; 2] = ["claim", "claim_outbox"];
/// The maximum number of times that a test checks whether an effect was reverted or a claim was released. With the
/// delay between them, all checks take 10 s.
const MAX_REVERT_CHECKS: usize = 500;

/// Polls a call at most `polls` times and drops it. Returns its answer if it ended. Otherwise returns `None`.
pub(crate) async fn poll_then_drop<T>(
    mut call: Pin<Box<dyn Future<Output = store_core::Result<T>> + Send + '_>>,
    polls: usize,
) -> store_core::Result<Option<T>> {
    let mut remaining_polls = polls;
    std::future::poll_fn(move |context| {
        if remaining_polls == 0 {
            return Poll::Ready(Ok(None));
        }
        remaining_polls -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(answer.map(Some)),
            Poll::Pending if remaining_polls == 0 => Poll::Ready(Ok(None)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The number of claims that a case drops with [`claim_although_dropped`], each after one, two or three polls.
pub(crate) const DROPPED_CLAIM_COUNT: usize = 30;

/// A claim that has not been polled yet. Its answer is `None` if there was nothing to claim.
pub(crate) type ClaimCall<T> = Pin<Box<dyn Future<Output = store_core::Result<Option<T>>> + Send>>;

/// Makes a claim and drops the call after `polls` polls. Returns the claimed work if the call ended before that.
/// Otherwise claims again until it gets the work. Fails if the claim of the dropped call is not released within 10 s.
pub(crate) async fn claim_although_dropped<T>(
    claim: impl Fn() -> Result<ClaimCall<T>, Failure>,
    polls: usize,
) -> Result<T, Failure> {
    if let Some(received) = poll_then_drop(claim()?, polls).await?.flatten() {
        return Ok(received);
    }
    for _ in 0..MAX_REVERT_CHECKS {
        if let Some(claimed) = claim()?.await? {
            return Ok(claimed);
        }
        tokio::time::sleep(LATE_EFFECT_DELAY).await;
    }
    Err(Failure::new("a dropped claim was not released within 10 s"))
}

/// The stores on which the calls are made and dropped, and how the test prepares and reads their records.
#[async_trait]
pub(crate) trait DropPointTarget: Send + Sync + 'static {
    /// The ids, tokens and revisions of the prepared records, which the calls need.
    type Prepared: Send + Sync;

    /// Prepares the records that the calls on a thread need.
    async fn prepare(&self, given: &Given, thread: &ThreadId) -> Result<Self::Prepared, Failure>;

    /// The calls that the test makes on this thread.
    fn calls<'a>(&'a self, thread: &'a ThreadId, prepared: &'a Self::Prepared) -> Calls<'a>;

    /// Describes the records of the thread. The text contains nothing that differs between threads, such as ids.
    async fn describe(&self, thread: &ThreadId) -> Result<String, Failure>;

    /// Makes calls on the same thread, which are all refused. The test drops its own call while these calls run. So the
    /// dropped call meets taken locks and filled queues.
    async fn make_refused_calls(&self, thread: &ThreadId);

    /// Writes to every record that a dropped call may have left locked.
    async fn check_nothing_locked(&self, thread: &ThreadId) -> Verdict;
}

/// Drops each call on a target after each possible number of polls.
pub(crate) struct DropPointTest<T> {
    target: Arc<T>,
}

impl<T: DropPointTarget> DropPointTest<T> {
    pub(crate) fn new(target: T) -> Self {
        Self { target: Arc::new(target) }
    }

    /// Drops each call after each possible number of polls. The calls named in `changing_calls`, and no others, must
    /// change something. If `AGENTSTORE_FIGURES` is set, the test also prints the number of points at which calls were
    /// dropped.
    pub(crate) async fn run(&self, given: &Given, changing_calls: &[&str]) -> Verdict {
        let (mut calls_that_changed, mut counts, mut index) = (BTreeSet::new(), DropPointCounts::default(), 0);
        while let Some(call_test) = CallDropTest::observe_effect(&self.target, given, index).await? {
            if call_test.description_before != call_test.description_after {
                calls_that_changed.insert(call_test.name);
            }
            // Quick tests try a third of the numbers of polls: 0, 3, 6 … if no other call runs, and 2, 5, 8 … while
            // another task makes calls.
            let step = TestLength::pick_by_env(3, 1, 1);
            let mut points = call_test.drop_after_each((0..MAX_POLLS).step_by(step), None).await?;
            // In each round the dropped call meets the calls of the other task at different points.
            for round in 0..TestLength::pick_by_env(1, 3, 3) {
                points += call_test.drop_after_each((step - 1..MAX_POLLS).step_by(step), Some(round)).await?;
            }
            counts.add(call_test.name, points)?;
            index += 1;
        }
        counts.print_and_check(given, index)?;
        expect_eq(calls_that_changed, changing_calls.iter().copied().collect())
    }
}

/// The number of points at which calls were dropped: of all calls together, and of the call with the most points.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DropPointCounts {
    points: usize,
    max_per_call: usize,
}

impl DropPointCounts {
    /// Adds the points of one call. Fails if there are none, because every call can be dropped before its first poll.
    pub(crate) fn add(&mut self, name: &str, points: usize) -> Verdict {
        (self.points, self.max_per_call) = (self.points + points, self.max_per_call.max(points));
        expect(points > 0, format!("`{name}` was never dropped"))
    }

    /// Prints the figures if `AGENTSTORE_FIGURES` is set. Fails if there were fewer points than calls, or no calls.
    pub(crate) fn print_and_check(self, given: &Given, calls: usize) -> Verdict {
        let Self { points, max_per_call } = self;
        if env::var_os("AGENTSTORE_FIGURES").is_some() {
            let name = given.fixture().name();
            let _ignored =
                writeln!(stderr(), "{name}: {calls} calls, {points} drop points, at most {max_per_call} per call");
        }
        expect(points >= calls && calls > 0, format!("{points} drop points for {calls} calls"))
    }
}

/// The test of one call.
struct CallDropTest<'a, T> {
    target: &'a Arc<T>,
    given: &'a Given,
    /// The index of the call in the list of [`DropPointTarget::calls`].
    index: usize,
    name: &'static str,
    /// What `describe` returned before the call.
    description_before: String,
    /// What `describe` returned after the call.
    description_after: String,
}

impl<'a, T: DropPointTarget> CallDropTest<'a, T> {
    /// Makes the call at `index` in the list and waits until it ends. Returns `None` if there is no such call.
    async fn observe_effect(target: &'a Arc<T>, given: &'a Given, index: usize) -> Result<Option<Self>, Failure> {
        let thread: ThreadId = id(&format!("t-{index}-whole"));
        let prepared = target.prepare(given, &thread).await?;
        let description_before = describe(&**target, &thread).await?;
        let mut calls = target.calls(&thread, &prepared);
        if index >= calls.len() {
            return Ok(None);
        }
        let (name, call) = calls.swap_remove(index);
        // The test also makes calls that are refused, so the answer does not matter.
        let _ended = call.await;
        let description_after = describe(&**target, &thread).await?;
        Ok(Some(Self { target, given, index, name, description_before, description_after }))
    }

    /// Drops the call after each of these numbers of polls, each time on a new thread, until it ends before it is
    /// dropped. If `round` is given, another task makes calls at the same time. Returns how often the call was dropped.
    async fn drop_after_each(
        &self,
        poll_counts: impl Iterator<Item = usize>,
        round: Option<usize>,
    ) -> Result<usize, Failure> {
        for (points, polls) in poll_counts.enumerate() {
            let thread: ThreadId = id(&format!("t-{}-{polls}-{round:?}", self.index));
            let circumstance = if round.is_some() { ", while another task made calls" } else { "" };
            let about = |failure: Failure| failure.about(format!("`{}` after {polls} polls{circumstance}", self.name));
            if self.drop_after(&thread, polls, round.is_some()).await.map_err(about)? {
                return Ok(points);
            }
        }
        Err(Failure::new(format!("`{}` does not return", self.name)))
    }

    /// Drops the call after this number of polls. Returns whether it ended before it was dropped.
    async fn drop_after(&self, thread: &ThreadId, polls: usize, with_other_calls: bool) -> Result<bool, Failure> {
        let prepared = self.target.prepare(self.given, thread).await?;
        let other_calls = with_other_calls.then(|| BackgroundCalls::begin(self.target, thread));
        let (_, call) = self.target.calls(thread, &prepared).swap_remove(self.index);
        // A refusal counts as an end. Such a call was also refused when `observe_effect` made it.
        let has_ended = poll_then_drop(call, polls).await.map_or(true, |answer| answer.is_some());
        let mut first_read = describe(&**self.target, thread).await?;
        tokio::time::sleep(LATE_EFFECT_DELAY).await;
        let later_read = describe(&**self.target, thread).await?;
        if !has_ended && REVERTED_WHEN_UNANSWERED.contains(&self.name) {
            self.expect_reverted(thread).await?;
            // The first read may show the claim before the store reverted it, so only the later read is checked below.
            first_read.clone_from(&later_read);
        }
        if let Some(other_calls) = other_calls {
            other_calls.end().await?;
        }
        let describe_reads = || {
            let expected = [&self.description_before, &self.description_after];
            format!("a read shows {first_read}, a later read {later_read}, expected one of {expected:?}")
        };
        expect(first_read == later_read, format!("the dropped call took effect later: {}", describe_reads()))?;
        expect([&self.description_before, &self.description_after].contains(&&later_read), describe_reads())?;
        expect(
            !has_ended || first_read == self.description_after,
            format!("the call ended without its effect: {}", describe_reads()),
        )?;
        let (_, repeated_call) = self.target.calls(thread, &prepared).swap_remove(self.index);
        let repeated_answer = timeout(CALL_TIMEOUT, repeated_call).await;
        // The repeated call may be refused, because the dropped call may have taken effect.
        let _answer = repeated_answer.map_err(|_| Failure::new("the repeated call does not return"))?;
        timeout(CALL_TIMEOUT, self.target.check_nothing_locked(thread))
            .await
            .map_err(|_| Failure::new("a lock is still held"))??;
        Ok(has_ended)
    }

    /// Checks that the effect of the call is reverted within 10 s.
    async fn expect_reverted(&self, thread: &ThreadId) -> Verdict {
        for _ in 0..MAX_REVERT_CHECKS {
            if describe(&**self.target, thread).await? == self.description_before {
                return Ok(());
            }
            tokio::time::sleep(LATE_EFFECT_DELAY).await;
        }
        Err(Failure::new("the claim of a dropped call was not released"))
    }
}

async fn describe(target: &impl DropPointTarget, thread: &ThreadId) -> Result<String, Failure> {
    timeout(CALL_TIMEOUT, target.describe(thread)).await.map_err(|_| Failure::new("the next read does not return"))?
}

/// Another task that makes refused calls until [`end`](Self::end) stops it.
struct BackgroundCalls {
    is_stopped: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl BackgroundCalls {
    fn begin<T: DropPointTarget>(target: &Arc<T>, thread: &ThreadId) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (target, thread, stop_flag) = (Arc::clone(target), thread.clone(), Arc::clone(&is_stopped));
        let task = tokio::spawn(async move {
            while !stop_flag.load(Ordering::SeqCst) {
                target.make_refused_calls(&thread).await;
                tokio::task::yield_now().await;
            }
        });
        Self { is_stopped, task }
    }

    async fn end(self) -> Verdict {
        self.is_stopped.store(true, Ordering::SeqCst);
        let join_result =
            timeout(CALL_TIMEOUT, self.task).await.map_err(|_| Failure::new("a call of the other task hangs"))?;
        join_result.map_err(|panic| Failure::new(panic.to_string()))
    }
}
