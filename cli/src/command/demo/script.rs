//! Generates the session file that the tour imports: about 1,000 lines in the format of the tool pi. An assistant adds
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
const INTERRUPTED: &str = "furlong";

/// The unit after which the conversation is compacted.
const COMPACTED: &str = "league";

/// The most lines of the program that one read returns.
const READ_LINES: usize = 30;

/// Returns the content of the session file.
pub(super) fn session() -> String {
    let mut script = Script::begin();
    for (from, metres) in UNITS {
        let before = script.last.clone();
        if from == INTERRUPTED {
            script.user("Put the conversions of the furlong into a table.");
            script.interrupted();
            script.last = before;
        }
        for (to, other) in UNITS.into_iter().filter(|(to, _)| *to != from) {
            script.conversion(from, to, metres / other);
        }
        let kept = script.test(from);
        if from == COMPACTED {
            script.compaction(&kept);
        }
    }
    script.text
}

/// A session file that is being written.
struct Script {
    text: String,
    lines: u32,
    calls: u32,
    /// The id of the parent of the next line.
    last: Option<String>,
    /// The lines of the program that the assistant works on.
    code: Vec<String>,
}

impl Script {
    fn begin() -> Self {
        let mut script = Self { text: String::new(), lines: 0, calls: 0, last: None, code: Vec::new() };
        let time = script.time();
        let header = format!(r#""id":"5e55107a-0000-4000-8000-000000001000","timestamp":"{time}","cwd":"/work/units""#);
        script.text = format!("{{\"type\":\"session\",\"version\":3,{header}}}\n");
        script.line("model_change", r#""provider":"anthropic","modelId":"claude-sonnet-4-5""#);
        script.line("thinking_level_change", r#""thinkingLevel":"low""#);
        script
    }

    /// Writes a request of the user for a conversion, and the work of the assistant: it reads the program, adds a
    /// function and answers.
    fn conversion(&mut self, from: &str, to: &str, factor: f64) {
        let function = format!("pub fn {from}_to_{to}(length: f64) -> f64 {{ length * {factor:.6} }}");
        self.user(&format!("Add a conversion from {from} to {to}."));
        let thought = format!("One {from} is {factor:.6} {to}. I look at what is there first.");
        let offset = self.code.len().saturating_sub(READ_LINES);
        self.calls(Some(&thought), "read", &format!(r#"{{"path":"src/lib.rs","offset":{}}}"#, offset + 1));
        let shown = self.code.iter().skip(offset).map(|line| format!("{line}\n")).collect::<String>();
        self.result("read", &shown);
        self.calls(None, "append", &format!(r#"{{"path":"src/lib.rs","text":{}}}"#, quoted(&function)));
        self.code.push(function);
        self.result("append", &format!("src/lib.rs has {} lines", self.code.len()));
        self.says(&format!("`{from}_to_{to}` is there. It multiplies by {factor:.6}."));
    }

    /// Writes a request of the user for a test run, and the work of the assistant. Returns the id of the request.
    fn test(&mut self, from: &str) -> String {
        let question = self.user(&format!("Run the tests of the {from}."));
        self.calls(None, "bash", &format!(r#"{{"command":"cargo test {from}"}}"#));
        self.result("bash", "test result: ok. 12 passed; 0 failed\n");
        self.says("All 12 conversions pass.");
        question
    }

    /// Writes a compaction whose summary replaces all lines before `kept`.
    fn compaction(&mut self, kept: &str) {
        let functions = self.code.len();
        let summary = format!("src/lib.rs converts between units of length: {functions} functions, all tested.");
        let fields = format!(r#""summary":{},"firstKeptEntryId":"{kept}","tokensBefore":61000"#, quoted(&summary));
        self.line("compaction", &fields);
    }

    fn user(&mut self, text: &str) -> String {
        self.message("user", &format!("[{}]", block("text", text)), "")
    }

    /// Writes a tool call of the assistant.
    fn calls(&mut self, thought: Option<&str>, tool: &str, arguments: &str) {
        let thought = thought.map(|thought| block("thinking", thought) + ",").unwrap_or_default();
        self.calls += 1;
        let id = self.call();
        let call = format!(r#"{{"type":"toolCall","id":"{id}","name":"{tool}","arguments":{arguments}}}"#);
        self.answers(&format!("{thought}{call}"), "toolUse", "");
    }

    fn says(&mut self, text: &str) {
        self.answers(&block("text", text), "stop", "");
    }

    /// Writes the empty answer of an assistant that the user stopped before it had said anything.
    fn interrupted(&mut self) {
        self.answers("", "aborted", r#","errorMessage":"Request was aborted""#);
    }

    fn answers(&mut self, blocks: &str, stop: &str, error: &str) {
        let input = 900 + 40 * (self.lines % 400);
        let usage = format!(r#"{{"input":{input},"output":60,"cacheRead":0,"cacheWrite":0}}"#);
        let of = r#""api":"anthropic-messages","provider":"anthropic","model":"claude-sonnet-4-5""#;
        let fields = format!(r#",{of},"usage":{usage},"stopReason":"{stop}"{error}"#);
        let _id = self.message("assistant", &format!("[{blocks}]"), &fields);
    }

    fn result(&mut self, tool: &str, text: &str) {
        let fields = format!(r#","toolCallId":"{}","toolName":"{tool}","isError":false"#, self.call());
        let _id = self.message("toolResult", &format!("[{}]", block("text", text)), &fields);
    }

    fn message(&mut self, role: &str, content: &str, fields: &str) -> String {
        self.line("message", &format!(r#""message":{{"role":"{role}","content":{content}{fields}}}"#))
    }

    /// Writes a line whose parent is the line before it. Returns the id of the new line.
    fn line(&mut self, kind: &str, fields: &str) -> String {
        self.lines += 1;
        let (id, time) = (format!("{:08x}", self.lines), self.time());
        let parent = self.last.as_deref().map_or_else(|| "null".to_owned(), |last| format!("\"{last}\""));
        let begin = format!(r#""type":"{kind}","id":"{id}","parentId":{parent},"timestamp":"{time}""#);
        let _infallible = writeln!(self.text, "{{{begin},{fields}}}");
        self.last = Some(id.clone());
        id
    }

    fn call(&self) -> String {
        format!("call_{:05}", self.calls)
    }

    /// Returns the time of the current line. Each line is 20 seconds later than the line before it.
    fn time(&self) -> String {
        let seconds = 20 * self.lines;
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
