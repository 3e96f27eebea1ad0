//! Helpers that build drafts of entries.

use store_core::{
    Block, Compaction, Custom, Interval, Json, Label, Message, NewBody, NewEntry, RewindTo, Role, TokenCounts,
    UsageRecord,
};

use crate::given::id;

/// Returns an entry with the id `name` and this body.
pub(crate) fn entry(name: &str, body: impl Into<NewBody>) -> NewEntry {
    NewEntry::new(body).with_id(id(name))
}

/// Returns a user message. `name` is both its id and its text.
pub(crate) fn user_entry(name: &str) -> NewEntry {
    entry(name, Message::user(name))
}

/// Returns a user message for each name. The name is both the id and the text of the message.
pub(crate) fn user_entries(names: &[&str]) -> Vec<NewEntry> {
    names.iter().map(|name| user_entry(name)).collect()
}

/// Returns an assistant message. `name` is both its id and its text.
pub(crate) fn assistant_entry(name: &str) -> NewEntry {
    entry(name, Message::assistant(name))
}

/// Returns an assistant message that calls a tool once for each of these call ids. `name` is both its id and its text.
pub(crate) fn tool_calls_entry(name: &str, calls: &[&str]) -> NewEntry {
    let calls = calls.iter().map(|call| Block::tool_use(*call, "tool", json("{}")));
    entry(name, Message::new(Role::Assistant, [Block::text(name)].into_iter().chain(calls).collect()))
}

/// Returns a tool message with one result for each of these call ids. `name` is its id and the text of each result.
pub(crate) fn tool_results_entry(name: &str, calls: &[&str]) -> NewEntry {
    let results = calls.iter().map(|call| Block::tool_result(*call, vec![Block::text(name)]));
    entry(name, Message::new(Role::Tool, results.collect()))
}

/// Returns a checkpoint without a number, with this label if there is one.
pub(crate) fn checkpoint(name: &str, label: Option<&str>) -> NewEntry {
    entry(name, NewBody::Checkpoint { number: None, label: label.map(str::to_owned) })
}

/// Returns a checkpoint with this number.
pub(crate) fn numbered_checkpoint(name: &str, number: u64) -> NewEntry {
    entry(name, NewBody::Checkpoint { number: Some(number), label: None })
}

/// Returns a rewind to an entry.
pub(crate) fn rewind(target: &str) -> NewEntry {
    NewEntry::new(RewindTo::Entry(id(target)))
}

/// Returns a rewind to the start of the log, which is before the first entry.
pub(crate) fn rewind_to_start() -> NewEntry {
    NewEntry::new(RewindTo::Start)
}

/// Returns a compaction of an interval. The text of its summary is its id.
pub(crate) fn compaction(name: &str, from: &str, to: &str) -> NewEntry {
    let mut body = Compaction::default();
    body.covers = Some(Interval::new(id(from), id(to)));
    body.summary = vec![Block::text(name)];
    entry(name, body)
}

/// Returns a label for another entry. Without a text it removes the name of that entry.
pub(crate) fn label(target: &str, text: Option<&str>) -> NewEntry {
    NewEntry::new(Label::new(id(target), text.map(str::to_owned)))
}

/// Returns a side entry with a custom body.
pub(crate) fn side_entry(name: &str) -> NewEntry {
    custom_entry(name).with_side(true)
}

/// Returns an entry that has a custom body and is not a side entry.
pub(crate) fn custom_entry(name: &str) -> NewEntry {
    entry(name, Custom::new("note", json("{}")))
}

/// Returns a usage record that reports the size of the context, in tokens.
pub(crate) fn usage_with_context_size(name: &str, size: u64) -> NewEntry {
    let mut usage = UsageRecord::default();
    usage.context_size = Some(size);
    entry(name, usage)
}

/// Returns a usage record that reports how many input and output tokens were spent.
pub(crate) fn usage_entry(input: u64, output: u64) -> NewEntry {
    let mut usage = UsageRecord::default();
    usage.spent = Some(TokenCounts::new(input, output));
    NewEntry::new(usage)
}

/// Parses a JSON value.
///
/// # Panics
/// If the text is not JSON, which is a mistake in the case.
pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).expect("valid JSON")
}
