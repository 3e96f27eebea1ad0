//! The contexts that are kept, and which of them is forgotten first.

use std::{collections::BTreeMap, mem::size_of, sync::Arc};

use store_core::{
    Block, BlockKind, Context, ContextMessage, EntryId, OpenCalls, Repair, Thread, ThreadId, Timestamp, codec::Codec,
};

/// The bytes that are counted for each kept context in addition to its content: an estimate for its keys and maps.
const BYTES_OF_CONTEXT: usize = 512;

/// The id of a thread, and what distinguishes it from earlier and later threads with the same id: after a deletion the
/// thread has another generation, in a restored store another incarnation, and after its tenant was deleted another
/// time of creation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ThreadKey {
    pub(super) id: ThreadId,
    generation: u64,
    incarnation: u64,
    created_at: Timestamp,
}

impl ThreadKey {
    pub(super) fn of(thread: &Thread) -> Self {
        let (generation, incarnation) = (thread.version.generation(), thread.version.incarnation());
        Self { id: thread.id.clone(), generation, incarnation, created_at: thread.created_at }
    }
}

/// What was done with open calls in a kept context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// Nothing. If the context has no repairs, the other forms can be made from it.
    Plain,
    /// The calls were answered.
    Answered,
    /// The calls were left out.
    Dropped,
}

impl From<OpenCalls> for Form {
    fn from(open_calls: OpenCalls) -> Self {
        match open_calls {
            OpenCalls::Keep => Self::Plain,
            OpenCalls::Answer => Self::Answered,
            OpenCalls::Drop => Self::Dropped,
        }
    }
}

/// The key of a kept context. It needs no version, because the context of an entry never changes (CX-11).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) thread: ThreadKey,
    pub(super) entry: (EntryId, Form),
}

impl Key {
    pub(super) fn new(thread: &ThreadKey, at: &EntryId, form: Form) -> Self {
        Self { thread: thread.clone(), entry: (at.clone(), form) }
    }
}

/// A kept context.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) context: Arc<Context>,
    /// The bytes that are counted for the context.
    pub(super) bytes: usize,
    last_use: u64,
}

/// Kept contexts, within a bound on their bytes. If a new context does not fit, the least recently used ones are
/// forgotten.
#[derive(Debug)]
pub(super) struct KeptContexts {
    max_bytes: usize,
    bytes: usize,
    uses: u64,
    threads: BTreeMap<ThreadKey, BTreeMap<(EntryId, Form), Kept>>,
    by_use: BTreeMap<u64, Key>,
}

/// Which kinds of contexts of a thread are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct KeptKinds {
    /// Whether there is a context that can be extended.
    pub(super) has_base: bool,
    /// Whether there is a plain context with repairs.
    pub(super) has_repairs: bool,
}

impl KeptContexts {
    pub(super) const fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: 0, uses: 0, threads: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.by_use.len()
    }

    /// Returns a context, which is then the most recently used one.
    pub(super) fn get(&mut self, key: &Key) -> Option<Kept> {
        let kept = self.threads.get_mut(&key.thread)?.get_mut(&key.entry)?;
        self.uses += 1;
        if let Some(key) = self.by_use.remove(&kept.last_use) {
            self.by_use.insert(self.uses, key);
        }
        kept.last_use = self.uses;
        Some(kept.clone())
    }

    /// Keeps a context, and forgets the least recently used ones until all of them fit. A context that alone is larger
    /// than the bound is not kept.
    pub(super) fn insert(&mut self, key: Key, context: Arc<Context>, bytes: usize) {
        self.remove(&key);
        if bytes > self.max_bytes {
            return;
        }
        while self.bytes.saturating_add(bytes) > self.max_bytes {
            let Some(oldest) = self.by_use.first_key_value().map(|(_, key)| key.clone()) else { break };
            self.remove(&oldest);
        }
        self.uses += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.by_use.insert(self.uses, key.clone());
        let kept = Kept { context, bytes, last_use: self.uses };
        self.threads.entry(key.thread).or_default().insert(key.entry, kept);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        let Some(contexts) = self.threads.get_mut(&key.thread) else { return };
        if let Some(kept) = contexts.remove(&key.entry) {
            self.by_use.remove(&kept.last_use);
            self.bytes = self.bytes.saturating_sub(kept.bytes);
        }
        if contexts.is_empty() {
            self.threads.remove(&key.thread);
        }
    }

    /// Forgets all contexts of threads that have or had this id.
    pub(super) fn forget(&mut self, thread: &ThreadId) {
        let keys: Vec<_> = self.by_use.values().filter(|key| key.thread.id == *thread).cloned().collect();
        for key in keys {
            self.remove(&key);
        }
    }

    /// Returns which kinds of contexts of a thread are kept.
    pub(super) fn kinds_of_thread(&self, thread: &ThreadKey) -> KeptKinds {
        let mut found = KeptKinds::default();
        for ((_, form), kept) in self.threads.get(thread).into_iter().flatten() {
            let has_repairs = !kept.context.repairs.is_empty();
            found.has_base |= *form == Form::Plain && !has_repairs;
            found.has_repairs |= *form == Form::Plain && has_repairs;
        }
        found
    }
}

/// Returns the bytes that are counted for a context: the JSON of its messages, and the structures that hold them.
pub(super) fn bytes_of_context(context: &Context, id: &EntryId) -> usize {
    let repairs: usize = context
        .repairs
        .iter()
        .map(|repair| {
            size_of::<Repair>() + repair.entry.as_str().len() + repair.tool_use_id.as_deref().map_or(0, str::len)
        })
        .sum();
    BYTES_OF_CONTEXT + id.as_str().len() + repairs + bytes_of_messages(&context.messages)
}

/// Returns the bytes that are counted for messages.
pub(super) fn bytes_of_messages(messages: &[ContextMessage]) -> usize {
    messages
        .iter()
        .map(|message| {
            size_of::<ContextMessage>()
                + message.entry.as_str().len()
                + message.message.encode().len()
                + count_blocks(&message.message.blocks) * size_of::<Block>()
        })
        .sum()
}

fn count_blocks(blocks: &[Block]) -> usize {
    let inner = |block: &Block| match &block.kind {
        BlockKind::ToolResult(result) => count_blocks(&result.blocks),
        _ => 0,
    };
    blocks.iter().map(|block| 1 + inner(block)).sum()
}

/// Returns whether a context without repairs has calls without a result.
pub(super) fn has_open_calls(context: &Context) -> bool {
    let blocks = || context.messages.iter().flat_map(|message| &message.message.blocks);
    let calls = blocks().filter(|block| matches!(block.kind, BlockKind::ToolUse(_))).count();
    let results = blocks().filter(|block| matches!(block.kind, BlockKind::ToolResult(_))).count();
    calls > results
}
