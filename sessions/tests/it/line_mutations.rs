//! Tests of files in which a line or a field was changed: nothing is lost without an issue, and the export has the same
//! bytes.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{Config, TestCaseError, TestRng, TestRunner},
};
use serde_json::Value;
use sessions::{ImportOptions, ImportReport, import};
use store_core::{Body, CommitCoordinator, ThreadId, Visibility};
use tempfile::tempdir;
use tokio::runtime::Runtime;

use crate::helpers::{entries, export_bytes, fixtures, format, head_path, new_store, write_file};

/// Valid files, and the names of their formats.
const FILES: [(&str, &str); 17] = [
    ("pi/v1-turns", "pi-v1"),
    ("pi/v2-branches", "pi-v2"),
    ("pi/v3-tree", "pi-v3"),
    ("pi/v3-compacted-twice", "pi-v3"),
    ("pi/v4-lanes", "pi-v4"),
    ("codex/turns", "codex"),
    ("codex/rollout", "codex"),
    ("codex/compacted", "codex"),
    ("codex/rolled-back", "codex"),
    ("codex/old-shape", "codex"),
    ("agent-core/branches", "agent-core"),
    ("agent-core/linear-tools", "agent-core"),
    ("agent-core/open-calls", "agent-core"),
    ("claude-code/parallel-calls", "claude-code"),
    ("claude-code/compacted", "claude-code"),
    ("kimi-cli/tool-calls/context", "kimi-cli"),
    ("kimi-cli/parts/context", "kimi-cli"),
];

/// JSON that replaces the value of a field.
const VALUES: [&str; 14] = [
    "null",
    "true",
    "7",
    "-1.5",
    "1e400",
    "123456789012345678901234567890",
    "\"x\"",
    "\"\"",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "[]",
    "{}",
    "[[{}]]",
    "{\"type\":7}",
];

/// A change of a file. Each `Index` chooses a line, a field, or a byte.
#[derive(Debug, Clone)]
pub(crate) enum Mutation {
    Delete(Index),
    /// Copies a line to another place.
    Duplicate(Index, Index),
    Swap(Index, Index),
    /// Cuts a line off at a byte.
    Cut(Index, Index),
    /// Changes one bit of a byte of the file. The number of the bit follows.
    FlipBit(Index, u8),
    Insert(Index, &'static str),
    /// Replaces the value of a field of a line.
    SetField(Index, Index, &'static str),
    RemoveField(Index, Index),
}

pub(crate) fn mutation() -> impl Strategy<Value = Mutation> {
    const ODD_LINES: &[&str] = &["", " \t", "null", "[]", "{}", "\u{feff}{}", "{\"type\":7,\"id\":{}}", "\0\0\0", "\r"];
    let at = any::<Index>;
    prop_oneof![
        1 => at().prop_map(Mutation::Delete),
        1 => (at(), at()).prop_map(|(from, to)| Mutation::Duplicate(from, to)),
        1 => (at(), at()).prop_map(|(a, b)| Mutation::Swap(a, b)),
        1 => (at(), at()).prop_map(|(line, end)| Mutation::Cut(line, end)),
        1 => (at(), 0..8_u8).prop_map(|(at, bit)| Mutation::FlipBit(at, bit)),
        1 => (at(), prop::sample::select(ODD_LINES)).prop_map(|(at, line)| Mutation::Insert(at, line)),
        8 => (at(), at(), prop::sample::select(&VALUES[..])).prop_map(|(l, f, v)| Mutation::SetField(l, f, v)),
        2 => (at(), at()).prop_map(|(line, field)| Mutation::RemoveField(line, field)),
    ]
}

/// A file that mutations change. Each line has the index of the line in the valid file from which it was made, or none
/// if it was inserted.
#[derive(Debug, Clone)]
pub(crate) struct File {
    lines: Vec<(Vec<u8>, Option<usize>)>,
}

impl File {
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let mut lines: Vec<_> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        // Each file ends with a line end.
        assert_eq!(lines.pop().as_deref(), Some(&b""[..]), "{}", path.display());
        Self { lines: lines.into_iter().enumerate().map(|(at, line)| (line, Some(at))).collect() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|(line, _)| [line.as_slice(), b"\n"].concat()).collect()
    }

    pub(crate) fn apply(&mut self, mutation: &Mutation) {
        if self.lines.is_empty() {
            return;
        }
        let count = self.lines.len();
        match mutation {
            Mutation::Delete(at) => drop(self.lines.remove(at.index(count))),
            Mutation::Duplicate(from, to) => {
                let copy = self.lines[from.index(count)].clone();
                self.lines.insert(to.index(count + 1), copy);
            }
            Mutation::Swap(a, b) => self.lines.swap(a.index(count), b.index(count)),
            Mutation::Cut(line, end) => {
                let line = &mut self.lines[line.index(count)].0;
                line.truncate(end.index(line.len().max(1)));
            }
            Mutation::FlipBit(at, bit) => {
                let mut bytes = self.bytes();
                let at = at.index(bytes.len());
                let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count();
                bytes[at] ^= 1 << bit;
                let start = self.lines[..line].iter().map(|(line, _)| line.len() + 1).sum::<usize>();
                if let Some(byte) = self.lines[line].0.get_mut(at - start).filter(|_| bytes[at] != b'\n') {
                    *byte = bytes[at];
                }
            }
            Mutation::Insert(at, line) => self.lines.insert(at.index(count + 1), (line.as_bytes().to_vec(), None)),
            Mutation::SetField(line, field, value) => {
                change_field(&mut self.lines[line.index(count)].0, *field, Some(value));
            }
            Mutation::RemoveField(line, field) => change_field(&mut self.lines[line.index(count)].0, *field, None),
        }
    }
}

/// The JSON pointers of all fields and items below a value.
fn pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let mut add = |name: &str, value: &Value| {
        let below = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
        found.push(below.clone());
        pointers(value, &below, found);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| add(name, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, value)| add(&at.to_string(), value)),
        _ => {}
    }
}

/// Sets or removes a field of a line, at any depth.
fn change_field(line: &mut Vec<u8>, field: Index, new: Option<&str>) {
    const PLACEHOLDER: &str = "the place of the new value";
    let Ok(mut value) = serde_json::from_slice::<Value>(line) else { return };
    let mut found = Vec::new();
    pointers(&value, "", &mut found);
    if found.is_empty() {
        return;
    }
    let pointer = &found[field.index(found.len())];
    match new {
        Some(_) => *value.pointer_mut(pointer).unwrap() = Value::String(PLACEHOLDER.to_owned()),
        None => {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            match value.pointer_mut(parent).unwrap() {
                Value::Object(fields) => drop(fields.remove(&name.replace("~1", "/").replace("~0", "~"))),
                Value::Array(items) => drop(items.remove(name.parse().unwrap())),
                _ => {}
            }
        }
    }
    let text = serde_json::to_string(&value).unwrap();
    *line = text.replace(&format!("\"{PLACEHOLDER}\""), new.unwrap_or_default()).into_bytes();
}

/// What an import stored of a file, and what it reported.
#[derive(Debug, PartialEq)]
struct ImportResult {
    /// For each line with an entry: whether the entry is a message or a compaction.
    has_content_by_line: BTreeMap<u64, bool>,
    /// The number of messages that a model gets: those on the path of the head that are not asides.
    sent_messages: usize,
    /// The line, the code and the detail of each issue.
    issues: Vec<(Option<u64>, &'static str, String)>,
    /// The number of messages in the report.
    reported_messages: u64,
}

async fn result_of_import(commits: &dyn CommitCoordinator, thread: &ThreadId, report: &ImportReport) -> ImportResult {
    let mut has_content_by_line = BTreeMap::new();
    for entry in entries(commits, thread).await {
        let is_content = matches!(&*entry.body, Body::Message(_) | Body::Compaction(_));
        let line = entry.origin.as_ref().map_or(0, |origin| origin.line);
        *has_content_by_line.entry(line).or_default() |= is_content;
    }
    let path = head_path(commits, thread).await;
    let messages = path.iter().filter_map(|entry| entry.message());
    let sent_messages = messages.filter(|message| message.visibility != Visibility::Aside).count();
    let issues = report.issues.iter().map(|issue| (issue.line, issue.code.name(), issue.detail.clone())).collect();
    ImportResult { has_content_by_line, sent_messages, issues, reported_messages: report.messages }
}

/// Imports a file, and makes the checks that every file must pass. Returns nothing if the file is refused.
async fn import_and_check(bytes: &[u8], name: &str) -> Result<Option<ImportResult>, String> {
    let folder = tempdir().unwrap();
    let path = write_file(folder.path(), "file.jsonl", bytes);
    let reports_of_detected_format =
        import(&*new_store(), &path, &ImportOptions::default()).await.map_err(|e| e.to_string())?;
    if let Some(refused) =
        reports_of_detected_format.iter().find(|report| !report.is_imported() && report.issues.is_empty())
    {
        return Err(format!("refused without an issue: {refused:?}"));
    }
    let commits: Arc<dyn CommitCoordinator> = new_store();
    let options = ImportOptions::default().with_format(format(name));
    let report = import(&*commits, &path, &options).await.map_err(|e| e.to_string())?.remove(0);
    let Some(thread) = &report.thread else {
        return if report.issues.is_empty() { Err("refused without an issue".to_owned()) } else { Ok(None) };
    };
    if report.messages == 0 && report.issues.is_empty() {
        return Err("an empty thread without an issue".to_owned());
    }
    let (exported_bytes, exact) = export_bytes(&*commits, thread, report.format.unwrap().parse().unwrap()).await;
    if !exact || exported_bytes != bytes {
        return Err(format!("the export differs:\n{}", String::from_utf8_lossy(&exported_bytes)));
    }
    let queued = commits.pending().load_queue(thread).await.unwrap();
    let again = import(&*commits, &path, &options).await.map_err(|e| e.to_string())?.remove(0);
    if again.added != 0 || again.thread != report.thread {
        return Err(format!("imported twice: {again:?}"));
    }
    if commits.pending().load_queue(thread).await.unwrap() != queued {
        return Err("the second import changed the queue".to_owned());
    }
    Ok(Some(result_of_import(&*commits, thread, &report).await))
}

/// Checks that an issue names each line that is a message in the valid file but not in the changed file.
fn check_lines(valid: &ImportResult, file: &File, changed: &ImportResult) -> Result<(), String> {
    for (at, (line, from)) in file.lines.iter().enumerate() {
        let number = at as u64 + 1;
        let was_content = from.is_some_and(|from| valid.has_content_by_line.get(&(from as u64 + 1)) == Some(&true));
        let is_content = changed.has_content_by_line.get(&number) == Some(&true);
        let is_blank = line.iter().all(u8::is_ascii_whitespace);
        if was_content && !is_content && !is_blank && !changed.issues.iter().any(|(line, ..)| *line == Some(number)) {
            return Err(format!("line {number} is no message any more, and no issue says so: {:?}", changed.issues));
        }
    }
    Ok(())
}

/// Checks that the changed file has a new issue if its path has more or fewer messages than that of the valid file.
fn check_path(valid: &ImportResult, changed: &ImportResult) -> Result<(), String> {
    if changed.sent_messages != valid.sent_messages && changed.issues.iter().all(|issue| valid.issues.contains(issue)) {
        return Err(format!("{} of {} messages are on the path", changed.sent_messages, valid.sent_messages));
    }
    Ok(())
}

/// The valid files, each with the result of its import.
fn valid_files(runtime: &Runtime) -> Vec<(File, ImportResult)> {
    let read = |(name, format_name): &(&str, &str)| {
        let file = File::read(&fixtures().join(name).with_extension("jsonl"));
        let found = runtime.block_on(import_and_check(&file.bytes(), format_name)).unwrap().unwrap();
        (file, found)
    };
    FILES.iter().map(read).collect()
}

/// Changes a file, imports it, and checks the result.
fn check(runtime: &Runtime, at: usize, valid: &(File, ImportResult), mutations: &[Mutation]) -> Result<(), String> {
    let ((name, format_name), (file, valid)) = (FILES[at], valid);
    let mut file = file.clone();
    mutations.iter().for_each(|mutation| file.apply(mutation));
    let checked = runtime.block_on(import_and_check(&file.bytes(), format_name)).and_then(|changed| {
        // In a file of Claude Code, a changed field can move a line to the thread of a subagent. This thread then lacks
        // the message, and no issue is needed. So the checks are skipped.
        let Some(changed) = changed.filter(|_| format_name != "claude-code") else { return Ok(()) };
        check_lines(valid, &file, &changed)?;
        match mutations {
            // An empty list is a valid value of `content` and of a list of calls. So it can remove messages from the
            // path without an issue.
            [Mutation::SetField(_, _, value)] if *value != "[]" => check_path(valid, &changed),
            _ => Ok(()),
        }
    });
    checked.map_err(|error| format!("{name}: {error}\n{}", String::from_utf8_lossy(&file.bytes())))
}

/// Runs a test with generated values, the same in each run. `PROPTEST_CASES` sets the number of values.
pub(crate) fn run_cases<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), String>) {
    let cases = std::env::var("PROPTEST_CASES").ok().map_or(cases, |cases| cases.parse().unwrap());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let result = TestRunner::new_with_rng(config, rng).run(strategy, |value| test(value).map_err(TestCaseError::fail));
    let failure = result.map_or_else(|error| error.to_string(), |()| String::new());
    assert!(failure.is_empty(), "{failure}");
}

#[test]
fn a_changed_line_or_field_is_never_lost_without_an_issue() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let valid = valid_files(&runtime);
    let strategy = (0..FILES.len(), prop::collection::vec(mutation(), 1..3));
    run_cases(200, &strategy, |(at, mutations)| check(&runtime, at, &valid[at], &mutations));
}
