//! Reads requests and replies.

use store_core::{Block, BlockKind, Error, Json, Result, Role, TokenCounts, ToolResult, ToolUse, Usage};

use super::{
    CONTENT, CUSTOM, INPUT, LIST, LOCAL_SHELL, REFUSAL, RESULT_LIST, TEXT, TOOL_SEARCH, call_item, custom_call_item,
    input_text, media_of, media_part, output_item, output_text, reasoning_item, refusal_part,
};
use crate::{
    native::FormDiff,
    normalize::{Reader, call_with_text_arguments, is_plain_text, usage_with_raw},
    value::{Diff, Object, Value},
};

pub(super) fn read(body: &Object, reader: &mut Reader) -> Result<()> {
    if let Some(output) = body.list("output") {
        let mut items = AssistantItems::default();
        for item in output {
            items.add(item, reader)?;
        }
        items.flush(reader)?;
        let stop = body.object("incomplete_details").and_then(|details| details.text("reason"));
        let usage = body.object("usage").map(read_usage).transpose()?;
        // The context leaves out turns whose stop reason is `error` or `aborted`, so failed replies get these reasons.
        let stop = stop.or(match body.text("status") {
            Some("failed" | "in_progress") => Some("error"),
            Some("cancelled") => Some("aborted"),
            status => status,
        });
        reader.describe_reply(body.text("id"), stop, usage);
        return Ok(());
    }
    for (name, value) in body.iter().filter(|(name, _)| !matches!(*name, "input" | "instructions")) {
        reader.settings.set(name, value.clone());
    }
    if let Some(instructions) = body.text("instructions") {
        reader.push(Role::System, vec![Block::text(instructions)], Some(FormDiff::default()))?;
    }
    match body.get("input") {
        Some(Value::Text(text)) => reader.push(Role::User, vec![Block::text(text)], Some(FormDiff::default())),
        Some(Value::List(input)) => {
            let mut items = AssistantItems::default();
            for item in input {
                items.add(item, reader)?;
            }
            items.flush(reader)
        }
        _ => Err(Error::invalid("body", "it has neither `input` nor `output`")),
    }
}

/// Reads the usage. The provider's number of input tokens includes those read from and written to the cache. The result
/// counts these separately.
fn read_usage(raw: &Object) -> Result<Usage> {
    let detail = |object: &str, name: &str| raw.object(object).and_then(|raw| raw.number(name)).unwrap_or_default();
    let cache_read = detail("input_tokens_details", "cached_tokens");
    let cache_write = detail("input_tokens_details", "cache_write_tokens");
    let input = raw.number("input_tokens").unwrap_or_default().saturating_sub(cache_read).saturating_sub(cache_write);
    let mut tokens = TokenCounts::new(input, raw.number("output_tokens").unwrap_or_default());
    (tokens.cache_read, tokens.cache_write) = (cache_read, cache_write);
    tokens.reasoning = detail("output_tokens_details", "reasoning_tokens");
    usage_with_raw(tokens, raw)
}

/// Collects consecutive items of the assistant in one message.
#[derive(Default)]
struct AssistantItems {
    blocks: Vec<Block>,
}

impl AssistantItems {
    fn add(&mut self, item: &Value, reader: &mut Reader) -> Result<()> {
        let Some(raw) = item.as_object() else { return Err(Error::invalid("input", "an item is not an object")) };
        match raw.text("type") {
            Some("message") | None if raw.get("role").is_some() => self.add_message(raw, reader),
            Some("reasoning") => self.add_block(read_reasoning(raw, reader)?, item, reader),
            Some("function_call" | "custom_tool_call" | "local_shell_call" | "tool_search_call") => {
                let call = read_call(raw, reader)?.filter(|call| !self.has_call(call));
                self.add_block(call, item, reader)
            }
            Some("function_call_output" | "custom_tool_call_output" | "tool_search_output") => {
                let Some(result) = read_result(raw, reader)? else { return self.add_block(None, item, reader) };
                self.flush(reader)?;
                reader.push(Role::Tool, vec![result], Some(FormDiff::default()))
            }
            _ => self.add_block(None, item, reader),
        }
    }

    /// Adds a block. If there is none, adds the item as an opaque block.
    fn add_block(&mut self, block: Option<Block>, item: &Value, reader: &Reader) -> Result<()> {
        self.blocks.push(block.map_or_else(|| reader.opaque_block(item), Ok)?);
        Ok(())
    }

    fn has_call(&self, block: &Block) -> bool {
        let id = |block: &Block| match &block.kind {
            BlockKind::ToolUse(call) => Some(call.id.clone()),
            _ => None,
        };
        self.blocks.iter().any(|known| id(known).is_some() && id(known) == id(block))
    }

    fn flush(&mut self, reader: &mut Reader) -> Result<()> {
        if self.blocks.is_empty() {
            return Ok(());
        }
        reader.push(Role::Assistant, std::mem::take(&mut self.blocks), Some(FormDiff::default()))
    }

    fn add_message(&mut self, raw: &Object, reader: &mut Reader) -> Result<()> {
        let role = match raw.text("role") {
            Some("user") => Role::User,
            Some("system" | "developer") => Role::System,
            Some("assistant") => Role::Assistant,
            other => {
                let name = other.unwrap_or_default();
                return Err(Error::invalid("input", format!("the role `{name}` is not known")));
            }
        };
        let (mut blocks, form) = read_content(raw, role, reader)?;
        if blocks.is_empty() || Reader::would_lose_form(&blocks, &form) {
            blocks = vec![reader.opaque_message(raw)?];
        }
        if role == Role::Assistant {
            if let Some(first) = blocks.first_mut() {
                reader.begin_message(first, form)?;
            }
            self.blocks.extend(blocks);
            return Ok(());
        }
        self.flush(reader)?;
        reader.push(role, blocks, Some(form))
    }
}

/// Reads the content of a message item, and how the item differs from the default.
fn read_content(raw: &Object, role: Role, reader: &Reader) -> Result<(Vec<Block>, FormDiff)> {
    let content = raw.get("content").cloned().unwrap_or(Value::Null);
    let (blocks, is_list) = match &content {
        Value::Text(text) => (vec![Block::text(text)], false),
        Value::HalfSurrogate(json) => (vec![reader.half_surrogate_text(json)?], false),
        Value::List(parts) => {
            let blocks = parts.iter().map(|part| read_part(part, role, reader)).collect::<Result<Vec<_>>>()?;
            (blocks, true)
        }
        _ => (Vec::new(), false),
    };
    let name = match role {
        Role::System => "system",
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    let mut default = Object::new().with_text("role", name).with("content", content);
    if is_list {
        default.set("type", Value::text("message"));
    }
    // By default, a writer writes one plain text as a text and not as a list.
    let needs_list_flag = is_list && matches!(blocks.as_slice(), [block] if is_plain_text(block));
    let mut flags = Vec::new();
    if role == Role::Assistant {
        flags.push(if is_list { LIST } else { TEXT }.to_owned());
    } else if needs_list_flag {
        flags.push(LIST.to_owned());
    }
    if role == Role::System {
        flags.push(INPUT.to_owned());
    }
    Ok((blocks, FormDiff { flags, diff: Diff::between(&default, raw) }))
}

fn read_part(item: &Value, role: Role, reader: &Reader) -> Result<Block> {
    let Some(raw) = item.as_object() else { return reader.opaque_block(item) };
    let default: fn(&str) -> Object = if role == Role::Assistant { output_text } else { input_text };
    match (raw.text("type"), raw.text("text"), raw.text("refusal")) {
        (Some("input_text" | "output_text" | "text"), Some(text), _) => {
            reader.block(BlockKind::Text(text.to_owned()), &default(text), raw)
        }
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

fn read_reasoning(raw: &Object, reader: &Reader) -> Result<Option<Block>> {
    let texts = |name: &str| {
        let parts = raw.list(name).unwrap_or_default().iter();
        let texts = parts.filter_map(|part| part.as_object()?.text("text"));
        texts.collect::<Vec<_>>().join("\n\n")
    };
    let (content, summary) = (texts("content"), texts("summary"));
    let in_content = !content.is_empty();
    let signature = raw.text("encrypted_content").map(str::to_owned);
    let thinking = reader.thinking(if in_content { content } else { summary }, signature);
    let diff = Diff::between(&reasoning_item(&thinking, in_content), raw);
    let flags = if in_content { vec![CONTENT.to_owned()] } else { Vec::new() };
    reader.block_of_form(BlockKind::Thinking(thinking), FormDiff { flags, diff }).map(Some)
}

fn read_call(raw: &Object, reader: &Reader) -> Result<Option<Block>> {
    if let Some(call) = provider_tool_call(raw) {
        return reader
            .block(
                BlockKind::ToolUse(call_with_text_arguments(call.id, call.name, &call.arguments)?),
                &call.item(),
                raw,
            )
            .map(Some);
    }
    let (Some(id), Some(name)) = (raw.text("call_id"), raw.text("name")) else { return Ok(None) };
    if id.trim().is_empty() || name.trim().is_empty() {
        return Ok(None);
    }
    if let Some(input) = raw.text("input").filter(|_| raw.text("type") == Some("custom_tool_call")) {
        let diff = Diff::between(&custom_call_item(id, name, input), raw);
        let call = BlockKind::ToolUse(ToolUse::new(id, name, Json::of(input)?));
        return reader.block_of_form(call, FormDiff { flags: vec![CUSTOM.to_owned()], diff }).map(Some);
    }
    let Some(arguments) = raw.text("arguments") else { return Ok(None) };
    let default = call_item(id, name, arguments);
    reader.block(BlockKind::ToolUse(call_with_text_arguments(id, name, arguments)?), &default, raw).map(Some)
}

/// A call of a tool that the provider defines and the caller runs.
struct ProviderToolCall<'a> {
    id: &'a str,
    name: &'static str,
    arguments: String,
}

impl ProviderToolCall<'_> {
    fn item(&self) -> Object {
        call_item(self.id, self.name, &self.arguments)
    }
}

fn provider_tool_call(raw: &Object) -> Option<ProviderToolCall<'_>> {
    let (name, arguments) = match raw.text("type")? {
        "local_shell_call" => (LOCAL_SHELL, raw.get("action")?.encode()),
        "tool_search_call" => (TOOL_SEARCH, raw.get("arguments")?.encode()),
        _ => return None,
    };
    let id = raw.text("call_id").filter(|id| !id.trim().is_empty())?;
    Some(ProviderToolCall { id, name, arguments })
}

fn read_result(raw: &Object, reader: &Reader) -> Result<Option<Block>> {
    let Some(id) = raw.text("call_id").filter(|id| !id.trim().is_empty()) else { return Ok(None) };
    if let Some(tools) = raw.get("tools").filter(|_| raw.text("type") == Some("tool_search_output")) {
        // The result describes the tools that were found. Only the provider of the search tool can use these
        // descriptions.
        let result = BlockKind::ToolResult(ToolResult::new(id, vec![reader.opaque_block(tools)?]));
        return reader.block(result, &output_item(id, Value::List(vec![tools.clone()])), raw).map(Some);
    }
    let (blocks, mut flags) = match raw.get("output") {
        Some(Value::Text(text)) => (vec![Block::text(text)], Vec::new()),
        Some(Value::HalfSurrogate(json)) => (vec![reader.half_surrogate_text(json)?], Vec::new()),
        Some(Value::List(parts)) => {
            let blocks = parts.iter().map(|part| read_part(part, Role::Tool, reader)).collect::<Result<Vec<_>>>()?;
            let is_plain_text = matches!(blocks.as_slice(), [block] if is_plain_text(block));
            (blocks, if is_plain_text { vec![RESULT_LIST.to_owned()] } else { Vec::new() })
        }
        _ => return Ok(None),
    };
    let kind = raw.text("type").unwrap_or_default();
    if kind == "custom_tool_call_output" {
        flags.push(CUSTOM.to_owned());
    }
    let output = raw.get("output").cloned().unwrap_or(Value::Null);
    let default = Object::of_type(kind).with_text("call_id", id).with("output", output);
    let form = FormDiff { flags, diff: Diff::between(&default, raw) };
    reader.block_of_form(BlockKind::ToolResult(ToolResult::new(id, blocks)), form).map(Some)
}
