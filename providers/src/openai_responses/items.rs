//! Writes single messages as items, for files that hold items of the API.

use std::collections::BTreeSet;

use store_core::{ContextMessage, Error, Json, Result, ToolUse};

use super::write::{ID_RULE, Writer};
use crate::{
    calls::Calls,
    compile::{CompileOptions, Compiler},
    loss::{Loss, Position},
    provider::Target,
};

/// Writes the messages of a history one by one as items of OpenAI Responses, for files that hold such items.
///
/// A request needs more than this: [`compile`](crate::compile) also pairs calls with results, and leaves out what the
/// API refuses.
#[derive(Debug, Default)]
pub struct ItemWriter {
    calls: Calls,
    /// The ids of the calls of tools that take text.
    custom_calls: BTreeSet<String>,
    has_dropped_reasoning: bool,
}

/// The items of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenItems {
    /// The items, in order.
    pub items: Vec<Json>,
    /// The parts of the message that the items do not hold. Each path is relative to the message.
    pub losses: Vec<Loss>,
}

impl ItemWriter {
    /// Creates a writer for a new history.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares that the file already has the call with this id, so that its result is written.
    pub fn expect_call(&mut self, id: &str) {
        if !self.calls.by_stored_id.contains_key(id) {
            self.calls.add(&ToolUse::new(id, "", Json::null()), ID_RULE);
        }
    }

    /// Returns the items of the next message. Blocks that came from `target` become the items that they were read from.
    /// System messages are items, too. A result without an earlier call is left out.
    ///
    /// # Errors
    /// `Invalid` if the API of the target is not OpenAI Responses.
    pub fn write(&mut self, message: &ContextMessage, target: &Target) -> Result<WrittenItems> {
        if target.provider.name() != "openai-responses" {
            return Err(Error::invalid("target", "only OpenAI Responses has items"));
        }
        let options = CompileOptions::default();
        let mut compiler = Compiler::new(target, &options)?;
        compiler.calls = std::mem::take(&mut self.calls);
        let position = Position { entry: message.entry.clone(), path: String::new() };
        compiler.collect_message(&position, message, &BTreeSet::new())?;
        let mut writer = Writer::default();
        writer.has_no_instructions = true;
        writer.custom_calls = std::mem::take(&mut self.custom_calls);
        writer.has_dropped_reasoning = self.has_dropped_reasoning;
        writer.add_parts(&mut compiler)?;
        self.custom_calls = writer.custom_calls;
        self.has_dropped_reasoning = writer.has_dropped_reasoning;
        self.calls = std::mem::take(&mut compiler.calls);
        let items = writer.items.into_iter().map(|item| item.value.to_json()).collect::<Result<_>>()?;
        Ok(WrittenItems { items, losses: compiler.losses.into_list() })
    }
}
