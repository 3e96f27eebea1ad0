//! Tests of threads whose parent is imported later, or never.

use std::path::{Path, PathBuf};

use sessions::{Error, ImportOptions, Importer, import};
use store_core::{
    Commit, CommitCoordinator, Expect, Message, NewEntry, Store, TenantId, Thread, ThreadId, ThreadPatch,
};
use store_memory::{MemoryConfig, MemoryStore};
use tempfile::tempdir;

use crate::helpers::{FailingCoordinator, import_one, new_store, write_file};

fn id(text: &str) -> ThreadId {
    ThreadId::new(text).unwrap()
}

/// Writes the file of a session with this id. Its header names the session `parent` as the parent. A session that names
/// itself has no parent.
fn write_session(folder: &Path, id: &str, parent: &str) -> PathBuf {
    let time = "2026-01-05T10:00:00.000Z";
    let header = format!(
        r#"{{"type":"session","version":3,"id":"{id}","timestamp":"{time}","parentSession":"/x/1_{parent}.jsonl"}}"#
    );
    let message = format!(
        r#"{{"type":"message","id":"m","parentId":null,"timestamp":"{time}","message":{{"role":"user","content":"x"}}}}"#
    );
    write_file(folder, &format!("{id}.jsonl"), format!("{header}\n{message}\n"))
}

async fn load(commits: &dyn CommitCoordinator, thread: &str) -> Thread {
    commits.threads().load_thread(&id(thread)).await.unwrap().unwrap()
}

/// The parent of a thread, and the parent that it waits for.
async fn parent_and_awaited_parent(commits: &dyn CommitCoordinator, thread: &str) -> (Option<String>, Option<String>) {
    let thread = load(commits, thread).await;
    let waits_for = thread.metadata.get("import.parent").map(|value| value.as_str().to_owned());
    (thread.parent_thread_id.map(|parent| parent.as_str().to_owned()), waits_for)
}

#[tokio::test]
async fn a_parent_may_come_with_a_later_import() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let child = write_session(folder.path(), "child", "late");
    let _report = import_one(&*commits, &child).await;
    assert_eq!(parent_and_awaited_parent(&*commits, "child").await, (None, Some("\"late\"".to_owned())));
    assert_eq!(import_one(&*commits, &child).await.added, 0);
    let _report = import_one(&*commits, &write_session(folder.path(), "late", "late")).await;
    assert_eq!(parent_and_awaited_parent(&*commits, "child").await, (Some("late".to_owned()), None));
    assert_eq!(parent_and_awaited_parent(&*commits, "late").await, (None, None));
    // A later import does not undo a change of the parent.
    let patch = ThreadPatch::default().with_parent(None);
    let _thread = commits.threads().update_thread(&id("child"), patch, Expect::Any).await.unwrap();
    let _reports = import(&*commits, folder.path(), &ImportOptions::default()).await.unwrap();
    let _report = import_one(&*commits, &write_session(folder.path(), "other", "other")).await;
    assert_eq!(parent_and_awaited_parent(&*commits, "child").await, (None, None));
}

#[tokio::test]
async fn parents_are_set_even_if_the_import_fails_later() {
    let folder = tempdir().unwrap();
    for (name, parent) in [("a", "b"), ("b", "b"), ("c", "b")] {
        write_session(folder.path(), name, parent);
    }
    let commits = new_store();
    let killed = FailingCoordinator::after(&*commits, 4);
    assert!(import(&killed, folder.path(), &ImportOptions::default()).await.is_err());
    assert_eq!(parent_and_awaited_parent(&*commits, "a").await, (Some("b".to_owned()), None));
}

#[tokio::test]
async fn parents_are_set_once_after_several_paths() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let old = write_session(folder.path(), "old", "late");
    let _report = import_one(&*commits, &old).await;
    let paths = [write_session(folder.path(), "child", "late"), write_session(folder.path(), "late", "late")];
    let options = ImportOptions::default();
    let mut importer = Importer::new(&*commits, &options);
    for path in &paths {
        assert_eq!(importer.import(path).await.unwrap()[0].added, 2);
    }
    assert_eq!(parent_and_awaited_parent(&*commits, "old").await, (None, Some("\"late\"".to_owned())));
    importer.finish(Ok(())).await.unwrap();
    for name in ["old", "child"] {
        assert_eq!(parent_and_awaited_parent(&*commits, name).await, (Some("late".to_owned()), None));
    }
}

#[tokio::test]
async fn an_error_while_parents_are_set_does_not_hide_the_error_of_the_import() {
    let folder = tempdir().unwrap();
    for name in ["a", "b"] {
        write_session(folder.path(), name, "c");
    }
    let store = MemoryStore::open(MemoryConfig::default()).unwrap();
    let commits = store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap();
    let killed = FailingCoordinator::after(&*commits, 2);
    let options = ImportOptions::default();
    let mut importer = Importer::new(&killed, &options);
    let result = importer.import(folder.path()).await;
    store.close().await.unwrap();
    let error = importer.finish(result).await.unwrap_err();
    assert!(matches!(error, Error::ParentsNotSet { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("it was killed") && text.contains("closed"), "{text}");
}

#[tokio::test]
async fn a_second_import_of_a_session_finds_a_parent_that_was_created_since() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let child = write_session(folder.path(), "child", "made");
    let _report = import_one(&*commits, &child).await;
    let commit = Commit::new(id("made")).expecting(Expect::Absent).entry(NewEntry::new(Message::user("mine")));
    let _receipt = commits.commit(commit).await.unwrap();
    assert_eq!(import_one(&*commits, &child).await.added, 0);
    assert_eq!(parent_and_awaited_parent(&*commits, "child").await, (Some("made".to_owned()), None));
}

#[tokio::test]
async fn sessions_that_name_each_other_form_no_cycle() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    for (name, parent) in [("a", "b"), ("b", "a")] {
        let _report = import_one(&*commits, &write_session(folder.path(), name, parent)).await;
    }
    assert_eq!(parent_and_awaited_parent(&*commits, "a").await, (None, Some("\"b\"".to_owned())));
    assert_eq!(parent_and_awaited_parent(&*commits, "b").await, (Some("a".to_owned()), None));
}
