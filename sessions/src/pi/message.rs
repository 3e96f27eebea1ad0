//! Reads the messages of pi: roles, usage, and the texts that pi makes from lines that are not plain messages.

use store_core::{
    Block, BlockKind, Json, JsonMap, Message, Origin, Role, TokenCounts, ToolResult, Usage, UsageRecord, Visibility,
};

use super::{
    blocks,
    calls::{source_call_ids, unique_call_ids},
    v4::FIELDS_OUTSIDE_BODY,
};
use crate::{
    blocks::{MessageBlocks, with_provenance},
    field_types::{FieldType, note_wrong_types},
    issue::{IssueCode, Issues},
    json::Object,
    lines::note_bad_field,
};

/// The provider that an export of this crate names for an answer whose provider is not known.
pub(super) const NO_PROVIDER: &str = "agentstore";

/// When pi sends the summary of a branch, the first text is in front of the summary, and the second text behind it.
pub(super) const BRANCH_SUMMARY_MARKERS: (&str, &str) =
    ("The following is a summary of a branch that this conversation came back from:\n\n<summary>\n", "</summary>");

/// The optional fields of messages that are read.
const MESSAGE_FIELDS: &[(&str, FieldType)] = &[
    ("api", FieldType::Text),
    ("provider", FieldType::Text),
    ("model", FieldType::Text),
    ("stopReason", FieldType::Text),
    ("output", FieldType::Text),
    ("fullOutputPath", FieldType::Text),
    ("cancelled", FieldType::Bool),
    ("truncated", FieldType::Bool),
    ("excludeFromContext", FieldType::Bool),
    ("display", FieldType::Bool),
];

/// Where a message comes from, and what other lines say about it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MessageSource<'a> {
    /// The number of its line.
    pub(super) line: u64,
    /// A text that names the message, for calls without ids.
    pub(super) name: &'a str,
    /// The provider and model that apply to the line.
    pub(super) origin: Option<&'a Origin>,
    /// For a result: the id of its call in the thread. If it is absent, it is the same as the id in the file.
    pub(super) answered_call: Option<&'a str>,
}

/// Reads a message.
pub(super) fn read(source: MessageSource<'_>, object: &Object<'_>, issues: &mut Issues) -> Result<Message, String> {
    let role = object.text("role").ok_or("`role` is not a string")?;
    note_wrong_types(issues, source.line, object, MESSAGE_FIELDS);
    let mut reader = MessageReader { source, object, issues };
    match role.as_str() {
        "user" => reader.message_with_content(Role::User, "pi"),
        "assistant" => reader.assistant(),
        "toolResult" => reader.result(),
        "bashExecution" => reader.user_command(),
        "custom" | "hookMessage" => reader.custom("pi.custom_message"),
        "system" => {
            reader.issues.add(
                source.line,
                IssueCode::UnknownType,
                "the role `system`",
                "kept as a system message outside of the context",
            );
            Ok(reader.message_with_content(Role::System, "pi")?.with_visibility(Visibility::Aside))
        }
        other => Err(format!("the role `{other}`")),
    }
}

/// Whether `read` accepts this role.
pub(super) fn is_known_role(role: &str) -> bool {
    ["user", "assistant", "toolResult", "bashExecution", "custom", "hookMessage", "system"].contains(&role)
}

/// Whether the context contains a message: pi sends messages of its role, and it has neither failed nor been excluded.
pub(super) fn is_sent(object: &Object<'_>) -> bool {
    let is_excluded = object.bool("excludeFromContext") == Some(true);
    let has_failed = matches!(object.text("stopReason").as_deref(), Some("error" | "aborted"));
    let role = object.text("role").unwrap_or_default();
    is_known_role(&role) && role != "system" && !is_excluded && !has_failed
}

struct MessageReader<'a, 'b> {
    source: MessageSource<'a>,
    object: &'a Object<'b>,
    issues: &'a mut Issues,
}

impl MessageReader<'_, '_> {
    fn read_blocks(&mut self, origin: Origin, may_call: bool) -> Result<Vec<Block>, String> {
        let call_ids = unique_call_ids(&source_call_ids(self.object), self.source.name);
        let mut list = MessageBlocks::new(self.source.line, origin, self.issues);
        blocks::read_content(self.object, may_call.then_some(call_ids), &mut list)?;
        Ok(list.list)
    }

    fn message_with_content(&mut self, role: Role, origin: &str) -> Result<Message, String> {
        let blocks = self.read_blocks(Origin::new(origin), false)?;
        let mut message = Message::new(role, blocks);
        message.metadata = self.remaining_fields(&["role", "content"]);
        Ok(message)
    }

    fn assistant(&mut self) -> Result<Message, String> {
        let provider = self.object.text("provider");
        let is_placeholder = provider.as_deref() == Some(NO_PROVIDER);
        let origin = provider.filter(|_| !is_placeholder).map(|provider| {
            let mut origin = Origin::new(provider);
            origin.api = self.object.text("api");
            origin.model = self.object.text("model");
            origin
        });
        let origin = origin.or_else(|| self.source.origin.filter(|_| !is_placeholder).cloned());
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
        self.object.json("usage").filter(|raw| raw.as_str() != "null")?;
        let usage = read_usage(self.object);
        if usage.is_none() {
            note_bad_field(self.issues, self.source.line, "`usage` contains something other than whole numbers");
        }
        usage
    }

    fn result(&mut self) -> Result<Message, String> {
        let id_in_file = || self.object.text("toolCallId").filter(|id| !id.trim().is_empty());
        let call = self.source.answered_call.map(str::to_owned).or_else(id_in_file).ok_or("`toolCallId` is missing")?;
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
    fn user_command(&mut self) -> Result<Message, String> {
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
        let full_output_path =
            self.object.text("fullOutputPath").filter(|_| self.object.bool("truncated") == Some(true));
        if let Some(path) = full_output_path {
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
        let mut message = with_provenance(self.message_with_content(Role::User, "pi")?, None, Some(format));
        if self.object.bool("display") == Some(false) {
            message.visibility = Visibility::Internal;
        }
        Ok(message)
    }

    /// The fields that no other part of the message contains.
    fn remaining_fields(&self, used: &[&str]) -> JsonMap {
        let other_fields = self.object.iter().filter(|(name, _)| !used.contains(name));
        other_fields.filter_map(|(name, raw)| Some((name.to_owned(), Json::parse(raw).ok()?))).collect()
    }
}

/// The usage of a message or a line: `None` if it is missing or contains something other than whole numbers.
fn read_usage(object: &Object<'_>) -> Option<Usage> {
    let fields = object.object("usage")?;
    let count = |name: &str| match fields.raw(name) {
        None | Some("null") => Some(0),
        Some(_) => fields.number(name),
    };
    let mut tokens = TokenCounts::new(count("input")?, count("output")?);
    tokens.cache_read = count("cacheRead")?;
    tokens.cache_write = count("cacheWrite")?;
    let mut usage = Usage::from(tokens);
    usage.cost = fields.json("cost");
    usage.raw = object.json("usage");
    Some(usage)
}

/// The usage of a line that is not a message.
pub(super) fn usage_record(object: &Object<'_>) -> Option<UsageRecord> {
    let usage = read_usage(object)?;
    let mut record = UsageRecord::default();
    record.spent = Some(usage.tokens);
    record.cost = usage.cost;
    record.model = object.text("model").or_else(|| object.text("modelId"));
    Some(record)
}

/// Reads a line of the type `custom_message`. The line itself has the fields of the message.
pub(super) fn custom_line(
    source: MessageSource<'_>,
    object: &Object<'_>,
    issues: &mut Issues,
) -> Result<Message, String> {
    note_wrong_types(issues, source.line, object, &[("display", FieldType::Bool)]);
    let mut message = MessageReader { source, object, issues }.custom("pi.custom_message")?;
    for used in FIELDS_OUTSIDE_BODY {
        message.metadata.remove(*used);
    }
    Ok(message)
}

/// Reads a line of the type `branch_summary`.
pub(super) fn branch_summary(object: &Object<'_>) -> Result<Message, String> {
    let summary = object.text("summary").ok_or("`summary` is not a string")?;
    let (before, after) = BRANCH_SUMMARY_MARKERS;
    let message = Message::user(format!("{before}{summary}{after}"));
    let mut message = with_provenance(message, None, Some("pi.branch_summary"));
    let other_fields = object.iter().filter(|(name, _)| !FIELDS_OUTSIDE_BODY.contains(name));
    message.metadata = other_fields.filter_map(|(name, raw)| Some((name.to_owned(), Json::parse(raw).ok()?))).collect();
    Ok(message)
}
