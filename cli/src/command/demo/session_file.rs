//! Generates the session file that the demo imports: about 1,000 lines in the format of the tool pi. An assistant adds
//! conversions between units of length to a program and tests them. The user interrupts the assistant once, goes back
//! and asks differently. Later the conversation is compacted.

use std::fmt::Write as _;

/// Units of length, each with its length in metres.
const UNITS: [(&str, f64); 13] = [
    ("inch", 0.0254),
    ("foot", 0.3048),
    ("yard", 0.9144),
    ("rod", 5.0292),
    ("chain", 20.1168),
    ("furlong", 201.168),
    ("mile", 1609.344),
    ("league", 4828.032),
    ("fathom", 1.8288),
    ("cable", 185.2),
    ("nautical_mile", 1852.0),
    ("metre", 1.0),
    ("kilometre", 1000.0),
];

/// The unit at which the user interrupts the assistant and starts a second branch.
const INTERRUPTED_UNIT: &str = "furlong";

/// The unit after which the conversation is compacted.
const LAST_UNIT_BEFORE_COMPACTION: &str = "league";

/// The maximum number of lines of the program that one read returns.
const MAX_READ_LINES: usize = 30;

/// Returns the content of the session file.
pub(super) fn generate() -> String {
    let mut builder = SessionFileBuilder::begin();
    for (from, metres) in UNITS {
        let parent_before = builder.parent_id.clone();
        if from == INTERRUPTED_UNIT {
            builder.write_user_message("Put the conversions of the furlong into a table.");
            builder.write_interrupted_answer();
            builder.parent_id = parent_before;
        }
        for (to, other_metres) in UNITS.into_iter().filter(|(to, _)| *to != from) {
            builder.write_conversion(from, to, metres / other_metres);
        }
        let test_request = builder.write_test_run(from);
        if from == LAST_UNIT_BEFORE_COMPACTION {
            builder.write_compaction(&test_request);
        }
    }
    builder.text
}

/// A session file that is being written.
struct SessionFileBuilder {
    text: String,
    line_count: u32,
    call_count: u32,
    /// The id of the parent of the next line.
    parent_id: Option<String>,
    /// The lines of the program that the assistant works on.
    code: Vec<String>,
}

impl SessionFileBuilder {
    fn begin() -> Self {
        let mut builder = Self { text: String::new(), line_count: 0, call_count: 0, parent_id: None, code: Vec::new() };
        let time = builder.time();
        let header = format!(r#""id":"5e55107a-0000-4000-8000-000000001000","timestamp":"{time}","cwd":"/work/units""#);
        builder.text = format!("{{\"type\":\"session\",\"version\":3,{header}}}\n");
        builder.write_line("model_change", r#""provider":"anthropic","modelId":"claude-sonnet-4-5""#);
        builder.write_line("thinking_level_change", r#""thinkingLevel":"low""#);
        builder
    }

    /// Writes a request of the user for a conversion, and the work of the assistant: it reads the program, adds a
    /// function and answers.
    fn write_conversion(&mut self, from: &str, to: &str, factor: f64) {
        let function = format!("pub fn {from}_to_{to}(length: f64) -> f64 {{ length * {factor:.6} }}");
        self.write_user_message(&format!("Add a conversion from {from} to {to}."));
        let thought = format!("One {from} is {factor:.6} {to}. I look at what is there first.");
        let offset = self.code.len().saturating_sub(MAX_READ_LINES);
        self.write_tool_call(Some(&thought), "read", &format!(r#"{{"path":"src/lib.rs","offset":{}}}"#, offset + 1));
        let read_lines = self.code.iter().skip(offset).map(|line| format!("{line}\n")).collect::<String>();
        self.write_tool_result("read", &read_lines);
        self.write_tool_call(None, "append", &format!(r#"{{"path":"src/lib.rs","text":{}}}"#, quoted(&function)));
        self.code.push(function);
        self.write_tool_result("append", &format!("src/lib.rs has {} lines", self.code.len()));
        self.write_answer(&format!("`{from}_to_{to}` is there. It multiplies by {factor:.6}."));
    }

    /// Writes a request of the user for a test run, and the work of the assistant. Returns the id of the request.
    fn write_test_run(&mut self, from: &str) -> String {
        let question = self.write_user_message(&format!("Run the tests of the {from}."));
        self.write_tool_call(None, "bash", &format!(r#"{{"command":"cargo test {from}"}}"#));
        self.write_tool_result("bash", "test result: ok. 12 passed; 0 failed\n");
        self.write_answer("All 12 conversions pass.");
        question
    }

    /// Writes a compaction whose summary replaces all lines before `first_kept`.
    fn write_compaction(&mut self, first_kept: &str) {
        let functions = self.code.len();
        let summary = format!("src/lib.rs converts between units of length: {functions} functions, all tested.");
        let fields =
            format!(r#""summary":{},"firstKeptEntryId":"{first_kept}","tokensBefore":61000"#, quoted(&summary));
        self.write_line("compaction", &fields);
    }

    fn write_user_message(&mut self, text: &str) -> String {
        self.write_message("user", &format!("[{}]", block("text", text)), "")
    }

    /// Writes a tool call of the assistant.
    fn write_tool_call(&mut self, thought: Option<&str>, tool: &str, arguments: &str) {
        let thought = thought.map(|thought| block("thinking", thought) + ",").unwrap_or_default();
        self.call_count += 1;
        let id = self.current_call_id();
        let call = format!(r#"{{"type":"toolCall","id":"{id}","name":"{tool}","arguments":{arguments}}}"#);
        self.write_assistant_message(&format!("{thought}{call}"), "toolUse", "");
    }

    fn write_answer(&mut self, text: &str) {
        self.write_assistant_message(&block("text", text), "stop", "");
    }

    /// Writes the empty answer of an assistant that the user stopped before it had said anything.
    fn write_interrupted_answer(&mut self) {
        self.write_assistant_message("", "aborted", r#","errorMessage":"Request was aborted""#);
    }

    fn write_assistant_message(&mut self, blocks: &str, stop_reason: &str, error_field: &str) {
        let input = 900 + 40 * (self.line_count % 400);
        let usage = format!(r#"{{"input":{input},"output":60,"cacheRead":0,"cacheWrite":0}}"#);
        let model_fields = r#""api":"anthropic-messages","provider":"anthropic","model":"claude-sonnet-4-5""#;
        let fields = format!(r#",{model_fields},"usage":{usage},"stopReason":"{stop_reason}"{error_field}"#);
        let _id = self.write_message("assistant", &format!("[{blocks}]"), &fields);
    }

    fn write_tool_result(&mut self, tool: &str, text: &str) {
        let fields = format!(r#","toolCallId":"{}","toolName":"{tool}","isError":false"#, self.current_call_id());
        let _id = self.write_message("toolResult", &format!("[{}]", block("text", text)), &fields);
    }

    fn write_message(&mut self, role: &str, content: &str, fields: &str) -> String {
        self.write_line("message", &format!(r#""message":{{"role":"{role}","content":{content}{fields}}}"#))
    }

    /// Writes a line whose parent is `parent_id`, and makes it the parent of the next line. Returns the id of the new
    /// line.
    fn write_line(&mut self, kind: &str, fields: &str) -> String {
        self.line_count += 1;
        let (id, time) = (format!("{:08x}", self.line_count), self.time());
        let parent = self.parent_id.as_deref().map_or_else(|| "null".to_owned(), |id| format!("\"{id}\""));
        let common_fields = format!(r#""type":"{kind}","id":"{id}","parentId":{parent},"timestamp":"{time}""#);
        let _infallible = writeln!(self.text, "{{{common_fields},{fields}}}");
        self.parent_id = Some(id.clone());
        id
    }

    fn current_call_id(&self) -> String {
        format!("call_{:05}", self.call_count)
    }

    /// Returns the time of the current line. Each line is 20 seconds later than the line before it.
    fn time(&self) -> String {
        let seconds = 20 * self.line_count;
        format!("2026-03-02T{:02}:{:02}:{:02}.000Z", 9 + seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

/// Returns a block of type `kind`, with its text in the field of the same name.
fn block(kind: &str, text: &str) -> String {
    format!(r#"{{"type":"{kind}","{kind}":{}}}"#, quoted(text))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
