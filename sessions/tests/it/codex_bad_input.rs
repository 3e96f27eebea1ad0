//! Tests of damaged rollouts.

use std::sync::Arc;

use sessions::{ImportOptions, IssueCode, import};
use store_core::{BlockKind, Body, Entry};
use tempfile::tempdir;

use crate::helpers::{custom_kind, entries, export_bytes, fixtures, format, import_one, new_store, write_file};

const HEADER: &str = r#"{"timestamp":"2026-01-06T08:00:00.000Z","type":"session_meta","payload":{"id":"s","timestamp":"2026-01-06T08:00:00.000Z","cwd":"/x"}}"#;

fn user(text: &str) -> String {
    format!(
        r#"{{"timestamp":"2026-01-06T08:00:01.000Z","type":"response_item","payload":{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}}}"#
    )
}

/// Imports these bytes. Checks that they are exported unchanged, and that a second import adds nothing. Returns the
/// line and the code of each issue, and the entries.
async fn import_bytes(bytes: &[u8]) -> (Vec<(Option<u64>, &'static str)>, Vec<Arc<Entry>>) {
    let folder = tempdir().unwrap();
    let path = write_file(folder.path(), "file.jsonl", bytes);
    let commits = new_store();
    let report = import_one(&*commits, &path).await;
    let thread = report.thread.clone().unwrap();
    let (exported_bytes, exact) = export_bytes(&*commits, &thread, format("codex")).await;
    assert!(exact && exported_bytes == bytes, "{}", String::from_utf8_lossy(&exported_bytes));
    assert_eq!(import_one(&*commits, &path).await.added, 0);
    let codes = report.issues.iter().map(|issue| (issue.line, issue.code.name())).collect();
    (codes, entries(&*commits, &thread).await)
}

#[tokio::test]
async fn odd_bytes_are_reported_and_kept() {
    let deep = format!(r#"{{"timestamp":1,"type":"world_state","payload":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    for (lines, codes) in [
        (format!("{HEADER}\n{}", user("x")), vec![(Some(2), "no_final_newline")]),
        (format!("{HEADER}\n{}\n{}", user("x"), &user("x")[..40]), vec![(Some(3), "torn_last_line")]),
        (
            format!("{HEADER}\nnonsense\n{}{}\n{}\n", user("x"), user("y"), user("z")),
            vec![(Some(2), "malformed_line"), (Some(3), "malformed_line")],
        ),
        (format!("{HEADER}\n[1]\n \t\n{}\n", user("x")), vec![(Some(2), "malformed_line")]),
        (format!("{HEADER}\n{}\n", user("\\ud800")), vec![(Some(2), "lone_surrogate")]),
        (format!("{HEADER}\n{}\n", user("a\\u0000b")), vec![(Some(2), "nul")]),
        (format!("{HEADER}\n{}\n", user("a\tb")), vec![(Some(2), "control_character")]),
        (format!("{HEADER}\n{}\n", user("a\u{2028}\u{85}\u{feff}b \\\\u0000")), vec![]),
        (format!("\u{feff}{HEADER}\r\n{}\r\n", user("x")), vec![(None, "bom"), (None, "crlf")]),
        (format!("{HEADER}\n{deep}\n{}\n", user("x")), vec![(Some(2), "deep_json")]),
    ] {
        let (found, _) = import_bytes(lines.as_bytes()).await;
        assert_eq!(found, codes, "{lines}");
    }
    let bytes = [HEADER.as_bytes(), b"\n", &user("Q").into_bytes(), b"\n"].concat();
    let broken: Vec<u8> = bytes.iter().map(|byte| if *byte == b'Q' { 0xff } else { *byte }).collect();
    let (found, _) = import_bytes(&broken).await;
    assert_eq!(found, [(Some(2), "invalid_utf8")]);
}

#[tokio::test]
async fn a_line_over_the_limit_is_refused() {
    let folder = tempdir().unwrap();
    let path = write_file(folder.path(), "long.jsonl", format!("{HEADER}\n{}\n", user(&"x".repeat(500))));
    let report = import(&*new_store(), &path, &ImportOptions::default().with_max_line(400)).await.unwrap().remove(0);
    assert_eq!((report.thread.is_none(), report.count(IssueCode::LongLine)), (true, 1));
}

#[tokio::test]
async fn lines_with_wrong_fields_are_kept_unchanged() {
    let bytes = std::fs::read(fixtures().join("bad/codex-fields.jsonl")).unwrap();
    let (mut codes, found) = import_bytes(&bytes).await;
    codes.sort_unstable();
    let expected = [
        (Some(2), "unknown_type"),
        (Some(3), "bad_field"),
        (Some(4), "bad_field"),
        (Some(4), "bad_time"),
        (Some(4), "unknown_type"),
        (Some(5), "bad_field"),
        (Some(6), "bad_field"),
        (Some(7), "bad_field"),
        (Some(8), "bad_field"),
        (Some(9), "bad_field"),
        (Some(11), "bad_field"),
    ];
    assert_eq!(codes, expected);
    let entry_of_line = |line: u64| found.iter().find(|entry| entry.origin.as_ref().unwrap().line == line).unwrap();
    for line in [2, 3, 5] {
        assert_eq!((custom_kind(entry_of_line(line)), entry_of_line(line).side), ("codex.response_item", false));
    }
    let blocks = &entry_of_line(4).message().unwrap().blocks;
    assert!(matches!(blocks[1].kind, BlockKind::Opaque(_)) && matches!(blocks[2].kind, BlockKind::Opaque(_)));
    assert_eq!(entry_of_line(4).timestamp, entry_of_line(3).timestamp);
    assert_eq!((custom_kind(entry_of_line(6)), custom_kind(entry_of_line(8))), ("codex.event_msg", "codex.compacted"));
    let Body::Compaction(compaction) = &*entry_of_line(9).body else { panic!() };
    assert_eq!(compaction.replacement.as_ref().unwrap().len(), 1);
    assert_eq!(custom_kind(entry_of_line(10)), "codex.turn_context");
}

#[tokio::test]
async fn calls_without_results_and_unknown_items_are_kept() {
    let bytes = std::fs::read(fixtures().join("bad/codex-orphans.jsonl")).unwrap();
    let (mut codes, found) = import_bytes(&bytes).await;
    codes.sort_unstable();
    let expected = [
        (Some(2), "orphan_result"),
        (Some(3), "bad_arguments"),
        (Some(3), "open_call"),
        (Some(4), "unknown_type"),
        (Some(5), "unknown_type"),
    ];
    assert_eq!(codes, expected);
    let BlockKind::ToolUse(call) = &found[2].message().unwrap().blocks[0].kind else { panic!() };
    assert_eq!((call.raw.as_deref(), call.input.as_str()), (Some("{\"command\":"), "{}"));
    assert!(matches!(&found[3].message().unwrap().blocks[0].kind, BlockKind::Opaque(_)));
    assert_eq!((custom_kind(&found[4]), found[4].side), ("codex.brand_new_line", true));
}

#[tokio::test]
async fn a_session_id_that_is_not_a_valid_thread_id_is_replaced_by_the_name_of_the_file() {
    let header = HEADER.replace("\"id\":\"s\"", "\"id\":\" \"");
    let folder = tempdir().unwrap();
    let path = write_file(folder.path(), "named.jsonl", format!("{header}\n{}\n", user("x")));
    let report = import_one(&*new_store(), &path).await;
    assert_eq!(report.thread.unwrap().as_str(), "named");
    assert_eq!(report.issue_counts[&IssueCode::BadField], 1);
}
