//! Messages: what people, models and tools say to each other.

use std::collections::BTreeMap;

use super::{Block, Origin};
use crate::{
    codec::{Extra, named_enum, record},
    id::AgentId,
    json::Json,
};

/// A map from names to JSON values, for metadata and state.
///
/// Maps are compared without regard to order.
pub type JsonMap = BTreeMap<String, Json>;

/// The role of a message's author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Instructions.
    System,
    /// A person, or a program in the place of a person.
    User,
    /// A model.
    Assistant,
    /// Tools. The message holds the results of calls.
    Tool,
}

named_enum!(Role as "role" { System = "system", User = "user", Assistant = "assistant", Tool = "tool", });

/// To whom a message is shown or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Visibility {
    /// Shown to people and sent to models.
    #[default]
    All,
    /// Sent to models, not shown to people.
    Internal,
    /// Shown to people, never sent to a model.
    Aside,
}

named_enum!(Visibility as "visibility" { All = "all", Internal = "internal", Aside = "aside", });

/// A message of a conversation.
///
/// Tool calls and tool results are found only among the blocks. The rules of EN-18 are checked when the message is
/// committed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The role of the author.
    pub role: Role,
    /// The content, in order.
    pub blocks: Vec<Block>,
    /// To whom the message is shown or sent.
    pub visibility: Visibility,
    /// Where the message comes from.
    pub provenance: Option<Provenance>,
    /// The token counts and the cost of the message.
    pub usage: Option<Usage>,
    /// Why the model stopped. The provider chooses the word.
    pub stop: Option<String>,
    /// Metadata of the application. It is never sent to a model.
    pub metadata: JsonMap,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Message { role: req, blocks: req, visibility: def, provenance: opt, usage: opt, stop: opt, metadata: def });

impl Message {
    /// Creates a message with this role and these blocks.
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

    /// Creates a user message with one block of text.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![Block::text(text)])
    }

    /// Creates an assistant message with one block of text.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, vec![Block::text(text)])
    }

    /// Sets the visibility.
    #[must_use]
    pub const fn with_visibility(mut self, visibility: Visibility) -> Self {
        self.visibility = visibility;
        self
    }

    /// Sets the usage.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Sets where the message comes from.
    #[must_use]
    pub fn with_provenance(mut self, provenance: Provenance) -> Self {
        self.provenance = Some(provenance);
        self
    }

    /// Returns the provider and model that the message came from.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.provenance.as_ref()?.origin.as_ref()
    }
}

/// Where a message comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Provenance {
    /// The agent that produced the message.
    pub agent: Option<AgentId>,
    /// The provider, API and model that produced the message.
    pub origin: Option<Origin>,
    /// The provider's own id of the message.
    ///
    /// Assistant entries of one path that have the same id are merged into one message of a context (CX-17).
    pub message_id: Option<String>,
    /// The original format of the message, before it was imported.
    pub format: Option<String>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Provenance { agent: opt, origin: opt, message_id: opt, format: opt });

/// Counts of tokens.
///
/// Their sums are exact (EN-26).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TokenCounts {
    /// Input tokens that were neither read from a cache nor written to one.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens that were read from a cache.
    pub cache_read: u64,
    /// Input tokens that were written to a cache.
    pub cache_write: u64,
    /// The part of the output tokens that is reasoning.
    pub reasoning: u64,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(TokenCounts { input: def, output: def, cache_read: def, cache_write: def, reasoning: def });

impl TokenCounts {
    /// Creates counts with these input and output tokens. None of the input tokens was read from a cache or written to
    /// one.
    #[must_use]
    pub fn new(input: u64, output: u64) -> Self {
        Self { input, output, ..Self::default() }
    }

    /// Returns the sums of these counts and the counts of `other`.
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

    /// Returns whether each count is at least as high as the same count of `other`.
    #[must_use]
    pub const fn is_at_least(&self, other: &Self) -> bool {
        self.input >= other.input
            && self.output >= other.output
            && self.cache_read >= other.cache_read
            && self.cache_write >= other.cache_write
            && self.reasoning >= other.reasoning
    }

    /// Returns the size of the context in tokens after the message: all input tokens and the output tokens.
    #[must_use]
    pub const fn context_size(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write).saturating_add(self.output)
    }
}

/// What a message cost, as its provider reported it.
///
/// The values are kept as they were given. A missing value is not estimated (EN-27).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// The token counts. They are summed per thread and run.
    pub tokens: TokenCounts,
    /// The cost, as a number or a document.
    ///
    /// It is kept and never summed, because sums of decimal fractions are not exact.
    pub cost: Option<Json>,
    /// The provider's own usage record.
    pub raw: Option<Json>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Usage { tokens: def, cost: opt, raw: opt });

impl From<TokenCounts> for Usage {
    fn from(tokens: TokenCounts) -> Self {
        Self { tokens, ..Self::default() }
    }
}
