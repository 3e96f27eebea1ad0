//! Turns lines into entries.

use store_core::{Block, Compaction, Custom, Interval, Json, Label, Message, NewBody, Visibility};

use super::{
    NAME, agentstore,
    facts::Sidechain,
    line_format::{LineData, NodeKind},
    message,
    preserved_segment::{CompactionData, Coverage, PreservedSegment},
};
use crate::{
    blocks::{cut_to_1_kib, with_provenance},
    issue::{IssueCode, Issues},
    json::{Object, parse_json_array, parse_json_string},
    lines::{BodyAndTime, LinePosition, LineTime, ObjectLine, note_bad_field},
    provenance::IMPORT_LINE,
    time,
};

/// The format in the provenance of a message that Claude Code made from an attachment.
pub(super) const ATTACHMENT_FORMAT: &str = "claude-code.attachment";

/// The key of the subagent's name in a side entry with a line of a subagent.
pub(super) const SIDECHAIN_KEY: &str = "subagent";

/// The types of lines that are not messages.
pub(super) const OTHER_TYPES: &[&str] = &[
    "agent-color",
    "agent-name",
    "agent-setting",
    "ai-title",
    "attachment",
    "attribution-snapshot",
    "bridge-session",
    "content-replacement",
    "custom-title",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "system",
    "tag",
    "task-summary",
    "worktree-state",
];

/// The second pass: returns the body and the time of a line. `sidechain` is the subagent to which the line belongs, if
/// this is not the thread of that subagent. `compaction` is what is known of the compaction in the line.
pub(super) fn read_body_and_time(
    line: &ObjectLine<'_>,
    (sidechain, compaction): (Option<&Sidechain>, Option<&CompactionData>),
    position: &LinePosition<'_, LineData>,
    issues: &mut Issues,
) -> BodyAndTime {
    let time = match line.object.raw("timestamp") {
        None if !is_message(&line.object) => LineTime::NotGiven,
        None => LineTime::Invalid,
        Some(raw) => time::read(raw).map_or(LineTime::Invalid, LineTime::At),
    };
    if let Some(sidechain) = sidechain {
        let data = Json::of(&std::collections::BTreeMap::from([(SIDECHAIN_KEY, &sidechain.agent)]));
        let custom = Custom::new(IMPORT_LINE, data.unwrap_or_else(|_| Json::null()));
        return BodyAndTime { body: custom.into(), time };
    }
    let body = body(line, compaction, position, issues).unwrap_or_else(|detail| {
        note_bad_field(issues, line.number, detail);
        custom_of_line(line)
    });
    BodyAndTime { body, time }
}

fn is_message(object: &Object<'_>) -> bool {
    object.text("type").is_some_and(|kind| matches!(kind.as_str(), "user" | "assistant"))
}

/// A custom body whose kind is the type of the line, with the whole line.
fn custom_of_line(line: &ObjectLine<'_>) -> NewBody {
    let kind = line.object.text("type").unwrap_or_else(|| "line".to_owned());
    Custom::new(format!("{}.{kind}", NAME.name()), line.object.without_fields(&[])).into()
}

fn body(
    line: &ObjectLine<'_>,
    compaction: Option<&CompactionData>,
    position: &LinePosition<'_, LineData>,
    issues: &mut Issues,
) -> Result<NewBody, String> {
    let object = &line.object;
    let kind = object.text("type").ok_or("`type` is not a string")?;
    if let Some(body) = agentstore::body_of(object, position) {
        return body;
    }
    match kind.as_str() {
        "user" => {
            let message = message::read_user(line, issues)?;
            let is_contained = position.data().is_some_and(|data| data.is_contained);
            Ok(if is_contained { message.with_visibility(Visibility::Aside) } else { message }.into())
        }
        "assistant" => {
            let carries_usage = position.data().is_some_and(|data| data.carries_usage);
            Ok(message::read_assistant(line, carries_usage, issues)?.into())
        }
        "system" if position.data().is_some_and(|data| data.kind == NodeKind::Boundary) => {
            Ok(read_compaction(line, compaction, position, issues))
        }
        "attachment" => {
            let text = object.object("attachment").and_then(|attachment| text_of_attachment(&attachment));
            Ok(text.map_or_else(|| custom_of_line(line), |text| attachment_message(text).into()))
        }
        "summary" => label(line, position),
        _ => {
            if !OTHER_TYPES.contains(&kind.as_str()) {
                issues.add(line.number, IssueCode::UnknownType, format!("the type `{kind}`"), "kept as a custom entry");
            }
            Ok(custom_of_line(line))
        }
    }
}

/// A compaction covers everything before it except the messages that it keeps. In most cases, its summary is the next
/// message. If it keeps messages that must follow the summary, it contains the summary itself.
fn read_compaction(
    line: &ObjectLine<'_>,
    data: Option<&CompactionData>,
    position: &LinePosition<'_, LineData>,
    issues: &mut Issues,
) -> NewBody {
    let mut compaction = Compaction::default();
    let Some(data) = data else { return compaction.into() };
    let ends = match data.coverage {
        Coverage::Nothing => None,
        Coverage::Covers(from, to) | Coverage::KeptLinesMissing(from, to) => Some((from, to)),
    };
    let ends = ends.and_then(|(from, to)| position.id_of(from).zip(position.id_of(to)));
    compaction.covers = ends.map(|(from, to)| Interval::new(from, to));
    if let Some(summary) = &data.summary {
        compaction.summary = vec![Block::text(summary)];
        compaction.replacement = Some(vec![Message::user(summary)]);
    }
    let problem = PreservedSegment::of(&line.object).err();
    let is_missing = matches!(data.coverage, Coverage::KeptLinesMissing(..));
    if let Some(problem) = problem.or(is_missing.then_some("the lines that it keeps are not before it")) {
        let action = "kept raw; the compaction covers everything before it";
        issues.add(line.number, IssueCode::BadField, format!("a compaction: {problem}"), action);
    }
    compaction.into()
}

/// A summary names the conversation that ends with a given line. Often this line is in another file. In that case the
/// summary becomes a custom entry.
fn label(line: &ObjectLine<'_>, position: &LinePosition<'_, LineData>) -> Result<NewBody, String> {
    let summary = line.object.text("summary").ok_or("`summary` is not a string")?;
    let leaf = line.object.text("leafUuid").ok_or("`leafUuid` is not a string")?;
    Ok(match position.earlier_entry(&leaf) {
        Some(entry) => Label::new(entry, Some(cut_to_1_kib(&summary))).into(),
        None => custom_of_line(line),
    })
}

fn attachment_message(text: String) -> Message {
    let message = Message::new(store_core::Role::User, vec![Block::text(text)]);
    with_provenance(message, None, Some(ATTACHMENT_FORMAT)).with_visibility(Visibility::Internal)
}

/// The text of an attachment, which Claude Code adds to the context.
fn text_of_attachment(attachment: &Object<'_>) -> Option<String> {
    let nested_text = || {
        let content = attachment.object("content")?;
        content.text("content").or_else(|| content.object("file")?.text("content"))
    };
    let joined_texts = |name: &str| {
        let raw = attachment.raw(name)?;
        let list = parse_json_array(raw)?;
        let texts: Option<Vec<_>> =
            list.into_iter().map(|raw| parse_json_string(raw).or_else(|| Object::parse(raw)?.text("text"))).collect();
        texts.map(|texts| texts.join("\n"))
    };
    let text = attachment.text("content").or_else(|| joined_texts("content")).or_else(nested_text);
    let text = text.or_else(|| attachment.text("prompt")).or_else(|| joined_texts("prompt"));
    let text = text.or_else(|| attachment.text("snippet")).or_else(|| attachment.text("text"));
    text.filter(|text| !text.trim().is_empty())
}
