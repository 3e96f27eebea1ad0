//! Tests of imported threads that are exported to pi: threads from other versions and formats, and threads with new
//! entries.

use sessions::{ExportOptions, ExportTarget, export};
use store_core::{Commit, Expect, Message, Role};
use tempfile::tempdir;

use crate::{
    helpers::{fixtures, format, import_one, new_store, write_file},
    pi_exports::{Reimport, VERSIONS, context, entry},
};

#[tokio::test]
async fn every_import_can_be_exported_as_pi() {
    for name in [
        "pi/v1-turns",
        "pi/v2-branches",
        "pi/v3-tree",
        "pi/v3-compacted-twice",
        "pi/v3-other-writer",
        "pi/v4-lanes",
        "bad/pi-strange-text",
        "bad/pi-bom-crlf",
        "agent-core/branches",
        "agent-core/open-calls",
    ] {
        for version in VERSIONS {
            let commits = new_store();
            let report = import_one(&*commits, &fixtures().join(name).with_extension("jsonl")).await;
            let thread = report.thread.unwrap();
            let mut out = Vec::new();
            let options = ExportOptions::new(format(version));
            let exported =
                export(&*commits.threads(), &thread, &options, ExportTarget::Stream(&mut out)).await.unwrap();
            assert_eq!(exported.exact, report.format == Some(version), "{name}");
            let folder = tempdir().unwrap();
            let other_store = new_store();
            let import_report = import_one(&*other_store, &write_file(folder.path(), "copy.jsonl", &out)).await;
            let text = String::from_utf8_lossy(&out);
            let copied =
                import_report.thread.unwrap_or_else(|| panic!("{name} {version}: {:?}\n{text}", import_report.issues));
            let title = |thread: Option<store_core::Thread>| thread.unwrap().title;
            let (before, after) = (
                title(commits.threads().load_thread(&thread).await.unwrap()),
                title(other_store.threads().load_thread(&copied).await.unwrap()),
            );
            assert_eq!(before, after, "{name} {version}\n{text}");
            let (before, after) = (context(&*commits, &thread).await, context(&*other_store, &copied).await);
            let is_error_lost = exported.losses.iter().any(|loss| loss.kind == "is_error");
            let blocks = |list: Vec<(Role, String)>| -> Vec<String> {
                list.into_iter()
                    .map(|(role, text)| format!("{role} {}", text.replace(",\"is_error\":false", "")))
                    .collect()
            };
            if is_error_lost {
                assert_eq!(blocks(before), blocks(after), "{name} {version}\n{text}");
            } else {
                assert_eq!(before, after, "{name} {version}\n{text}");
            }
        }
    }
}

#[tokio::test]
async fn a_continued_import_keeps_its_lines() {
    for (name, version) in [("pi/v3-tree", "pi-v3"), ("pi/v4-lanes", "pi-v4")] {
        let commits = new_store();
        let path = fixtures().join(name).with_extension("jsonl");
        let thread = import_one(&*commits, &path).await.thread.unwrap();
        let thread_version = commits.threads().load_thread(&thread).await.unwrap().unwrap().version;
        let more = Commit::new(thread.clone())
            .expecting(Expect::Version(thread_version))
            .entry(entry("new1", Message::user("and now?")))
            .entry(entry("new2", Message::assistant("done")));
        let _receipt = commits.commit(more).await.unwrap();
        let copy = export_and_import(&*commits, &thread, version).await;
        let original = std::fs::read_to_string(&path).unwrap();
        assert!(copy.text.starts_with(&original), "{name}\n{}", copy.text);
        assert_eq!(copy.losses(), [""; 0], "{name}");
        assert_eq!(context(&*commits, &thread).await, context(&*copy.commits, &copy.thread).await, "{name}");
    }
}

#[tokio::test]
async fn the_export_of_a_continued_import_mends_damaged_lines() {
    let line = |id: &str, parent: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"2026-01-05T10:00:01.000Z","message":{{"role":"user","content":"{id}"}}}}"#
        )
    };
    let header = r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-05T10:00:00.000Z","cwd":"/x"}"#;
    let (a, b) = (line("a", "null"), line("b", "\"a\""));
    let line_with_same_id = line("b", "\"b\"").replace("\"content\":\"b\"", "\"content\":\"again\"");
    let text = format!("{header}\n{a}\n{}{b}\nnonsense\n{line_with_same_id}\n", &b[..60]);
    let folder = tempdir().unwrap();
    let commits = new_store();
    let path = write_file(folder.path(), "damaged.jsonl", &text);
    let thread = import_one(&*commits, &path).await.thread.unwrap();
    let thread_version = commits.threads().load_thread(&thread).await.unwrap().unwrap().version;
    let more =
        Commit::new(thread.clone()).expecting(Expect::Version(thread_version)).entry(entry("c", Message::user("c")));
    let _receipt = commits.commit(more).await.unwrap();
    let copy = export_and_import(&*commits, &thread, "pi-v3").await;
    let lines: Vec<_> = copy.text.lines().collect();
    // The export does not change a line that pi cannot read, because pi ignores it.
    assert_eq!(lines[..4], [header, a.as_str(), b.as_str(), "nonsense"]);
    assert_eq!(lines[4], line_with_same_id.replace("\"id\":\"b\"", "\"id\":\"b#L5\""));
    assert!(lines[5].contains("\"parentId\":\"b#L5\""), "{}", lines[5]);
    assert_eq!(context(&*commits, &thread).await, context(&*copy.commits, &copy.thread).await);
    let v4 = export_and_import(&*commits, &thread, "pi-v4").await;
    assert!(v4.losses().contains(&"L4 /origin/raw raw".to_owned()), "{:?}", v4.losses());
    assert_eq!(context(&*commits, &thread).await, context(&*v4.commits, &v4.thread).await);
}

/// Exports a thread and imports the result.
async fn export_and_import(
    commits: &dyn store_core::CommitCoordinator,
    thread: &store_core::ThreadId,
    version: &str,
) -> Reimport {
    let mut out = Vec::new();
    let options = ExportOptions::new(format(version));
    let report = export(&*commits.threads(), thread, &options, ExportTarget::Stream(&mut out)).await.unwrap();
    assert!(!report.exact);
    let folder = tempdir().unwrap();
    let other_store = new_store();
    let import_report = import_one(&*other_store, &write_file(folder.path(), "copy.jsonl", &out)).await;
    Reimport {
        report,
        text: String::from_utf8(out).unwrap(),
        commits: other_store,
        thread: import_report.thread.unwrap(),
    }
}
