//! Tests that the import of every kimi-cli session matches its expectation, and that a second import changes nothing.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use sessions::{ImportOptions, ImportReport, IssueCode, import};
use sha2::{Digest, Sha256};
use store_core::{Block, BlockKind, Body, CommitCoordinator, Entry};

use crate::helpers::{custom_kind, entries, fixtures, new_store, read_json};

/// The text that kimi-cli writes in front of a summary.
const COMPACTION_MARKER: &str = "<system>Previous context has been compacted. Here is the compaction output:</system>";

/// The session folders below a folder with the layout of `fixtures`. A session folder has an expectation beside it.
pub(crate) fn session_folders(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut unread_folders = vec![root.join("kimi-cli"), root.join("bad")];
    while let Some(folder) = unread_folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if expectation_path(&path).exists() { found.push(path) } else { unread_folders.push(path) }
            }
        }
    }
    found.sort();
    found
}

fn expectation_path(folder: &Path) -> PathBuf {
    folder.with_file_name(format!("{}.expect.json", folder.file_name().unwrap().to_string_lossy()))
}

/// Imports a session folder.
pub(crate) async fn import_session(commits: &dyn CommitCoordinator, folder: &Path) -> Vec<ImportReport> {
    import(commits, folder, &ImportOptions::default()).await.unwrap()
}

/// The entry that represents each line of a file. For a line that the file shares with an earlier file
/// (`kimi-cli.shared`), this is the entry of the earlier file.
struct FileEntries {
    lines: BTreeMap<u64, Arc<Entry>>,
}

impl FileEntries {
    /// Collects the entries of a file, whose ids begin with `prefix`.
    fn of(all: &[Arc<Entry>], prefix: &str) -> Self {
        let entry_with_id = |id: &str| all.iter().find(|entry| entry.id.as_str() == id).unwrap();
        let mut lines = BTreeMap::new();
        for entry in all {
            let Some(rest) = entry.id.as_str().strip_prefix(prefix).and_then(|rest| rest.strip_prefix('L')) else {
                continue;
            };
            let line = entry.origin.as_ref().unwrap().line;
            if line == 0 {
                continue;
            }
            assert!(rest.starts_with(&line.to_string()), "{}", entry.id);
            let mut found = entry;
            if let Body::Custom(custom) = &*entry.body
                && custom.kind == "kimi-cli.shared"
            {
                let data: Value = serde_json::from_str(custom.data.as_str()).unwrap();
                found = entry_with_id(data["entry"].as_str().unwrap());
            }
            assert!(lines.insert(line, Arc::clone(found)).is_none(), "{}", entry.id);
        }
        Self { lines }
    }

    /// The number of entries for each role. The role of an entry is that of its line.
    fn count_by_role(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for entry in self.lines.values().filter(|entry| custom_kind(entry) != "import.line") {
            *counts.entry(line_role(entry)).or_default() += 1;
        }
        counts
    }

    /// The number and the SHA-256 of the texts, without the instructions.
    fn text_count_and_hash(&self) -> (u64, String) {
        let mut pieces = Vec::new();
        for entry in self.lines.values() {
            match &*entry.body {
                Body::Message(_) if line_role(entry) == "_system_prompt" => {}
                Body::Message(message) => collect_texts(&message.blocks, &mut pieces),
                Body::Compaction(compaction) => {
                    pieces.push(COMPACTION_MARKER.to_owned());
                    collect_texts(&compaction.summary, &mut pieces);
                }
                _ => {}
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        let hash = Sha256::digest(pieces.join("\n").as_bytes());
        (pieces.len() as u64, hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn count(&self, is_counted: impl Fn(&BlockKind) -> bool) -> u64 {
        let blocks = self.lines.values().filter_map(|entry| entry.message()).flat_map(|message| &message.blocks);
        blocks.filter(|block| is_counted(&block.kind)).count() as u64
    }
}

fn line_role(entry: &Entry) -> String {
    match &*entry.body {
        Body::Message(message) => {
            let format = message.provenance.as_ref().and_then(|provenance| provenance.format.as_deref());
            format.map_or_else(|| message.role.to_string(), |format| format.replace("kimi-cli.", ""))
        }
        Body::Checkpoint(_) => "_checkpoint".to_owned(),
        Body::Usage(_) => "_usage".to_owned(),
        Body::Compaction(_) => "user".to_owned(),
        Body::Custom(custom) if custom.kind == "kimi-cli.line" => "(no role)".to_owned(),
        Body::Custom(custom) => custom.kind.replace("kimi-cli.", ""),
        _ => "?".to_owned(),
    }
}

fn collect_texts(blocks: &[Block], pieces: &mut Vec<String>) {
    for block in blocks {
        match &block.kind {
            BlockKind::Text(text) => pieces.push(text.clone()),
            BlockKind::ToolResult(result) => collect_texts(&result.blocks, pieces),
            _ => {}
        }
    }
}

fn issue_lines(report: &ImportReport, file: &str, code: IssueCode) -> Value {
    let found = report.issues.iter().filter(|issue| issue.code == code && issue.file.as_deref() == Some(file));
    found.filter_map(|issue| issue.line).collect::<Vec<_>>().into()
}

/// Compares the entries of one context file with its expectation.
fn check_context(file: &FileEntries, expectation: &Value, name: &str) {
    assert_eq!(json!(file.count_by_role()), expectation["entries_by_type"], "{name}");
    let mut roles = file.count_by_role();
    roles.retain(|role, _| ["user", "assistant", "system", "tool"].contains(&role.as_str()));
    assert_eq!(json!(roles), expectation["messages_by_role"], "{name}");
    let (pieces, hash) = file.text_count_and_hash();
    assert_eq!(json!(pieces), expectation["main_path_text_pieces"], "{name}");
    assert_eq!(json!(hash), expectation["main_path_text_sha256"], "{name}");
    let calls = file.count(|kind| matches!(kind, BlockKind::ToolUse(_)));
    let results = file.count(|kind| matches!(kind, BlockKind::ToolResult(_)));
    assert_eq!(
        (json!(calls), json!(results)),
        (expectation["tool_calls"].clone(), expectation["tool_results"].clone()),
        "{name}"
    );
    let last_value =
        |value: fn(&Body) -> Option<u64>| file.lines.values().filter_map(|entry| value(&entry.body)).next_back();
    let checkpoint = last_value(|body| match body {
        Body::Checkpoint(checkpoint) => Some(checkpoint.number),
        _ => None,
    });
    // If the id of a checkpoint line is not a number, the line does not become a checkpoint. Only one file has such a
    // line, and its last real checkpoint has the number 0.
    let expected_checkpoint =
        expectation["last_checkpoint"].as_u64().or(expectation["last_checkpoint"].as_str().map(|_| 0));
    assert_eq!(checkpoint, expected_checkpoint, "{name}");
    let tokens = last_value(|body| match body {
        Body::Usage(usage) => usage.context_size,
        _ => None,
    });
    assert_eq!(json!(tokens), expectation["last_token_count"], "{name}");
}

/// Checks the issues of one file.
fn check_issues(report: &ImportReport, expectation: &Value, file: &str) {
    for (code, field) in [
        (IssueCode::MalformedLine, "malformed_lines"),
        (IssueCode::InvalidUtf8, "invalid_utf8_lines"),
        (IssueCode::ControlCharacter, "raw_control_character_lines"),
        (IssueCode::LoneSurrogate, "lone_surrogate_lines"),
        (IssueCode::Nul, "nul_lines"),
    ] {
        assert_eq!(issue_lines(report, file, code), expectation[field], "{file}: {field}");
    }
    let count = |code| issue_lines(report, file, code).as_array().unwrap().len();
    assert_eq!(json!(count(IssueCode::OpenCall)), expectation["calls_without_result"], "{file}");
    assert_eq!(json!(count(IssueCode::OrphanResult)), expectation["results_without_call"], "{file}");
}

fn check_wire(all: &[Arc<Entry>], expectation: &Value, name: &str) {
    let mut types: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in all.iter().filter(|entry| entry.side) {
        if let Some(found) = custom_kind(entry).strip_prefix("kimi-cli.wire.") {
            *types.entry(found).or_default() += 1;
        }
    }
    assert_eq!(json!(types), expectation["entries_by_type"], "{name}");
}

/// Imports a session, and compares it with its expectation.
pub(crate) async fn check_session(folder: &Path) {
    let expectation = read_json(&expectation_path(folder));
    let name = folder.display().to_string();
    let commits = new_store();
    let reports = import_session(&*commits, folder).await;
    let all = entries(&*commits, reports[0].thread.as_ref().unwrap()).await;
    let order: Vec<_> = expectation["order"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    for (position, file) in order.iter().enumerate() {
        let prefix = if position == 0 { String::new() } else { format!("{}.", position + 1) };
        let file_entries = FileEntries::of(&all, &prefix);
        let expectation_of_file = &expectation["files"][file];
        assert_eq!(json!(file_entries.lines.len()), expectation_of_file["lines"], "{name}: {file}");
        check_context(&file_entries, expectation_of_file, &format!("{name}: {file}"));
        check_issues(&reports[0], expectation_of_file, file);
        let shared = all.iter().filter(|entry| {
            entry.id.as_str().starts_with(&prefix) && position > 0 && custom_kind(entry) == "kimi-cli.shared"
        });
        let common = expectation["common_prefix_with_previous_file"][position].as_u64().unwrap();
        let shared_lines_at_start = shared.filter(|entry| entry.origin.as_ref().unwrap().line <= common).count();
        assert_eq!(shared_lines_at_start as u64, common, "{name}: {file}");
        if expectation["head_file"] == *file {
            assert_eq!(json!(file_entries.text_count_and_hash().1), expectation["head_text_sha256"], "{name}");
        }
    }
    if expectation["files"]["wire.jsonl"].is_object() {
        check_wire(&all, &expectation["files"]["wire.jsonl"], &name);
    }
    let is_of_this_session = |file: &&(String, Value)| !file.0.starts_with("subagents/");
    let files: Vec<_> = expectation["files"].as_object().unwrap().clone().into_iter().collect();
    let sum =
        |field: &str| files.iter().filter(is_of_this_session).filter_map(|(_, file)| file[field].as_u64()).sum::<u64>();
    assert_eq!((reports[0].lines, reports[0].bytes), (sum("lines"), sum("bytes")), "{name}");
}

#[tokio::test]
async fn every_session_matches_its_expectation() {
    let folders = session_folders(&fixtures());
    assert_eq!(folders.len(), 12, "{folders:?}");
    for folder in folders {
        check_session(&folder).await;
    }
}

#[tokio::test]
async fn a_second_import_changes_nothing() {
    for folder in session_folders(&fixtures()) {
        let commits = new_store();
        let first = import_session(&*commits, &folder).await;
        let threads = commits.threads();
        let mut before = Vec::new();
        for report in &first {
            before.push(threads.load_thread(report.thread.as_ref().unwrap()).await.unwrap().unwrap());
        }
        let again = import_session(&*commits, &folder).await;
        assert_eq!(again.len(), first.len());
        for ((again, first), before) in again.iter().zip(&first).zip(&before) {
            assert_eq!((again.added, again.entries), (0, first.entries), "{}", folder.display());
            assert_eq!((&again.thread, &again.issues), (&first.thread, &first.issues), "{}", folder.display());
            assert_eq!(&threads.load_thread(first.thread.as_ref().unwrap()).await.unwrap().unwrap(), before);
        }
    }
}

#[tokio::test]
async fn a_subagent_is_a_child_thread() {
    let commits = new_store();
    let reports = import_session(&*commits, &fixtures().join("kimi-cli/rotated")).await;
    let [_, child] = reports.as_slice() else { panic!("{reports:?}") };
    let thread = commits.threads().load_thread(child.thread.as_ref().unwrap()).await.unwrap().unwrap();
    assert_eq!((thread.id.as_str(), thread.parent_thread_id.unwrap().as_str()), ("rotated.a1b2c3", "rotated"));
    let expectation = read_json(&expectation_path(&fixtures().join("kimi-cli/rotated")));
    let all = entries(&*commits, &thread.id).await;
    check_context(&FileEntries::of(&all, ""), &expectation["files"]["subagents/a1b2c3/context.jsonl"], "subagent");
    assert_eq!(child.lines, 4);
}
