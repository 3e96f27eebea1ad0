//! Keeps computed contexts in memory, within a bound on their bytes (SE-5).

mod kept_contexts;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use store_core::{
    BodyKind, Context, ContextRequest, Direction, Entry, EntryId, EntryQuery, Error, OpenCalls, PageRequest, Result,
    Thread, ThreadId, ThreadRunStore, context::extend,
};

use self::kept_contexts::{
    ContextForm, ContextKey, KeptContext, KeptContexts, ThreadKey, bytes_of_context, bytes_of_messages, has_open_calls,
};

/// The number of entries that each step of a search reads, from the requested entry backwards, to find an entry whose
/// kept context can be extended. The first step is small, because the next request is usually about one of the next
/// entries.
const SEARCHED_ENTRIES: [u32; 3] = [4, 16, 236];

/// Keeps the contexts of one tenant's threads, so that they are not computed again (SE-5).
///
/// The context of an entry never changes (CX-11). A kept context therefore answers each later request for its entry,
/// and the context of an entry further down the path is made from it and the entries in between. The bound on
/// bytes counts the messages as JSON, and the structures that hold them.
///
/// Stores of this workspace do not keep contexts. The cache saves most where entries are read from files or from a
/// server, and nothing with `memory:`.
///
/// ```
/// use agentstore::{
///     Commit, ContextCache, ContextRequest, ContextSource, Expect, Guard, Message, NewEntry, TenantId, ThreadId,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentstore::Result<()> {
/// let stores = agentstore::open("memory:").await?;
/// let commits = stores.commits(&TenantId::default_tenant())?;
/// let thread = ThreadId::new("t-1")?;
/// let question = Commit::new(thread.clone()).expecting(Expect::Absent).entry(NewEntry::new(Message::user("Hi.")));
/// let receipt = commits.commit(question).await?;
///
/// let cache = ContextCache::new(commits.threads(), 64 << 20);
/// assert_eq!(cache.load(&thread, &ContextRequest::head()).await?.source, ContextSource::Store);
/// assert_eq!(cache.load(&thread, &ContextRequest::head()).await?.source, ContextSource::Kept);
///
/// // The kept context is extended by the new entry.
/// commits.commit(Guard::from(&receipt).commit().entry(NewEntry::new(Message::assistant("Hello.")))).await?;
/// let next = cache.load(&thread, &ContextRequest::head()).await?;
/// assert_eq!((next.source, next.context.messages.len()), (ContextSource::Extended, 2));
/// # stores.close().await
/// # }
/// ```
pub struct ContextCache {
    threads: Arc<dyn ThreadRunStore>,
    kept: Mutex<KeptContexts>,
    /// How many contexts were returned unchanged, how many were extended, and how many the store computed.
    answers: [AtomicU64; 3],
}

/// A context from a [`ContextCache`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CachedContext {
    /// The thread at the time when the context was looked for.
    pub thread: Thread,
    /// The entry whose context this is; absent if the context is empty.
    pub at: Option<EntryId>,
    /// The context.
    pub context: Arc<Context>,
    /// How the context was found.
    pub source: ContextSource,
}

/// How a [`ContextCache`] found a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContextSource {
    /// It was kept. Only the record of the thread was read.
    Kept,
    /// The context of an earlier entry of the path was kept. The entries after that entry were read, and sometimes
    /// entries before it: at most 256 in all.
    Extended,
    /// The store computed it.
    Store,
}

/// What a [`ContextCache`] keeps, and how it found the requested contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CacheCounts {
    /// The number of kept contexts.
    pub contexts: usize,
    /// The bytes of the kept contexts. They are never more than the bound.
    pub bytes: usize,
    /// How often a kept context was returned unchanged.
    pub kept: u64,
    /// How often a kept context was extended.
    pub extended: u64,
    /// How often the store computed a context.
    pub loaded: u64,
}

impl ContextCache {
    /// Makes a cache for the threads of one tenant that keeps at most `max_bytes` bytes.
    #[must_use]
    pub fn new(threads: Arc<dyn ThreadRunStore>, max_bytes: usize) -> Self {
        Self { threads, kept: Mutex::new(KeptContexts::new(max_bytes)), answers: Default::default() }
    }

    /// Returns the context that [`LogReader::load_context`](store_core::LogReader::load_context) returns for the same
    /// request. The answer lacks the state, the runs and the size of the context, because these can change while the
    /// entry stays the same.
    ///
    /// If the request has a budget in tokens, its counter is called again for each answer.
    ///
    /// # Errors
    /// `NotFound` for an unknown thread or entry; any error of the reads.
    pub async fn load(&self, thread: &ThreadId, request: &ContextRequest) -> Result<CachedContext> {
        let found = self.threads.load_thread(thread).await?.ok_or_else(|| Error::not_found("thread", thread))?;
        let Some(at) = request.at.clone().or_else(|| found.head.clone()) else {
            return Ok(self.answer(found, None, Arc::default(), ContextSource::Kept));
        };
        let key = ThreadKey::of(&found);
        if let Some(context) = self.find_kept(&key, &at, request) {
            return Ok(self.answer(found, Some(at), context, ContextSource::Kept));
        }
        let has_base = self.lock().kinds_of_thread(&key).has_base;
        if has_base && let Some(context) = self.extend_kept(&key, &at, request).await? {
            return Ok(self.answer(found, Some(at), context, ContextSource::Extended));
        }
        self.load_from_store(&key, request).await
    }

    /// Forgets the contexts of a thread, for example after the thread was deleted. The contexts of a deleted thread are
    /// never returned again, but they take up space until other contexts need the space.
    pub fn forget(&self, thread: &ThreadId) {
        self.lock().forget(thread);
    }

    /// Returns what is kept, and how contexts were found so far.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        let [kept, extended, loaded] = self.answers.each_ref().map(|count| count.load(Ordering::Relaxed));
        let contexts = self.lock();
        CacheCounts { contexts: contexts.len(), bytes: contexts.bytes(), kept, extended, loaded }
    }

    fn lock(&self) -> MutexGuard<'_, KeptContexts> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts how a context was found, and returns the context.
    fn answer(
        &self,
        thread: Thread,
        at: Option<EntryId>,
        context: Arc<Context>,
        source: ContextSource,
    ) -> CachedContext {
        let [kept, extended, loaded] = &self.answers;
        let count = match source {
            ContextSource::Kept => kept,
            ContextSource::Extended => extended,
            ContextSource::Store => loaded,
        };
        count.fetch_add(1, Ordering::Relaxed);
        CachedContext { thread, at, context, source }
    }

    /// Returns the requested context of an entry, if one of the kept forms of this context is enough to make it.
    fn find_kept(&self, thread: &ThreadKey, at: &EntryId, request: &ContextRequest) -> Option<Arc<Context>> {
        let plain = self.lock().get(&ContextKey::new(thread, at, ContextForm::Plain));
        if let Some(context) = plain.and_then(|plain| requested_form(&plain.context, request)) {
            return Some(context);
        }
        let form = ContextForm::from(request.open_calls);
        let key_of_form =
            (form != ContextForm::Plain && request.budget.is_none()).then(|| ContextKey::new(thread, at, form))?;
        self.lock().get(&key_of_form).map(|kept| kept.context)
    }

    /// Makes the context of an entry from the kept context of the nearest earlier entry of its path, or returns none.
    async fn extend_kept(
        &self,
        thread: &ThreadKey,
        at: &EntryId,
        request: &ContextRequest,
    ) -> Result<Option<Arc<Context>>> {
        let Some((base_id, base, later_entries)) = self.find_base(thread, at).await? else { return Ok(None) };
        let plain_request = ContextRequest::head().with_open_calls(OpenCalls::Keep);
        let Some(plain) = extend(&base.context, &later_entries, &plain_request) else { return Ok(None) };
        // If the thread was deleted and created again in the meantime, the entries are not those of the kept context.
        let current = self.threads.load_thread(&thread.id).await?;
        if current.is_none_or(|current| ThreadKey::of(&current) != *thread) {
            return Ok(None);
        }
        // A side entry has the context of its parent. That context stays kept, because the next entries will be below
        // the parent.
        if later_entries.iter().all(|entry| entry.side) {
            return Ok(requested_form(&base.context, request));
        }
        if !plain.repairs.is_empty() {
            let context = extend(&base.context, &later_entries, request);
            if let Some(context) = &context {
                self.keep_form(thread, at, request, context);
            }
            return Ok(context.map(Arc::new));
        }
        // Without repairs, the longer context begins with the messages of the base, and replaces the base.
        let added = plain.messages.get(base.context.messages.len()..).unwrap_or_default();
        let (bytes, plain) = (base.bytes + bytes_of_messages(added), Arc::new(plain));
        let mut kept = self.lock();
        kept.remove(&ContextKey::new(thread, &base_id, ContextForm::Plain));
        kept.insert(ContextKey::new(thread, at, ContextForm::Plain), Arc::clone(&plain), bytes);
        drop(kept);
        Ok(requested_form(&plain, request))
    }

    /// Searches the path of `at` backwards for an entry whose kept context can be extended. Returns the entry, its
    /// context, and the entries after it up to `at`.
    async fn find_base(
        &self,
        thread: &ThreadKey,
        at: &EntryId,
    ) -> Result<Option<(EntryId, KeptContext, Vec<Arc<Entry>>)>> {
        let mut later_entries: Vec<Arc<Entry>> = Vec::new();
        for limit in SEARCHED_ENTRIES {
            let mut query = EntryQuery::path_of(at.clone()).with_direction(Direction::Backward);
            if let Some(last) = later_entries.last() {
                query = query.after_entry(last);
            }
            let page = self.threads.list_entries(&thread.id, query.with_page(PageRequest::first(limit))).await?;
            for entry in page.items {
                let kept = self.lock().get(&ContextKey::new(thread, &entry.id, ContextForm::Plain));
                if let Some(base) = kept.filter(|kept| kept.context.repairs.is_empty()) {
                    later_entries.reverse();
                    return Ok(Some((entry.id.clone(), base, later_entries)));
                }
                if entry.kind() == BodyKind::Compaction {
                    return Ok(None);
                }
                later_entries.push(entry);
            }
            if page.next.is_none() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Lets the store compute the context, and keeps it.
    async fn load_from_store(&self, thread: &ThreadKey, request: &ContextRequest) -> Result<CachedContext> {
        // If the last context needed repairs, the next one will most likely need them, too. From a plain context
        // with repairs no other form can be made. So in this case the requested form is loaded at once.
        if !self.lock().kinds_of_thread(thread).has_repairs {
            let mut plain_request = ContextRequest::head().with_open_calls(OpenCalls::Keep);
            plain_request.at.clone_from(&request.at);
            let found = self.threads.load_context(&thread.id, plain_request).await?;
            let key = ThreadKey::of(&found.thread);
            let Some(at) = found.at else {
                return Ok(self.answer(found.thread, None, Arc::new(found.context), ContextSource::Store));
            };
            let plain = Arc::new(found.context);
            self.keep(ContextKey::new(&key, &at, ContextForm::Plain), &plain);
            if let Some(context) = requested_form(&plain, request) {
                return Ok(self.answer(found.thread, Some(at), context, ContextSource::Store));
            }
        }
        let found = self.threads.load_context(&thread.id, request.clone()).await?;
        let key = ThreadKey::of(&found.thread);
        if let Some(at) = &found.at {
            self.keep_form(&key, at, request, &found.context);
        }
        Ok(self.answer(found.thread, found.at, Arc::new(found.context), ContextSource::Store))
    }

    /// Keeps a context that was made for this request, unless a budget left something out.
    fn keep_form(&self, thread: &ThreadKey, at: &EntryId, request: &ContextRequest, context: &Context) {
        if request.budget.is_none() {
            // Without repairs there are no open calls, so all forms are equal.
            let form = if context.repairs.is_empty() { ContextForm::Plain } else { request.open_calls.into() };
            self.keep(ContextKey::new(thread, at, form), &Arc::new(context.clone()));
        }
    }

    fn keep(&self, key: ContextKey, context: &Arc<Context>) {
        let (entry, _) = &key.entry_and_form;
        let bytes = bytes_of_context(context, entry);
        self.lock().insert(key, Arc::clone(context), bytes);
    }
}

/// Returns the requested form of a plain context, if it can be made from that context alone.
fn requested_form(plain: &Arc<Context>, request: &ContextRequest) -> Option<Arc<Context>> {
    let is_unbounded = request.budget.is_none();
    if is_unbounded && request.open_calls == OpenCalls::Keep {
        return Some(Arc::clone(plain));
    }
    if is_unbounded && plain.repairs.is_empty() && !has_open_calls(plain) {
        return Some(Arc::clone(plain));
    }
    extend(plain, &[], request).map(Arc::new)
}

impl fmt::Debug for ContextCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextCache").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
