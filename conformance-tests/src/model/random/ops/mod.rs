//! Operations as data, so that a history can be shortened and printed. Small numbers stand for ids, indexes and values.

mod delivery;
mod document;

use store_core::{Boundary, ChildStrategy, Direction, DispatchOrder, DispatchStatus, OpenCalls, RunPhase, ThreadOrder};

pub(super) use self::{
    delivery::{MailboxOp, OutboxFilterOp, OutboxOp, RowOp, SettleOp},
    document::{ActionOp, ChangeOp, DocumentOp, ExpectOp, KeyOp},
};

/// One step of a history.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Create {
        thread: u8,
        fields: ThreadFieldsOp,
        /// The thread is stated to be this many milliseconds old. The number 255 stands for a time in the future.
        at: Option<u16>,
    },
    Update {
        thread: u8,
        patch: ThreadPatchOp,
        guard: GuardOp,
    },
    Delete {
        thread: u8,
        children: ChildStrategy,
        guard: GuardOp,
    },
    Prune {
        idle_millis: u16,
        dry_run: bool,
    },
    ResetFence {
        thread: u8,
    },
    AppendInputs {
        thread: u8,
        inputs: Vec<InputOp>,
    },
    /// Changes the input with this `index` in the queue. With `behind`, the change expects the current revision minus
    /// this number.
    ChangeInput {
        thread: u8,
        index: u8,
        behind: Option<u8>,
        text: Option<u8>,
        boundary: Option<Boundary>,
    },
    Retract {
        thread: u8,
        index: u8,
    },
    /// Rotates the queue by `rotation` positions, and expects its current revision minus `behind`. With `mistake`, the
    /// new order is not valid.
    Reorder {
        thread: u8,
        rotation: u8,
        behind: u8,
        mistake: Option<OrderMistake>,
    },
    /// Appends events.
    AppendEvents(AppendEventsOp),
    /// Repeats an earlier append that had a key. `which` is its index among these appends.
    RepeatAppendEvents {
        which: u8,
    },
    /// Trims a scope. With `older_millis`, all events from more than this number of milliseconds ago are trimmed.
    /// Without it, all events up to one of the ten newest are trimmed. `index` is counted from the newest event.
    Trim {
        scope: ScopeOp,
        index: u8,
        older_millis: Option<u8>,
        dry_run: bool,
    },
    /// Reads the counters of a scope, and one of its ten newest events. `index` is counted from the newest event.
    ReadScope {
        scope: ScopeOp,
        filter: EventFilterOp,
        index: u8,
    },
    /// A step of the mailbox.
    Mailbox(MailboxOp),
    /// A step of the outbox.
    Outbox(OutboxOp),
    /// A step of documents or topics.
    Document(DocumentOp),
    Commit(CommitOp),
    /// A commit whose future is polled `polls` times and then dropped.
    DropCommit {
        commit: CommitOp,
        polls: u8,
    },
    /// Repeats an earlier commit that had a key. `which` is its index among these commits.
    RepeatCommit {
        which: u8,
    },
    LoadRecords {
        thread: u8,
        entry: u8,
        run: u8,
    },
    ValidateParent {
        thread: u8,
        parent: u8,
    },
    Context {
        thread: u8,
        at: Option<u8>,
        open_calls: OpenCalls,
        /// The maximum number of messages.
        budget: Option<u8>,
    },
    /// Reads a list page by page. `commit_between`, if there is one, is made after each of the first two pages.
    ReadList {
        list: ListOp,
        limit: u8,
        commit_between: Option<CommitOp>,
    },
    /// Advances store time.
    Advance {
        millis: u32,
    },
    /// Sets store time back.
    SetBack {
        millis: u16,
    },
    Reopen,
}

/// The fields of a new thread.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadFieldsOp {
    pub(super) resource: Option<u8>,
    pub(super) parent: Option<u8>,
    pub(super) title: Option<u8>,
    pub(super) metadata: Vec<(u8, u8)>,
}

/// A change of a thread's fields. `Some(None)` removes the value of a field.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadPatchOp {
    pub(super) resource: Option<Option<u8>>,
    pub(super) parent: Option<Option<u8>>,
    pub(super) title: Option<Option<u8>>,
    pub(super) metadata: Vec<(u8, Option<u8>)>,
    pub(super) fence: Option<u8>,
}

/// The expected version or revision.
#[derive(Debug, Clone, Copy)]
pub(super) enum GuardOp {
    Any,
    Absent,
    /// The current one minus this number.
    Behind(u8),
    /// The current one plus 1.
    Ahead,
    /// The current one, with the next generation.
    OtherGeneration,
}

/// A commit.
#[derive(Debug, Clone)]
pub(super) struct CommitOp {
    pub(super) thread: u8,
    pub(super) guard: GuardOp,
    pub(super) key: Option<u8>,
    pub(super) fence: Option<u8>,
    /// The commit is stated to be this many milliseconds old. The number 255 stands for a time in the future.
    pub(super) at: Option<u16>,
    pub(super) create: Option<ThreadFieldsOp>,
    pub(super) entries: Vec<EntryOp>,
    pub(super) run: Option<RunOp>,
    pub(super) state: Option<StateChangeOp>,
    /// Indexes in the queue, each with the number by which the given revision is too low.
    pub(super) consume: Vec<(u8, u8)>,
    pub(super) events: Vec<EventOp>,
    pub(super) outbox: Vec<RowOp>,
}

/// A scope of events.
#[derive(Debug, Clone, Copy)]
pub(super) enum ScopeOp {
    Thread(u8),
    Run(u8),
}

/// A new event.
#[derive(Debug, Clone)]
pub(super) struct EventOp {
    /// Whether the event has a thread as a scope: `thread`, or the thread of the commit if `thread` is `None`.
    pub(super) in_thread: bool,
    pub(super) thread: Option<u8>,
    pub(super) run: Option<u8>,
    pub(super) kind: u8,
    pub(super) payload: Option<u8>,
}

/// An append of events.
#[derive(Debug, Clone)]
pub(super) struct AppendEventsOp {
    pub(super) events: Vec<EventOp>,
    pub(super) key: Option<u8>,
    /// The expected counter of the first scope of the first event is the current counter minus this number.
    pub(super) expect: Option<u8>,
    pub(super) fence: Option<u8>,
}

/// Filters of events.
#[derive(Debug, Clone, Default)]
pub(super) struct EventFilterOp {
    /// Whether the filter admits only public events.
    pub(super) public: bool,
    pub(super) kind: Option<u8>,
    /// The event was appended more than this many milliseconds ago.
    pub(super) before: Option<u16>,
    /// The event was appended at most this many milliseconds ago.
    pub(super) after: Option<u16>,
}

/// A new input.
#[derive(Debug, Clone)]
pub(super) struct InputOp {
    /// The index of an entry whose id the input gets.
    pub(super) id_of_entry: Option<u8>,
    /// The index of a pending input whose id the input gets.
    pub(super) id_of_pending: Option<u8>,
    /// Whether the input is equal to this pending input in all other parts, too.
    pub(super) equals_pending: bool,
    pub(super) text: u8,
    pub(super) boundary: Boundary,
    pub(super) target_run: Option<u8>,
    /// A decision on the ticket of a run: the run, and whether the decision is to cancel.
    pub(super) decision: Option<(u8, bool)>,
}

/// A new entry. Indexes are taken modulo the length of the log. The largest numbers stand for an entry that does not
/// exist.
#[derive(Debug, Clone)]
pub(super) struct EntryOp {
    /// The index of an entry whose id the new entry gets.
    pub(super) id_of_entry: Option<u8>,
    /// The index of a pending input whose id the new entry gets.
    pub(super) id_of_pending: Option<u8>,
    pub(super) parent: ParentOp,
    pub(super) side: Option<bool>,
    /// The entry is stated to be this many milliseconds old.
    pub(super) timestamp: Option<u16>,
    /// The index of a run of the thread. The number 255 stands for a run that does not exist.
    pub(super) run: Option<u8>,
    pub(super) body: BodyOp,
}

/// Why a new order of a queue is not valid.
#[derive(Debug, Clone, Copy)]
pub(super) enum OrderMistake {
    /// It names the last input twice.
    RepeatsInput,
    /// It leaves the last input out.
    OmitsInput,
}

/// The parent of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) enum ParentOp {
    Head,
    Root,
    Entry(u8),
}

/// The body of an entry.
#[derive(Debug, Clone)]
pub(super) enum BodyOp {
    User(u8),
    System(u8),
    /// A message that is shown to people and never sent to a model.
    Aside(u8),
    /// A message without blocks.
    Empty,
    /// A message of a user with a tool call, which is not allowed.
    UserToolCall,
    Assistant {
        text: Option<u8>,
        calls: Vec<u8>,
        /// The number of the provider's message that the entry is a part of.
        message: Option<u8>,
        tokens: Option<u8>,
    },
    /// The results of the tool calls with these numbers.
    Results(Vec<u8>),
    Compaction {
        covers: Option<(u8, u8)>,
        has_replacement: bool,
    },
    Checkpoint {
        number: Option<u8>,
        label: Option<u8>,
    },
    Usage {
        spent: Option<u8>,
        context_size: Option<u8>,
    },
    Label {
        target: u8,
        text: Option<u8>,
    },
    Rewind(RewindTarget),
    Custom(u8),
    Unknown(u8),
}

/// The target of a rewind.
#[derive(Debug, Clone, Copy)]
pub(super) enum RewindTarget {
    Start,
    Entry(u8),
    Checkpoint(u8),
    Label(u8),
    Snapshot(u8),
}

/// A new run, or a change of one.
#[derive(Debug, Clone)]
pub(super) struct RunOp {
    pub(super) run: u8,
    /// Whether the agent is not the usual one.
    pub(super) agent: Option<bool>,
    pub(super) parent: Option<u8>,
    pub(super) status: RunPhase,
    /// Which of two manifests (published definitions) the run names.
    pub(super) manifest: Option<bool>,
    /// Which of two dispatches the run names.
    pub(super) dispatch: Option<bool>,
    pub(super) steps: Option<u8>,
    pub(super) tokens: Option<u8>,
    /// The first entry of the output, and the number of entries after it.
    pub(super) output: Option<(u8, u8)>,
    /// Changes of the run's own state. `None` removes the key.
    pub(super) state: Vec<(u8, Option<u8>)>,
}

/// A change of thread state.
#[derive(Debug, Clone)]
pub(super) struct StateChangeOp {
    /// The expected revision is the current one minus this number.
    pub(super) behind: Option<u8>,
    pub(super) clear: bool,
    pub(super) changes: Vec<(u8, StateKeyOp)>,
}

/// The change of one key of the state.
#[derive(Debug, Clone)]
pub(super) enum StateKeyOp {
    Set(u8),
    Remove,
    Add(i64),
    Max(i64),
    Append(u8),
    /// Merges an object. If the number is above 200, the value need not be an object, and the change can be refused.
    Merge(u8),
}

/// A list, with its query.
#[derive(Debug, Clone)]
pub(super) enum ListOp {
    Threads { filter: ThreadFilterOp, order: ThreadOrder, direction: Direction },
    Runs { filter: RunFilterOp, direction: Direction },
    Entries { thread: u8, filter: EntryFilterOp, direction: Direction },
    Leaves { thread: u8 },
    BranchPoints { thread: u8 },
    Snapshots { thread: u8 },
    ThreadsWithInput,
    Events { scope: ScopeOp, filter: EventFilterOp, direction: Direction },
    Dispatches { thread: Option<u8>, statuses: Option<Vec<DispatchStatus>>, order: DispatchOrder, direction: Direction },
    ReadyThreads,
    Outbox { filter: OutboxFilterOp, direction: Direction },
}

/// Filters of threads.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadFilterOp {
    pub(super) resource: Option<u8>,
    /// `Some(None)` stands for threads without a parent.
    pub(super) parent: Option<Option<u8>>,
    pub(super) has_open_runs: Option<bool>,
    /// The thread was active at most this many milliseconds ago.
    pub(super) active_after: Option<u16>,
    /// The thread was created more than this many milliseconds ago.
    pub(super) created_before: Option<u16>,
    pub(super) metadata: Option<(u8, u8)>,
}

/// Filters of runs.
#[derive(Debug, Clone, Default)]
pub(super) struct RunFilterOp {
    pub(super) thread: Option<u8>,
    pub(super) statuses: Option<Vec<RunPhase>>,
    /// Whether the agent is not the usual one.
    pub(super) agent: Option<bool>,
    pub(super) parent: Option<u8>,
}

/// Filters of entries.
#[derive(Debug, Clone, Default)]
pub(super) struct EntryFilterOp {
    pub(super) from_seq: Option<u8>,
    pub(super) to_seq: Option<u8>,
    pub(super) path_of: Option<u8>,
    pub(super) children_of: Option<u8>,
    /// Only messages (`true`), or only rewinds, checkpoints and custom records (`false`).
    pub(super) messages: Option<bool>,
    pub(super) run: Option<u8>,
    pub(super) side: Option<bool>,
}
