//! Tests that a kept context equals the context that the store computes, and that the cache keeps its bound on bytes
//! (SE-5).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use store_core::{
    Block, BranchPoint, Budget, CommitCoordinator, Compaction, ContextRequest, DeleteRequest, Deletion, Entry, EntryId,
    EntryQuery, ErrorKind, Expect, Interval, Label, Leaf, LogReader, Message, NewBody, NewEntry, NewThread, OpenCalls,
    Origin, Page, PageRequest, ParentRef, Progress, Provenance, PruneRequest, Pruned, Result, RewindTo, Role, Run,
    RunFilter, RunId, RunQuery, RunReader, Snapshot, TenantId, Thread, ThreadAdmin, ThreadContext, ThreadFilter,
    ThreadId, ThreadPatch, ThreadQuery, ThreadReader, ThreadRunStore, TokenCounts, UsageRecord, Visibility,
};

use super::{call, commit, id, memory, new_commit, result, thread};
use crate::{ContextCache, ContextSource, Stores};

/// A bound on bytes that no test here reaches, so that the cache forgets nothing.
const LARGE_BOUND: usize = 64 << 20;

async fn expect_source(cache: &ContextCache, request: &ContextRequest, source: ContextSource) {
    let found = cache.load(&thread(), request).await.unwrap();
    assert_eq!(found.source, source, "{request:?}");
}

/// Checks that the answer of the cache is the answer of the store.
async fn expect_equal(cache: &ContextCache, commits: &dyn CommitCoordinator, request: &ContextRequest) {
    let (cached, stored) =
        (cache.load(&thread(), request).await, commits.threads().load_context(&thread(), request.clone()).await);
    match (cached, stored) {
        (Ok(cached), Ok(stored)) => {
            let source = cached.source;
            assert_eq!((&*cached.context, &cached.at), (&stored.context, &stored.at), "{request:?}, {source:?}");
            assert_eq!(cached.thread, stored.thread);
        }
        (Err(cached), Err(stored)) => {
            assert_eq!((cached.kind(), cached.to_string()), (stored.kind(), stored.to_string()));
        }
        (cached, stored) => panic!("{request:?}: {cached:?} and {stored:?}"),
    }
}

#[tokio::test]
async fn a_context_is_computed_once_and_then_extended() {
    let (_stores, commits) = memory().await;
    let cache = ContextCache::new(commits.threads(), LARGE_BOUND);
    let head = ContextRequest::head();
    commit(&*commits, vec![("1", Message::user("a")), ("2", call("x"))]).await;
    expect_source(&cache, &head, ContextSource::Store).await;
    // An open call can be treated in each way, and a budget can be applied, without reading anything again.
    for request in [
        head.clone(),
        head.clone().with_open_calls(OpenCalls::Keep),
        head.clone().with_open_calls(OpenCalls::Drop),
        head.clone().within(Budget::Messages(1)),
        head.clone().within(Budget::Tokens { max: 3, counter: Arc::new(|_| 2) }),
    ] {
        expect_source(&cache, &request, ContextSource::Kept).await;
        expect_equal(&cache, &*commits, &request).await;
    }
    commit(&*commits, vec![("3", result("x", "ok")), ("4", Message::assistant("b"))]).await;
    expect_source(&cache, &head, ContextSource::Extended).await;
    expect_source(&cache, &head, ContextSource::Kept).await;
    expect_equal(&cache, &*commits, &head).await;
    assert_eq!(cache.counts().contexts, 1, "the longer context replaced the shorter one");
}

#[tokio::test]
async fn after_a_compaction_the_context_is_loaded_once_and_then_extended() {
    let (_stores, commits) = memory().await;
    let cache = ContextCache::new(commits.threads(), LARGE_BOUND);
    let head = ContextRequest::head();
    commit(&*commits, vec![("1", Message::user("a")), ("2", Message::assistant("b"))]).await;
    expect_source(&cache, &head, ContextSource::Store).await;
    let compaction = NewEntry::new(compaction("1", "1", "short")).with_id(id("3"));
    let _receipt = commits.commit(new_commit().entry(compaction)).await.unwrap();
    commit(&*commits, vec![("4", Message::user("c"))]).await;
    expect_source(&cache, &head, ContextSource::Store).await;
    expect_equal(&cache, &*commits, &head).await;
    commit(&*commits, vec![("5", Message::user("d"))]).await;
    expect_source(&cache, &head, ContextSource::Extended).await;
    expect_equal(&cache, &*commits, &head).await;
}

#[tokio::test]
async fn a_kept_context_of_a_deleted_thread_is_never_returned() {
    let (_stores, commits) = memory().await;
    let cache = ContextCache::new(commits.threads(), LARGE_BOUND);
    for text in ["old", "new"] {
        let unknown = cache.load(&thread(), &ContextRequest::head()).await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
        commits.threads().create_thread(NewThread::new(thread())).await.unwrap();
        expect_equal(&cache, &*commits, &ContextRequest::head()).await;
        commit(&*commits, vec![("1", Message::user(text))]).await;
        for request in [ContextRequest::head(), ContextRequest::at(id("1")), ContextRequest::at(id("unknown"))] {
            expect_equal(&cache, &*commits, &request).await;
        }
        commits.threads().delete_thread(&thread(), DeleteRequest::default()).await.unwrap();
    }
    assert_eq!(cache.counts().contexts, 2);
    cache.forget(&thread());
    assert_eq!((cache.counts().contexts, cache.counts().bytes), (0, 0));
}

#[tokio::test]
async fn the_least_recently_used_contexts_are_forgotten_first() {
    let (_stores, commits) = memory().await;
    let large =
        |name: &str| NewEntry::new(Message::user("x".repeat(10_000))).with_id(id(name)).with_parent(ParentRef::Root);
    let _receipt = commits.commit(new_commit().entries(["1", "2", "3", "4"].map(large))).await.unwrap();
    let cache = ContextCache::new(commits.threads(), 35_000);
    let request_at = |name: &str| ContextRequest::at(id(name));
    for name in ["1", "2", "3"] {
        expect_source(&cache, &request_at(name), ContextSource::Store).await;
    }
    expect_source(&cache, &request_at("1"), ContextSource::Kept).await;
    expect_source(&cache, &request_at("4"), ContextSource::Store).await;
    expect_source(&cache, &request_at("1"), ContextSource::Kept).await;
    expect_source(&cache, &request_at("4"), ContextSource::Kept).await;
    assert!(cache.counts().bytes <= 35_000 && cache.counts().contexts == 3, "{cache:?}");
    expect_source(&cache, &request_at("2"), ContextSource::Store).await;
    // A context that is larger than the bound is returned, but not kept.
    let tiny_cache = ContextCache::new(commits.threads(), 9_000);
    expect_source(&tiny_cache, &request_at("1"), ContextSource::Store).await;
    expect_source(&tiny_cache, &request_at("1"), ContextSource::Store).await;
    assert_eq!((tiny_cache.counts().contexts, tiny_cache.counts().bytes), (0, 0));
}

/// A generator of random numbers (splitmix64).
struct Random {
    state: u64,
}

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

fn compaction(from: &str, to: &str, text: &str) -> NewBody {
    let mut compaction = Compaction::default();
    compaction.covers = Some(Interval::new(id(from), id(to)));
    compaction.summary = vec![Block::text(text)];
    compaction.into()
}

/// A thread with a random history. Calls, results and ids of messages come from small sets, so that they repeat.
struct RandomHistory {
    random: Random,
    commits: Arc<dyn CommitCoordinator>,
    /// The entries of the current thread, without side entries.
    entries: Vec<EntryId>,
    side_entries: Vec<EntryId>,
    length: usize,
}

impl RandomHistory {
    fn message(&mut self) -> Message {
        let call_id = *self.random.pick(&["v", "w", "x"]);
        let text = format!("text {}", self.random.below(1_000));
        match self.random.below(12) {
            0..=2 => Message::user(text),
            3..=5 => Message::assistant(text),
            6 => call(call_id),
            7 | 8 => result(call_id, &text),
            9 => Message::user(text).with_visibility(Visibility::Aside),
            10 => Message::new(Role::System, vec![Block::text(text)]),
            _ => {
                let mut provenance = Provenance::default();
                provenance.origin = Some(Origin::new("p").with_model(*self.random.pick(&["m", "n"])));
                provenance.message_id = Some(self.random.pick(&["one", "two"]).to_string());
                Message::assistant(text).with_provenance(provenance)
            }
        }
    }

    fn body(&mut self) -> NewBody {
        let any_entry = |random: &mut Random, entries: &[EntryId]| random.pick(entries).clone();
        match self.random.below(30) {
            0 if !self.entries.is_empty() => {
                let (from, to) =
                    (any_entry(&mut self.random, &self.entries), any_entry(&mut self.random, &self.entries));
                compaction(from.as_str(), to.as_str(), "summary")
            }
            1 if !self.entries.is_empty() => RewindTo::Entry(any_entry(&mut self.random, &self.entries)).into(),
            2 if !self.entries.is_empty() => {
                Label::new(any_entry(&mut self.random, &self.entries), Some("name".into())).into()
            }
            3 => {
                let mut usage = UsageRecord::default();
                usage.spent = Some(TokenCounts::new(1, 1));
                usage.context_size = Some(9);
                usage.into()
            }
            4 => NewBody::Checkpoint { number: None, label: None },
            5 => NewBody::Compaction(Compaction::default()),
            _ => self.message().into(),
        }
    }

    async fn step(&mut self) {
        if self.random.below(60) == 0 && self.length > 0 {
            self.commits.threads().delete_thread(&thread(), DeleteRequest::default()).await.unwrap();
            self.commits.threads().create_thread(NewThread::new(thread())).await.unwrap();
            (self.entries, self.side_entries, self.length) = (Vec::new(), Vec::new(), 0);
        }
        // The ids occur again after a deletion, with other bodies.
        let name = id(&format!("e{}", self.length));
        let mut entry = NewEntry::new(self.body()).with_id(name.clone());
        if self.random.below(15) == 0 && !self.entries.is_empty() {
            entry = entry.below(self.random.pick(&self.entries).clone());
        }
        let is_side = entry.is_side();
        // A random compaction is often refused. Then nothing changes.
        if self.commits.commit(new_commit().entry(entry)).await.is_ok() {
            self.length += 1;
            if is_side { &mut self.side_entries } else { &mut self.entries }.push(name);
        }
    }

    fn request(&mut self) -> ContextRequest {
        let request = match self.random.below(9) {
            0 if !self.side_entries.is_empty() => ContextRequest::at(self.random.pick(&self.side_entries).clone()),
            1..=3 if !self.entries.is_empty() => ContextRequest::at(self.random.pick(&self.entries).clone()),
            _ => ContextRequest::head(),
        };
        let open_calls = *self.random.pick(&[OpenCalls::Answer, OpenCalls::Answer, OpenCalls::Keep, OpenCalls::Drop]);
        let request = request.with_open_calls(open_calls);
        match self.random.below(6) {
            0 => request.within(Budget::Messages(self.random.below(9) as u64)),
            1 => request.within(Budget::Tokens { max: 9, counter: Arc::new(|message| message.blocks.len() as u64) }),
            _ => request,
        }
    }
}

#[tokio::test]
async fn a_kept_context_equals_a_new_one_for_random_histories() {
    let mut source_counts = [0, 0, 0];
    for seed in 0..60 {
        let (_stores, commits) = memory().await;
        commits.threads().create_thread(NewThread::new(thread())).await.unwrap();
        // With the small bounds the cache has to forget contexts.
        let bound = [LARGE_BOUND, 20_000, 6_000][seed % 3];
        let cache = ContextCache::new(commits.threads(), bound);
        let random = Random { state: seed as u64 };
        let (entries, side_entries) = (Vec::new(), Vec::new());
        let mut history = RandomHistory { random, commits: Arc::clone(&commits), entries, side_entries, length: 0 };
        for _ in 0..120 {
            history.step().await;
            for _ in 0..history.random.below(3) {
                let request = history.request();
                expect_equal(&cache, &*commits, &request).await;
                assert!(cache.counts().bytes <= bound, "{cache:?}");
            }
        }
        let counts = cache.counts();
        for (sum, count) in source_counts.iter_mut().zip([counts.kept, counts.extended, counts.loaded]) {
            *sum += count;
        }
    }
    assert!(source_counts.iter().all(|count| *count > 300), "each way of answering is tested: {source_counts:?}");
}

/// A store that counts the contexts and entries that are read from it.
struct CountingThreads {
    inner: Arc<dyn ThreadRunStore>,
    contexts: AtomicUsize,
    entries: AtomicUsize,
}

/// Implements contracts whose methods only pass each call on.
macro_rules! pass_on {
    ($($contract:ident { $(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)* })*) => {$(
        #[async_trait]
        impl $contract for CountingThreads {
            $(async fn $name(&self, $($argument: $type),*) -> Result<$result> {
                self.inner.$name($($argument),*).await
            })*
        }
    )*};
}

pass_on! {
    ThreadReader {
        fn load_thread(id: &ThreadId) -> Option<Thread>;
        fn list_threads(query: ThreadQuery) -> Page<Thread>;
        fn count_threads(filter: &ThreadFilter) -> u64;
        fn validate_parent(thread: &ThreadId, parent: &ThreadId) -> ();
    }
    RunReader {
        fn load_run(id: &RunId) -> Option<Run>;
        fn list_runs(query: RunQuery) -> Page<Run>;
        fn count_runs(filter: &RunFilter) -> u64;
    }
    ThreadAdmin {
        fn create_thread(thread: NewThread) -> Thread;
        fn update_thread(id: &ThreadId, patch: ThreadPatch, expect: Expect) -> Thread;
        fn delete_thread(id: &ThreadId, request: DeleteRequest) -> Deletion;
        fn prune_threads(request: PruneRequest) -> Pruned;
        fn purge_deleted(progress: &dyn Progress) -> u64;
        fn reset_fence(id: &ThreadId) -> ();
    }
}

#[async_trait]
impl LogReader for CountingThreads {
    async fn load_entry(&self, thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>> {
        self.entries.fetch_add(1, Ordering::SeqCst);
        self.inner.load_entry(thread, entry).await
    }

    async fn list_entries(&self, thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>> {
        let page = self.inner.list_entries(thread, query).await?;
        self.entries.fetch_add(page.items.len(), Ordering::SeqCst);
        Ok(page)
    }

    async fn list_leaves(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Leaf>> {
        self.inner.list_leaves(thread, page).await
    }

    async fn list_branch_points(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BranchPoint>> {
        self.inner.list_branch_points(thread, page).await
    }

    async fn list_snapshots(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Snapshot>> {
        self.inner.list_snapshots(thread, page).await
    }

    async fn load_context(&self, thread: &ThreadId, request: ContextRequest) -> Result<ThreadContext> {
        let found = self.inner.load_context(thread, request).await?;
        self.contexts.fetch_add(1, Ordering::SeqCst);
        self.entries.fetch_add(found.context.messages.len(), Ordering::SeqCst);
        Ok(found)
    }
}

/// An agent loads its context after each of 200 steps. Each time, the cache reads a few entries, and not the whole
/// history.
#[tokio::test]
async fn an_agent_that_continues_reads_only_new_entries() {
    let folder = tempfile::tempdir().unwrap();
    let stores: Stores = crate::open(&format!("file:{}", folder.path().join("data").display())).await.unwrap();
    let commits = stores.commits(&TenantId::default_tenant()).unwrap();
    let counting_threads = Arc::new(CountingThreads {
        inner: commits.threads(),
        contexts: AtomicUsize::new(0),
        entries: AtomicUsize::new(0),
    });
    let cache = ContextCache::new(Arc::<CountingThreads>::clone(&counting_threads) as _, LARGE_BOUND);
    let steps = 200;
    for step in 0..steps {
        let name = |part: &str| format!("{part}{step}");
        let (call_entry, result_entry) = (name("call"), name("result"));
        commit(&*commits, vec![(&call_entry, call(&call_entry)), (&result_entry, result(&call_entry, "ok"))]).await;
        expect_equal(&cache, &*commits, &ContextRequest::head()).await;
    }
    let (contexts, entries) =
        (counting_threads.contexts.load(Ordering::SeqCst), counting_threads.entries.load(Ordering::SeqCst));
    assert_eq!(contexts, 1);
    // Without the cache, the number of reads would be the sum of the lengths of all contexts.
    let reads_without_cache: usize = (1..=steps).map(|step| 2 * step).sum();
    assert!(entries * 10 < reads_without_cache, "{entries} entries were read, {reads_without_cache} without the cache");
    stores.close().await.unwrap();
}
