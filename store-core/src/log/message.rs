//! Messages: what people, models and tools say to each other.

use std::collections::BTreeMap;

use super::{Block, Origin};
use crate::{
    codec::{Extra, names, record},
    id::AgentId,
    json::Json,
};

/// Metadata and state: names with JSON values. Compared without order.
pub type JsonMap = BTreeMap<String, Json>;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Instructions.
    System,
    /// A person, or what stands for one.
    User,
    /// A model.
    Assistant,
    /// Tools: the results of calls.
    Tool,
}

names!(Role as "role" { System = "system", User = "user", Assistant = "assistant", Tool = "tool", });

/// Who gets to see a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Visibility {
    /// Models and people.
    #[default]
    All,
    /// Sent to the model, not shown to people.
    Internal,
    /// Shown to people, never sent to a model.
    Aside,
}

names!(Visibility as "visibility" { All = "all", Internal = "internal", Aside = "aside", });

/// A message of a conversation.
///
/// Tool calls and results are blocks and nothing else: there is no second list of them. The rules of EN-18 are checked
/// when the message is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub blocks: Vec<Block>,
    /// Who gets to see it.
    pub visibility: Visibility,
    /// Where it comes from.
    pub provenance: Option<Provenance>,
    /// What it cost.
    pub usage: Option<Usage>,
    /// Why the model stopped, in the provider's own word.
    pub stop: Option<String>,
    /// The application's own; never sent to a model.
    pub metadata: JsonMap,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Message { role: req, blocks: req, visibility: def, provenance: opt, usage: opt, stop: opt, metadata: def });

impl Message {
    /// A message of `role` that says `blocks`.
    #[must_use]
    pub fn new(role: Role, blocks: Vec<Block>) -> Self {
        Self {
            role,
            blocks,
            visibility: Visibility::All,
            provenance: None,
            usage: None,
            stop: None,
            metadata: JsonMap::new(),
            extra: Extra::default(),
        }
    }

    /// A user message of one text.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![Block::text(text)])
    }

    /// An assistant message of one text.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, vec![Block::text(text)])
    }

    /// The same message for other readers.
    #[must_use]
    pub const fn with_visibility(mut self, visibility: Visibility) -> Self {
        self.visibility = visibility;
        self
    }

    /// The same message with what it cost.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// The same message with where it comes from.
    #[must_use]
    pub fn with_provenance(mut self, provenance: Provenance) -> Self {
        self.provenance = Some(provenance);
        self
    }

    /// The provider and model that it came from.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.provenance.as_ref()?.origin.as_ref()
    }
}

/// Where a message comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Provenance {
    /// The agent that produced it.
    pub agent: Option<AgentId>,
    /// The provider, api and model that produced it.
    pub origin: Option<Origin>,
    /// The provider's own id of the message; assistant entries of a path that share one are one message (CX-17).
    pub message_id: Option<String>,
    /// The format that it was in before it was ours.
    pub format: Option<String>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Provenance { agent: opt, origin: opt, message_id: opt, format: opt });

/// Counts of tokens. Sums of them are exact (EN-26).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TokenCounts {
    /// Input that was not read from a cache.
    pub input: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Input that was read from a cache.
    pub cache_read: u64,
    /// Input that was written to a cache.
    pub cache_write: u64,
    /// The part of the output that is reasoning.
    pub reasoning: u64,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(TokenCounts { input: def, output: def, cache_read: def, cache_write: def, reasoning: def });

impl TokenCounts {
    /// Counts of input without cache, and of output.
    #[must_use]
    pub fn new(input: u64, output: u64) -> Self {
        Self { input, output, ..Self::default() }
    }

    /// These counts and `other`'s together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            extra: self.extra.clone(),
        }
    }

    /// Whether no count of `self` is below the one of `other`.
    #[must_use]
    pub const fn covers(&self, other: &Self) -> bool {
        self.input >= other.input
            && self.output >= other.output
            && self.cache_read >= other.cache_read
            && self.cache_write >= other.cache_write
            && self.reasoning >= other.reasoning
    }

    /// How large the context was: all input, and the output that joins it.
    #[must_use]
    pub const fn context_size(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write).saturating_add(self.output)
    }
}

/// What a message cost, as its provider said. Kept as given; nothing is made up (EN-27).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// The counts; summed per thread and run.
    pub tokens: TokenCounts,
    /// The cost, as a number or a document. It is kept and never summed: sums of decimal fractions are not exact.
    pub cost: Option<Json>,
    /// The provider's own record.
    pub raw: Option<Json>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Usage { tokens: def, cost: opt, raw: opt });

impl From<TokenCounts> for Usage {
    fn from(tokens: TokenCounts) -> Self {
        Self { tokens, ..Self::default() }
    }
}
