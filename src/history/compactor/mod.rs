//! Replaces the older part of a context by a summary, when the context no longer fits (CX-15, CX-18, CX-20 to CX-22).

mod plan;
mod split;
mod summary;
mod tokens;

use std::{fmt, sync::Arc};

use store_core::{
    CommitCoordinator, CommitKey, ContextMessage, ContextRequest, ErrorKind, IdSource, Interval, Message, Receipt,
    Result, ThreadContext, ThreadId, UuidSource, Version,
    context::{DEFAULT_KEPT_MESSAGES, DEFAULT_RESERVED_TOKENS, is_compaction_due},
};

use self::tokens::TokenCounter;
pub use self::{
    plan::{CompactionPlan, PlannedCompaction},
    summary::{Summary, SummaryError},
    tokens::{ContextTokens, estimate_tokens},
};

/// The maximum number of commits that are tried for one summary. A commit is refused if another writer was faster.
const MAX_WRITES: u32 = 10;

/// Compacts threads: lets the caller summarise the older part of a context, and writes the summary (CX-20).
///
/// The summary is one more entry of the log, and nothing is deleted. The context contains the summary in place of the
/// messages that it covers. The contexts of earlier entries do not change.
///
/// ```
/// use std::sync::Arc;
///
/// use agentstore::{
///     Commit, CompactionOutcome, Compactor, ContextRequest, Expect, Message, NewEntry, PlannedCompaction,
///     SummaryError, TenantId, ThreadId,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentstore::Result<()> {
/// let stores = agentstore::open("memory:").await?;
/// let commits = stores.commits(&TenantId::default_tenant())?;
/// let thread = ThreadId::new("t-1")?;
/// let messages = ["Where is Lyon?", "In France.", "And Turin?", "In Italy."];
/// let entries = messages.iter().zip(["user", "assistant", "user", "assistant"]).map(|(text, role)| {
///     NewEntry::new(if role == "user" { Message::user(*text) } else { Message::assistant(*text) })
/// });
/// commits.commit(Commit::new(thread.clone()).expecting(Expect::Absent).entries(entries)).await?;
///
/// // A small window, so that this thread is already too long for it.
/// let compactor = Compactor::new(Arc::clone(&commits), 100).with_reserved_tokens(80);
/// let outcome = compactor
///     .compact_if_due(&thread, async |planned: Arc<PlannedCompaction>| {
///         // Send `planned.request()` to a model here, and return its reply.
///         assert_eq!(planned.older().len(), 2);
///         Ok::<_, SummaryError>("The user asked where Lyon is: in France.")
///     })
///     .await?;
/// assert!(matches!(outcome, CompactionOutcome::Compacted(_)));
/// let found = commits.threads().load_context(&thread, ContextRequest::head()).await?;
/// assert_eq!(found.context.messages.len(), 3);
/// # stores.close().await
/// # }
/// ```
#[derive(Clone)]
pub struct Compactor {
    commits: Arc<dyn CommitCoordinator>,
    window: u64,
    reserved_tokens: u64,
    kept_count: usize,
    counter: TokenCounter,
}

impl Compactor {
    /// Makes a compactor for a model with a window of this many tokens. It reserves [`DEFAULT_RESERVED_TOKENS`], keeps
    /// [`DEFAULT_KEPT_MESSAGES`] and counts with [`estimate_tokens`].
    #[must_use]
    pub fn new(commits: Arc<dyn CommitCoordinator>, window: u64) -> Self {
        let (reserved_tokens, kept_count) = (DEFAULT_RESERVED_TOKENS, DEFAULT_KEPT_MESSAGES);
        Self { commits, window, reserved_tokens, kept_count, counter: Arc::new(estimate_tokens) }
    }

    /// Sets the number of tokens that are kept free for the answer of the model.
    #[must_use]
    pub const fn with_reserved_tokens(mut self, tokens: u64) -> Self {
        self.reserved_tokens = tokens;
        self
    }

    /// Sets how many of the newest user and assistant messages are never summarised. With 0 nothing is ever compacted.
    #[must_use]
    pub const fn with_kept_messages(mut self, messages: usize) -> Self {
        self.kept_count = messages;
        self
    }

    /// Sets the function that counts the tokens of a message.
    ///
    /// If a provider reported a larger size for the context (EN-29), this size counts.
    #[must_use]
    pub fn with_token_counter(mut self, counter: impl Fn(&Message) -> u64 + Send + Sync + 'static) -> Self {
        self.counter = Arc::new(counter);
        self
    }

    /// Returns the number of tokens of the thread's context.
    ///
    /// # Errors
    /// `NotFound` for an unknown thread; any error of the read.
    pub async fn measure(&self, thread: &ThreadId) -> Result<ContextTokens> {
        Ok(ContextTokens::of(&self.load(thread).await?, &self.counter))
    }

    /// Returns the number of tokens that the counter counts for messages, such as [`PlannedCompaction::older`].
    #[must_use]
    pub fn count_tokens(&self, messages: &[ContextMessage]) -> u64 {
        tokens::count(messages, &self.counter)
    }

    /// Plans a compaction of the thread if its context and the reserved tokens reach the window.
    ///
    /// # Errors
    /// `NotFound` for an unknown thread; any error of the reads.
    pub async fn plan_if_due(&self, thread: &ThreadId) -> Result<CompactionPlan> {
        let found = self.load(thread).await?;
        let tokens = ContextTokens::of(&found, &self.counter);
        if is_compaction_due(tokens.size(), self.reserved_tokens, self.window) {
            self.plan(found, tokens).await
        } else {
            Ok(CompactionPlan::NotDue(tokens))
        }
    }

    /// Plans a compaction of the thread, whatever the size of its context.
    ///
    /// # Errors
    /// As [`plan_if_due`](Self::plan_if_due).
    pub async fn plan_now(&self, thread: &ThreadId) -> Result<CompactionPlan> {
        let found = self.load(thread).await?;
        let tokens = ContextTokens::of(&found, &self.counter);
        self.plan(found, tokens).await
    }

    /// Compacts the thread if its context and the reserved tokens reach the window. `summarize` makes the summary of
    /// [`PlannedCompaction::older`].
    ///
    /// # Guarantees
    /// - The newest user and assistant messages are not summarised, and no call is separated from its result (CX-20).
    /// - Other callers can write to the thread while the summary is made. The summary is written if the context still
    ///   begins with the messages that it summarises. Otherwise, and if the summary failed or is blank, nothing
    ///   changes, and the outcome says so (CX-21).
    /// - An earlier summary is one of the messages to be summarised (CX-22).
    ///
    /// # Errors
    /// As [`plan_if_due`](Self::plan_if_due) and [`write`](Self::write). An error of `summarize` is not returned as an
    /// error, but as the outcome [`Failed`](CompactionOutcome::Failed).
    pub async fn compact_if_due<F, R, S, E>(&self, thread: &ThreadId, summarize: F) -> Result<CompactionOutcome>
    where
        F: FnOnce(Arc<PlannedCompaction>) -> R,
        R: Future<Output = Result<S, E>>,
        S: Into<Summary>,
        E: Into<SummaryError>,
    {
        let plan = self.plan_if_due(thread).await?;
        self.carry_out(plan, summarize).await
    }

    /// Compacts the thread, whatever the size of its context. Everything else is as in
    /// [`compact_if_due`](Self::compact_if_due).
    ///
    /// # Errors
    /// As [`compact_if_due`](Self::compact_if_due).
    pub async fn compact_now<F, R, S, E>(&self, thread: &ThreadId, summarize: F) -> Result<CompactionOutcome>
    where
        F: FnOnce(Arc<PlannedCompaction>) -> R,
        R: Future<Output = Result<S, E>>,
        S: Into<Summary>,
        E: Into<SummaryError>,
    {
        let plan = self.plan_now(thread).await?;
        self.carry_out(plan, summarize).await
    }

    async fn carry_out<F, R, S, E>(&self, plan: CompactionPlan, summarize: F) -> Result<CompactionOutcome>
    where
        F: FnOnce(Arc<PlannedCompaction>) -> R,
        R: Future<Output = Result<S, E>>,
        S: Into<Summary>,
        E: Into<SummaryError>,
    {
        let planned = match plan {
            CompactionPlan::NotDue(tokens) => return Ok(CompactionOutcome::NotDue(tokens)),
            CompactionPlan::NothingToCompact(tokens) => return Ok(CompactionOutcome::NothingToCompact(tokens)),
            CompactionPlan::Ready(planned) => Arc::new(*planned),
        };
        match summarize(Arc::clone(&planned)).await {
            Ok(summary) => self.write(&planned, summary.into()).await,
            Err(error) => Ok(CompactionOutcome::Failed(error.into())),
        }
    }

    /// Writes the summary of a planned compaction, in one commit. If the outcome of a call is unknown, the caller can
    /// repeat it with the same arguments: the summary is written once.
    ///
    /// # Errors
    /// `Conflict` if other writers were faster ten times; otherwise as
    /// [`CommitCoordinator::commit`](store_core::CommitCoordinator::commit).
    pub async fn write(&self, planned: &PlannedCompaction, summary: Summary) -> Result<CompactionOutcome> {
        if summary.is_blank() {
            return Ok(CompactionOutcome::EmptySummary);
        }
        let mut version = planned.thread().version;
        let mut writes = 0;
        loop {
            writes += 1;
            match self.commits.commit(planned.commit(version, summary.clone())).await {
                Ok(receipt) => {
                    let (interval, summarized) = (planned.interval().clone(), planned.older().len());
                    return Ok(CompactionOutcome::Compacted(Box::new(Compacted { receipt, interval, summarized })));
                }
                Err(error) if error.kind() == ErrorKind::Conflict && writes < MAX_WRITES => {
                    match self.version_if_still_valid(planned).await? {
                        Some(current) => version = current,
                        None => return Ok(CompactionOutcome::ThreadChanged),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the current version of the thread, or none if the planned compaction no longer fits.
    async fn version_if_still_valid(&self, planned: &PlannedCompaction) -> Result<Option<Version>> {
        let current = self.load(&planned.thread().id).await?;
        Ok(planned.still_fits(&current).then_some(current.thread.version))
    }

    async fn load(&self, thread: &ThreadId) -> Result<ThreadContext> {
        self.commits.threads().load_context(thread, ContextRequest::head()).await
    }

    async fn plan(&self, found: ThreadContext, tokens: ContextTokens) -> Result<CompactionPlan> {
        let boundary = split::find_boundary(&*self.commits.threads(), &found, self.kept_count).await?;
        let Some(boundary) = boundary else { return Ok(CompactionPlan::NothingToCompact(tokens)) };
        let key = CommitKey::new(format!("compaction:{}", UuidSource.next_id()))?;
        Ok(CompactionPlan::Ready(Box::new(PlannedCompaction::new(found, boundary, (self.kept_count, tokens), key))))
    }
}

impl fmt::Debug for Compactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compactor")
            .field("window", &self.window)
            .field("reserved", &self.reserved_tokens)
            .field("keep", &self.kept_count)
            .finish_non_exhaustive()
    }
}

/// How a compaction ended. Only [`Compacted`](Self::Compacted) changed the thread (CX-21).
#[derive(Debug)]
#[must_use]
pub enum CompactionOutcome {
    /// The summary was written.
    Compacted(Box<Compacted>),
    /// The context and the reserved tokens are smaller than the window. No summary was made.
    NotDue(ContextTokens),
    /// Only system messages and an earlier summary come before the messages that stay. No summary was made.
    NothingToCompact(ContextTokens),
    /// The summary could not be made.
    Failed(SummaryError),
    /// The summary is blank.
    EmptySummary,
    /// The thread changed while the summary was made, so that the summary no longer fits: another compaction covers
    /// some of its messages, a result of one of their calls was recorded, or the thread was rewound.
    ThreadChanged,
}

/// A compaction that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The receipt of the commit. Its only entry is the compaction.
    pub receipt: Receipt,
    /// The entries that the summary covers.
    pub interval: Interval,
    /// The number of messages that the summary replaces.
    pub summarized: usize,
}
