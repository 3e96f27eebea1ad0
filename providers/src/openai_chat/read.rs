//! Reads requests and replies.

use store_core::{Block, BlockKind, Error, Json, Result, Role, TokenCounts, ToolResult, ToolUse, Usage};

use super::{
    CUSTOM, LIST, REFUSAL, THINKING_FIELDS, call_object, custom_call_object, media_of, media_part, refusal_part,
    text_part,
};
use crate::{
    native::FormDiff,
    normalize::{Reader, call_with_text_arguments, is_plain_text, only_answer, usage_with_raw},
    value::{Diff, Object, Value},
};

pub(super) fn read(body: &Object, reader: &mut Reader) -> Result<()> {
    if let Some(messages) = body.list("messages") {
        for (name, value) in body.iter().filter(|(name, _)| *name != "messages") {
            reader.settings.set(name, value.clone());
        }
        for message in messages {
            let message =
                message.as_object().ok_or_else(|| Error::invalid("messages", "a message is not an object"))?;
            read_message(message, reader)?;
        }
        return Ok(());
    }
    let choices = body.list("choices");
    let choices = choices.ok_or_else(|| Error::invalid("body", "it has neither `messages` nor `choices`"))?;
    let choice = only_answer("choices", choices)?;
    let message = choice.object("message").ok_or_else(|| Error::invalid("choices", "the first has no `message`"))?;
    read_message(message, reader)?;
    let usage = body.object("usage").map(read_usage).transpose()?;
    reader.describe_reply(body.text("id"), choice.text("finish_reason"), usage);
    Ok(())
}

/// Reads the usage. The provider's number of input tokens includes those read from and written to the cache. The result
/// counts these separately.
fn read_usage(raw: &Object) -> Result<Usage> {
    let detail = |object: &str, name: &str| raw.object(object).and_then(|raw| raw.number(name)).unwrap_or_default();
    let cache_read = detail("prompt_tokens_details", "cached_tokens");
    let cache_write = detail("prompt_tokens_details", "cache_write_tokens");
    let input = raw.number("prompt_tokens").unwrap_or_default().saturating_sub(cache_read).saturating_sub(cache_write);
    let mut tokens = TokenCounts::new(input, raw.number("completion_tokens").unwrap_or_default());
    (tokens.cache_read, tokens.cache_write) = (cache_read, cache_write);
    tokens.reasoning = detail("completion_tokens_details", "reasoning_tokens");
    usage_with_raw(tokens, raw)
}

fn read_message(raw: &Object, reader: &mut Reader) -> Result<()> {
    let role = match raw.text("role") {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system" | "developer") => Role::System,
        Some("tool") => Role::Tool,
        other => {
            let name = other.unwrap_or_default();
            return Err(Error::invalid("messages", format!("the role `{name}` is not known")));
        }
    };
    if role == Role::Tool {
        return read_result(raw, reader);
    }
    let (mut blocks, mut flags) = (Vec::new(), Vec::new());
    let mut default = default_message(role, raw);
    read_thinking(raw, &mut default, &mut blocks, reader)?;
    let content = read_content(raw, reader)?;
    if matches!(content.as_slice(), [block] if is_plain_text(block)) && raw.list("content").is_some() {
        flags.push(LIST.to_owned());
    }
    blocks.extend(content);
    if let Some(refusal) = raw.text("refusal").filter(|_| role == Role::Assistant) {
        blocks.push(flagged_block(BlockKind::Text(refusal.to_owned()), REFUSAL, reader)?);
        default.set("refusal", Value::text(refusal));
    }
    if role == Role::Assistant {
        blocks.extend(read_calls(raw, reader)?);
    }
    let form = FormDiff { flags, diff: Diff::between(&default, raw) };
    if blocks.is_empty() || Reader::would_lose_form(&blocks, &form) {
        return reader.push(role, vec![reader.opaque_message(raw)?], Some(FormDiff::default()));
    }
    reader.push(role, blocks, Some(form))
}

/// Returns the message that is written by default for the content of `raw`.
fn default_message(role: Role, raw: &Object) -> Object {
    let name = match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut default = Object::new().with_text("role", name);
    let has_calls = role == Role::Assistant && raw.list("tool_calls").is_some_and(|calls| !calls.is_empty());
    match raw.get("content") {
        Some(content) => default.set("content", content.clone()),
        None => default.set("content", Value::Null),
    }
    if has_calls && let Some(calls) = raw.get("tool_calls") {
        default.set("tool_calls", calls.clone());
    }
    default
}

fn flagged_block(kind: BlockKind, flag: &str, reader: &Reader) -> Result<Block> {
    reader.block_of_form(kind, FormDiff { flags: vec![flag.to_owned()], diff: Diff::default() })
}

fn read_thinking(raw: &Object, default: &mut Object, blocks: &mut Vec<Block>, reader: &Reader) -> Result<()> {
    for field in THINKING_FIELDS {
        if let Some(text) = raw.text(field) {
            blocks.push(flagged_block(BlockKind::Thinking(reader.thinking(text, None)), field, reader)?);
            default.set(field, Value::text(text));
        }
    }
    Ok(())
}

fn read_content(raw: &Object, reader: &Reader) -> Result<Vec<Block>> {
    match raw.get("content") {
        Some(Value::Text(text)) => Ok(vec![Block::text(text)]),
        Some(Value::HalfSurrogate(json)) => Ok(vec![reader.half_surrogate_text(json)?]),
        Some(Value::List(items)) => items.iter().map(|item| read_part(item, reader)).collect(),
        _ => Ok(Vec::new()),
    }
}

fn read_part(item: &Value, reader: &Reader) -> Result<Block> {
    let Some(raw) = item.as_object() else { return reader.opaque_block(item) };
    match (raw.text("type"), raw.text("text"), raw.text("refusal")) {
        (Some("text"), Some(text), _) => reader.block(BlockKind::Text(text.to_owned()), &text_part(text), raw),
        (Some("refusal"), _, Some(text)) => {
            let form = FormDiff { flags: vec![REFUSAL.to_owned()], diff: Diff::between(&refusal_part(text), raw) };
            reader.block_of_form(BlockKind::Text(text.to_owned()), form)
        }
        _ => match media_of(raw) {
            Some(kind) => {
                let default = media_part(&kind).unwrap_or_default();
                reader.block(kind, &default, raw)
            }
            None => reader.opaque_block(item),
        },
    }
}

fn read_calls(raw: &Object, reader: &Reader) -> Result<Vec<Block>> {
    raw.list("tool_calls").unwrap_or_default().iter().map(|call| read_call(call, reader)).collect()
}

fn read_call(item: &Value, reader: &Reader) -> Result<Block> {
    let Some(raw) = item.as_object() else { return reader.opaque_block(item) };
    let fields = |object: &str, text: &str| {
        let call = raw.object(object)?;
        let (id, name) = (raw.text("id")?, call.text("name")?);
        let is_valid = !id.trim().is_empty() && !name.trim().is_empty();
        is_valid.then_some((id.to_owned(), name.to_owned(), call.text(text)?.to_owned()))
    };
    if let Some((id, name, arguments)) = fields("function", "arguments") {
        let default = call_object(&id, &name, &arguments);
        return reader.block(BlockKind::ToolUse(call_with_text_arguments(&id, &name, &arguments)?), &default, raw);
    }
    if let Some((id, name, input)) = fields("custom", "input") {
        let diff = Diff::between(&custom_call_object(&id, &name, &input), raw);
        let call = BlockKind::ToolUse(ToolUse::new(id, name, Json::of(&input)?));
        return reader.block_of_form(call, FormDiff { flags: vec![CUSTOM.to_owned()], diff });
    }
    reader.opaque_block(item)
}

fn read_result(raw: &Object, reader: &mut Reader) -> Result<()> {
    let id = raw.text("tool_call_id").filter(|id| !id.trim().is_empty());
    let id = id.ok_or_else(|| Error::invalid("messages", "a tool message has no `tool_call_id`"))?;
    let blocks = read_content(raw, reader)?;
    let is_plain_text = matches!(blocks.as_slice(), [block] if is_plain_text(block));
    let flags = if is_plain_text && raw.list("content").is_some() { vec![LIST.to_owned()] } else { Vec::new() };
    let mut default = Object::new().with_text("role", "tool").with_text("tool_call_id", id);
    default.set("content", raw.get("content").cloned().unwrap_or(Value::Null));
    let form = FormDiff { flags, diff: Diff::between(&default, raw) };
    let block = reader.block_of_form(BlockKind::ToolResult(ToolResult::new(id, blocks)), form)?;
    reader.push(Role::Tool, vec![block], Some(FormDiff::default()))
}
