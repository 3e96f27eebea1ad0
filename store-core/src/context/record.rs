//! The context of a leaf, and the request for it.

use std::{fmt, sync::Arc};

use serde::Serialize;

use crate::{
    commit::ThreadState,
    id::EntryId,
    log::{Message, Origin},
    run::Run,
    thread::Thread,
};

/// A request for a context.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ContextRequest {
    /// The entry whose path is used; absent for the head.
    pub at: Option<EntryId>,
    /// What is done with calls that have no result.
    pub open_calls: OpenCalls,
    /// How large the context may be.
    pub budget: Option<Budget>,
}

impl ContextRequest {
    /// Requests the context of the head.
    #[must_use]
    pub fn head() -> Self {
        Self::default()
    }

    /// Requests the context of this entry.
    #[must_use]
    pub fn at(entry: EntryId) -> Self {
        Self { at: Some(entry), ..Self::default() }
    }

    /// Sets what is done with calls that have no result.
    #[must_use]
    pub const fn with_open_calls(mut self, open_calls: OpenCalls) -> Self {
        self.open_calls = open_calls;
        self
    }

    /// Sets the budget.
    #[must_use]
    pub fn within(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }
}

/// What is done with a call that has no result (CX-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OpenCalls {
    /// The call gets a result that is synthetic and marked as an error.
    #[default]
    Answer,
    /// The call stays open, for a run that waits.
    Keep,
    /// The call is left out.
    Drop,
}

/// How large a context may be (CX-19). If it is larger, whole turns are left out, the oldest first. A turn begins with
/// user messages and ends before the next user messages.
///
/// System messages, the last summary and the newest turn stay, even if they alone exceed the budget.
#[derive(Clone)]
#[non_exhaustive]
pub enum Budget {
    /// The maximum number of messages.
    Messages(u64),
    /// The maximum number of tokens, counted by a function of the caller.
    Tokens {
        /// The maximum number of tokens.
        max: u64,
        /// Counts the tokens of a message.
        counter: Arc<dyn Fn(&Message) -> u64 + Send + Sync>,
    },
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages(max) => f.debug_tuple("Messages").field(max).finish(),
            Self::Tokens { max, .. } => f.debug_struct("Tokens").field("max", max).finish_non_exhaustive(),
        }
    }
}

/// A message of a context, and the entry that it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ContextMessage {
    /// The entry that the message comes from. If several entries became one message, it is the first of them; for a
    /// summary it is the compaction, and for a synthetic result the entry with the call.
    pub entry: EntryId,
    /// Whether the message is not in the log: a summary or a synthetic result.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// The message.
    pub message: Message,
}

impl ContextMessage {
    /// Makes a message that comes from `entry`.
    #[must_use]
    pub const fn new(entry: EntryId, synthetic: bool, message: Message) -> Self {
        Self { entry, synthetic, message }
    }
}

/// The messages that are sent to a model for a leaf: those of its path, in order, after repairs (CX-1 to CX-9).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Context {
    /// The messages, in the order in which the model gets them.
    pub messages: Vec<ContextMessage>,
    /// The repairs. The log is unchanged (CX-10).
    pub repairs: Vec<Repair>,
    /// The entries that a budget left out, oldest first (CX-19).
    pub left_out: Vec<EntryId>,
    /// The provider and model that were last in effect (CX-1).
    pub origin: Option<Origin>,
}

/// A change that was made so that a model accepts the context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Repair {
    /// The entry that the repair is about.
    pub entry: EntryId,
    /// What was done.
    pub kind: RepairKind,
    /// The id of the call, if the repair is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
}

impl Repair {
    /// Makes a repair of `entry`.
    #[must_use]
    pub const fn new(entry: EntryId, kind: RepairKind, tool_use_id: Option<String>) -> Self {
        Self { entry, kind, tool_use_id }
    }
}

/// What was done to a message, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairKind {
    /// A result was left out, because its call is not in the context (CX-6).
    OrphanResultDropped,
    /// A synthetic error was added as the result of a call, because no result was recorded (CX-7).
    OpenCallAnswered,
    /// A call was left out as the caller requested, because no result was recorded (CX-7).
    OpenCallDropped,
    /// A result was moved to its call (CX-8).
    ResultMoved,
    /// A result was left out, because a later one answers the same call (CX-8).
    EarlierResultDropped,
    /// A message was left out, because it had no blocks left (CX-9).
    EmptyMessageDropped,
    /// Several entries that form one message of a provider were merged (CX-17).
    MessagesMerged,
}

/// A context with everything that a worker needs to continue, as of one moment (CX-13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ThreadContext {
    /// The thread, with its head and version.
    pub thread: Thread,
    /// The entry whose context this is; absent if the context is empty.
    pub at: Option<EntryId>,
    /// The context.
    pub context: Context,
    /// The state of the thread.
    pub state: ThreadState,
    /// The run that was written last.
    pub latest_run: Option<Run>,
    /// Runs that are not done, oldest first.
    pub open_runs: Vec<Run>,
    /// The newest context size that was recorded on the path after the last compaction (EN-29).
    pub context_size: Option<u64>,
    /// The number that the next checkpoint on this path gets (EN-33).
    pub next_checkpoint: u64,
}

impl ThreadContext {
    /// Creates the context of a thread that has no entries, runs or state. Only implementations of a store need this.
    #[must_use]
    pub fn empty(thread: Thread) -> Self {
        Self {
            thread,
            at: None,
            context: Context::default(),
            state: ThreadState::new(),
            latest_run: None,
            open_runs: Vec::new(),
            context_size: None,
            next_checkpoint: 0,
        }
    }
}
