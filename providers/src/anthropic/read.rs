//! Reads requests and replies.

use store_core::{Block, BlockKind, Error, Json, Result, Role, TokenCounts, ToolResult, ToolUse, Usage};

use super::{
    INSIDE, LIST, NO_CONTENT, RESULT_LIST, SEPARATE, TEXT, media_block, media_of, redacted_block, text_block,
    thinking_block, tool_use_block,
};
use crate::{
    native::FormDiff,
    normalize::{Reader, is_plain_text, usage_with_raw},
    value::{Diff, Object, Value, lossy_text},
};

pub(super) fn read(body: &Object, reader: &mut Reader) -> Result<()> {
    if let Some(messages) = body.list("messages") {
        return read_request(body, messages, reader);
    }
    if body.get("content").is_none() {
        return Err(Error::invalid("body", "it has neither `messages` nor `content`"));
    }
    let message = Object::new().with_text("role", "assistant").with("content", content(body));
    read_message(&message, None, reader)?;
    let usage = body.object("usage").map(read_usage).transpose()?;
    reader.describe_reply(body.text("id"), body.text("stop_reason"), usage);
    Ok(())
}

fn content(body: &Object) -> Value {
    body.get("content").cloned().unwrap_or(Value::Null)
}

fn read_usage(raw: &Object) -> Result<Usage> {
    let number = |name| raw.number(name).unwrap_or_default();
    let mut tokens = TokenCounts::new(number("input_tokens"), number("output_tokens"));
    tokens.cache_read = number("cache_read_input_tokens");
    tokens.cache_write = number("cache_creation_input_tokens");
    usage_with_raw(tokens, raw)
}

fn read_request(body: &Object, messages: &[Value], reader: &mut Reader) -> Result<()> {
    for (name, value) in body.iter().filter(|(name, _)| !matches!(*name, "messages" | "system")) {
        reader.settings.set(name, value.clone());
    }
    if let Some(system) = body.get("system") {
        let message = Object::new().with_text("role", "system").with("content", system.clone());
        let (blocks, flags) = read_content(&message, Role::System, reader)?;
        reader.push(Role::System, blocks, Some(FormDiff { flags, ..FormDiff::default() }))?;
    }
    let mut previous_role = None;
    for message in messages {
        let message = message.as_object().ok_or_else(|| Error::invalid("messages", "a message is not an object"))?;
        read_message(message, previous_role, reader)?;
        previous_role = message.text("role");
    }
    Ok(())
}

fn read_message(message: &Object, previous_role: Option<&str>, reader: &mut Reader) -> Result<()> {
    let role = message.text("role").unwrap_or_default();
    let stored_role = match role {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => return Err(Error::invalid("messages", format!("the role `{role}` is not known"))),
    };
    let (blocks, mut flags) = read_content(message, stored_role, reader)?;
    if previous_role == Some(role) {
        flags.push(SEPARATE.to_owned());
    }
    if stored_role == Role::System {
        flags.push(INSIDE.to_owned());
    }
    let default = Object::new().with_text("role", role).with("content", content(message));
    let mut form = Some(FormDiff { flags, diff: Diff::between(&default, message) });
    if form.as_ref().is_some_and(|form| Reader::would_lose_form(&blocks, form)) || blocks.is_empty() {
        let block = reader.opaque_message(message)?;
        return reader.push(stored_role, vec![block], form);
    }
    for (role, blocks) in split_results(stored_role, blocks) {
        reader.push(role, blocks, form.take())?;
    }
    Ok(())
}

/// Splits the content of a user message into results and other content, in order.
fn split_results(role: Role, blocks: Vec<Block>) -> Vec<(Role, Vec<Block>)> {
    let mut out: Vec<(Role, Vec<Block>)> = Vec::new();
    for block in blocks {
        let role = if matches!(block.kind, BlockKind::ToolResult(_)) { Role::Tool } else { role };
        match out.last_mut().filter(|(last, _)| *last == role) {
            Some((_, blocks)) => blocks.push(block),
            None => out.push((role, vec![block])),
        }
    }
    out
}

/// Reads the content of a message. Returns its blocks, and flags that say how its form differs from the default.
fn read_content(message: &Object, role: Role, reader: &Reader) -> Result<(Vec<Block>, Vec<String>)> {
    match message.get("content") {
        Some(Value::Text(text)) => {
            let flags = if role == Role::Assistant { vec![TEXT.to_owned()] } else { Vec::new() };
            Ok((vec![Block::text(text)], flags))
        }
        Some(Value::HalfSurrogate(json)) => {
            let flags = if role == Role::Assistant { vec![TEXT.to_owned()] } else { Vec::new() };
            Ok((vec![reader.half_surrogate_text(json)?], flags))
        }
        Some(Value::List(items)) => {
            let blocks = items.iter().map(|item| read_block(item, role, reader)).collect::<Result<Vec<_>>>()?;
            let is_plain_text = matches!(blocks.as_slice(), [block] if is_plain_text(block));
            let flags = if is_plain_text && role != Role::Assistant { vec![LIST.to_owned()] } else { Vec::new() };
            Ok((blocks, flags))
        }
        _ => Err(Error::invalid("content", "it is neither a text nor a list")),
    }
}

fn read_block(item: &Value, role: Role, reader: &Reader) -> Result<Block> {
    let Some(raw) = item.as_object() else { return reader.opaque_block(item) };
    let block = match raw.text("type") {
        Some("text") => read_text(raw, reader)?,
        Some("thinking" | "redacted_thinking") if role == Role::Assistant => read_thinking(raw, reader)?,
        Some("tool_use") if role == Role::Assistant => read_call(raw, reader)?,
        Some("tool_result") if role == Role::User => read_result(raw, reader)?,
        Some("image") => read_media(raw, BlockKind::Image, reader)?,
        Some("document") => read_media(raw, BlockKind::Document, reader)?,
        _ => None,
    };
    block.map_or_else(|| reader.opaque_block(item), Ok)
}

fn read_text(raw: &Object, reader: &Reader) -> Result<Option<Block>> {
    let text = match raw.get("text") {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::HalfSurrogate(json)) => lossy_text(json),
        _ => return Ok(None),
    };
    let default = text_block(&text);
    reader.block(BlockKind::Text(text), &default, raw).map(Some)
}

fn read_thinking(raw: &Object, reader: &Reader) -> Result<Option<Block>> {
    let (thinking, default) = match (raw.text("thinking"), raw.text("signature"), raw.text("data")) {
        (Some(text), Some(signature), _) => {
            (reader.thinking(text, Some(signature.to_owned())), thinking_block(text, signature))
        }
        (None, None, Some(data)) => {
            let mut thinking = reader.thinking("", Some(data.to_owned()));
            thinking.redacted = true;
            (thinking, redacted_block(data))
        }
        _ => return Ok(None),
    };
    reader.block(BlockKind::Thinking(thinking), &default, raw).map(Some)
}

fn read_call(raw: &Object, reader: &Reader) -> Result<Option<Block>> {
    let (Some(id), Some(name), Some(input)) = (raw.text("id"), raw.text("name"), raw.get("input")) else {
        return Ok(None);
    };
    if id.trim().is_empty() || name.trim().is_empty() {
        return Ok(None);
    }
    let mut call = ToolUse::new(id, name, input.to_json()?);
    let (mut default, mut raw) = (tool_use_block(id, name, input.clone()), raw.clone());
    if let Some(text) = input.as_text() {
        // The stream was cut off, so its arguments are not JSON.
        (call.input, call.raw) = (Json::parse("{}")?, Some(text.to_owned()));
        let _input = (default.remove("input"), raw.remove("input"));
    }
    reader.block(BlockKind::ToolUse(call), &default, &raw).map(Some)
}

fn read_result(raw: &Object, reader: &Reader) -> Result<Option<Block>> {
    let Some(id) = raw.text("tool_use_id").filter(|id| !id.trim().is_empty()) else { return Ok(None) };
    let (blocks, flags) = match raw.get("content") {
        None => (Vec::new(), vec![NO_CONTENT.to_owned()]),
        Some(Value::Text(text)) => (vec![Block::text(text)], Vec::new()),
        Some(Value::HalfSurrogate(json)) => (vec![reader.half_surrogate_text(json)?], Vec::new()),
        Some(Value::List(items)) => {
            let blocks = items.iter().map(|item| read_block(item, Role::Tool, reader)).collect::<Result<Vec<_>>>()?;
            let is_plain_text = matches!(blocks.as_slice(), [block] if is_plain_text(block));
            (blocks, if is_plain_text { vec![RESULT_LIST.to_owned()] } else { Vec::new() })
        }
        Some(_) => return Ok(None),
    };
    let mut result = ToolResult::new(id, blocks);
    let mut default = Object::of_type("tool_result").with_text("tool_use_id", id).with("content", content(raw));
    if raw.get("content").is_none() {
        default.remove("content");
    }
    if let Some(Value::Bool(is_error)) = raw.get("is_error") {
        result.is_error = Some(*is_error);
        default.set("is_error", Value::Bool(*is_error));
    }
    let form = FormDiff { flags, diff: Diff::between(&default, raw) };
    reader.block_of_form(BlockKind::ToolResult(result), form).map(Some)
}

fn read_media(raw: &Object, kind: fn(store_core::Media) -> BlockKind, reader: &Reader) -> Result<Option<Block>> {
    let Some(media) = media_of(raw) else { return Ok(None) };
    let name = raw.text("type").unwrap_or_default();
    match media_block(name, &media) {
        Some(default) => reader.block(kind(media), &default, raw).map(Some),
        None => Ok(None),
    }
}
