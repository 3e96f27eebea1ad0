//! Tests of sessions of Claude Code: each file matches its expectation, and is exported byte for byte.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sessions::{ExportOptions, ExportTarget, ImportReport, IssueCode, export};
use store_core::{CommitCoordinator, ThreadId};
use tempfile::tempdir;

use crate::{
    expectations::{check_report, has_messages},
    helpers::{
        custom_kind, entries, export_bytes, fixtures, format, has_no_message, head_path, import_any, new_store,
        read_json, text_count_and_hash,
    },
};

/// Files in which a line of a subagent has a parent in the main thread, or the reverse. The main thread then has other
/// roots and leaves than the file.
const FILES_WITH_MIXED_PARENTS: &[&str] = &["v2-small"];

/// The main files and the files of subagents that have an expectation.
pub(crate) fn session_files(root: &Path) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![root.join("claude-code")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "jsonl") && path.with_extension("expect.json").exists()
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The name of a file without its folder and its extension.
fn stem(path: &Path) -> &str {
    path.file_stem().unwrap().to_str().unwrap()
}

/// The reports of the threads of a file: that of its main thread, then those of the subagents in it.
fn reports_of(path: &Path, reports: Vec<ImportReport>) -> Vec<ImportReport> {
    reports.into_iter().filter(|report| stem(&report.file) == stem(path)).collect()
}

/// The report of a whole file: that of its main thread, plus the messages and some of the issues of its subagents.
fn report_of_file(reports: &[ImportReport]) -> ImportReport {
    let mut file_report = reports[0].clone();
    let codes_of_threads = [
        IssueCode::OpenCall,
        IssueCode::OrphanResult,
        IssueCode::DanglingParent,
        IssueCode::ForwardParent,
        IssueCode::ParentCycle,
    ];
    for report in &reports[1..] {
        file_report.messages += report.messages;
        for code in codes_of_threads {
            *file_report.issue_counts.entry(code).or_default() += report.count(code);
            file_report.issues.extend(report.issues.iter().filter(|issue| issue.code == code).cloned());
        }
    }
    file_report
}

/// Compares a thread with the expectation of its file.
async fn check_thread(path: &Path, expect: &Value, commits: &dyn CommitCoordinator, report: &ImportReport) {
    let name = path.display();
    let id = report.thread.as_ref().unwrap();
    let thread = commits.threads().load_thread(id).await.unwrap().unwrap();
    let path_entries = head_path(commits, id).await;
    let found = entries(commits, id).await;
    let number = |field: &str| expect[field].as_u64();
    let (pieces, hash) = text_count_and_hash(&path_entries);
    assert_eq!(Some(pieces as u64), number("main_path_text_pieces"), "{name}");
    assert_eq!(hash, expect["main_path_text_sha256"].as_str().unwrap(), "{name}");
    // Without ids, the lines of a file form one path. Its entries, head, leaves and roots need no comparison.
    if expect["linear"].as_bool() != Some(true) {
        assert_eq!(Some(path_entries.len() as u64), number("main_path_entries"), "{name}");
        // The id of a line that repeats an id has a suffix.
        let head = thread.head.as_ref().map(|head| head.as_str().split("#L").next().unwrap());
        assert_eq!(head, expect["head_id"].as_str(), "{name}");
        if !FILES_WITH_MIXED_PARENTS.contains(&stem(path)) {
            let roots = found.iter().filter(|entry| !entry.side && entry.parent.is_none()).count();
            let tree = (Some(u64::from(thread.leaves)), Some(roots as u64));
            assert_eq!(tree, (number("leaves"), number("roots")), "{name}");
        }
    }
    let line_entries = found.iter().filter(|entry| entry.origin.as_ref().unwrap().line > 0).count();
    let blank = expect["blank_lines"].as_array().map_or(0, Vec::len);
    assert_eq!(line_entries as u64, report.lines - blank as u64, "{name}");
}

/// Imports a file with its session, and compares the result with what is expected. Then exports the thread of the file
/// and the whole session.
pub(crate) async fn check_session_file(path: &Path) {
    let name = path.display();
    let expect = read_json(&path.with_extension("expect.json"));
    let commits = new_store();
    let all_reports = import_any(&*commits, path).await;
    let main_report = all_reports[0].clone();
    if has_no_message(&main_report) {
        assert!(!has_messages(&expect), "{name}");
        return;
    }
    let reports = reports_of(path, all_reports);
    let file_report = report_of_file(&reports);
    check_report(path, &expect, &file_report);
    let roles: u64 = expect["messages_by_role"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    // The import also makes a message from each attachment, but none from a line whose message has a wrong shape.
    let (mut attachments, mut wrong_shapes) = (0, 0);
    for report in &reports {
        for entry in entries(&*commits, report.thread.as_ref().unwrap()).await {
            let provenance = entry.message().and_then(|message| message.provenance.as_ref());
            let format = provenance.and_then(|provenance| provenance.format.as_deref());
            attachments += u64::from(format == Some("claude-code.attachment"));
            let is_message = matches!(custom_kind(&entry), "claude-code.user" | "claude-code.assistant");
            wrong_shapes +=
                u64::from(is_message && serde_json::to_string(&*entry.body).unwrap().contains("\"message\":{"));
        }
    }
    assert_eq!(file_report.messages + wrong_shapes, roles + attachments, "{name}");
    check_thread(path, &expect, &*commits, &reports[0]).await;
    let (bytes, exact) = export_bytes(&*commits, reports[0].thread.as_ref().unwrap(), format("claude-code")).await;
    assert!(exact && bytes == std::fs::read(path).unwrap(), "{name}");
    check_folder(&*commits, &main_report).await;
}

/// Exports a session to a folder, and compares every file with the file that it was imported from.
async fn check_folder(commits: &dyn CommitCoordinator, main: &ImportReport) {
    let folder = tempdir().unwrap();
    let options = ExportOptions::new(format("claude-code"));
    let thread = main.thread.as_ref().unwrap();
    let target = ExportTarget::Folder(folder.path());
    let exported = export(&*commits.threads(), thread, &options, target).await.unwrap();
    assert!(exported.exact && exported.losses.is_empty(), "{}", main.file.display());
    let source = main.file.parent().unwrap();
    let session = stem(&exported.files[0]).to_owned();
    for file in &exported.files {
        let relative = file.strip_prefix(folder.path()).unwrap().to_str().unwrap();
        let original = source.join(relative.replace(&session, stem(&main.file)));
        assert!(std::fs::read(file).unwrap() == std::fs::read(&original).unwrap(), "{}", original.display());
    }
}

#[tokio::test]
async fn every_file_matches_its_expectation() {
    let files = session_files(&fixtures());
    for path in &files {
        check_session_file(path).await;
    }
    assert_eq!(files.len(), 11);
}

#[tokio::test]
async fn a_second_import_changes_nothing() {
    for path in session_files(&fixtures()) {
        let commits = new_store();
        let first = import_any(&*commits, &path).await;
        let again = import_any(&*commits, &path).await;
        assert_eq!(first.len(), again.len());
        for (first, again) in first.iter().zip(&again) {
            assert_eq!((again.added, again.entries), (0, first.entries), "{}", path.display());
            assert_eq!((&again.thread, &again.issues), (&first.thread, &first.issues), "{}", path.display());
        }
    }
}

/// The threads that an import makes, with their parents.
async fn threads_of(path: &Path) -> Vec<(String, Option<String>)> {
    let commits = new_store();
    let reports = import_any(&*commits, path).await;
    let mut threads = Vec::new();
    for report in reports {
        let thread = commits.threads().load_thread(report.thread.as_ref().unwrap()).await.unwrap().unwrap();
        let parent = thread.parent_thread_id.map(|parent| parent.as_str().to_owned());
        threads.push((thread.id.as_str().to_owned(), parent));
    }
    threads
}

#[tokio::test]
async fn every_file_of_a_session_gives_the_same_threads() {
    let session = "5e550000-0000-4000-8000-000000000003";
    let folder = fixtures().join("claude-code/subagents");
    let main = Some(session.to_owned());
    let expected = vec![
        (session.to_owned(), None),
        (format!("{session}.agent-a1"), main.clone()),
        (format!("{session}.agent-b2"), main),
    ];
    assert_eq!(threads_of(&folder).await, expected);
    for file in [format!("{session}.jsonl"), format!("{session}/subagents/agent-a1.jsonl"), "agent-b2.jsonl".to_owned()]
    {
        assert_eq!(threads_of(&folder.join(&file)).await, expected, "{file}");
    }
    assert_eq!(threads_of(&folder.join(session)).await, expected);
}

#[tokio::test]
async fn a_subagent_names_the_call_that_started_it() {
    let commits = new_store();
    for (file, thread, call) in [
        ("subagents/5e550000-0000-4000-8000-000000000003", "5e550000-0000-4000-8000-000000000003.agent-a1", "toolu_a1"),
        ("sidechain", "5e550000-0000-4000-8000-000000000002.agent-L3", "toolu_s1"),
    ] {
        let path = fixtures().join("claude-code").join(format!("{file}.jsonl"));
        let _reports = import_any(&*commits, &path).await;
        let thread = commits.threads().load_thread(&ThreadId::new(thread).unwrap()).await.unwrap().unwrap();
        assert_eq!(thread.metadata["tool_use_id"].as_str(), format!("\"{call}\""));
    }
    let warmup = ThreadId::new("5e550000-0000-4000-8000-000000000002.agent-ab12").unwrap();
    let warmup = commits.threads().load_thread(&warmup).await.unwrap().unwrap();
    assert_eq!((warmup.metadata["agent_id"].as_str(), warmup.metadata.get("tool_use_id")), ("\"ab12\"", None));
    assert_eq!(warmup.parent_thread_id.unwrap().as_str(), "5e550000-0000-4000-8000-000000000002");
}

#[tokio::test]
async fn a_subagent_without_its_main_file_is_a_thread_of_its_own() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("agent-b2.jsonl");
    std::fs::copy(fixtures().join("claude-code/subagents/agent-b2.jsonl"), &path).unwrap();
    let session = "5e550000-0000-4000-8000-000000000003";
    assert_eq!(threads_of(&path).await, [(format!("{session}.agent-b2"), None)]);
}
