//! Tests of unusual and damaged pi files: lost parents, calls with the same id, damaged lines, titles before headers,
//! and tokens outside of messages. The last tests use the files of `reported_files`.

use std::{path::Path, sync::Arc};

use sessions::{ImportOptions, ImportReport, IssueCode, ParentChoice, import};
use store_core::{BlockKind, CommitCoordinator, Context, ContextRequest, Entry, ThreadId, TokenCounts};
use tempfile::tempdir;

use crate::{
    helpers::{custom_kind, entries, export_bytes, has_no_message, import_one, new_store, write_file},
    reported_files::cases_folder,
};

pub(crate) const HEADER: &str =
    r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-05T10:00:00.000Z","cwd":"/x"}"#;

/// A line with a message. `parent` is JSON.
pub(crate) fn message(id: &str, parent: &str, message: &str) -> String {
    format!(
        r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"2026-01-05T10:00:01.000Z","message":{message}}}"#
    )
}

pub(crate) fn user(id: &str, parent: &str) -> String {
    message(id, parent, &format!(r#"{{"role":"user","content":"text of {id}"}}"#))
}

/// A store with the thread that was imported from a file, and the report of the import.
pub(crate) struct Imported {
    pub(crate) commits: Arc<dyn CommitCoordinator>,
    pub(crate) report: ImportReport,
    pub(crate) thread: ThreadId,
}

impl Imported {
    pub(crate) async fn context(&self) -> Context {
        self.commits.threads().load_context(&self.thread, ContextRequest::head()).await.unwrap().context
    }

    /// The ids of the entries from which the messages of the context come.
    pub(crate) async fn context_entries(&self) -> Vec<String> {
        self.context().await.messages.iter().map(|message| message.entry.as_str().to_owned()).collect()
    }

    pub(crate) async fn entry(&self, id: &str) -> Arc<Entry> {
        entries(&*self.commits, &self.thread).await.into_iter().find(|entry| entry.id.as_str() == id).unwrap()
    }
}

/// Imports these lines, and checks that the export has the same bytes and that a second import adds nothing.
pub(crate) async fn import_lines(lines: &[String], options: &ImportOptions) -> Imported {
    import_bytes((lines.join("\n") + "\n").as_bytes(), options).await
}

async fn import_bytes(bytes: &[u8], options: &ImportOptions) -> Imported {
    let folder = tempdir().unwrap();
    let path = write_file(folder.path(), "file.jsonl", bytes);
    let commits = new_store();
    let report = import(&*commits, &path, options).await.unwrap().remove(0);
    let thread = report.thread.clone().unwrap();
    let (exported_bytes, exact) = export_bytes(&*commits, &thread, report.format.unwrap().parse().unwrap()).await;
    assert!(exact && exported_bytes == bytes, "{}", String::from_utf8_lossy(&exported_bytes));
    let again = import(&*commits, &path, options).await.unwrap().remove(0);
    assert_eq!((again.added, again.entries), (0, report.entries));
    Imported { commits, report, thread }
}

fn nearest_parent_options() -> ImportOptions {
    ImportOptions::default().with_parents(ParentChoice::Nearest)
}

fn issue_detail(report: &ImportReport, code: IssueCode) -> &str {
    let issue = report.issues.iter().find(|issue| issue.code == code);
    issue.map_or("", |issue| &issue.detail)
}

#[tokio::test]
async fn a_lost_parent_is_reported_with_the_number_of_messages_that_the_context_loses() {
    let lines = [HEADER.to_owned(), user("a", "null"), user("b", "\"a\""), user("c", "\"lost\""), user("d", "\"c\"")];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    assert_eq!(imported.context_entries().await, ["c", "d"]);
    assert_eq!(imported.report.count(IssueCode::DanglingParent), 1);
    let detail = issue_detail(&imported.report, IssueCode::DanglingParent);
    assert!(detail.ends_with("number of messages missing from its context: 2"), "{detail}");
    let with_nearest_parents = import_lines(&lines, &nearest_parent_options()).await;
    assert_eq!(with_nearest_parents.context_entries().await, ["a", "b", "c", "d"]);
    assert_eq!(with_nearest_parents.report.count(IssueCode::DanglingParent), 1);
}

#[tokio::test]
async fn a_root_in_the_middle_is_reported_and_can_get_a_parent() {
    let lines = [HEADER.to_owned(), user("a", "null"), user("b", "\"a\""), user("c", "null"), user("d", "\"c\"")];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    assert_eq!(imported.context_entries().await, ["c", "d"]);
    let detail = issue_detail(&imported.report, IssueCode::NewRoot);
    assert!(detail.ends_with("number of messages missing from its context: 2"), "{detail}");
    let with_nearest_parents = import_lines(&lines, &nearest_parent_options()).await;
    assert_eq!(with_nearest_parents.context_entries().await, ["a", "b", "c", "d"]);
    assert_eq!((with_nearest_parents.report.count(IssueCode::NewRoot), with_nearest_parents.report.leaves), (1, 1));
}

#[tokio::test]
async fn a_line_without_the_parent_field_is_a_child_of_the_previous_line() {
    let without_parent_field = |id: &str| user(id, "null").replace("\"parentId\":null,", "");
    for lines in [
        [HEADER.to_owned(), without_parent_field("a"), without_parent_field("b"), without_parent_field("c")],
        [HEADER.to_owned(), user("a", "null"), without_parent_field("b"), user("c", "\"b\"")],
    ] {
        let imported = import_lines(&lines, &ImportOptions::default()).await;
        assert_eq!(imported.context_entries().await, ["a", "b", "c"]);
        assert_eq!(imported.report.issues, []);
    }
}

fn call(id: &str) -> String {
    format!(r#"{{"type":"toolCall","id":"{id}","name":"ls","arguments":{{}}}}"#)
}

fn assistant(id: &str, parent: &str, content: &str) -> String {
    let body = format!(
        r#"{{"role":"assistant","content":{content},"api":"a","provider":"p","model":"m","stopReason":"toolUse"}}"#
    );
    message(id, parent, &body)
}

fn result(id: &str, parent: &str, call: &str) -> String {
    let body = format!(
        r#"{{"role":"toolResult","toolCallId":"{call}","toolName":"ls","content":[{{"type":"text","text":"{id}"}}],"isError":false}}"#
    );
    message(id, parent, &body)
}

/// The calls and results of a context: `+id` for a call, `id=text` for a result.
fn calls_and_results(context: &Context) -> Vec<String> {
    let blocks = context.messages.iter().flat_map(|message| &message.message.blocks);
    let describe = |block: &store_core::Block| match &block.kind {
        BlockKind::ToolUse(call) => Some(format!("+{}", call.id)),
        BlockKind::ToolResult(result) => match &result.blocks[0].kind {
            BlockKind::Text(text) => Some(format!("{}={text}", result.tool_use_id)),
            _ => None,
        },
        _ => None,
    };
    blocks.filter_map(describe).collect()
}

#[tokio::test]
async fn calls_of_one_message_with_the_same_id_are_answered_in_order() {
    let calls = format!("[{},{},{}]", call("c"), call("c"), call("d"));
    let lines = [
        HEADER.to_owned(),
        user("u", "null"),
        assistant("a", "\"u\"", &calls),
        result("r1", "\"a\"", "c"),
        result("r2", "\"r1\"", "d"),
        result("r3", "\"r2\"", "c"),
        assistant("b", "\"r3\"", &format!("[{}]", call("c"))),
        result("r4", "\"b\"", "c"),
    ];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    let context = imported.context().await;
    assert_eq!(calls_and_results(&context), ["+c", "+c#2", "+d", "c=r1", "d=r2", "c#2=r3", "+c", "c=r4"]);
    assert_eq!(context.repairs, []);
    assert_eq!(imported.report.count(IssueCode::BadField), 1);
}

#[tokio::test]
async fn results_are_paired_with_calls_on_each_branch() {
    let calls = format!("[{},{}]", call("c"), call("c"));
    let lines = [
        HEADER.to_owned(),
        assistant("a", "null", &calls),
        result("r1", "\"a\"", "c"),
        result("r2", "\"r1\"", "c"),
        result("r3", "\"r1\"", "c"),
        result("r4", "\"r3\"", "c"),
    ];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    // A third result for two calls answers the second call again. The context keeps the later of its results.
    assert_eq!(calls_and_results(&imported.context().await), ["+c", "+c#2", "c=r1", "c#2=r4"]);
}

#[tokio::test]
async fn calls_without_ids_names_or_arguments_stay_calls() {
    let calls = r#"[{"type":"toolCall","id":"","name":"ls","arguments":null},{"type":"toolCall","id":"x","name":" "}]"#;
    let lines = [
        HEADER.to_owned(),
        assistant("a", "null", calls),
        result("r1", "\"a\"", ""),
        result("r2", "\"r1\"", "x"),
        assistant("n", "\"r2\"", "null"),
        result("r3", "\"n\"", "x"),
    ];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    let context = imported.context().await;
    assert_eq!(calls_and_results(&context), ["+a.0", "+x", "a.0=r1", "x=r3"]);
    let BlockKind::ToolUse(second) = &context.messages[0].message.blocks[1].kind else { panic!() };
    assert_eq!((second.name.as_str(), second.input.as_str()), ("unknown", "{}"));
    assert_eq!(imported.entry("n").await.message().unwrap().blocks, []);
}

#[tokio::test]
async fn a_title_before_the_header_is_the_title() {
    let title = r#"{"type":"title","title":"Fix the login bug      "}"#.to_owned();
    let lines = [title, HEADER.to_owned(), user("a", "null"), user("b", "\"a\"")];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    let thread = imported.commits.threads().load_thread(&imported.thread).await.unwrap().unwrap();
    assert_eq!((thread.id.as_str(), thread.title.as_deref()), ("s", Some("Fix the login bug")));
    assert_eq!(thread.metadata["cwd"].as_str(), "\"/x\"");
    assert_eq!((imported.context_entries().await.len(), &imported.report.issues), (2, &Vec::new()));
}

#[tokio::test]
async fn the_complete_record_of_a_damaged_line_is_read() {
    let (a, b, c) = (user("a", "null"), user("b", "\"a\""), user("c", "\"b\""));
    let part = &b[..70];
    for line in [
        format!("{part}{b}"),
        format!("{part}\0\0\0{b}"),
        format!("\0\0\0\0{b}"),
        format!("{b}\0\0"),
        format!("{b}{part}"),
    ] {
        let bytes = format!("{HEADER}\n{a}\n{line}\n{c}\n");
        let imported = import_bytes(bytes.as_bytes(), &ImportOptions::default()).await;
        assert_eq!(imported.context_entries().await, ["a", "b", "c"], "{line}");
        let codes: Vec<_> = imported.report.issues.iter().map(|issue| (issue.line, issue.code.name())).collect();
        assert_eq!(codes, [(Some(3), "malformed_line")], "{line}");
        let raw = imported.entry("b").await.origin.clone().unwrap().raw.unwrap();
        assert_eq!(raw, line.as_bytes());
    }
}

#[tokio::test]
async fn files_with_damaged_lines_that_grow_piece_by_piece_round_trip() {
    let (a, b, c, d) = (user("a", "null"), user("b", "\"a\""), user("c", "\"b\""), user("d", "\"c\""));
    let (part, tail) = (&b[..70], &d[60..]);
    let text = format!("{HEADER}\n{a}\n{part}{b}\n{c}{part}\n\0\0{d}\0\n{tail}{d}\r\n{a}{b}\n");
    let folder = tempdir().unwrap();
    for step in [3, 7, 100] {
        let commits = new_store();
        let mut thread = None;
        for end in (HEADER.len() + 1..text.len()).step_by(step).chain([text.len()]) {
            let path = write_file(folder.path(), "growing.jsonl", &text[..end]);
            let report = import_one(&*commits, &path).await;
            assert!(thread.is_none() || thread == report.thread, "{end} bytes");
            if has_no_message(&report) {
                continue;
            }
            let (exported_bytes, exact) =
                export_bytes(&*commits, report.thread.as_ref().unwrap(), "pi".parse().unwrap()).await;
            assert!(
                exact && exported_bytes == text.as_bytes()[..end],
                "{end} bytes:\n{}",
                String::from_utf8_lossy(&exported_bytes)
            );
            thread = report.thread;
        }
        let context = commits.threads().load_context(&thread.unwrap(), ContextRequest::head()).await.unwrap().context;
        assert_eq!(context.messages.len(), 4, "steps of {step}");
    }
}

#[tokio::test]
async fn two_complete_records_in_one_line_stay_unread() {
    let lines = [HEADER.to_owned(), user("a", "null") + &user("b", "\"a\""), user("c", "\"b\"")];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    assert_eq!(imported.report.count(IssueCode::MalformedLine), 1);
    assert_eq!(custom_kind(&*imported.entry("L2").await), "import.line");
}

#[tokio::test]
async fn tokens_outside_of_messages_are_counted_once() {
    let usage = |input: u32| {
        format!(r#""usage":{{"input":{input},"output":1,"cacheRead":0,"cacheWrite":0,"cost":{{"total":0.5}}}}"#)
    };
    let answer = format!(r#"{{"role":"assistant","content":"hi","provider":"p","model":"m",{}}}"#, usage(1));
    let line = |kind: &str, id: &str, parent: &str, fields: &str| {
        format!(
            r#"{{"type":"{kind}","id":"{id}","parentId":"{parent}","timestamp":"2026-01-05T10:00:02.000Z",{fields}}}"#
        )
    };
    let lines = [
        HEADER.to_owned(),
        message("s0", "null", r#"{"role":"system","content":"","sections":{"preamble":"Be brief."}}"#),
        message("a", "\"s0\"", &answer),
        line("usage", "w", "a", &format!(r#""kind":"cache_warm","model":"m",{}"#, usage(10))),
        line(
            "compaction",
            "k",
            "w",
            &format!(r#""summary":"S","firstKeptEntryId":"a","tokensBefore":1,{}"#, usage(100)),
        ),
        line("branch_summary", "x", "k", &format!(r#""fromId":"a","summary":"B",{}"#, usage(1000))),
    ];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    let thread = imported.commits.threads().load_thread(&imported.thread).await.unwrap().unwrap();
    assert_eq!(thread.usage, TokenCounts::new(1111, 4));
    let codes: Vec<_> = imported.report.issues.iter().map(|issue| issue.code.name()).collect();
    assert_eq!(codes, ["unknown_type"]);
    assert_eq!(imported.context_entries().await, ["k", "a", "x"]);
}

/// The bytes of the file whose name, without its extension, ends with `ending`.
fn bytes_of_file(root: &Path, ending: &str) -> Vec<u8> {
    let paths = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut named = paths.filter(|path| path.to_str().unwrap().ends_with(&format!("{ending}.jsonl")));
    std::fs::read(named.next().unwrap()).unwrap()
}

#[tokio::test]
async fn reported_files_give_the_right_context() {
    let Some(root) = cases_folder() else { return };
    let options = ImportOptions::default();
    for (name, options, context, codes) in [
        ("-dangling", &options, "c d", "dangling_parent"),
        ("-dangling", &nearest_parent_options(), "a b c d", "dangling_parent"),
        ("-null-parent", &options, "c d e", "new_root"),
        ("-null-parent", &nearest_parent_options(), "a b c d e", "new_root"),
        ("pi-tool-ids", &options, "a b c d e f g h i j k l m n o p q s t u", "bad_field"),
        ("pi-context-edit", &options, "b d f g", ""),
        ("omp-title-first", &options, "a b", ""),
        ("pi-truncated-then-whole", &options, "a b c d", "malformed_line"),
        ("pi-nul-middle", &options, "a b c", "malformed_line"),
        ("-system", &options, "K c d e", "unknown_type"),
    ] {
        let bytes = bytes_of_file(&root, name);
        let imported = import_bytes(&bytes, options).await;
        assert_eq!(imported.context_entries().await.join(" "), context, "{name}");
        let found_codes: Vec<_> = imported.report.issue_counts.keys().map(|code| code.name()).collect();
        assert_eq!(found_codes.join(" "), codes, "{name}");
        println!("{name}, parents {:?}: context {context}; issues: {codes}", options.parents);
    }
    let commits = new_store();
    let report = import_one(&*commits, &root.join("foreign/pi-mode-json-stdout.jsonl")).await;
    assert_eq!((report.is_imported(), report.count(IssueCode::UnsupportedFormat)), (false, 1));
}

#[tokio::test]
async fn reported_tool_ids_and_tokens_are_right() {
    let Some(root) = cases_folder() else { return };
    let imported = import_bytes(&bytes_of_file(&root, "pi-tool-ids"), &ImportOptions::default()).await;
    let context = imported.context().await;
    let expected = [
        "+call_1",
        "+call_1#2",
        "call_1=first",
        "call_1#2=second",
        "+f.0",
        "f.0=result of the empty id",
        "+call_9",
        "call_9=unknown tool",
        "+call_10",
        "call_10=ok",
        "+call_1",
        "call_1=third",
    ];
    assert_eq!(calls_and_results(&context), expected);
    println!("pi-tool-ids: {}", calls_and_results(&context).join(", "));
    let imported = import_bytes(&bytes_of_file(&root, "-system"), &ImportOptions::default()).await;
    let usage = imported.commits.threads().load_thread(&imported.thread).await.unwrap().unwrap().usage;
    assert_eq!((usage.input, usage.output, usage.cache_read), (109, 25, 50_000));
    println!("system messages: {} tokens in, {} out, {} from the cache", usage.input, usage.output, usage.cache_read);
}
