//! Makes records of the wire file, which contains the times of messages and whether a tool failed.

use store_core::{
    BlockKind, Json, Message, Role, Timestamp, ToolResult,
    codec::{Codec, ObjectWriter as Writer},
};

use crate::kimi_cli::{
    encode,
    message::{FAILURE_MARKER, first_text, is_inserted},
};

/// The first line of a wire file.
pub(super) const METADATA_LINE: &str = r#"{"type": "metadata", "protocol_version": "1.10"}"#;

/// Builds the records of messages, in the order of the messages.
#[derive(Default)]
pub(super) struct WireFileBuilder {
    pub(super) lines: Vec<String>,
    /// The number of the last step, if a turn has begun.
    last_step: Option<u64>,
    /// The time of the last message.
    time: Timestamp,
}

impl WireFileBuilder {
    /// Adds the records of a message of a context.
    pub(super) fn add(&mut self, message: &Message, time: Timestamp) {
        let begins_turn = message.role == Role::User && !is_inserted(first_text(&message.blocks));
        if begins_turn {
            self.end_turn();
        }
        self.time = time;
        match message.role {
            Role::User if begins_turn => {
                self.last_step = Some(0);
                self.push("TurnBegin", |payload| {
                    encode::write_content(payload.key("user_input"), message.blocks.iter())
                });
            }
            Role::User | Role::System => {}
            Role::Assistant => self.add_step(message),
            Role::Tool => {
                for block in &message.blocks {
                    if let BlockKind::ToolResult(result) = &block.kind {
                        self.push("ToolResult", |payload| write_result(payload, result));
                    }
                }
            }
        }
    }

    fn add_step(&mut self, message: &Message) {
        let step = self.last_step.unwrap_or_default() + 1;
        self.last_step = Some(step);
        self.push("StepBegin", |payload| {
            payload.field("n", &step);
            Some(())
        });
        for block in &message.blocks {
            match encode::as_tool_use(block) {
                Some(call) => self.push("ToolCall", |payload| {
                    encode::write_call(payload, call)?;
                    let extras = block.opaque.as_ref().and_then(encode::call_extras);
                    payload.field("extras", extras.unwrap_or(&Json::null()));
                    Some(())
                }),
                None => {
                    let mut part = String::new();
                    if encode::write_part(&mut part, block).is_some() {
                        self.push_record("ContentPart", &part);
                    }
                }
            }
        }
    }

    /// Ends the turn, if one has begun.
    pub(super) fn end_turn(&mut self) {
        if self.last_step.take().is_some() {
            self.push_record("TurnEnd", "{}");
        }
    }

    fn push(&mut self, kind: &str, write: impl FnOnce(&mut Writer<'_>) -> Option<()>) {
        let mut payload = String::new();
        let mut object = Writer::open(&mut payload);
        if write(&mut object).is_some() {
            object.close();
            self.push_record(kind, &payload);
        }
    }

    fn push_record(&mut self, kind: &str, payload: &str) {
        let millis = self.time.as_millis();
        let mut kind_text = String::new();
        kind.to_owned().write(&mut kind_text);
        let message = format!("{{\"type\":{kind_text},\"payload\":{payload}}}");
        let seconds = format!("{}.{:03}", millis / 1_000, millis % 1_000);
        self.lines.push(encode::with_spaces(&format!("{{\"timestamp\":{seconds},\"message\":{message}}}")));
    }
}

fn write_result(payload: &mut Writer<'_>, result: &ToolResult) -> Option<()> {
    payload.field("tool_call_id", &result.tool_use_id);
    let mut value = Writer::open(payload.key("return_value"));
    let is_error = result.is_error == Some(true);
    // The first text of a failed result is its error message, after `FAILURE_MARKER`.
    let message = if is_error { first_text(&result.blocks).map(without_failure_marker) } else { None };
    value.field("is_error", &is_error);
    encode::write_content(value.key("output"), result.blocks.iter().skip(usize::from(message.is_some())))?;
    value.field("message", &message.unwrap_or_default().to_owned());
    value.key("display").push_str("[]");
    match &result.details {
        Some(details) => {
            let mut extras = Writer::open(value.key("extras"));
            extras.field("details", details);
            extras.close();
        }
        None => {
            value.field("extras", &Json::null());
        }
    }
    value.close();
    Some(())
}

/// The message of a failed tool, without the marker.
fn without_failure_marker(text: &str) -> &str {
    let message = text.strip_prefix(FAILURE_MARKER).and_then(|rest| rest.strip_suffix("</system>"));
    message.map_or(text, str::trim_start)
}

#[cfg(test)]
mod tests {
    use store_core::{Block, Message, Role, Timestamp};

    use super::WireFileBuilder;

    #[test]
    fn a_turn_has_steps_and_an_end() {
        let mut records = WireFileBuilder::default();
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        records.add(&Message::user("a: b"), at(1_500));
        records.add(&Message::assistant("c"), at(2_005));
        records.add(&Message::user("<system-reminder>d</system-reminder>"), at(2_006));
        records.add(&Message::new(Role::User, vec![Block::text("e")]), at(3_000));
        records.end_turn();
        let expected = [
            r#"{"timestamp": 1.500, "message": {"type": "TurnBegin", "payload": {"user_input": "a: b"}}}"#,
            r#"{"timestamp": 2.005, "message": {"type": "StepBegin", "payload": {"n": 1}}}"#,
            r#"{"timestamp": 2.005, "message": {"type": "ContentPart", "payload": {"type": "text", "text": "c"}}}"#,
            r#"{"timestamp": 2.006, "message": {"type": "TurnEnd", "payload": {}}}"#,
            r#"{"timestamp": 3.000, "message": {"type": "TurnBegin", "payload": {"user_input": "e"}}}"#,
            r#"{"timestamp": 3.000, "message": {"type": "TurnEnd", "payload": {}}}"#,
        ];
        assert_eq!(records.lines, expected);
    }
}
