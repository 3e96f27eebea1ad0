//! Turns lines into entries.

use store_core::{Custom, Json, Label, NewBody};

use super::{LineData, compaction, message};
use crate::{
    blocks::cut_to_1_kib,
    issue::{IssueCode, Issues},
    lines::{BodyAndTime, LinePosition, LineTime, ObjectLine, note_bad_field},
    time,
};

/// The second pass: returns the body and the time of a line.
pub(super) fn read_body_and_time(
    line: &ObjectLine<'_>,
    position: &LinePosition<'_, LineData>,
    issues: &mut Issues,
) -> BodyAndTime {
    let time = line.object.raw("timestamp").and_then(time::read).map_or(LineTime::Invalid, LineTime::At);
    let body = body(line, position, issues).unwrap_or_else(|detail| {
        note_bad_field(issues, line.number, detail);
        custom_of_line(line)
    });
    BodyAndTime { body, time }
}

/// A custom body whose kind is the type of the line, with all other fields of the line.
fn custom_of_line(line: &ObjectLine<'_>) -> NewBody {
    let kind = line.object.text("type").unwrap_or_else(|| "line".to_owned());
    Custom::new(format!("pi.{kind}"), remaining_fields(line)).into()
}

/// All fields of the line except its type, id, parent and time.
fn remaining_fields(line: &ObjectLine<'_>) -> Json {
    line.object.without(&["type", "id", "parentId", "timestamp"])
}

fn body(line: &ObjectLine<'_>, position: &LinePosition<'_, LineData>, issues: &mut Issues) -> Result<NewBody, String> {
    let object = &line.object;
    let kind = object.text("type").ok_or("`type` is not a string")?;
    match kind.as_str() {
        "message" => {
            let fields = object.object("message").ok_or("`message` is not an object")?;
            let role = fields.text("role").ok_or("`role` is not a string")?;
            if !message::is_known_role(&role) {
                issues.add(line.number, IssueCode::UnknownType, format!("the role `{role}`"), "kept as a custom entry");
                return Ok(custom_of_line(line));
            }
            let current_origin = position.data().and_then(|data| data.origin.as_deref());
            Ok(message::read(line.number, &fields, current_origin, issues)?.into())
        }
        "compaction" => compaction::read_body(line, position, issues),
        "branch_summary" => Ok(message::branch_summary(object)?.into()),
        "custom_message" => Ok(message::custom_line(line.number, object, issues)?.into()),
        "label" => label(line, position),
        "custom" | "session_info" | "model_change" | "thinking_level_change" | "active_tools_change" => {
            Ok(custom_of_line(line))
        }
        _ => {
            issues.add(line.number, IssueCode::UnknownType, format!("the type `{kind}`"), "kept as a custom entry");
            Ok(custom_of_line(line))
        }
    }
}

fn label(line: &ObjectLine<'_>, position: &LinePosition<'_, LineData>) -> Result<NewBody, String> {
    let target = line.object.text("targetId").ok_or("`targetId` is not a string")?;
    let entry = position.earlier_entry(&target).ok_or_else(|| format!("`{target}` does not come before its label"))?;
    let text = match line.object.raw("label") {
        None | Some("null") => None,
        Some(_) => Some(line.object.text("label").ok_or("`label` is not a string")?),
    };
    Ok(Label::new(entry, text.as_deref().map(cut_to_1_kib)).into())
}
