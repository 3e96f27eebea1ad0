//! The context: the messages that are sent to a model for a leaf.
//!
//! A context is made in two steps. [`parts`] reads only the nodes of the path, and returns the parts of the context in
//! order. Each [`ContextPart`] names an entry and says how the context uses it: unchanged, as a summary, or only
//! because the entry names the model that was last in effect. The backend loads these entries, and [`build`] makes the
//! messages from them. [`extend`] makes the context of a longer path from a context that was made before.

mod budget;
mod build;
mod compaction;
mod merge;
mod message_draft;
mod pair;
mod record;
mod rules;

pub use self::{
    build::{build, extend},
    compaction::{
        COMPACTION_PROMPT, ContextSplit, DEFAULT_KEPT_MESSAGES, DEFAULT_RESERVED_TOKENS, compaction_request,
        is_compaction_due, split_for_compaction,
    },
    message_draft::SUMMARY_MARKER,
    pair::NO_RESULT,
    record::{Budget, Context, ContextMessage, ContextRequest, OpenCalls, Repair, RepairKind, ThreadContext},
    rules::{ContextPart, context_size, next_checkpoint, parts},
};

#[cfg(test)]
mod tests;
