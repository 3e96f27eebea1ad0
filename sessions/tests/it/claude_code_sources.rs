//! Tests of the detection of sessions of Claude Code, and of the ids and titles of their threads.

use std::path::Path;

use sessions::{ImportOptions, IssueCode, import};
use store_core::{Body, CommitCoordinator, Thread, ThreadId};
use tempfile::tempdir;

use crate::helpers::{
    entries, export_bytes, fixtures, format, has_no_message, import_any, import_one, new_store, write_file,
};

const FIRST_SESSION: &str = "5e550000-0000-4000-8000-0000000000a1";
const SECOND_SESSION: &str = "5e550000-0000-4000-8000-0000000000a2";

/// A user line of a session.
fn user(session: &str, uuid: &str, parent: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        r#"{{"type":"user","uuid":"{uuid}","parentUuid":{parent},"isSidechain":false,"sessionId":"{session}","timestamp":"2026-02-01T09:00:00.000Z","message":{{"role":"user","content":"{uuid}"}}}}"#
    ) + "\n"
}

fn summary(leaf: &str, text: &str) -> String {
    format!(r#"{{"type":"summary","summary":"{text}","leafUuid":"{leaf}"}}"#) + "\n"
}

async fn load(commits: &dyn CommitCoordinator, id: &str) -> Thread {
    commits.threads().load_thread(&ThreadId::new(id).unwrap()).await.unwrap().unwrap()
}

/// Imports a text as a file with this name. Returns the id of the thread.
async fn thread_of(name: &str, text: &str) -> String {
    let folder = tempdir().unwrap();
    let report = import_one(&*new_store(), &write_file(folder.path(), name, text)).await;
    report.thread.unwrap().as_str().to_owned()
}

#[tokio::test]
async fn files_without_a_conversation_are_refused() {
    let snapshot = r#"{"type":"file-history-snapshot","messageId":"m","snapshot":{"messageId":"m","trackedFileBackups":{},"timestamp":"2026-02-01T09:00:00.000Z"},"isSnapshotUpdate":false}"#;
    let mode = format!(r#"{{"type":"permission-mode","permissionMode":"default","sessionId":"{FIRST_SESSION}"}}"#);
    let queue = format!(
        r#"{{"type":"queue-operation","operation":"enqueue","timestamp":"2026-02-01T09:00:00.000Z","content":"x","sessionId":"{FIRST_SESSION}"}}"#
    );
    let hook = format!(
        r#"{{"type":"attachment","uuid":"h","parentUuid":null,"sessionId":"{FIRST_SESSION}","timestamp":"2026-02-01T09:00:00.000Z","attachment":{{"type":"hook","content":"Be brief."}}}}"#
    );
    let folder = tempdir().unwrap();
    let commits = new_store();
    let contents = [format!("{snapshot}\n{snapshot}\n"), summary("unknown", "A title"), mode + "\n", queue + "\n"];
    for (at, text) in contents.iter().chain([&format!("{hook}\n{snapshot}\n")]).enumerate() {
        let path = write_file(folder.path(), &format!("{at}.jsonl"), text);
        for options in [ImportOptions::default(), ImportOptions::default().with_format(format("claude-code"))] {
            let report = import(&*commits, &path, &options).await.unwrap().remove(0);
            assert!(has_no_message(&report), "{text}: {:?}", report.issues);
            assert_eq!(report.format, Some("claude-code"), "{text}");
        }
    }
    write_file(folder.path(), "empty.jsonl", "");
    write_file(folder.path(), &format!("{FIRST_SESSION}.jsonl"), user(FIRST_SESSION, "a", ""));
    let reports = import_any(&*commits, folder.path()).await;
    let (imported, others): (Vec<_>, Vec<_>) = reports.iter().partition(|report| report.is_imported());
    assert_eq!((imported.len(), others.len()), (1, 6));
    assert!(others.iter().all(|report| report.has_no_conversation() && !report.is_failure()));
    let alone = import_one(&*commits, &folder.path().join("0.jsonl")).await;
    assert!(alone.has_no_conversation() && alone.is_failure());
    std::fs::remove_file(folder.path().join(format!("{FIRST_SESSION}.jsonl"))).unwrap();
    assert!(import_any(&*commits, folder.path()).await.iter().all(sessions::ImportReport::is_failure));
}

#[tokio::test]
async fn many_records_before_the_first_message_do_not_hide_a_session() {
    let mode = format!(r#"{{"type":"mode","mode":"normal","sessionId":"{FIRST_SESSION}"}}"#) + "\n";
    assert_eq!(thread_of("long.jsonl", &(mode.repeat(80) + &user(FIRST_SESSION, "a", ""))).await, FIRST_SESSION);
}

#[tokio::test]
async fn a_copy_has_the_id_of_its_session() {
    let resumed = user(FIRST_SESSION, "a", "") + &user(SECOND_SESSION, "b", "a");
    for name in ["backup.jsonl", "session (1).jsonl", "0.jsonl"] {
        assert_eq!(thread_of(name, &user(FIRST_SESSION, "a", "")).await, FIRST_SESSION, "{name}");
        assert_eq!(thread_of(name, &resumed).await, SECOND_SESSION, "{name}");
    }
    // Claude Code names a file after its session, even if all lines of the file are copies from another session.
    assert_eq!(thread_of(&format!("{SECOND_SESSION}.jsonl"), &user(FIRST_SESSION, "a", "")).await, SECOND_SESSION);
    assert_eq!(thread_of(&format!("{FIRST_SESSION}.jsonl"), &resumed).await, FIRST_SESSION);
    assert_eq!(thread_of("work.jsonl", &user("[left out]", "a", "")).await, "work");
    assert_eq!(thread_of("work.jsonl", &user("", "a", "")).await, "work");
}

#[tokio::test]
async fn a_copy_of_an_imported_session_changes_nothing() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let text = user(FIRST_SESSION, "a", "") + &user(FIRST_SESSION, "b", "a");
    let _first = import_one(&*commits, &write_file(folder.path(), &format!("{FIRST_SESSION}.jsonl"), &text)).await;
    let copy = import_one(&*commits, &write_file(folder.path(), "copy.jsonl", &text)).await;
    assert_eq!((copy.thread.unwrap().as_str(), copy.added, copy.issues.len()), (FIRST_SESSION, 0, 0));
    let older = import_one(&*commits, &write_file(folder.path(), "older.jsonl", user(FIRST_SESSION, "a", ""))).await;
    assert_eq!((older.thread, older.issues[0].code), (None, IssueCode::ChangedFile));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_pipe_gives_the_thread_of_the_session_in_it() {
    use std::{io::Write, os::fd::AsRawFd};
    let pi = r#"{"type":"session","version":3,"id":"pi-1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p"}
{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"x"}}
"#;
    let codex = r#"{"timestamp":"2026-01-06T08:00:00.000Z","type":"session_meta","payload":{"id":"codex-1","timestamp":"2026-01-06T08:00:00.000Z","cwd":"/p"}}
{"timestamp":"2026-01-06T08:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}
"#;
    let call = format!(
        r#"{{"type":"assistant","uuid":"c","parentUuid":"a","sessionId":"{FIRST_SESSION}","timestamp":"2026-02-01T09:00:00.000Z","message":{{"id":"m","role":"assistant","content":[{{"type":"tool_use","id":"t","name":"Task","input":{{"prompt":"go"}}}}]}}}}"#
    );
    let child =
        user(FIRST_SESSION, "s", "").replace("\"isSidechain\":false", "\"isSidechain\":true,\"agentId\":\"x1\"");
    let claude = user(FIRST_SESSION, "a", "") + &call + "\n" + &child;
    for (text, threads) in [
        (pi.to_owned(), vec!["pi-1".to_owned()]),
        (codex.to_owned(), vec!["codex-1".to_owned()]),
        (claude, vec![FIRST_SESSION.to_owned(), format!("{FIRST_SESSION}.agent-x1")]),
    ] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        drop(writer);
        let commits = new_store();
        let reports = import_any(&*commits, Path::new(&format!("/dev/fd/{}", reader.as_raw_fd()))).await;
        let found: Vec<_> = reports.into_iter().map(|report| report.thread.unwrap().as_str().to_owned()).collect();
        assert_eq!(found, threads);
    }
}

#[tokio::test]
async fn a_subagent_becomes_a_child_when_its_session_is_imported_later() {
    let session = "5e550000-0000-4000-8000-000000000003";
    let folder = tempdir().unwrap();
    let commits = new_store();
    let source = fixtures().join("claude-code/subagents/agent-b2.jsonl");
    let report = import_one(&*commits, &write_file(folder.path(), "copy.jsonl", std::fs::read(source).unwrap())).await;
    let child = format!("{session}.agent-b2");
    assert_eq!(report.thread.unwrap().as_str(), child);
    assert_eq!(load(&*commits, &child).await.metadata["agent_id"].as_str(), "\"b2\"");
    let reports = import_any(&*commits, &fixtures().join("claude-code/subagents")).await;
    let threads: Vec<_> = reports.iter().map(|report| report.thread.as_ref().unwrap().as_str()).collect();
    assert_eq!(threads, [session, &format!("{session}.agent-a1"), &child]);
    assert_eq!(load(&*commits, &child).await.parent_thread_id.unwrap().as_str(), session);
}

#[tokio::test]
async fn a_summary_is_the_title_of_the_session_that_it_is_about() {
    let folder = tempdir().unwrap();
    let lines = user(FIRST_SESSION, "a", "") + &user(FIRST_SESSION, "b", "a");
    let model_title = format!(r#"{{"type":"ai-title","aiTitle":"By the model","sessionId":"{FIRST_SESSION}"}}"#) + "\n";
    let mode_line = r#"{"type":"mode","mode":"normal","sessionId":"x"}"#.to_owned() + "\n";
    for (own_file, other_file, title) in [
        (lines.clone() + &summary("b", "At the end"), String::new(), Some("At the end")),
        (summary("b", "One") + &summary("elsewhere", "Two") + &lines, String::new(), Some("One")),
        (summary("a", "One") + &lines + &summary("b", "Two"), String::new(), Some("Two")),
        (model_title + &lines + &summary("b", "Two"), String::new(), Some("By the model")),
        (summary("elsewhere", "Two") + &lines, String::new(), None),
        (lines.clone(), summary("b", "Before") + &user(SECOND_SESSION, "z", ""), Some("Before")),
        (
            lines.clone(),
            user(SECOND_SESSION, "z", "") + &mode_line.repeat(2_000) + &summary("b", "Behind"),
            Some("Behind"),
        ),
        (lines.clone(), summary("z", "Not mine"), None),
    ] {
        write_file(folder.path(), &format!("{FIRST_SESSION}.jsonl"), own_file);
        write_file(folder.path(), "other.jsonl", &other_file);
        let commits = new_store();
        let _report = import_one(&*commits, &folder.path().join(format!("{FIRST_SESSION}.jsonl"))).await;
        assert_eq!(load(&*commits, FIRST_SESSION).await.title.as_deref(), title, "{other_file:.300}");
    }
}

/// An assistant line with a call.
fn call(uuid: &str, parent: &str, id: &str) -> String {
    let message = format!(
        r#"{{"id":"m-{id}","role":"assistant","content":[{{"type":"tool_use","id":"{id}","name":"Bash","input":{{}}}}]}}"#
    );
    user(FIRST_SESSION, uuid, parent)
        .replace("\"user\",\"uuid\"", "\"assistant\",\"uuid\"")
        .replace(&format!(r#"{{"role":"user","content":"{uuid}"}}"#), &message)
}

/// A user line with a result.
fn result(uuid: &str, parent: &str, (id, text): (&str, &str)) -> String {
    let content = format!(r#"[{{"type":"tool_result","tool_use_id":"{id}","content":"{text}"}}]"#);
    user(FIRST_SESSION, uuid, parent).replace(&format!("\"content\":\"{uuid}\""), &format!("\"content\":{content}"))
}

#[tokio::test]
async fn files_with_large_results_become_entries_below_the_results() {
    let folder = tempdir().unwrap();
    let results = folder.path().join(FIRST_SESSION).join("tool-results");
    std::fs::create_dir_all(&results).unwrap();
    let saved = "<persisted-output>\\nOutput too large (1MB). Full output saved to: /p/tool-results/b1.txt";
    let lines = [
        user(FIRST_SESSION, "a", ""),
        call("b", "a", "toolu_1"),
        result("c", "b", ("toolu_1", "short")),
        call("d", "c", "toolu_2"),
        result("e", "d", ("toolu_2", saved)),
    ]
    .concat();
    let path = write_file(folder.path(), &format!("{FIRST_SESSION}.jsonl"), &lines);
    write_file(&results, "toolu_1.txt", "all of it");
    write_file(&results, "b1.txt", b"\xff\x00");
    let commits = new_store();
    let report = import_one(&*commits, &path).await;
    assert_eq!((report.entries, report.issues.len()), (8, 0), "{:?}", report.issues);
    write_file(&results, "lines.jsonl", "{}");
    let reports = import_any(&*commits, folder.path()).await;
    assert_eq!((reports.len(), reports[0].added), (1, 1), "{:?}", reports[0].issues);
    assert_eq!(import_one(&*commits, &path).await.added, 0);
    let thread = report.thread.unwrap();
    let mut found = Vec::new();
    for entry in entries(&*commits, &thread).await {
        if let Body::Custom(custom) = &*entry.body
            && custom.kind == "claude-code.tool-results"
        {
            found.push((entry.parent.as_ref().map(|id| id.as_str().to_owned()), custom.data.as_str().to_owned()));
        }
    }
    found.sort();
    let expected = [
        (None, r#"{"file":"tool-results/lines.jsonl","text":"{}"}"#),
        (Some("c"), r#"{"file":"tool-results/toolu_1.txt","text":"all of it"}"#),
        (Some("e"), r#"{"base64":"/wA=","file":"tool-results/b1.txt"}"#),
    ];
    assert_eq!(found, expected.map(|(parent, data)| (parent.map(str::to_owned), data.to_owned())));
    let (bytes, exact) = export_bytes(&*commits, &thread, format("claude-code")).await;
    assert!(exact && bytes == lines.as_bytes());
    let options = ImportOptions::default().with_max_line(1_000);
    write_file(&results, "long.txt", "x".repeat(1_001));
    let report = import(&*new_store(), &path, &options).await.unwrap().remove(0);
    assert_eq!((report.entries, report.count(IssueCode::UnknownType)), (9, 1), "{:?}", report.issues);
}

#[tokio::test]
async fn a_description_names_the_call_of_a_subagent() {
    let folder = tempdir().unwrap();
    let subagents = folder.path().join(FIRST_SESSION).join("subagents");
    std::fs::create_dir_all(&subagents).unwrap();
    let main = user(FIRST_SESSION, "a", "") + &call("b", "a", "toolu_1");
    write_file(folder.path(), &format!("{FIRST_SESSION}.jsonl"), main);
    for agent in ["x", "y"] {
        let line = user(FIRST_SESSION, agent, "").replace("\"isSidechain\":false", "\"isSidechain\":true");
        write_file(&subagents, &format!("agent-{agent}.jsonl"), line);
    }
    let description = r#"{"agentType":"Explore","description":"Look","toolUseId":"toolu_1"}"#;
    write_file(&subagents, "agent-x.meta.json", description);
    write_file(&subagents, "agent-y.meta.json", "{");
    let commits = new_store();
    let reports = import_any(&*commits, folder.path()).await;
    let issue_codes =
        |report: &sessions::ImportReport| report.issues.iter().map(|issue| issue.code).collect::<Vec<_>>();
    assert_eq!((issue_codes(&reports[1]), issue_codes(&reports[2])), (vec![], vec![IssueCode::BadField]));
    let child = load(&*commits, &format!("{FIRST_SESSION}.agent-x")).await;
    assert_eq!(child.metadata["tool_use_id"].as_str(), "\"toolu_1\"");
    assert_eq!(child.metadata["agent_meta"].as_str(), description);
    assert!(!load(&*commits, &format!("{FIRST_SESSION}.agent-y")).await.metadata.contains_key("agent_meta"));
}

#[tokio::test]
async fn a_message_in_the_middle_that_names_no_parent_is_reported() {
    let folder = tempdir().unwrap();
    let lines = user(FIRST_SESSION, "a", "")
        + &user(FIRST_SESSION, "b", "a")
        + &user(FIRST_SESSION, "c", "")
        + &user(FIRST_SESSION, "d", "c");
    let path = write_file(folder.path(), "s.jsonl", &lines);
    for (parents, message_count) in [(sessions::ParentChoice::AsGiven, 2), (sessions::ParentChoice::Nearest, 4)] {
        let commits = new_store();
        let options = ImportOptions::default().with_parents(parents);
        let report = import(&*commits, &path, &options).await.unwrap().remove(0);
        let issues: Vec<_> = report.issues.iter().map(|issue| (issue.line, issue.code)).collect();
        assert_eq!(issues, [(Some(3), IssueCode::NewRoot)]);
        assert!(report.issues[0].detail.contains("2 messages"), "{}", report.issues[0].detail);
        let thread = report.thread.unwrap();
        let context =
            commits.threads().load_context(&thread, store_core::ContextRequest::head()).await.unwrap().context;
        assert_eq!(context.messages.len(), message_count);
    }
    let missing = lines.replace("\"uuid\":\"c\",\"parentUuid\":null,", "\"uuid\":\"c\",");
    let report = import_one(&*new_store(), &write_file(folder.path(), "s.jsonl", missing)).await;
    assert_eq!(report.count(IssueCode::NewRoot), 1, "{:?}", report.issues);
}
