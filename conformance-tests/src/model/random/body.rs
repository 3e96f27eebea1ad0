//! Makes the bodies of new entries from the operations of a history.

use store_core::{
    Block, Compaction, Custom, EntryId, Interval, Label, Message, NewBody, Origin, Provenance, RewindTo, Role,
    TokenCounts, Usage, UsageRecord, Visibility,
};

use super::{
    numbered_values::{entry_id_at, json_value, label_text},
    ops::{BodyOp, RewindTarget},
};

/// Makes a body. Operations refer to entries by their indexes in `log`. The interval of a compaction also depends on
/// `path`.
pub(super) fn new_body(op: &BodyOp, log: &[EntryId], path: &[EntryId]) -> NewBody {
    match op {
        BodyOp::User(number) => Message::user(numbered_text(*number)).into(),
        BodyOp::System(number) => Message::new(Role::System, vec![Block::text(numbered_text(*number))]).into(),
        BodyOp::Aside(number) => Message::user(numbered_text(*number)).with_visibility(Visibility::Aside).into(),
        BodyOp::Empty => Message::new(Role::Assistant, Vec::new()).into(),
        BodyOp::UserToolCall => Message::new(Role::User, vec![Block::tool_use("c0", "tool", json_value(0))]).into(),
        BodyOp::Assistant { text, calls, message, tokens } => assistant_message(*text, calls, *message, *tokens).into(),
        BodyOp::Results(calls) => {
            let result = |call: &u8| Block::tool_result(format!("c{call}"), vec![Block::text(numbered_text(*call))]);
            Message::new(Role::Tool, calls.iter().map(result).collect()).into()
        }
        BodyOp::Compaction { covers, has_replacement } => {
            let mut compaction = Compaction::default();
            compaction.covers = covers.map(|(from, to)| interval(from, to, (log, path)));
            compaction.summary.push(Block::text(format!("summary of {}", log.len())));
            compaction.replacement =
                has_replacement.then(|| vec![Message::user("replaced"), Message::assistant("indeed")]);
            compaction.into()
        }
        BodyOp::Checkpoint { number, label: name } => {
            NewBody::Checkpoint { number: number.map(u64::from), label: name.map(label_text) }
        }
        BodyOp::Usage { spent, context_size } => {
            let mut usage = UsageRecord::default();
            usage.spent = spent.map(token_counts);
            usage.context_size = context_size.map(u64::from);
            usage.into()
        }
        BodyOp::Label { target, text } => Label::new(entry_id_at(log, *target), text.map(label_text)).into(),
        BodyOp::Rewind(to) => rewind_target(*to, log).into(),
        BodyOp::Custom(number) => Custom::new("note", json_value(*number)).into(),
        BodyOp::Unknown(number) => NewBody::Unknown { kind: "hologram".to_owned(), data: json_value(*number) },
    }
}

/// Makes the interval of a compaction. The numbers are scaled to the length of `path`, so that most compactions cover
/// entries of their own path. If the numbers are equal, or one is above 240, they are indexes in `log` instead.
fn interval(from: u8, to: u8, log_and_path: (&[EntryId], &[EntryId])) -> Interval {
    let (log, path) = log_and_path;
    let (first, last) = (from.min(to), from.max(to));
    if first == last || last > 240 {
        return Interval::new(entry_id_at(log, from), entry_id_at(log, to));
    }
    let index = |at: u8| path.get(usize::from(at) * path.len() / 256).cloned();
    match (index(first), index(last)) {
        (Some(from), Some(to)) => Interval::new(from, to),
        _ => Interval::new(entry_id_at(log, from), entry_id_at(log, to)),
    }
}

fn numbered_text(number: u8) -> String {
    format!("text {number}\0")
}

fn token_counts(number: u8) -> TokenCounts {
    TokenCounts::new(u64::from(number) * 10, u64::from(number))
}

fn assistant_message(text: Option<u8>, calls: &[u8], message_number: Option<u8>, tokens: Option<u8>) -> Message {
    let mut blocks: Vec<_> = text.map(|number| Block::text(numbered_text(number))).into_iter().collect();
    blocks.extend(calls.iter().map(|call| Block::tool_use(format!("c{call}"), "tool", json_value(*call))));
    let mut message = Message::new(Role::Assistant, blocks);
    message.usage = tokens.map(|number| Usage::from(token_counts(number)));
    message.provenance = message_number.map(|number| {
        let mut provenance = Provenance::default();
        provenance.origin = Some(Origin::new("provider").with_model(format!("model {number}")));
        provenance.message_id = Some(format!("message {number}"));
        provenance
    });
    message
}

fn rewind_target(to: RewindTarget, log: &[EntryId]) -> RewindTo {
    match to {
        RewindTarget::Start => RewindTo::Start,
        RewindTarget::Entry(index) => RewindTo::Entry(entry_id_at(log, index)),
        RewindTarget::Checkpoint(number) => RewindTo::Checkpoint(u64::from(number)),
        RewindTarget::Label(number) => RewindTo::Label(label_text(number)),
        RewindTarget::Snapshot(number) => RewindTo::Snapshot(label_text(number)),
    }
}
