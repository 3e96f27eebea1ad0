//! `import` and `export` of session files of other tools.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::helpers::{TestStore, fixture, value_at};

#[test]
fn an_import_prints_a_report_and_its_thread_exports_to_the_same_bytes() {
    let store = TestStore::new();
    let file = fixture("pi/v1-turns.jsonl");
    let report = store.json(&["import", file.to_str().unwrap()]);
    assert_eq!((value_at(&report, "/format"), value_at(&report, "/lines")), (&json!("pi-v1"), &json!(17)));
    for field in ["/file", "/version", "/entries", "/bytes", "/messages", "/leaves", "/issues"] {
        value_at(&report, field);
    }
    let thread = value_at(&report, "/thread").as_str().unwrap();
    let out = store.sibling_path("out.jsonl");
    let args = ["export", thread, "--format", "pi-v1", "--output", out.to_str().unwrap()];
    let exported = store.json(&args);
    assert_eq!(value_at(&exported, "/exact"), true);
    assert!(fs::read(&out).unwrap() == fs::read(&file).unwrap());
    store.run(&args).expect_failure(1, &["out.jsonl` cannot be written", "choose a file that does not exist yet"]);
    // The format is by default the one that the thread was imported from.
    let printed = store.run(&["export", thread]).expect_success();
    assert!(printed.out == fs::read_to_string(&file).unwrap());
    store.append("own", "hi");
    store.run(&["export", "own"]).expect_failure(2, &["thread `own` was not imported", "--format", "claude-code"]);
    store.run(&["export", "none"]).expect_failure(1, &["thread `none` does not exist"]);
    let again = store.json(&["import", file.to_str().unwrap()]);
    assert_eq!(value_at(&again, "/added"), 0);
}

#[test]
fn several_files_give_a_report_each() {
    let store = TestStore::new();
    let (tree, joined_lines) = (fixture("pi/v3-tree.jsonl"), fixture("bad/pi-welded-lines.jsonl"));
    let response =
        store.run(&["import", tree.to_str().unwrap(), joined_lines.to_str().unwrap(), "--json"]).expect_success();
    let formats: Vec<_> = response.documents().iter().map(|line| value_at(line, "/format").clone()).collect();
    assert_eq!(formats.len(), 2);
    assert_eq!(value_at(&response.documents()[1], "/issues/0/code"), "malformed_line");
}

#[test]
fn importing_a_file_that_is_not_a_session_exits_with_1() {
    let store = TestStore::new();
    let unknown_format = fixture("bad/unknown-format.jsonl");
    let response = store.run(&["import", unknown_format.to_str().unwrap()]);
    assert_eq!(response.code, 1, "{response:?}");
    for text in ["its report says why", "what to do", "agent-core"] {
        assert!(response.err.contains(text), "{response:?}");
    }
    // The reason is printed once, in the report.
    assert!(response.out.contains("unknown_format") && !response.err.contains("unknown_format"), "{response:?}");
    assert!(!response.out.contains("0 lines"), "{response:?}");
    let response = store.run(&["import", unknown_format.to_str().unwrap(), "--json"]);
    assert!(value_at(&response.documents()[0], "/thread").is_null());
    assert_eq!(value_at(&response.error(), "/kind"), "invalid");
    let response = store.run(&["import", "/not/there.jsonl"]);
    assert_eq!(response.code, 1, "{response:?}");
    assert!(response.out.contains("unreadable") && response.err.contains("check that the file exists"), "{response:?}");
}

#[test]
fn a_file_without_a_conversation_is_no_failure_beside_a_session() {
    let store = TestStore::new();
    let folder = store.sibling_path("projects");
    fs::create_dir(&folder).unwrap();
    let (title, session) = (folder.join("title.jsonl"), folder.join("session.jsonl"));
    fs::write(&title, "{\"type\":\"summary\",\"summary\":\"Old\",\"leafUuid\":\"x\"}\n").unwrap();
    let message =
        r#"{"type":"user","uuid":"a","sessionId":"s","timestamp":1,"message":{"role":"user","content":"hi"}}"#;
    fs::write(&session, format!("{message}\n")).unwrap();
    let response = store.run(&["import", folder.to_str().unwrap()]).expect_success();
    assert!(response.out.contains("title.jsonl (claude-code) has no conversation"), "{response:?}");
    for args in
        [vec!["import", title.to_str().unwrap()], vec!["import", "--format", "claude-code", title.to_str().unwrap()]]
    {
        let response = store.run(&args);
        assert_eq!(response.code, 1, "{response:?}");
        assert!(response.out.contains("no_message"), "{response:?}");
        assert!(response.err.contains("contains no conversation yet"), "{response:?}");
    }
    fs::remove_file(&session).unwrap();
    let response = store.run(&["import", folder.to_str().unwrap()]);
    assert_eq!((response.code, response.out.contains("no_message")), (1, true), "{response:?}");
}

#[test]
fn a_strict_import_writes_nothing_of_a_file_with_issues() {
    let store = TestStore::new();
    let joined_lines = fixture("bad/pi-welded-lines.jsonl");
    let response = store.run(&["import", "--strict", joined_lines.to_str().unwrap()]);
    assert_eq!(response.code, 1, "{response:?}");
    assert!(response.out.contains("malformed_line") && response.err.contains("--strict"), "{response:?}");
    assert_eq!(value_at(&store.json(&["threads"]), "/threads"), &json!([]));
}

#[test]
fn a_session_can_be_imported_before_its_parent() {
    let store = TestStore::new();
    let write_session = |id: &str, parent: &str| {
        let path = store.sibling_path(&format!("{id}.jsonl"));
        let time = "2026-01-05T10:00:00Z";
        let header = json!({"type": "session", "version": 3, "id": id, "timestamp": time, "parentSession": parent});
        let message = json!({"type": "message", "id": "m", "parentId": null, "timestamp": time,
            "message": {"role": "user", "content": "hello"}});
        fs::write(&path, format!("{header}\n{message}\n")).unwrap();
        path
    };
    let (child, parent) = (write_session("child", "/x/1_parent.jsonl"), write_session("parent", ""));
    store.run(&["import", child.to_str().unwrap(), parent.to_str().unwrap()]).expect_success();
    let show_output = store.run(&["show", "child"]).expect_success();
    assert!(show_output.out.lines().any(|line| line.contains("parent") && line.ends_with("parent")), "{show_output:?}");
}

/// A session from standard input is imported, and written where another tool looks for it.
#[test]
fn a_session_is_continued_in_another_tool() {
    let store = TestStore::new();
    let tool_folder = store.sibling_path("codex");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentstore"));
        command.arg("--store").arg(format!("file:{}", store.path().display())).args(args);
        command.env("CODEX_HOME", &tool_folder).env_remove("AGENTSTORE_MAILBOX");
        command.stdin(fs::File::open(fixture("pi/v3-tree.jsonl")).unwrap()).output().unwrap()
    };
    let imported = run(&["import", "-", "--json"]);
    assert!(imported.status.success(), "{imported:?}");
    let report: Value = serde_json::from_slice(&imported.stdout).unwrap();
    let thread = value_at(&report, "/thread").as_str().unwrap();
    let unconfirmed = run(&["continue-in", "codex", thread]);
    assert_eq!(unconfirmed.status.code(), Some(1), "{unconfirmed:?}");
    assert!(!tool_folder.exists());
    let written = run(&["continue-in", "codex", thread, "--yes", "--json"]);
    assert!(written.status.success(), "{written:?}");
    let document: Value = serde_json::from_slice(&written.stdout).unwrap();
    let file = value_at(&document, "/exported/files/0").as_str().unwrap();
    assert!(file.starts_with(tool_folder.to_str().unwrap()) && fs::metadata(file).unwrap().len() > 0, "{file}");
    assert!(value_at(&document, "/command").as_str().unwrap().starts_with("codex resume "), "{document}");
    let copy = store.sibling_path("copy");
    let exported = store.json(&["export", thread, "--format", "kimi-cli", "--folder", copy.to_str().unwrap()]);
    assert!(copy.join("context.jsonl").is_file() && !value_at(&exported, "/losses").as_array().unwrap().is_empty());
}

/// Runs `continue-in` with a folder next to the store as the folder of each tool. Returns the exit code, the standard
/// output and the standard error.
fn continue_in(store: &TestStore, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentstore"));
    command.arg("--store").arg(format!("file:{}", store.path().display())).arg("continue-in").args(args);
    for variable in ["CODEX_HOME", "CLAUDE_CONFIG_DIR", "PI_CODING_AGENT_DIR"] {
        command.env(variable, store.sibling_path("tools"));
    }
    let output = command.env_remove("AGENTSTORE_MAILBOX").stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileText {
    name: String,
    text: String,
}

/// Returns the name and the text of each file in a folder and its subfolders, sorted by name.
fn files_below(folder: &Path) -> Vec<FileText> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.push(FileText { name, text: fs::read_to_string(&path).unwrap() });
        }
    }
    files.sort();
    files
}

/// A second `continue-in` keeps the file of the first one under another name.
#[test]
fn a_second_continue_in_keeps_the_earlier_file() {
    let store = TestStore::new();
    let tools = store.sibling_path("tools");
    store.append("t", "hello");
    for tool in ["codex", "claude-code", "pi"] {
        let (code, out, err) = continue_in(&store, &[tool, "t", "--yes"]);
        assert!(code == Some(0) && out.starts_with("wrote ") && out.contains("continue it in /"), "{tool}: {out}{err}");
        let first = files_below(&tools);
        assert_eq!(first.len(), 1, "{tool}");
        let (code, out, _) = continue_in(&store, &[tool, "t"]);
        assert!(code == Some(0) && out.starts_with("is there already: "), "{tool}: {out}");
        store.append("t", &format!("more for {tool}"));
        let (code, _, err) = continue_in(&store, &[tool, "t"]);
        assert!(code == Some(2) && err.contains("Rename 1 file of an earlier `continue-in`"), "{tool}: {err}");
        assert_eq!(files_below(&tools), first, "{tool}");
        let (code, _, err) = continue_in(&store, &[tool, "t", "--yes"]);
        assert!(code == Some(0) && err.contains(".replaced"), "{tool}: {err}");
        let second = files_below(&tools);
        assert_eq!(second.len(), 2, "{tool}");
        assert!(
            second[0].text.contains(&format!("more for {tool}")) && second[1].text == first[0].text,
            "{tool}: {second:?}"
        );
        fs::remove_dir_all(&tools).unwrap();
    }
}

/// The session that a thread was imported from is never replaced. A copy of the thread is written beside it.
#[test]
fn an_original_session_is_not_replaced() {
    let store = TestStore::new();
    let report = store.json(&["import", fixture("claude-code/fork.jsonl").to_str().unwrap()]);
    let thread = value_at(&report, "/thread").as_str().unwrap();
    let (code, _, err) = continue_in(&store, &["claude-code", thread, "--yes"]);
    assert_eq!(code, Some(0), "{err}");
    let tools = store.sibling_path("tools");
    let original = files_below(&tools);
    store.append(thread, "another one");
    let (code, out, err) = continue_in(&store, &["claude-code", thread, "--yes"]);
    assert!(code == Some(1) && err.contains("is not replaced") && err.contains("--fork"), "{out}{err}");
    assert_eq!(files_below(&tools), original);
    let copy = store.json(&["step", thread, "--fork"]);
    let copy = value_at(&copy, "/thread").as_str().unwrap();
    let (code, _, err) = continue_in(&store, &["claude-code", copy, "--yes"]);
    assert!(code == Some(0) && files_below(&tools).len() == 2, "{err}");
    store.append(copy, "and more");
    let (code, _, err) = continue_in(&store, &["claude-code", copy, "--yes"]);
    assert!(code == Some(0) && files_below(&tools).len() == 3, "{err}");
}

#[test]
fn a_session_is_only_continued_by_a_tool_and_in_a_folder_that_exist() {
    let store = TestStore::new();
    store.append("t", "hello");
    let (code, _, err) = continue_in(&store, &["agent-core", "t", "--yes"]);
    assert!(code == Some(2) && err.contains("claude-code, kimi-cli]"), "{err}");
    let (code, _, err) = continue_in(&store, &["codex", "t", "--yes", "--working-folder", "/not/there"]);
    assert!(code == Some(1) && err.contains("`/not/there` cannot be read"), "{err}");
    assert!(!store.sibling_path("tools").exists());
}

/// A file name that is not UTF-8 is shown with replacement characters, and the import goes on.
#[test]
fn a_file_name_that_is_not_utf_8_is_reported() {
    let store = TestStore::new();
    let copy_with_name = |name: &[u8], session: &str| {
        let path = store.sibling_path("x").with_file_name(OsStr::from_bytes(name));
        fs::copy(fixture(session), &path).unwrap();
        path
    };
    let files = [
        copy_with_name(b"one-\xff.jsonl", "pi/v3-tree.jsonl"),
        copy_with_name(b"two-\xfe.jsonl", "bad/unknown-format.jsonl"),
        copy_with_name(b"three.jsonl", "bad/pi-welded-lines.jsonl"),
    ];
    let import = |json: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentstore"));
        command.arg("--store").arg(format!("file:{}", store.path().display())).arg("import").args(&files);
        command.args(json.then_some("--json")).env_remove("AGENTSTORE_MAILBOX").output().unwrap()
    };
    let response = import(true);
    let out = String::from_utf8(response.stdout).unwrap();
    let reports: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown_names: Vec<_> = reports.iter().map(|report| value_at(report, "/file").as_str().unwrap()).collect();
    assert!(
        shown_names[0].ends_with("one-\u{fffd}.jsonl") && shown_names[2].ends_with("three.jsonl"),
        "{shown_names:?}"
    );
    let error: Value = serde_json::from_slice(&response.stderr).unwrap();
    assert_eq!(
        (response.status.code(), value_at(&error, "/kind"), reports.len()),
        (Some(1), &json!("invalid"), 3),
        "{error}"
    );
    assert!(String::from_utf8(import(false).stdout).unwrap().contains("one-\u{fffd}.jsonl"));
    assert_eq!(value_at(&store.json(&["threads"]), "/threads").as_array().unwrap().len(), 2);
}

/// The commands work on a store in a folder whose name is not UTF-8, and print valid UTF-8.
#[test]
fn a_folder_name_that_is_not_utf_8_is_shown() {
    let store = TestStore::new();
    let folder = store.sibling_path("x").with_file_name(OsStr::from_bytes(b"data-\xff"));
    fs::create_dir(&folder).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentstore"));
        command.args(args).current_dir(&folder).env_remove("AGENTSTORE_URL").env_remove("AGENTSTORE_MAILBOX");
        let response = command.output().unwrap();
        assert!(response.status.success(), "{response:?}");
        String::from_utf8(response.stdout).unwrap()
    };
    for args in
        [&["append", "t", "--message", "hi"][..], &["threads"], &["show", "t"], &["verify"], &["repair", "--dry-run"]]
    {
        let _text = run(args);
        let json = run(&[args, &["--json"]].concat());
        for line in json.lines() {
            let _document: Value = serde_json::from_str(line).unwrap();
        }
    }
}
