//! The log of a thread: entries, the tree that they form, and the contract for reading them.

mod block;
mod draft;
mod entry;
mod marks;
mod message;
pub mod node;
mod query;
mod rules;
mod size;
mod store;

pub use self::{
    block::{Block, BlockKind, Media, MediaSource, Opaque, Origin, Thinking, ToolResult, ToolUse},
    draft::{NewBody, NewEntry, ParentRef, RewindTo},
    entry::{
        Body, BodyKind, Checkpoint, Compaction, Custom, Decision, DecisionAction, Entry, ImportOrigin, Interval, Label,
        Rewind, UsageRecord,
    },
    marks::{ChangedMarks, EntryMarks, MarkSource, assigned_name, spent_tokens},
    message::{JsonMap, Message, Provenance, Role, TokenCounts, Usage, Visibility},
    node::{CoveredDepths, Node, NodeSource},
    query::{BranchPoint, Direction, EntryQuery, Leaf, Snapshot},
    rules::{check_body, check_message},
    store::LogReader,
};
