//! The cancel sweep: a call is dropped after every number of polls, until it ends; each time it had its whole effect or
//! none, and the next call works.

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

use store_core::{
    AppendEvents, AppendPending, Commit, CommitCoordinator, ContextRequest, EntryId, EventQuery, EventStore, Expect,
    Message, NewEvent, NewInput, NewThread, PendingStore, RunFilter, Scope, ThreadFields, ThreadId, ThreadRunStore,
    Version,
};
use tokio::time::timeout;

use crate::{
    call::Calls,
    check::{Failure, Verdict, expect, expect_eq},
    given::{Given, id, said, say_keyed},
};

/// More polls than any call needs.
const MOST_POLLS: usize = 200;
/// How long the next call may take.
const NEXT_CALL: Duration = Duration::from_secs(5);
/// When a dropped call that is still on its way has arrived.
pub(crate) const LITTLE_LATER: Duration = Duration::from_millis(20);
/// How often a sweep beside others is made: where they stand is another place each time.
const ROUNDS: usize = 3;

/// The stores that calls are made on.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) threads: Arc<dyn ThreadRunStore>,
    pub(crate) commits: Arc<dyn CommitCoordinator>,
    pub(crate) pending: Arc<dyn PendingStore>,
    pub(crate) events: Arc<dyn EventStore>,
}

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

/// Makes the calls of a sweep on a thread whose queue is at a revision.
pub(crate) type Make = for<'a> fn(&'a Stores, &'a ThreadId, u64) -> Calls<'a>;

/// Drops each of the calls at every point; `AGENTSTORE_FIGURES=1` says how many there were. Those of these names, and
/// no others, change something when they end.
pub(crate) async fn sweep(given: &Given, make: Make, changing: &[&str]) -> Verdict {
    let commits = given.commits()?;
    let (threads, pending, events) = (commits.threads(), commits.pending(), commits.events());
    let stores = Stores { threads, commits, pending, events };
    let all = make(&stores, &id("t"), 0).len();
    let (mut changed, mut points) = (BTreeSet::new(), 0);
    for at in 0..all {
        let swept = Swept::begin(&stores, make, at).await?;
        if swept.ends[0] != swept.ends[1] {
            changed.insert(swept.name);
        }
        points += swept.at_every_poll(None).await?;
        for round in 0..ROUNDS {
            points += swept.at_every_poll(Some(round)).await?;
        }
    }
    if env::var_os("AGENTSTORE_FIGURES").is_some() {
        let _unheard = writeln!(stderr(), "{}: {all} calls, {points} drop points", given.fixture().name());
    }
    expect_eq(changed, changing.iter().copied().collect())
}

/// The sweep of one call.
struct Swept<'a> {
    stores: &'a Stores,
    make: Make,
    at: usize,
    name: &'static str,
    /// What can be seen without the call, and after it.
    ends: [String; 2],
}

impl<'a> Swept<'a> {
    /// Makes the call once, whole.
    async fn begin(stores: &'a Stores, make: Make, at: usize) -> Result<Self, Failure> {
        let t: ThreadId = id(&format!("t-{at}-whole"));
        let revision = stores.prepare(&t).await?;
        let before = stores.look(&t).await?;
        let (name, call) = make(stores, &t, revision).swap_remove(at);
        // A refusal is an end as good as any.
        let _ended = call.await;
        Ok(Self { stores, make, at, name, ends: [before, stores.look(&t).await?] })
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
        let revision = self.stores.prepare(t).await?;
        let others = is_beside.then(|| Others::begin(self.stores, t));
        let (_, call) = (self.make)(self.stores, t, revision).swap_remove(self.at);
        // What the call itself was refused with it was refused with when it was whole, too.
        let ended = cut(call, polls).await.map_or(true, |ended| ended.is_some());
        let seen = self.stores.look(t).await?;
        tokio::time::sleep(LITTLE_LATER).await;
        let later = self.stores.look(t).await?;
        if let Some(others) = others {
            others.end().await?;
        }
        let what = || format!("seen was {seen}, a little later {later}, ends are {:?}", self.ends);
        expect(seen == later, format!("it came later: {}", what()))?;
        expect(self.ends.contains(&later), what())?;
        expect(!ended || seen == self.ends[1], format!("it ended without its effect: {}", what()))?;
        let (_, again) = (self.make)(self.stores, t, revision).swap_remove(self.at);
        let again = timeout(NEXT_CALL, again).await;
        // What it is answered is its own affair: it may have had its effect before.
        let _answer = again.map_err(|_| Failure::new("the same call again waits"))?;
        self.stores.is_free(t).await?;
        Ok(ended)
    }
}

/// Calls on the same thread that are all refused, so that the one that is dropped finds locks taken and queues filled.
struct Others {
    is_done: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Others {
    fn begin(stores: &Stores, t: &ThreadId) -> Self {
        let is_done = Arc::new(AtomicBool::new(false));
        let (stores, t, done) = (stores.clone(), t.clone(), Arc::clone(&is_done));
        let task = tokio::spawn(async move {
            let wrong = Expect::Version(Version::new(1_000, 1, 0));
            let fact = NewEvent::new(id("x"), [Scope::Thread(t.clone())]);
            let unread: EntryId = id("unknown");
            while !done.load(Ordering::SeqCst) {
                let commit = stores.commits.commit(Commit::new(t.clone()).expecting(wrong).entry(said("x")));
                let retract = stores.pending.retract_pending(&t, &unread);
                let append = AppendEvents::new([fact.clone()]).expecting(Scope::Thread(t.clone()), 1_000);
                let append = stores.events.append_events(append);
                let _refused = tokio::join!(commit, retract, append);
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

impl Stores {
    /// A thread with a child, an entry, the inputs `a` and `b`, and an event. Gives the revision of its queue.
    async fn prepare(&self, t: &ThreadId) -> Result<u64, Failure> {
        drop(self.commits.commit(say_keyed(t, "first", "x")).await?);
        let mut below = ThreadFields::default();
        below.parent_thread_id = Some(t.clone());
        self.threads.create_thread(NewThread::new(id(&format!("{t} child"))).with_fields(below)).await?;
        let input = |name: &str| NewInput::message(Message::user(name)).with_id(id(name));
        self.pending.append_pending(AppendPending::new(t.clone(), [input("a"), input("b")])).await?;
        let fact = NewEvent::new(id("first"), [Scope::Thread(t.clone())]);
        self.events.append_events(AppendEvents::new([fact])).await?;
        Ok(self.pending.load_queue(t).await?.revision)
    }

    /// What can be seen of a thread and of what a call makes beside it, without what is another in each thread.
    async fn look(&self, t: &ThreadId) -> Result<String, Failure> {
        timeout(NEXT_CALL, self.look_at_all(t)).await.map_err(|_| Failure::new("the next read waits"))?
    }

    async fn look_at_all(&self, t: &ThreadId) -> Result<String, Failure> {
        let thread = self.threads.load_thread(t).await?;
        let child = self.threads.load_thread(&id(&format!("{t} child"))).await?;
        let new = self.threads.load_thread(&id(&format!("{t} new"))).await?;
        let mut runs = RunFilter::default();
        runs.thread = Some(t.clone());
        let mut seen = format!(
            "child {:?}, new {}, {} runs",
            child.map(|child| child.parent_thread_id.is_some()),
            new.is_some(),
            self.threads.count_runs(&runs).await?
        );
        if let Some(thread) = thread {
            let state = self.threads.load_context(t, ContextRequest::head()).await?.state;
            let (version, revision) = (thread.version.number(), thread.revision.number());
            seen += &format!(", {version} entries, revision {revision}, {:?}, state {state:?}", thread.title);
        }
        let queue = self.pending.load_queue(t).await?;
        let inputs: Vec<_> = queue.inputs.iter().map(|input| (input.id.as_str(), &input.body)).collect();
        seen += &format!(", queue {} {inputs:?}", queue.revision);
        for scope in [Scope::Thread(t.clone()), Scope::Run(id(&format!("{t} r")))] {
            let info = self.events.load_scope(&scope).await?;
            let listed = self.events.list_events(EventQuery::new(scope)).await?.items;
            let kinds: Vec<_> = listed.iter().map(|event| event.kind.as_str()).collect();
            seen += &format!(", events {} {} {kinds:?}", info.appended, info.floor);
        }
        Ok(seen)
    }

    /// Nothing is locked: the thread, if it is there, its queue, its events, and another thread can be written.
    async fn is_free(&self, t: &ThreadId) -> Verdict {
        let writes = async {
            if self.threads.load_thread(t).await?.is_some() {
                drop(self.commits.commit(say_keyed(t, "next", "x")).await?);
                let next = NewInput::message(Message::user("next"));
                self.pending.append_pending(AppendPending::new(t.clone(), [next])).await?;
            }
            let fact = NewEvent::new(id("next"), [Scope::Thread(t.clone())]);
            self.events.append_events(AppendEvents::new([fact])).await?;
            self.commits.commit(say_keyed(&id("another"), t.as_str(), "x")).await.map(drop)
        };
        Ok(timeout(NEXT_CALL, writes).await.map_err(|_| Failure::new("a lock is left"))??)
    }
}
