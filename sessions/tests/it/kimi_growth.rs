//! Tests of kimi-cli sessions that continue between imports: grown files, single context files, and other files of a
//! session.

use std::{fs, path::Path};

use serde_json::json;
use sessions::{ImportOptions, IssueCode, import};
use store_core::ThreadId;
use tempfile::tempdir;

use crate::{
    helpers::{FailingCoordinator, custom_kind, entries, fixtures, has_no_message, import_one, new_store, write_file},
    kimi_exports::check_exact,
    kimi_histories::{check_session_context, context_json},
};

fn copy_fixture(name: &str, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(fixtures().join(name)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

fn first_lines(text: &str, lines: usize) -> String {
    text.lines().take(lines).map(|line| format!("{line}\n")).collect()
}

#[tokio::test]
async fn a_grown_session_adds_its_new_lines() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("grown");
    copy_fixture("kimi-cli/archived", &folder);
    let context = fs::read_to_string(folder.join("context.jsonl")).unwrap();
    let wire = fs::read_to_string(folder.join("wire.jsonl")).unwrap();
    let commits = new_store();
    let mut entry_count = 0;
    for lines in 1..=10 {
        write_file(&folder, "context.jsonl", first_lines(&context, lines));
        write_file(&folder, "wire.jsonl", first_lines(&wire, lines));
        let report = import_one(&*commits, &folder).await;
        // The first lines are the instructions and a checkpoint.
        assert_eq!(has_no_message(&report), lines < 3, "{lines} lines");
        if report.thread.is_none() {
            continue;
        }
        assert_eq!((report.thread.unwrap().as_str(), report.lines), ("grown", lines as u64 * 2));
        // Each import adds the two lines and the provenance of the files. The first import also adds the state.
        assert_eq!(report.added, if lines == 3 { 8 } else { 3 }, "{lines} lines");
        entry_count += report.added;
    }
    let all = entries(&*commits, &ThreadId::new("grown").unwrap()).await;
    assert_eq!(all.len() as u64, entry_count);
    assert_eq!(import_one(&*commits, &folder).await.added, 0);
    check_exact(&*commits, &ThreadId::new("grown").unwrap(), &folder).await;
}

#[tokio::test]
async fn a_new_state_changes_title_and_metadata() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("state");
    copy_fixture("kimi-cli/archived", &folder);
    let commits = new_store();
    let first = import_one(&*commits, &folder).await;
    write_file(&folder, "state.json", r#"{"version":1,"custom_title":"Other","archived":false}"#);
    let second = import_one(&*commits, &folder).await;
    assert_eq!((&second.thread, second.added, second.issues.len()), (&first.thread, 2, 0));
    let thread = commits.threads().load_thread(&first.thread.unwrap()).await.unwrap().unwrap();
    assert_eq!(thread.title.as_deref(), Some("Other"));
    assert_eq!(thread.metadata["state"].as_str(), r#"{"version":1,"custom_title":"Other","archived":false}"#);
    // The newest state has no title. The thread keeps its title, and its export does not write it to the state.
    write_file(&folder, "state.json", r#"{"version":1,"custom_title":null}"#);
    let _third = import_one(&*commits, &folder).await;
    check_exact(&*commits, &thread.id, &folder).await;
}

#[tokio::test]
async fn a_torn_last_line_is_reported_and_completed_by_a_later_import() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("torn");
    fs::create_dir(&folder).unwrap();
    let text = "{\"role\":\"user\",\"content\":\"one\"}\n{\"role\":\"assistant\",\"content\":\"two\"}\n";
    let commits = new_store();
    for end in 34..=text.len() {
        write_file(&folder, "context.jsonl", &text[..end]);
        let report = import_one(&*commits, &folder).await;
        assert_eq!(report.count(IssueCode::ChangedFile), 0);
        let torn = u64::from(end < text.len() - 1);
        assert_eq!((report.count(IssueCode::TornLastLine), report.thread.unwrap().as_str()), (torn, "torn"), "{end}");
        check_exact(&*commits, &ThreadId::new("torn").unwrap(), &folder).await;
    }
    let found = context_json(&*commits, &ThreadId::new("torn").unwrap()).await;
    assert_eq!(found, json!([["user", [{"text": "one"}]], ["assistant", [{"text": "two"}]]]));
}

#[tokio::test]
async fn a_session_folder_continues_the_thread_of_its_context_file() {
    let temp = tempdir().unwrap();
    let text = fs::read_to_string(fixtures().join("kimi-cli/rotated/context_1.jsonl")).unwrap();
    let commits = new_store();
    let context_report = import_one(&*commits, &write_file(temp.path(), "uuid-1.jsonl", first_lines(&text, 7))).await;
    assert_eq!((context_report.thread.as_ref().unwrap().as_str(), context_report.issues.len()), ("uuid-1", 1));
    let folder = temp.path().join("uuid-1");
    copy_fixture("kimi-cli/rotated", &folder);
    let folder_report = import_one(&*commits, &folder).await;
    assert_eq!((folder_report.count(IssueCode::ChangedFile), folder_report.thread), (0, context_report.thread));
}

#[tokio::test]
async fn a_session_with_changed_lines_is_refused_or_replaces_its_thread() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("changed");
    copy_fixture("kimi-cli/rotated", &folder);
    let commits = new_store();
    let first = import_one(&*commits, &folder).await;
    let text = fs::read_to_string(folder.join("context_1.jsonl")).unwrap();
    write_file(&folder, "context_1.jsonl", text.replace("build it", "built it"));
    let second = import_one(&*commits, &folder).await;
    assert_eq!(first.thread.unwrap().as_str(), "changed");
    assert_eq!((second.count(IssueCode::ChangedFile), second.thread), (1, None));
    let replaced = import(&*commits, &folder, &ImportOptions::default().replacing()).await.unwrap().remove(0);
    assert_eq!(replaced.thread.unwrap().as_str(), "changed");
}

#[tokio::test]
async fn unknown_files_are_stored_or_reported() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("files");
    copy_fixture("kimi-cli/rotated", &folder);
    fs::create_dir_all(folder.join("uploads")).unwrap();
    write_file(&folder, "uploads/small.png", b"\x89PNG");
    write_file(&folder, "uploads/large.png", vec![0; (1 << 20) + 1]);
    let commits = new_store();
    let report = import_one(&*commits, &folder).await;
    let [issue] = report.issues.as_slice() else { panic!("{:?}", report.issues) };
    assert_eq!((issue.file.as_deref(), issue.line), (Some("uploads/large.png"), None));
    let all = entries(&*commits, &report.thread.unwrap()).await;
    let kept = all.iter().find(|entry| custom_kind(entry) == "kimi-cli.file").unwrap();
    assert_eq!(kept.origin.as_ref().unwrap().raw.as_deref(), Some(&b"\x89PNG"[..]));
    assert_eq!(import_one(&*commits, &folder).await.added, 0);
}

#[tokio::test]
async fn a_state_that_is_too_large_is_reported() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("large");
    copy_fixture("kimi-cli/archived", &folder);
    let state = format!(r#"{{"custom_title":"T","x":"{}"}}"#, "x".repeat(1 << 20));
    write_file(&folder, "state.json", &state);
    let commits = new_store();
    let report = import_one(&*commits, &folder).await;
    let [issue] = report.issues.as_slice() else { panic!("{:?}", report.issues) };
    assert_eq!((issue.file.as_deref(), issue.detail.contains(&state.len().to_string())), (Some("state.json"), true));
    let thread = report.thread.unwrap();
    assert!(entries(&*commits, &thread).await.iter().all(|entry| custom_kind(entry) != "kimi-cli.state"));
    assert_eq!(commits.threads().load_thread(&thread).await.unwrap().unwrap().title, None);
}

#[tokio::test]
async fn a_context_file_is_imported_with_its_folder_only_if_the_folder_is_a_session() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("Downloads");
    fs::create_dir_all(folder.join("below")).unwrap();
    let path = write_file(&folder, "context.jsonl", "{\"role\":\"user\",\"content\":\"one\"}\n");
    write_file(&folder, "below/letter.txt", "private");
    let commits = new_store();
    let context_report = import_one(&*commits, &path).await;
    assert_eq!((&context_report.file, context_report.thread.as_ref().unwrap().as_str()), (&path, "Downloads"));
    let all = entries(&*commits, context_report.thread.as_ref().unwrap()).await;
    // The two entries are the provenance and the line.
    assert_eq!(all.len(), 2, "{all:?}");
    for name in ["wire.jsonl", "state.json", "context_1.jsonl"] {
        let session_file = write_file(&folder, name, "{\"role\":\"user\",\"content\":\"one\"}\n");
        assert_eq!(import_one(&*new_store(), &path).await.file, folder, "{name}");
        fs::remove_file(session_file).unwrap();
    }
}

#[tokio::test]
async fn a_session_is_refused_only_if_all_its_context_files_are_empty() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("empty");
    fs::create_dir(&folder).unwrap();
    write_file(&folder, "context.jsonl", "");
    let commits = new_store();
    let report = import_one(&*commits, &folder).await;
    assert_eq!((report.count(IssueCode::EmptyFile), report.thread), (1, None));
    write_file(&folder, "context_1.jsonl", "{\"role\":\"user\",\"content\":\"one\"}\n");
    let report = import_one(&*commits, &folder).await;
    assert_eq!(context_json(&*commits, &report.thread.unwrap()).await, json!([]));
}

#[tokio::test]
async fn a_killed_import_can_be_continued() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("killed");
    fs::create_dir(&folder).unwrap();
    let lines = |from: u64, to: u64| -> String {
        (from..to).map(|n| format!("{{\"role\":\"user\",\"content\":\"{n}\"}}\n")).collect()
    };
    write_file(&folder, "context_1.jsonl", lines(0, 1700));
    write_file(&folder, "context.jsonl", lines(0, 1500) + &lines(5000, 5100));
    for commit_limit in 1..4 {
        let commits = new_store();
        let killed = FailingCoordinator::after(&*commits, commit_limit);
        assert!(import(&killed, &folder, &ImportOptions::default()).await.is_err());
        let report = check_session_context(&*commits, &folder).await.unwrap();
        // The provenance and the rewind are entries that correspond to no line.
        assert_eq!((report.entries, report.lines), (3302, 3300));
        let all = entries(&*commits, &report.thread.unwrap()).await;
        assert_eq!(all.len() as u64, report.entries);
    }
}

#[tokio::test]
async fn last_lines_that_a_killed_import_read_incompletely_are_imported_once() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("last");
    fs::create_dir(&folder).unwrap();
    let lines: String = (1..=1200).map(|n| format!("{{\"role\":\"user\",\"content\":\"{n}\"}}\n")).collect();
    let wire =
        "{\"type\": \"metadata\"}\n{\"timestamp\": 1.5, \"message\": {\"type\": \"StepBegin\", \"payload\": {}}}\n";
    // The last lines are torn, or complete without their line ends.
    for cut in [9, 1] {
        let commits = new_store();
        write_file(&folder, "context_1.jsonl", "{\"role\":\"user\",\"content\":\"earlier\"}\n".repeat(1200));
        write_file(&folder, "context.jsonl", &lines[..lines.len() - cut]);
        write_file(&folder, "wire.jsonl", &wire[..wire.len() - cut]);
        let killed = FailingCoordinator::after(&*commits, 1);
        assert!(import(&killed, &folder, &ImportOptions::default()).await.is_err());
        write_file(&folder, "context.jsonl", format!("{} \n", &lines[..lines.len() - 1]));
        write_file(&folder, "wire.jsonl", format!("{} \n", &wire[..wire.len() - 1]));
        let report = import_one(&*commits, &folder).await;
        check_exact(&*commits, report.thread.as_ref().unwrap(), &folder).await;
        let all = entries(&*commits, &report.thread.unwrap()).await;
        let repeated: Vec<_> = all.iter().filter(|entry| entry.id.as_str().contains("#2")).collect();
        assert!(repeated.is_empty(), "{cut}: {repeated:?}");
        assert_eq!(all.len() as u64, report.entries, "{cut}");
    }
}

#[tokio::test]
async fn a_changed_line_gets_a_new_id_only_if_its_earlier_content_was_stored() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("again");
    fs::create_dir(&folder).unwrap();
    let line = "{\"role\":\"user\",\"content\":\"one\"}\n";
    let wire = "{\"timestamp\": 1.5, \"message\": {\"type\": \"StepBegin\", \"payload\": {}}}\n";
    let commits = new_store();
    write_file(&folder, "context.jsonl", line);
    write_file(&folder, "wire.jsonl", &wire[..9]);
    let _torn = import_one(&*commits, &folder).await;
    write_file(&folder, "context.jsonl", line.repeat(1200));
    write_file(&folder, "wire.jsonl", &wire[..19]);
    assert!(import(&FailingCoordinator::after(&*commits, 1), &folder, &ImportOptions::default()).await.is_err());
    write_file(&folder, "wire.jsonl", wire);
    let report = import_one(&*commits, &folder).await;
    check_exact(&*commits, report.thread.as_ref().unwrap(), &folder).await;
    let all = entries(&*commits, &report.thread.unwrap()).await;
    let ids: Vec<_> = all.iter().map(|entry| entry.id.as_str()).filter(|id| id.starts_with("wire.")).collect();
    assert_eq!(ids, ["wire.L1", "wire.L1#2"]);
}
