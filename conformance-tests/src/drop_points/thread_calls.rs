//! Calls that are dropped or whose outcome is unknown, on a thread, its queue and its events.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    AppendEvents, AppendPending, Commit, CommitCoordinator, ContextRequest, DeleteRequest, EntryId, EventId,
    EventQuery, EventStore, Expect, Json, Message, NewEvent, NewInput, NewThread, PendingStore, RedactEvent, RunFilter,
    Scope, ThreadFields, ThreadId, ThreadRunStore, Version,
};

use super::{DropPointTarget, DropPointTest};
use crate::{
    call::{Calls, append_events_request, append_pending_request, keyed_commit, trim_request},
    check::{Failure, Verdict, expect_some},
    given::{Given, id, keyed_commit_with_message, message_entry},
    unknown_outcome::{Resolution, ResolveOutcome, check_unknown_outcomes, missing_resolution},
};

/// The stores on which the calls are made.
pub(crate) struct ThreadStores {
    pub(crate) threads: Arc<dyn ThreadRunStore>,
    pub(crate) commits: Arc<dyn CommitCoordinator>,
    pub(crate) pending: Arc<dyn PendingStore>,
    pub(crate) events: Arc<dyn EventStore>,
}

/// What calls name of the prepared records: revisions before the call, and an event.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The revision of the queue.
    pub(crate) queue_revision: u64,
    /// The revision of the thread's own fields.
    thread_revision: Version,
    /// The event of the thread.
    pub(crate) event: EventId,
}

/// A function that returns the tested calls on one thread.
pub(crate) type MakeCalls = for<'a> fn(&'a ThreadStores, &'a ThreadId, &'a Prepared) -> Calls<'a>;

struct ThreadCalls {
    stores: ThreadStores,
    make_calls: MakeCalls,
}

/// Drops each call after each possible number of polls. The calls named in `changing_calls`, and no others, must change
/// something.
pub(crate) async fn test_dropped_calls_on_threads(
    given: &Given,
    make_calls: MakeCalls,
    changing_calls: &[&str],
) -> Verdict {
    DropPointTest::new(ThreadCalls::of(given, make_calls)?).run(given, changing_calls).await
}

/// Checks that an unknown outcome of each call can be resolved. The calls named in `changing_calls`, and no others,
/// must change something.
pub(crate) async fn check_unknown_outcomes_on_threads(
    given: &Given,
    make_calls: MakeCalls,
    changing_calls: &[&str],
) -> Verdict {
    check_unknown_outcomes(given, ThreadCalls::of(given, make_calls)?, changing_calls).await
}

impl ThreadCalls {
    fn of(given: &Given, make_calls: MakeCalls) -> Result<Self, Failure> {
        let commits = given.commits()?;
        let (threads, pending, events) = (commits.threads(), commits.pending(), commits.events());
        Ok(Self { stores: ThreadStores { threads, commits, pending, events }, make_calls })
    }
}

#[async_trait]
impl DropPointTarget for ThreadCalls {
    type Prepared = Prepared;

    fn calls<'a>(&'a self, thread: &'a ThreadId, prepared: &'a Prepared) -> Calls<'a> {
        (self.make_calls)(&self.stores, thread, prepared)
    }

    async fn prepare(&self, _given: &Given, thread: &ThreadId) -> Result<Prepared, Failure> {
        self.stores.prepare(thread).await
    }

    async fn describe(&self, thread: &ThreadId) -> Result<String, Failure> {
        self.stores.describe(thread).await
    }

    async fn make_refused_calls(&self, thread: &ThreadId) {
        let wrong_version = Expect::Version(Version::new(1_000, 1, 0));
        let event = NewEvent::new(id("x"), [Scope::Thread(thread.clone())]);
        let unknown_input: EntryId = id("unknown");
        let commit =
            self.stores.commits.commit(Commit::new(thread.clone()).expecting(wrong_version).entry(message_entry("x")));
        let retract = self.stores.pending.retract_pending(thread, &unknown_input);
        let append = AppendEvents::new([event]).expecting(Scope::Thread(thread.clone()), 1_000);
        let append = self.stores.events.append_events(append);
        let _refused = tokio::join!(commit, retract, append);
    }

    async fn check_nothing_locked(&self, thread: &ThreadId) -> Verdict {
        self.stores.check_nothing_locked(thread).await
    }
}

#[async_trait]
impl ResolveOutcome for ThreadCalls {
    async fn resolve_outcome(&self, call: &str, thread: &ThreadId, prepared: &Prepared) -> Result<Resolution, Failure> {
        let ThreadStores { threads, commits, pending, events } = &self.stores;
        let record = threads.load_thread(thread).await?;
        let inputs = pending.load_queue(thread).await?.inputs;
        let first_input = inputs.first().map(|input| (input.id.as_str(), input.revision));
        Ok(match call {
            "create_thread" => Resolution::ByRead(threads.load_thread(&id(&format!("{thread} new"))).await?.is_some()),
            "update_thread" => {
                Resolution::ByRead(record.map(|thread| thread.revision) != Some(prepared.thread_revision))
            }
            "delete_thread" => Resolution::ByRead(record.is_none()),
            "commit" => Resolution::ByRepeat(commits.commit(keyed_commit(thread)).await?.deduplicated),
            "append_pending" => {
                Resolution::ByRepeat(pending.append_pending(append_pending_request(thread)).await?.deduplicated)
            }
            "update_pending" => Resolution::ByRead(first_input.is_some_and(|(_, revision)| revision > 1)),
            "retract_pending" => Resolution::ByRead(inputs.iter().all(|input| input.id.as_str() != "a")),
            "reorder_pending" => Resolution::ByRead(first_input.is_some_and(|(id, _)| id == "b")),
            "append_events" => {
                Resolution::ByRepeat(events.append_events(append_events_request(thread)).await?.deduplicated)
            }
            "trim_events" => {
                events.trim_events(trim_request(thread)).await?;
                Resolution::Idempotent
            }
            "redact_events" => {
                events.redact_events(vec![RedactEvent::new(prepared.event.clone())]).await?;
                Resolution::Idempotent
            }
            _ => return Err(missing_resolution(call)),
        })
    }
}

impl ThreadStores {
    /// Prepares a thread with a child, an entry, the inputs `a` and `b` and an event. Also creates and deletes another
    /// thread.
    async fn prepare(&self, thread: &ThreadId) -> Result<Prepared, Failure> {
        drop(self.commits.commit(keyed_commit_with_message(thread, "first", "x")).await?);
        let mut child_fields = ThreadFields::default();
        child_fields.parent_thread_id = Some(thread.clone());
        self.threads.create_thread(NewThread::new(id(&format!("{thread} child"))).with_fields(child_fields)).await?;
        let input = |name: &str| NewInput::message(Message::user(name)).with_id(id(name));
        self.pending.append_pending(AppendPending::new(thread.clone(), [input("a"), input("b")])).await?;
        let event = NewEvent::new(id("first"), [Scope::Thread(thread.clone())]);
        let event = event.with_payload(Json::of("content")?);
        let appended = self.events.append_events(AppendEvents::new([event])).await?;
        let deleted_thread = id(&format!("{thread} gone"));
        drop(self.commits.commit(keyed_commit_with_message(&deleted_thread, "first", "x")).await?);
        self.threads.delete_thread(&deleted_thread, DeleteRequest::default()).await?;
        let record = expect_some(self.threads.load_thread(thread).await?, "thread")?;
        Ok(Prepared {
            queue_revision: self.pending.load_queue(thread).await?.revision,
            thread_revision: record.revision,
            event: expect_some(appended.events.first(), "event")?.id.clone(),
        })
    }

    /// Describes the thread, its child, its runs, its queue, its events, and the thread that a call creates. The text
    /// contains nothing that differs between threads.
    async fn describe(&self, thread: &ThreadId) -> Result<String, Failure> {
        let record = self.threads.load_thread(thread).await?;
        let child = self.threads.load_thread(&id(&format!("{thread} child"))).await?;
        let created_thread = self.threads.load_thread(&id(&format!("{thread} new"))).await?;
        let mut runs = RunFilter::default();
        runs.thread = Some(thread.clone());
        let mut description = format!(
            "child {:?}, new {}, {} runs",
            child.map(|child| child.parent_thread_id.is_some()),
            created_thread.is_some(),
            self.threads.count_runs(&runs).await?
        );
        if let Some(record) = record {
            let state = self.threads.load_context(thread, ContextRequest::head()).await?.state;
            let (version, revision) = (record.version.number(), record.revision.number());
            description += &format!(", {version} entries, revision {revision}, {:?}, state {state:?}", record.title);
        }
        let queue = self.pending.load_queue(thread).await?;
        let inputs: Vec<_> = queue.inputs.iter().map(|input| (input.id.as_str(), &input.body)).collect();
        description += &format!(", queue {} {inputs:?}", queue.revision);
        for scope in [Scope::Thread(thread.clone()), Scope::Run(id(&format!("{thread} r")))] {
            let info = self.events.load_scope(&scope).await?;
            let listed = self.events.list_events(EventQuery::new(scope)).await?.items;
            let kinds: Vec<_> =
                listed.iter().map(|event| (event.kind.as_str(), &event.payload, event.redacted)).collect();
            description += &format!(", events {} {} {kinds:?}", info.appended, info.floor);
        }
        Ok(description)
    }

    /// Writes to the thread and its queue (if the thread exists), to its events, and to another thread.
    async fn check_nothing_locked(&self, thread: &ThreadId) -> Verdict {
        if self.threads.load_thread(thread).await?.is_some() {
            drop(self.commits.commit(keyed_commit_with_message(thread, "next", "x")).await?);
            let next = NewInput::message(Message::user("next"));
            self.pending.append_pending(AppendPending::new(thread.clone(), [next])).await?;
        }
        let event = NewEvent::new(id("next"), [Scope::Thread(thread.clone())]);
        self.events.append_events(AppendEvents::new([event])).await?;
        Ok(self.commits.commit(keyed_commit_with_message(&id("another"), thread.as_str(), "x")).await.map(drop)?)
    }
}
