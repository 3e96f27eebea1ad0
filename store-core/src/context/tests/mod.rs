//! Tests of contexts. Paths and contexts are written in a short notation, each on one line.
//!
//! A path consists of entries separated by ` | `, numbered from 1. An entry is a word for its kind, followed by its
//! blocks. `s`, `u`, `a` and `t` are system, user, assistant and tool messages: `-u` is never sent to a model, `^u` is
//! not shown to people, and `a@m` has the provider's message id `m`. `C` is a compaction with its summary, `R` a
//! compaction with replacement messages separated by ` / `, `X` a checkpoint. A block is `+x` (a call), `x=1` (its
//! result) or text.
//!
//! A context is written in the same way. In front of each message stand the number of its entry and `:`, or `~` in
//! place of `:` if the message is not in the log. `[]` is the marker of a summary, and `x=!` a synthetic result.

mod budget;
mod compaction;
mod extend;
mod merge;
mod pair;
mod parts;
mod random;
mod select;

use std::sync::Arc;

use super::{Context, ContextMessage, ContextPart, ContextRequest, NO_RESULT, SUMMARY_MARKER, build};
use crate::{
    EntryId, Json, Timestamp,
    codec::Extra,
    log::{
        Block, BlockKind, Body, Checkpoint, Compaction, Entry, Message, Origin, Provenance, Role, ToolResult,
        Visibility,
    },
};

/// Checks the messages and the repairs of the context of `path`.
#[track_caller]
fn expect_context(path: &str, expected: &str, repairs: &str) {
    expect_context_for(&ContextRequest::head(), path, expected, repairs);
}

#[track_caller]
fn expect_context_for(request: &ContextRequest, path: &str, expected: &str, repairs: &str) {
    let context = build(parse_path(path), request);
    assert_eq!(render(&context.messages), expected, "of {path}");
    assert_eq!(render_repairs(&context), repairs, "of {path}");
}

fn parse_path(path: &str) -> Vec<(ContextPart, Arc<Entry>)> {
    path.split(" | ").zip(1..).map(|(text, seq)| parse_path_entry(text, seq)).collect()
}

fn parse_path_entry(text: &str, seq: u64) -> (ContextPart, Arc<Entry>) {
    let (kind, content) = text.split_once(' ').unwrap_or((text, ""));
    let (part, body) = match kind {
        "X" => (ContextPart::Entry(seq), Body::Checkpoint(Checkpoint::new(0, None))),
        "C" => {
            let summary = Compaction { summary: parse_blocks(content), ..Compaction::default() };
            (ContextPart::Summary(seq), Body::Compaction(summary))
        }
        "R" => {
            let replacement = Some(content.split(" / ").map(parse_message).collect());
            (ContextPart::Summary(seq), Body::Compaction(Compaction { replacement, ..Compaction::default() }))
        }
        _ => (ContextPart::Entry(seq), Body::Message(parse_message(text))),
    };
    (part, Arc::new(entry(seq, body)))
}

fn entry(seq: u64, body: Body) -> Entry {
    Entry {
        id: EntryId::new(seq.to_string()).unwrap(),
        seq,
        parent: None,
        side: false,
        timestamp: Timestamp::MIN,
        run: None,
        step: None,
        origin: None,
        body: Arc::new(body),
        extra: Extra::default(),
    }
}

fn parse_message(text: &str) -> Message {
    let (kind, content) = text.split_once(' ').unwrap_or((text, ""));
    let (kind, id) = kind.split_once('@').map_or((kind, None), |(kind, id)| (kind, Some(id)));
    let visibility = match kind.chars().next() {
        Some('-') => Visibility::Aside,
        Some('^') => Visibility::Internal,
        _ => Visibility::All,
    };
    let role = match kind.trim_start_matches(['-', '^']) {
        "s" => Role::System,
        "u" => Role::User,
        "a" => Role::Assistant,
        "t" => Role::Tool,
        other => panic!("`{other}` is not a role"),
    };
    let message = Message::new(role, parse_blocks(content)).with_visibility(visibility);
    match id {
        None => message,
        Some(id) => message.with_provenance(Provenance {
            origin: Some(Origin::new("p").with_model(format!("model-of-{id}"))),
            message_id: Some(id.to_owned()),
            ..Provenance::default()
        }),
    }
}

fn parse_blocks(words: &str) -> Vec<Block> {
    let block = |word: &str| match (word.strip_prefix('+'), word.split_once('=')) {
        (Some(call), _) => Block::tool_use(call, "tool", Json::null()),
        (None, Some((call, output_text))) => Block::tool_result(call, vec![Block::text(output_text)]),
        (None, None) => Block::text(word),
    };
    words.split_whitespace().map(block).collect()
}

fn render(messages: &[ContextMessage]) -> String {
    messages.iter().map(render_message).collect::<Vec<_>>().join(" | ")
}

fn render_message(message: &ContextMessage) -> String {
    let role = match message.message.role {
        Role::System => "s",
        Role::User => "u",
        Role::Assistant => "a",
        Role::Tool => "t",
    };
    let separator = if message.synthetic { "~" } else { ":" };
    let mut text = format!("{}{separator}{role}", message.entry);
    for block in &message.message.blocks {
        text.push(' ');
        text.push_str(&render_block(&block.kind));
    }
    text
}

fn render_block(kind: &BlockKind) -> String {
    match kind {
        BlockKind::Text(text) if text == SUMMARY_MARKER => "[]".into(),
        BlockKind::Text(text) => text.clone(),
        BlockKind::ToolUse(call) => format!("+{}", call.id),
        BlockKind::ToolResult(result) => format!("{}={}", result.tool_use_id, render_result(result)),
        other => format!("{other:?}"),
    }
}

fn render_result(result: &ToolResult) -> String {
    let output_text: Vec<_> = result.blocks.iter().map(|block| render_block(&block.kind)).collect();
    if output_text == [NO_RESULT] && result.is_error == Some(true) { "!".into() } else { output_text.concat() }
}

fn render_repairs(context: &Context) -> String {
    let render = |repair: &super::Repair| match &repair.tool_use_id {
        Some(call) => format!("{} {:?} {call}", repair.entry, repair.kind),
        None => format!("{} {:?}", repair.entry, repair.kind),
    };
    context.repairs.iter().map(render).collect::<Vec<_>>().join(", ")
}
