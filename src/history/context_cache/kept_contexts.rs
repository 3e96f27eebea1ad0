//! The kept contexts, and the order in which they are forgotten.

use std::{collections::BTreeMap, mem::size_of, sync::Arc};

use store_core::{
    Block, BlockKind, Context, ContextMessage, EntryId, OpenCalls, Repair, Thread, ThreadId, Timestamp, codec::Codec,
};

/// The bytes that are counted for each kept context in addition to its content: an estimate for its keys and maps.
const BYTES_OF_CONTEXT: usize = 512;

/// The id of a thread, and the values that distinguish it from other threads with this id. A thread that is created
/// after this one was deleted has another generation. After a loss of acknowledged writes (FI-12) it has another
/// incarnation, and after a deletion of the tenant another time of creation.
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

/// The form of a kept context: what was done with its open calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ContextForm {
    /// Nothing was done with them. If the context has no repairs, the other forms can be made from it.
    Plain,
    /// The calls were answered.
    Answered,
    /// The calls were left out.
    Dropped,
}

impl From<OpenCalls> for ContextForm {
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
pub(super) struct ContextKey {
    pub(super) thread: ThreadKey,
    pub(super) entry_and_form: (EntryId, ContextForm),
}

impl ContextKey {
    pub(super) fn new(thread: &ThreadKey, at: &EntryId, form: ContextForm) -> Self {
        Self { thread: thread.clone(), entry_and_form: (at.clone(), form) }
    }
}

/// A kept context.
#[derive(Debug, Clone)]
pub(super) struct KeptContext {
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
    use_count: u64,
    contexts_by_thread: BTreeMap<ThreadKey, BTreeMap<(EntryId, ContextForm), KeptContext>>,
    keys_by_use: BTreeMap<u64, ContextKey>,
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
        Self { max_bytes, bytes: 0, use_count: 0, contexts_by_thread: BTreeMap::new(), keys_by_use: BTreeMap::new() }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.keys_by_use.len()
    }

    /// Returns a context, which is then the most recently used one.
    pub(super) fn get(&mut self, key: &ContextKey) -> Option<KeptContext> {
        let kept = self.contexts_by_thread.get_mut(&key.thread)?.get_mut(&key.entry_and_form)?;
        self.use_count += 1;
        if let Some(key) = self.keys_by_use.remove(&kept.last_use) {
            self.keys_by_use.insert(self.use_count, key);
        }
        kept.last_use = self.use_count;
        Some(kept.clone())
    }

    /// Keeps a context, and forgets the least recently used ones until all of them fit. A context that alone is larger
    /// than the bound is not kept.
    pub(super) fn insert(&mut self, key: ContextKey, context: Arc<Context>, bytes: usize) {
        self.remove(&key);
        if bytes > self.max_bytes {
            return;
        }
        while self.bytes.saturating_add(bytes) > self.max_bytes {
            let Some(oldest) = self.keys_by_use.first_key_value().map(|(_, key)| key.clone()) else { break };
            self.remove(&oldest);
        }
        self.use_count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.keys_by_use.insert(self.use_count, key.clone());
        let kept = KeptContext { context, bytes, last_use: self.use_count };
        self.contexts_by_thread.entry(key.thread).or_default().insert(key.entry_and_form, kept);
    }

    pub(super) fn remove(&mut self, key: &ContextKey) {
        let Some(contexts) = self.contexts_by_thread.get_mut(&key.thread) else { return };
        if let Some(kept) = contexts.remove(&key.entry_and_form) {
            self.keys_by_use.remove(&kept.last_use);
            self.bytes = self.bytes.saturating_sub(kept.bytes);
        }
        if contexts.is_empty() {
            self.contexts_by_thread.remove(&key.thread);
        }
    }

    /// Forgets all contexts of threads that have or had this id.
    pub(super) fn forget(&mut self, thread: &ThreadId) {
        let keys: Vec<_> = self.keys_by_use.values().filter(|key| key.thread.id == *thread).cloned().collect();
        for key in keys {
            self.remove(&key);
        }
    }

    /// Returns which kinds of contexts of a thread are kept.
    pub(super) fn kinds_of_thread(&self, thread: &ThreadKey) -> KeptKinds {
        let mut found = KeptKinds::default();
        for ((_, form), kept) in self.contexts_by_thread.get(thread).into_iter().flatten() {
            let has_repairs = !kept.context.repairs.is_empty();
            found.has_base |= *form == ContextForm::Plain && !has_repairs;
            found.has_repairs |= *form == ContextForm::Plain && has_repairs;
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

/// Returns whether calls of a context have no result. The context must have no repairs: then every result has a call,
/// and no call has two results, so that it is enough to count both.
pub(super) fn has_open_calls(context: &Context) -> bool {
    let blocks = || context.messages.iter().flat_map(|message| &message.message.blocks);
    let calls = blocks().filter(|block| matches!(block.kind, BlockKind::ToolUse(_))).count();
    let results = blocks().filter(|block| matches!(block.kind, BlockKind::ToolResult(_))).count();
    calls > results
}
