//! Turns lines of a context file into bodies of entries.

use store_core::{Custom, NewBody, UsageRecord, log::check_message};

use super::message;
use crate::{
    issue::{IssueCode, Issues},
    json::Object,
    lines::note_bad_field,
};

/// The body of a line, and whether its entry is a side entry.
#[derive(Debug)]
pub(super) struct LineBody {
    pub(super) body: NewBody,
    /// Whether the entry is a side entry.
    pub(super) side: bool,
}

impl LineBody {
    const fn in_tree(body: NewBody) -> Self {
        Self { body, side: false }
    }

    const fn side_entry(body: NewBody) -> Self {
        Self { body, side: true }
    }
}

/// Reads a line that is an object.
pub(super) fn read(line: u64, object: &Object<'_>, issues: &mut Issues) -> LineBody {
    let Some(role) = object.text("role") else {
        note_bad_field(issues, line, "`role` is not a string");
        return custom_of_line("line", object);
    };
    read_body(line, &role, object, issues).unwrap_or_else(|detail| {
        note_bad_field(issues, line, detail);
        custom_of_line(&role, object)
    })
}

/// The body of a side entry: a custom body whose kind is the role of the line, with all other fields of the line.
fn custom_of_line(kind: &str, object: &Object<'_>) -> LineBody {
    LineBody::side_entry(Custom::new(format!("kimi-cli.{kind}"), object.without_fields(&["role"])).into())
}

fn read_body(line: u64, role: &str, object: &Object<'_>, issues: &mut Issues) -> Result<LineBody, String> {
    match role {
        "_checkpoint" => {
            let number = object.number("id").ok_or("`id` is not a whole number")?;
            Ok(LineBody::in_tree(NewBody::Checkpoint { number: Some(number), label: None }))
        }
        "_usage" => {
            let mut usage = UsageRecord::default();
            usage.context_size = Some(object.number("token_count").ok_or("`token_count` is not a whole number")?);
            Ok(LineBody::side_entry(usage.into()))
        }
        _ => match message::read(line, role, object, issues) {
            Some(message) => {
                let message = message?;
                check_message(&message).map_err(|e| e.to_string())?;
                Ok(LineBody::in_tree(message.into()))
            }
            None => {
                issues.add(line, IssueCode::UnknownType, format!("the role `{role}`"), "kept as a custom entry");
                Ok(custom_of_line(role, object))
            }
        },
    }
}
