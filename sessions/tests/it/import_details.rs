//! Tests of details of the import of pi and Agent Core files: codes of bad input, provenance, short forms, migrated
//! lines.

use std::sync::Arc;

use sessions::{ImportOptions, ImportReport, IssueCode, ParentChoice, import};
use store_core::{BlockKind, Body, CommitCoordinator, Entry, Role, Visibility};
use tempfile::tempdir;

use crate::helpers::{custom_kind, entries, export_bytes, format, import_one, new_store, write_file};

const PI_HEADER: &str = r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-05T10:00:00.000Z","cwd":"/x"}"#;

/// Imports these lines, and checks that the export has the same bytes.
async fn import_and_check_export(lines: &[&str]) -> (Arc<dyn CommitCoordinator>, ImportReport, Vec<Arc<Entry>>) {
    let folder = tempdir().unwrap();
    let text = lines.join("\n") + "\n";
    let commits = new_store();
    let report = import_one(&*commits, &write_file(folder.path(), "file.jsonl", &text)).await;
    let thread = report.thread.clone().unwrap();
    let (bytes, exact) = export_bytes(&*commits, &thread, report.format.unwrap().parse().unwrap()).await;
    assert!(exact && bytes == text.as_bytes(), "{}", String::from_utf8_lossy(&bytes));
    let found = entries(&*commits, &thread).await;
    (commits, report, found)
}

fn codes(report: &ImportReport) -> Vec<(Option<u64>, &'static str)> {
    report.issues.iter().map(|issue| (issue.line, issue.code.name())).collect()
}

fn find<'a>(entries: &'a [Arc<Entry>], id: &str) -> &'a Entry {
    entries.iter().find(|entry| entry.id.as_str() == id).unwrap()
}

fn message(id: &str, body: &str) -> String {
    format!(
        r#"{{"type":"message","id":"{id}","parentId":null,"timestamp":"2026-01-05T10:00:01.000Z","message":{body}}}"#
    )
}

#[tokio::test]
async fn pi_lines_with_wrong_fields_are_kept_and_reported() {
    let lines = [
        PI_HEADER.to_owned(),
        message("a", r#"{"role":"user"}"#),
        message("b", r#"{"role":"toolResult","toolCallId":" ","content":"x","isError":false}"#),
        message("c", r#"{"role":"assistant","content":[{"type":"toolCall","id":"t","name":"n","arguments":"{"},{"type":"toolCall","id":"t","name":"n","arguments":{}},{"type":"hologram"}],"stopReason":"toolUse"}"#),
        message("d", r#"{"role":"martian","content":"x"}"#),
        r#"{"type":"label","id":"e","parentId":"d","timestamp":"2026-01-05T10:00:01.000Z","targetId":"nobody","label":"x"}"#.to_owned(),
        r#"{"type":"compaction","id":"f","parentId":"e","timestamp":"soon","summary":"s","firstKeptEntryId":"nobody","tokensBefore":1}"#.to_owned(),
        r#"{"type":"brand_new","id":"g","parentId":"f","timestamp":"2026-01-05T10:00:01.000Z","deep":{"n":1.50}}"#.to_owned(),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let (_, report, found) = import_and_check_export(&lines).await;
    let expected = [
        (Some(2), "bad_field"),
        (Some(3), "new_root"),
        (Some(4), "new_root"),
        (Some(5), "new_root"),
        (Some(3), "bad_field"),
        (Some(3), "orphan_result"),
        (Some(4), "open_call"),
        (Some(4), "bad_arguments"),
        (Some(4), "bad_field"),
        (Some(4), "unknown_type"),
        (Some(5), "unknown_type"),
        (Some(6), "bad_field"),
        (Some(7), "bad_field"),
        (Some(7), "bad_time"),
        (Some(8), "unknown_type"),
    ];
    let mut sorted = codes(&report);
    sorted.sort_unstable();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    assert_eq!((custom_kind(find(&found, "a")), custom_kind(find(&found, "b"))), ("pi.message", "pi.message"));
    let blocks = &find(&found, "c").message().unwrap().blocks;
    assert!(
        matches!(&blocks[0].kind, BlockKind::ToolUse(call) if call.raw.as_deref() == Some("{") && call.input.as_str() == "{}")
    );
    assert!(matches!(&blocks[1].kind, BlockKind::ToolUse(call) if call.id == "t#2"));
    assert!(matches!(&blocks[2].kind, BlockKind::Opaque(_)));
    assert_eq!(custom_kind(find(&found, "e")), "pi.label");
    let Body::Compaction(compaction) = &*find(&found, "f").body else { panic!() };
    let covers = compaction.covers.as_ref().unwrap();
    assert_eq!((covers.from.as_str(), covers.to.as_str()), ("d", "e"));
    let Body::Custom(custom) = &*find(&found, "g").body else { panic!() };
    assert_eq!((custom.kind.as_str(), custom.data.as_str()), ("pi.brand_new", r#"{"deep":{"n":1.50}}"#));
}

#[tokio::test]
async fn a_retained_tail_replaces_everything_before_it() {
    let tail = r#"[{"role":"user","content":"kept"},{"role":"assistant","content":[],"stopReason":"error"}]"#;
    let compaction = format!(
        r#"{{"type":"compaction","id":"c","parentId":"a","timestamp":"2026-01-05T10:00:01.000Z","summary":"S","retainedTail":{tail},"tokensBefore":1}}"#
    );
    let (_, report, found) =
        import_and_check_export(&[PI_HEADER, &message("a", r#"{"role":"user","content":"old"}"#), &compaction]).await;
    assert_eq!(codes(&report), []);
    let Body::Compaction(compaction) = &*find(&found, "c").body else { panic!() };
    let replacement = compaction.replacement.as_ref().unwrap();
    let block_counts: Vec<_> = replacement.iter().map(|message| message.blocks.len()).collect();
    assert_eq!(block_counts, [2, 1]);
}

#[tokio::test]
async fn version_1_indexes_count_only_well_formed_lines() {
    let header = r#"{"type":"session","id":"s","timestamp":"2026-01-05T10:00:00.000Z","cwd":"/x"}"#;
    let user = |text: &str| {
        format!(
            r#"{{"type":"message","timestamp":"2026-01-05T10:00:01.000Z","message":{{"role":"user","content":"{text}"}}}}"#
        )
    };
    let compaction = r#"{"type":"compaction","timestamp":"2026-01-05T10:00:02.000Z","summary":"S","firstKeptEntryIndex":2,"tokensBefore":1}"#;
    let (_, report, found) =
        import_and_check_export(&[header, &user("one"), "", "nonsense", &user("two"), compaction]).await;
    assert_eq!(codes(&report), [(Some(4), "malformed_line")]);
    let Body::Compaction(compaction) = &*find(&found, "L6").body else { panic!() };
    let covers = compaction.covers.as_ref().unwrap();
    assert_eq!((covers.from.as_str(), covers.to.as_str()), ("L2", "L2"));
    assert_eq!(find(&found, "L5").parent.as_ref().unwrap().as_str(), "L2");
    assert!(find(&found, "L4").side);
}

#[tokio::test]
async fn a_session_keeps_its_working_folder_its_title_and_its_parent() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let text = message("m", r#"{"role":"user","content":"x"}"#);
    let parent = write_file(folder.path(), "2026-01-04_s.jsonl", format!("{PI_HEADER}\n{text}\n"));
    let _report = import_one(&*commits, &parent).await;
    let child = r#"{"type":"session","version":3,"id":"t","timestamp":"2026-01-05T10:00:00.000Z","cwd":"/x","parentSession":"/a/b/2026-01-04T09-00-00-000Z_s.jsonl"}"#;
    let title =
        r#"{"type":"session_info","id":"a","parentId":null,"timestamp":"2026-01-05T10:00:01.000Z","name":"Tiny"}"#;
    let report =
        import_one(&*commits, &write_file(folder.path(), "child.jsonl", format!("{child}\n{title}\n{text}\n"))).await;
    let thread = commits.threads().load_thread(&report.thread.unwrap()).await.unwrap().unwrap();
    assert_eq!(thread.title.as_deref(), Some("Tiny"));
    assert_eq!(thread.parent_thread_id.unwrap().as_str(), "s");
    assert_eq!(thread.metadata["cwd"].as_str(), "\"/x\"");
    assert_eq!(thread.created_at.as_millis(), 1_767_607_200_000);
    let folder_of_both = tempdir().unwrap();
    write_file(
        folder_of_both.path(),
        "a.jsonl",
        format!("{}\n{title}\n{text}\n", child.replace("\"id\":\"t\"", "\"id\":\"early\"").replace("_s.", "_late.")),
    );
    write_file(folder_of_both.path(), "b.jsonl", PI_HEADER.replace("\"id\":\"s\"", "\"id\":\"late\"") + "\n" + &text);
    let reports = import(&*commits, folder_of_both.path(), &ImportOptions::default()).await.unwrap();
    let thread = commits.threads().load_thread(reports[0].thread.as_ref().unwrap()).await.unwrap().unwrap();
    assert_eq!(thread.parent_thread_id.unwrap().as_str(), "late");
    let lost = child.replace("_s.jsonl", "_lost.jsonl").replace("\"id\":\"t\"", "\"id\":\"u\"");
    let report =
        import_one(&*commits, &write_file(folder.path(), "lost.jsonl", format!("{lost}\n{title}\n{text}\n"))).await;
    let thread = commits.threads().load_thread(&report.thread.unwrap()).await.unwrap().unwrap();
    assert_eq!(thread.parent_thread_id, None);
}

#[tokio::test]
async fn odd_versions_and_missing_headers_are_read() {
    let newer = PI_HEADER.replace("\"version\":3", "\"version\":7");
    let (_, report, _) = import_and_check_export(&[&newer, &message("a", r#"{"role":"user","content":"x"}"#)]).await;
    assert_eq!((codes(&report), report.version.as_deref()), (vec![(Some(1), "unknown_version")], Some("7")));
    let folder = tempdir().unwrap();
    let path = write_file(folder.path(), "lost.jsonl", message("a", r#"{"role":"user","content":"x"}"#) + "\n");
    let options = ImportOptions::default().with_format(format("pi-v3"));
    let commits = new_store();
    let report = import(&*commits, &path, &options).await.unwrap().remove(0);
    assert_eq!((report.thread.as_ref().unwrap().as_str(), report.count_of("missing_header")), ("lost", 1));
}

trait CountOf {
    fn count_of(&self, name: &str) -> usize;
}

impl CountOf for Vec<sessions::Issue> {
    fn count_of(&self, name: &str) -> usize {
        self.iter().filter(|issue| issue.code.name() == name).count()
    }
}

impl CountOf for ImportReport {
    fn count_of(&self, name: &str) -> usize {
        self.issues.count_of(name)
    }
}

#[tokio::test]
async fn lines_of_the_short_form_need_neither_parents_nor_call_ids() {
    let lines = [
        r#"{"id":"1","type":"user","content":"hi"}"#,
        r#"{"id":"2","type":"tool","name":"ls","params":{}}"#,
        r#"{"id":"3","type":"tool","name":"ps","params":"{\"a\":1}"}"#,
        r#"{"id":"4","type":"tool_result","output":"ps!"}"#,
        r#"{"id":"5","type":"tool_result","output":"ls!"}"#,
        r#"{"id":"6","type":"tool_result","output":"whose?"}"#,
    ];
    let (_, report, found) = import_and_check_export(&lines).await;
    assert_eq!(codes(&report), [(Some(6), "bad_field")]);
    let call_id = |entry: &str| match &find(&found, entry).message().unwrap().blocks[0].kind {
        BlockKind::ToolUse(call) => call.id.clone(),
        BlockKind::ToolResult(result) => result.tool_use_id.clone(),
        _ => String::new(),
    };
    assert_eq!((call_id("2"), call_id("3")), (call_id("5"), call_id("4")));
    assert_eq!(find(&found, "6").parent.as_ref().unwrap().as_str(), "5");
    assert_eq!(custom_kind(find(&found, "6")), "agent-core.tool_result");
}

#[tokio::test]
async fn metadata_names_the_model_of_later_entries_on_its_path() {
    let lines = [
        r#"{"id":"1","type":"user","content":"hi","timestamp":1}"#,
        r#"{"id":"2","parentId":"1","type":"metadata","timestamp":2,"metadata":{"provider":"openai","model":"gpt-5"}}"#,
        r#"{"id":"3","parentId":"2","type":"assistant","content":"a","timestamp":3}"#,
        r#"{"id":"4","parentId":"1","type":"assistant","content":"b","timestamp":4}"#,
    ];
    let (_, report, found) = import_and_check_export(&lines).await;
    assert_eq!(codes(&report), []);
    let origin = |id: &str| find(&found, id).message().unwrap().provenance.clone().and_then(|p| p.origin);
    assert_eq!(origin("3").unwrap().model.as_deref(), Some("gpt-5"));
    assert_eq!(origin("4"), None);
}

#[tokio::test]
async fn migrated_lines_lose_nothing() {
    let anthropic = r#"{"id":"1","type":"assistant","content":"Hi","timestamp":1,"metadata":{"provider":"anthropic","model":"m","originalFormat":{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"s1"},{"type":"thinking","thinking":"b","signature":"s2"},{"type":"text","text":"Hi"},{"type":"tool_use","id":"t","name":"n","input":{"x":1.0}}]}},"toolCalls":[{"id":"t","name":"n","params":{"x":1.0}}]}"#;
    let google = r#"{"id":"2","parentId":"1","type":"assistant","role":"model","content":"","parts":[{"text":"a"},{"functionCall":{"name":"f","args":{"y":2}},"thoughtSignature":"g"}],"functionCalls":[{"name":"f","args":{"y":2}}],"timestamp":2,"metadata":{"migratedFrom":"google","migratedTo":"openai"}}"#;
    let openai = r#"{"id":"3","parentId":"2","type":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"g","arguments":"{\"z\":3}"}}],"timestamp":3}"#;
    let (_, report, found) = import_and_check_export(&[anthropic, google, openai]).await;
    assert_eq!(report.count_of("bad_field") + report.count_of("unknown_type"), 0, "{:?}", report.issues);
    let shape = |id: &str| -> Vec<String> {
        let blocks = &find(&found, id).message().unwrap().blocks;
        blocks
            .iter()
            .map(|block| match &block.kind {
                BlockKind::Text(text) => text.clone(),
                BlockKind::Thinking(thinking) => {
                    format!("{} by {}", thinking.text, thinking.origin.as_ref().unwrap().provider)
                }
                BlockKind::ToolUse(call) => {
                    format!("{}{}{}", call.name, call.input, if block.opaque.is_some() { "!" } else { "" })
                }
                _ => "?".to_owned(),
            })
            .collect()
    };
    assert_eq!(shape("1"), ["a by anthropic", "b by anthropic", "Hi", "n{\"x\":1.0}"]);
    assert_eq!(shape("2"), ["a", "f{\"y\":2}!"]);
    assert_eq!(shape("3"), ["g{\"z\":3}"]);
}

#[tokio::test]
async fn failed_turns_and_notes_get_the_visibility_aside() {
    let lines = [
        PI_HEADER.to_owned(),
        message("a", r#"{"role":"assistant","content":[],"provider":"p","model":"m","stopReason":"aborted"}"#),
        message(
            "b",
            r#"{"role":"bashExecution","command":"x","output":"","exitCode":2,"cancelled":false,"truncated":true,"fullOutputPath":"/tmp/o","excludeFromContext":true}"#,
        ),
        message("c", r#"{"role":"system","content":"s"}"#),
        message("d", r#"{"role":"custom","customType":"t","content":"c","display":false}"#),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let (_, report, found) = import_and_check_export(&lines).await;
    let new_roots = report.count(IssueCode::NewRoot);
    let others: Vec<_> = codes(&report).into_iter().filter(|(_, code)| *code != "new_root").collect();
    assert_eq!((others, new_roots), (vec![(Some(4), "unknown_type")], 3));
    let visibility_of = |id: &str| find(&found, id).message().unwrap().visibility;
    assert_eq!(
        [visibility_of("a"), visibility_of("b"), visibility_of("c"), visibility_of("d")],
        [Visibility::Aside, Visibility::Aside, Visibility::Aside, Visibility::Internal]
    );
    let bash = &find(&found, "b").message().unwrap().blocks[0].kind;
    let text = "Ran `x`\n(no output)\n\nCommand exited with code 2\n\n[Output truncated. Full output: /tmp/o]";
    assert_eq!(bash, &BlockKind::Text(text.to_owned()));
    assert_eq!(find(&found, "c").message().unwrap().role, Role::System);
}

#[tokio::test]
async fn a_strict_import_refuses_a_file_before_anything_is_written() {
    let folder = tempdir().unwrap();
    let path =
        write_file(folder.path(), "odd.jsonl", format!("{PI_HEADER}\n{}\n", message("a", r#"{"role":"martian"}"#)));
    let commits = new_store();
    let report = import(&*commits, &path, &ImportOptions::default().strict()).await.unwrap().remove(0);
    assert_eq!((report.thread, report.issue_counts.get(&IssueCode::UnknownType)), (None, Some(&1)));
    assert_eq!(commits.threads().count_threads(&store_core::ThreadFilter::default()).await.unwrap(), 0);
    let path = write_file(
        folder.path(),
        "fine.jsonl",
        format!("{PI_HEADER}\n{}\n", message("b", r#"{"role":"user","content":"x"}"#)),
    );
    assert!(import(&*commits, &path, &ImportOptions::default().strict()).await.unwrap()[0].is_imported());
}

#[tokio::test]
async fn long_lines_and_deep_json_are_reported() {
    let folder = tempdir().unwrap();
    let long =
        format!("{PI_HEADER}\n{}\n", message("a", &format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(2000))));
    let path = write_file(folder.path(), "long.jsonl", long);
    let commits = new_store();
    let report = import(&*commits, &path, &ImportOptions::default().with_max_line(1000)).await.unwrap().remove(0);
    assert_eq!((report.thread.clone(), report.count(IssueCode::LongLine)), (None, 1));
    let deep = format!(r#"{{"type":"custom","id":"a","parentId":null,"data":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let text = message("b", r#"{"role":"user","content":"x"}"#);
    let (_, report, found) = import_and_check_export(&[PI_HEADER, &deep, &text]).await;
    assert_eq!(codes(&report), [(Some(2), "deep_json")]);
    assert_eq!(custom_kind(find(&found, "L2")), "import.line");
}

#[tokio::test]
async fn a_byte_order_mark_and_line_ends_do_not_count_towards_the_limit() {
    let folder = tempdir().unwrap();
    let line = message("a", r#"{"role":"user","content":"x"}"#);
    let limit = PI_HEADER.len().max(line.len()) as u64;
    let text =
        message("a", &format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(1 + limit as usize - line.len())));
    assert_eq!(text.len() as u64, limit);
    let header = format!("{PI_HEADER}{}", " ".repeat(limit as usize - PI_HEADER.len()));
    let path = write_file(folder.path(), "limit.jsonl", format!("\u{feff}{header}\r\n{text}\r\n"));
    for (limit, is_imported) in [(limit, true), (limit - 1, false)] {
        let options = ImportOptions::default().with_max_line(limit);
        let report = import(&*new_store(), &path, &options).await.unwrap().remove(0);
        assert_eq!(report.is_imported(), is_imported, "{:?}", report.issues);
    }
}

#[tokio::test]
async fn blank_lines_with_spaces_are_preserved() {
    let (_, report, _) =
        import_and_check_export(&[PI_HEADER, "", "  \t", &message("a", r#"{"role":"user","content":"x"}"#), ""]).await;
    assert_eq!((codes(&report), report.lines, report.entries), (vec![], 5, 2));
}

#[tokio::test]
async fn a_line_of_agent_core_without_a_usable_parent_or_call_is_reported() {
    let lines = [
        r#"{"id":"1","type":"user","content":"hi","timestamp":1}"#,
        r#"{"id":"2","parentId":"1","type":"assistant","content":"a","toolCalls":"none","timestamp":2}"#,
        r#"{"id":"3","type":"user","content":"no key","timestamp":3}"#,
        r#"{"id":"4","parentId":null,"type":"user","content":"null","timestamp":4}"#,
        r#"{"id":"5","parentId":7,"type":"user","content":"a number","timestamp":5}"#,
        r#"{"id":"6","parentId":"5","type":"tool","name":"ls","params":{},"toolCallId":7,"timestamp":6}"#,
        r#"{"id":"7","parentId":"6","type":"tool_result","output":"x","toolCallId":[],"timestamp":7}"#,
    ];
    let (_, report, found) = import_and_check_export(&lines).await;
    let mut codes = codes(&report);
    codes.sort_unstable();
    let expected = [
        (Some(2), "bad_field"),
        (Some(3), "new_root"),
        (Some(4), "new_root"),
        (Some(5), "bad_field"),
        (Some(6), "bad_field"),
        (Some(7), "bad_field"),
    ];
    assert_eq!(codes, expected);
    assert!(["3", "4", "5"].iter().all(|id| find(&found, id).parent.is_none()));
    let folder = tempdir().unwrap();
    let path = write_file(folder.path(), "file.jsonl", lines.join("\n"));
    let commits = new_store();
    let options = ImportOptions::default().with_parents(ParentChoice::Nearest);
    let thread = import(&*commits, &path, &options).await.unwrap().remove(0).thread.unwrap();
    let with_nearest_parents = entries(&*commits, &thread).await;
    let parent = |id: &str| find(&with_nearest_parents, id).parent.clone().unwrap().as_str().to_owned();
    assert_eq!((parent("3"), parent("4"), parent("5")), ("2".to_owned(), "3".to_owned(), "4".to_owned()));
}

#[tokio::test]
async fn fields_of_a_wrong_type_do_not_count_as_missing() {
    let header = PI_HEADER.replace("\"cwd\":\"/x\"", "\"cwd\":7");
    let lines = [
        header,
        message("a", r#"{"role":"assistant","content":[{"type":"text","text":"x","textSignature":7}],"stopReason":7,"api":[]}"#),
        r#"{"type":"message","id":"b","parentId":"a","timestamp":"2026-01-05T10:00:01.000Z","message":{"role":"bashExecution","command":"ls","output":{},"excludeFromContext":"yes"}}"#.to_owned(),
        r#"{"type":"custom_message","id":"c","parentId":"b","timestamp":"2026-01-05T10:00:01.000Z","customType":"n","content":"x","display":"no"}"#.to_owned(),
        r#"{"type":"session_info","id":{},"parentId":"c","timestamp":"2026-01-05T10:00:01.000Z","name":7}"#.to_owned(),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let (_, report, _) = import_and_check_export(&lines).await;
    let lines_with_wrong_fields: Vec<_> =
        codes(&report).into_iter().filter_map(|(line, code)| (code == "bad_field").then_some(line)).collect();
    assert_eq!(
        lines_with_wrong_fields,
        [Some(1), Some(2), Some(2), Some(2), Some(3), Some(3), Some(4), Some(5), Some(5)]
    );
    let codex = [
        r#"{"timestamp":"2026-01-06T08:00:00.000Z","type":"session_meta","payload":{"id":7,"timestamp":"2026-01-06T08:00:00.000Z","cwd":[]}}"#,
        r#"{"timestamp":"2026-01-06T08:00:00.000Z","type":"turn_context","payload":{"model":7}}"#,
        r#"{"timestamp":"2026-01-06T08:00:00.000Z","type":"event_msg","payload":{"type":"thread_name_updated","thread_name":7}}"#,
        r#"{"timestamp":"2026-01-06T08:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user","content":"x"}}"#,
    ];
    let (_, report, _) = import_and_check_export(&codex).await;
    assert_eq!(
        codes(&report),
        [(Some(1), "bad_field"), (Some(1), "bad_field"), (Some(2), "bad_field"), (Some(3), "bad_field")]
    );
}
