//! The sweep over calls on a thread, its queue and its events.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    AppendEvents, AppendPending, Commit, CommitCoordinator, ContextRequest, EntryId, EventQuery, EventStore, Expect,
    Message, NewEvent, NewInput, NewThread, PendingStore, RunFilter, Scope, ThreadFields, ThreadId, ThreadRunStore,
    Version,
};

use super::{Sweep, Target};
use crate::{
    call::Calls,
    check::{Failure, Verdict},
    given::{Given, id, said, say_keyed},
};

/// The stores that calls are made on.
pub(crate) struct Stores {
    pub(crate) threads: Arc<dyn ThreadRunStore>,
    pub(crate) commits: Arc<dyn CommitCoordinator>,
    pub(crate) pending: Arc<dyn PendingStore>,
    pub(crate) events: Arc<dyn EventStore>,
}

/// Makes the calls of a sweep on a thread whose queue is at a revision.
pub(crate) type Make = for<'a> fn(&'a Stores, &'a ThreadId, u64) -> Calls<'a>;

struct Conversation {
    stores: Stores,
    make: Make,
}

/// Drops each of the calls at every point. Those of these names, and no others, change something when they end.
pub(crate) async fn sweep(given: &Given, make: Make, changing: &[&str]) -> Verdict {
    let commits = given.commits()?;
    let (threads, pending, events) = (commits.threads(), commits.pending(), commits.events());
    let stores = Stores { threads, commits, pending, events };
    Sweep::new(Conversation { stores, make }).run(given, changing).await
}

#[async_trait]
impl Target for Conversation {
    /// The revision of the thread's queue.
    type Prepared = u64;

    fn calls<'a>(&'a self, t: &'a ThreadId, revision: &'a u64) -> Calls<'a> {
        (self.make)(&self.stores, t, *revision)
    }

    async fn prepare(&self, t: &ThreadId) -> Result<u64, Failure> {
        self.stores.prepare(t).await
    }

    async fn look(&self, t: &ThreadId) -> Result<String, Failure> {
        self.stores.look(t).await
    }

    async fn disturb(&self, t: &ThreadId) {
        let wrong = Expect::Version(Version::new(1_000, 1, 0));
        let fact = NewEvent::new(id("x"), [Scope::Thread(t.clone())]);
        let unread: EntryId = id("unknown");
        let commit = self.stores.commits.commit(Commit::new(t.clone()).expecting(wrong).entry(said("x")));
        let retract = self.stores.pending.retract_pending(t, &unread);
        let append = AppendEvents::new([fact]).expecting(Scope::Thread(t.clone()), 1_000);
        let append = self.stores.events.append_events(append);
        let _refused = tokio::join!(commit, retract, append);
    }

    async fn write(&self, t: &ThreadId) -> Verdict {
        self.stores.write(t).await
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

    /// Writes to the thread, if it is there, its queue, its events, and another thread.
    async fn write(&self, t: &ThreadId) -> Verdict {
        if self.threads.load_thread(t).await?.is_some() {
            drop(self.commits.commit(say_keyed(t, "next", "x")).await?);
            let next = NewInput::message(Message::user("next"));
            self.pending.append_pending(AppendPending::new(t.clone(), [next])).await?;
        }
        let fact = NewEvent::new(id("next"), [Scope::Thread(t.clone())]);
        self.events.append_events(AppendEvents::new([fact])).await?;
        Ok(self.commits.commit(say_keyed(&id("another"), t.as_str(), "x")).await.map(drop)?)
    }
}
