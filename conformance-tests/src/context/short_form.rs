//! A context as one line of text. Cases compare this line with the one that they expect.

use store_core::{BlockKind, Context, ContextMessage, Message, Repair, Role, ToolResult, context::NO_RESULT};

use crate::log::writer::join;

/// The messages of a context, separated by spaces. `a` stands for the message of the entry `a`, and `a!c` for one that
/// has a call with the id `c`. `?c=a` stands for a result of that call whose text is `a`, and `?c=none` for a synthetic
/// result. `[a]` stands for a message that the compaction `a` put in place of its interval.
pub(super) fn short_form(context: &Context) -> String {
    join(context.messages.iter().map(message_form).collect::<Vec<_>>().iter().map(String::as_str))
}

fn message_form(message: &ContextMessage) -> String {
    let kinds = message.message.blocks.iter().map(|block| &block.kind);
    if message.message.role == Role::Tool {
        let results = kinds.filter_map(|kind| match kind {
            BlockKind::ToolResult(result) => Some(result_form(result, message.synthetic)),
            _ => None,
        });
        return results.collect::<Vec<_>>().join(" ");
    }
    let calls = kinds.filter_map(|kind| match kind {
        BlockKind::ToolUse(call) => Some(format!("!{}", call.id)),
        _ => None,
    });
    let name = if message.synthetic { format!("[{}]", message.entry) } else { message.entry.to_string() };
    name + &calls.collect::<String>()
}

fn result_form(result: &ToolResult, synthetic: bool) -> String {
    let result_text = match text_of_block(result.blocks.first().map(|block| &block.kind)) {
        NO_RESULT if synthetic && result.is_error == Some(true) => "none",
        text => text,
    };
    format!("?{}={result_text}", result.tool_use_id)
}

fn text_of_block(kind: Option<&BlockKind>) -> &str {
    match kind {
        Some(BlockKind::Text(text)) => text,
        _ => "",
    }
}

/// The text blocks of a message, one on each line. A block of another kind becomes an empty line.
pub(super) fn message_text(message: &Message) -> String {
    message.blocks.iter().map(|block| text_of_block(Some(&block.kind))).collect::<Vec<_>>().join("\n")
}

/// The repairs of a context, sorted and separated by spaces, for example `a:orphan_result_dropped:c`.
pub(super) fn repairs_as_text(context: &Context) -> String {
    let mut repair_texts: Vec<_> = context.repairs.iter().map(repair_as_text).collect();
    repair_texts.sort();
    repair_texts.join(" ")
}

fn repair_as_text(repair: &Repair) -> String {
    let kind = serde_json::to_string(&repair.kind).unwrap_or_default();
    let call = repair.tool_use_id.as_ref().map(|call| format!(":{call}")).unwrap_or_default();
    format!("{}:{}{call}", repair.entry, kind.trim_matches('"'))
}
