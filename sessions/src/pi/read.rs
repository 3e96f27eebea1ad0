//! The second pass: turns lines into bodies.

use store_core::{Custom, Label, NewBody};

use super::{
    LineData, Pi, V4, agentstore_field,
    calls::name_of_message,
    compaction, edits,
    message::{self, MessageSource},
    v4,
};
use crate::{
    blocks::cut_to_1_kib,
    issue::{IssueCode, Issues},
    json::Object,
    lines::{BodyAndTime, LinePosition, LineTime, ObjectLine, note_bad_field},
    time,
};

/// The fields of a line of versions 1 to 3 that are not part of its body.
const FIELDS_OUTSIDE_BODY: &[&str] = &["type", "id", "parentId", "timestamp"];

/// The second pass: returns the body and the time of a line.
pub(super) fn read_body_and_time(
    line: &ObjectLine<'_>,
    position: &LinePosition<'_, LineData>,
    pi: &Pi,
    issues: &mut Issues,
) -> BodyAndTime {
    let is_v4 = pi.version == V4;
    let kind = line.object.text("kind");
    // Lanes, facts and the title before a header have no time.
    let has_no_time = match is_v4 {
        true => !matches!(kind.as_deref(), Some("entry" | "record")),
        false => line.object.text("type").as_deref() == Some("title"),
    };
    let time = match line.object.raw("timestamp") {
        None if has_no_time => LineTime::NotGiven,
        None => LineTime::Invalid,
        Some(raw) => time::read(raw).map_or(LineTime::Invalid, LineTime::At),
    };
    let fields_outside_body = fields_outside_body(pi);
    let body = match is_v4 && kind.as_deref() != Some("entry") {
        true => v4::side_body(line, position, issues),
        false => body(line, position, pi, issues),
    };
    let body = body.unwrap_or_else(|detail| {
        note_bad_field(issues, line.number, detail);
        custom_of_line(line, fields_outside_body)
    });
    BodyAndTime { body, time }
}

/// The fields of a line that are not part of its body, in the version of the file.
fn fields_outside_body(pi: &Pi) -> &'static [&'static str] {
    if pi.version == V4 { v4::FIELDS_OUTSIDE_BODY } else { FIELDS_OUTSIDE_BODY }
}

/// A custom body whose kind is the type of the line. It contains the fields of the line except `fields_outside_body`.
pub(super) fn custom_of_line(line: &ObjectLine<'_>, fields_outside_body: &[&str]) -> NewBody {
    let kind = line.object.text("type").or_else(|| line.object.text("kind")).unwrap_or_else(|| "line".to_owned());
    Custom::new(format!("pi.{kind}"), line.object.without_fields(fields_outside_body)).into()
}

fn body(
    line: &ObjectLine<'_>,
    position: &LinePosition<'_, LineData>,
    pi: &Pi,
    issues: &mut Issues,
) -> Result<NewBody, String> {
    let fields_outside_body = fields_outside_body(pi);
    let object = &line.object;
    let kind = object.text("type").ok_or("`type` is not a string")?;
    if let Some(field) = agentstore_field(object) {
        return field.body(object.text("parentId").as_deref(), position);
    }
    let name = name_of_message(object.text("id").as_deref(), line.number);
    let source = MessageSource {
        line: line.number,
        name: &name,
        origin: position.at.and_then(|at| pi.origins.get(at)).map(|origin| &**origin),
        answered_call: pi.sparse_data.calls.answered_by(line.number),
    };
    match kind.as_str() {
        "message" => {
            let fields = object.object("message").ok_or("`message` is not an object")?;
            let role = fields.text("role").ok_or("`role` is not a string")?;
            if !message::is_known_role(&role) {
                issues.add(line.number, IssueCode::UnknownType, format!("the role `{role}`"), "kept as a custom entry");
                return Ok(custom_of_line(line, fields_outside_body));
            }
            Ok(message::read(source, &fields, issues)?.into())
        }
        "compaction" => compaction::read_body(line, position, &pi.sparse_data, issues),
        "branch_summary" => Ok(message::branch_summary(object)?.into()),
        "custom_message" => Ok(message::custom_line(source, object, issues)?.into()),
        "context_edit" => Ok(edits::read_body(line, position, &pi.sparse_data.edits, issues)?
            .unwrap_or_else(|| custom_of_line(line, fields_outside_body))),
        "usage" => Ok(message::usage_record(object).ok_or("`usage` is missing or wrong")?.into()),
        "label" => label_body(line, position),
        "custom" | "session_info" | "model_change" | "thinking_level_change" | "active_tools_change" | "title" => {
            Ok(custom_of_line(line, fields_outside_body))
        }
        _ => {
            issues.add(line.number, IssueCode::UnknownType, format!("the type `{kind}`"), "kept as a custom entry");
            Ok(custom_of_line(line, fields_outside_body))
        }
    }
}

fn label_body(line: &ObjectLine<'_>, position: &LinePosition<'_, LineData>) -> Result<NewBody, String> {
    let target = line.object.text("targetId").ok_or("`targetId` is not a string")?;
    let entry = position.earlier_entry(&target).ok_or_else(|| format!("`{target}` does not come before its label"))?;
    Ok(Label::new(entry, label_text(&line.object)?).into())
}

/// The text of a label. Without a text, the label is removed.
pub(super) fn label_text(object: &Object<'_>) -> Result<Option<String>, String> {
    if !object.has("label") {
        return Ok(None);
    }
    let text = object.text("label").ok_or("`label` is not a string")?;
    Ok(Some(cut_to_1_kib(&text)))
}
