//! Tests of threads that are exported as sessions of kimi-cli.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use sessions::{
    ExportOptions, ExportTarget, Exported, HeadChoice, ImportOptions, ImportReport, IssueCode, Loss, export, import,
};
use store_core::{
    Commit, CommitCoordinator, Custom, DeleteRequest, EntryId, Expect, ImportOrigin, Json, Message, NewBody, NewEntry,
    ParentRef, ThreadFilter, ThreadId, ThreadPatch, Timestamp,
};
use tempfile::{TempDir, tempdir};

use crate::{
    helpers::{entry_of, fixtures, format, import_one, new_store, write_file},
    kimi::{import_session, session_folders},
    kimi_histories::context_json,
};

/// Exports a thread to a new folder.
pub(crate) async fn export_session(commits: &dyn CommitCoordinator, thread: &ThreadId) -> (TempDir, Exported) {
    let folder = tempdir().unwrap();
    let target = ExportTarget::Folder(folder.path());
    let options = ExportOptions::new(format("kimi-cli"));
    let exported = export(&*commits.threads(), thread, &options, target).await.unwrap();
    (folder, exported)
}

/// The bytes of all files below a folder, by their paths.
fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut unread_folders = vec![folder.to_owned()];
    while let Some(path) = unread_folders.pop() {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                unread_folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Exports a thread, and checks that the export has the same files as a session folder.
pub(crate) async fn check_exact(commits: &dyn CommitCoordinator, thread: &ThreadId, folder: &Path) {
    let (copy, exported) = export_session(commits, thread).await;
    let (found, expected) = (files_below(copy.path()), files_below(folder));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&expected), "{}", folder.display());
    for (name, bytes) in &expected {
        let (found, expected) = (String::from_utf8_lossy(&found[name]), String::from_utf8_lossy(bytes));
        assert_eq!(found, expected, "{}: {}", folder.display(), name.display());
    }
    assert!(found == expected, "{}", folder.display());
    assert_eq!((exported.exact, exported.losses.as_slice()), (true, &[][..]), "{}", folder.display());
}

/// Imports a session folder, and checks that its thread is exported as the same files.
pub(crate) async fn check_round_trip(folder: &Path) {
    let commits = new_store();
    let reports = import_session(&*commits, folder).await;
    check_exact(&*commits, reports[0].thread.as_ref().unwrap(), folder).await;
}

/// Imports an exported session into another store. Returns that store and the report about the session.
pub(crate) async fn import_copy(folder: &Path) -> (Arc<dyn CommitCoordinator>, ImportReport) {
    let commits = new_store();
    let report = import_session(&*commits, folder).await.remove(0);
    (commits, report)
}

/// Imports an exported session into another store, and checks that there are no issues. Returns that store and the
/// thread.
pub(crate) async fn import_copy_without_issues(folder: &Path) -> (Arc<dyn CommitCoordinator>, ThreadId) {
    let (commits, report) = import_copy(folder).await;
    assert_eq!(report.issues, []);
    (commits, report.thread.unwrap())
}

/// A context without the raw texts of arguments, which an export may write in another form. The values of the arguments
/// are compared.
pub(crate) async fn comparable_context(commits: &dyn CommitCoordinator, thread: &ThreadId) -> Value {
    let mut context = context_json(commits, thread).await;
    for message in context.as_array_mut().unwrap() {
        for block in message[1].as_array_mut().unwrap() {
            if let Some(call) = block.get_mut("tool_use").and_then(Value::as_object_mut) {
                call.remove("raw");
            }
        }
    }
    context
}

/// The kinds of losses, each with its entry.
pub(crate) fn kinds(losses: &[Loss]) -> Vec<(&str, &str)> {
    losses.iter().map(|loss| (entry_of(loss), loss.kind)).collect()
}

pub(crate) fn lines(folder: &TempDir, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn id(text: &str) -> EntryId {
    EntryId::new(text).unwrap()
}

pub(crate) fn entry(name: &str, body: impl Into<NewBody>) -> NewEntry {
    let mut entry = NewEntry::new(body).with_id(id(name));
    entry.timestamp = Some(Timestamp::from_millis(1_767_690_000_000).unwrap());
    entry
}

pub(crate) async fn create(commits: &dyn CommitCoordinator, name: &str, new: Vec<NewEntry>) -> ThreadId {
    let commit = Commit::new(ThreadId::new(name).unwrap()).expecting(Expect::Absent).entries(new);
    commits.commit(commit).await.unwrap().thread
}

pub(crate) async fn append(commits: &dyn CommitCoordinator, thread: &ThreadId, new: Vec<NewEntry>) {
    let version = commits.threads().load_thread(thread).await.unwrap().unwrap().version;
    let commit = Commit::new(thread.clone()).expecting(Expect::Version(version)).entries(new);
    let _receipt = commits.commit(commit).await.unwrap();
}

/// Checks that a thread and the reimport of its export have the same context. Returns the export.
pub(crate) async fn check_same_context(commits: &dyn CommitCoordinator, thread: &ThreadId) -> (TempDir, Exported) {
    let (folder, exported) = export_session(commits, thread).await;
    let (other_store, copy) = import_copy_without_issues(folder.path()).await;
    let (expected, found) = (comparable_context(commits, thread).await, comparable_context(&*other_store, &copy).await);
    assert_eq!(found, expected);
    check_exact(&*other_store, &copy, folder.path()).await;
    (folder, exported)
}

#[tokio::test]
async fn every_session_is_exported_byte_for_byte() {
    let folders = session_folders(&fixtures());
    assert!(!folders.is_empty());
    for folder in folders {
        check_round_trip(&folder).await;
    }
}

#[tokio::test]
async fn odd_files_are_exported_byte_for_byte() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("odd");
    let nested = folder.join("subagents/a/subagents/b");
    std::fs::create_dir_all(&nested).unwrap();
    std::fs::create_dir_all(folder.join("uploads/more")).unwrap();
    let user = "{\"role\":\"user\",\"content\":\"a\"}\r\n";
    write_file(&folder, "context.jsonl.2", format!("\u{feff}{user} \r\n{{\"role\":7}}\r\n"));
    write_file(&folder, "context.jsonl.1", "");
    write_file(&folder, "context_1.jsonl", b"{\"role\":\"user\",\"content\":\"\xff\"}\n\n\n{\"role\":\"us");
    write_file(&folder, "context_2.jsonl", "\n \n");
    write_file(&folder, "context.jsonl", "{\"role\":\"user\",\"content\":\"b\"}");
    write_file(&folder, "wire.jsonl", "{\"type\": \"metadata\"}\n\n[]\n{\"timestamp\": 1.5}\n");
    write_file(&folder, "uploads/more/a.bin", b"\x00\x01");
    write_file(&folder, "uploads/empty", b"");
    write_file(&folder, "state.json", "[1]");
    write_file(&folder.join("subagents/a"), "context.jsonl", user);
    write_file(&folder.join("subagents/a"), "meta.json", "{}");
    write_file(&nested, "context.jsonl", user);
    check_round_trip(&folder).await;
}

#[tokio::test]
async fn a_file_that_the_import_left_out_is_a_loss() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("large");
    std::fs::create_dir_all(folder.join("uploads")).unwrap();
    write_file(&folder, "context.jsonl", "{\"role\":\"user\",\"content\":\"a\"}\n");
    write_file(&folder, "uploads/a.bin", vec![0; (1 << 20) + 1]);
    let mut left_out = vec![("", "file")];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(temp.path(), folder.join("uploads/elsewhere")).unwrap();
        left_out.push(("", "file"));
    }
    let commits = new_store();
    let report = import_one(&*commits, &folder).await;
    assert_eq!(report.count(IssueCode::UnknownType), left_out.len() as u64);
    let (copy, exported) = export_session(&*commits, &report.thread.unwrap()).await;
    assert_eq!((exported.exact, kinds(&exported.losses)), (false, left_out));
    assert_eq!(files_below(copy.path()).keys().collect::<Vec<_>>(), [Path::new("context.jsonl")]);
}

#[tokio::test]
async fn a_single_context_is_exported_to_a_stream() {
    let temp = tempdir().unwrap();
    let text = "{\"role\":\"user\",\"content\":\"a\"}\n\n{\"role\": \"_checkpoint\", \"id\": 0}";
    let commits = new_store();
    let thread = import_one(&*commits, &write_file(temp.path(), "one.jsonl", text)).await.thread.unwrap();
    let (options, mut out) = (ExportOptions::new(format("kimi-cli")), Vec::new());
    let exported = export(&*commits.threads(), &thread, &options, ExportTarget::Stream(&mut out)).await.unwrap();
    assert_eq!((String::from_utf8(out).unwrap().as_str(), exported.exact), (text, true));
    append(&*commits, &thread, vec![entry("u2", Message::user("b"))]).await;
    let mut out = Vec::new();
    let error = export(&*commits.threads(), &thread, &options, ExportTarget::Stream(&mut out)).await.unwrap_err();
    assert!(matches!(error, sessions::Error::NotExportable { .. }) && out.is_empty(), "{error}");
}

#[tokio::test]
async fn a_thread_whose_provenance_may_be_incomplete_counts_as_changed() {
    let commits = new_store();
    let origin = |line| ImportOrigin::new("kimi-cli", line);
    // The provenance does not say that it names all files of the folder.
    let files = r#"{"files":[{"name":"context.jsonl","bytes":30,"sha256":"00","lines":1}]}"#;
    let provenance = Custom::new("import.line", Json::parse(files).unwrap());
    let thread = create(
        &*commits,
        "earlier",
        vec![
            entry("L0", provenance).with_side(true).with_parent(ParentRef::Root).with_origin(origin(0)),
            entry("L1", Message::user("a")).with_origin(origin(1)),
        ],
    )
    .await;
    let (folder, exported) = check_same_context(&*commits, &thread).await;
    assert!(!exported.exact);
    assert_eq!(lines(&folder, "context.jsonl"), [r#"{"role":"user","content":"a"}"#]);
}

#[tokio::test]
async fn a_new_title_changes_only_the_state_file() {
    let commits = new_store();
    let folder = fixtures().join("kimi-cli/rotated");
    let thread = import_session(&*commits, &folder).await.remove(0).thread.unwrap();
    let mut patch = ThreadPatch::default();
    patch.title = Some(Some("Other".to_owned()));
    let _thread = commits.threads().update_thread(&thread, patch, Expect::Any).await.unwrap();
    let (copy, exported) = export_session(&*commits, &thread).await;
    assert_eq!((exported.exact, exported.losses.len()), (false, 0));
    let (mut found, mut expected) = (files_below(copy.path()), files_below(&folder));
    let state: Value = serde_json::from_slice(&found.remove(Path::new("state.json")).unwrap()).unwrap();
    let mut before: Value = serde_json::from_slice(&expected.remove(Path::new("state.json")).unwrap()).unwrap();
    before["custom_title"] = "Other".into();
    assert_eq!(state, before);
    assert!(found == expected);
}

#[tokio::test]
async fn a_continued_session_keeps_its_lines() {
    let mut continued = Vec::new();
    for folder in session_folders(&fixtures()) {
        let commits = new_store();
        let reports = import_session(&*commits, &folder).await;
        let thread = reports[0].thread.as_ref().unwrap();
        append(
            &*commits,
            thread,
            vec![entry("u-new", Message::user("go on")), entry("a-new", Message::assistant("done"))],
        )
        .await;
        let (copy, exported) = export_session(&*commits, thread).await;
        assert!(!exported.exact);
        let (other_store, report) = import_copy(copy.path()).await;
        let again = report.thread.unwrap();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        // Only sessions without damage and without losses are compared. `kimi-context` and `parts` have lines that
        // kimi-cli does not read, and the `state.json` of `broken-state` is cut off. A call without a result is a loss,
        // for example.
        if !["kimi-context", "parts", "broken-state"].contains(&name.as_str()) && exported.losses.is_empty() {
            assert_eq!(
                comparable_context(&*other_store, &again).await,
                comparable_context(&*commits, thread).await,
                "{name}"
            );
            let before = std::fs::read_to_string(folder.join("context.jsonl")).unwrap();
            let after = std::fs::read_to_string(copy.path().join("context.jsonl")).unwrap();
            assert!(after.starts_with(&before), "{name}: {after}");
            let mut added: Vec<_> = after[before.len()..].lines().collect();
            // If the session does not end with a checkpoint, the export adds one.
            if added.len() == 3 {
                let checkpoint = added.remove(0);
                assert!(checkpoint.starts_with(r#"{"role": "_checkpoint", "id": "#), "{name}: {checkpoint}");
            }
            let user = r#"{"role":"user","content":"go on"}"#;
            assert_eq!(added, [user, r#"{"role":"assistant","content":"done"}"#], "{name}");
            continued.push(name);
        }
    }
    assert!(continued.len() > 5, "{continued:?}");
}

#[tokio::test]
async fn a_changed_subagent_is_written_again_and_a_missing_one_is_a_loss() {
    let commits = new_store();
    let folder = fixtures().join("kimi-cli/rotated");
    let reports = import_session(&*commits, &folder).await;
    let (thread, child) = (reports[0].thread.as_ref().unwrap(), reports[1].thread.as_ref().unwrap());
    append(&*commits, child, vec![entry("u2", Message::user("and now?"))]).await;
    let (copy, exported) = export_session(&*commits, thread).await;
    assert!(!exported.exact);
    let child_lines = lines(&copy, "subagents/a1b2c3/context.jsonl");
    assert_eq!(child_lines.last().unwrap(), r#"{"role":"user","content":"and now?"}"#);
    assert_eq!(
        std::fs::read(copy.path().join("context.jsonl")).unwrap(),
        std::fs::read(folder.join("context.jsonl")).unwrap()
    );
    let _deleted = commits.threads().delete_thread(child, DeleteRequest::default()).await.unwrap();
    let (_, exported) = export_session(&*commits, thread).await;
    assert_eq!((exported.exact, kinds(&exported.losses)), (false, vec![("", "subagent")]));
}

#[tokio::test]
async fn the_first_leaf_can_become_the_head() {
    let commits = new_store();
    let options = ImportOptions::default().with_head(HeadChoice::FirstLeaf);
    let folder = fixtures().join("kimi-cli/rotated");
    let reports = import(&*commits, &folder, &options).await.unwrap();
    let thread = reports[0].thread.as_ref().unwrap();
    let head = commits.threads().load_thread(thread).await.unwrap().unwrap().head.unwrap();
    assert_eq!(head, id("L10"));
    check_exact(&*commits, thread, &folder).await;
}

#[tokio::test]
async fn a_refused_subagent_is_named_in_the_issue() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("session");
    std::fs::create_dir_all(folder.join("subagents/a")).unwrap();
    write_file(&folder, "context.jsonl", "{\"role\":\"user\",\"content\":\"a\"}\n");
    write_file(&folder.join("subagents/a"), "context.jsonl", " \n");
    let commits = new_store();
    let report = import_one(&*commits, &folder).await;
    assert!(!report.is_imported());
    let issues: Vec<_> = report.issues.iter().map(|issue| (issue.file.as_deref(), issue.code)).collect();
    assert_eq!(issues, [(Some("subagents/a"), IssueCode::EmptyFile)]);
    assert_eq!(commits.threads().count_threads(&ThreadFilter::default()).await.unwrap(), 0);
}
