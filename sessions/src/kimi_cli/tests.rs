//! Tests that every file of a session can be written again from its entries, byte for byte.

use std::{collections::HashMap, path::Path};

use store_core::{Body, NewBody, NewEntry};

use super::{encode, first_pass};
use crate::{
    error::Error,
    issue::Issues,
    json::Object,
    lines::stored_body,
    options::ImportOptions,
    provenance::{FileProvenance, LastLine, StoredAs},
    session::{FirstPassResult, Session, StoredEntries},
};

fn draft_entries(session: &dyn Session) -> Vec<NewEntry> {
    let stored = StoredEntries::default();
    let mut drafts = session.drafts(&stored).unwrap();
    let mut entries = Vec::new();
    while let Some(draft) = drafts.next(&mut Issues::default()).unwrap() {
        entries.push(draft.entry);
    }
    entries
}

/// The bytes of the line that an entry represents.
fn line_bytes(entry: &NewEntry, by_id: &HashMap<&str, &NewEntry>) -> Vec<u8> {
    if let Some(raw) = entry.origin.as_ref().and_then(|origin| origin.raw.as_ref()) {
        return raw.to_vec();
    }
    if let NewBody::Custom(custom) = &entry.body
        && custom.kind == "kimi-cli.shared"
    {
        let original = Object::parse(custom.data.as_str()).unwrap().text("entry").unwrap();
        return line_bytes(by_id[original.as_str()], by_id);
    }
    let body: Body = stored_body(&entry.body).unwrap();
    encode::encode_context_line(&body).or_else(|| encode::encode_wire_record(&body)).unwrap().into_bytes()
}

fn file_bytes(provenance: &FileProvenance, prefix: &str, entries: &[NewEntry]) -> Vec<u8> {
    let by_id: HashMap<_, _> = entries.iter().map(|entry| (entry.id.as_ref().unwrap().as_str(), entry)).collect();
    let mut out = if provenance.bom { b"\xef\xbb\xbf".to_vec() } else { Vec::new() };
    for number in 1..=provenance.lines {
        if provenance.blank.contains(number) {
            out.extend(provenance.white_space_of(number).as_bytes());
        } else {
            let id = format!("{prefix}L{number}");
            let shared = format!("{id}.shared");
            let entry = by_id.get(id.as_str()).or_else(|| by_id.get(shared.as_str())).unwrap();
            assert_eq!(entry.origin.as_ref().unwrap().line, number);
            out.extend(line_bytes(entry, &by_id));
        }
        if provenance.crlf.contains(number) {
            out.push(b'\r');
        }
        if number < provenance.lines || provenance.last == LastLine::Ended {
            out.push(b'\n');
        }
    }
    out
}

/// Checks every file of a session. Returns how many lines of context and wire files keep their raw bytes, and how many
/// lines there are.
fn check_round_trip(path: &Path) -> (usize, usize) {
    let FirstPassResult::Sessions(sessions) = first_pass::run_first_pass(path, &ImportOptions::default()).unwrap()
    else {
        panic!("refused")
    };
    let (mut raw_lines, mut all_lines) = (0, 0);
    for found in sessions {
        let info = found.session.info();
        let entries = draft_entries(&*found.session);
        let mut position = 0;
        for provenance in &info.provenance.files {
            let name = provenance.name.as_deref().unwrap_or_default();
            if provenance.stored != StoredAs::Entries {
                continue;
            }
            let bytes = std::fs::read(info.file.join(name)).unwrap();
            let prefix = match name {
                "wire.jsonl" => "wire.".to_owned(),
                _ if provenance.bytes == 0 => continue,
                _ if provenance.lines == 0 => {
                    let kept = |entry: &&NewEntry| entry.origin.as_ref().unwrap().raw.as_deref() == Some(&bytes);
                    let as_json = |entry: &&NewEntry| match &entry.body {
                        NewBody::Custom(custom) => custom.data.as_str().as_bytes() == bytes,
                        _ => false,
                    };
                    assert!(entries.iter().any(|entry| kept(&entry) || as_json(&entry)), "{name}");
                    continue;
                }
                _ => {
                    position += 1;
                    if position == 1 { String::new() } else { format!("{position}.") }
                }
            };
            let found = file_bytes(provenance, &prefix, &entries);
            assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(&bytes), "{path:?}: {name}");
            assert!(found == bytes, "{path:?}: {name}");
        }
        let lines = entries.iter().filter_map(|entry| entry.origin.as_ref()).filter(|origin| origin.line > 0);
        all_lines += lines.clone().count();
        raw_lines += lines.filter(|origin| origin.raw.is_some()).count();
    }
    (raw_lines, all_lines)
}

#[test]
fn every_file_round_trips() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for (name, raw_lines, all_lines) in [
        ("kimi-cli/tool-calls", 0, 20),
        ("kimi-cli/parallel-calls", 0, 20),
        // Messages with spaces between fields, which keep their raw bytes.
        ("kimi-cli/spaced-messages", 3, 20),
        ("kimi-cli/media", 2, 20),
        ("kimi-cli/archived", 0, 20),
        ("kimi-cli/broken-state", 3, 6),
        ("kimi-cli/parts", 2, 6),
        // Control lines and records without spaces, and a summary, which keep their raw bytes.
        ("kimi-cli/rotated", 22, 47),
        ("bad/kimi-context", 8, 13),
    ] {
        assert_eq!(check_round_trip(&fixtures.join(name)), (raw_lines, all_lines), "{name}");
    }
}

#[test]
fn odd_files_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("uploads")).unwrap();
    std::fs::write(path("context.jsonl.2"), "\u{feff}{\"role\":\"user\",\"content\":\"a\"}\r\n \r\n{\"role\":7}\r\n")
        .unwrap();
    std::fs::write(path("context.jsonl.1"), "").unwrap();
    std::fs::write(path("context_1.jsonl"), b"{\"role\":\"user\",\"content\":\"\xff\"}\n\n\n{\"role\":\"us").unwrap();
    std::fs::write(path("context.jsonl"), "{\"role\":\"user\",\"content\":\"b\"}").unwrap();
    std::fs::write(path("wire.jsonl"), "{\"type\": \"metadata\"}\n\n[]\n{\"timestamp\": 1.5}\n").unwrap();
    std::fs::write(path("uploads/a.bin"), b"\x00\x01").unwrap();
    std::fs::write(path("state.json"), "[1]").unwrap();
    assert_eq!(check_round_trip(folder.path()).1, 8);
}

#[test]
fn each_whole_file_is_read_when_its_draft_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a.bin", "b.bin", "c.bin"] {
        std::fs::write(path(name), name).unwrap();
    }
    std::fs::write(path("context.jsonl"), "{\"role\":\"user\",\"content\":\"a\"}\n").unwrap();
    let FirstPassResult::Sessions(sessions) =
        first_pass::run_first_pass(folder.path(), &ImportOptions::default()).unwrap()
    else {
        panic!()
    };
    let stored = StoredEntries::default();
    let mut drafts = sessions[0].session.drafts(&stored).unwrap();
    let mut next = || drafts.next(&mut Issues::default());
    let raw = |entry: NewEntry| entry.origin.unwrap().raw.unwrap();
    // The first two drafts are the provenance and the line.
    let _before = (next().unwrap().unwrap(), next().unwrap().unwrap());
    assert_eq!(raw(next().unwrap().unwrap().entry), "a.bin");
    std::fs::write(path("c.bin"), "other").unwrap();
    assert_eq!(raw(next().unwrap().unwrap().entry), "b.bin");
    assert!(matches!(next(), Err(Error::Changed { path: changed }) if changed == path("c.bin")));
}
