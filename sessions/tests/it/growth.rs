//! Tests of files that grow, change, or were imported in part.

use sessions::{ImportOptions, ImportReport, IssueCode, import};
use store_core::{CommitCoordinator, NewEntry, ThreadId};
use tempfile::tempdir;

use crate::helpers::{
    custom_kind, entries, export_bytes, fixtures, format, has_no_message, import_one, new_store, write_file,
};

async fn check_export(commits: &dyn CommitCoordinator, report: &ImportReport, bytes: &[u8]) {
    let format = report.format.unwrap().parse().unwrap();
    let (found, exact) = export_bytes(commits, report.thread.as_ref().unwrap(), format).await;
    assert!(exact);
    assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(bytes));
}

#[tokio::test]
async fn a_grown_file_adds_its_new_lines() {
    for name in [
        "pi/v3-tree.jsonl",
        "pi/v2-branches.jsonl",
        "pi/v4-lanes.jsonl",
        "agent-core/branches.jsonl",
        "bad/pi-dangling-and-cycle.jsonl",
        "codex/rolled-back.jsonl",
    ] {
        let bytes = std::fs::read(fixtures().join(name)).unwrap();
        let ends: Vec<_> = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
        let folder = tempdir().unwrap();
        let commits = new_store();
        // The first lines do not always show the format.
        let format_name = name.split(['/', '-']).find(|part| ["pi", "codex"].contains(part)).unwrap_or("agent-core");
        let options = ImportOptions::default().with_format(format(format_name));
        let mut known_line_entries = 0;
        for (lines, end) in ends.iter().enumerate().skip(1) {
            let path = write_file(folder.path(), "grown.jsonl", &bytes[..*end]);
            let report = import(&*commits, &path, &options).await.unwrap().remove(0);
            assert_eq!(report.lines as usize, lines + 1);
            if has_no_message(&report) {
                assert_eq!(known_line_entries, 0, "{name}: line {}", lines + 1);
                continue;
            }
            assert!(report.added > 0 && report.count(IssueCode::ChangedFile) == 0, "{name}: line {}", lines + 1);
            check_export(&*commits, &report, &bytes[..*end]).await;
            let line_entries = entries(&*commits, report.thread.as_ref().unwrap()).await;
            let line_entries = line_entries.iter().filter(|entry| entry.origin.as_ref().unwrap().line > 0).count();
            assert!(line_entries > known_line_entries);
            known_line_entries = line_entries;
        }
        let report = import_one(&*commits, &fixtures().join(name)).await;
        assert!(report.is_imported(), "{name}");
    }
}

#[tokio::test]
async fn files_with_the_same_name_keep_their_threads() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let line = |id: usize, text: &str| {
        format!("{{\"id\":\"{id}\",\"type\":\"user\",\"role\":\"user\",\"content\":\"{text}\",\"timestamp\":{id}}}\n")
    };
    let mut texts = [line(1, "a"), line(2, "b"), line(3, "c")];
    // The number of entries that each import adds to each thread: one for a line, and one with the provenance.
    for added in [[2, 2, 2], [0, 0, 0], [0, 0, 2]] {
        // The third file grows before the last import.
        if added == [0, 0, 2] {
            texts[2] += &line(4, "more");
        }
        for (at, text) in texts.iter().enumerate() {
            std::fs::create_dir_all(folder.path().join(at.to_string())).unwrap();
            write_file(folder.path(), &format!("{at}/s.jsonl"), text);
        }
        let reports = import(&*commits, folder.path(), &ImportOptions::default()).await.unwrap();
        let threads: Vec<_> = reports.iter().map(|report| report.thread.as_ref().unwrap().as_str()).collect();
        assert_eq!(threads, ["s", "s-2", "s-3"]);
        assert_eq!(reports.iter().map(|report| report.added).collect::<Vec<_>>(), added);
    }
}

#[tokio::test]
async fn a_file_cut_at_any_byte_is_completed_by_a_later_import() {
    let bytes = std::fs::read(fixtures().join("bad/pi-bom-crlf.jsonl")).unwrap();
    let second_line_start = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in second_line_start..bytes.len() {
        let folder = tempdir().unwrap();
        let commits = new_store();
        let path = write_file(folder.path(), "cut.jsonl", &bytes[..cut]);
        let first = import_one(&*commits, &path).await;
        if !has_no_message(&first) {
            check_export(&*commits, &first, &bytes[..cut]).await;
        }
        write_file(folder.path(), "cut.jsonl", &bytes);
        let whole = import_one(&*commits, &path).await;
        assert!(first.thread.is_none() || whole.thread == first.thread, "cut at {cut}");
        check_export(&*commits, &whole, &bytes).await;
        assert_eq!(import_one(&*commits, &path).await.added, 0, "cut at {cut}");
        let head = commits.threads().load_thread(whole.thread.as_ref().unwrap()).await.unwrap().unwrap().head;
        assert!(head.unwrap().as_str().starts_with("d2"), "cut at {cut}");
    }
}

#[tokio::test]
async fn a_torn_last_line_is_stored_and_completed_by_a_later_import() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let torn = std::fs::read(fixtures().join("bad/pi-torn-last-line.jsonl")).unwrap();
    let path = write_file(folder.path(), "torn.jsonl", &torn);
    let first = import_one(&*commits, &path).await;
    assert_eq!(first.count(IssueCode::TornLastLine), 1);
    let mut whole = torn.clone();
    whole.extend_from_slice(b"e\":{\"role\":\"user\",\"content\":\"three\"}}\n");
    write_file(folder.path(), "torn.jsonl", &whole);
    let second = import_one(&*commits, &path).await;
    assert_eq!((second.thread.clone(), second.issues.len()), (first.thread, 0));
    let found = entries(&*commits, second.thread.as_ref().unwrap()).await;
    let of_line: Vec<_> = found.iter().filter(|entry| entry.origin.as_ref().unwrap().line == 4).collect();
    assert_eq!(of_line.len(), 2);
    assert_eq!((of_line[0].id.as_str(), custom_kind(of_line[0])), ("L4", "import.line"));
    assert_eq!(of_line[1].id.as_str(), "d3");
    check_export(&*commits, &second, &whole).await;
}

#[tokio::test]
async fn stored_entries_keep_their_parents_when_a_missing_parent_appears() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let user = |id: &str, parent: &str| {
        format!(
            "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":{parent},\"timestamp\":\"2026-01-05T10:00:01.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{id}\"}}}}\n"
        )
    };
    let header = "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"2026-01-05T10:00:00.000Z\"}\n";
    let first = format!("{header}{}{}", user("a", "null"), user("b", "\"late\""));
    let path = write_file(folder.path(), "late.jsonl", &first);
    assert_eq!(import_one(&*commits, &path).await.leaves, 2);
    let compaction = "{\"type\":\"compaction\",\"id\":\"c\",\"parentId\":\"b\",\"timestamp\":\"2026-01-05T10:00:02.000Z\",\"summary\":\"S\",\"firstKeptEntryId\":\"nobody\"}\n";
    let grown = format!("{first}{}{compaction}", user("late", "\"a\""));
    write_file(folder.path(), "late.jsonl", &grown);
    let report = import_one(&*commits, &path).await;
    check_export(&*commits, &report, grown.as_bytes()).await;
    let found = entries(&*commits, report.thread.as_ref().unwrap()).await;
    let entry_of = |id: &str| found.iter().find(|entry| entry.id.as_str() == id).unwrap();
    assert_eq!(entry_of("b").parent, None);
    let store_core::Body::Compaction(compaction) = &*entry_of("c").body else { unreachable!() };
    assert_eq!(compaction.covers.as_ref().unwrap().from.as_str(), "b");
}

#[tokio::test]
async fn a_grown_file_updates_the_title() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let bytes = std::fs::read(fixtures().join("pi/v3-tree.jsonl")).unwrap();
    let path = write_file(folder.path(), "titled.jsonl", &bytes);
    let thread = import_one(&*commits, &path).await.thread.unwrap();
    let line = r#"{"type":"session_info","id":"c0","parentId":"b0000012","timestamp":"2026-01-05T10:00:19.000Z","name":"New"}"#;
    write_file(folder.path(), "titled.jsonl", [&bytes, line.as_bytes(), b"\n"].concat());
    let _report = import_one(&*commits, &path).await;
    let title = commits.threads().load_thread(&thread).await.unwrap().unwrap().title;
    assert_eq!(title.as_deref(), Some("New"));
}

#[tokio::test]
async fn a_file_with_changed_lines_becomes_a_new_thread() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let bytes = std::fs::read(fixtures().join("agent-core/linear-tools.jsonl")).unwrap();
    let path = write_file(folder.path(), "work.jsonl", &bytes);
    let first = import_one(&*commits, &path).await;
    assert_eq!(first.thread.as_ref().unwrap().as_str(), "work");
    let changed = String::from_utf8(bytes.clone()).unwrap().replace("create hello.ts", "create a file");
    write_file(folder.path(), "work.jsonl", &changed);
    let second = import_one(&*commits, &path).await;
    assert_eq!(second.thread.as_ref().unwrap().as_str(), "work-2");
    assert_eq!(second.count(IssueCode::ChangedFile), 1);
    check_export(&*commits, &second, changed.as_bytes()).await;
    check_export(&*commits, &first, &bytes).await;
    assert_eq!(import_one(&*commits, &path).await.added, 0);
}

#[tokio::test]
async fn a_thread_id_in_use_gets_a_suffix() {
    let commits = new_store();
    let other = ThreadId::new("branches").unwrap();
    let commit = store_core::Commit::new(other)
        .expecting(store_core::Expect::Absent)
        .entry(NewEntry::new(store_core::Message::user("mine")));
    let _receipt = commits.commit(commit).await.unwrap();
    let report = import_one(&*commits, &fixtures().join("agent-core/branches.jsonl")).await;
    assert_eq!((report.thread.as_ref().unwrap().as_str(), report.count(IssueCode::TakenId)), ("branches-2", 1));
}

#[tokio::test]
async fn a_killed_import_can_be_continued() {
    let folder = tempdir().unwrap();
    let lines: String = (0..2500)
        .map(|n| {
            let parent = if n == 0 { "null".to_owned() } else { format!("\"m{}\"", n - 1) };
            format!(
                "{{\"id\":\"m{n}\",\"parentId\":{parent},\"type\":\"user\",\"content\":\"{n}\",\"timestamp\":{}}}\n",
                1_708_300_000 + n
            )
        })
        .collect();
    let path = write_file(folder.path(), "long.jsonl", &lines);
    let commits = new_store();
    let killed = crate::helpers::FailingCoordinator::after(&*commits, 2);
    assert!(import(&killed, &path, &ImportOptions::default()).await.is_err());
    let partial_thread = commits.threads().load_thread(&ThreadId::new("long").unwrap()).await.unwrap().unwrap();
    // The first entry is committed alone, with the time at which the session was created.
    assert_eq!(partial_thread.version.number(), 1001);
    let report = import_one(&*commits, &path).await;
    assert_eq!((report.entries, report.added), (2501, 1500));
    check_export(&*commits, &report, lines.as_bytes()).await;
}

#[tokio::test]
async fn a_last_line_that_a_killed_import_read_incompletely_is_imported_once() {
    let line = |n: u32| format!("{{\"id\":\"m{n}\",\"type\":\"user\",\"content\":\"{n}\",\"timestamp\":{n}}}");
    let whole: String = (1..=1202).map(|n| format!("{}{} \n", if n == 1201 { " " } else { "" }, line(n))).collect();
    let last_line_start = whole.find("{\"id\":\"m1201\"").unwrap();
    // The killed import reads a last line that is empty so far, torn, or complete without its line end.
    for cut in [0, 20, line(1201).len()] {
        let folder = tempdir().unwrap();
        let commits = new_store();
        let path = write_file(folder.path(), "last.jsonl", &whole[..last_line_start + cut]);
        let killed = crate::helpers::FailingCoordinator::after(&*commits, 2);
        assert!(import(&killed, &path, &ImportOptions::default()).await.is_err());
        write_file(folder.path(), "last.jsonl", &whole);
        let report = import_one(&*commits, &path).await;
        assert_eq!(report.thread.as_ref().unwrap().as_str(), "last");
        let found = entries(&*commits, report.thread.as_ref().unwrap()).await;
        let of_line: Vec<_> = found.iter().filter(|entry| entry.origin.as_ref().unwrap().line == 1201).collect();
        assert_eq!(of_line.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["m1201"], "cut at {cut}");
        check_export(&*commits, &report, whole.as_bytes()).await;
        assert_eq!(import_one(&*commits, &path).await.added, 0, "cut at {cut}");
    }
}

#[tokio::test]
async fn a_thread_that_was_continued_still_takes_new_lines() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let first = "{\"id\":\"a\",\"type\":\"user\",\"content\":\"one\",\"timestamp\":1}\n";
    let path = write_file(folder.path(), "on.jsonl", first);
    let report = import_one(&*commits, &path).await;
    let thread = report.thread.unwrap();
    let version = commits.threads().load_thread(&thread).await.unwrap().unwrap().version;
    let mine = NewEntry::new(store_core::Message::assistant("mine")).with_id(store_core::EntryId::new("b").unwrap());
    let commit = store_core::Commit::new(thread.clone()).expecting(store_core::Expect::Version(version)).entry(mine);
    let _receipt = commits.commit(commit).await.unwrap();
    assert_eq!(import_one(&*commits, &path).await.added, 0);
    let grown = format!(
        "{first}{}",
        "{\"id\":\"b\",\"parentId\":\"a\",\"type\":\"user\",\"content\":\"two\",\"timestamp\":2}\n"
    );
    write_file(folder.path(), "on.jsonl", grown);
    let report = import_one(&*commits, &path).await;
    assert_eq!(report.thread, Some(thread.clone()));
    let thread = commits.threads().load_thread(&thread).await.unwrap().unwrap();
    assert_eq!((thread.head.unwrap().as_str(), thread.leaves), ("b", 2));
    assert_eq!((report.added, report.count(IssueCode::HeadKept)), (3, 1), "{:?}", report.issues);
}

#[tokio::test]
async fn the_head_that_a_user_set_stays_until_the_user_moves_it() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let line = |n: u32| format!("{{\"id\":\"m{n}\",\"type\":\"user\",\"content\":\"{n}\",\"timestamp\":{n}}}\n");
    let write_lines = |lines: u32| write_file(folder.path(), "on.jsonl", (1..=lines).map(line).collect::<String>());
    let thread = import_one(&*commits, &write_lines(2)).await.thread.unwrap();
    let append = async |entry: NewEntry| {
        let version = commits.threads().load_thread(&thread).await.unwrap().unwrap().version;
        let commit = store_core::Commit::new(thread.clone()).expecting(store_core::Expect::Version(version));
        commits.commit(commit.entry(entry)).await.unwrap()
    };
    let load_head = async || commits.threads().load_thread(&thread).await.unwrap().unwrap().head.unwrap();
    let mine = store_core::EntryId::new("mine").unwrap();
    let _receipt = append(NewEntry::new(store_core::Message::user("mine")).with_id(mine.clone())).await;
    // An import that adds nothing does not move the head.
    let same = import_one(&*commits, &write_lines(2)).await;
    assert_eq!((same.added, same.issues.len(), load_head().await), (0, 0, mine.clone()));
    let strict = import(&*commits, &write_lines(3), &ImportOptions::default().strict()).await.unwrap().remove(0);
    assert_eq!((strict.thread, strict.issues[0].code), (None, IssueCode::HeadKept));
    for lines in [3, 2_500] {
        let report = import_one(&*commits, &write_lines(lines)).await;
        assert_eq!((report.count(IssueCode::HeadKept), load_head().await), (1, mine.clone()), "{lines}");
        assert_eq!(import_one(&*commits, &write_lines(lines)).await.added, 0, "{lines}");
    }
    let rewind = store_core::RewindTo::Entry(store_core::EntryId::new("m2500").unwrap());
    let _receipt = append(NewEntry::new(rewind)).await;
    let report = import_one(&*commits, &write_lines(2_501)).await;
    assert_eq!((report.issues.len(), load_head().await.as_str()), (0, "m2501"));
}

#[tokio::test]
async fn a_compressed_file_is_imported_like_its_content() {
    use std::io::Write;
    let line = |n: u32| format!("{{\"id\":\"m{n}\",\"type\":\"user\",\"content\":\"{}\",\"timestamp\":{n}}}\n", n * n);
    let bytes = (1..=5000).map(line).collect::<String>().into_bytes();
    let folder = tempdir().unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&bytes).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(bytes.as_slice(), 3).unwrap();
    for (name, compressed) in [("a.jsonl.gz", &gzip), ("a.jsonl.zst", &zstd)] {
        let commits = new_store();
        let report = import_one(&*commits, &write_file(folder.path(), name, compressed)).await;
        check_export(&*commits, &report, &bytes).await;
        let commits = new_store();
        let cut_report =
            import_one(&*commits, &write_file(folder.path(), name, &compressed[..compressed.len() - 12])).await;
        assert_eq!(cut_report.count(IssueCode::TornLastLine), 1, "{name}: {:?}", cut_report.issues);
    }
}
