//! The cancel sweep: a call is dropped after every number of polls, until it ends; each time it had its whole effect or
//! none, and the next call works.

mod conversation;

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
};

pub(crate) use self::conversation::sweep;

/// More polls than any call needs.
const MOST_POLLS: usize = 200;
/// How long the next call may take.
const NEXT_CALL: Duration = Duration::from_secs(5);
/// When a dropped call that is still on its way has arrived.
pub(crate) const LITTLE_LATER: Duration = Duration::from_millis(20);
/// How often a sweep beside others is made: where they stand is another place each time.
const ROUNDS: usize = 3;

/// Polls a call `polls` times and drops it. Gives its answer, if it ended.
pub(crate) async fn cut<T>(
    mut call: Pin<Box<dyn Future<Output = store_core::Result<T>> + Send + '_>>,
    polls: usize,
) -> store_core::Result<Option<T>> {
    let mut left = polls;
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(Ok(None));
        }
        left -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(ended) => Poll::Ready(ended.map(Some)),
            Poll::Pending if left == 0 => Poll::Ready(Ok(None)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// What calls are made on, and how it is looked at.
#[async_trait]
pub(crate) trait Target: Send + Sync + 'static {
    /// What calls have to know of what is there before them.
    type Prepared: Send + Sync;

    /// Makes what the calls on a thread find.
    async fn prepare(&self, t: &ThreadId) -> Result<Self::Prepared, Failure>;

    /// The calls.
    fn calls<'a>(&'a self, t: &'a ThreadId, prepared: &'a Self::Prepared) -> Calls<'a>;

    /// What can be seen, without what is another in each thread.
    async fn look(&self, t: &ThreadId) -> Result<String, Failure>;

    /// Calls on the same thread that are all refused, so that the one that is dropped finds locks taken and queues
    /// filled.
    async fn disturb(&self, t: &ThreadId);

    /// Writes wherever a lock may have been left.
    async fn write(&self, t: &ThreadId) -> Verdict;
}

/// Drops calls on a target at every point.
pub(crate) struct Sweep<T>(Arc<T>);

impl<T: Target> Sweep<T> {
    pub(crate) fn new(target: T) -> Self {
        Self(Arc::new(target))
    }

    /// Drops each of the calls; `AGENTSTORE_FIGURES=1` says how many there were. Those of these names, and no others,
    /// change something when they end.
    pub(crate) async fn run(&self, given: &Given, changing: &[&str]) -> Verdict {
        let (mut changed, mut points, mut at) = (BTreeSet::new(), 0, 0);
        while let Some(swept) = Swept::begin(&self.0, at).await? {
            if swept.ends[0] != swept.ends[1] {
                changed.insert(swept.name);
            }
            points += swept.at_every_poll(None).await?;
            for round in 0..ROUNDS {
                points += swept.at_every_poll(Some(round)).await?;
            }
            at += 1;
        }
        if env::var_os("AGENTSTORE_FIGURES").is_some() {
            let _unheard = writeln!(stderr(), "{}: {at} calls, {points} drop points", given.fixture().name());
        }
        expect_eq(changed, changing.iter().copied().collect())
    }
}

/// The sweep of one call.
struct Swept<'a, T> {
    target: &'a Arc<T>,
    at: usize,
    name: &'static str,
    /// What can be seen without the call, and after it.
    ends: [String; 2],
}

impl<'a, T: Target> Swept<'a, T> {
    /// Makes the call once, whole; none if there are not so many.
    async fn begin(target: &'a Arc<T>, at: usize) -> Result<Option<Self>, Failure> {
        let t: ThreadId = id(&format!("t-{at}-whole"));
        let prepared = target.prepare(&t).await?;
        let before = look(&**target, &t).await?;
        let mut calls = target.calls(&t, &prepared);
        if at >= calls.len() {
            return Ok(None);
        }
        let (name, call) = calls.swap_remove(at);
        // A refusal is an end as good as any.
        let _ended = call.await;
        let after = look(&**target, &t).await?;
        Ok(Some(Self { target, at, name, ends: [before, after] }))
    }

    /// Drops the call on a new thread after every number of polls, beside calls of others if it is a round of these.
    /// Gives how many points that were.
    async fn at_every_poll(&self, round: Option<usize>) -> Result<usize, Failure> {
        for polls in 0..MOST_POLLS {
            let t: ThreadId = id(&format!("t-{}-{polls}-{round:?}", self.at));
            let beside = if round.is_some() { ", beside others" } else { "" };
            let about = |failure: Failure| failure.about(format!("`{}` after {polls} polls{beside}", self.name));
            if self.once(&t, polls, round.is_some()).await.map_err(about)? {
                return Ok(polls);
            }
        }
        Err(Failure::new(format!("`{}` does not end", self.name)))
    }

    /// Drops the call after so many polls. Gives whether it ended before.
    async fn once(&self, t: &ThreadId, polls: usize, is_beside: bool) -> Result<bool, Failure> {
        let prepared = self.target.prepare(t).await?;
        let others = is_beside.then(|| Others::begin(self.target, t));
        let (_, call) = self.target.calls(t, &prepared).swap_remove(self.at);
        // What the call itself was refused with it was refused with when it was whole, too.
        let ended = cut(call, polls).await.map_or(true, |ended| ended.is_some());
        let seen = look(&**self.target, t).await?;
        tokio::time::sleep(LITTLE_LATER).await;
        let later = look(&**self.target, t).await?;
        if let Some(others) = others {
            others.end().await?;
        }
        let what = || format!("seen was {seen}, a little later {later}, ends are {:?}", self.ends);
        expect(seen == later, format!("it came later: {}", what()))?;
        expect(self.ends.contains(&later), what())?;
        expect(!ended || seen == self.ends[1], format!("it ended without its effect: {}", what()))?;
        let (_, again) = self.target.calls(t, &prepared).swap_remove(self.at);
        let again = timeout(NEXT_CALL, again).await;
        // What it is answered is its own affair: it may have had its effect before.
        let _answer = again.map_err(|_| Failure::new("the same call again waits"))?;
        timeout(NEXT_CALL, self.target.write(t)).await.map_err(|_| Failure::new("a lock is left"))??;
        Ok(ended)
    }
}

async fn look(target: &impl Target, t: &ThreadId) -> Result<String, Failure> {
    timeout(NEXT_CALL, target.look(t)).await.map_err(|_| Failure::new("the next read waits"))?
}

/// Somebody else who makes calls until it is told to end.
struct Others {
    is_done: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Others {
    fn begin<T: Target>(target: &Arc<T>, t: &ThreadId) -> Self {
        let is_done = Arc::new(AtomicBool::new(false));
        let (target, t, done) = (Arc::clone(target), t.clone(), Arc::clone(&is_done));
        let task = tokio::spawn(async move {
            while !done.load(Ordering::SeqCst) {
                target.disturb(&t).await;
                tokio::task::yield_now().await;
            }
        });
        Self { is_done, task }
    }

    async fn end(self) -> Verdict {
        self.is_done.store(true, Ordering::SeqCst);
        let ended = timeout(NEXT_CALL, self.task).await.map_err(|_| Failure::new("calls of others wait"))?;
        ended.map_err(|panic| Failure::new(panic.to_string()))
    }
}
