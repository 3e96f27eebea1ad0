//! Tests of imports of many files, of repeated imports of a session, and of paths that are not files.

use std::{
    io::Write,
    path::Path,
    sync::{Arc, Mutex},
};

use flate2::{Compression, write::GzEncoder};
use sessions::{Error, ExportOptions, ExportTarget, ImportOptions, ImportReport, IssueCode, export, import};
use store_core::{CommitCoordinator, Progress, Thread, ThreadFilter, Timestamp};
use tempfile::tempdir;

use crate::helpers::{entries, format, has_no_message, import_one, new_store, write_file};

fn header(id: &str, time: &str) -> String {
    format!(r#"{{"type":"session","version":3,"id":"{id}","timestamp":"{time}","cwd":"/p"}}"#) + "\n"
}

fn user_line(id: &str, time: &str, text: &str) -> String {
    format!(r#"{{"type":"message","id":"{id}","timestamp":"{time}","message":{{"role":"user","content":"{text}"}}}}"#)
        + "\n"
}

/// A session with one message.
fn session(id: &str, text: &str) -> String {
    header(id, "2026-01-01T00:00:00.000Z") + &user_line("a", "2026-01-01T00:00:01.000Z", text)
}

fn time(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

async fn load(commits: &dyn CommitCoordinator, report: &ImportReport) -> Thread {
    commits.threads().load_thread(report.thread.as_ref().unwrap()).await.unwrap().unwrap()
}

async fn count_threads(commits: &dyn CommitCoordinator) -> u64 {
    commits.threads().count_threads(&ThreadFilter::default()).await.unwrap()
}

#[tokio::test]
async fn the_last_activity_is_the_newest_time_in_the_file() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let mut text = header("s", "2025-01-01T00:00:00.000Z");
    text += &user_line("a", "2025-06-01T00:00:00.000Z", "one");
    text += &user_line("b", "2025-03-01T00:00:00.000Z", "an older line");
    let path = write_file(folder.path(), "s.jsonl", &text);
    let thread = load(&*commits, &import_one(&*commits, &path).await).await;
    assert_eq!(thread.created_at, time(1_735_689_600_000));
    assert_eq!(thread.updated_at, time(1_748_736_000_000));
    // The file grows by more than one batch of lines. The import sets the new title with an update of the thread.
    for n in 0..2_500 {
        text += &user_line(&format!("c{n}"), "2025-07-01T00:00:00.000Z", "more");
    }
    text += r#"{"type":"session_info","id":"i","parentId":"c0","timestamp":"2025-07-02T00:00:00.000Z","name":"Units"}"#;
    text += "\n";
    write_file(folder.path(), "s.jsonl", &text);
    let grown = load(&*commits, &import_one(&*commits, &path).await).await;
    assert_eq!((grown.title.as_deref(), grown.updated_at), (Some("Units"), time(1_751_414_400_000)));
}

#[tokio::test]
async fn a_time_in_the_future_is_not_an_activity() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let text = header("s", "2025-01-01T00:00:00.000Z") + &user_line("a", "2125-01-01T00:00:00.000Z", "one");
    let thread = load(&*commits, &import_one(&*commits, &write_file(folder.path(), "s.jsonl", text)).await).await;
    assert!(thread.updated_at > time(1_735_689_600_000) && thread.updated_at < time(4_891_363_200_000));
}

#[tokio::test]
async fn a_damaged_file_does_not_prevent_the_import_of_other_files() {
    let folder = tempdir().unwrap();
    let mut damaged = GzEncoder::new(Vec::new(), Compression::default());
    damaged.write_all(session("b", "two").repeat(50).as_bytes()).unwrap();
    let mut damaged = damaged.finish().unwrap();
    for byte in damaged.iter_mut().skip(12) {
        *byte ^= 0x55;
    }
    write_file(folder.path(), "a.jsonl", session("a", "one"));
    write_file(folder.path(), "b.jsonl.gz", damaged);
    write_file(folder.path(), "c.jsonl", session("c", "three"));
    let commits = new_store();
    let reports = import(&*commits, folder.path(), &ImportOptions::default()).await.unwrap();
    let threads: Vec<_> = reports.iter().map(|report| report.thread.as_ref().map(|id| id.as_str())).collect();
    assert_eq!(threads, [Some("a"), None, Some("c")]);
    assert_eq!(reports[1].count(IssueCode::Unreadable), 1, "{:?}", reports[1].issues);
    assert_eq!(count_threads(&*commits).await, 2);
}

#[tokio::test]
async fn a_path_that_does_not_exist_has_a_report() {
    let folder = tempdir().unwrap();
    let report = import_one(&*new_store(), &folder.path().join("nobody.jsonl")).await;
    assert!(!report.is_imported() && report.count(IssueCode::Unreadable) == 1, "{:?}", report.issues);
}

#[tokio::test]
async fn a_folder_without_a_session_is_reported() {
    let folder = tempdir().unwrap();
    write_file(folder.path(), "notes.txt", "hello");
    let report = import_one(&*new_store(), folder.path()).await;
    assert!(!report.is_imported() && report.count(IssueCode::NoSession) == 1, "{:?}", report.issues);
}

#[tokio::test]
async fn a_source_without_a_message_is_refused_even_if_its_format_is_given() {
    let folder = tempdir().unwrap();
    let path = write_file(folder.path(), "s.jsonl", header("s", "2025-01-01T00:00:00.000Z"));
    let commits = new_store();
    for options in [ImportOptions::default(), ImportOptions::default().with_format(format("pi"))] {
        let report = import(&*commits, &path, &options).await.unwrap().remove(0);
        assert!(has_no_message(&report), "{:?}", report.issues);
    }
    assert_eq!(count_threads(&*commits).await, 0);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_pipe_is_read_once() {
    use std::os::fd::AsRawFd;
    let (reader, mut writer) = std::io::pipe().unwrap();
    let text = session("piped", &"x".repeat(200_000));
    let writing_thread = std::thread::spawn(move || writer.write_all(text.as_bytes()).unwrap());
    let path = format!("/dev/fd/{}", reader.as_raw_fd());
    let commits = new_store();
    let report = import_one(&*commits, Path::new(&path)).await;
    writing_thread.join().unwrap();
    assert_eq!((report.file.as_path(), report.messages, report.issues.len()), (Path::new(&path), 1, 0));
    assert_eq!(entries(&*commits, report.thread.as_ref().unwrap()).await.len(), 2);
}

#[tokio::test]
async fn a_session_that_its_tool_has_migrated_is_recognised() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let lines = [
        r#"{"type":"session","id":"mig","timestamp":"2025-12-01T00:00:00.000Z","cwd":"/x"}"#,
        r#"{"type":"message","timestamp":"2025-12-01T00:00:01.000Z","message":{"role":"user","content":"one"}}"#,
        r#"{"type":"message","timestamp":"2025-12-01T00:00:02.000Z","message":{"role":"user","content":"two"}}"#,
    ];
    let path = write_file(folder.path(), "mig.jsonl", lines.join("\n") + "\n");
    assert_eq!(import_one(&*commits, &path).await.format, Some("pi-v1"));
    let lines = [
        r#"{"type":"session","version":3,"id":"mig","timestamp":"2025-12-01T00:00:00.000Z","cwd":"/x"}"#,
        r#"{"type":"message","id":"0a","parentId":null,"timestamp":"2025-12-01T00:00:01.000Z","message":{"role":"user","content":"one"}}"#,
        r#"{"type":"message","id":"0b","parentId":"0a","timestamp":"2025-12-01T00:00:02.000Z","message":{"role":"user","content":"two"}}"#,
        r#"{"type":"message","id":"0c","parentId":"0b","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"three"}}"#,
    ];
    write_file(folder.path(), "mig.jsonl", lines.join("\n") + "\n");
    let refused = import_one(&*commits, &path).await;
    assert!(!refused.is_imported());
    let detail = &refused.issues[0].detail;
    assert_eq!(refused.issues[0].code, IssueCode::ChangedFile);
    assert!(detail.contains("from pi-v1, and the file is pi-v3 now"), "{detail}");
    assert!(detail.contains("The file contains 2 of the thread's 2 messages, and 1 other message(s)"), "{detail}");
    assert_eq!(entries(&*commits, &"mig".parse().unwrap()).await.len(), 3);
    let replaced = import(&*commits, &path, &ImportOptions::default().replacing()).await.unwrap().remove(0);
    assert_eq!((replaced.thread.as_ref().unwrap().as_str(), replaced.messages), ("mig", 3));
    assert_eq!(count_threads(&*commits).await, 1);
    // From now on the session is known in its new version.
    let again = import(&*commits, &path, &ImportOptions::default()).await.unwrap().remove(0);
    assert_eq!((again.added, again.issues.len()), (0, 0));
}

#[tokio::test]
async fn an_older_copy_or_a_refused_session_never_replaces_a_thread() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let second = user_line("b", "2026-01-01T00:00:02.000Z", "two");
    let path = write_file(folder.path(), "s.jsonl", session("s", "one") + &second);
    let first = import_one(&*commits, &path).await;
    let thread = first.thread.unwrap();
    let replace = ImportOptions::default().replacing();
    // An older copy contains nothing that the thread lacks, so it does not replace the thread.
    write_file(folder.path(), "s.jsonl", session("s", "one"));
    let older = import(&*commits, &path, &replace).await.unwrap().remove(0);
    assert_eq!((&older.thread, older.count(IssueCode::ChangedFile)), (&None, 1));
    // A session without messages, and one with issues under `strict`, are refused before anything is deleted.
    write_file(folder.path(), "s.jsonl", header("s", "2026-01-01T00:00:00.000Z"));
    assert!(!import(&*commits, &path, &replace).await.unwrap()[0].is_imported());
    write_file(folder.path(), "s.jsonl", session("s", "other") + "no JSON\n");
    assert!(!import(&*commits, &path, &replace.clone().strict()).await.unwrap()[0].is_imported());
    assert_eq!(entries(&*commits, &thread).await.len(), 3);
    let replaced = import(&*commits, &path, &replace).await.unwrap().remove(0);
    assert_eq!((replaced.thread.as_ref(), replaced.messages), (Some(&thread), 1));
}

#[tokio::test]
async fn a_rewritten_file_that_is_named_after_its_session_is_refused() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let session = "7c2d0a1e-0000-4000-8000-000000000001";
    let line = |text: &str| {
        format!(
            r#"{{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"{session}","timestamp":"2026-01-01T00:00:01.000Z","message":{{"role":"user","content":"{text}"}}}}"#
        ) + "\n"
    };
    let path = write_file(folder.path(), &format!("{session}.jsonl"), line("one"));
    assert_eq!(import_one(&*commits, &path).await.thread.unwrap().as_str(), session);
    write_file(folder.path(), &format!("{session}.jsonl"), line("other"));
    let refused = import_one(&*commits, &path).await;
    assert_eq!((refused.thread, refused.issues[0].code), (None, IssueCode::ChangedFile));
    let replaced = import(&*commits, &path, &ImportOptions::default().replacing()).await.unwrap().remove(0);
    assert_eq!(replaced.thread.unwrap().as_str(), session);
    assert_eq!(count_threads(&*commits).await, 1);
}

#[tokio::test]
async fn children_of_a_replaced_thread_keep_their_parent() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let path = write_file(folder.path(), "s.jsonl", session("s", "one"));
    let child = session("c", "child").replacen("\"cwd\"", "\"parentSession\":\"/x/1_s.jsonl\",\"cwd\"", 1);
    write_file(folder.path(), "c.jsonl", child);
    let _reports = import(&*commits, folder.path(), &ImportOptions::default()).await.unwrap();
    write_file(folder.path(), "s.jsonl", session("s", "other"));
    let reports = import(&*commits, &path, &ImportOptions::default().replacing()).await.unwrap();
    assert!(reports[0].is_imported(), "{:?}", reports[0].issues);
    let child = commits.threads().load_thread(&"c".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(child.parent_thread_id.unwrap().as_str(), "s");
}

#[tokio::test]
async fn the_content_of_an_unknown_file_is_not_shown() {
    let folder = tempdir().unwrap();
    let path = write_file(folder.path(), "keys.jsonl", "{\"api_key\":\"sk-secret\"}\n");
    let report = import_one(&*new_store(), &path).await;
    let detail = &report.issues[0].detail;
    assert!(detail.contains("an object with the fields api_key") && !detail.contains("sk-secret"), "{detail}");
}

#[tokio::test]
async fn an_export_writes_only_below_its_folder() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let report = import_one(&*commits, &write_file(folder.path(), "s.jsonl", session("../../out", "one"))).await;
    let target = folder.path().join("exports");
    for name in ["agent-core", "pi", "codex", "claude-code", "kimi-cli"] {
        let options = ExportOptions::new(format(name));
        let thread = report.thread.as_ref().unwrap();
        let export_folder = target.join(name);
        let exported =
            export(&*commits.threads(), thread, &options, ExportTarget::Folder(&export_folder)).await.unwrap();
        let files = exported.files.iter().map(|file| file.canonicalize().unwrap());
        assert!(files.into_iter().all(|file| file.starts_with(export_folder.canonicalize().unwrap())), "{name}");
        // The files exist now. So a second export is refused, and does not delete them.
        let second_export = export(&*commits.threads(), thread, &options, ExportTarget::Folder(&export_folder)).await;
        assert!(matches!(second_export, Err(Error::Io { .. })), "{name}");
        assert!(exported.files.iter().all(|file| file.is_file()), "{name}");
    }
}

/// Records each call of `advance`. Stops the import when there are more than `allowed_calls`.
#[derive(Debug)]
struct ProgressLog {
    calls: Mutex<Vec<(u64, Option<u64>)>>,
    allowed_calls: usize,
}

impl Progress for ProgressLog {
    fn advance(&self, done: u64, total: Option<u64>) -> bool {
        let mut calls = self.calls.lock().unwrap();
        calls.push((done, total));
        calls.len() <= self.allowed_calls
    }
}

#[tokio::test]
async fn the_progress_counts_bytes_and_can_stop_the_import() {
    let folder = tempdir().unwrap();
    let mut text = header("long", "2025-01-01T00:00:00.000Z");
    for n in 0..120 {
        text += &user_line(&format!("m{n}"), "2025-01-01T00:00:01.000Z", &"x".repeat(300_000));
    }
    write_file(folder.path(), "a.jsonl", session("a", "one"));
    let path = write_file(folder.path(), "long.jsonl", &text);
    let total = text.len() as u64 + session("a", "one").len() as u64;
    let commits = new_store();
    let stopping_log = Arc::new(ProgressLog { calls: Mutex::default(), allowed_calls: 2 });
    let options = ImportOptions::default().with_progress(stopping_log);
    let error = import(&*commits, folder.path(), &options).await.unwrap_err();
    assert!(matches!(&error, Error::Stopped { path: stopped_path } if *stopped_path == path), "{error}");
    let log = Arc::new(ProgressLog { calls: Mutex::default(), allowed_calls: usize::MAX });
    let options = ImportOptions::default().with_progress(Arc::clone(&log) as Arc<dyn Progress>);
    let reports = import(&*commits, folder.path(), &options).await.unwrap();
    assert_eq!((reports[1].messages, reports[1].issues.len()), (120, 0));
    assert!(reports[1].added > 0 && reports[1].added < 121, "{}", reports[1].added);
    let calls = log.calls.lock().unwrap();
    assert!(calls.is_sorted() && calls.len() > 4, "{calls:?}");
    assert_eq!(calls.last(), Some(&(total, Some(total))));
}
