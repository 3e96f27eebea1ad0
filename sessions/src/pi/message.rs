//! Reads the messages of pi: roles, usage, and the texts that pi makes of lines that are not plain messages.

use store_core::{Block, BlockKind, Json, JsonMap, Message, Origin, Role, TokenCounts, ToolResult, Usage, Visibility};

use super::blocks;
use crate::{
    blocks::{MessageBlocks, with_provenance},
    issue::{IssueCode, Issues},
    json::Object,
    lines::note_bad_field,
};

/// The text before and the text after the summary of a branch when pi sends it.
pub(super) const BRANCH_SUMMARY_MARKERS: (&str, &str) =
    ("The following is a summary of a branch that this conversation came back from:\n\n<summary>\n", "</summary>");

/// The ids of the calls and of the results in a line.
pub(super) fn call_and_result_ids(line: &Object<'_>) -> (Vec<String>, Vec<String>) {
    let Some(message) = line.object("message") else { return (Vec::new(), Vec::new()) };
    let results = match message.text("role").as_deref() {
        Some("toolResult") => message.text("toolCallId").into_iter().collect(),
        _ => Vec::new(),
    };
    let call = |raw: &&str| {
        let block = Object::parse(raw)?;
        block.text("type").filter(|kind| kind == "toolCall").and_then(|_| block.text("id"))
    };
    let content = message.list("content").unwrap_or_default();
    (content.iter().filter_map(call).collect(), results)
}

/// Reads a message. `current_origin` is the provider and model that apply to the line.
pub(super) fn read(
    line: u64,
    object: &Object<'_>,
    current_origin: Option<&Origin>,
    issues: &mut Issues,
) -> Result<Message, String> {
    let role = object.text("role").ok_or("`role` is not a string")?;
    let mut reader = MessageReader { line, object, issues };
    match role.as_str() {
        "user" => reader.plain(Role::User, "pi"),
        "assistant" => reader.assistant(current_origin),
        "toolResult" => reader.result(),
        "bashExecution" => reader.bash(),
        "custom" | "hookMessage" => reader.custom("pi.custom_message"),
        "system" => {
            issues.add(
                line,
                IssueCode::UnknownType,
                "the role `system`",
                "kept as a system message outside of the context",
            );
            let mut reader = MessageReader { line, object, issues };
            Ok(reader.plain(Role::System, "pi")?.with_visibility(Visibility::Aside))
        }
        other => Err(format!("the role `{other}`")),
    }
}

/// Whether `read` accepts this role.
pub(super) fn is_known_role(role: &str) -> bool {
    ["user", "assistant", "toolResult", "bashExecution", "custom", "hookMessage", "system"].contains(&role)
}

struct MessageReader<'a, 'b> {
    line: u64,
    object: &'a Object<'b>,
    issues: &'a mut Issues,
}

impl MessageReader<'_, '_> {
    fn read_blocks(&mut self, origin: Origin, is_assistant: bool) -> Result<Vec<Block>, String> {
        let mut list = MessageBlocks::new(self.line, origin, self.issues);
        blocks::read_content(self.object, is_assistant, &mut list)?;
        Ok(list.list)
    }

    fn plain(&mut self, role: Role, origin: &str) -> Result<Message, String> {
        let blocks = self.read_blocks(Origin::new(origin), false)?;
        let mut message = Message::new(role, blocks);
        message.metadata = self.remaining_fields(&["role", "content"]);
        Ok(message)
    }

    fn assistant(&mut self, current_origin: Option<&Origin>) -> Result<Message, String> {
        let origin = self.object.text("provider").map(|provider| {
            let mut origin = Origin::new(provider);
            origin.api = self.object.text("api");
            origin.model = self.object.text("model");
            origin
        });
        let origin = origin.or_else(|| current_origin.cloned());
        let blocks = self.read_blocks(origin.clone().unwrap_or_else(|| Origin::new("pi")), true)?;
        let mut message = with_provenance(Message::new(Role::Assistant, blocks), origin.as_ref(), None);
        message.usage = self.usage();
        message.stop = self.object.text("stopReason");
        if matches!(message.stop.as_deref(), Some("error" | "aborted")) {
            message.visibility = Visibility::Aside;
        }
        message.metadata =
            self.remaining_fields(&["role", "content", "api", "provider", "model", "usage", "stopReason"]);
        Ok(message)
    }

    fn usage(&mut self) -> Option<Usage> {
        let raw = self.object.json("usage").filter(|raw| raw.as_str() != "null")?;
        let fields = self.object.object("usage");
        let count = |name: &str| match fields.as_ref()?.raw(name) {
            None | Some("null") => Some(0),
            Some(_) => fields.as_ref()?.number(name),
        };
        let counts = (count("input"), count("output"), count("cacheRead"), count("cacheWrite"));
        let (Some(input), Some(output), Some(cache_read), Some(cache_write)) = counts else {
            note_bad_field(self.issues, self.line, "`usage` contains something other than whole numbers");
            return None;
        };
        let mut tokens = TokenCounts::new(input, output);
        tokens.cache_read = cache_read;
        tokens.cache_write = cache_write;
        let mut usage = Usage::from(tokens);
        usage.cost = fields.and_then(|fields| fields.json("cost"));
        usage.raw = Some(raw);
        Some(usage)
    }

    fn result(&mut self) -> Result<Message, String> {
        let call = self.object.text("toolCallId").filter(|id| !id.trim().is_empty());
        let call = call.ok_or("`toolCallId` is missing")?;
        let mut result = ToolResult::new(call, self.read_blocks(Origin::new("pi"), false)?);
        result.details = self.object.json("details");
        result.is_error = match self.object.raw("isError") {
            None | Some("null") => None,
            Some(_) => Some(self.object.bool("isError").ok_or("`isError` is not a boolean")?),
        };
        let mut message = Message::new(Role::Tool, vec![Block::new(BlockKind::ToolResult(result))]);
        message.usage = self.usage();
        message.metadata = self.remaining_fields(&["role", "content", "toolCallId", "details", "isError", "usage"]);
        Ok(message)
    }

    /// Reads a command that the user ran, with the text that pi sends for it.
    fn bash(&mut self) -> Result<Message, String> {
        let command = self.object.text("command").ok_or("`command` is not a string")?;
        let output = self.object.text("output").unwrap_or_default();
        let mut text = format!("Ran `{command}`\n");
        text += &if output.is_empty() { "(no output)".to_owned() } else { format!("```\n{output}\n```") };
        let code = self.object.raw("exitCode").filter(|code| !matches!(*code, "null" | "0"));
        if self.object.bool("cancelled") == Some(true) {
            text += "\n\n(command cancelled)";
        } else if let Some(code) = code {
            text += &format!("\n\nCommand exited with code {code}");
        }
        let full = self.object.text("fullOutputPath").filter(|_| self.object.bool("truncated") == Some(true));
        if let Some(path) = full {
            text += &format!("\n\n[Output truncated. Full output: {path}]");
        }
        let mut message = with_provenance(Message::user(text), None, Some("pi.bashExecution"));
        if self.object.bool("excludeFromContext") == Some(true) {
            message.visibility = Visibility::Aside;
        }
        message.metadata = self.remaining_fields(&["role"]);
        Ok(message)
    }

    fn custom(&mut self, format: &str) -> Result<Message, String> {
        let mut message = with_provenance(self.plain(Role::User, "pi")?, None, Some(format));
        if self.object.bool("display") == Some(false) {
            message.visibility = Visibility::Internal;
        }
        Ok(message)
    }

    /// The fields that no other part of the message contains.
    fn remaining_fields(&self, used: &[&str]) -> JsonMap {
        let others = self.object.iter().filter(|(name, _)| !used.contains(name));
        others.filter_map(|(name, raw)| Some((name.to_owned(), Json::parse(raw).ok()?))).collect()
    }
}

/// Reads a line of the type `custom_message`. The line itself has the fields of the message.
pub(super) fn custom_line(line: u64, object: &Object<'_>, issues: &mut Issues) -> Result<Message, String> {
    let mut message = MessageReader { line, object, issues }.custom("pi.custom_message")?;
    for used in ["type", "id", "parentId", "timestamp"] {
        message.metadata.remove(used);
    }
    Ok(message)
}

/// Reads a line of the type `branch_summary`.
pub(super) fn branch_summary(object: &Object<'_>) -> Result<Message, String> {
    let summary = object.text("summary").ok_or("`summary` is not a string")?;
    let (before, after) = BRANCH_SUMMARY_MARKERS;
    let message = Message::user(format!("{before}{summary}{after}"));
    let mut message = with_provenance(message, None, Some("pi.branch_summary"));
    let others = object.iter().filter(|(name, _)| !["type", "id", "parentId", "timestamp"].contains(name));
    message.metadata = others.filter_map(|(name, raw)| Some((name.to_owned(), Json::parse(raw).ok()?))).collect();
    Ok(message)
}
