//! The context: the messages that are sent to a model for a leaf.

mod budget;
mod build;
mod compaction;
mod draft;
mod merge;
mod pair;
mod record;
mod rules;

pub use self::{
    build::build,
    compaction::{
        COMPACTION_PROMPT, DEFAULT_KEEP, DEFAULT_RESERVED, Split, compaction_request, is_compaction_due,
        split_for_compaction,
    },
    draft::SUMMARY_MARKER,
    pair::NO_RESULT,
    record::{Budget, Context, ContextMessage, ContextRequest, OpenCalls, Repair, RepairKind, ThreadContext},
    rules::{Piece, context_size, next_checkpoint, pieces},
};

#[cfg(test)]
mod tests;
