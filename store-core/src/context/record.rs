//! What a leaf sends to a model.

use std::{fmt, sync::Arc};

use serde::Serialize;

use crate::{
    commit::ThreadState,
    id::EntryId,
    log::{Message, Origin},
    run::Run,
    thread::Thread,
};

/// Which context is wanted.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ContextRequest {
    /// The entry whose path counts; absent: the head.
    pub at: Option<EntryId>,
    /// What happens to calls that have no result.
    pub open_calls: OpenCalls,
    /// How large it may be.
    pub budget: Option<Budget>,
}

impl ContextRequest {
    /// The context of the head.
    #[must_use]
    pub fn head() -> Self {
        Self::default()
    }

    /// The context of this entry.
    #[must_use]
    pub fn at(entry: EntryId) -> Self {
        Self { at: Some(entry), ..Self::default() }
    }

    /// The same with open calls treated so.
    #[must_use]
    pub const fn with_open_calls(mut self, open_calls: OpenCalls) -> Self {
        self.open_calls = open_calls;
        self
    }

    /// The same within this budget.
    #[must_use]
    pub fn within(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }
}

/// What happens to a call that has no result (CX-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OpenCalls {
    /// It is answered by a result marked as synthetic and as an error.
    #[default]
    Answer,
    /// It stays open, for a run that waits.
    Keep,
    /// It is left out.
    Drop,
}

/// How large a context may be (CX-19): the oldest whole turns go first. System messages, the last summary and the
/// newest turn stay, even if they alone are more.
#[derive(Clone)]
#[non_exhaustive]
pub enum Budget {
    /// So many messages.
    Messages(u64),
    /// So many tokens, by the caller's counter.
    Tokens {
        /// The most tokens.
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
    /// The entry, the first if several became one message; of a summary its compaction, of a synthetic result the entry
    /// of the message with the call.
    pub entry: EntryId,
    /// Whether the log holds no such message: a summary or a synthetic result.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// The message.
    pub message: Message,
}

impl ContextMessage {
    /// The message of `entry`.
    #[must_use]
    pub const fn new(entry: EntryId, synthetic: bool, message: Message) -> Self {
        Self { entry, synthetic, message }
    }
}

/// What a leaf sends to a model: the messages of its path in order, repaired (CX-1 to CX-9).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Context {
    /// The messages, in the order in which a model gets them.
    pub messages: Vec<ContextMessage>,
    /// What was repaired; the log is unchanged (CX-10).
    pub repairs: Vec<Repair>,
    /// What a budget left out, the oldest first (CX-19).
    pub left_out: Vec<EntryId>,
    /// The provider and model last in effect (CX-1).
    pub origin: Option<Origin>,
}

/// Something that was changed so that a model accepts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Repair {
    /// The entry.
    pub entry: EntryId,
    /// What was done.
    pub kind: RepairKind,
    /// Which call, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
}

impl Repair {
    /// A repair of `entry`.
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
    /// A result was left out: its call is not in the context (CX-6).
    OrphanResultDropped,
    /// A call was answered by a synthetic error: no result was recorded (CX-7).
    OpenCallAnswered,
    /// A call was left out: no result was recorded, and the caller asked for it (CX-7).
    OpenCallDropped,
    /// A result was moved to its call (CX-8).
    ResultMoved,
    /// A result was left out: a later one answers the same call (CX-8).
    EarlierResultDropped,
    /// A message was left out: it had no blocks left (CX-9).
    EmptyMessageDropped,
    /// Entries of one provider's message became one message (CX-17).
    MessagesMerged,
}

/// A context with everything that a worker needs to go on, as of one moment (CX-13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ThreadContext {
    /// The thread, with its head and version.
    pub thread: Thread,
    /// The entry whose context this is; absent for an empty one.
    pub at: Option<EntryId>,
    /// The context.
    pub context: Context,
    /// The thread's state.
    pub state: ThreadState,
    /// The run written last.
    pub latest_run: Option<Run>,
    /// Runs that are not done, oldest first.
    pub open_runs: Vec<Run>,
    /// The newest context size of the path since its last compaction (EN-29).
    pub context_size: Option<u64>,
    /// The number that the next checkpoint of this path will have (EN-33).
    pub next_checkpoint: u64,
}

impl ThreadContext {
    /// For stores: the context of a thread without an entry, and without runs and state.
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
