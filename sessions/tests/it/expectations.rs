//! Tests that the import of every file matches its expectation, and that the file is exported byte for byte (SE-1).

use std::path::{Path, PathBuf};

use serde_json::Value;
use sessions::{FormatName, ImportReport, IssueCode};

use crate::codex;
use crate::helpers::{
    entries, export_bytes, fixtures, has_no_message, head_path, import_one, new_store, read_json, text_count_and_hash,
};

/// The `.jsonl` files that have an expectation, below a folder with the layout of `fixtures`. Sessions of kimi-cli and
/// Claude Code are left out, because they may have several files.
pub(crate) fn files_with_expectation(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["agent-core", "codex", "pi", "bad"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let expect = path.with_extension("expect.json");
            if path.extension().is_some_and(|end| end == "jsonl") && expect.exists() {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn issue_lines(report: &ImportReport, code: IssueCode) -> Vec<u64> {
    report.issues.iter().filter(|issue| issue.code == code).filter_map(|issue| issue.line).collect()
}

fn numbers(expect: &Value, name: &str) -> Vec<u64> {
    expect[name].as_array().map_or_else(Vec::new, |list| list.iter().map(|n| n.as_u64().unwrap()).collect())
}

/// Compares the report of a file with its expectation.
pub(crate) fn check_report(path: &Path, expect: &Value, report: &ImportReport) {
    let name = path.display();
    assert_eq!(
        (report.lines, report.bytes),
        (expect["lines"].as_u64().unwrap(), expect["bytes"].as_u64().unwrap()),
        "{name}"
    );
    assert_eq!(report.format.unwrap(), expect["format"].as_str().unwrap(), "{name}");
    let mut malformed = issue_lines(report, IssueCode::MalformedLine);
    malformed.extend(issue_lines(report, IssueCode::TornLastLine));
    assert_eq!(malformed, numbers(expect, "malformed_lines"), "{name}");
    assert_eq!(report.count(IssueCode::TornLastLine) > 0, expect["torn_last_line"].as_bool().unwrap(), "{name}");
    for (code, field) in [
        (IssueCode::InvalidUtf8, "invalid_utf8_lines"),
        (IssueCode::ControlCharacter, "raw_control_character_lines"),
        (IssueCode::LoneSurrogate, "lone_surrogate_lines"),
        (IssueCode::Nul, "nul_lines"),
        (IssueCode::DanglingParent, "dangling_parent_lines"),
        (IssueCode::ForwardParent, "forward_parent_lines"),
    ] {
        assert_eq!(issue_lines(report, code), numbers(expect, field), "{name}: {field}");
    }
    let cycles: Vec<_> =
        expect["cycles"].as_array().into_iter().flatten().map(|cycle| cycle[0].as_u64().unwrap()).collect();
    assert_eq!(issue_lines(report, IssueCode::ParentCycle), cycles, "{name}");
    let mut repeated_ids = issue_lines(report, IssueCode::DuplicateId);
    repeated_ids.extend(issue_lines(report, IssueCode::DuplicateLine));
    repeated_ids.sort_unstable();
    assert_eq!(repeated_ids, numbers(expect, "duplicate_id_lines"), "{name}");
    let open_calls = expect["calls_without_result"].as_u64().unwrap() - codex::calls_that_need_no_result(expect);
    let orphans = expect["results_without_call"].as_u64().unwrap();
    assert_eq!(
        (report.count(IssueCode::OpenCall), report.count(IssueCode::OrphanResult)),
        (open_calls, orphans),
        "{name}"
    );
    for (code, field) in [(IssueCode::Bom, "bom"), (IssueCode::Crlf, "crlf")] {
        assert_eq!(report.count(code) > 0, expect[field].as_bool().unwrap_or_default(), "{name}: {field}");
    }
}

/// Compares the thread of a file with its expectation.
async fn check_thread(path: &Path, expect: &Value, commits: &dyn store_core::CommitCoordinator, report: &ImportReport) {
    let name = path.display();
    let id = report.thread.as_ref().unwrap();
    let thread = commits.threads().load_thread(id).await.unwrap().unwrap();
    let leaves = expect["leaves"].as_u64().unwrap_or(1);
    assert_eq!((u64::from(thread.leaves), report.leaves), (leaves, leaves), "{name}");
    if let Some(head) = expect["head_id"].as_str() {
        assert_eq!(thread.head.unwrap().as_str(), head, "{name}");
    }
    let path_entries = head_path(commits, id).await;
    assert_eq!(path_entries.len() as u64, expect["main_path_entries"].as_u64().unwrap(), "{name}");
    let (pieces, hash) = text_count_and_hash(&path_entries);
    assert_eq!(pieces as u64, expect["main_path_text_pieces"].as_u64().unwrap(), "{name}");
    assert_eq!(hash, expect["main_path_text_sha256"].as_str().unwrap(), "{name}");
    let roots = entries(commits, id).await.iter().filter(|entry| !entry.side && entry.parent.is_none()).count();
    assert_eq!(roots as u64, expect["roots"].as_u64().unwrap_or(1), "{name}");
    // Every line with a message becomes a message. Lines of some other types become messages, too.
    let roles: u64 = expect["messages_by_role"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    let other_messages: u64 = ["branch_summary", "custom_message", "entry:branch_summary"]
        .iter()
        .map(|kind| expect["entries_by_type"][kind].as_u64().unwrap_or_default())
        .sum();
    // If no other line declares the call of a `tool` line, the line becomes the message with the call.
    let calls_of_tool_lines = expect["calls_made_of_tool_entries"].as_u64().unwrap_or_default();
    assert_eq!(report.messages, roles + other_messages + calls_of_tool_lines, "{name}");
    let blank = numbers(expect, "blank_lines").len() as u64;
    let entries_of_lines =
        entries(commits, id).await.iter().filter(|entry| entry.origin.as_ref().unwrap().line > 0).count();
    assert_eq!(entries_of_lines as u64, report.lines - blank, "{name}");
}

/// Whether a file contains messages.
pub(crate) fn has_messages(expect: &Value) -> bool {
    expect["messages_by_role"].as_object().is_some_and(|roles| !roles.is_empty())
}

/// Imports and exports a file, and compares the result of each with what is expected. Returns its format, or `None`
/// if the format is not read.
pub(crate) async fn check_file(path: &Path) -> Option<FormatName> {
    let expect = read_json(&path.with_extension("expect.json"));
    let format: FormatName = expect["format"].as_str().unwrap().parse().ok()?;
    let commits = new_store();
    let report = import_one(&*commits, path).await;
    check_report(path, &expect, &report);
    if has_no_message(&report) {
        assert!(!has_messages(&expect), "{}", path.display());
        return Some(format);
    }
    match format.name() {
        "codex" => codex::check_thread(path, &expect, &*commits, &report).await,
        _ => check_thread(path, &expect, &*commits, &report).await,
    }
    let (bytes, exact) = export_bytes(&*commits, report.thread.as_ref().unwrap(), format).await;
    assert!(exact && bytes == std::fs::read(path).unwrap(), "{}", path.display());
    Some(format)
}

#[tokio::test]
async fn every_file_matches_its_expectation() {
    let mut checked = 0;
    for path in files_with_expectation(&fixtures()) {
        checked += usize::from(check_file(&path).await.is_some());
    }
    assert_eq!(checked, 25);
}

#[tokio::test]
async fn raw_bytes_are_kept_only_where_typed_data_cannot_reproduce_them() {
    for (name, raw_lines) in [
        // The header, the compaction, and a turn that was cut off with half a call in a field of its own.
        ("pi/v1-turns", 3),
        // Header, command, custom message, branch summary.
        ("pi/v3-tree", 4),
        // Header, the message of a hook, the compaction.
        ("pi/v2-branches", 3),
        // Times in seconds.
        ("agent-core/linear-tools", 5),
        // Arguments that are text, a result without its call, and the other lines are all encoded as they were.
        ("agent-core/open-calls", 0),
        // Header, two compactions.
        ("codex/compacted", 3),
    ] {
        let commits = new_store();
        let report = import_one(&*commits, &fixtures().join(name).with_extension("jsonl")).await;
        let found = entries(&*commits, report.thread.as_ref().unwrap()).await;
        let raw: Vec<_> = found
            .iter()
            .filter_map(|entry| entry.origin.as_ref().filter(|origin| origin.raw.is_some()).map(|origin| origin.line))
            .collect();
        assert_eq!(raw.len(), raw_lines, "{name}: {raw:?}");
    }
}

#[tokio::test]
async fn a_second_import_changes_nothing() {
    for path in files_with_expectation(&fixtures()) {
        let commits = new_store();
        let first = import_one(&*commits, &path).await;
        let Some(thread) = &first.thread else { continue };
        let before = commits.threads().load_thread(thread).await.unwrap().unwrap();
        let again = import_one(&*commits, &path).await;
        assert_eq!((again.added, again.entries), (0, first.entries), "{}", path.display());
        assert_eq!(again.thread, first.thread);
        assert_eq!(again.issues, first.issues, "{}", path.display());
        assert_eq!(commits.threads().load_thread(thread).await.unwrap().unwrap(), before);
    }
}

#[tokio::test]
async fn with_the_first_leaf_as_head_the_path_is_that_of_agent_core_itself() {
    for name in ["agent-core/branches", "agent-core/linear-tools"] {
        let path = fixtures().join(name).with_extension("jsonl");
        let expect = read_json(&path.with_extension("expect.json"));
        let commits = new_store();
        let options = sessions::ImportOptions::default().with_head(sessions::HeadChoice::FirstLeaf);
        let reports = sessions::import(&*commits, &path, &options).await.unwrap();
        let id = reports[0].thread.as_ref().unwrap();
        let (_, hash) = text_count_and_hash(&head_path(&*commits, id).await);
        assert_eq!(hash, expect["first_leaf_text_sha256"].as_str().unwrap(), "{name}");
        let page = commits.threads().list_leaves(id, store_core::PageRequest::first(100)).await.unwrap();
        let leaves: Vec<_> = page.items.iter().map(|leaf| leaf.entry.as_str()).collect();
        let expected: Vec<_> = expect["leaf_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
        assert_eq!(leaves, expected, "{name}");
    }
}
