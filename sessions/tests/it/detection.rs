//! Tests of the detection of formats, and of files that are refused with the name of their format.

use sessions::{ImportOptions, IssueCode, import};

use tempfile::tempdir;

use crate::helpers::{fixtures, format, import_any, import_one, new_store, write_file};

async fn check_refused(name: &str, code: IssueCode, expected_detail: &str) {
    let commits = new_store();
    let report = import_one(&*commits, &fixtures().join(name)).await;
    assert!(!report.is_imported(), "{name}");
    assert_eq!(report.issues.len(), 1, "{name}");
    assert_eq!(report.issues[0].code, code, "{name}");
    assert!(report.issues[0].detail.contains(expected_detail), "{name}: {}", report.issues[0].detail);
    let threads = commits.threads().count_threads(&store_core::ThreadFilter::default()).await.unwrap();
    assert_eq!(threads, 0, "{name}");
}

#[tokio::test]
async fn unsupported_formats_are_reported() {
    check_refused("kimi-cli/tool-calls/wire.jsonl", IssueCode::UnsupportedFormat, "import the session's folder").await;
    check_refused("other/kimi-code-wire.jsonl", IssueCode::UnknownFormat, "kimi-code").await;
}

#[tokio::test]
async fn similar_files_are_not_taken_for_claude_code() {
    let folder = tempdir().unwrap();
    for (name, line, detail) in [
        ("stream", r#"{"type":"system","subtype":"init","session_id":"a","uuid":"b","cwd":"/"}"#, "printed output"),
        (
            "parts",
            r#"{"type":"user","sessionId":"a","uuid":"b","message":{"role":"user","parts":[{"text":"x"}]}}"#,
            "no known format",
        ),
    ] {
        let path = write_file(folder.path(), &format!("{name}.jsonl"), line);
        let report = import_one(&*new_store(), &path).await;
        assert!(!report.is_imported() && report.issues[0].detail.contains(detail), "{name}: {:?}", report.issues);
    }
}

#[tokio::test]
async fn files_of_unknown_formats_and_empty_files_are_refused() {
    check_refused("other/copilot-cli.jsonl", IssueCode::UnknownFormat, "Copilot CLI").await;
    check_refused("bad/unknown-format.jsonl", IssueCode::UnknownFormat, "hello").await;
    check_refused("bad/empty.jsonl", IssueCode::EmptyFile, "").await;
    check_refused("bad/only-newlines.jsonl", IssueCode::EmptyFile, "").await;
}

#[tokio::test]
async fn the_import_of_a_folder_includes_every_file_below_it() {
    let commits = new_store();
    let reports = import(&*commits, &fixtures().join("pi"), &ImportOptions::default()).await.unwrap();
    let formats: Vec<_> = reports.iter().map(|report| (report.format.unwrap(), report.is_imported())).collect();
    assert_eq!(formats.len(), 6);
    assert_eq!(formats.iter().filter(|(_, is_imported)| *is_imported).count(), 6);
    assert!(formats.contains(&("pi-v1", true)) && formats.contains(&("pi-v4", true)));
}

#[tokio::test]
async fn a_given_format_overrides_detection() {
    let commits = new_store();
    let folder = tempdir().unwrap();
    let mut text = std::fs::read_to_string(fixtures().join("bad/unknown-format.jsonl")).unwrap();
    text += "{\"id\":\"a\",\"type\":\"user\",\"content\":\"x\",\"timestamp\":1}\n";
    let path = write_file(folder.path(), "mixed.jsonl", text);
    assert_eq!(import_one(&*commits, &path).await.count(IssueCode::UnknownFormat), 1);
    let options = ImportOptions::default().with_format(format("agent-core"));
    let reports = import(&*commits, &path, &options).await.unwrap();
    assert!(reports[0].is_imported());
    assert_eq!(reports[0].count(IssueCode::UnknownType), 2);
}

#[cfg(unix)]
#[tokio::test]
async fn links_to_folders_are_followed_once() {
    use std::os::unix::fs::symlink;
    let folder = tempdir().unwrap();
    let line = |id: &str| format!("{{\"id\":\"{id}\",\"type\":\"user\",\"content\":\"x\",\"timestamp\":1}}\n");
    let elsewhere = tempdir().unwrap();
    let target = write_file(elsewhere.path(), "target.txt", line("t"));
    write_file(elsewhere.path(), "behind.jsonl", line("b"));
    std::fs::create_dir(folder.path().join("real")).unwrap();
    write_file(&folder.path().join("real"), "a.jsonl", line("a"));
    symlink(folder.path(), folder.path().join("real/circle")).unwrap();
    symlink(elsewhere.path(), folder.path().join("far")).unwrap();
    symlink(elsewhere.path(), folder.path().join("named.jsonl")).unwrap();
    symlink(folder.path().join("missing"), folder.path().join("nowhere.jsonl")).unwrap();
    symlink(&target, folder.path().join("linked.jsonl")).unwrap();
    let reports = import(&*new_store(), folder.path(), &ImportOptions::default()).await.unwrap();
    let threads: Vec<_> = reports.iter().map(|report| report.thread.as_ref().unwrap().as_str()).collect();
    assert_eq!(threads, ["behind", "linked", "a"]);
}

#[tokio::test]
async fn a_source_read_as_another_format_is_refused_or_has_issues() {
    let mut sources = Vec::new();
    for folder in ["agent-core", "claude-code", "codex", "pi"] {
        let files = std::fs::read_dir(fixtures().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        sources.extend(files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")));
    }
    sources.push(fixtures().join("kimi-cli/archived/context.jsonl"));
    for source in sources {
        let own_format = import_any(&*new_store(), &source).await[0].format.unwrap();
        for name in ["agent-core", "claude-code", "codex", "kimi-cli", "pi"] {
            if own_format.starts_with(name) {
                continue;
            }
            let options = ImportOptions::default().with_format(format(name));
            let report = import(&*new_store(), &source, &options).await.unwrap().remove(0);
            assert!(!report.issues.is_empty(), "{} as {name}: {} messages", source.display(), report.messages);
        }
    }
}
