//! Reads requests and replies.

use sha2::{Digest, Sha256};
use store_core::{Block, BlockKind, Error, Result, Role, TokenCounts, ToolResult, ToolUse, Usage};

use super::{NO_ID, SEPARATE, WHOLE_RESPONSE, call_part, media_of, media_part, result_part, text_part, thought_part};
use crate::{
    media::media_in,
    native::FormDiff,
    normalize::{Reader, only_answer, usage_with_raw},
    value::{Diff, Object, Value},
};

pub(super) fn read(body: &Object, reader: &mut Reader) -> Result<()> {
    if let Some(contents) = body.get("contents") {
        return read_request(body, contents, reader);
    }
    let candidates = body.list("candidates");
    let candidates = candidates.ok_or_else(|| Error::invalid("body", "it has neither `contents` nor `candidates`"))?;
    let candidate = only_answer("candidates", candidates)?;
    let content = candidate.object("content").cloned().unwrap_or_default();
    let mut calls = UnansweredCalls::new(body.text("responseId").unwrap_or_default());
    read_content(&content, Some("model"), None, &mut calls, reader)?;
    let usage = body.object("usageMetadata").map(read_usage).transpose()?;
    reader.describe_reply(body.text("responseId"), candidate.text("finishReason"), usage);
    Ok(())
}

/// Reads the usage. The provider's number of input tokens includes those read from the cache, and its number of output
/// tokens excludes thoughts. The result counts the tokens from the cache separately, and thoughts as output.
fn read_usage(raw: &Object) -> Result<Usage> {
    let number = |name| raw.number(name).unwrap_or_default();
    let (cached, thoughts) = (number("cachedContentTokenCount"), number("thoughtsTokenCount"));
    let input = number("promptTokenCount").saturating_sub(cached).saturating_add(number("toolUsePromptTokenCount"));
    let mut tokens = TokenCounts::new(input, number("candidatesTokenCount").saturating_add(thoughts));
    tokens.cache_read = cached;
    tokens.reasoning = thoughts;
    usage_with_raw(tokens, raw)
}

fn read_request(body: &Object, contents: &Value, reader: &mut Reader) -> Result<()> {
    const SYSTEM: [&str; 2] = ["systemInstruction", "system_instruction"];
    for (name, value) in body.iter().filter(|(name, _)| *name != "contents" && !SYSTEM.contains(name)) {
        reader.settings.set(name, value.clone());
    }
    let mut system = None;
    for name in SYSTEM {
        let Some(value) = body.get(name) else { continue };
        let object = value.as_object().ok_or_else(|| Error::invalid(name, "it is not an object"))?;
        if system.replace(object).is_some() {
            return Err(Error::invalid(name, "the body has the system instruction twice"));
        }
    }
    if let Some(system) = system {
        let parts = system.list("parts").unwrap_or_default();
        let blocks = parts.iter().map(|part| read_part(part, Role::System, reader)).collect::<Result<Vec<_>>>()?;
        let default = Object::new().with("parts", Value::List(parts.to_vec()));
        reader.push(
            Role::System,
            blocks,
            Some(FormDiff { flags: Vec::new(), diff: Diff::between(&default, system) }),
        )?;
    }
    let contents = contents.as_list().ok_or_else(|| Error::invalid("contents", "they are not a list"))?;
    let mut calls = UnansweredCalls::new("");
    let mut previous_role = None;
    for content in contents {
        let content = content.as_object().ok_or_else(|| Error::invalid("contents", "a content is not an object"))?;
        read_content(content, content.text("role"), previous_role, &mut calls, reader)?;
        previous_role = content.text("role");
    }
    Ok(())
}

/// The calls without a result in the last uninterrupted sequence of contents of the model. A result without an id, or
/// with an id of none of these calls, answers the first of them that has its tool name.
struct UnansweredCalls {
    /// The id of the reply. Made ids depend on it.
    reply_id: String,
    /// The number of ids that were made so far.
    made_id_count: usize,
    /// The id and the name of each call.
    list: Vec<(String, String)>,
}

impl UnansweredCalls {
    fn new(reply_id: &str) -> Self {
        Self { reply_id: reply_id.to_owned(), made_id_count: 0, list: Vec::new() }
    }

    /// Makes an id for a call without one. Each reading of the same body makes the same id.
    fn make_id(&mut self, name: &str, args: &Value) -> String {
        let digest = Sha256::digest(format!("{}\n{}\n{name}\n{}", self.reply_id, self.made_id_count, args.encode()));
        self.made_id_count += 1;
        digest.iter().take(6).fold("call_".to_owned(), |id, byte| format!("{id}{byte:02x}"))
    }

    fn answer(&mut self, id: Option<&str>, name: &str) -> Option<String> {
        let by_id = id.and_then(|id| self.list.iter().position(|(call, _)| call == id));
        let at = by_id.or_else(|| self.list.iter().position(|(_, called)| called == name))?;
        let (call_id, _name) = self.list.remove(at);
        Some(call_id)
    }
}

fn read_content(
    raw: &Object,
    role: Option<&str>,
    previous_role: Option<&str>,
    calls: &mut UnansweredCalls,
    reader: &mut Reader,
) -> Result<()> {
    let is_model = match role {
        Some("model") => true,
        Some("user" | "function") | None => false,
        Some(other) => return Err(Error::invalid("contents", format!("the role `{other}` is not known"))),
    };
    if is_model && previous_role != Some("model") {
        calls.list.clear();
    }
    let parts = raw.list("parts").unwrap_or_default();
    let name = if is_model { "model" } else { "user" };
    let mut default = Object::new().with_text("role", name);
    if raw.get("parts").is_some() {
        default.set("parts", Value::List(parts.to_vec()));
    }
    let flags = if previous_role == Some(name) { vec![SEPARATE.to_owned()] } else { Vec::new() };
    let mut form = Some(FormDiff { flags, diff: Diff::between(&default, raw) });
    let role = if is_model { Role::Assistant } else { Role::User };
    if parts.is_empty() {
        let block = reader.opaque_message(raw)?;
        return reader.push(role, vec![block], form);
    }
    let mut messages: Vec<(Role, Vec<Block>)> = Vec::new();
    for part in parts {
        let block = match part.as_object() {
            Some(object) if is_model && object.get("functionCall").is_some() => read_call(object, calls, reader)?,
            Some(object) if !is_model && object.get("functionResponse").is_some() => {
                read_result(object, calls, reader)?
            }
            _ => None,
        };
        let block = block.map_or_else(|| read_part(part, role, reader), Ok)?;
        let role = if matches!(block.kind, BlockKind::ToolResult(_)) { Role::Tool } else { role };
        match messages.last_mut().filter(|(last, _)| *last == role) {
            Some((_, blocks)) => blocks.push(block),
            None => messages.push((role, vec![block])),
        }
    }
    if let ([(role, blocks)], Some(content_form)) = (messages.as_slice(), &form)
        && Reader::would_lose_form(blocks, content_form)
    {
        return reader.push(*role, vec![reader.opaque_message(raw)?], form);
    }
    for (role, blocks) in messages {
        reader.push(role, blocks, form.take())?;
    }
    Ok(())
}

fn read_part(item: &Value, role: Role, reader: &Reader) -> Result<Block> {
    let Some(raw) = item.as_object() else { return reader.opaque_block(item) };
    if let Some(text) = raw.text("text") {
        if role == Role::Assistant && raw.get("thought") == Some(&Value::Bool(true)) {
            let thinking = reader.thinking(text, raw.text("thoughtSignature").map(str::to_owned));
            let default = thought_part(&thinking);
            return reader.block(BlockKind::Thinking(thinking), &default, raw);
        }
        return reader.block(BlockKind::Text(text.to_owned()), &text_part(text), raw);
    }
    match media_of(raw) {
        Some(kind) => {
            let default = media_in(&kind).and_then(|media| media_part(media, true)).unwrap_or_default();
            reader.block(kind, &default, raw)
        }
        None => reader.opaque_block(item),
    }
}

fn read_call(raw: &Object, calls: &mut UnansweredCalls, reader: &Reader) -> Result<Option<Block>> {
    let Some(call) = raw.object("functionCall") else { return Ok(None) };
    let Some(name) = call.text("name").filter(|name| !name.trim().is_empty()) else { return Ok(None) };
    let args = call.get("args").cloned().unwrap_or_else(|| Object::new().into());
    let given_id = call.text("id").filter(|id| !id.trim().is_empty());
    let id = given_id.map_or_else(|| calls.make_id(name, &args), str::to_owned);
    calls.list.push((id.clone(), name.to_owned()));
    let diff = Diff::between(&call_part(given_id, name, args.clone()), raw);
    let flags = if given_id.is_none() { vec![NO_ID.to_owned()] } else { Vec::new() };
    let call = BlockKind::ToolUse(ToolUse::new(id, name, args.to_json()?));
    reader.block_of_form(call, FormDiff { flags, diff }).map(Some)
}

fn read_result(raw: &Object, calls: &mut UnansweredCalls, reader: &Reader) -> Result<Option<Block>> {
    let Some(result) = raw.object("functionResponse") else { return Ok(None) };
    let (Some(name), Some(response)) = (result.text("name"), result.object("response")) else { return Ok(None) };
    let Some(id) = calls.answer(result.text("id"), name) else { return Ok(None) };
    let mut fields = response.iter();
    let (text, is_error, is_whole) = match (fields.next(), fields.next()) {
        (Some(("output", Value::Text(text))), None) => (text.clone(), None, false),
        (Some(("error", Value::Text(text))), None) => (text.clone(), Some(true), false),
        _ => (Value::from(response.clone()).encode(), None, true),
    };
    let mut tool_result = ToolResult::new(id, vec![Block::text(text)]);
    tool_result.is_error = is_error;
    let parts = result.list("parts");
    for part in parts.unwrap_or_default() {
        tool_result.blocks.push(read_part(part, Role::Tool, reader)?);
    }
    let default = result_part(name, response.clone(), parts.map(<[Value]>::to_vec));
    let flags = if is_whole { vec![WHOLE_RESPONSE.to_owned()] } else { Vec::new() };
    let form = FormDiff { flags, diff: Diff::between(&default, raw) };
    reader.block_of_form(BlockKind::ToolResult(tool_result), form).map(Some)
}
