//! Tests that an export lists the losses of a thread as a whole and of its child threads.

use std::path::Path;

use serde_json::{Value, json};
use sessions::{ExportOptions, ExportTarget, Exported, ImportOptions, ToolFolders, export, import, tool_place};
use store_core::{
    AgentId, Body, Commit, CommitCoordinator, ContextRequest, Expect, Json, Message, NewEntry, NewThread, ResourceId,
    RewindTo, RunChange, RunId, RunStatus, StateChange, ThreadFields, ThreadId, ThreadPatch,
};
use tempfile::tempdir;

use crate::{
    conversions::TARGETS,
    helpers::{entries, export_bytes, fixtures, format, import_one, new_store, write_file},
    whole_messages::ClaudeSession,
};

fn thread_id(text: &str) -> ThreadId {
    ThreadId::new(text).unwrap()
}

fn json_of(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// Exports a thread to a temporary folder, and returns the report of the export.
async fn export_to_folder(commits: &dyn CommitCoordinator, thread: &ThreadId, target: &str) -> Exported {
    let folder = tempdir().unwrap();
    let options = ExportOptions::new(format(target));
    export(&*commits.threads(), thread, &options, ExportTarget::Folder(folder.path())).await.unwrap()
}

/// The paths of the losses of the thread itself, with their kinds.
fn losses_of_thread(exported: &Exported) -> Vec<(&str, &str)> {
    let losses = exported.losses.iter().filter(|loss| loss.thread.is_none() && loss.entry.is_none());
    losses.map(|loss| (loss.path.as_str(), loss.kind)).collect()
}

/// The child threads that an export lists as left out.
fn left_out_children(exported: &Exported) -> Vec<&str> {
    let losses = exported.losses.iter().filter(|loss| loss.kind == "child_thread" && loss.entry.is_none());
    let mut threads: Vec<_> = losses.map(|loss| loss.thread.as_ref().unwrap().as_str()).collect();
    threads.sort_unstable();
    threads
}

#[tokio::test]
async fn lost_fields_state_and_runs_of_a_thread_are_listed_even_without_a_head() {
    for has_entries in [false, true] {
        let commits = new_store();
        let mut fields = ThreadFields::default();
        fields.resource_id = Some(ResourceId::new("customer").unwrap());
        fields.title = Some("A title".to_owned());
        fields.metadata.insert("a/b".to_owned(), json_of("1"));
        let run = RunChange::new(RunId::new("run-1").unwrap(), RunStatus::Running);
        let mut commit = Commit::new(thread_id("whole"))
            .expecting(Expect::Absent)
            .creating(fields)
            .with_run(run.with_agent(AgentId::new("agent").unwrap()))
            .with_state(StateChange::new().set("plan", json_of("{\"step\":1}")));
        if has_entries {
            commit = commit.entry(NewEntry::new(Message::user("first")));
        }
        let thread = commits.commit(commit).await.unwrap().thread;
        for target in TARGETS {
            let exported = export_to_folder(&*commits, &thread, target).await;
            let found = losses_of_thread(&exported);
            for loss in [("/runs/run-1", "run"), ("/state/plan", "state"), ("/resource_id", "resource")] {
                assert!(found.contains(&loss), "{target}: {loss:?} is not in {found:?}");
            }
            assert_eq!(found.contains(&("/title", "title")), *target == "agent-core", "{target}");
            assert_eq!(found.contains(&("/metadata/a~1b", "metadata")), *target != "pi-v4", "{target}");
        }
    }
}

#[tokio::test]
async fn a_title_and_metadata_that_are_new_since_the_import_are_listed() {
    for source in ["codex/turns", "pi/v3-tree", "pi/v4-lanes", "claude-code/fork", "agent-core/branches"] {
        let commits = new_store();
        let path = fixtures().join(source).with_extension("jsonl");
        let report = import_one(&*commits, &path).await;
        let (thread, name) = (report.thread.unwrap(), report.format.unwrap());
        let unchanged = export_to_folder(&*commits, &thread, name).await;
        assert_eq!((unchanged.exact, losses_of_thread(&unchanged)), (true, vec![]), "{source}");
        let mut patch = ThreadPatch::default();
        patch.title = Some(Some("Another title".to_owned()));
        patch.metadata.insert("colour".to_owned(), Some(json_of("1")));
        let _thread = commits.threads().update_thread(&thread, patch, Expect::Any).await.unwrap();
        let changed = export_to_folder(&*commits, &thread, name).await;
        let expected = vec![("/metadata/colour", "metadata"), ("/title", "title")];
        assert_eq!((changed.exact, losses_of_thread(&changed)), (true, expected), "{source}");
    }
}

#[tokio::test]
async fn child_threads_that_are_not_written_are_listed() {
    let commits = new_store();
    let path = fixtures().join("claude-code/subagents/5e550000-0000-4000-8000-000000000003.jsonl");
    let reports = import(&*commits, &path, &ImportOptions::default()).await.unwrap();
    let main = reports[0].thread.clone().unwrap();
    let mut children: Vec<_> = reports[1..].iter().map(|report| report.thread.clone().unwrap()).collect();
    assert!(!children.is_empty());
    let mut fields = ThreadFields::default();
    fields.parent_thread_id = Some(children[0].clone());
    let grandchild = NewThread::new(thread_id("zz-below")).with_fields(fields);
    let _below = commits.threads().create_thread(grandchild).await.unwrap();
    children.sort();
    let mut all: Vec<_> = children.iter().map(ThreadId::as_str).collect();
    all.push("zz-below");
    for target in ["agent-core", "codex", "kimi-cli", "pi-v3", "pi-v4"] {
        assert_eq!(left_out_children(&export_to_folder(&*commits, &main, target).await), all, "{target}");
    }
    assert_eq!(left_out_children(&export_to_folder(&*commits, &main, "claude-code").await), ["zz-below"]);
    let mut out = Vec::new();
    let options = ExportOptions::new(format("claude-code"));
    let stream = export(&*commits.threads(), &main, &options, ExportTarget::Stream(&mut out)).await.unwrap();
    assert_eq!((stream.exact, left_out_children(&stream)), (true, all));
}

#[tokio::test]
async fn a_stream_contains_the_subagents_of_the_main_file_and_no_others() {
    let commits = new_store();
    let path = fixtures().join("claude-code/sidechain.jsonl");
    let reports = import(&*commits, &path, &ImportOptions::default()).await.unwrap();
    let main = reports[0].thread.clone().unwrap();
    let child = reports[1].thread.clone().unwrap();
    let mut out = Vec::new();
    let options = ExportOptions::new(format("claude-code"));
    let found = export(&*commits.threads(), &main, &options, ExportTarget::Stream(&mut out)).await.unwrap();
    assert_eq!((found.exact, left_out_children(&found)), (true, vec![]));
    let version = commits.threads().load_thread(&child).await.unwrap().unwrap().version;
    let commit = Commit::new(child.clone()).expecting(Expect::Version(version));
    let _receipt = commits.commit(commit.entry(NewEntry::new(Message::user("More.")))).await.unwrap();
    let found = export(&*commits.threads(), &main, &options, ExportTarget::Stream(&mut out)).await.unwrap();
    assert_eq!((found.exact, left_out_children(&found)), (true, vec![child.as_str()]));
    let folder = export_to_folder(&*commits, &main, "claude-code").await;
    assert_eq!((folder.exact, left_out_children(&folder)), (false, vec![]));
}

#[tokio::test]
async fn losses_of_a_child_thread_name_the_thread() {
    let commits = new_store();
    let path = fixtures().join("claude-code/subagents/5e550000-0000-4000-8000-000000000003.jsonl");
    let reports = import(&*commits, &path, &ImportOptions::default()).await.unwrap();
    let (main, child) = (reports[0].thread.clone().unwrap(), reports[1].thread.clone().unwrap());
    let version = commits.threads().load_thread(&child).await.unwrap().unwrap().version;
    let run = RunChange::new(RunId::new("run-1").unwrap(), RunStatus::Running);
    let commit = Commit::new(child.clone())
        .expecting(Expect::Version(version))
        .with_run(run.with_agent(AgentId::new("agent").unwrap()))
        .entry(NewEntry::new(Message::user("More.")));
    let _receipt = commits.commit(commit).await.unwrap();
    let found = export_to_folder(&*commits, &main, "claude-code").await;
    let paths_of_child: Vec<_> = found
        .losses
        .iter()
        .filter(|loss| loss.thread.as_ref() == Some(&child))
        .map(|loss| loss.path.as_str())
        .collect();
    assert!(paths_of_child.contains(&"/runs/run-1"), "{:?}", found.losses);
}

/// A session of Claude Code with a compaction. The summary is the line after the compaction.
fn compacted_session() -> String {
    let mut session = ClaudeSession::default();
    session.user(&json!("Rename the function."));
    let before = session.reply("msg_1", &json!({"type": "text", "text": "Renamed."}));
    session.add(&json!({
        "parentUuid": null, "logicalParentUuid": before, "type": "system", "subtype": "compact_boundary",
        "content": "Conversation compacted", "compactMetadata": {"trigger": "auto", "preTokens": 900},
    }));
    session.add(&json!({
        "type": "user", "message": {"role": "user", "content": "So far: a function was renamed."},
        "isVisibleInTranscriptOnly": true, "isCompactSummary": true,
    }));
    session.user(&json!("Go on."));
    session.text()
}

#[tokio::test]
async fn a_compaction_of_claude_code_has_its_summary_in_pi() {
    for target in ["pi-v3", "pi-v4"] {
        let folder = tempdir().unwrap();
        let commits = new_store();
        let source = write_file(folder.path(), "source.jsonl", compacted_session());
        let thread = import_one(&*commits, &source).await.thread.unwrap();
        let (bytes, _) = export_bytes(&*commits, &thread, format(target)).await;
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let compaction = lines.iter().find(|line| line["type"] == "compaction").unwrap();
        assert_eq!(compaction["summary"], "So far: a function was renamed.", "{target}");
        assert_eq!(text.matches("So far:").count(), 1, "{target}: {text}");
        let other_store = new_store();
        let copy = import_one(&*other_store, &write_file(folder.path(), "copy.jsonl", &text)).await.thread.unwrap();
        let context = other_store.threads().load_context(&copy, ContextRequest::head()).await.unwrap().context;
        let texts: Vec<_> = context.messages.iter().map(|found| format!("{:?}", found.message.blocks)).collect();
        assert_eq!(texts.len(), 2, "{target}: {texts:?}");
        assert!(texts[0].contains("So far: a function was renamed.") && texts[1].contains("Go on."), "{texts:?}");
        let found = export_to_folder(&*commits, &thread, target).await;
        assert_eq!(found.losses.iter().filter(|loss| loss.kind == "summary").count(), 1, "{target}");
    }
}

#[tokio::test]
async fn codex_resumes_an_unchanged_thread_by_the_id_in_its_file() {
    // Another thread already has the id of the session. So the imported thread gets another id, which is no UUID.
    let folder = tempdir().unwrap();
    let text = std::fs::read_to_string(fixtures().join("codex/turns.jsonl")).unwrap();
    let own_id = "019b9b10-0000-7000-8000-000000000001";
    assert!(text.contains(own_id));
    let commits = new_store();
    let taken = NewThread::new(thread_id(own_id));
    let _taken = commits.threads().create_thread(taken).await.unwrap();
    let thread = import_one(&*commits, &write_file(folder.path(), "rollout.jsonl", text)).await.thread.unwrap();
    assert_ne!(thread.as_str(), own_id);
    let options = ExportOptions::new(format("codex"));
    let folders = ToolFolders::new("/home/me", "/work/app");
    for is_changed in [false, true] {
        if is_changed {
            let version = commits.threads().load_thread(&thread).await.unwrap().unwrap().version;
            let commit = Commit::new(thread.clone()).expecting(Expect::Version(version));
            let _receipt = commits.commit(commit.entry(NewEntry::new(Message::user("More.")))).await.unwrap();
        }
        let place = tool_place(&*commits.threads(), &thread, &options, &folders).await.unwrap();
        let out = tempdir().unwrap();
        let target = ExportTarget::Folder(out.path());
        let exported = export(&*commits.threads(), &thread, &options, target).await.unwrap();
        assert_eq!(exported.exact, !is_changed);
        let written = std::fs::read_to_string(&exported.files[0]).unwrap();
        let header: Value = serde_json::from_str(written.lines().next().unwrap()).unwrap();
        let id = header["payload"]["id"].as_str().unwrap();
        assert_eq!((id == own_id, place.command), (!is_changed, format!("codex resume {id}")));
        let name = Path::new(exported.files[0].file_name().unwrap());
        assert!(name.to_str().unwrap().ends_with(&format!("-{id}.jsonl")), "{}", name.display());
    }
}

#[tokio::test]
async fn a_rewind_to_the_start_is_imported_without_raw_bytes() {
    let commits = new_store();
    let commit = Commit::new(thread_id("rewound"))
        .expecting(Expect::Absent)
        .entry(NewEntry::new(Message::user("first")))
        .entry(NewEntry::new(RewindTo::Start))
        .entry(NewEntry::new(Message::user("second")));
    let thread = commits.commit(commit).await.unwrap().thread;
    let (bytes, _) = export_bytes(&*commits, &thread, format("agent-core")).await;
    let folder = tempdir().unwrap();
    let other_store = new_store();
    let copy = import_one(&*other_store, &write_file(folder.path(), "copy.jsonl", &bytes)).await.thread.unwrap();
    let found = entries(&*other_store, &copy).await;
    let rewind = found.iter().find(|entry| matches!(&*entry.body, Body::Rewind(_))).unwrap();
    assert!(rewind.origin.as_ref().unwrap().raw.is_none(), "{rewind:?}");
    assert_eq!(export_bytes(&*other_store, &copy, format("agent-core")).await, (bytes, true));
}
