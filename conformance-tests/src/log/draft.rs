//! Short ways to write down entries of a log.

use store_core::{
    Block, Compaction, Custom, Interval, Json, Label, Message, NewBody, NewEntry, RewindTo, Role, TokenCounts,
    UsageRecord,
};

use crate::given::id;

/// An entry of this id.
pub(crate) fn entry(name: &str, body: impl Into<NewBody>) -> NewEntry {
    NewEntry::new(body).with_id(id(name))
}

/// A user message that says its own id.
pub(crate) fn user(name: &str) -> NewEntry {
    entry(name, Message::user(name))
}

/// User messages that say their own ids.
pub(crate) fn users(names: &[&str]) -> Vec<NewEntry> {
    names.iter().map(|name| user(name)).collect()
}

/// An assistant message that says its own id.
pub(crate) fn assistant(name: &str) -> NewEntry {
    entry(name, Message::assistant(name))
}

/// An assistant message that says its own id and makes these calls.
pub(crate) fn calling(name: &str, calls: &[&str]) -> NewEntry {
    let calls = calls.iter().map(|call| Block::tool_use(*call, "tool", json("{}")));
    entry(name, Message::new(Role::Assistant, [Block::text(name)].into_iter().chain(calls).collect()))
}

/// A tool message that answers these calls with its own id.
pub(crate) fn answering(name: &str, calls: &[&str]) -> NewEntry {
    let results = calls.iter().map(|call| Block::tool_result(*call, vec![Block::text(name)]));
    entry(name, Message::new(Role::Tool, results.collect()))
}

/// A checkpoint, with a label if there is one.
pub(crate) fn checkpoint(name: &str, label: Option<&str>) -> NewEntry {
    entry(name, NewBody::Checkpoint { number: None, label: label.map(str::to_owned) })
}

/// A checkpoint of a given number.
pub(crate) fn numbered(name: &str, number: u64) -> NewEntry {
    entry(name, NewBody::Checkpoint { number: Some(number), label: None })
}

/// A rewind to an entry.
pub(crate) fn rewind(target: &str) -> NewEntry {
    NewEntry::new(RewindTo::Entry(id(target)))
}

/// A rewind to before the first entry.
pub(crate) fn clear() -> NewEntry {
    NewEntry::new(RewindTo::Start)
}

/// A compaction of an interval, whose summary is its own id.
pub(crate) fn compaction(name: &str, from: &str, to: &str) -> NewEntry {
    let mut body = Compaction::default();
    body.covers = Some(Interval::new(id(from), id(to)));
    body.summary = vec![Block::text(name)];
    entry(name, body)
}

/// A label of another entry.
pub(crate) fn label(target: &str, text: Option<&str>) -> NewEntry {
    NewEntry::new(Label::new(id(target), text.map(str::to_owned)))
}

/// A note beside the path.
pub(crate) fn note(name: &str) -> NewEntry {
    custom(name).with_side(true)
}

/// Something of the application, on the path.
pub(crate) fn custom(name: &str) -> NewEntry {
    entry(name, Custom::new("note", json("{}")))
}

/// A record of the size that the context had.
pub(crate) fn sized(name: &str, size: u64) -> NewEntry {
    let mut usage = UsageRecord::default();
    usage.context_size = Some(size);
    entry(name, usage)
}

/// A record of what was spent.
pub(crate) fn spent(input: u64, output: u64) -> NewEntry {
    let mut usage = UsageRecord::default();
    usage.spent = Some(TokenCounts::new(input, output));
    NewEntry::new(usage)
}

/// The JSON value of this text.
///
/// # Panics
/// If the text is no JSON: a mistake in the case.
pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).expect("valid JSON")
}
