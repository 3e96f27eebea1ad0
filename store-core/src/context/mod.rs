//! The context: the messages that are sent to a model for a leaf.

mod budget;
mod build;
mod compaction;
mod merge;
mod message_draft;
mod pair;
mod record;
mod rules;

pub use self::{
    build::build,
    compaction::{
        COMPACTION_PROMPT, ContextSplit, DEFAULT_KEPT_MESSAGES, DEFAULT_RESERVED_TOKENS, compaction_request,
        is_compaction_due, split_for_compaction,
    },
    message_draft::SUMMARY_MARKER,
    pair::NO_RESULT,
    record::{Budget, Context, ContextMessage, ContextRequest, OpenCalls, Repair, RepairKind, ThreadContext},
    rules::{Piece, context_size, next_checkpoint, pieces},
};

#[cfg(test)]
mod tests;
