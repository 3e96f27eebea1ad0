//! Work with the histories of threads: summaries of older messages, kept contexts, and threads that begin as a copy of
//! another.

mod compactor;
mod context_cache;
mod thread_copy;

pub use self::{
    compactor::{
        Compacted, CompactionOutcome, CompactionPlan, Compactor, ContextTokens, PlannedCompaction, Summary,
        SummaryError, estimate_tokens,
    },
    context_cache::{CacheCounts, CachedContext, ContextCache, ContextSource},
    thread_copy::{COPIED_FROM, ThreadCopy, copy_thread},
};
