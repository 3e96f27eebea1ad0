//! Reads the messages of a context file.

use store_core::{Block, BlockKind, Json, JsonMap, Message, Opaque, Role, ToolResult};

use super::parts;
use crate::{
    blocks::{MessageBlocks, SourceCall, with_provenance},
    issue::Issues,
    json::{Object, parse_json_array, parse_json_string},
};

/// The role of the line with the instructions. The instructions become a system message. The format in the provenance
/// of that message ends with this role, so that an export can tell the message from other system messages.
pub(super) const SYSTEM_PROMPT_ROLE: &str = "_system_prompt";

/// The first part of the message that a compaction writes.
pub(super) const COMPACTION_MARKER: &str =
    "<system>Previous context has been compacted. Here is the compaction output:</system>";

/// The beginning of the text of a failed result.
pub(super) const FAILURE_MARKER: &str = "<system>ERROR:";

/// Reads the message of a line with this role. Returns `None` if no message has this role.
pub(super) fn read(line: u64, role: &str, object: &Object<'_>, issues: &mut Issues) -> Option<Result<Message, String>> {
    let mut reader = MessageReader { line, object, issues };
    Some(match role {
        SYSTEM_PROMPT_ROLE => reader.prompt(),
        "user" => reader.message_with_content(Role::User),
        "assistant" => reader.message_with_content(Role::Assistant),
        "system" => reader.message_with_content(Role::System),
        "tool" => reader.result(),
        _ => return None,
    })
}

struct MessageReader<'a, 'b> {
    line: u64,
    object: &'a Object<'b>,
    issues: &'a mut Issues,
}

impl MessageReader<'_, '_> {
    fn prompt(&mut self) -> Result<Message, String> {
        let message = self.message_with_content(Role::System)?;
        Ok(with_provenance(message, None, Some(&format!("kimi-cli.{SYSTEM_PROMPT_ROLE}"))))
    }

    fn message_with_content(&mut self, role: Role) -> Result<Message, String> {
        let object = self.object;
        let mut blocks = MessageBlocks::new(self.line, parts::origin(), self.issues);
        let calls = match object.raw("tool_calls") {
            None | Some("null") => Vec::new(),
            Some(raw) => parse_json_array(raw).ok_or("`tool_calls` is not a list")?,
        };
        match object.raw("content") {
            Some(raw) => parts::read_content(raw, &mut blocks)?,
            None if calls.is_empty() => return Err("`content` is missing".to_owned()),
            None => {}
        }
        for raw in calls {
            if role == Role::Assistant {
                read_call(raw, &mut blocks);
            } else {
                blocks.push_malformed(raw, "a call outside of an assistant message");
            }
        }
        let mut message = Message::new(role, blocks.list);
        message.metadata = self.remaining_fields(&["role", "content", "tool_calls"]);
        Ok(message)
    }

    fn result(&mut self) -> Result<Message, String> {
        let object = self.object;
        let call = object.text("tool_call_id").filter(|id| !id.trim().is_empty());
        let call = call.ok_or("`tool_call_id` is missing")?;
        let content = object.raw("content").ok_or("`content` is missing")?;
        let mut blocks = MessageBlocks::new(self.line, parts::origin(), self.issues);
        parts::read_content(content, &mut blocks)?;
        let mut result = ToolResult::new(call, blocks.list);
        // kimi-cli writes this marker into the result of every failed call. If the wire file has the result, its value
        // replaces this one later.
        result.is_error = Some(first_text(&result.blocks).is_some_and(|text| text.starts_with(FAILURE_MARKER)));
        let mut message = Message::new(Role::Tool, vec![Block::new(BlockKind::ToolResult(result))]);
        message.metadata = self.remaining_fields(&["role", "content", "tool_call_id"]);
        Ok(message)
    }

    /// The fields that no other part of the message contains.
    fn remaining_fields(&self, used: &[&str]) -> JsonMap {
        let other_fields = self.object.iter().filter(|(name, _)| !used.contains(name));
        other_fields.filter_map(|(name, raw)| Some((name.to_owned(), Json::parse(raw).ok()?))).collect()
    }
}

fn read_call(raw: &str, blocks: &mut MessageBlocks<'_>) {
    let Some(item) = Object::parse(raw) else { return blocks.push_malformed(raw, "a call that is not an object") };
    let Some(function) = item.object("function") else {
        return blocks.push_malformed(raw, "a call without a function");
    };
    let call = SourceCall { id: item.text("id"), name: function.text("name"), arguments: function.raw("arguments") };
    let extras = item.json("extras").filter(|extras| extras.as_str() != "null");
    if let (Some(block), Some(extras)) = (blocks.push_call(raw, call), extras) {
        block.opaque = Some(Opaque::new(parts::origin(), extras));
    }
}

/// Whether kimi-cli itself inserted a user message, such as a reminder or a checkpoint.
pub(super) fn is_inserted(first_text: Option<&str>) -> bool {
    first_text.is_some_and(|text| text.starts_with("<system"))
}

/// The text of the first block, if that is a text block.
pub(super) fn first_text(blocks: &[Block]) -> Option<&str> {
    match &blocks.first()?.kind {
        BlockKind::Text(text) => Some(text),
        _ => None,
    }
}

/// Returns the same text for all spellings of a message. Content that is a string is equal to a list whose only part is
/// a text part with that string. Null fields and the order of the fields do not matter.
pub(super) fn comparable_form(object: &Object<'_>) -> String {
    let mut fields: Vec<_> = object.iter().filter(|(_, raw)| *raw != "null").collect();
    fields.sort_unstable();
    let mut out = String::new();
    for (name, raw) in fields {
        let single = || Some(single_text(raw).filter(|_| name == "content")?.as_str().to_owned());
        let value = single().or_else(|| Some(Json::parse(raw).ok()?.as_str().to_owned()));
        out += &format!("{name}:{}\n", value.unwrap_or_default());
    }
    out
}

fn single_text(raw: &str) -> Option<Json> {
    let text = match parse_json_array(raw)?.as_slice() {
        [part] => {
            let part = Object::parse(part)?;
            part.text("text").filter(|_| part.text("type").as_deref() == Some("text"))?
        }
        _ => return None,
    };
    Json::of(&text).ok()
}

/// The text of a message or of the input of a turn, for comparisons. It is `None` if there is no text.
pub(super) fn plain_text(content: &str) -> Option<String> {
    if let Some(text) = parse_json_string(content) {
        return Some(text);
    }
    let texts = parse_json_array(content)?.into_iter().filter_map(|part| Object::parse(part)?.text("text"));
    let texts: Vec<_> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{comparable_form, plain_text};
    use crate::json::Object;

    #[test]
    fn different_spellings_of_a_message_are_equal() {
        let same = |a: &str, b: &str| {
            comparable_form(&Object::parse(a).unwrap()) == comparable_form(&Object::parse(b).unwrap())
        };
        assert!(same(
            r#"{"role": "user", "content": "x"}"#,
            r#"{"content":[{"type":"text","text":"x"}],"role":"user"}"#
        ));
        assert!(same(r#"{"role":"user","content":"x","tool_calls":null}"#, r#"{"role":"user","content":"x"}"#));
        assert!(!same(r#"{"role":"user","content":"x"}"#, r#"{"role":"user","content":"y"}"#));
        assert!(!same(r#"{"role":"user","content":"x"}"#, r#"{"role":"assistant","content":"x"}"#));
    }

    #[test]
    fn the_text_of_a_message_is_that_of_its_text_parts() {
        assert_eq!(plain_text("\"a\"").as_deref(), Some("a"));
        assert_eq!(
            plain_text(r#"[{"type":"text","text":"a"},{"type":"image"},{"text":"b"}]"#).as_deref(),
            Some("a\nb")
        );
        assert_eq!((plain_text("[]"), plain_text("null")), (None, None));
    }
}
